//! What the readers of custom streams return: samples, their labels and, where the file has them, their
//! tasks.

use std::collections::HashMap;

use crate::samples::Values;

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
}
