//! MER: meta-experience replay.
//!
//! - *Paper*: Riemer et al., "Learning to Learn without Forgetting by Maximizing Transfer and Minimizing
//!   Interference", 2019.
//! - *Idea*: single-sample steps over replayed and new data, then only a small part of the way they went
//!   (Reptile): directions on which the samples agree survive.
//! - *Update rule*, as in the released program of the HAL paper: from theta0, one step at alpha per replayed
//!   sample, one step at s alpha on the stream batch, then theta <- theta0 + beta (theta - theta0). Under
//!   batch-norm the replayed samples share one step.
//! - *Hyper-parameters*: alpha, beta, s; the samples in a replay step; a reservoir as large as the ring of
//!   the other methods.
//! - *Deviations*: `algorithm = "original"` is Algorithm 1 of the MER paper: for each stream sample,
//!   `batches` sequences of the sample and replayed ones with a within-batch step beta each, and an
//!   across-batch step gamma around them.

use hindsight_nn::{Inputs, Rng, params};

use super::{AVERAGE, Method, Model, STATISTICS, Setup};
use crate::{
    Batch, Learner, RetainedSamples,
    memory::Reservoir,
    settings::{Choice, Key, Kind, Value, choices},
    state::StateDict,
};

pub(super) const METHOD: Method = Method {
    name: "mer",
    title: "MER",
    summary: "single-sample replay steps, kept only in part (Reptile)",
    paper: "Riemer et al., 2019 (learning to learn without forgetting)",
    keys: &[
        AVERAGE,
        STATISTICS,
        Key::tuned(
            "rate",
            Kind::Float(0.0, 100.0),
            [0.03, 0.03, 0.03],
            &[0.003, 0.01, 0.03, 0.1, 0.3, 1.0],
            "alpha: learning rate",
        ),
        Key::tuned(
            "beta",
            Kind::Float(0.0, 1.0),
            [0.1, 0.1, 0.1],
            &[0.01, 0.03, 0.1, 0.3, 1.0],
            "within-batch meta-learning rate",
        ),
        Key::tuned(
            "multiplier",
            Kind::Float(0.0, 1000.0),
            [10.0, 5.0, 5.0],
            &[1.0, 2.0, 5.0, 10.0],
            "s: the stream batch is learned at s times alpha",
        ),
        Key::new(
            "algorithm",
            Kind::Choice(Algorithm::WORDS),
            Value::text("batch"),
            "one stream batch per update, or the MER paper's sample by sample",
        ),
        Key::new(
            "step_samples",
            Kind::Int(0, 1_000_000),
            Value::Int(0),
            "replayed samples in a step at alpha (0: one, or under batch-norm, whose statistics need several, all)",
        ),
        Key::new("batches", Kind::Int(1, 1000), Value::Int(1), "sequences per sample, original algorithm"),
        Key::new("gamma", Kind::Float(0.0, 1.0), Value::Float(1.0), "across-batch rate, original algorithm"),
    ],
    cost: 4.5,
    bytes: |setup| setup.memory_bytes(),
    build: |setup| Box::new(Mer::new(setup)),
    ..Method::DEFAULT
};

choices! {
    enum Algorithm {
        /// One update per stream batch.
        Batch = "batch",
        /// Algorithm 1 of the MER paper: sample by sample.
        Original = "original",
    }
}

struct Mer {
    model: Model,
    theta: Vec<f32>,
    rate: f32,
    beta: f32,
    multiplier: f32,
    algorithm: Algorithm,
    step_samples: usize,
    batches: usize,
    gamma: f32,
    memory: Reservoir,
    count: usize,
    replay: Batch,
    /// theta0, and the samples of a step: room, so that an update allocates nothing.
    start: Vec<f32>,
    few: Batch,
    rng: Rng,
}

impl Mer {
    fn new(setup: &Setup<'_>) -> Mer {
        Mer {
            model: Model::new(setup),
            theta: setup.initial_theta(),
            rate: setup.method_settings.float("rate"),
            beta: setup.method_settings.float("beta"),
            multiplier: setup.method_settings.float("multiplier"),
            algorithm: setup.method_settings.choice("algorithm"),
            step_samples: match setup.method_settings.int("step_samples") {
                0 if setup.net.trainable() < setup.net.parameters() => usize::MAX,
                0 => 1,
                samples => samples,
            },
            batches: setup.method_settings.int("batches"),
            gamma: setup.method_settings.float("gamma"),
            memory: Reservoir::new(setup.capacity()).with_precision(setup.shared.memory_precision),
            count: setup.shared.replay_batch,
            replay: Batch::default(),
            start: Vec::new(),
            few: Batch::default(),
            rng: Rng::named(setup.seed, "replay"),
        }
    }

