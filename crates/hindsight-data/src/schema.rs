//! What the columns of a table are, and how a row becomes the numbers that a learner sees.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

pub use crate::cells::{Cell, Hazards, Missing, TextColumns, imbalance};

use crate::{
    cells::{MAX_CATEGORIES, push_one_hot},
    error::RowError,
};

/// A column that features are made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its mean in the rows that the schema was made of.
    pub mean: f32,
    /// Its texts, where it is a column of text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub categories: Option<Vec<String>>,
}

/// Which columns a table has, and what they are for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Schema {
    /// The column of labels.
    pub label: String,
    /// The column of tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Columns that are not used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<String>,
    /// What becomes of a row with a missing value.
    #[serde(default)]
    pub missing: Missing,
    /// The columns of the features.
    pub columns: Vec<Column>,
}

impl Schema {
    /// Finds out what the columns `names` hold, from `rows` of cells in that order.
    pub fn fit(
        &mut self,
        names: &[String],
        rows: &[(String, &[Cell])],
        text: TextColumns,
    ) -> Result<(), RowError> {
        self.columns.clear();
        for (i, name) in names.iter().enumerate() {
            let cells = || rows.iter().map(|(place, cells)| (place, &cells[i]));
            let (mut sum, mut count) = (0.0, 0.0_f64);
            for (_, cell) in cells() {
                let number = match cell {
                    Cell::Number(number) if number.is_finite() => *number,
                    Cell::Bool(truth) => f64::from(u8::from(*truth)),
                    _ => continue,
                };
                (sum, count) = (sum + number, count + 1.0);
            }
            let first_text = cells().find(|(_, cell)| matches!(cell, Cell::Text(_)));
            let categories = match (first_text, text) {
                (None, _) => None,
                (Some((place, cell)), TextColumns::Refuse) => {
                    let (place, column, found) = (place.clone(), name.clone(), cell.to_string());
                    return Err(RowError::Text { place, column, found });
                }
                (Some(_), TextColumns::OneHot) => {
                    let texts = cells().filter(|(_, cell)| **cell != Cell::Missing);
                    let texts: BTreeSet<String> = texts.map(|(_, cell)| cell.to_string()).collect();
                    if texts.len() > MAX_CATEGORIES {
                        return Err(RowError::Categories { column: name.clone(), most: MAX_CATEGORIES });
                    }
                    Some(texts.into_iter().collect())
                }
            };
            let mean = (sum / count.max(1.0)) as f32;
            let mean = if mean.is_finite() { mean } else { 0.0 };
            self.columns.push(Column { name: name.clone(), mean, categories });
        }
        Ok(())
    }

    /// The names of the features.
    pub fn features(&self) -> Vec<String> {
        let names = |column: &Column| match &column.categories {
            None => vec![column.name.clone()],
            Some(texts) => texts.iter().map(|text| format!("{}={text}", column.name)).collect(),
        };
        self.columns.iter().flat_map(names).collect()
    }

    /// How many features there are.
    pub fn width(&self) -> usize {
        self.columns.iter().map(|column| column.categories.as_ref().map_or(1, Vec::len)).sum()
    }

    /// The names of the columns.
    pub fn names(&self) -> Vec<String> {
        self.columns.iter().map(|column| column.name.clone()).collect()
    }

    /// Appends the features of a row, whose cells are in the order of the columns. False if it is left out;
    /// then, and on an error, nothing is appended.
    pub fn encode(
        &self,
        cells: &[Cell],
        place: impl Fn() -> String,
        hazards: &mut Hazards,
        to: &mut Vec<f32>,
    ) -> Result<bool, RowError> {
        let start = to.len();
        let kept = self.try_encode(cells, place, hazards, to);
        if !matches!(kept, Ok(true)) {
            to.truncate(start);
        }
        kept
    }

    fn try_encode(
        &self,
        cells: &[Cell],
        place: impl Fn() -> String,
        hazards: &mut Hazards,
        to: &mut Vec<f32>,
    ) -> Result<bool, RowError> {
        if cells.len() != self.columns.len() {
            return Err(RowError::Width { place: place(), found: cells.len(), expected: self.columns.len() });
        }
        for (cell, column) in cells.iter().zip(&self.columns) {
            if *cell == Cell::Missing {
                hazards.missing += 1;
                match self.missing {
                    Missing::Refuse => {
                        return Err(RowError::Missing { place: place(), column: column.name.clone() });
                    }
                    Missing::Drop => {
                        hazards.dropped += 1;
                        return Ok(false);
                    }
                    Missing::Mean => {}
                }
            }
            match (&column.categories, cell) {
                (None, Cell::Number(number)) => to.push(narrow(*number, column, &place, hazards)?),
                (None, Cell::Bool(truth)) => to.push(f32::from(u8::from(*truth))),
                (None, Cell::Missing) => to.push(column.mean),
                (None, Cell::Text(text)) => {
                    let (column, found) = (column.name.clone(), text.clone());
                    return Err(RowError::Text { place: place(), column, found });
                }
                (Some(texts), cell) => push_one_hot(cell, texts, &column.name, hazards, to),
            }
        }
        Ok(true)
    }
}

