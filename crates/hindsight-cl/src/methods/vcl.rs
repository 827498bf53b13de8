//! VCL and VCL-random: variational continual learning.
//!
//! - *Paper*: Nguyen et al., "Variational Continual Learning", 2018.
//! - *Idea*: a Gaussian over every weight; what was learned before is the prior of what comes next.
//!   VCL-random sets a few samples of each class aside and fine-tunes a copy on them before it answers.
//! - *Update rule*: Adam on (mu, log variance) for the mean negative log-likelihood, averaged over weight
//!   samples mu + sigma eps, plus KL(q_t || q_{t-1}) / N_t.
//!   `estimator = "local"` draws the outputs of the layers instead of the weights (Kingma et al., "Variational
//!   Dropout and the Local Reparameterization Trick", 2015): of the same mean loss, with noise of its own in
//!   every row, and less work. Answers average weight samples either way.
//! - *Hyper-parameters*: rate, weight samples in training and in answering; m samples per class set aside.
//! - *Deviations*: one pass and no maximum-likelihood start, as everywhere here; the samples set aside are
//!   the first m of each class, which the stream's random order makes random. Weight samples that answer are
//!   rounded to multiples of 2^-12, a hundredth of their noise at the start: int16 evaluation is then nearly
//!   exact.

use std::{borrow::Cow, collections::BTreeMap, ops::Range, sync::OnceLock};

use hindsight_nn::{
    BatchNormMode, BoundedLogits, Inputs, LocalPass, Rng, SelectedInputs, WEIGHT_GRID,
    optim::Adam,
    params::{self, KlTerms},
};

use super::{Method, Model, Setup};
use crate::{
    Batch, Learner, RetainedSamples,
    settings::{Choice, Key, Kind, Value, choices},
    state::StateDict,
};

choices! {
    /// What is drawn in a training step.
    enum Estimator {
        /// The weights, for the whole batch.
        Weights = "weights",
        /// The outputs of the layers, for each row.
        Local = "local",
    }
}

pub(super) const VCL: Method = Method {
    name: "vcl",
    title: "VCL",
    summary: "a Gaussian over the weights, whose posterior is the next task's prior",
    paper: "Nguyen et al., 2018 (variational continual learning)",
    keys: VCL_KEYS,
    cost: 70.0,
    bytes: |setup| setup.theta_bytes() + 2 * setup.trainable_bytes(),
    without_task_ends: Some(
        "the prior moves when a task ends; on a stream without ends it stays the first one",
    ),
    build: |setup| Box::new(Vcl::new(setup, 0)),
    ..Method::DEFAULT
};

pub(super) const VCL_RANDOM: Method = Method {
    name: "vcl-random",
    title: "VCL-Random",
    summary: "VCL, fine-tuned before it answers on samples set aside",
    keys: RANDOM_KEYS,
    bytes: |setup| {
        let aside = 4 * (setup.capacity() * setup.net.inputs()) as u64;
        aside + (VCL.bytes)(setup)
    },
    build: |setup| Box::new(Vcl::new(setup, setup.shared.slots)),
    ..VCL
};

const RATE: Key = Key::new("rate", Kind::Float(0.0, 100.0), Value::Float(0.001), "rate of Adam");
const SAMPLES: Key =
    Key::new("samples", Kind::Int(1, 10_000), Value::Int(10), "weight samples per training step");
const TEST_SAMPLES: Key = Key::new(
    "test_samples",
    Kind::Int(1, 10_000),
    Value::Int(10),
    "weight samples that answers are averaged over",
);
const START: Key = Key::new(
    "log_variance",
    Kind::Float(-50.0, 10.0),
    Value::Float(-6.0),
    "log variance of the weights at the start",
);
const ESTIMATOR: Key = Key::new(
    "estimator",
    Kind::Choice(Estimator::WORDS),
    Value::text("weights"),
    "draw weights for a batch, or outputs of layers for each row (perceptrons; other networks draw weights)",
);
static VCL_KEYS: &[Key] = &[RATE, SAMPLES, TEST_SAMPLES, START, ESTIMATOR];
static RANDOM_KEYS: &[Key] = &[
    RATE,
    SAMPLES,
    TEST_SAMPLES,
    START,
    ESTIMATOR,
    Key::new(
        "epochs",
        Kind::Int(0, 10_000),
        Value::Int(10),
        "passes over the samples set aside, before answering",
    ),
];