    fn update(&mut self, batch: &Batch, replay: &Batch) -> f32 {
        let mut start = std::mem::take(&mut self.start);
        start.clone_from(&self.theta);
        self.in_steps(replay);
        let loss = self.model.step(&mut self.theta, batch, self.multiplier * self.rate);
        self.part_of_the_way(&start, self.beta);
        self.start = start;
        loss
    }

    /// A step at alpha on every `step_samples` samples, in order.
    fn in_steps(&mut self, samples: &Batch) {
        let mut few = std::mem::take(&mut self.few);
        for first in (0..samples.len()).step_by(self.step_samples) {
            let end = samples.len().min(first.saturating_add(self.step_samples));
            few.clear();
            few.extend((first..end).map(|i| samples.sample(i)));
            self.model.step(&mut self.theta, &few, self.rate);
        }
        self.few = few;
    }

    /// Algorithm 1 of the MER paper.
    fn original(&mut self, batch: &Batch) -> f32 {
        let mut loss = 0.0;
        let mut one = Batch::default();
        for sample in batch {
            one.clear();
            one.extend([sample]);
            loss += self.model.loss(&self.theta, &one) / batch.len() as f32;
            let across = self.theta.clone();
            for _ in 0..self.batches {
                let within = self.theta.clone();
                let mut sequence = one.clone();
                self.memory.draw(self.count, &mut self.rng, &mut sequence);
                self.in_steps(&sequence);
                self.part_of_the_way(&within, self.beta);
            }
            self.part_of_the_way(&across, self.gamma);
            self.memory.write(&one, &mut self.rng);
        }
        loss
    }

    /// theta <- start + share (theta - start); running statistics stay where the last pass left them.
    fn part_of_the_way(&mut self, start: &[f32], share: f32) {
        let trained = self.model.net().trainable();
        params::blend(share, &start[..trained], &mut self.theta[..trained]);
    }
}

impl Learner for Mer {
    fn observe(&mut self, batch: &Batch) -> f32 {
        match self.algorithm {
            Algorithm::Batch => {}
            Algorithm::Original => return self.original(batch),
        }
        let mut replay = std::mem::take(&mut self.replay);
        replay.clear();
        self.memory.draw(self.count, &mut self.rng, &mut replay);
        let loss = self.update(batch, &replay);
        self.replay = replay;
        self.memory.write(batch, &mut self.rng);
        loss
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

    fn state(&mut self) -> StateDict<'_> {
        vec![("theta", &mut self.theta), ("memory", &mut self.memory), ("replay", &mut self.rng)]
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
    fn three_updates_agree_with_pytorch() {
        let golden = Golden::read(include_str!("../../tests/reference/mer.json"));
        let set = [
            ("rate", golden.float("alpha")),
            ("beta", golden.float("gamma")),
            ("multiplier", golden.float("s")),
        ];
        let mut learner = setup(&METHOD, &set, Mer::new);
        learner.theta = numbers(&golden["theta"]);
        for step in golden["steps"].as_array().unwrap() {
            learner.update(&batch(&step["stream"]), &batch(&step["replay"]));
            golden.assert_close(&learner.theta, &step["theta"]);
        }
    }

    #[test]
    fn the_original_algorithm_without_meta_steps_is_sgd_sample_by_sample() {
        let golden = Golden::read(include_str!("../../tests/reference/mer.json"));
        let set = [("beta", Value::Float(1.0)), ("algorithm", Value::text("original"))];
        let mut learner = setup(&METHOD, &set, |setup| Mer { memory: Reservoir::new(0), ..Mer::new(setup) });
        learner.theta = numbers(&golden["theta"]);
        let mut plain = setup(&METHOD, &set, Mer::new);
        plain.theta = learner.theta.clone();
        let samples = batch(&golden["steps"][0]["stream"]);
        learner.observe(&samples);
        plain.in_steps(&samples);
        assert_eq!(learner.theta, plain.theta);
    }
}
