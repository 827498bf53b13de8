//! RanPAC: random projections and ridge regression.
//!
//! - *Paper*: McDonnell et al., "RanPAC: Random Projections and Pre-trained Models for Continual Learning",
//!   2023.
//! - *Idea*: one wide layer of random ReLU units that is never trained, and on it the regression that all
//!   samples so far would have together: it needs two matrices of sums, no samples, no order of the stream.
//! - *Update rule*: h = ReLU(x P); G <- G + h^T h; C <- C + h^T onehot(y). Answers: the largest entry of
//!   h (G + lambda I)^-1 C.
//! - *Hyper-parameters*: the number of units, lambda.
//! - *Deviations*: the paper's inputs are features of a pre-trained network; there is none here, so it sees
//!   the inputs, or the features of an untrained network. lambda is a setting, not chosen anew on a share of
//!   each task. P is divided by the root of its rows.

use std::{borrow::Cow, sync::OnceLock};

use hindsight_nn::{
    Inputs, Layer, Mlp, Net, Rng, SparseRows,
    kernels::{PackedMatrix, Start, matmul, spmm_packed},
};

use super::{
    Method, Setup,
    closed_form::{Counts, Embedding, FROM, OuterSum, WAITING, best, transposed},
    model::softmax,
};
use crate::{
    Batch, Heads, Learner,
    settings::{Key, Kind, Value},
    state::{ByClass, StateDict},
};

pub(super) const METHOD: Method = Method {
    name: "ranpac",
    title: "RanPAC",
    summary: "ridge regression on random ReLU units, updated sample by sample; no gradient",
    paper: "McDonnell et al., 2023 (RanPAC)",
    keys: &[
        FROM,
        Key::new("units", Kind::Int(1, 20_000), Value::Int(1000), "random ReLU units"),
        Key::tuned(
            "ridge",
            Kind::Float(1e-9, 1e9),
            [1.0, 1.0, 1.0],
            &[0.01, 0.1, 1.0, 10.0, 100.0],
            "lambda: strength of the ridge",
        ),
    ],
    cost: 15.0,
    bytes: |setup| {
        let units = setup.method_settings.int("units");
        4 * (OuterSum::entries(units) + units * setup.net.classes()) as u64
    },
    build: |setup| Box::new(Ranpac::new(setup)),
    ..Method::DEFAULT
};

struct Ranpac {
    embedding: Embedding,
    heads: Heads,
    ridge: f64,
    /// The projection and ReLU of inputs in any form; its features are the units, what is behind them is of
    /// no use.
    net: Mlp,
    /// P, and zeros for all behind it.
    projection: Vec<f32>,
    units: Units,
    counts: Counts,
    sums: Sums,
    /// Samples that are not in the sums yet: P is longer than a core's cache, so that many go through it at
    /// a time. They are part of the state.
    waiting: Batch,
    /// Weights of the regression, `[units, classes]`; computed when they are asked for.
    theta: OnceLock<Vec<f32>>,
}

/// The projection of learned samples: the same units as those of the network, with P packed once for all.
struct Units {
    packed: PackedMatrix<f32>,
    /// Zeros, one per unit.
    bias: Vec<f32>,
    /// The vectors without their zeros.
    rows: SparseRows,
    h: Vec<f32>,
}

impl Units {
    fn new(projection: &[f32], units: usize) -> Units {
        let packed = PackedMatrix::new(projection, units);
        Units { packed, bias: vec![0.0; units], rows: SparseRows::new(0), h: Vec::new() }
    }

    /// ReLU(x P), `[x.len() / width, units]`.
    fn of(&mut self, x: &[f32], width: usize) -> &[f32] {
        let Units { packed, bias, rows, h } = self;
        rows.clear(width);
        x.chunks_exact(width).for_each(|x| rows.push_slice(x));
        h.resize(rows.len() * bias.len(), 0.0);
        spmm_packed(rows, 0..rows.len(), packed, bias, true, h);
        h
    }
}

/// What the samples so far come to.
#[derive(Clone)]
struct Sums {
    /// C^T, `[classes, units]`.
    targets: ByClass,
    /// G.
    gram: OuterSum,
}

impl Sums {
    /// Adds the units `h` of samples and their labels.
    fn add(&mut self, h: &[f32], labels: &[u32]) {
        self.gram.add(h);
        let units = h.len() / labels.len().max(1);
        for (i, &label) in labels.iter().enumerate() {
            let sums = &mut self.targets.0[label as usize * units..][..units];
            sums.iter_mut().zip(&h[i * units..]).for_each(|(sum, h)| *sum += h);
        }
    }
}

impl Ranpac {
    fn new(setup: &Setup<'_>) -> Ranpac {
        let embedding = Embedding::new(setup);
        let (width, units) = (embedding.width(), setup.method_settings.int("units"));
        let classes = setup.net.classes();
        let net = Mlp::new(&[width, units, 1]).expect("widths are above zero");
        let mut projection = vec![0.0; Net::<f32>::parameters(&net)];
        let drawn = &mut projection[..width * units];
        Rng::named(setup.seed, "projection").fill_normal(drawn);
        drawn.iter_mut().for_each(|p| *p /= (width as f32).sqrt());
        let of_samples = Units::new(drawn, units);
        Ranpac {
            embedding,
            heads: setup.heads.clone(),
            ridge: f64::from(setup.method_settings.float("ridge")),
            net,
            projection,
            units: of_samples,
            counts: Counts::new(setup),
            sums: Sums { targets: ByClass(vec![0.0; classes * units]), gram: OuterSum::new(units) },
            waiting: Batch::default(),
            theta: OnceLock::new(),
        }
    }

