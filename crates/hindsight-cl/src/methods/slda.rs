//! SLDA: streaming linear discriminant analysis.
//!
//! - *Paper*: Hayes and Kanan, "Lifelong Machine Learning with Deep Streaming Linear Discriminant Analysis",
//!   2020.
//! - *Idea*: a mean per class and one covariance of all, updated sample by sample; no gradient and no
//!   memory of samples.
//! - *Update rule*: for sample n + 1 of class y, S <- S + n / (n + 1) (x - mu_y)(x - mu_y)^T, then mu_y moves
//!   to the mean. With Lambda the inverse of (1 - shrinkage) S / n + shrinkage I, class k has the score mu_k
//!   Lambda x - mu_k Lambda mu_k / 2.
//! - *Hyper-parameters*: the shrinkage.
//! - *Deviations*: the paper's features are those of a network trained before the stream; there is none here,
//!   so it sees the inputs, or the features of an untrained network. No base phase.

use std::sync::OnceLock;

use hindsight_nn::{
    Inputs,
    kernels::{Start, matmul},
};

use super::{
    Method, Setup,
    closed_form::{Counts, Embedding, FROM, OuterSum, best, transposed},
    model::softmax,
};
use crate::{
    Batch, Heads, Learner,
    settings::{Key, Kind, Value},
    state::{ByClass, StateDict},
};

pub(super) const METHOD: Method = Method {
    name: "slda",
    title: "SLDA",
    summary: "linear discriminant analysis, updated sample by sample; no gradient",
    paper: "Hayes and Kanan, 2020 (deep streaming LDA)",
    keys: &[
        FROM,
        Key::new(
            "shrinkage",
            Kind::Float(1e-9, 1.0),
            Value::Float(1e-4),
            "share of the identity in the covariance",
        ),
    ],
    cost: 10.0,
    bytes: |setup| {
        let width = Embedding::new(setup).width();
        4 * (OuterSum::entries(width) + width * setup.net.classes()) as u64
    },
    build: |setup| Box::new(Slda::new(setup)),
    ..Method::DEFAULT
};

struct Slda {
    embedding: Embedding,
    heads: Heads,
    shrinkage: f64,
    /// mu, `[classes, width]`.
    means: ByClass,
    counts: Counts,
    /// S, and n.
    scatter: OuterSum,
    seen: usize,
    /// Weights `[width, classes]`, then a bias per class; computed when they are asked for.
    theta: OnceLock<Vec<f32>>,
    rows: Vec<f32>,
}

impl Slda {
    fn new(setup: &Setup<'_>) -> Slda {
        let embedding = Embedding::new(setup);
        let (width, classes) = (embedding.width(), setup.net.classes());
        Slda {
            embedding,
            heads: setup.heads.clone(),
            shrinkage: f64::from(setup.method_settings.float("shrinkage")),
            means: ByClass(vec![0.0; classes * width]),
            counts: Counts::new(setup),
            scatter: OuterSum::new(width),
            seen: 0,
            theta: OnceLock::new(),
            rows: Vec::new(),
        }
    }

    fn classes(&self) -> usize {
        self.counts.0.0.len()
    }

    fn weights(&self) -> &[f32] {
        self.theta.get_or_init(|| {
            let (width, classes) = (self.embedding.width(), self.classes());
            let mut theta = vec![0.0; (width + 1) * classes];
            let share = (1.0 - self.shrinkage) / self.seen.max(1) as f64;
            // Values that are not finite have no answer; all classes are then alike.
            let factor = self.scatter.completed().factor(share, self.shrinkage);
            let Some(factor) = factor else { return theta };
            let mut w: Vec<f64> = transposed(&self.means.0, width);
            factor.solve(&mut w);
            let (weights, bias) = theta.split_at_mut(width * classes);
            weights.iter_mut().zip(&w).for_each(|(weight, &w)| *weight = w as f32);
            for ((class, bias), mean) in bias.iter_mut().enumerate().zip(self.means.0.chunks_exact(width)) {
                let w = w.iter().skip(class).step_by(classes);
                *bias = (-0.5 * w.zip(mean).map(|(w, &m)| w * f64::from(m)).sum::<f64>()) as f32;
            }
            theta
        })
    }

