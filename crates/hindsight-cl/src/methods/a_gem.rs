//! A-GEM: averaged gradient episodic memory.
//!
//! - *Paper*: Chaudhry et al., "Efficient Lifelong Learning with A-GEM", 2019.
//! - *Idea*: never step against the memory: where the stream's gradient would raise the loss on a batch of
//!   past samples, take its nearest direction that does not.
//! - *Update rule*: g on B, r on B_M; if <g, r> < 0, g <- g - (<g, r> / <r, r>) r; theta <- theta - alpha g.
//! - *Hyper-parameters*: alpha; the size of B_M; m slots per class per task.
//! - *Deviations*: none. Under batch-norm both passes update the running averages, the stream's last, as in
//!   the author's public program; `running_statistics` has the other choices.

use super::{
    AVERAGE, MEMORY, Method, Model, RATE, STATISTICS, Setup, UPDATES,
    replay::{ReplayCore, Replayed, Update},
};
use crate::{
    Batch,
    settings::{Choice, Key, Kind, Value, choices},
};

pub(super) const METHOD: Method = Method {
    name: "a-gem",
    title: "A-GEM",
    summary: "projects the stream's gradient so that it does not oppose the memory's",
    paper: "Chaudhry et al., 2019 (efficient lifelong learning)",
    keys: &[
        RATE,
        MEMORY,
        AVERAGE,
        STATISTICS,
        UPDATES,
        Key::new(
            "reference_batch",
            Kind::Int(1, 1_000_000),
            Value::Int(256),
            "samples of the memory in the reference gradient r, or all there are if fewer",
        ),
        Key::new(
            "running_statistics",
            Kind::Choice(RunningStatistics::WORDS),
            Value::text("stream-last"),
            "passes that update batch-norm's running averages: both, in this order, or one of them",
        ),
    ],
    gradient_step: true,
    cost: 3.5,
    bytes: |setup| setup.memory_bytes(),
    without_task_ends: Some(super::RING_WITHOUT_TASK_ENDS),
    build: |setup| Box::new(Replayed::new(setup, AGem::new(setup))),
    ..Method::DEFAULT
};

choices! {
    /// The passes that update batch-norm's running averages.
    enum RunningStatistics {
        /// The reference's, then the stream's.
        StreamLast = "stream-last",
        /// The stream's, then the reference's.
        ReferenceLast = "reference-last",
        /// The stream's alone.
        Stream = "stream",
        /// The reference's alone.
        Reference = "reference",
    }
}

/// theta <- theta - alpha g, with g projected where it opposes r.
struct AGem {
    rate: f32,
    reference_batch: usize,
    running_statistics: RunningStatistics,
    /// For the pass over the memory.
    past: Model,
}

impl AGem {
    fn new(setup: &Setup<'_>) -> AGem {
        let settings = setup.method_settings;
        AGem {
            rate: settings.float("rate"),
            reference_batch: settings.int("reference_batch"),
            running_statistics: settings.choice("running_statistics"),
            past: Model::new(setup),
        }
    }

    fn update(&mut self, model: &mut Model, theta: &mut [f32], batch: &Batch, replay: &Batch) -> f32 {
        let AGem { rate, past, running_statistics, .. } = self;
        let loss = model.gradient(theta, batch);
        if replay.is_empty() {
            model.update_running_stats(theta);
            model.accumulate(-*rate, theta);
            return loss;
        }
        past.gradient(theta, replay);
        match running_statistics {
            RunningStatistics::StreamLast => {
                past.update_running_stats(theta);
                model.update_running_stats(theta);
            }
            RunningStatistics::ReferenceLast => {
                model.update_running_stats(theta);
                past.update_running_stats(theta);
            }
            RunningStatistics::Stream => model.update_running_stats(theta),
            RunningStatistics::Reference => past.update_running_stats(theta),
        }
        let (mut g, mut r) = (model.last_gradient(), past.last_gradient());
        let along = g.dot(&mut r);
        if along < 0.0 {
            let factor = -along / r.squared_norm();
            g.add_sum_to(factor, &mut r, -*rate, theta);
        } else {
            g.add_to(-*rate, theta);
        }
        loss
    }
}

impl Update for AGem {
    fn observe(&mut self, ReplayCore { model, theta, replay }: &mut ReplayCore, batch: &Batch) -> f32 {
        self.update(model, theta, batch, replay.draw(self.reference_batch))
    }
}

#[cfg(test)]
mod tests {
    use hindsight_nn::{Rng, params};

    use super::*;
    use crate::{
        methods::golden::{Golden, batch, numbers, setup},
        settings::Value,
    };

    #[test]
    fn three_updates_agree_with_pytorch() {
        let golden = Golden::read(include_str!("../../tests/reference/agem.json"));
        let build = |setup: &Setup<'_>| (Model::new(setup), AGem::new(setup));
        let (mut model, mut step) = setup(&METHOD, &[("rate", golden.float("alpha"))], build);
        let mut theta = numbers(&golden["theta"]);
        for expected in golden["steps"].as_array().unwrap() {
            step.update(&mut model, &mut theta, &batch(&expected["stream"]), &batch(&expected["replay"]));
            golden.assert_close(&theta, &expected["theta"]);
        }
    }

    #[test]
    fn a_step_never_opposes_the_memory_and_equals_sgd_where_gradients_agree() {
        let golden = Golden::read(include_str!("../../tests/reference/agem.json"));
        let build = |setup: &Setup<'_>| (Model::new(setup), AGem::new(setup));
        let (mut model, mut step) = setup(&METHOD, &[("rate", Value::Float(0.5))], build);
        let theta = numbers(&golden["theta"]);
        let template = batch(&golden["steps"][0]["stream"]);
        let mut rng = Rng::named(1, "test");
        let mut conflicts = 0;
        for _ in 0..60 {
            let mut draw = || {
                let mut drawn = template.clone();
                drawn.x.iter_mut().for_each(|x| *x = rng.normal() as f32);
                drawn.labels.iter_mut().for_each(|label| *label = rng.below(3) as u32);
                let mut gradient = vec![0.0; theta.len()];
                model.gradient(&theta, &drawn);
                model.accumulate(1.0, &mut gradient);
                (drawn, gradient)
            };
            let ((stream, g), (replay, r)) = (draw(), draw());
            let mut after = theta.clone();
            step.update(&mut model, &mut after, &stream, &replay);
            let taken: Vec<f32> = theta.iter().zip(&after).map(|(a, b)| (a - b) / 0.5).collect();
            let tolerance = 1e-4 * params::dot(&r, &r).max(1.0);
            if params::dot(&g, &r) < 0.0 {
                conflicts += 1;
                assert!(params::dot(&taken, &r).abs() < tolerance, "{}", params::dot(&taken, &r));
            } else {
                assert!(taken.iter().zip(&g).all(|(a, b)| f64::from((a - b).abs()) < tolerance));
            }
        }
        assert!((5..55).contains(&conflicts), "{conflicts}");
    }
}