    fn net(&self) -> &dyn Net {
        &self.net
    }

    fn classes(&self) -> usize {
        self.counts.0.0.len()
    }

    fn weights(&self) -> &[f32] {
        self.theta.get_or_init(|| {
            let (units, classes) = (self.net().features(), self.classes());
            let mut sums = Cow::Borrowed(&self.sums);
            if !self.waiting.is_empty() {
                let vectors = self.embedding.of_batch(&self.waiting);
                let vectors = Inputs::dense(&vectors, self.embedding.width());
                let h = self.net().infer(&self.projection, &vectors, Layer::Features);
                sums.to_mut().add(&h, &self.waiting.labels);
            }
            // Values that are not finite have no answer; all classes are then alike.
            let factor = sums.gram.completed().factor(1.0, self.ridge);
            let Some(factor) = factor else { return vec![0.0; units * classes] };
            let mut w = transposed(&sums.targets.0, units);
            factor.solve(&mut w);
            w.into_iter().map(|w| w as f32).collect()
        })
    }

    /// Adds up the samples that wait.
    fn complete(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let vectors = self.embedding.of_batch(&self.waiting);
        self.sums.add(self.units.of(&vectors, self.embedding.width()), &self.waiting.labels);
        self.waiting.clear();
    }
}

impl Learner for Ranpac {
    /// The loss is that of no gradient, and zero.
    fn observe(&mut self, batch: &Batch) -> f32 {
        batch.labels.iter().for_each(|&label| self.counts.0.0[label as usize] += 1.0);
        batch.iter().for_each(|(x, label, task)| self.waiting.push(x, label, task));
        if self.waiting.len() >= WAITING {
            self.complete();
        }
        self.theta = OnceLock::new();
        0.0
    }

    fn end_task(&mut self) {
        self.complete();
        self.sums.gram.complete();
        self.weights();
    }

    fn predict(&self, inputs: &Inputs<'_>, task: usize) -> Vec<u32> {
        best(&self.predict_proba(inputs, task), self.classes())
    }

    /// The softmax of the regression's answers, which are estimates of the probabilities themselves: their
    /// order is what counts.
    fn predict_proba(&self, inputs: &Inputs<'_>, task: usize) -> Vec<f32> {
        let (units, classes) = (self.net().features(), self.classes());
        let mut rows = Vec::with_capacity(inputs.len() * classes);
        self.embedding.with(inputs, |inputs| {
            self.net().infer_blocks(&self.projection, inputs, Layer::Features, &mut |h| {
                let at = rows.len();
                rows.resize(at + h.len() / units * classes, 0.0);
                matmul(h, self.weights(), classes, Start::Out, false, &mut rows[at..]);
            });
        });
        let answers = self.counts.answers(&self.heads, task);
        rows.chunks_exact_mut(classes).for_each(|row| softmax(row, &answers));
        rows
    }

    /// What the weights are computed from, class by class: a look at these must not cost a solution.
    fn theta(&self) -> &[f32] {
        &self.sums.targets.0
    }

    fn state(&mut self) -> StateDict<'_> {
        let mut parts: StateDict<'_> = vec![
            ("gram", &mut self.sums.gram),
            ("targets", &mut self.sums.targets),
            ("waiting", &mut self.waiting),
            ("counts", &mut self.counts.0),
            ("weights", &mut self.theta),
        ];
        parts.extend(self.embedding.state());
        parts
    }

    fn retained_bytes(&self) -> u64 {
        let sums = self.sums.gram.bytes() + size_of_val(self.sums.targets.0.as_slice()) as u64;
        sums + size_of_val(self.waiting.x.as_slice()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::golden::{Golden, batch, labels, numbers, setup};

    #[test]
    fn sums_weights_and_answers_agree_with_numpy() {
        let golden = Golden::read(include_str!("../../tests/reference/ranpac.json"));
        let set = [("ridge", golden.float("ridge")), ("units", Value::Int(5))];
        let mut learner = setup(&METHOD, &set, Ranpac::new);
        learner.projection[..6 * 5].copy_from_slice(&numbers(&golden["projection"]));
        learner.units = Units::new(&learner.projection[..6 * 5], 5);
        for stream in golden["batches"].as_array().unwrap() {
            learner.observe(&batch(stream));
        }
        // As if the samples had not waited, and after it.
        golden.assert_close(learner.weights(), &golden["weights"]);
        learner.complete();
        golden.assert_close(&learner.sums.gram.total(), &golden["gram"]);
        let queries = numbers(&golden["queries"]);
        assert_eq!(learner.predict(&Inputs::dense(&queries, 6), 0), labels(&golden["answers"]));
    }
}
