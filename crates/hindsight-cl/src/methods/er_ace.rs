//! ER-ACE: experience replay with asymmetric cross-entropy.
//!
//! - *Paper*: Caccia et al., "New Insights on Reducing Abrupt Representation Change in Online Continual
//!   Learning", 2022.
//! - *Idea*: a new class must not push the old ones away: the loss of the stream is among the classes that
//!   are in its batch, the loss of replay among all.
//! - *Update rule*: theta <- theta - alpha grad [l(B among the classes of B) + l(B_M)].
//! - *Hyper-parameters*: alpha; a reservoir as large as the ring of the other methods.
//! - *Deviations*: none from the paper. A public re-implementation also takes the classes that have not come
//!   yet into the loss of the stream, and all classes in the first task.

use super::{
    AVERAGE, MEMORY_RESERVOIR, Method, RATE, STATISTICS, Setup, UPDATES,
    replay::{ReplayCore, Replayed, Update},
};
use crate::Batch;

pub(super) const METHOD: Method = Method {
    name: "er-ace",
    title: "ER-ACE",
    summary: "replay, with the loss of the stream among the classes in its batch",
    paper: "Caccia et al., 2022 (abrupt representation change)",
    keys: &[RATE, MEMORY_RESERVOIR, AVERAGE, STATISTICS, UPDATES],
    gradient_step: true,
    cost: 1.8,
    bytes: |setup| setup.memory_bytes(),
    build: |setup| Box::new(Replayed::new(setup, ErAce::new(setup))),
    ..Method::DEFAULT
};

struct ErAce {
    rate: f32,
    joined: Batch,
    present: Vec<bool>,
    among: Vec<bool>,
}

impl ErAce {
    fn new(setup: &Setup<'_>) -> ErAce {
        ErAce {
            rate: setup.method_settings.float("rate"),
            joined: Batch::default(),
            present: Vec::new(),
            among: Vec::new(),
        }
    }
}

impl Update for ErAce {
    fn observe(&mut self, ReplayCore { model, theta, replay }: &mut ReplayCore, batch: &Batch) -> f32 {
        let ErAce { joined, present, among, .. } = self;
        let parts = replay.join_apart(batch, 1.0, joined);
        let classes = model.net().classes();
        present.clear();
        present.resize(classes, false);
        batch.labels.iter().for_each(|&label| present[label as usize] = true);
        among.clear();
        (0..batch.len()).for_each(|_| among.extend_from_slice(present));
        among.resize(joined.len() * classes, true);
        let loss = model.loss_of_parts(theta, joined, &parts, Some(among));
        model.step_seeded(theta, self.rate);
        loss
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::{
        golden::{Golden, batch, numbers, setup},
        replay::core_with,
    };

    #[test]
    fn three_updates_agree_with_pytorch() {
        let golden = Golden::read(include_str!("../../tests/reference/er_ace.json"));
        let mut theta = numbers(&golden["theta"]);
        for step in golden["steps"].as_array().unwrap() {
            theta = setup(&METHOD, &[("rate", golden.float("rate"))], |setup| {
                let mut core = core_with(setup, theta.clone(), &batch(&step["replay"]));
                let loss = ErAce::new(setup).observe(&mut core, &batch(&step["stream"]));
                golden.assert_close(&[loss], &step["loss"]);
                core.theta
            });
            golden.assert_close(&theta, &step["theta"]);
        }
    }
}
