//! What all methods with a replay memory do: draw from it, and join what was drawn with the stream.

use hindsight_nn::{Inputs, Rng};

use super::{Model, Setup, UPDATES};
use crate::{Batch, Learner, RetainedSamples, memory::Memory, state::StateDict};

/// A learner that is replay and an update rule: a method is its [`Update`].
pub(super) struct Replayed<U> {
    core: ReplayCore,
    update: U,
    /// Updates per batch.
    updates: usize,
}

/// The parameters, the network and the memory of a [`Replayed`] learner.
pub(super) struct ReplayCore {
    pub(super) model: Model,
    pub(super) theta: Vec<f32>,
    pub(super) replay: Replay,
}

/// The update rule of a method with replay.
pub(super) trait Update: Send + Sync {
    /// Moves theta and returns the loss before; `batch` is written to the memory afterwards.
    fn observe(&mut self, core: &mut ReplayCore, batch: &Batch) -> f32;

    /// The samples of that batch went to these slots of the memory.
    fn written(&mut self, _slots: &[Option<usize>]) {}

    /// The parameters that it answers with.
    fn answering<'a>(&'a self, theta: &'a [f32]) -> &'a [f32] {
        theta
    }

    /// What changes of it while it learns.
    fn state(&mut self) -> StateDict<'_> {
        StateDict::new()
    }

    /// Bytes that it keeps beside the samples.
    fn bytes(&self) -> u64 {
        0
    }
}

impl<U> Replayed<U> {
    pub(super) fn new(setup: &Setup<'_>, update: U) -> Replayed<U> {
        Replayed::with_memory(setup, setup.memory(), update)
    }

    pub(super) fn with_memory(setup: &Setup<'_>, memory: Memory, update: U) -> Replayed<U> {
        let replay = Replay { ring: memory, ..Replay::new(setup) };
        let (model, theta) = (Model::new(setup), setup.initial_theta());
        let updates = setup.method_settings.int(UPDATES.name);
        Replayed { core: ReplayCore { model, theta, replay }, update, updates }
    }
}

impl<U: Update> Learner for Replayed<U> {
    fn observe(&mut self, batch: &Batch) -> f32 {
        let loss = self.update.observe(&mut self.core, batch);
        for _ in 1..self.updates {
            self.update.observe(&mut self.core, batch);
        }
        self.update.written(self.core.replay.ring.write(batch));
        loss
    }

    fn end_task(&mut self) {
        self.core.replay.ring.end_task();
    }

    fn predict(&self, inputs: &Inputs<'_>, task: usize) -> Vec<u32> {
        self.core.model.predict(self.theta(), inputs, task)
    }

    fn predict_proba(&self, inputs: &Inputs<'_>, task: usize) -> Vec<f32> {
        self.core.model.predict_proba(self.theta(), inputs, task)
    }

    fn theta(&self) -> &[f32] {
        self.update.answering(&self.core.theta)
    }

    fn theta_mut(&mut self) -> Option<&mut [f32]> {
        Some(&mut self.core.theta)
    }

    fn state(&mut self) -> StateDict<'_> {
        let mut state: StateDict<'_> = vec![("theta", &mut self.core.theta)];
        state.extend(self.core.replay.state());
        state.extend(self.update.state());
        state
    }

    fn retained_samples(&self) -> RetainedSamples<'_> {
        self.core.replay.ring.retained()
    }

    fn retained_bytes(&self) -> u64 {
        self.retained_samples().bytes() + self.update.bytes()
    }
}

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
            count: setup.shared.replay_batch,
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

    /// B u B_M into `joined`, and what they are to the loss: a mean over B, and `weight` times a mean over
    /// B_M, which is not drawn at weight zero.
    pub(super) fn join_apart(&mut self, batch: &Batch, weight: f32, joined: &mut Batch) -> [(usize, f32); 2] {
        joined.clear();
        joined.extend(batch);
        let drawn = match weight > 0.0 {
            true => self.ring.draw(self.count, &mut self.rng, joined).len(),
            false => 0,
        };
        [(batch.len(), 1.0), (drawn, weight)]
    }

    /// B u B_M, the stream's samples first.
    pub(super) fn join(&mut self, batch: &Batch) -> &Batch {
        self.drawn.clear();
        self.drawn.extend(batch);
        self.ring.draw(self.count, &mut self.rng, &mut self.drawn);
        &self.drawn
    }
}

/// The core of a learner whose memory is `samples`, of which a draw takes all.
#[cfg(test)]
pub(super) fn core_with(setup: &Setup<'_>, theta: Vec<f32>, samples: &Batch) -> ReplayCore {
    let mut rng = Rng::named(0, "memory");
    let mut reservoir = crate::memory::Reservoir::new(samples.len());
    reservoir.write(samples, &mut rng);
    let replay = Replay { ring: Memory::Reservoir(reservoir, Box::new(rng)), ..Replay::new(setup) };
    ReplayCore { model: Model::new(setup), theta, replay }
}