/// A Gaussian over the weights, each by itself. Running statistics, which have no uncertainty, follow in
/// `mu`.
#[derive(Debug, Clone, PartialEq)]
struct Gaussian {
    mu: Vec<f32>,
    log_variance: Vec<f32>,
}

impl Gaussian {
    /// KL(self || prior).
    #[cfg(test)]
    fn kl(&self, prior: &Gaussian) -> f64 {
        let q = self.mu.iter().zip(&self.log_variance);
        let p = prior.mu.iter().zip(&prior.log_variance);
        q.zip(p)
            .map(|((&m, &v), (&m0, &v0))| {
                let (m, v, m0, v0) = (f64::from(m), f64::from(v), f64::from(m0), f64::from(v0));
                0.5 * (v0 - v + (v.exp() + (m - m0).powi(2)) / v0.exp() - 1.0)
            })
            .sum()
    }

    /// Weights mu + sigma eps.
    fn sample(&self, rng: &mut Rng) -> Vec<f32> {
        let len = self.log_variance.len();
        let (mut sigma, mut weights) = (vec![0.0; len], self.mu.clone());
        params::half_exp(&self.log_variance, &mut sigma);
        Noise::draw(rng).sample(0..len, &self.mu, &sigma, &mut weights);
        weights
    }
}

/// The noise eps of a weight sample.
enum Noise {
    /// Normals as a function of the weight's index.
    Of([u32; 2]),
    #[cfg(test)]
    Given(Vec<f32>),
}

impl Noise {
    fn draw(rng: &mut Rng) -> Noise {
        Noise::Of(rng.noise_key())
    }

    /// `weights = mu + sigma eps` in a range.
    fn sample(&self, at: Range<usize>, mu: &[f32], sigma: &[f32], weights: &mut [f32]) {
        let (mu, sigma, weights) = (&mu[at.clone()], &sigma[at.clone()], &mut weights[at.clone()]);
        match self {
            Noise::Of(key) => params::sample_gaussian(*key, at.start as u32, mu, sigma, weights),
            #[cfg(test)]
            Noise::Given(eps) => params::reparameterize(mu, sigma, &eps[at], weights),
        }
    }
}

/// What rounding may add to a mean probability, and a lot more.
const MARGIN: f32 = 1e-4;

/// Weights that are updated while they are in the cache.
const BLOCK: usize = 2048;

/// A posterior on its way away from a prior.
struct Fit {
    q: Gaussian,
    prior: Gaussian,
    adam_mu: Adam<f32>,
    adam_log_variance: Adam<f32>,
    settings: FitSettings,
    /// N: the number of samples that share the price of the KL.
    n: f32,
    sigma: Vec<f32>,
    weights: Vec<f32>,
    g_mu: Vec<f32>,
    g_log_variance: Vec<f32>,
    local: Local,
}

/// Buffers of the local reparameterisation.
#[derive(Default)]
struct Local {
    pass: LocalPass,
    eps: Vec<f32>,
    zeros: Vec<f32>,
    ones: Vec<f32>,
    labels: Vec<u32>,
    tasks: Vec<u32>,
    mask: Vec<bool>,
}

/// How a posterior is fitted.
#[derive(Clone, Copy)]
struct FitSettings {
    rate: f32,
    samples: usize,
    estimator: Estimator,
}

impl Fit {
    fn new(q: Gaussian, prior: Gaussian, settings: FitSettings, n: f32) -> Fit {
        let rate = settings.rate;
        let len = q.log_variance.len();
        let zeros = || vec![0.0; len];
        Fit {
            adam_mu: Adam::new(rate, len),
            adam_log_variance: Adam::new(rate, len),
            settings,
            n,
            sigma: zeros(),
            weights: q.mu.clone(),
            g_mu: zeros(),
            g_log_variance: zeros(),
            local: Local::default(),
            q,
            prior,
        }
    }

