//! A greedy memory that keeps as many samples of each class of each task as of any other.

use std::{borrow::Cow, collections::BTreeMap};

use hindsight_nn::Rng;

use super::{Precision, store::SampleStore};
use crate::{
    Batch,
    state::{State, StateError, Tensors},
};

/// A fixed number of slots. A sample is kept while its class of its task has less than an equal share; a full
/// memory gives up a random sample of the class that has most.
#[derive(Debug, Clone, PartialEq)]
pub struct Balanced {
    capacity: usize,
    samples: SampleStore,
    /// Samples of each class of each task that has come.
    counts: BTreeMap<(u32, u32), usize>,
}

impl Balanced {
    /// An empty memory of `capacity` samples, with values kept in `precision`.
    pub fn new(capacity: usize, precision: Precision) -> Balanced {
        Balanced { capacity, samples: SampleStore::new(precision), counts: BTreeMap::new() }
    }

    /// Offers the samples of `batch`.
    pub fn write(&mut self, batch: &Batch, rng: &mut Rng) {
        for (x, label, task) in batch {
            let count = *self.counts.entry((task, label)).or_default();
            // The share of a class that is new is at least one sample, where there are slots at all.
            if self.capacity == 0 || count > 0 && count * self.counts.len() >= self.capacity {
                continue;
            }
            if self.samples.len() < self.capacity {
                self.samples.push(x, label, task);
            } else {
                let slot = self.victim(rng);
                let (label_then, task_then) = self.samples.answer(slot);
                *self.counts.entry((task_then, label_then)).or_default() -= 1;
                self.samples.set(slot, x, label, task);
            }
            *self.counts.entry((task, label)).or_default() += 1;
        }
    }

    /// A random sample of the class that has most, the first of several.
    fn victim(&self, rng: &mut Rng) -> usize {
        let most = self.counts.values().max().copied().unwrap_or(0);
        let largest = self.counts.iter().find(|&(_, &count)| count == most).map(|(&class, _)| class);
        let class = |slot: usize| {
            let (label, task) = self.samples.answer(slot);
            Some((task, label))
        };
        let of_it: Vec<usize> = (0..self.samples.len()).filter(|&slot| class(slot) == largest).collect();
        of_it[rng.below(of_it.len())]
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

impl State for Balanced {
    fn save(&self, name: &str, to: &mut Tensors) {
        self.samples.save(name, to);
        self.counts.save(&format!("{name}.counts"), to);
    }

    fn load(&mut self, name: &str, from: &Tensors) -> Result<(), StateError> {
        self.samples.load(name, from)?;
        let held = self.samples.len();
        if held > self.capacity {
            let expected = format!("at most {}", self.capacity);
            return Err(StateError::new(name, format!("{held} samples"), expected));
        }
        let part = format!("{name}.counts");
        self.counts.load(&part, from)?;
        let mut found = self.counts.clone();
        found.values_mut().for_each(|count| *count = 0);
        for (label, task) in (0..held).map(|slot| self.samples.answer(slot)) {
            *found.entry((task, label)).or_default() += 1;
        }
        if found != self.counts {
            return Err(StateError::new(&part, "other numbers", "those of the samples"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(memory: &mut Balanced, rng: &mut Rng, samples: impl IntoIterator<Item = (u32, u32)>) {
        for (i, (label, task)) in samples.into_iter().enumerate() {
            let mut batch = Batch::default();
            batch.push(&[i as f32], label, task);
            memory.write(&batch, rng);
        }
    }

    #[test]
    fn classes_of_tasks_end_with_equal_shares_whatever_the_order() {
        let mut rng = Rng::named(1, "balanced");
        let mut memory = Balanced::new(12, Precision::F32);
        // A rare class, a common one, and the same classes of a later task.
        offer(&mut memory, &mut rng, (0..100).map(|i| (u32::from(i % 10 == 0), 0)));
        assert_eq!((memory.counts[&(0, 0)], memory.counts[&(0, 1)]), (6, 6));
        offer(&mut memory, &mut rng, (0..50).map(|i| (i % 2, 1)));
        assert!(memory.counts.values().all(|&count| count == 3), "{:?}", memory.counts);
        assert_eq!(memory.samples().len(), 12);
    }

    #[test]
    fn a_memory_without_slots_stays_empty_and_one_of_few_slots_within_them() {
        let mut rng = Rng::named(1, "balanced");
        for capacity in [0, 3] {
            let mut memory = Balanced::new(capacity, Precision::U8);
            offer(&mut memory, &mut rng, (0..60).map(|i| (i % 7, 0)));
            assert_eq!(memory.samples().len(), capacity);
        }
    }
}
