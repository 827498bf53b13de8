//! What the readers of files of one's own give: samples, with their labels and, where the file tells them, their
//! tasks by name.

use std::collections::BTreeMap;

/// Samples as they stand in a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Channels, height and width of a sample; `[1, 1, width]` where it is no image.
    pub shape: [usize; 3],
    /// Names of the features, where they have some.
    pub features: Vec<String>,
    /// All samples, one after the other: `[n, width]`.
    pub values: Values,
    /// The label of each sample.
    pub labels: Words,
    /// The task of each sample, where the file tells it.
    pub tasks: Option<Words>,
    /// The line of each sample, in files that have lines.
    pub lines: Vec<u64>,
}

/// Numbers; images are kept in the 8 bits that they come in.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Each is 255 times the number.
    Bytes(Vec<u8>),
    /// The numbers.
    Floats(Vec<f32>),
}

impl Values {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Values::Bytes(bytes) => bytes.len(),
            Values::Floats(floats) => floats.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies those from `start` on to `row`.
    pub fn read(&self, start: usize, row: &mut [f32]) {
        match self {
            Values::Bytes(bytes) => {
                row.iter_mut().zip(&bytes[start..]).for_each(|(to, &byte)| *to = f32::from(byte) / 255.0);
            }
            Values::Floats(floats) => row.copy_from_slice(&floats[start..][..row.len()]),
        }
    }

    /// Appends those of `other`, which are of the same kind: one format gives one kind.
    pub(crate) fn append(&mut self, other: Values) {
        match (self, other) {
            (Values::Bytes(to), Values::Bytes(more)) => to.extend(more),
            (Values::Floats(to), Values::Floats(more)) => to.extend(more),
            _ => unreachable!("one format gives one kind of values"),
        }
    }
}

/// A word for each sample, such as its label; each word is kept once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Words {
    /// The different words, in the order in which they first appear.
    pub known: Vec<String>,
    /// Which of them each sample has.
    pub of: Vec<u32>,
    places: BTreeMap<String, u32>,
}

impl Words {
    /// Appends the word of the next sample.
    pub fn push(&mut self, word: &str) {
        let place = match self.places.get(word) {
            Some(&place) => place,
            None => {
                let place = self.known.len() as u32;
                self.known.push(word.to_owned());
                self.places.insert(word.to_owned(), place);
                place
            }
        };
        self.of.push(place);
    }

    /// The word of sample `i`.
    pub fn get(&self, i: usize) -> &str {
        &self.known[self.of[i] as usize]
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        self.of.len()
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }
}

impl<'w> FromIterator<&'w str> for Words {
    fn from_iter<I: IntoIterator<Item = &'w str>>(all: I) -> Words {
        let mut words = Words::default();
        all.into_iter().for_each(|word| words.push(word));
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_kept_once_and_in_order() {
        let words: Words = ["b", "a", "b", "c", "a"].into_iter().collect();
        assert_eq!(
            (words.known.as_slice(), words.of.as_slice()),
            (&["b", "a", "c"].map(String::from)[..], &[0, 1, 0, 2, 1][..])
        );
        assert_eq!((words.get(3), words.len()), ("c", 5));
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
