//! GEM: gradient episodic memory.
//!
//! - *Paper*: Lopez-Paz and Ranzato, "Gradient Episodic Memory for Continual Learning", 2017.
//! - *Idea*: never step against the memory of any past task: where the stream's gradient would raise the loss
//!   of one, take the nearest direction that raises none.
//! - *Update rule*: g on B, g_k on the memory of each past task k; if some <g, g_k> < 0, v minimises
//!   |sum v_k g_k|^2 / 2 + sum v_k <g, g_k> over v >= margin, and g <- g + sum v_k g_k; theta <- theta -
//!   alpha g.
//! - *Hyper-parameters*: alpha, the margin; m slots per class per task.
//! - *Deviations*: nothing is added to the diagonal of the quadratic programme, which is solved by coordinate
//!   descent. Under batch-norm the stream's pass alone updates the running averages.

use super::{
    AVERAGE, Method, Model, RATE, Setup, UPDATES,
    replay::{ReplayCore, Replayed, Update},
};
use crate::{
    Batch,
    settings::{Key, Kind, Value},
};

pub(super) const METHOD: Method = Method {
    name: "gem",
    title: "GEM",
    summary: "projects the stream's gradient so that it opposes no past task's memory",
    paper: "Lopez-Paz and Ranzato, 2017 (gradient episodic memory)",
    keys: &[
        RATE,
        AVERAGE,
        UPDATES,
        Key::new(
            "margin",
            Kind::Float(0.0, 100.0),
            Value::Float(0.5),
            "least multiple of each past task's gradient in a projected step",
        ),
    ],
    gradient_step: true,
    cost: 40.0,
    bytes: |setup| setup.memory_bytes(),
    without_task_ends: Some(
        "a task's memory is heeded from its end on; on a stream without ends it learns as finetune does",
    ),
    build: |setup| Box::new(Replayed::with_memory(setup, setup.memory(), Gem::new(setup))),
    ..Method::DEFAULT
};

struct Gem {
    rate: f32,
    margin: f64,
    /// For the passes over the memory, one per past task, and its samples.
    pasts: Vec<(Model, Batch)>,
}

impl Gem {
    fn new(setup: &Setup<'_>) -> Gem {
        let margin = f64::from(setup.method_settings.float("margin"));
        Gem { rate: setup.method_settings.float("rate"), margin, pasts: Vec::new() }
    }

    /// A step on `batch` that opposes none of the first `count` past tasks.
    fn update(&mut self, model: &mut Model, theta: &mut [f32], batch: &Batch, count: usize) -> f32 {
        let loss = model.gradient(theta, batch);
        let pasts = &mut self.pasts[..count];
        for (past, samples) in pasts.iter_mut() {
            past.gradient(theta, samples);
        }
        let mut g = model.last_gradient();
        let along: Vec<f64> = pasts.iter_mut().map(|(past, _)| g.dot(&mut past.last_gradient())).collect();
        if along.iter().any(|&along| along < 0.0) {
            let v = dual(&gram(pasts), &along, self.margin);
            for ((past, _), v) in pasts.iter_mut().zip(v) {
                past.accumulate(-self.rate * v as f32, theta);
            }
        }
        model.accumulate(-self.rate, theta);
        model.update_running_stats(theta);
        loss
    }
}

/// The inner products of all gradients, `[n, n]`.
fn gram(pasts: &mut [(Model, Batch)]) -> Vec<f64> {
    let n = pasts.len();
    let mut products = vec![0.0; n * n];
    for i in 0..n {
        let (others, rest) = pasts.split_at_mut(i);
        let mut g = rest[0].0.last_gradient();
        products[i * n + i] = g.squared_norm();
        for (j, (other, _)) in others.iter_mut().enumerate() {
            let product = g.dot(&mut other.last_gradient());
            (products[i * n + j], products[j * n + i]) = (product, product);
        }
    }
    products
}

