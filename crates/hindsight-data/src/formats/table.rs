//! What the readers of custom streams return: samples, their labels and, where the file has them, their
//! tasks.

use std::collections::HashMap;

/// The samples of one file.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleTable {
    /// Channels, height and width of a sample; `[1, 1, width]` if it is not an image.
    pub shape: [usize; 3],
    /// Names of the features; empty for formats without names.
    pub features: Vec<String>,
    /// All samples, one after the other: `[n, width]`.
    pub values: Values,
    /// The label of each sample.
    pub labels: Categorical,
    /// The task of each sample, if the file has a column or array of tasks.
    pub tasks: Option<Categorical>,
    /// The line of each sample; empty for binary formats.
    pub lines: Vec<u64>,
    /// What the reader assumed about the file and the user should know.
    pub notes: Vec<String>,
}

/// Feature values; images keep the 8 bits of their files.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Each byte is 255 times the value.
    Bytes(Vec<u8>),
    /// The values themselves.
    Floats(Vec<f32>),
}

impl Values {
    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            Values::Bytes(bytes) => bytes.len(),
            Values::Floats(floats) => floats.len(),
        }
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies the values from index `start` on into `row`.
    pub fn read(&self, start: usize, row: &mut [f32]) {
        match self {
            Values::Bytes(bytes) => {
                row.iter_mut().zip(&bytes[start..]).for_each(|(to, &byte)| *to = f32::from(byte) / 255.0);
            }
            Values::Floats(floats) => row.copy_from_slice(&floats[start..][..row.len()]),
        }
    }

    /// Appends `other`, which has the same variant because all files of a stream have one format.
    #[cfg(feature = "files")]
    pub(crate) fn append(&mut self, other: Values) {
        match (self, other) {
            (Values::Bytes(to), Values::Bytes(more)) => to.extend(more),
            (Values::Floats(to), Values::Floats(more)) => to.extend(more),
            _ => unreachable!("all files of a stream have one format"),
        }
    }
}

/// A category for each sample, such as its label, as a code into the list of categories.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Categorical {
    /// The distinct categories in order of first appearance.
    pub categories: Vec<String>,
    /// The index into `categories` for each sample.
    pub codes: Vec<u32>,
    index: HashMap<String, u32>,
}

impl Categorical {
    /// Appends the category of the next sample. The sign of a zero is dropped: `-0.0` and `0.0` are one
    /// label.
    pub fn push(&mut self, category: &str) {
        let category = match category.strip_prefix('-') {
            Some(rest) if rest.parse() == Ok(0.0) => rest,
            _ => category,
        };
        let code = self.index.get(category).copied().unwrap_or_else(|| {
            let code = self.categories.len() as u32;
            self.categories.push(category.to_owned());
            self.index.insert(category.to_owned(), code);
            code
        });
        self.codes.push(code);
    }

    /// The category of sample `i`.
    pub fn get(&self, i: usize) -> &str {
        &self.categories[self.codes[i] as usize]
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        self.codes.len()
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.codes.is_empty()
    }
}

impl<'c> FromIterator<&'c str> for Categorical {
    fn from_iter<I: IntoIterator<Item = &'c str>>(all: I) -> Categorical {
        let mut categorical = Categorical::default();
        all.into_iter().for_each(|category| categorical.push(category));
        categorical
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn categories_are_kept_once_and_in_order() {
        let labels: Categorical = ["b", "a", "b", "c", "a"].into_iter().collect();
        assert_eq!((&*labels.categories.concat(), &labels.codes[..]), ("bac", &[0, 1, 0, 2, 1][..]));
        assert_eq!((labels.get(3), labels.len()), ("c", 5));
    }

    #[test]
    fn zeros_of_both_signs_are_one_category() {
        let labels: Categorical = ["-0.0", "0.0", "-0", "0", "-1", "-"].into_iter().collect();
        assert_eq!(labels.categories, ["0.0", "0", "-1", "-"]);
        assert_eq!(labels.codes, [0, 0, 1, 1, 2, 3]);
    }

    #[test]
    fn bytes_are_read_as_fractions() {
        let mut row = [0.0; 2];
        Values::Bytes(vec![9, 0, 255]).read(1, &mut row);
        assert_eq!(row, [0.0, 1.0]);
        Values::Floats(vec![9.0, -3.0, 0.5]).read(1, &mut row);
        assert_eq!(row, [-3.0, 0.5]);
    }
}
