//! Cells of a table, and what a user should know of them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One value of a table.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Nothing, or a word that says so.
    Missing,
    /// A number.
    Number(f64),
    /// True or false.
    Bool(bool),
    /// Any other text.
    Text(String),
}

impl Cell {
    /// A value as text files have it, without space around it.
    pub fn parse(text: &str) -> Cell {
        // Most are numbers, but `nan` and `inf` are not what is meant by one.
        if text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c))
            && let Ok(number) = text.parse()
        {
            return Cell::Number(number);
        }
        let is = |words: &[&str]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
        match text {
            _ if is(&["", "na", "n/a", "nan", "null", "none", "?"]) => Cell::Missing,
            _ if is(&["true"]) => Cell::Bool(true),
            _ if is(&["false"]) => Cell::Bool(false),
            _ if is(&["inf", "infinity"]) => Cell::Number(f64::INFINITY),
            text => Cell::Text(text.to_owned()),
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Missing => Ok(()),
            Cell::Number(number) => number.fmt(f),
            Cell::Bool(truth) => truth.fmt(f),
            Cell::Text(text) => text.fmt(f),
        }
    }
}

/// What becomes of a row with a missing value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Missing {
    /// It is refused.
    #[default]
    Refuse,
    /// The mean of the column, as it was when the model was made, takes its place.
    Mean,
    /// The row is left out.
    Drop,
}

/// What becomes of a column with text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TextColumns {
    /// It is refused.
    #[default]
    Refuse,
    /// Each of its texts becomes a feature that is 1 where the text stands, else 0.
    OneHot,
}

/// The most categories of a column.
pub(crate) const MAX_CATEGORIES: usize = 256;

/// A share of samples between classes that is worth a note.
const IMBALANCE: u64 = 20;

/// What should be known of classes with so many samples, if some have far more than others.
pub fn imbalance<'n>(samples: impl Iterator<Item = (u64, &'n str)> + Clone) -> Option<String> {
    let counted = samples.filter(|(count, _)| *count > 0);
    let ((most, common), (fewest, rare)) = (counted.clone().max()?, counted.min()?);
    (most >= IMBALANCE * fewest).then(|| {
        format!(
            "class `{common}` has {most} samples, `{rare}` has {fewest}: accuracy says little about rare classes"
        )
    })
}

/// What was met in a table that its user should know.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Hazards {
    /// Values that were missing.
    pub missing: u64,
    /// Rows that were left out for that.
    pub dropped: u64,
    /// Integers that 32-bit floats cannot hold: how many, and the first with its column.
    pub inexact: u64,
    /// The first of those, and its column.
    pub first_inexact: Option<(f64, String)>,
    /// Texts that a column of categories did not have: how many.
    pub unknown: u64,
    /// The first of those, and its column.
    pub first_unknown: Option<(String, String)>,
}

impl Hazards {
    /// What was met, in a sentence each; `ignore` says how a column is left out.
    pub fn notes(&self, ignore: impl Fn(&str) -> String) -> Vec<String> {
        let Hazards { missing, dropped, inexact, first_inexact, unknown, first_unknown } = self;
        let missing = match (*dropped, *missing) {
            (0, 0) => None,
            (0, missing) => {
                Some(format!("{missing} missing values were replaced by the mean of their column"))
            }
            (dropped, _) => Some(format!("{dropped} rows with a missing value were left out")),
        };
        let inexact = first_inexact.as_ref().map(|(number, column)| {
            format!(
                "{inexact} integers are too large to be exact in 32 bits, the first is {number} in column \
                 `{column}`; if that is an identifier, {}",
                ignore(column)
            )
        });
        let unknown = first_unknown.as_ref().map(|(text, column)| {
            format!(
                "{unknown} texts are not among the categories and count as none of them, the first is `{text}` in \
                 column `{column}`"
            )
        });
        [missing, inexact, unknown].into_iter().flatten().collect()
    }

    pub(crate) fn note_inexact(&mut self, number: f64, column: &str) {
        self.inexact += 1;
        self.first_inexact.get_or_insert_with(|| (number, column.to_owned()));
    }

    fn note_unknown(&mut self, text: String, column: &str) {
        self.unknown += 1;
        self.first_unknown.get_or_insert_with(|| (text, column.to_owned()));
    }
}

/// Appends a feature for each of a column's categories: 1 for that of `cell`, 0 for the others.
pub(crate) fn push_one_hot(
    cell: &Cell,
    texts: &[String],
    column: &str,
    hazards: &mut Hazards,
    to: &mut Vec<f32>,
) {
    let text = cell.to_string();
    let known = texts.iter().position(|known| *known == text);
    if known.is_none() && !text.is_empty() {
        hazards.note_unknown(text, column);
    }
    to.extend((0..texts.len()).map(|i| f32::from(u8::from(Some(i) == known))));
}
