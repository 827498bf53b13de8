//! Reservoir sampling: at any time a uniform sample of all that was seen.

use std::borrow::Cow;

use hindsight_nn::Rng;

use super::{Precision, store::SampleStore};
use crate::{
    Batch,
    state::{State, StateError, Tensors},
};

/// A fixed number of slots over the whole stream, the running task included.
#[derive(Debug, Clone, PartialEq)]
pub struct Reservoir {
    capacity: usize,
    seen: usize,
    samples: SampleStore,
    candidates: Vec<u32>,
    slots: Vec<Option<usize>>,
}

impl Reservoir {
    /// An empty memory of `capacity` samples.
    pub fn new(capacity: usize) -> Reservoir {
        let samples = SampleStore::new(Precision::F32);
        Reservoir { capacity, seen: 0, samples, candidates: Vec::new(), slots: Vec::new() }
    }

    /// The same, empty, with values kept in `precision`.
    pub fn with_precision(self, precision: Precision) -> Reservoir {
        Reservoir { samples: SampleStore::new(precision), ..self }
    }

    /// Offers the samples of `batch`: the n-th of the stream takes a uniform slot with probability M/n.
    /// Returns the slot that each sample went to, if any: its index in [`Reservoir::samples`].
    pub fn write(&mut self, batch: &Batch, rng: &mut Rng) -> &[Option<usize>] {
        self.slots.clear();
        for i in 0..batch.len() {
            let (x, label, task) = batch.sample(i);
            self.seen += 1;
            if self.samples.len() < self.capacity {
                self.slots.push(Some(self.samples.len()));
                self.samples.push(x, label, task);
                continue;
            }
            let slot = Some(rng.below(self.seen)).filter(|&slot| slot < self.capacity);
            self.slots.push(slot);
            if let Some(slot) = slot {
                self.samples.set(slot, x, label, task);
            }
        }
        &self.slots
    }

    /// Appends `count` distinct samples to `to`, drawn uniformly, or all there are if fewer. Returns their
    /// slots.
    pub fn draw(&mut self, count: usize, rng: &mut Rng, to: &mut Batch) -> &[u32] {
        let drawn = super::draw(self.samples.len(), count, &mut self.candidates, rng);
        drawn.iter().for_each(|&slot| self.samples.append(slot as usize, to));
        drawn
    }

    /// Number of samples held.
    pub fn len(&self) -> usize {
        self.samples.len()
    }

    /// Whether none is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All samples held.
    pub fn samples(&self) -> Cow<'_, Batch> {
        self.samples.samples()
    }

    /// What their inputs take.
    pub fn bytes(&self) -> u64 {
        self.samples.bytes()
    }
}

impl State for Reservoir {
    fn save(&self, name: &str, to: &mut Tensors) {
        self.samples.save(name, to);
        self.seen.save(&format!("{name}.seen"), to);
    }

    fn load(&mut self, name: &str, from: &Tensors) -> Result<(), StateError> {
        self.samples.load(name, from)?;
        let held = self.samples.len();
        if held > self.capacity {
            let expected = format!("at most {}", self.capacity);
            return Err(StateError::new(name, format!("{held} samples"), expected));
        }
        self.seen.load(&format!("{name}.seen"), from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_of_the_stream_is_held_with_the_same_frequency() {
        let (capacity, length, rounds) = (5, 40, 4000);
        let mut rng = Rng::named(1, "reservoir");
        let mut held = vec![0; length];
        for _ in 0..rounds {
            let mut memory = Reservoir::new(capacity);
            for i in 0..length {
                let mut batch = Batch::default();
                batch.push(&[i as f32], 0, 0);
                memory.write(&batch, &mut rng);
            }
            assert_eq!(memory.samples().len(), capacity);
            memory.samples().x.iter().for_each(|&x| held[x as usize] += 1);
        }
        // M/n = 1/8 of 4,000 rounds, with a deviation of 21: five of them either way.
        assert!(held.iter().all(|&n| (395..=605).contains(&n)), "{held:?}");
    }

    #[test]
    fn labels_and_tasks_move_with_their_input() {
        let mut memory = Reservoir::new(3);
        let mut rng = Rng::named(2, "reservoir");
        for i in 0..50 {
            let mut batch = Batch::default();
            batch.push(&[i as f32], i, i + 1);
            memory.write(&batch, &mut rng);
        }
        for i in 0..3 {
            let samples = memory.samples();
            let (x, label, task) = samples.sample(i);
            assert!(x[0] as u32 == label && task == label + 1);
        }
    }

    #[test]
    fn a_reservoir_without_capacity_stays_empty() {
        let mut memory = Reservoir::new(0);
        let mut batch = Batch::default();
        batch.push(&[1.0], 0, 0);
        memory.write(&batch, &mut Rng::named(1, "reservoir"));
        assert!(memory.samples().is_empty());
    }

    #[test]
    fn slots_and_indices_are_those_of_the_samples() {
        let mut memory = Reservoir::new(4);
        let mut rng = Rng::named(3, "reservoir");
        let mut kept = Vec::new();
        for i in 0..40 {
            let mut batch = Batch::default();
            batch.push(&[i as f32], i, 0);
            if let [Some(slot)] = *memory.write(&batch, &mut rng) {
                kept.resize(kept.len().max(slot + 1), 0);
                kept[slot] = i;
            }
        }
        assert_eq!(kept, memory.samples().labels);
        let mut drawn = Batch::default();
        let indices = memory.draw(3, &mut rng, &mut drawn).to_vec();
        assert_eq!(indices.iter().map(|&i| kept[i as usize]).collect::<Vec<_>>(), drawn.labels);
    }
}