    /// The scores of all classes, `[inputs.len(), classes]`.
    fn scores(&self, inputs: &Inputs<'_>) -> Vec<f32> {
        const ROWS: usize = 256;
        let (width, classes) = (self.embedding.width(), self.classes());
        let (weights, bias) = self.weights().split_at(width * classes);
        let mut scores = vec![0.0; inputs.len() * classes];
        let mut rows = Vec::new();
        for (i, out) in scores.chunks_mut(ROWS * classes).enumerate() {
            rows.clear();
            inputs.materialise(i * ROWS..i * ROWS + out.len() / classes, &mut rows);
            matmul(&rows, weights, classes, Start::Bias(bias), false, out);
        }
        scores
    }
}

impl Learner for Slda {
    /// The loss is that of no gradient, and zero.
    fn observe(&mut self, batch: &Batch) -> f32 {
        let vectors = self.embedding.of_batch(batch);
        let width = self.embedding.width();
        self.rows.clear();
        for (x, &label) in vectors.chunks_exact(width).zip(&batch.labels) {
            let count = &mut self.counts.0.0[label as usize];
            let mean = &mut self.means.0[label as usize * width..][..width];
            let seen = self.seen as f32;
            let scale = (seen / (seen + 1.0)).sqrt();
            self.rows.extend(x.iter().zip(&*mean).map(|(x, m)| scale * (x - m)));
            *count += 1.0;
            mean.iter_mut().zip(x).for_each(|(m, x)| *m += (x - *m) / *count);
            self.seen += 1;
        }
        self.scatter.add(&self.rows);
        self.theta = OnceLock::new();
        0.0
    }

    fn end_task(&mut self) {
        self.scatter.complete();
        self.weights();
    }

    fn predict(&self, inputs: &Inputs<'_>, task: usize) -> Vec<u32> {
        best(&self.predict_proba(inputs, task), self.classes())
    }

    /// The posterior under equal priors.
    fn predict_proba(&self, inputs: &Inputs<'_>, task: usize) -> Vec<f32> {
        let mut rows = self.embedding.with(inputs, |inputs| self.scores(inputs));
        let answers = self.counts.answers(&self.heads, task);
        rows.chunks_exact_mut(self.classes()).for_each(|row| softmax(row, &answers));
        rows
    }

    /// What the weights are computed from, class by class: a look at these must not cost a solution.
    fn theta(&self) -> &[f32] {
        &self.means.0
    }

    fn state(&mut self) -> StateDict<'_> {
        let mut parts: StateDict<'_> = vec![
            ("means", &mut self.means),
            ("counts", &mut self.counts.0),
            ("scatter", &mut self.scatter),
            ("scatter.seen", &mut self.seen),
            ("weights", &mut self.theta),
        ];
        parts.extend(self.embedding.state());
        parts
    }

    fn retained_bytes(&self) -> u64 {
        self.scatter.bytes() + size_of_val(self.means.0.as_slice()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::golden::{Golden, batch, labels, numbers, setup};

    #[test]
    fn means_covariance_and_answers_agree_with_numpy() {
        let golden = Golden::read(include_str!("../../tests/reference/slda.json"));
        let mut learner = setup(&METHOD, &[("shrinkage", golden.float("shrinkage"))], Slda::new);
        for stream in golden["batches"].as_array().unwrap() {
            learner.observe(&batch(stream));
        }
        golden.assert_close(&learner.means.0, &golden["means"]);
        golden.assert_close(&learner.scatter.total(), &golden["scatter"]);
        let queries = numbers(&golden["queries"]);
        let queries = Inputs::dense(&queries, 6);
        golden.assert_close(&learner.predict_proba(&queries, 0), &golden["probabilities"]);
        assert_eq!(learner.predict(&queries, 0), labels(&golden["answers"]));
    }
}