    /// The same posterior, now as the prior too, with fresh optimisers.
    fn next(self, n: f32) -> Fit {
        Fit::new(self.q.clone(), self.q, self.settings, n)
    }

    /// One step; `draw` gives the noise of each weight sample, which the weights that the batch reads take, or
    /// that of all outputs. Returns the mean negative log-likelihood.
    fn step(&mut self, model: &mut Model, batch: &Batch, draw: impl FnMut() -> Noise) -> f32 {
        params::half_exp(&self.q.log_variance, &mut self.sigma);
        self.g_mu.fill(0.0);
        self.g_log_variance.fill(0.0);
        let loss = match self.settings.estimator {
            Estimator::Local if model.net().local().is_some() => self.local_gradient(model, batch, draw),
            _ => self.sampled_gradient(model, batch, draw),
        };
        self.descend();
        loss
    }

    /// Sums the gradients in mu and in log sigma over weight samples.
    fn sampled_gradient(&mut self, model: &mut Model, batch: &Batch, mut draw: impl FnMut() -> Noise) -> f32 {
        let Fit { q: Gaussian { mu, log_variance }, sigma, weights, g_mu, g_log_variance, settings, .. } =
            self;
        let (mut loss, share) = (0.0, 1.0 / settings.samples as f32);
        let active = model.net().active_parameters(&batch.x);
        for _ in 0..settings.samples {
            let noise = draw();
            active.iter().cloned().for_each(|at| noise.sample(at, mu, sigma, weights));
            loss += share * model.gradient(weights, batch);
            model.update_running_stats(weights);
            model.last_gradient().for_each_block(|at, g| {
                let Some(g) = g else { return };
                // d w / d log sigma = sigma eps = w - mu.
                let to = [&mut g_mu[at.clone()], &mut g_log_variance[at.clone()]];
                params::reparameterize_backward(share, g, [&weights[at.clone()], &mu[at]], to);
            });
        }
        let trained = log_variance.len();
        mu[trained..].copy_from_slice(&weights[trained..]);
        loss
    }

    /// The same by the local reparameterisation: as many draws of the outputs of all layers.
    fn local_gradient(&mut self, model: &mut Model, batch: &Batch, mut draw: impl FnMut() -> Noise) -> f32 {
        let Fit { q, sigma, weights: variance, g_mu, g_log_variance, settings, local, .. } = self;
        let Local { pass, eps, zeros, ones, labels, tasks, mask } = local;
        let Some(net) = model.net().local() else { return f32::NAN };
        let (draws, classes) = (settings.samples, model.net().classes());
        variance.iter_mut().zip(&*sigma).for_each(|(v, s)| *v = s * s);
        let len = draws * batch.len() * net.units();
        for (buffer, value) in [(&mut *eps, 0.0), (zeros, 0.0), (ones, 1.0)] {
            buffer.resize(len, value);
        }
        draw().sample(0..len, zeros, ones, eps);
        labels.clear();
        tasks.clear();
        for _ in 0..draws {
            labels.extend_from_slice(&batch.labels);
            tasks.extend_from_slice(&batch.tasks);
        }
        let q = [&q.mu[..], variance];
        net.forward_local(q, &batch.x, eps, pass);
        let loss = pass.tape.cross_entropy(labels, model.heads().mask(tasks, classes, mask));
        net.backward_local(q, eps, pass, [g_mu, g_log_variance]);
        // From sigma^2 to log sigma.
        g_log_variance.iter_mut().zip(&*variance).for_each(|(g, v)| *g *= 2.0 * v);
        loss
    }

