//! What all methods do with a network: losses, gradients and answers on batches that mix tasks.

use std::sync::Arc;

use hindsight_nn::{BatchNormMode, Gradient, Inputs, Layer, Net, Rng, Tape};

use crate::{Batch, Heads, methods::Setup};

/// A network with its heads and one tape. It holds no parameters: theta is always an argument.
///
/// ```
/// use hindsight::{Batch, Inputs, Learner, methods::{Model, Setup}};
///
/// /// SGD on the stream.
/// struct Sgd {
///     model: Model,
///     theta: Vec<f32>,
/// }
///
/// impl Sgd {
///     fn new(setup: &Setup<'_>) -> Sgd {
///         Sgd { model: Model::new(setup), theta: setup.initial_theta() }
///     }
/// }
///
/// impl Learner for Sgd {
///     fn observe(&mut self, batch: &Batch) -> f32 {
///         self.model.step(&mut self.theta, batch, 0.1)
///     }
///
///     fn end_task(&mut self) {}
///
///     fn predict(&self, inputs: &Inputs<'_>, task: usize) -> Vec<u32> {
///         self.model.predict(&self.theta, inputs, task)
///     }
///
///     fn theta(&self) -> &[f32] {
///         &self.theta
///     }
/// }
/// ```
pub struct Model {
    net: Arc<dyn Net>,
    heads: Heads,
    tape: Tape,
    /// For passes that predict instead of learn.
    evaluation: Tape,
    mask: Vec<bool>,
}

impl Model {
    /// The model of a setup.
    pub fn new(setup: &Setup<'_>) -> Model {
        Model::of(setup.net.clone(), setup.heads.clone(), BatchNormMode::Batch)
    }

    fn of(net: Arc<dyn Net>, heads: Heads, mode: BatchNormMode) -> Model {
        let evaluation = Tape::new().with_batch_norm(BatchNormMode::Running);
        Model { net, heads, tape: Tape::new().with_batch_norm(mode), evaluation, mask: Vec::new() }
    }

    /// The same model with a tape of its own, for passes in which batch-norm runs in `mode`.
    pub fn fork(&self, mode: BatchNormMode) -> Model {
        Model::of(self.net.clone(), self.heads.clone(), mode)
    }

    /// The network.
    pub fn net(&self) -> &dyn Net {
        &*self.net
    }

    /// Which classes each task may answer with.
    pub fn heads(&self) -> &Heads {
        &self.heads
    }

    /// The record of the last pass.
    pub fn tape(&mut self) -> &mut Tape {
        &mut self.tape
    }

    /// A pass without a loss: logits and features are on the tape afterwards.
    pub fn forward(&mut self, theta: &[f32], x: &[f32]) -> &Tape {
        self.net.forward(theta, x, &mut self.tape);
        &self.tape
    }

    /// The mean loss on `batch`; its gradient is on the tape afterwards.
    pub fn gradient(&mut self, theta: &[f32], batch: &Batch) -> f32 {
        let loss = self.loss(theta, batch);
        self.net.backward(theta, &mut self.tape);
        loss
    }

    /// The mean loss on `batch`, whose cotangent is seeded but not yet carried back.
    pub fn loss(&mut self, theta: &[f32], batch: &Batch) -> f32 {
        self.net.forward(theta, &batch.x, &mut self.tape);
        let mask = self.heads.mask(&batch.tasks, self.net.classes(), &mut self.mask);
        self.tape.cross_entropy(&batch.labels, mask)
    }

    /// The sum over `parts` of a weight times the mean loss of so many samples, one part after the other; its
    /// cotangent is seeded but not yet carried back. Samples behind the parts count for nothing. `among`
    /// narrows the classes of each sample further, `[batch, classes]`.
    pub fn loss_of_parts(
        &mut self,
        theta: &[f32],
        batch: &Batch,
        parts: &[(usize, f32)],
        among: Option<&[bool]>,
    ) -> f32 {
        self.net.forward(theta, &batch.x, &mut self.tape);
        let narrowed = self.heads.mask(&batch.tasks, self.net.classes(), &mut self.mask).is_some();
        let mask = match (narrowed, among) {
            (true, Some(among)) => {
                self.mask.iter_mut().zip(among).for_each(|(allowed, &among)| *allowed &= among);
                Some(&*self.mask)
            }
            (true, None) => Some(&*self.mask),
            (false, among) => among,
        };
        self.tape.cross_entropy_of_parts(&batch.labels, mask, parts)
    }

    /// Carries what is seeded back through the network.
    pub fn backward(&mut self, theta: &[f32]) {
        self.net.backward(theta, &mut self.tape);
    }

    /// The loss of each sample now, and after a step along the last gradient, which is not taken.
    pub fn sample_losses_ahead(
        &mut self,
        theta: &[f32],
        rate: f32,
        batch: &Batch,
        tapes: &mut [Tape; 2],
        [now, then]: [&mut Vec<f32>; 2],
    ) {
        self.last_gradient().forward_ahead(theta, rate, &batch.x, tapes);
        let mask = self.heads.mask(&batch.tasks, self.net.classes(), &mut self.mask);
        tapes[0].sample_losses(&batch.labels, mask, now);
        tapes[1].sample_losses(&batch.labels, mask, then);
    }

