//! EWC: elastic weight consolidation.
//!
//! - *Paper*: Kirkpatrick et al., "Overcoming catastrophic forgetting in neural networks", 2017.
//! - *Idea*: hold each parameter near its value after the last task, the harder the more the loss there
//!   depended on it (Fisher information).
//! - *Update rule*: theta <- theta - alpha grad [l(B) + lambda sum F (theta - theta*)^2].
//! - *Hyper-parameters*: alpha, lambda.
//! - *Deviations*: one penalty, to the last task's solution, as in the released program of the HAL paper. F
//!   is a running average of squared batch gradients (every `window` steps F <- 0.1 F + 0.9 mean of these; a
//!   task of fewer steps is one such window), scaled to [0, 1] at the task's end. `fisher = "sample"` takes the true Fisher information instead: the
//!   mean over samples of the squared gradient for a label drawn from the model's own answer.

use hindsight_nn::{Inputs, Rng, params};

use super::{AVERAGE, CONSOLIDATE_EVERY, Method, Model, RATE, Setup, penalty::QuadraticPenalty};
use crate::{
    Batch, Learner,
    settings::{Choice, Key, Kind, Value, choices},
    state::{State, StateDict, StateError, Tensors},
};

pub(super) const METHOD: Method = Method {
    name: "ewc",
    title: "EWC",
    summary: "holds parameters near the last task's solution, weighted by Fisher information",
    paper: "Kirkpatrick et al., 2017 (overcoming catastrophic forgetting)",
    keys: &[
        RATE,
        AVERAGE,
        Key::tuned(
            "lambda",
            Kind::Float(0.0, 1e9),
            [10.0, 10.0, 10.0],
            &[0.1, 1.0, 10.0, 100.0, 1000.0],
            "strength of the penalty",
        ),
        Key::per_family(
            "window",
            Kind::Int(1, 1_000_000),
            [Value::Int(10), Value::Int(50), Value::Int(50)],
            "squared gradients of batches are averaged this many at a time",
        ),
        Key::new(
            "fisher",
            Kind::Choice(Fisher::WORDS),
            Value::text("batch"),
            "squared gradients of batches, or the true Fisher information sample by sample",
        ),
        CONSOLIDATE_EVERY,
    ],
    gradient_step: true,
    cost: 2.5,
    bytes: |setup| 3 * setup.theta_bytes() + setup.trainable_bytes(),
    without_task_ends: Some(
        "parameters are held from the end of a task on; on a stream without ends it learns as finetune does, unless \
         `consolidate_every` is set",
    ),
    build: |setup| Box::new(Ewc::new(setup)),
    ..Method::DEFAULT
};

choices! {
    /// What the Fisher information is estimated from.
    enum Fisher {
        /// Squared gradients of batches.
        Batch = "batch",
        /// Squared gradients of samples, for labels drawn from the model's own answer.
        Sample = "sample",
    }
}

/// The weight of a window's average in the running one.
const NEW: f32 = 0.9;

struct Ewc {
    model: Model,
    theta: Vec<f32>,
    rate: f32,
    window: usize,
    per_sample: Option<Rng>,
    /// Sum of the squared gradients of the running chunk (or task), and their number.
    squares: Vec<f32>,
    count: usize,
    running: Vec<f32>,
    /// The last task's theta* and scaled Fisher information.
    penalty: QuadraticPenalty,
    /// Batches after which parameters are held without being told; 0 for never. And batches since the last
    /// time.
    consolidate_every: usize,
    since: BatchCount,
}

/// A number of batches that files did not always have: without it, a window is taken to have been full.
struct BatchCount(usize);

impl State for BatchCount {
    fn save(&self, name: &str, to: &mut Tensors) {
        self.0.save(name, to);
    }

    fn load(&mut self, name: &str, from: &Tensors) -> Result<(), StateError> {
        match from.get(name) {
            Some(_) => self.0.load(name, from),
            None => {
                self.0 = u32::MAX as usize;
                Ok(())
            }
        }
    }
}

impl Ewc {
    fn new(setup: &Setup<'_>) -> Ewc {
        let theta = setup.initial_theta();
        let zeros = || vec![0.0; theta.len()];
        Ewc {
            model: Model::new(setup),
            rate: setup.method_settings.float("rate"),
            window: setup.method_settings.int("window"),
            per_sample: match setup.method_settings.choice("fisher") {
                Fisher::Batch => None,
                Fisher::Sample => Some(Rng::named(setup.seed, "fisher")),
            },
            squares: zeros(),
            count: 0,
            running: zeros(),
            penalty: QuadraticPenalty::new(setup, 2.0 * setup.method_settings.float("lambda")),
            consolidate_every: setup.method_settings.int("consolidate_every"),
            since: BatchCount(0),
            theta,
        }
    }

    /// Adds the squared gradient of every sample, for a label drawn from the softmax of its logits.
    fn add_samples(&mut self, batch: &Batch) {
        let Some(rng) = &mut self.per_sample else { return };
        let mut one = Batch::default();
        for sample in batch {
            one.clear();
            one.extend([sample]);
            let drawn = self.model.draw_label(&self.theta, &one, rng);
            one.labels[0] = drawn;
            self.model.gradient(&self.theta, &one);
            let squares = &mut self.squares;
            self.model.last_gradient().for_each_block(|at, g| {
                g.into_iter().for_each(|g| params::add_squares(g, &mut squares[at.clone()]));
            });
            self.count += 1;
        }
    }

