//! The ring memory of the paper: the latest m samples of each class of each task.

use std::{borrow::Cow, collections::BTreeMap};

use hindsight_nn::Rng;

use super::{Precision, store::SampleStore};
use crate::{
    Batch,
    state::{State, StateError, Tensors},
};

/// m slots per class per task, first in first out.
#[derive(Debug, Clone, PartialEq)]
pub struct Ring {
    slots: usize,
    /// Draw from the running task too, not only from the finished ones.
    running: bool,
    samples: SampleStore,
    cells: BTreeMap<(u32, u32), RingCell>,
    /// How many of `samples` are of finished tasks. Tasks come in order, so these are the first.
    finished: usize,
    candidates: Vec<u32>,
    written: Vec<Option<usize>>,
}

/// The samples of one class of one task, oldest at `next` once full.
#[derive(Debug, Clone, Default, PartialEq)]
struct RingCell {
    places: Vec<usize>,
    next: usize,
}

impl Ring {
    /// An empty memory of `slots` samples per class per task. Unless `running`, only finished tasks are
    /// drawn from.
    pub fn new(slots: usize, running: bool) -> Ring {
        Ring {
            slots,
            running,
            samples: SampleStore::new(Precision::F32),
            cells: BTreeMap::new(),
            finished: 0,
            candidates: Vec::new(),
            written: Vec::new(),
        }
    }

    /// The same, empty, with values kept in `precision`.
    pub fn with_precision(self, precision: Precision) -> Ring {
        Ring { samples: SampleStore::new(precision), ..self }
    }

    /// Writes the samples of `batch`; each replaces the oldest of its class and task where those are m.
    /// Returns the slot that each sample went to, if any: its index in [`Ring::samples`].
    pub fn write(&mut self, batch: &Batch) -> &[Option<usize>] {
        self.written.clear();
        self.written.resize(batch.len(), None);
        if self.slots == 0 {
            return &self.written;
        }
        for (i, written) in self.written.iter_mut().enumerate() {
            let (x, label, task) = batch.sample(i);
            let cell = self.cells.entry((task, label)).or_default();
            if cell.places.len() < self.slots {
                *written = Some(self.samples.len());
                cell.places.push(self.samples.len());
                self.samples.push(x, label, task);
            } else {
                let place = cell.places[cell.next];
                *written = Some(place);
                self.samples.set(place, x, label, task);
                cell.next = (cell.next + 1) % self.slots;
            }
        }
        &self.written
    }

    /// From now on the running task's samples are drawn too.
    pub fn end_task(&mut self) {
        self.finished = self.samples.len();
    }

    /// Number of samples that a draw chooses from.
    pub fn available(&self) -> usize {
        if self.running { self.samples.len() } else { self.finished }
    }

