//! What is wrong with the rows of a table, or with one of them.

use std::io;

use crate::{formats::few, suggest::nearest};

/// What is wrong with the rows of a table, or with one of them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
// The message of a variant says what its fields are.
#[allow(missing_docs)]
pub enum RowError {
    /// A file that is not there, or cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// Not a single row.
    #[error("found no rows, expected at least one")]
    Empty,
    /// A line that is no JSON object.
    #[error("{place}: {reason}, expected a JSON object such as {{\"a\": 1.5, \"label\": \"x\"}}")]
    Json { place: String, reason: String },
    /// A column that is needed does not exist.
    #[error("no column `{column}`, found {}", few(found))]
    NoColumn { column: String, found: Vec<String> },
    /// Two columns with one name.
    #[error("found the column `{column}` twice, expected each name once")]
    Twice { column: String },
    /// Columns that the model knows nothing of.
    #[error("found {} beside the columns of the model, expected {}", few(found), few(expected))]
    Unexpected { found: Vec<String>, expected: Vec<String> },
    /// A row with another number of values.
    #[error("{place}: found {found} values, expected {expected}")]
    Width { place: String, found: usize, expected: usize },
    /// A row without a label, which is needed.
    #[error("{place}: no label, expected one in every row")]
    NoLabel { place: String },
    /// A value that is not there.
    #[error("{place}: no value in column `{column}`, expected a number")]
    Missing { place: String, column: String },
    /// Text where numbers are expected.
    #[error("{place}: `{found}` in column `{column}`, expected a number")]
    Text { place: String, column: String, found: String },
    /// A number that does not fit 32 bits.
    #[error("{place}: `{found}` in column `{column}`, expected a finite number below 3.4e38")]
    NotFinite { place: String, column: String, found: f64 },
    /// A column of text that is no category.
    #[error("column `{column}` has more than {most} different texts, expected categories")]
    Categories { column: String, most: usize },
    /// An image that cannot be decoded.
    #[error("{place}: {reason}")]
    Image { place: String, reason: String },
}

impl RowError {
    /// Whether it concerns one row, and those after it can be read.
    pub fn is_of_one_row(&self) -> bool {
        match self {
            RowError::Unreadable(_)
            | RowError::Empty
            | RowError::NoColumn { .. }
            | RowError::Twice { .. }
            | RowError::Unexpected { .. }
            | RowError::Categories { .. } => false,
            RowError::Json { .. }
            | RowError::Width { .. }
            | RowError::NoLabel { .. }
            | RowError::Missing { .. }
            | RowError::Text { .. }
            | RowError::NotFinite { .. }
            | RowError::Image { .. } => true,
        }
    }

    pub(crate) fn hint(&self) -> String {
        match self {
            RowError::Unreadable(_) => "is it a file, and may it be read?",
            RowError::Empty => "is it the right file?",
            RowError::Json { .. } => "one object per line; `--skip-bad` leaves such lines out",
            RowError::NoColumn { column, found } => {
                return match nearest(column, found.iter().map(String::as_str)) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "`--label` and `--task-column` name columns; the others are the features".to_owned(),
                };
            }
            RowError::Twice { .. } => "give each column a name of its own",
            RowError::Unexpected { found, .. } => {
                return format!("leave them out with `--ignore {}`", found.join(","));
            }
            RowError::Width { .. } => "give all values of every row; `--skip-bad` leaves such rows out",
            RowError::NoLabel { .. } => "fill it in; `--skip-bad` leaves such rows out",
            RowError::Missing { .. } => {
                "`--missing mean` or `--missing drop` when the model is made; `--skip-bad` leaves the row out"
            }
            RowError::Text { column, .. } => {
                return format!(
                    "when the model is made, `--text one-hot` takes texts as categories and `--ignore {column}` \
                     leaves the column out; `--skip-bad` leaves the row out"
                );
            }
            RowError::NotFinite { .. } => "use another unit; `--skip-bad` leaves the row out",
            RowError::Categories { column, .. } => return format!("leave it out with `--ignore {column}`"),
            RowError::Image { .. } => "replace the file; `--skip-bad` leaves it out",
        }
        .to_owned()
    }
}
