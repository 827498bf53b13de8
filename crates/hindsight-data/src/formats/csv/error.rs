//! What is wrong with a CSV file, and what to do about it.

use std::io;

use crate::{cells::Cell, formats::few};

/// Bytes of the longest record.
pub(super) const MAX_RECORD: u64 = 1 << 24;

/// A compressed file may expand to 256 MB, or to this many times its size if that is more.
pub(super) const MAX_RATIO: u64 = 200;

/// What is wrong with a CSV file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
// The message of a variant says what its fields are.
#[allow(missing_docs)]
pub enum CsvError {
    /// Reading or decompressing failed.
    #[error("cannot be read: {0}")]
    Read(#[from] io::Error),
    /// A compressed file that expands too much.
    #[error(
        "found more than {most} bytes after decompressing, expected at most {MAX_RATIO} for each of the {packed}"
    )]
    Expands { packed: u64, most: u64 },
    /// Bytes that are not UTF-8.
    #[error("line {line}: found bytes that are not text in UTF-8")]
    Text { line: u64 },
    /// A record without an end, most likely of a file that is not text.
    #[error("line {line}: found more than {MAX_RECORD} bytes, expected a line of values")]
    Long { line: u64 },
    /// A quote that is not closed.
    #[error("line {line}: found a quote that is not closed, expected quotes around whole values")]
    Quote { line: u64 },
    /// Not even a header.
    #[error("the file is empty, expected a header and a line per sample")]
    Empty,
    /// A header and nothing below it.
    #[error("found a header and no samples, expected a line per sample")]
    NoSamples,
    /// Two columns with one name.
    #[error("line {line}: found the column `{column}` twice, expected each name once")]
    Twice { line: u64, column: String },
    /// A column without a name, such as the index that pandas writes.
    #[error("line {line}: column {number} has no name, expected one for each")]
    Unnamed { line: u64, number: usize },
    /// A column that was asked for does not exist.
    #[error("line {line}: no column `{column}`, found {}", few(found))]
    NoColumn { line: u64, column: String, found: Vec<String>, header: bool },
    /// No column is left for features.
    #[error("line {line}: found no column of features, expected at least one beside {}", few(found))]
    NoFeatures { line: u64, found: Vec<String> },
    /// A line with another number of values than the first.
    #[error("line {line}: found {found} values, expected {expected} as in the first line")]
    Length { line: u64, found: usize, expected: usize },
    /// An empty value.
    #[error("line {line}: no value in column `{column}`, expected one in every line")]
    Missing { line: u64, column: String, feature: bool },
    /// A feature that is not a number.
    #[error("line {line}: `{found}` in column `{column}`, expected a number")]
    Number { line: u64, column: String, found: String },
    /// A feature that is NaN, infinite, or does not fit 32 bits.
    #[error("line {line}: `{found}` in column `{column}`, expected a finite number below 3.4e38")]
    NotFinite { line: u64, column: String, found: String },
    /// None or several of the columns that name tasks are not zero.
    #[error("line {line}: {found} of the columns {} are not zero, expected one: the task", few(columns))]
    OneHot { line: u64, found: usize, columns: Vec<String> },
    /// A column of text that is not one of categories.
    #[error("column `{column}` has more than {most} different texts, expected categories")]
    Categories { column: String, most: usize },
}

impl CsvError {
    pub(crate) fn hint(&self) -> String {
        match self {
            CsvError::Read(_) => "is it a file, and may it be read?",
            CsvError::Expands { .. } => "decompress the file first",
            CsvError::Long { .. } => "is it a text file, and is every quote closed?",
            CsvError::Text { .. } => "save the file as text in UTF-8",
            CsvError::Quote { .. } => "double the quotes inside a quoted value",
            CsvError::Empty | CsvError::NoSamples => "the first line names the columns, each further line is a sample",
            CsvError::Unnamed { .. } => "name it, or leave it out with `ignore = [\"\"]`",
            CsvError::Twice { .. } => {
                "give each column a name of its own; if the first line is a sample, set `header = false` in the stream file"
            }
            CsvError::NoColumn { header: false, .. } => {
                "without a header, columns are named `1`, `2` and so on; if the first line is a header although it \
                 is all numbers, set `header = true` in the stream file"
            }
            CsvError::NoColumn { .. } | CsvError::NoFeatures { .. } => {
                "`label`, `task`, `features` and `ignore` in the stream file name columns; `delimiter` separates \
                 them; `header = false` names them `1`, `2` and so on"
            }
            CsvError::OneHot { .. } => "`task` in the stream file lists the columns; or name one column of tasks",
            CsvError::Length { .. } => "is a value missing, or a text with the delimiter not in quotes?",
            CsvError::Missing { feature: false, .. } => "fill it in, or leave the line out",
            CsvError::Missing { .. } => {
                "set `missing = \"mean\"` or `missing = \"drop\"` in the stream file, or list the column in `ignore` \
                 if it is not a feature"
            }
            CsvError::NotFinite { found, .. } if Cell::parse(found) == Cell::Missing => {
                "set `missing = \"mean\"` or `missing = \"drop\"` in the stream file"
            }
            CsvError::NotFinite { .. } => {
                "leave the line out, use another unit, or list the column in `ignore` if it is not a feature"
            }
            CsvError::Number { found, .. } if found.contains(',') => "write decimal points instead of commas",
            CsvError::Number { found, .. } if Cell::parse(found) == Cell::Missing => {
                "set `missing = \"mean\"` or `missing = \"drop\"` in the stream file"
            }
            CsvError::Number { .. } => {
                "set `text = \"one-hot\"` in the stream file for columns of text; list columns that are not features \
                 in `ignore`"
            }
            CsvError::Categories { .. } => "list the column in `ignore` in the stream file",
        }
        .to_owned()
    }
}