    /// The step along the gradient; its square is added where batches are counted.
    fn step(&mut self) {
        let Ewc { model, theta, squares, penalty, rate, .. } = self;
        let count = self.per_sample.is_none();
        model.last_gradient().for_each_block(|at, g| match g {
            Some(g) if count => {
                let (theta, squares) = (&mut theta[at.clone()], &mut squares[at.clone()]);
                penalty.step_counted(at, g, *rate, theta, squares);
            }
            _ => penalty.step(at.clone(), g, *rate, &mut theta[at]),
        });
    }

    /// Counts a batch, and folds a full chunk into the running average.
    fn count_batch(&mut self) {
        self.count += 1;
        if self.count == self.window {
            self.fold();
        }
    }

    /// Folds a chunk into the running average.
    fn fold(&mut self) {
        for (f, s) in self.running.iter_mut().zip(&mut self.squares) {
            *f = normal((1.0 - NEW) * *f + NEW / self.count as f32 * *s);
            *s = 0.0;
        }
        self.count = 0;
    }
}

/// Zero for what is below the normal numbers, which are slow to compute with. The average of a parameter that
/// has had no gradient for some 38 windows is.
fn normal(f: f32) -> f32 {
    if f < f32::MIN_POSITIVE { 0.0 } else { f }
}

impl Learner for Ewc {
    fn observe(&mut self, batch: &Batch) -> f32 {
        self.add_samples(batch);
        let loss = self.model.gradient(&self.theta, batch);
        self.model.update_running_stats(&mut self.theta);
        self.step();
        if self.per_sample.is_none() {
            self.count_batch();
        }
        self.since.0 += 1;
        if self.since.0 == self.consolidate_every {
            self.end_task();
        }
        loss
    }

    fn end_task(&mut self) {
        if self.per_sample.is_some() {
            let count = self.count.max(1) as f32;
            self.running.iter_mut().zip(&self.squares).for_each(|(f, s)| *f = s / count);
        }
        // What is left of a chunk is dropped, unless the task was too short for any.
        if self.per_sample.is_none() && self.count > 0 && self.since.0 < self.window {
            self.fold();
        }
        self.squares.fill(0.0);
        self.count = 0;
        // Running statistics, which no gradient reaches, are neither counted nor held.
        let trained = &self.running[..self.model.net().trainable()];
        let (low, high) = trained.iter().fold((f32::INFINITY, 0.0_f32), |(l, h), &f| (l.min(f), h.max(f)));
        // Where no batch came, nothing is said about any parameter.
        let scale = if high > low { 1.0 / (high - low) } else { 0.0 };
        self.penalty
            .weight
            .iter_mut()
            .zip(trained)
            .for_each(|(scaled, f)| *scaled = normal((f - low) * scale));
        self.penalty.hold(&self.theta);
        self.since.0 = 0;
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

    fn theta_mut(&mut self) -> Option<&mut [f32]> {
        Some(&mut self.theta)
    }

    fn state(&mut self) -> StateDict<'_> {
        let mut parts: StateDict<'_> = vec![
            ("theta", &mut self.theta),
            ("squares", &mut self.squares),
            ("count", &mut self.count),
            ("running", &mut self.running),
            ("held", &mut self.penalty.held),
            ("star", &mut self.penalty.star),
            ("fisher", &mut self.penalty.weight),
            ("since", &mut self.since),
        ];
        if let Some(rng) = &mut self.per_sample {
            parts.push(("labels", rng));
        }
        parts
    }

    fn retained_bytes(&self) -> u64 {
        let [squares, running] = [&self.squares, &self.running].map(|values| size_of_val(values.as_slice()));
        self.penalty.bytes() + (squares + running) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::golden::{Golden, batch, numbers, setup};

    #[test]
    fn a_task_shorter_than_the_window_is_held_too() {
        let golden = Golden::read(include_str!("../../tests/reference/ewc.json"));
        let steps: Vec<Batch> = golden["first_task"].as_array().unwrap().iter().map(batch).collect();
        let ended = |window: usize| {
            let mut learner = setup(&METHOD, &[("window", Value::Int(window as i64))], Ewc::new);
            steps[..4].iter().for_each(|step| _ = learner.observe(step));
            learner.end_task();
            learner.penalty.weight
        };
        assert_eq!(ended(50), ended(4));
        assert!(ended(50).iter().any(|&weight| weight > 0.99));
    }

    #[test]
    fn a_task_and_three_penalised_updates_agree_with_pytorch() {
        let golden = Golden::read(include_str!("../../tests/reference/ewc.json"));
        let set = [("rate", golden.float("alpha")), ("lambda", golden.float("lambda"))];
        let mut learner = setup(&METHOD, &set, Ewc::new);
        learner.theta = numbers(&golden["theta"]);
        for step in golden["first_task"].as_array().unwrap() {
            learner.observe(&batch(step));
        }
        golden.assert_close(&learner.theta, &golden["theta_star"]);
        golden.assert_close(&learner.running, &golden["fisher_running"]);
        learner.end_task();
        golden.assert_close(&learner.penalty.weight, &golden["fisher"]);
        for (data, step) in golden.pairs("second_task", "steps") {
            learner.observe(&batch(data));
            golden.assert_close(&learner.theta, &step["theta"]);
        }
    }
}