    /// Adds the gradient of the KL and takes a step of Adam.
    fn descend(&mut self) {
        let Fit { q: Gaussian { mu, log_variance }, prior, n, sigma, g_mu, g_log_variance, .. } = self;
        let mu = &mut mu[..log_variance.len()];
        self.adam_mu.begin_step();
        self.adam_log_variance.begin_step();
        for first in (0..mu.len()).step_by(BLOCK) {
            let at = first..(first + BLOCK).min(mu.len());
            let (mu, log_variance) = (&mut mu[at.clone()], &mut log_variance[at.clone()]);
            let (g_mu, g_log_variance) = (&mut g_mu[at.clone()], &mut g_log_variance[at.clone()]);
            let (prior_mu, prior_log_variance) = (&prior.mu[at.clone()], &prior.log_variance[at.clone()]);
            let terms = KlTerms { mu, sigma: &sigma[at], prior_mu, prior_log_variance };
            params::add_kl_gradient(1.0 / *n, terms, [g_mu, g_log_variance]);
            self.adam_mu.step_block(first, mu, g_mu);
            self.adam_log_variance.step_block(first, log_variance, g_log_variance);
        }
    }
}

struct Vcl {
    model: Model,
    fit: Fit,
    rng: Rng,
    seed: u64,
    /// N_t: samples of a task that are trained on.
    per_task: f32,
    test_samples: usize,
    /// Samples set aside: m per class per task, and how many there are of each.
    slots: usize,
    coreset: Batch,
    counts: BTreeMap<(u32, u32), usize>,
    epochs: usize,
    batch: usize,
    rest: Batch,
    /// The weights that answer, drawn when first asked after a change.
    answering: OnceLock<Vec<Vec<f32>>>,
}

impl Vcl {
    fn new(setup: &Setup<'_>, slots: usize) -> Vcl {
        let (shared, settings) = (&setup.shared, setup.method_settings);
        let mu = setup.initial_theta();
        let len = setup.net.trainable();
        let prior = Gaussian { mu: vec![0.0; mu.len()], log_variance: vec![0.0; len] };
        let q = Gaussian { mu, log_variance: vec![settings.float("log_variance"); len] };
        let aside = slots * setup.classes_per_task();
        let per_task = setup.samples_per_task.saturating_sub(aside).max(1) as f32;
        let fit_settings = FitSettings {
            rate: settings.float("rate"),
            samples: settings.int("samples"),
            estimator: settings.choice("estimator"),
        };
        Vcl {
            model: Model::new(setup),
            fit: Fit::new(q, prior, fit_settings, per_task),
            rng: Rng::named(setup.seed, "weights"),
            seed: setup.seed,
            per_task,
            test_samples: settings.int("test_samples"),
            slots,
            coreset: Batch::default(),
            counts: BTreeMap::new(),
            epochs: if slots > 0 { settings.int("epochs") } else { 0 },
            batch: shared.batch,
            rest: Batch::default(),
            answering: OnceLock::new(),
        }
    }

    /// Splits `batch` into what is set aside and what is learned from.
    fn set_aside(&mut self, batch: &Batch) {
        self.rest.clear();
        for i in 0..batch.len() {
            let (x, label, task) = batch.sample(i);
            let count = self.counts.entry((task, label)).or_default();
            let to = if *count < self.slots { &mut self.coreset } else { &mut self.rest };
            *count += 1;
            to.push(x, label, task);
        }
    }

    /// The posterior fine-tuned on what was set aside; itself if that is nothing.
    fn tuned(&self) -> Gaussian {
        let len = self.coreset.len();
        if len == 0 || self.epochs == 0 {
            return self.fit.q.clone();
        }
        let (mut model, mut rng) = (self.model.fork(BatchNormMode::Batch), Rng::named(self.seed, "coreset"));
        let mut fit = Fit::new(self.fit.q.clone(), self.fit.q.clone(), self.fit.settings, len as f32);
        let mut order: Vec<usize> = (0..len).collect();
        let mut batch = Batch::default();
        for _ in 0..self.epochs {
            rng.shuffle(&mut order);
            for chunk in order.chunks(self.batch) {
                batch.clear();
                for &i in chunk {
                    let (x, label, task) = self.coreset.sample(i);
                    batch.push(x, label, task);
                }
                fit.step(&mut model, &batch, || Noise::draw(&mut rng));
            }
        }
        fit.q
    }

    fn weights(&self) -> &[Vec<f32>] {
        self.answering.get_or_init(|| {
            let (q, mut rng) = (self.tuned(), Rng::named(self.seed, "answers"));
            let round = |w: &mut f32| *w = (*w / WEIGHT_GRID).round() * WEIGHT_GRID;
            let sample = |_| {
                let mut weights = q.sample(&mut rng);
                weights[..q.log_variance.len()].iter_mut().for_each(round);
                weights
            };
            (0..self.test_samples).map(sample).collect()
        })
    }

