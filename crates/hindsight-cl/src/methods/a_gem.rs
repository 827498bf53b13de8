//! A-GEM: averaged gradient episodic memory.
//!
//! - *Paper*: Chaudhry et al., "Efficient Lifelong Learning with A-GEM", 2019.
//! - *Idea*: never step against the memory: where the stream's gradient would raise the loss on a batch of
//!   past samples, take its nearest direction that does not.
//! - *Update rule*: g on B, r on B_M; if <g, r> < 0, g <- g - (<g, r> / <r, r>) r; theta <- theta - alpha g.
//! - *Hyper-parameters*: alpha; m slots per class per task.
//! - *Deviations*: none.

use hindsight_nn::{Inputs, Statistics, params};

use super::{Method, Model, RATE, Setup, replay::Replay};
use crate::{Batch, Learner, RetainedSamples, state::StateDict};

pub(super) const METHOD: Method = Method {
    name: "a-gem",
    title: "A-GEM",
    summary: "projects the stream's gradient so that it does not oppose the memory's",
    paper: "Chaudhry et al., 2019 (efficient lifelong learning)",
    keys: &[RATE],
    cost: 3.5,
    without_ends: Some(super::RING_WITHOUT_ENDS),
    build: |setup| Box::new(AGem::new(setup)),
    ..Method::DEFAULT
};

struct AGem {
    model: Model,
    theta: Vec<f32>,
    replay: Replay,
    step: ProjectedStep,
}

/// theta <- theta - alpha g, with g projected where it opposes r.
struct ProjectedStep {
    rate: f32,
    /// For the pass over the memory.
    past: Model,
    /// g and r, where the network needs them written out.
    g: Vec<f32>,
    r: Vec<f32>,
}

impl AGem {
    fn new(setup: &Setup<'_>) -> AGem {
        let model = Model::new(setup);
        let past = model.fork(Statistics::Batch);
        let step =
            ProjectedStep { rate: setup.method_settings.float("rate"), past, g: Vec::new(), r: Vec::new() };
        AGem { model, replay: Replay::new(setup), step, theta: setup.initial_theta() }
    }
}

impl ProjectedStep {
    fn update(&mut self, model: &mut Model, theta: &mut [f32], batch: &Batch, replay: &Batch) -> f32 {
        let ProjectedStep { rate, past, g, r } = self;
        let loss = model.gradient(theta, batch);
        model.follow(theta);
        if replay.is_empty() {
            model.accumulate(-*rate, theta);
            return loss;
        }
        past.gradient(theta, replay);
        past.follow(theta);
        if let Some(along) = model.gradient_dot(past, [&mut *g, &mut *r]) {
            model.accumulate(-*rate, theta);
            if along < 0.0 {
                let square = past.gradient_dot(past, [g, r]).unwrap_or(f64::INFINITY);
                past.accumulate((f64::from(*rate) * along / square) as f32, theta);
            }
            return loss;
        }
        for (gradient, model) in [(&mut *g, model), (&mut *r, past)] {
            gradient.clear();
            gradient.resize(theta.len(), 0.0);
            model.accumulate(1.0, gradient);
        }
        project(g, r);
        params::axpy(-*rate, g, theta);
        loss
    }
}

/// g, or where it points against r its projection onto what is orthogonal to r.
fn project(g: &mut [f32], r: &[f32]) {
    let along = params::dot(g, r);
    if along < 0.0 {
        params::axpy((-along / params::dot(r, r)) as f32, r, g);
    }
}

impl Learner for AGem {
    fn observe(&mut self, batch: &Batch) -> f32 {
        let replay = self.replay.draw(self.replay.count);
        let loss = self.step.update(&mut self.model, &mut self.theta, batch, replay);
        self.replay.ring.write(batch);
        loss
    }

    fn end_task(&mut self) {
        self.replay.ring.end_task();
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
        let mut parts: StateDict<'_> = vec![("theta", &mut self.theta)];
        parts.extend(self.replay.state());
        parts
    }

    fn retained_samples(&self) -> RetainedSamples<'_> {
        RetainedSamples { memory: Some(self.replay.ring.samples()), anchors: None }
    }
}

#[cfg(test)]
mod tests {
    use hindsight_nn::Rng;

    use super::*;
    use crate::methods::golden::{Golden, batch, numbers, setup};

    #[test]
    fn three_updates_agree_with_pytorch() {
        let golden = Golden::read(include_str!("../../tests/reference/agem.json"));
        let learner = setup(&METHOD, &[("rate", golden.float("alpha"))], AGem::new);
        let AGem { mut model, mut step, .. } = learner;
        let mut theta = numbers(&golden["theta"]);
        for expected in golden["steps"].as_array().unwrap() {
            step.update(&mut model, &mut theta, &batch(&expected["stream"]), &batch(&expected["replay"]));
            golden.assert_close(&theta, &expected["theta"]);
        }
    }

    #[test]
    fn the_projection_never_opposes_the_memory_and_leaves_agreement_alone() {
        let mut rng = Rng::named(1, "test");
        let mut conflicts = 0;
        for _ in 0..200 {
            let mut draw = || (0..30).map(|_| rng.normal() as f32).collect::<Vec<f32>>();
            let (g, r) = (draw(), draw());
            let mut projected = g.clone();
            project(&mut projected, &r);
            let dot = params::dot(&projected, &r);
            if params::dot(&g, &r) < 0.0 {
                conflicts += 1;
                assert!(dot.abs() < 1e-4 * params::dot(&r, &r), "{dot}");
            } else {
                assert_eq!(projected, g);
            }
        }
        assert!((50..150).contains(&conflicts));
    }
}
