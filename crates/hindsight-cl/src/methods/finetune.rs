//! Finetune.
//!
//! - *Paper*: the lower baseline of Chaudhry et al., "Using Hindsight to Anchor Past Knowledge in Continual
//!   Learning", 2021.
//! - *Idea*: learn the stream as it comes and do nothing about forgetting.
//! - *Update rule*: theta <- theta - alpha grad l(B).
//! - *Hyper-parameters*: alpha.
//! - *Deviations*: none.

use hindsight_nn::Inputs;

use super::{AVERAGE, Method, Model, RATE, Setup};
use crate::{Batch, Learner, state::StateDict};

pub(super) const METHOD: Method = Method {
    name: "finetune",
    title: "Finetune",
    summary: "SGD on the stream, nothing against forgetting",
    paper: "Chaudhry et al., 2021 (a baseline)",
    keys: &[RATE, AVERAGE],
    presets: &[],
    joint: false,
    oracle: false,
    needs_task: false,
    gradient_step: true,
    cost: 1.0,
    bytes: |_| 0,
    caution: |_| None,
    without_task_ends: None,
    build: |setup| Box::new(Finetune::new(setup)),
};

struct Finetune {
    model: Model,
    theta: Vec<f32>,
    rate: f32,
}

impl Finetune {
    fn new(setup: &Setup<'_>) -> Finetune {
        Finetune {
            model: Model::new(setup),
            theta: setup.initial_theta(),
            rate: setup.method_settings.float("rate"),
        }
    }
}

impl Learner for Finetune {
    fn observe(&mut self, batch: &Batch) -> f32 {
        self.model.step(&mut self.theta, batch, self.rate)
    }

    fn end_task(&mut self) {}

    fn predict(&self, inputs: &Inputs<'_>, task: usize) -> Vec<u32> {
        self.model.predict(&self.theta, inputs, task)
    }

    fn predict_proba(&self, inputs: &Inputs<'_>, task: usize) -> Vec<f32> {
        self.model.predict_proba(&self.theta, inputs, task)
    }

    fn theta(&self) -> &[f32] {
        &self.theta
    }

    fn theta_mut(&mut self) -> Option<&mut [f32]> {
        Some(&mut self.theta)
    }

    fn state(&mut self) -> StateDict<'_> {
        vec![("theta", &mut self.theta)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::golden::{Golden, batch, numbers, setup};

    #[test]
    fn three_updates_agree_with_pytorch() {
        let golden = Golden::read(include_str!("../../tests/reference/finetune_er.json"));
        let mut learner = setup(&METHOD, &[("rate", golden.float("alpha"))], Finetune::new);
        learner.theta = numbers(&golden["theta"]);
        for (data, step) in golden.pairs("stream", "finetune") {
            let loss = learner.observe(&batch(data));
            golden.assert_close(&[loss], &step["loss"]);
            golden.assert_close(&learner.theta, &step["theta"]);
        }
    }
}