    /// The class of the largest mean probability by int16 evaluation, for the rows whose lead is larger than
    /// what the probabilities may be off; `None` where there is no int16 evaluation.
    ///
    /// If no difference of two logits is off by more than d, no probability p is by more than
    /// p (1 - p) (e^d - 1).
    fn certain_classes(&self, inputs: &Inputs<'_>, task: usize) -> Option<Vec<Option<u32>>> {
        let (weights, net) = (self.weights(), self.model.net());
        let classes = net.classes();
        let [mut sums, mut errors] = [(); 2].map(|()| vec![0.0f32; inputs.len() * classes]);
        for theta in weights {
            let BoundedLogits { mut logits, bounds } = net.infer_bounded(theta, inputs)?;
            self.model.normalize(&mut logits, task);
            let rows = sums.chunks_exact_mut(classes).zip(errors.chunks_exact_mut(classes));
            for (((sum, error), p), bound) in rows.zip(logits.chunks_exact(classes)).zip(bounds) {
                let most = bound.exp_m1();
                for ((sum, error), &p) in sum.iter_mut().zip(error).zip(p) {
                    *sum += p;
                    *error += p * (1.0 - p) * most;
                }
            }
        }
        // Rounding is far below the margin.
        let margin = MARGIN * weights.len() as f32;
        let class = |(sum, error): (&[f32], &[f32])| {
            let best = argmax(sum);
            let least = sum[best] - error[best] - margin;
            // A comparison with NaN is false.
            (0..classes).all(|c| c == best || least > sum[c] + error[c]).then_some(best as u32)
        };
        Some(sums.chunks_exact(classes).zip(errors.chunks_exact(classes)).map(class).collect())
    }

