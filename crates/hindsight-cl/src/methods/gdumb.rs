//! GDumb: greedy sampler and dumb learner.
//!
//! - *Paper*: Prabhu et al., "GDumb: A Simple Approach that Questions Our Progress in Continual Learning",
//!   2020.
//! - *Idea*: learn nothing from the stream but a balanced memory, and train a new network on that memory
//!   alone when it is needed: what a memory is worth by itself.
//! - *Update rule*: at a task's end, from a fresh theta, SGD on batches of the memory over `epochs` passes,
//!   the rate falling along a cosine from alpha to alpha / 100.
//! - *Hyper-parameters*: alpha, `epochs`; a memory as large as the ring of the other methods.
//! - *Deviations*: neither CutMix nor momentum; batches are those of replay. The memory is balanced over
//!   classes of tasks, as the ring is: by class alone it would keep nothing of later tasks with the same
//!   classes.

use std::f32::consts::PI;

use hindsight_nn::{Inputs, Rng};

use super::{CONSOLIDATE_EVERY, Method, Model, Setup};
use crate::{
    Batch, Learner, RetainedSamples,
    memory::Balanced,
    settings::{Key, Kind, Value},
    state::StateDict,
};

pub(super) const METHOD: Method = Method {
    name: "gdumb",
    title: "GDumb",
    summary: "a new network at each task's end, trained on a balanced memory alone",
    paper: "Prabhu et al., 2020 (GDumb)",
    keys: &[
        Key::tuned(
            "rate",
            Kind::Float(0.0, 100.0),
            [0.1, 0.1, 0.1],
            &[0.01, 0.03, 0.1, 0.3],
            "alpha: learning rate at the start of a training",
        ),
        Key::new("epochs", Kind::Int(1, 100_000), Value::Int(30), "passes over the memory in a training"),
        CONSOLIDATE_EVERY,
    ],
    cost: 4.0,
    bytes: |setup| setup.memory_bytes(),
    without_task_ends: Some(
        "a network is trained when a task ends; on a stream without ends it knows nothing, unless \
         `consolidate_every` is set",
    ),
    build: |setup| Box::new(Gdumb::new(setup)),
    ..Method::DEFAULT
};

struct Gdumb {
    model: Model,
    fresh: Vec<f32>,
    theta: Vec<f32>,
    rate: f32,
    epochs: usize,
    batch: usize,
    memory: Balanced,
    choices: Rng,
    order: Rng,
    consolidate_every: usize,
    since: usize,
}

impl Gdumb {
    fn new(setup: &Setup<'_>) -> Gdumb {
        Gdumb {
            model: Model::new(setup),
            fresh: setup.initial_theta(),
            theta: setup.initial_theta(),
            rate: setup.method_settings.float("rate"),
            epochs: setup.method_settings.int("epochs"),
            batch: setup.shared.replay_batch,
            memory: Balanced::new(setup.capacity(), setup.shared.memory_precision),
            choices: Rng::named(setup.seed, "memory"),
            order: Rng::named(setup.seed, "replay"),
            consolidate_every: setup.method_settings.int("consolidate_every"),
            since: 0,
        }
    }

    fn train(&mut self) {
        self.theta.copy_from_slice(&self.fresh);
        let samples = self.memory.samples();
        let mut order: Vec<usize> = (0..samples.len()).collect();
        let mut batch = Batch::default();
        for epoch in 0..self.epochs {
            let rate = annealed(self.rate, epoch, self.epochs);
            self.order.shuffle(&mut order);
            for chosen in order.chunks(self.batch) {
                batch.clear();
                batch.extend(chosen.iter().map(|&i| samples.sample(i)));
                self.model.step(&mut self.theta, &batch, rate);
            }
        }
    }
}

/// The rate of an epoch, along a cosine from `rate` to a hundredth of it.
fn annealed(rate: f32, epoch: usize, epochs: usize) -> f32 {
    let low = rate / 100.0;
    low + (rate - low) * (1.0 + (PI * epoch as f32 / epochs as f32).cos()) / 2.0
}

impl Learner for Gdumb {
    fn observe(&mut self, batch: &Batch) -> f32 {
        let loss = self.model.loss(&self.theta, batch);
        self.memory.write(batch, &mut self.choices);
        self.since += 1;
        if self.since == self.consolidate_every {
            self.end_task();
        }
        loss
    }

    fn end_task(&mut self) {
        self.train();
        self.since = 0;
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
        let mut parts: StateDict<'_> = vec![
            ("theta", &mut self.theta),
            ("fresh", &mut self.fresh),
            ("memory", &mut self.memory),
            ("choices", &mut self.choices),
            ("order", &mut self.order),
        ];
        if self.consolidate_every > 0 {
            parts.push(("since", &mut self.since));
        }
        parts
    }

    fn retained_samples(&self) -> RetainedSamples<'_> {
        RetainedSamples::of(self.memory.samples(), self.memory.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::golden::{Golden, batch, numbers, setup};

    #[test]
    fn a_training_on_the_memory_agrees_with_pytorch() {
        let golden = Golden::read(include_str!("../../tests/reference/gdumb.json"));
        let theta = numbers(&golden["theta"]);
        let set = [("rate", golden.float("rate")), ("epochs", Value::Int(4))];
        let samples = batch(&golden["memory"]);
        let mut learner = setup(&METHOD, &set, |setup| {
            let mut shared = setup.shared.clone();
            // One batch per epoch: the order within it does not matter.
            (shared.slots, shared.replay_batch) = (samples.len(), samples.len());
            Gdumb::new(&Setup { initial: Some(&theta), shared, ..setup.clone() })
        });
        learner.observe(&samples);
        assert_eq!(learner.memory.samples().len(), samples.len());
        for _ in 0..2 {
            // What it has learned before makes no difference.
            learner.end_task();
            golden.assert_close(&learner.theta, &golden["theta_trained"]);
        }
    }
}
