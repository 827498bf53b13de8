//! The tasks of a custom stream: which samples each has, and what is to become of them.

use std::collections::BTreeMap;

use hindsight_nn::Rng;
use sha2::{Digest, Sha256};

use crate::{dataset::Dataset, hex::hex, schema::Schema};

/// How the samples of a data set make up a stream.
#[derive(Debug)]
pub struct CustomTasks {
    /// The tasks in their order.
    pub tasks: Vec<Part>,
    /// Whether the learner is told when a task ends.
    pub ends: bool,
    /// The classes of each task, where it has a head of its own.
    pub heads: Option<Vec<Vec<usize>>>,
    /// The share to hold out for test, and whether it is the last rows.
    pub(super) hold_out: Option<(f64, bool)>,
    /// Whether features are standardised.
    pub standardise: bool,
    /// Whether training rows come in random order.
    pub shuffled: bool,
    /// What the columns are, where the samples come from tables.
    pub schema: Option<Schema>,
}

/// The rows of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Name of the task.
    pub name: String,
    /// Rows to learn from; those to be held out for test are still among them.
    pub train: Vec<u32>,
    /// Rows for test, where they come from files of their own.
    pub test: Vec<u32>,
}

impl CustomTasks {
    /// SHA-256 of what was read, whatever files it came from: shape, numbers of classes and tasks, and of the
    /// rows of each task, first those for training, then those for test, the number, and of each the class
    /// and the values; numbers as 64 bits, classes and values as 32, all little-endian.
    pub fn checksum(&self, data: &Dataset) -> String {
        let mut hash = Sha256::new();
        let number = |n: usize| (n as u64).to_le_bytes();
        let counts = [data.classes, self.tasks.len()];
        data.shape.into_iter().chain(counts).for_each(|n| hash.update(number(n)));
        let mut values = Vec::new();
        for rows in self.tasks.iter().flat_map(|task| [&task.train, &task.test]) {
            hash.update(number(rows.len()));
            for &row in rows {
                hash.update(data.train.labels[row as usize].to_le_bytes());
                data.train.read(row as usize, data.width(), &mut values);
                hash.update(values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>());
            }
        }
        hex(&hash.finalize())
    }

    /// The rows of a task for training and for test, under a generator for those held out.
    pub fn split(&self, data: &Dataset, task: usize, rng: &mut Rng) -> (Vec<u32>, Vec<u32>) {
        let Part { train, test, .. } = &self.tasks[task];
        match self.hold_out {
            None => (train.clone(), test.clone()),
            Some((share, last)) => split_hold_out(train, &data.train.labels, share, last, rng),
        }
    }
}

/// Some of `rows` for training, the others for test.
///
/// The last ones, or a share of each label at random, of which one at least stays for training.
pub(super) fn split_hold_out(
    rows: &[u32],
    labels: &[u32],
    share: f64,
    last: bool,
    rng: &mut Rng,
) -> (Vec<u32>, Vec<u32>) {
    let count = |rows: usize| ((share * rows as f64).round() as usize).max(1).min(rows.saturating_sub(1));
    if last {
        let (train, test) = rows.split_at(rows.len() - count(rows.len()));
        return (train.to_vec(), test.to_vec());
    }
    let mut by_label: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    rows.iter().for_each(|&row| by_label.entry(labels[row as usize]).or_default().push(row));
    let (mut train, mut test) = (Vec::new(), Vec::new());
    for mut rows in by_label.into_values() {
        let count = count(rows.len());
        rng.shuffle_front(&mut rows, count);
        test.extend_from_slice(&rows[..count]);
        train.extend_from_slice(&rows[count..]);
    }
    // As in the file: only its order can be wanted.
    train.sort_unstable();
    test.sort_unstable();
    (train, test)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_label_a_share_is_held_out_and_one_sample_stays() {
        // Ten of label 0, four of label 1, one of label 2.
        let labels: Vec<u32> = [vec![0; 10], vec![1; 4], vec![2]].concat();
        let rows: Vec<u32> = (0..15).collect();
        let split = |seed| split_hold_out(&rows, &labels, 0.3, false, &mut Rng::named(seed, "hold out"));
        let (train, test) = split(0);
        let count = |rows: &[u32], label| rows.iter().filter(|&&row| labels[row as usize] == label).count();
        assert_eq!(
            [0, 1, 2].map(|label| (count(&train, label), count(&test, label))),
            [(7, 3), (3, 1), (1, 0)]
        );
        let mut all = [train.clone(), test.clone()].concat();
        all.sort_unstable();
        assert_eq!(all, rows);
        assert!(train.is_sorted() && test.is_sorted());
        assert_eq!(split(0), (train, test));
        assert_ne!(split(0), split(1));
        // Half of two would leave none of a pair to learn from if it were rounded up.
        let pair = split_hold_out(&[0, 1], &labels, 0.9, false, &mut Rng::named(0, "hold out"));
        assert_eq!((pair.0.len(), pair.1.len()), (1, 1));
    }

    #[test]
    fn the_last_rows_are_held_out_where_asked_for() {
        let split =
            |rows: &[u32], share| split_hold_out(rows, &[0; 9], share, true, &mut Rng::named(0, "hold out"));
        assert_eq!(split(&[1, 3, 5, 7, 8], 0.4), (vec![1, 3, 5], vec![7, 8]));
        assert_eq!(split(&[1, 3], 0.01), (vec![1], vec![3]), "at least one");
        assert_eq!(split(&[1, 3], 0.99), (vec![1], vec![3]), "but not all");
        assert_eq!(split(&[1], 0.5), (vec![1], vec![]));
    }
}