    /// The class of the largest mean probability. From the first weight sample on after which a class can
    /// lead by more than the remaining ones could give to another, such rows leave.
    fn predict_in_f32(&self, inputs: &Inputs<'_>, task: usize) -> Vec<u32> {
        let (weights, classes) = (self.weights(), self.model.net().classes());
        let (all, half) = (weights.len() as f32, weights.len() / 2);
        let mut sums = probabilities(&self.model, &weights[..half], weights.len(), inputs, task);
        // The rows that the remaining weight samples are asked for, and whether each is still open.
        let mut asked: Vec<usize> = (0..inputs.len()).collect();
        let mut is_open = vec![true; inputs.len()];
        let (mut open, mut selected) = (inputs.len(), None::<SelectedInputs<'_>>);
        for (i, theta) in weights.iter().enumerate().skip(half) {
            let rest = (weights.len() - 1 - i) as f32 / all;
            // A copy of the open rows pays once many others have left.
            if 4 * open < 3 * asked.len() {
                asked.retain(|&row| is_open[row]);
                selected = Some(inputs.select(&asked));
            }
            let view = selected.as_ref().map(SelectedInputs::inputs);
            let probabilities = self.model.predict_proba(theta, view.as_ref().unwrap_or(inputs), task);
            for (&row, probabilities) in asked.iter().zip(probabilities.chunks_exact(classes)) {
                if !is_open[row] {
                    continue;
                }
                let sum = &mut sums[row * classes..][..classes];
                sum.iter_mut().zip(probabilities).for_each(|(s, p)| *s += p / all);
                let best = argmax(sum);
                let second = (0..classes).filter(|&c| c != best).map(|c| sum[c]).fold(0.0, f32::max);
                // Rounding is far below the margin.
                is_open[row] = sum[best] - second <= rest + MARGIN;
                open -= usize::from(!is_open[row]);
            }
        }
        sums.chunks_exact(classes).map(|row| argmax(row) as u32).collect()
    }
}

/// Softmax over the allowed classes, averaged over so many weight samples, summed over those given:
/// `[inputs.len(), classes]`.
fn probabilities(
    model: &Model,
    weights: &[Vec<f32>],
    samples: usize,
    inputs: &Inputs<'_>,
    task: usize,
) -> Vec<f32> {
    let classes = model.net().classes();
    let mut sum = vec![0.0; inputs.len() * classes];
    for theta in weights {
        let rows = model.predict_proba(theta, inputs, task);
        sum.iter_mut().zip(rows).for_each(|(s, p)| *s += p / samples as f32);
    }
    sum
}

/// The class of the largest value.
fn argmax(row: &[f32]) -> usize {
    (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap_or(0)
}

impl Learner for Vcl {
    fn observe(&mut self, batch: &Batch) -> f32 {
        self.answering = OnceLock::new();
        self.set_aside(batch);
        if self.rest.is_empty() {
            return 0.0;
        }
        let rng = &mut self.rng;
        self.fit.step(&mut self.model, &self.rest, || Noise::draw(rng))
    }

    fn end_task(&mut self) {
        self.answering = OnceLock::new();
        let empty = Gaussian { mu: Vec::new(), log_variance: Vec::new() };
        let next = Fit::new(empty.clone(), empty, self.fit.settings, 1.0);
        let fit = std::mem::replace(&mut self.fit, next);
        self.fit = fit.next(self.per_task);
    }

    fn predict(&self, inputs: &Inputs<'_>, task: usize) -> Vec<u32> {
        let Some(certain) = self.certain_classes(inputs, task) else {
            return self.predict_in_f32(inputs, task);
        };
        let open: Vec<usize> = (0..certain.len()).filter(|&row| certain[row].is_none()).collect();
        let mut rest = self.predict_in_f32(&inputs.select(&open).inputs(), task).into_iter();
        certain.into_iter().map(|class| class.or_else(|| rest.next()).unwrap_or(0)).collect()
    }

    /// The mean of the softmaxes of all weight samples.
    fn predict_proba(&self, inputs: &Inputs<'_>, task: usize) -> Vec<f32> {
        probabilities(&self.model, self.weights(), self.test_samples, inputs, task)
    }

    fn theta(&self) -> &[f32] {
        &self.fit.q.mu
    }

    fn state(&mut self) -> StateDict<'_> {
        let Fit { q, prior, adam_mu, adam_log_variance, .. } = &mut self.fit;
        vec![
            ("mu", &mut q.mu),
            ("log_variance", &mut q.log_variance),
            ("prior.mu", &mut prior.mu),
            ("prior.log_variance", &mut prior.log_variance),
            ("adam_mu", adam_mu),
            ("adam_log_variance", adam_log_variance),
            ("weights", &mut self.rng),
            ("coreset", &mut self.coreset),
            ("counts", &mut self.counts),
            ("answering", &mut self.answering),
        ]
    }

    fn retained_samples(&self) -> RetainedSamples<'_> {
        RetainedSamples::of(Cow::Borrowed(&self.coreset), size_of_val(self.coreset.x.as_slice()) as u64)
    }

