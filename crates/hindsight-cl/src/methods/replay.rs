//! What all methods with a replay memory do: draw from it, and join what was drawn with the stream.

use hindsight_nn::Rng;

use super::Setup;
use crate::{Batch, memory::Memory, state::StateDict};

/// A memory, a ring unless set otherwise, with its generator and its buffers.
pub(super) struct Replay {
    pub(super) ring: Memory,
    /// Samples in a replay batch.
    pub(super) count: usize,
    rng: Rng,
    drawn: Batch,
}

impl Replay {
    pub(super) fn new(setup: &Setup<'_>) -> Replay {
        Replay {
            ring: setup.memory(),
            count: setup.shared.int("replay_batch"),
            rng: Rng::named(setup.seed, "replay"),
            drawn: Batch::default(),
        }
    }

    pub(super) fn state(&mut self) -> StateDict<'_> {
        vec![("ring", &mut self.ring), ("replay", &mut self.rng)]
    }

    /// `count` samples of the memory.
    pub(super) fn draw(&mut self, count: usize) -> &Batch {
        self.drawn.clear();
        self.ring.draw(count, &mut self.rng, &mut self.drawn);
        &self.drawn
    }

    /// B u B_M, the stream's samples first.
    pub(super) fn join(&mut self, batch: &Batch) -> &Batch {
        self.drawn.clear();
        self.drawn.extend(batch);
        self.ring.draw(self.count, &mut self.rng, &mut self.drawn);
        &self.drawn
    }
}