/// The v >= margin that minimises v^T P v / 2 + q^T v, by coordinate descent.
fn dual(p: &[f64], q: &[f64], margin: f64) -> Vec<f64> {
    const SWEEPS: usize = 10_000;
    let n = q.len();
    let mut v = vec![margin; n];
    for _ in 0..SWEEPS {
        let mut moved = 0.0_f64;
        for i in 0..n {
            let (row, curvature) = (&p[i * n..][..n], p[i * n + i]);
            if curvature > 0.0 {
                let slope = q[i] + row.iter().zip(&v).map(|(p, v)| p * v).sum::<f64>();
                let to = (v[i] - slope / curvature).max(margin);
                moved = moved.max((to - v[i]).abs() / (1.0 + to));
                v[i] = to;
            }
        }
        if moved < 1e-9 {
            break;
        }
    }
    v
}

impl Update for Gem {
    fn observe(&mut self, ReplayCore { model, theta, replay }: &mut ReplayCore, batch: &Batch) -> f32 {
        // Tasks come in order, so the samples of one lie together.
        let mut count = 0;
        let mut task = None;
        for (x, label, of) in replay.ring.samples().iter().take(replay.ring.available()) {
            if task != Some(of) {
                (task, count) = (Some(of), count + 1);
                if self.pasts.len() < count {
                    let past = model.fork(hindsight_nn::BatchNormMode::Batch);
                    self.pasts.push((past, Batch::default()));
                }
                self.pasts[count - 1].1.clear();
            }
            self.pasts[count - 1].1.push(x, label, of);
        }
        self.update(model, theta, batch, count)
    }
}

#[cfg(test)]
mod tests {
    use hindsight_nn::Rng;

    use super::*;
    use crate::methods::golden::{Golden, batch, numbers, setup};

    #[test]
    fn three_updates_agree_with_pytorch() {
        let golden = Golden::read(include_str!("../../tests/reference/gem.json"));
        let set = [("rate", golden.float("rate")), ("margin", golden.float("margin"))];
        let (mut model, mut gem) = setup(&METHOD, &set, |setup| (Model::new(setup), Gem::new(setup)));
        let mut theta = numbers(&golden["theta"]);
        for step in golden["steps"].as_array().unwrap() {
            gem.pasts.clear();
            for past in step["pasts"].as_array().unwrap() {
                gem.pasts.push((model.fork(hindsight_nn::BatchNormMode::Batch), batch(past)));
            }
            let count = gem.pasts.len();
            gem.update(&mut model, &mut theta, &batch(&step["stream"]), count);
            golden.assert_close(&theta, &step["theta"]);
        }
    }

    #[test]
    fn the_dual_meets_its_conditions() {
        let mut rng = Rng::named(1, "test");
        let mut active = 0;
        for round in 0..50 {
            // More rows than columns in half of the rounds: P is singular there.
            let (n, width, margin) = (6, if round % 2 == 0 { 4 } else { 12 }, 0.25);
            let rows: Vec<Vec<f64>> = (0..n).map(|_| (0..width).map(|_| rng.normal()).collect()).collect();
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            let g: Vec<f64> = (0..width).map(|_| rng.normal()).collect();
            let p: Vec<f64> = rows.iter().flat_map(|a| rows.iter().map(|b| dot(a, b))).collect();
            let q: Vec<f64> = rows.iter().map(|row| dot(row, &g)).collect();
            let v = dual(&p, &q, margin);
            for i in 0..n {
                let slope = q[i] + dot(&p[i * n..][..n], &v);
                assert!(v[i] >= margin && slope > -1e-5, "{slope}");
                assert!(v[i] - margin < 1e-9 || slope.abs() < 1e-5, "{} {slope}", v[i]);
                active += usize::from(v[i] - margin < 1e-9);
            }
        }
        assert!((50..250).contains(&active), "{active}");
    }
}