    fn retained_bytes(&self) -> u64 {
        let Fit { q, prior, .. } = &self.fit;
        let kept = [&q.log_variance, &prior.mu, &prior.log_variance];
        self.retained_samples().bytes()
            + kept.iter().map(|values| size_of_val(values.as_slice()) as u64).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use hindsight_nn::{QuantizedRows, SparseRows};

    use super::*;
    use crate::methods::golden::{Golden, batch, numbers, setup};

    fn golden() -> (Golden, Gaussian, Gaussian) {
        let golden = Golden::read(include_str!("../../tests/reference/vcl.json"));
        let gaussian = |mu, log_variance| Gaussian { mu: numbers(mu), log_variance: numbers(log_variance) };
        let q = gaussian(&golden["mu"], &golden["logvar"]);
        let prior = gaussian(&golden["prior"]["mu"], &golden["prior"]["logvar"]);
        (golden, q, prior)
    }

    #[test]
    fn three_updates_agree_with_pytorch() {
        let (golden, q, later) = golden();
        let zeros = vec![0.0; q.mu.len()];
        let first = Gaussian { mu: zeros.clone(), log_variance: zeros };
        for (case, noise, prior, estimator) in [
            ("first", "eps", first.clone(), Estimator::Weights),
            ("later", "eps", later.clone(), Estimator::Weights),
            ("local_first", "local_eps", first, Estimator::Local),
            ("local_later", "local_eps", later, Estimator::Local),
        ] {
            let mut model = setup(&VCL, &[], Model::new);
            let settings = FitSettings { rate: 0.001, samples: 2, estimator };
            let mut fit = Fit::new(q.clone(), prior, settings, golden["n"].as_f64().unwrap() as f32);
            for (data, step) in golden.pairs("batches", case) {
                let kl = fit.q.kl(&fit.prior);
                assert!((kl - step["kl"].as_f64().unwrap()).abs() < 1e-4 * kl);
                let mut eps = data[noise].as_array().unwrap().iter().map(numbers);
                let nll = fit.step(&mut model, &batch(data), || Noise::Given(eps.next().unwrap()));
                golden.assert_close(&[nll], &step["nll"]);
                golden.assert_close(&fit.q.mu, &step["mu"]);
                golden.assert_close(&fit.q.log_variance, &step["logvar"]);
            }
        }
    }

    #[test]
    fn answers_are_averaged_over_weight_samples_as_in_pytorch() {
        let (golden, q, _) = golden();
        let prediction = &golden["prediction"];
        let weights: Vec<Vec<f32>> = prediction["eps"]
            .as_array()
            .unwrap()
            .iter()
            .map(|eps| {
                let sigma = q.log_variance.iter().map(|v| (0.5 * v).exp());
                q.mu.iter().zip(sigma).zip(numbers(eps)).map(|((m, s), e)| m + s * e).collect()
            })
            .collect();
        let model = setup(&VCL, &[], Model::new);
        let queries = numbers(&prediction["queries"]);
        let found = probabilities(&model, &weights, weights.len(), &Inputs::dense(&queries, 6), 0);
        golden.assert_close(&found, &prediction["probabilities"]);
    }

    #[test]
    fn int16_answers_equal_those_in_f32() {
        let mut learner = setup(&VCL, &[], |setup| Vcl::new(setup, 0));
        learner.fit.q.mu.iter_mut().for_each(|w| *w = 8.0 * (*w - 0.02));
        let mut rng = Rng::named(1, "test");
        let mut rows = SparseRows::new(6);
        for _ in 0..2000 {
            let pixel = || [0.0, rng.below(256) as f32 / 255.0][rng.below(2)];
            rows.push(std::iter::repeat_with(pixel).take(6).collect::<Vec<_>>());
        }
        let quantized = QuantizedRows::new(&rows);
        let inputs = Inputs::sparse(&rows);
        let (found, plain) =
            (learner.predict(&inputs.with_quantized(&quantized), 0), learner.predict(&inputs, 0));
        assert_eq!(found, plain);
        if let Some(certain) = learner.certain_classes(&inputs.with_quantized(&quantized), 0) {
            let open = certain.iter().filter(|class| class.is_none()).count();
            assert!(open < 200, "{open} of 2000 rows fall back");
        }
        assert!(plain.iter().any(|&class| class != plain[0]));
    }

    #[test]
    fn the_closed_form_of_the_kl_agrees_with_monte_carlo() {
        let q = Gaussian { mu: vec![0.3, -0.5], log_variance: vec![-1.0, 0.2] };
        let p = Gaussian { mu: vec![0.0, 0.1], log_variance: vec![0.0, -0.4] };
        let log_density = |g: &Gaussian, x: &[f32]| -> f64 {
            let terms = g.mu.iter().zip(&g.log_variance).zip(x);
            terms.map(|((m, v), x)| f64::from(-0.5 * (v + (x - m).powi(2) / v.exp()))).sum()
        };
        let mut rng = Rng::named(1, "test");
        let rounds = 200_000;
        let estimate: f64 = (0..rounds)
            .map(|_| {
                let x = q.sample(&mut rng);
                (log_density(&q, &x) - log_density(&p, &x)) / f64::from(rounds)
            })
            .sum();
        assert!((estimate - q.kl(&p)).abs() < 0.01, "{estimate} {}", q.kl(&p));
    }
}
