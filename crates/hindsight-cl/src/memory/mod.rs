//! Episodic memories: which samples of the stream are kept, and how they are drawn again.

mod balanced;
mod payload;
mod reservoir;
mod ring;
mod store;

pub use balanced::Balanced;
pub use payload::Payload;
pub use reservoir::Reservoir;
pub use ring::Ring;

use std::borrow::Cow;

use hindsight_nn::Rng;

pub use crate::settings::Precision;

use crate::{
    Batch, RetainedSamples,
    state::{State, StateError, Tensors},
};

/// What a replay method draws from.
#[derive(Debug, Clone, PartialEq)]
pub enum Memory {
    /// The latest samples of each class of each task.
    Ring(Ring),
    /// A uniform sample of all that came, and the generator that chooses it.
    Reservoir(Reservoir, Box<Rng>),
}

impl Memory {
    /// Offers the samples of `batch`; returns the slot that each went to, if any.
    pub fn write(&mut self, batch: &Batch) -> &[Option<usize>] {
        match self {
            Memory::Ring(ring) => ring.write(batch),
            Memory::Reservoir(reservoir, rng) => reservoir.write(batch, rng),
        }
    }

    /// From now on a ring's samples of the running task are drawn too.
    pub fn end_task(&mut self) {
        match self {
            Memory::Ring(ring) => ring.end_task(),
            Memory::Reservoir(..) => {}
        }
    }

    /// Number of samples that a draw chooses from.
    pub fn available(&self) -> usize {
        match self {
            Memory::Ring(ring) => ring.available(),
            Memory::Reservoir(reservoir, _) => reservoir.len(),
        }
    }

    /// Appends `count` distinct samples to `to`, drawn uniformly, or all there are if fewer. Returns their
    /// slots.
    pub fn draw(&mut self, count: usize, rng: &mut Rng, to: &mut Batch) -> &[u32] {
        match self {
            Memory::Ring(ring) => ring.draw(count, rng, to),
            Memory::Reservoir(reservoir, _) => reservoir.draw(count, rng, to),
        }
    }

    /// All samples held.
    pub fn samples(&self) -> Cow<'_, Batch> {
        match self {
            Memory::Ring(ring) => ring.samples(),
            Memory::Reservoir(reservoir, _) => reservoir.samples(),
        }
    }

    /// They and what they take.
    pub fn retained(&self) -> RetainedSamples<'_> {
        RetainedSamples::of(self.samples(), self.bytes())
    }

    /// What their inputs take.
    pub fn bytes(&self) -> u64 {
        match self {
            Memory::Ring(ring) => ring.bytes(),
            Memory::Reservoir(reservoir, _) => reservoir.bytes(),
        }
    }
}

impl State for Memory {
    fn save(&self, name: &str, to: &mut Tensors) {
        match self {
            Memory::Ring(ring) => ring.save(name, to),
            Memory::Reservoir(reservoir, rng) => {
                reservoir.save(name, to);
                rng.save(&format!("{name}.draws"), to);
            }
        }
    }

    fn load(&mut self, name: &str, from: &Tensors) -> Result<(), StateError> {
        match self {
            Memory::Ring(ring) => ring.load(name, from),
            Memory::Reservoir(reservoir, rng) => {
                reservoir.load(name, from)?;
                rng.load(&format!("{name}.draws"), from)
            }
        }
    }
}

/// `count` distinct numbers below `available`, uniformly, or all there are if fewer.
pub(crate) fn draw<'c>(
    available: usize,
    count: usize,
    candidates: &'c mut Vec<u32>,
    rng: &mut Rng,
) -> &'c [u32] {
    let count = count.min(available);
    candidates.clear();
    candidates.extend(0..available as u32);
    rng.shuffle_front(candidates, count);
    &candidates[..count]
}