/// A number as the learner sees it.
fn narrow(
    number: f64,
    column: &Column,
    place: impl Fn() -> String,
    hazards: &mut Hazards,
) -> Result<f32, RowError> {
    let narrow = number as f32;
    if !narrow.is_finite() {
        return Err(RowError::NotFinite { place: place(), column: column.name.clone(), found: number });
    }
    if number.fract() == 0.0 && f64::from(narrow) != number {
        hazards.note_inexact(number, &column.name);
    }
    Ok(narrow)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(texts: &str) -> Vec<Cell> {
        texts.split(',').map(Cell::parse).collect()
    }

    fn fitted(missing: Missing, text: TextColumns) -> Result<Schema, RowError> {
        let rows = [cells("1,true,red"), cells(",false,blue"), cells("3,NA,red")];
        let rows: Vec<_> = rows.iter().map(|row| ("a row".to_owned(), row.as_slice())).collect();
        let names = ["a", "b", "c"].map(String::from);
        let mut schema = Schema { label: "kind".to_owned(), missing, ..Schema::default() };
        schema.fit(&names, &rows, text).map(|()| schema)
    }

    fn encoded(schema: &Schema, texts: &str) -> Result<(Option<Vec<f32>>, Hazards), RowError> {
        let (mut row, mut hazards) = (Vec::new(), Hazards::default());
        let kept = schema.encode(&cells(texts), || "line 7".to_owned(), &mut hazards, &mut row)?;
        assert_eq!(row.is_empty(), !kept);
        Ok((kept.then_some(row), hazards))
    }

    #[test]
    fn cells_are_numbers_truths_texts_or_missing() {
        assert_eq!(
            cells("-1.5e3,.5,TRUE,false,,?,NaN,x,1x,-"),
            [
                Cell::Number(-1500.0),
                Cell::Number(0.5),
                Cell::Bool(true),
                Cell::Bool(false),
                Cell::Missing,
                Cell::Missing,
                Cell::Missing,
                Cell::Text("x".to_owned()),
                Cell::Text("1x".to_owned()),
                Cell::Text("-".to_owned()),
            ]
        );
    }

    #[test]
    fn text_is_refused_or_one_feature_for_each_of_its_categories() {
        let error = fitted(Missing::Mean, TextColumns::Refuse).unwrap_err();
        assert_eq!(error.to_string(), "a row: `red` in column `c`, expected a number");
        let schema = fitted(Missing::Mean, TextColumns::OneHot).unwrap();
        assert_eq!(schema.features(), ["a", "b", "c=blue", "c=red"]);
        assert_eq!(schema.width(), 4);
        assert_eq!(encoded(&schema, "5,1,red").unwrap().0, Some(vec![5.0, 1.0, 0.0, 1.0]));
        let (row, hazards) = encoded(&schema, "5,1,green").unwrap();
        assert_eq!(row, Some(vec![5.0, 1.0, 0.0, 0.0]));
        assert_eq!((hazards.unknown, hazards.first_unknown), (1, Some(("green".into(), "c".into()))));
    }

    #[test]
    fn a_missing_value_is_refused_replaced_by_the_mean_or_ends_the_row() {
        let schema = |missing| fitted(missing, TextColumns::OneHot).unwrap();
        let error = encoded(&schema(Missing::Refuse), "1,?,red").unwrap_err();
        assert_eq!(error.to_string(), "line 7: no value in column `b`, expected a number");
        let mean = encoded(&schema(Missing::Mean), ",,").unwrap();
        assert_eq!((mean.0, mean.1.missing), (Some(vec![2.0, 0.5, 0.0, 0.0]), 3));
        let dropped = encoded(&schema(Missing::Drop), "1,?,red").unwrap();
        assert_eq!((dropped.0, dropped.1.dropped), (None, 1));
    }

    #[test]
    fn what_32_bits_cannot_hold_is_counted_or_refused() {
        let schema = fitted(Missing::Mean, TextColumns::OneHot).unwrap();
        let (row, hazards) = encoded(&schema, "16777217,0.1,red").unwrap();
        assert_eq!(row.unwrap()[0], 16777216.0);
        assert_eq!((hazards.inexact, hazards.first_inexact), (1, Some((16777217.0, "a".into()))));
        for large in ["1e39", "inf", "-1e999"] {
            let error = encoded(&schema, &format!("{large},0,red")).unwrap_err();
            assert!(matches!(error, RowError::NotFinite { .. }), "{error}");
        }
        assert!(matches!(encoded(&schema, "1,2"), Err(RowError::Width { found: 2, expected: 3, .. })));
    }

    #[test]
    fn classes_of_very_different_numbers_are_told() {
        let told = |counts: &[u64]| imbalance(counts.iter().copied().zip(["a", "b", "c"]));
        assert_eq!((told(&[]), told(&[0, 40, 3])), (None, None));
        let note = told(&[40, 0, 2]).unwrap();
        assert!(note.starts_with("class `a` has 40 samples, `c` has 2: "), "{note}");
    }

    #[test]
    fn a_column_of_many_texts_is_no_category() {
        let rows: Vec<Vec<Cell>> = (0..300).map(|i| vec![Cell::Text(format!("id{i}"))]).collect();
        let rows: Vec<_> = rows.iter().map(|row| (String::new(), row.as_slice())).collect();
        let error = Schema::default().fit(&["id".to_owned()], &rows, TextColumns::OneHot).unwrap_err();
        assert_eq!(error.to_string(), "column `id` has more than 256 different texts, expected categories");
    }
}