    /// Appends `count` distinct samples to `to`, drawn uniformly, or all there are if fewer. Returns their
    /// slots.
    pub fn draw(&mut self, count: usize, rng: &mut Rng, to: &mut Batch) -> &[u32] {
        let available = self.available();
        let drawn = super::draw(available, count, &mut self.candidates, rng);
        drawn.iter().for_each(|&slot| self.samples.append(slot as usize, to));
        drawn
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

impl State for Ring {
    fn save(&self, name: &str, to: &mut Tensors) {
        self.samples.save(name, to);
        self.finished.save(&format!("{name}.finished"), to);
        // The places of a cell are in the order in which its samples first came; only its age is to be told.
        let oldest = self.cells.values().map(|cell| cell.next as u64).collect();
        to.put_numbers(&format!("{name}.oldest"), oldest);
    }

    fn load(&mut self, name: &str, from: &Tensors) -> Result<(), StateError> {
        self.samples.load(name, from)?;
        let finished = format!("{name}.finished");
        self.finished.load(&finished, from)?;
        if self.finished > self.samples.len() {
            let expected = format!("at most {}", self.samples.len());
            return Err(StateError::new(&finished, self.finished.to_string(), expected));
        }
        self.cells.clear();
        for place in 0..self.samples.len() {
            let (label, task) = self.samples.answer(place);
            self.cells.entry((task, label)).or_default().places.push(place);
        }
        if let Some(cell) = self.cells.values().find(|cell| cell.places.len() > self.slots) {
            let found = format!("{} samples of one class of a task", cell.places.len());
            return Err(StateError::new(name, found, format!("at most {}", self.slots)));
        }
        let part = format!("{name}.oldest");
        let oldest = from.numbers(&part)?;
        if oldest.len() != self.cells.len() || oldest.iter().any(|&next| next >= self.slots as u64) {
            let expected = format!("{} numbers below {}", self.cells.len(), self.slots);
            return Err(StateError::new(&part, format!("{oldest:?}"), expected));
        }
        self.cells.values_mut().zip(oldest).for_each(|(cell, next)| cell.next = next as usize);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples whose input is their number in the stream.
    fn batch(samples: &[(f32, u32, u32)]) -> Batch {
        let mut batch = Batch::default();
        samples.iter().for_each(|&(x, label, task)| batch.push(&[x], label, task));
        batch
    }

    fn held(ring: &Ring) -> Vec<(u32, u32, f32)> {
        let samples = ring.samples();
        let mut held: Vec<_> =
            (0..samples.len()).map(|i| (samples.tasks[i], samples.labels[i], samples.x[i])).collect();
        held.sort_by(|a, b| a.partial_cmp(b).unwrap());
        held
    }

    #[test]
    fn ring_keeps_the_latest_of_each_class() {
        let mut ring = Ring::new(2, false);
        ring.write(&batch(&[(1.0, 0, 0), (2.0, 0, 0), (3.0, 1, 0), (4.0, 0, 0), (5.0, 0, 0)]));
        assert_eq!(held(&ring), [(0, 0, 4.0), (0, 0, 5.0), (0, 1, 3.0)]);
        ring.end_task();
        ring.write(&batch(&[(6.0, 0, 1), (7.0, 0, 1), (8.0, 0, 1), (9.0, 0, 1)]));
        assert_eq!(held(&ring), [(0, 0, 4.0), (0, 0, 5.0), (0, 1, 3.0), (1, 0, 8.0), (1, 0, 9.0)]);
    }

    #[test]
    fn ring_draws_distinct_samples_of_finished_tasks_only() {
        let mut ring = Ring::new(3, false);
        let mut rng = Rng::named(1, "replay");
        let mut drawn = Batch::default();
        ring.write(&batch(&[(1.0, 0, 0), (2.0, 1, 0), (3.0, 2, 0)]));
        ring.draw(2, &mut rng, &mut drawn);
        assert!(drawn.is_empty());
        ring.end_task();
        ring.write(&batch(&[(4.0, 0, 1)]));
        let mut times = [0; 4];
        for _ in 0..300 {
            drawn.clear();
            ring.draw(2, &mut rng, &mut drawn);
            assert_ne!(drawn.x[0], drawn.x[1]);
            drawn.x.iter().for_each(|&x| times[x as usize - 1] += 1);
        }
        assert!(times[..3].iter().all(|&n| (150..250).contains(&n)) && times[3] == 0, "{times:?}");
        drawn.clear();
        ring.draw(10, &mut rng, &mut drawn);
        assert_eq!(drawn.len(), 3);
    }

    #[test]
    fn ring_draws_from_the_running_task_when_told_to() {
        let mut ring = Ring::new(1, true);
        let mut drawn = Batch::default();
        ring.write(&batch(&[(1.0, 0, 0)]));
        ring.draw(10, &mut Rng::named(1, "replay"), &mut drawn);
        assert_eq!(drawn.len(), 1);
    }

    #[test]
    fn ring_without_slots_stays_empty() {
        let mut ring = Ring::new(0, true);
        ring.write(&batch(&[(1.0, 0, 0)]));
        assert!(ring.samples().is_empty());
    }

    #[test]
    fn slots_and_indices_are_those_of_the_samples() {
        let mut ring = Ring::new(1, true);
        assert_eq!(ring.write(&batch(&[(1.0, 0, 0), (2.0, 1, 0), (3.0, 0, 0)])), [Some(0), Some(1), Some(0)]);
        assert_eq!(ring.write(&batch(&[(4.0, 1, 0), (5.0, 0, 1)])), [Some(1), Some(2)]);
        let mut drawn = Batch::default();
        let indices = ring.draw(3, &mut Rng::named(1, "replay"), &mut drawn).to_vec();
        assert_eq!(drawn.x, indices.iter().map(|&i| [3.0, 4.0, 5.0][i as usize]).collect::<Vec<_>>());
        assert_eq!(Ring::new(0, true).write(&batch(&[(1.0, 0, 0)])), [None]);
    }
}
