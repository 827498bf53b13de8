//! Samples as learners take them.

use std::ops::Range;

/// Samples of any number of tasks: inputs, labels and task ids, row by row.
///
/// ```
/// use hindsight::Batch;
///
/// let mut batch = Batch::default();
/// batch.push(&[0.5, 1.0], 3, 0);
/// batch.push(&[0.0, 2.0], 4, 1);
/// let later: Batch = batch.iter().filter(|(_, _, task)| *task > 0).collect();
/// assert_eq!(later.sample(0), (&[0.0, 2.0][..], 4, 1));
///
/// batch.extend(&later);
/// assert_eq!((batch.len(), batch.width()), (3, 2));
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Batch {
    /// Inputs, `[len, width]`.
    pub x: Vec<f32>,
    /// Classes, `[len]`.
    pub labels: Vec<u32>,
    /// The task that each sample is of, `[len]`.
    pub tasks: Vec<u32>,
}

impl Batch {
    /// Number of samples.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Values in an input.
    pub fn width(&self) -> usize {
        self.x.len() / self.len().max(1)
    }

    /// Drops all samples and keeps the memory.
    pub fn clear(&mut self) {
        self.x.clear();
        self.labels.clear();
        self.tasks.clear();
    }

    /// Appends one sample.
    pub fn push(&mut self, x: &[f32], label: u32, task: u32) {
        self.x.extend_from_slice(x);
        self.labels.push(label);
        self.tasks.push(task);
    }

    /// Input, label and task of sample `i`.
    pub fn sample(&self, i: usize) -> (&[f32], u32, u32) {
        let width = self.width();
        (&self.x[i * width..][..width], self.labels[i], self.tasks[i])
    }

    /// Input, label and task of every sample.
    pub fn iter(&self) -> BatchIter<'_> {
        BatchIter { batch: self, places: 0..self.len() }
    }
}

/// The samples of a [`Batch`], in order.
#[derive(Debug, Clone)]
pub struct BatchIter<'b> {
    batch: &'b Batch,
    places: Range<usize>,
}

impl<'b> Iterator for BatchIter<'b> {
    type Item = (&'b [f32], u32, u32);

    fn next(&mut self) -> Option<Self::Item> {
        self.places.next().map(|place| self.batch.sample(place))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.places.size_hint()
    }
}

impl<'b> IntoIterator for &'b Batch {
    type Item = (&'b [f32], u32, u32);
    type IntoIter = BatchIter<'b>;

    fn into_iter(self) -> BatchIter<'b> {
        self.iter()
    }
}

impl<'b> Extend<(&'b [f32], u32, u32)> for Batch {
    fn extend<I: IntoIterator<Item = (&'b [f32], u32, u32)>>(&mut self, samples: I) {
        samples.into_iter().for_each(|(x, label, task)| self.push(x, label, task));
    }
}

impl<'b> FromIterator<(&'b [f32], u32, u32)> for Batch {
    fn from_iter<I: IntoIterator<Item = (&'b [f32], u32, u32)>>(samples: I) -> Batch {
        let mut batch = Batch::default();
        batch.extend(samples);
        batch
    }
}
