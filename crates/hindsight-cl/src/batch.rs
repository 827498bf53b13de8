//! Samples as learners take them.

/// Samples of any number of tasks: inputs, labels and task ids, row by row.
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

    /// Appends all samples of `other`.
    pub fn extend(&mut self, other: &Batch) {
        self.x.extend_from_slice(&other.x);
        self.labels.extend_from_slice(&other.labels);
        self.tasks.extend_from_slice(&other.tasks);
    }

    /// Input, label and task of sample `i`.
    pub fn sample(&self, i: usize) -> (&[f32], u32, u32) {
        let width = self.width();
        (&self.x[i * width..][..width], self.labels[i], self.tasks[i])
    }
}
