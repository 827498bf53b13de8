//! MAS: memory aware synapses.
//!
//! - *Paper*: Aljundi et al., "Memory Aware Synapses: Learning what (not) to forget", 2018.
//! - *Idea*: hold each parameter near its value after the last task, the harder the more the answers depend
//!   on it, whatever the labels.
//! - *Update rule*: theta <- theta - alpha grad [l(B) + lambda sum Omega (theta - theta*)^2]; Omega is the
//!   sum over tasks of the mean over batches of |grad mean ||f(x)||^2|.
//! - *Hyper-parameters*: alpha, lambda.
//! - *Deviations*: a stream passes once, so the gradients of ||f||^2 are those of each batch before its step,
//!   instead of those of a second pass at the task's end. ||f|| is over the classes that a sample's task may
//!   answer with. lambda is tuned here: at the release's 1 every run on Permuted MNIST diverges.

use hindsight_nn::{BatchNormMode, Inputs};

use super::{AVERAGE, CONSOLIDATE_EVERY, Method, Model, RATE, Setup, penalty::QuadraticPenalty};
use crate::{
    Batch, Learner,
    settings::{Key, Kind},
    state::StateDict,
};

pub(super) const METHOD: Method = Method {
    name: "mas",
    title: "MAS",
    summary: "holds parameters near the last task's solution, weighted by how much answers depend on them",
    paper: "Aljundi et al., 2018 (memory aware synapses)",
    keys: &[
        RATE,
        AVERAGE,
        Key::tuned(
            "strength",
            Kind::Float(0.0, 1e9),
            [0.03, 0.03, 0.03],
            &[0.01, 0.03, 0.1, 1.0],
            "lambda: strength of the penalty",
        ),
        CONSOLIDATE_EVERY,
    ],
    cost: 3.0,
    bytes: |setup| setup.theta_bytes() + 2 * setup.trainable_bytes(),
    without_task_ends: Some(
        "parameters are held from the end of a task on; on a stream without ends it learns as finetune does, unless \
         `consolidate_every` is set",
    ),
    build: |setup| Box::new(Mas::new(setup)),
    ..Method::DEFAULT
};

struct Mas {
    model: Model,
    /// For the passes that measure importance.
    probe: Model,
    theta: Vec<f32>,
    rate: f32,
    strength: f32,
    /// theta* and Omega.
    penalty: QuadraticPenalty,
    /// Sum over the task's batches of the absolute gradients, and their number.
    sums: Vec<f32>,
    count: usize,
    seed: Vec<f32>,
    consolidate_every: usize,
}

impl Mas {
    fn new(setup: &Setup<'_>) -> Mas {
        let (model, strength) = (Model::new(setup), setup.method_settings.float("strength"));
        Mas {
            probe: model.fork(BatchNormMode::Running),
            model,
            theta: setup.initial_theta(),
            rate: setup.method_settings.float("rate"),
            strength,
            penalty: QuadraticPenalty::new(setup, 2.0 * strength),
            sums: vec![0.0; setup.net.trainable()],
            count: 0,
            seed: Vec::new(),
            consolidate_every: setup.method_settings.int("consolidate_every"),
        }
    }

    /// Adds |grad mean ||f(x)||^2| over the samples of `batch`.
    fn measure(&mut self, batch: &Batch) {
        let Mas { probe, theta, sums, seed, .. } = self;
        probe.forward(theta, &batch.x);
        let (classes, scale) = (probe.net().classes(), 2.0 / batch.len() as f32);
        let heads = probe.heads().clone();
        seed.clear();
        for (row, &task) in probe.tape().logits().chunks_exact(classes).zip(&batch.tasks) {
            let of = |(class, z): (usize, &f32)| {
                if heads.allows(task as usize, class) { scale * z } else { 0.0 }
            };
            seed.extend(row.iter().enumerate().map(of));
        }
        probe.tape().seed(seed, None);
        probe.backward(theta);
        probe.last_gradient().for_each_block(|at, g| {
            let Some(g) = g else { return };
            sums[at].iter_mut().zip(g).for_each(|(sum, g)| *sum += g.abs());
        });
        self.count += 1;
    }
}

impl Learner for Mas {
    fn observe(&mut self, batch: &Batch) -> f32 {
        self.measure(batch);
        let loss = self.model.gradient(&self.theta, batch);
        self.model.update_running_stats(&mut self.theta);
        let Mas { model, theta, penalty, rate, .. } = self;
        model.last_gradient().for_each_block(|at, g| penalty.step(at.clone(), g, *rate, &mut theta[at]));
        if self.count == self.consolidate_every {
            self.end_task();
        }
        loss
    }

    fn end_task(&mut self) {
        let share = 1.0 / self.count.max(1) as f32;
        self.penalty.weight.iter_mut().zip(&self.sums).for_each(|(omega, sum)| *omega += share * sum);
        self.sums.fill(0.0);
        self.count = 0;
        self.penalty.hold(&self.theta);
        // At strength zero it is finetune, to the last bit.
        self.penalty.held = self.strength > 0.0;
    }

    fn predict(&self, inputs: &Inputs<'_>, task: usize) -> Vec<u32> {
        self.model.predict(&self.theta, inputs, task)
    }

    fn predict_proba(&self, inputs: &Inputs<'_>, task: usize) -> Vec<f32> {
        self.model.predict_proba(&self.theta, inputs, task)
    }

    fn theta(&self) -> &[f32] {
        &self.theta
    }

    fn state(&mut self) -> StateDict<'_> {
        vec![
            ("theta", &mut self.theta),
            ("sums", &mut self.sums),
            ("count", &mut self.count),
            ("held", &mut self.penalty.held),
            ("star", &mut self.penalty.star),
            ("omega", &mut self.penalty.weight),
        ]
    }

    fn retained_bytes(&self) -> u64 {
        self.penalty.bytes() + size_of_val(self.sums.as_slice()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::golden::{Golden, batch, numbers, setup};

    #[test]
    fn two_tasks_agree_with_pytorch() {
        let golden = Golden::read(include_str!("../../tests/reference/mas.json"));
        let set = [("rate", golden.float("rate")), ("strength", golden.float("strength"))];
        let mut learner = setup(&METHOD, &set, Mas::new);
        learner.theta = numbers(&golden["theta"]);
        for task in golden["tasks"].as_array().unwrap() {
            for step in task["steps"].as_array().unwrap() {
                learner.observe(&batch(&step["batch"]));
                golden.assert_close(&learner.theta, &step["theta"]);
            }
            learner.end_task();
            golden.assert_close(&learner.penalty.weight, &task["omega"]);
        }
    }
}
