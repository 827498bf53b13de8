//! ER with a reservoir: experience replay from a uniform sample of the stream.
//!
//! - *Paper*: Riemer et al., "Learning to Learn without Forgetting by Maximizing Transfer and Minimizing
//!   Interference", 2019, its baseline; the two losses as in the release of Caccia et al., 2022.
//! - *Idea*: learn the stream and, with the same weight, a few samples of a uniform sample of all that came.
//! - *Update rule*: theta <- theta - alpha grad [l(B) + l(B_M)], a mean over each.
//! - *Hyper-parameters*: alpha; a reservoir as large as the ring of the other methods.
//! - *Deviations*: none. One mean over the joined batch is `er-ring` with `memory = "reservoir"`.

use super::{
    AVERAGE, Method, RATE, STATISTICS, UPDATES,
    replay::{ReplayCore, Replayed, Update},
};
use crate::Batch;

pub(super) const METHOD: Method = Method {
    name: "er-reservoir",
    title: "ER-Reservoir",
    summary: "replays a uniform sample of the stream, its loss beside that of the stream",
    paper: "Riemer et al., 2019 (a baseline)",
    keys: &[RATE, AVERAGE, STATISTICS, UPDATES],
    gradient_step: true,
    cost: 1.8,
    bytes: |setup| setup.memory_bytes(),
    build: |setup| {
        let rate = setup.method_settings.float("rate");
        let update = ErReservoir { rate, joined: Batch::default() };
        Box::new(Replayed::with_memory(setup, setup.reservoir(), update))
    },
    ..Method::DEFAULT
};

struct ErReservoir {
    rate: f32,
    joined: Batch,
}

impl Update for ErReservoir {
    fn observe(&mut self, ReplayCore { model, theta, replay }: &mut ReplayCore, batch: &Batch) -> f32 {
        let parts = replay.join_apart(batch, 1.0, &mut self.joined);
        let loss = model.loss_of_parts(theta, &self.joined, &parts, None);
        model.step_seeded(theta, self.rate);
        loss
    }
}