    /// The probability of each class for each sample, zero for those its task may not answer with, as the
    /// network would answer: under running statistics.
    pub fn softmax(&mut self, theta: &[f32], batch: &Batch, out: &mut Vec<f32>) {
        self.net.forward(theta, &batch.x, &mut self.evaluation);
        let mask = self.heads.mask(&batch.tasks, self.net.classes(), &mut self.mask);
        self.evaluation.cross_entropy(&batch.labels, mask);
        out.clear();
        out.extend_from_slice(self.evaluation.probabilities());
    }

    /// The logits of the rows of `x` as the network would answer: under running statistics.
    pub fn answer_logits(&mut self, theta: &[f32], x: &[f32]) -> &[f32] {
        self.net.forward(theta, x, &mut self.evaluation);
        self.evaluation.logits()
    }

    /// A class for the first sample of `batch`, drawn with the probability that the network gives it.
    pub fn draw_label(&mut self, theta: &[f32], batch: &Batch, rng: &mut Rng) -> u32 {
        self.loss(theta, batch);
        let mut left = rng.uniform() as f32;
        let row = &self.tape.probabilities()[..self.net.classes()];
        let allowed = |class: &usize| row[*class] > 0.0;
        let drawn = (0..row.len()).filter(allowed).find(|&class| {
            left -= row[class];
            left < 0.0
        });
        // Rounding can leave a little of the draw over; the sample's own class is always allowed.
        drawn.map_or(batch.labels[0], |class| class as u32)
    }

    /// `into += scale * gradient` of the last pass.
    pub fn accumulate(&mut self, scale: f32, into: &mut [f32]) {
        self.net.accumulate(&mut self.tape, scale, into);
    }

    /// The gradient of the last pass, as a value.
    pub fn last_gradient(&mut self) -> Gradient<'_> {
        Gradient::new(&*self.net, &mut self.tape)
    }

    /// Moves the running statistics in `theta` towards those of the last pass.
    pub fn update_running_stats(&self, theta: &mut [f32]) {
        self.net.update_running_stats(&self.tape, theta);
    }

    /// Moves the running statistics in `theta` towards those of the last pass, by a `share` of the way.
    pub fn blend_running_stats(&self, share: f32, theta: &mut [f32]) {
        self.net.blend_running_stats(&self.tape, share, theta);
    }

    /// The gradient in the inputs of the seeded loss and, if any, of a cotangent of the features.
    pub fn input_gradient(&mut self, theta: &[f32], features: Option<&[f32]>, out: &mut [f32]) {
        if let Some(features) = features {
            self.tape.seed_features(features);
        }
        self.net.backward_to_input(theta, &mut self.tape, out);
    }

    /// `into += scale * H v`, with H the Hessian of the loss of the last gradient pass, at the same theta,
    /// and v the gradient on the tape `along`.
    pub fn hvp(&mut self, theta: &[f32], along: &mut Tape, scale: f32, into: &mut [f32]) {
        Gradient::new(&*self.net, along).hvp(theta, &mut self.tape, scale, into);
    }

    /// Carries what is seeded back and takes a step of SGD along it.
    pub fn step_seeded(&mut self, theta: &mut [f32], rate: f32) {
        self.backward(theta);
        self.accumulate(-rate, theta);
        self.update_running_stats(theta);
    }

    /// One step of SGD on `batch`; returns the loss before it.
    pub fn step(&mut self, theta: &mut [f32], batch: &Batch, rate: f32) -> f32 {
        let loss = self.gradient(theta, batch);
        self.accumulate(-rate, theta);
        self.update_running_stats(theta);
        loss
    }

    /// The best allowed class of each input.
    pub fn predict(&self, theta: &[f32], inputs: &Inputs<'_>, task: usize) -> Vec<u32> {
        self.net.predict_classes(theta, inputs, &self.heads.classes(task, self.net.classes()))
    }

    /// The softmax of each input's logits over the allowed classes, `[inputs.len(), classes]`.
    pub fn predict_proba(&self, theta: &[f32], inputs: &Inputs<'_>, task: usize) -> Vec<f32> {
        let mut rows = self.net.infer(theta, inputs, Layer::Logits);
        self.normalize(&mut rows, task);
        rows
    }

    /// Turns rows of logits into probabilities over the allowed classes, `[_, classes]`.
    pub fn normalize(&self, rows: &mut [f32], task: usize) {
        let allowed = |class: usize| self.heads.allows(task, class);
        rows.chunks_exact_mut(self.net.classes()).for_each(|row| softmax(row, allowed));
    }
}

/// Turns a row of logits into probabilities, zero for the classes that are not allowed.
pub(crate) fn softmax(row: &mut [f32], allowed: impl Fn(usize) -> bool) {
    let classes = || (0..row.len()).filter(|&class| allowed(class));
    let top = classes().map(|class| row[class]).fold(f32::NEG_INFINITY, f32::max);
    row.iter_mut().enumerate().for_each(|(c, z)| *z = if allowed(c) { (*z - top).exp() } else { 0.0 });
    let total: f32 = row.iter().sum();
    row.iter_mut().for_each(|p| *p /= total);
}
