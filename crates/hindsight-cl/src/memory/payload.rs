//! What a method keeps beside each sample of a memory, such as the logits that it was answered with.

use crate::state::{State, StateError, Tensors};

/// A row of values for each slot of a memory.
///
/// ```
/// use hindsight::{Batch, Rng, memory::{Payload, Reservoir}};
///
/// let (mut memory, mut logits) = (Reservoir::new(10), Payload::new(2));
/// let (mut rng, mut batch) = (Rng::named(0, "replay"), Batch::default());
/// batch.push(&[1.0, 2.0, 3.0], 0, 0);
/// logits.write(memory.write(&batch, &mut rng), &[0.7, -0.7]);
///
/// let (mut drawn, mut then) = (Batch::default(), Vec::new());
/// logits.read(memory.draw(4, &mut rng, &mut drawn), &mut then);
/// assert_eq!((drawn.len(), then), (1, vec![0.7, -0.7]));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Payload {
    width: usize,
    values: Vec<f32>,
}

impl Payload {
    /// None yet, of `width` values each.
    pub fn new(width: usize) -> Payload {
        Payload { width, values: Vec::new() }
    }

    /// Keeps the rows of the samples that got a slot, `slots` as the memory's `write` returned them.
    ///
    /// # Panics
    /// If there are fewer rows than slots.
    pub fn write(&mut self, slots: &[Option<usize>], rows: &[f32]) {
        for (slot, i) in slots.iter().zip(0..) {
            let Some(slot) = slot else { continue };
            let end = (slot + 1) * self.width;
            self.values.resize(self.values.len().max(end), 0.0);
            self.values[end - self.width..end].copy_from_slice(&rows[i * self.width..][..self.width]);
        }
    }

    /// Appends the rows of the samples that were drawn, `indices` as the memory's `draw` returned them.
    ///
    /// # Panics
    /// If nothing was written for one of them.
    pub fn read(&self, indices: &[u32], to: &mut Vec<f32>) {
        for &i in indices {
            to.extend_from_slice(&self.values[i as usize * self.width..][..self.width]);
        }
    }

    /// Rows held.
    pub fn len(&self) -> usize {
        self.values.len() / self.width.max(1)
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// What they take, for [`Learner::retained_bytes`](crate::Learner::retained_bytes).
    pub fn bytes(&self) -> u64 {
        size_of_val(self.values.as_slice()) as u64
    }
}

impl State for Payload {
    fn save(&self, name: &str, to: &mut Tensors) {
        to.put_rows(name, &self.values, self.width);
    }

    fn load(&mut self, name: &str, from: &Tensors) -> Result<(), StateError> {
        self.values = from.class_rows(name, self.width)?;
        Ok(())
    }
}
