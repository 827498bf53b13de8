//! Reservoir sampling: at any time a uniform sample of all that was seen.

use hindsight_nn::Rng;

use crate::{
    Batch,
    state::{State, StateError, Tensors},
};

/// A fixed number of slots over the whole stream, the running task included.
#[derive(Debug, Clone, PartialEq)]
pub struct Reservoir {
    capacity: usize,
    seen: usize,
    samples: Batch,
    candidates: Vec<u32>,
}

impl Reservoir {
    /// An empty memory of `capacity` samples.
    pub fn new(capacity: usize) -> Reservoir {
        Reservoir { capacity, seen: 0, samples: Batch::default(), candidates: Vec::new() }
    }

    /// Offers the samples of `batch`: the n-th of the stream takes a uniform slot with probability M/n.
    pub fn write(&mut self, batch: &Batch, rng: &mut Rng) {
        for i in 0..batch.len() {
            let (x, label, task) = batch.sample(i);
            self.seen += 1;
            if self.samples.len() < self.capacity {
                self.samples.push(x, label, task);
                continue;
            }
            let slot = rng.below(self.seen);
            if slot < self.capacity {
                self.samples.x[slot * x.len()..][..x.len()].copy_from_slice(x);
                self.samples.labels[slot] = label;
                self.samples.tasks[slot] = task;
            }
        }
    }

    /// Appends `count` distinct samples to `to`, drawn uniformly, or all there are if fewer.
    pub fn draw(&mut self, count: usize, rng: &mut Rng, to: &mut Batch) {
        super::draw(&self.samples, self.samples.len(), count, &mut self.candidates, rng, to);
    }

    /// All samples held.
    pub fn samples(&self) -> &Batch {
        &self.samples
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
            let (x, label, task) = memory.samples().sample(i);
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
}
