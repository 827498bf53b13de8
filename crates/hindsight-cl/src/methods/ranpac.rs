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

use std::sync::OnceLock;

use hindsight_nn::{Cholesky, Inputs, Layer, Mlp, Net, Rng, Tape};

use super::{
    Method, Setup,
    closed_form::{Counts, Embedding, FROM, OuterSum, best},
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
    /// The projection, ReLU and the regression, as a network.
    net: Mlp,
    /// P, and zeros for all behind it.
    projection: Vec<f32>,
    counts: Counts,
    /// C^T, `[classes, units]`.
    targets: ByClass,
    /// G.
    gram: OuterSum,
    /// P, no biases, the weights of the regression, no biases; computed when they are asked for.
    theta: OnceLock<Vec<f32>>,
    tape: Tape,
}

impl Ranpac {
    fn new(setup: &Setup<'_>) -> Ranpac {
        let embedding = Embedding::new(setup);
        let (width, units) = (embedding.width(), setup.method_settings.int("units"));
        let classes = setup.net.classes();
        let net = Mlp::new(&[width, units, classes]).expect("widths are above zero");
        let mut projection = vec![0.0; Net::<f32>::parameters(&net)];
        let drawn = &mut projection[..width * units];
        Rng::named(setup.seed, "projection").fill_normal(drawn);
        drawn.iter_mut().for_each(|p| *p /= (width as f32).sqrt());
        Ranpac {
            embedding,
            heads: setup.heads.clone(),
            ridge: f64::from(setup.method_settings.float("ridge")),
            net,
            projection,
            counts: Counts::new(setup),
            targets: ByClass(vec![0.0; classes * units]),
            gram: OuterSum::new(units),
            theta: OnceLock::new(),
            tape: Tape::new(),
        }
    }

    fn net(&self) -> &dyn Net {
        &self.net
    }

    fn weights(&self) -> &[f32] {
        self.theta.get_or_init(|| {
            let (units, classes) = (self.net().features(), self.net().classes());
            let mut theta = self.projection.clone();
            let mut gram = self.gram.lower();
            gram.iter_mut().step_by(units + 1).for_each(|diagonal| *diagonal += self.ridge);
            // Values that are not finite have no answer; all classes are then alike.
            let Some(factor) = Cholesky::new(gram, units) else { return theta };
            let output = (self.net().inputs() + 1) * units;
            for (class, targets) in self.targets.0.chunks_exact(units).enumerate() {
                let mut w: Vec<f64> = targets.iter().copied().map(f64::from).collect();
                factor.solve(&mut w);
                let weights = theta[output + class..].iter_mut().step_by(classes);
                weights.zip(w).for_each(|(weight, w)| *weight = w as f32);
            }
            theta
        })
    }
}

impl Learner for Ranpac {
    /// The loss is that of no gradient, and zero.
    fn observe(&mut self, batch: &Batch) -> f32 {
        let vectors = self.embedding.of_batch(batch);
        let units = self.net().features();
        self.net.forward(&self.projection, &vectors, &mut self.tape);
        let h = self.tape.features();
        self.gram.add(h);
        for (h, &label) in h.chunks_exact(units).zip(&batch.labels) {
            self.counts.0.0[label as usize] += 1.0;
            let sums = &mut self.targets.0[label as usize * units..][..units];
            sums.iter_mut().zip(h).for_each(|(sum, h)| *sum += h);
        }
        self.theta = OnceLock::new();
        0.0
    }

    fn end_task(&mut self) {
        self.gram.complete();
        self.weights();
    }

    fn predict(&self, inputs: &Inputs<'_>, task: usize) -> Vec<u32> {
        best(&self.predict_proba(inputs, task), self.net().classes())
    }

    /// The softmax of the regression's answers, which are estimates of the probabilities themselves: their
    /// order is what counts.
    fn predict_proba(&self, inputs: &Inputs<'_>, task: usize) -> Vec<f32> {
        let infer = |inputs: &Inputs<'_>| self.net().infer(self.weights(), inputs, Layer::Logits);
        let mut rows = self.embedding.with(inputs, infer);
        let answers = self.counts.answers(&self.heads, task);
        rows.chunks_exact_mut(self.net().classes()).for_each(|row| softmax(row, &answers));
        rows
    }

    /// What the weights are computed from, class by class: a look at these must not cost a solution.
    fn theta(&self) -> &[f32] {
        &self.targets.0
    }

    fn state(&mut self) -> StateDict<'_> {
        let mut parts: StateDict<'_> = vec![
            ("gram", &mut self.gram),
            ("targets", &mut self.targets),
            ("counts", &mut self.counts.0),
            ("weights", &mut self.theta),
        ];
        parts.extend(self.embedding.state());
        parts
    }

    fn retained_bytes(&self) -> u64 {
        self.gram.bytes() + size_of_val(self.targets.0.as_slice()) as u64
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
        for stream in golden["batches"].as_array().unwrap() {
            learner.observe(&batch(stream));
        }
        golden.assert_close(&learner.gram.total(), &golden["gram"]);
        let weights = &learner.weights()[6 * 5 + 5..][..5 * 3];
        golden.assert_close(weights, &golden["weights"]);
        let queries = numbers(&golden["queries"]);
        assert_eq!(learner.predict(&Inputs::dense(&queries, 6), 0), labels(&golden["answers"]));
    }
}
