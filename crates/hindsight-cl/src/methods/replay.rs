//! What all methods with a replay memory do: draw from it, and join what was drawn with the stream.

use hindsight_nn::{Inputs, Rng};

use super::{Model, Setup};
use crate::{Batch, Learner, RetainedSamples, memory::Memory, state::StateDict};

/// A learner that is replay and an update rule: a method is its [`Update`].
pub(super) struct Replayed<U> {
    core: ReplayCore,
    update: U,
}

/// The parameters, the network and the memory of a [`Replayed`] learner.
pub(super) struct ReplayCore {
    pub(super) model: Model,
    pub(super) theta: Vec<f32>,
    pub(super) replay: Replay,
}

/// The update rule of a method with replay. It has no state of its own that would have to be saved.
pub(super) trait Update: Send + Sync {
    /// Moves theta and returns the loss before; `batch` is written to the memory afterwards.
    fn observe(&mut self, core: &mut ReplayCore, batch: &Batch) -> f32;
}

impl<U> Replayed<U> {
    pub(super) fn new(setup: &Setup<'_>, update: U) -> Replayed<U> {
        let (model, theta, replay) = (Model::new(setup), setup.initial_theta(), Replay::new(setup));
        Replayed { core: ReplayCore { model, theta, replay }, update }
    }
}

impl<U: Update> Learner for Replayed<U> {
    fn observe(&mut self, batch: &Batch) -> f32 {
        let loss = self.update.observe(&mut self.core, batch);
        self.core.replay.ring.write(batch);
        loss
    }

    fn end_task(&mut self) {
        self.core.replay.ring.end_task();
    }

    fn predict(&self, inputs: &Inputs<'_>, task: usize) -> Vec<u32> {
        self.core.model.predict(&self.core.theta, inputs, task)
    }

    fn predict_proba(&self, inputs: &Inputs<'_>, task: usize) -> Vec<f32> {
        self.core.model.predict_proba(&self.core.theta, inputs, task)
    }

    fn theta(&self) -> &[f32] {
        &self.core.theta
    }

    fn state(&mut self) -> StateDict<'_> {
        let mut state: StateDict<'_> = vec![("theta", &mut self.core.theta)];
        state.extend(self.core.replay.state());
        state
    }

    fn retained_samples(&self) -> RetainedSamples<'_> {
        RetainedSamples { memory: Some(self.core.replay.ring.samples()), anchors: None }
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

    /// B u B_M, the stream's samples first.
    pub(super) fn join(&mut self, batch: &Batch) -> &Batch {
        self.drawn.clear();
        self.drawn.extend(batch);
        self.ring.draw(self.count, &mut self.rng, &mut self.drawn);
        &self.drawn
    }
}
