//! What a network is to the rest of the world: [`Net`], and the [`Tape`] that a pass over it leaves.

use std::ops::Range;

use crate::{Inputs, Rng, Scalar, SparseRows, resnet::Scratch};

/// A network as a pure function of theta, with the derivatives that continual learning asks for.
///
/// A pass is a sequence of calls that share a [`Tape`]: `forward` writes values; the caller seeds cotangents
/// ([`Tape::cross_entropy`] or [`Tape::seed`]); `backward` writes the deltas of all layers; then
/// `accumulate` and `input_gradient` read them as often as wanted. Since `accumulate` does not read theta,
/// it can add a multiple of the gradient straight into theta: that is the fused SGD step.
pub trait Net<T: Scalar = f32>: Send + Sync {
    /// Values in an input.
    fn inputs(&self) -> usize;

    /// Values in a feature vector phi(x).
    fn features(&self) -> usize;

    /// Number of logits.
    fn classes(&self) -> usize;

    /// Length of theta.
    fn parameters(&self) -> usize;

    /// How many values of theta are trained: the first ones. Behind them come running statistics, if any, whose
    /// gradient is zero.
    fn trainable(&self) -> usize {
        self.parameters()
    }

    /// Draws a theta to start from.
    fn init(&self, rng: &mut Rng) -> Vec<T>;

    /// Computes logits and features of the rows of `x` and records what the derivatives need.
    fn forward(&self, theta: &[T], x: &[T], tape: &mut Tape<T>);

    /// Moves the running statistics in theta towards those of the batch on the tape. That a step does this, and with
    /// which of its passes, is up to the caller.
    fn follow(&self, _tape: &Tape<T>, _theta: &mut [T]) {}

    /// Two passes over `x`: at theta, and at theta - rate * the gradient that `along` holds after its `backward`. The second is for
    /// its logits only. `ahead` is scratch, in which that theta is written out where the network has no better way.
    fn forward_ahead(
        &self,
        theta: &[T],
        along: &mut Tape<T>,
        rate: T,
        x: &[T],
        tapes: &mut [Tape<T>; 2],
        ahead: &mut Vec<T>,
    ) {
        ahead.clear();
        ahead.extend_from_slice(theta);
        self.accumulate(along, -rate, ahead);
        self.forward(theta, x, &mut tapes[0]);
        self.forward(ahead, x, &mut tapes[1]);
    }

    /// Carries the seeded cotangents back through all layers.
    fn backward(&self, theta: &[T], tape: &mut Tape<T>);

    /// `into += scale * gradient` in theta, after `backward`.
    fn accumulate(&self, tape: &mut Tape<T>, scale: T, into: &mut [T]);

    /// Hands out the gradient in theta, after `backward`, part by part: `visit` gets each part once, with its place, and none for
    /// zeros. What is done with a part is done while it is in the cache; the whole is written only by networks that have no
    /// better way, into `room`.
    fn visit_gradient(&self, tape: &mut Tape<T>, room: &mut Vec<T>, visit: &mut Visit<'_, T>) {
        room.clear();
        room.resize(self.parameters(), T::zero());
        self.accumulate(tape, T::one(), room);
        visit(0..self.trainable(), Some(&room[..self.trainable()]));
    }

    /// `out = gradient` in the input, after `backward`: `[batch, inputs]`.
    fn input_gradient(&self, theta: &[T], tape: &mut Tape<T>, out: &mut [T]);

    /// The tangent of the forward pass along `v`: afterwards the tape has [`Tape::logits_tangent`].
    fn tangent_forward(&self, theta: &[T], v: &[T], tape: &mut Tape<T>);

    /// The tangent of the backward pass along `v`, after `tangent_forward` and a seeded tangent.
    fn tangent_backward(&self, theta: &[T], v: &[T], tape: &mut Tape<T>);

    /// `into += scale * tangent of the gradient`, after `tangent_backward`.
    fn accumulate_tangent(&self, tape: &mut Tape<T>, scale: T, into: &mut [T]);

    /// The logits (or features) of all `inputs`, block by block: `[inputs.len(), classes]`.
    fn infer(&self, theta: &[T], inputs: &Inputs<'_, T>, layer: Layer) -> Vec<T>;

    /// The best of the classes `allowed` for each of the inputs, by the logits that [`Net::infer`] gives.
    fn answers(&self, theta: &[T], inputs: &Inputs<'_, T>, allowed: &[usize]) -> Vec<u32> {
        best_classes(&self.infer(theta, inputs, Layer::Logits), self.classes(), allowed)
    }

    /// `into += scale * H v`, with H the Hessian of the mean cross-entropy on the tape.
    ///
    /// The tape must come from `forward`, [`Tape::cross_entropy`] and `backward` at the same theta. The
    /// product is exact: it is the derivative of the backward pass, not a difference of gradients.
    fn hvp(&self, theta: &[T], v: &[T], tape: &mut Tape<T>, scale: T, into: &mut [T]) {
        self.tangent_forward(theta, v, tape);
        tape.seed_cross_entropy_tangent();
        self.tangent_backward(theta, v, tape);
        self.accumulate_tangent(tape, scale, into);
    }

    /// [`Net::hvp`] along the gradient that `along` holds after its `backward`. `v` is scratch of any length, in which
    /// that gradient is written out where the network has no better way.
    fn hvp_along(
        &self,
        theta: &[T],
        along: &mut Tape<T>,
        v: &mut Vec<T>,
        tape: &mut Tape<T>,
        scale: T,
        into: &mut [T],
    ) {
        v.clear();
        v.resize(theta.len(), T::zero());
        self.accumulate(along, T::one(), v);
        self.hvp(theta, v, tape, scale, into);
    }

    /// The inner product of the gradients that two tapes hold after `backward`, where the network knows it without
    /// writing them out. `room` is scratch.
    fn gradient_dot(&self, _one: &Tape<T>, _other: &Tape<T>, _room: [&mut Vec<T>; 2]) -> Option<f64> {
        None
    }

    /// `into += scale * (gradient on plus - gradient on minus)`, after `backward` on both.
    fn accumulate_difference(&self, plus: &mut Tape<T>, minus: &mut Tape<T>, scale: T, into: &mut [T]) {
        self.accumulate(plus, scale, into);
        self.accumulate(minus, -scale, into);
    }
}

/// What batch-norm takes as mean and variance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Statistics {
    /// Those of the batch, as in training.
    #[default]
    Batch,
    /// The running averages in theta, as in evaluation.
    Running,
}

/// Takes a part of a gradient: its place in theta and its values, none for zeros.
pub type Visit<'v, T = f32> = dyn FnMut(Range<usize>, Option<&[T]>) + 'v;

/// The best of the classes `allowed` in each row of logits.
pub(crate) fn best_classes<T: Scalar>(logits: &[T], classes: usize, allowed: &[usize]) -> Vec<u32> {
    let best = |row: &[T]| {
        let classes = allowed.iter().copied();
        classes.max_by(|&a, &b| row[a].wide().total_cmp(&row[b].wide())).unwrap_or(0) as u32
    };
    logits.chunks_exact(classes).map(best).collect()
}

/// Which values [`Net::infer`] returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// phi(x).
    Features,
    /// f(x).
    Logits,
}

/// The record of one pass over a network. Reused from step to step, it stops allocating after the first.
#[derive(Debug, Clone)]
pub struct Tape<T = f32> {
    pub(crate) batch: usize,
    /// Input and outputs of all layers; the last are the logits, the last but one the features.
    pub(crate) values: Vec<Vec<T>>,
    /// Cotangents of the layers' outputs before their activation.
    pub(crate) deltas: Vec<Vec<T>>,
    /// Tangents of `values` and `deltas`.
    pub(crate) value_tangents: Vec<Vec<T>>,
    pub(crate) delta_tangents: Vec<Vec<T>>,
    /// Cotangent of the features; empty for none.
    pub(crate) feature_cotangent: Vec<T>,
    /// Softmax of the logits, kept by the cross-entropy for its tangent.
    pub(crate) probabilities: Vec<T>,
    /// Of the perceptron: the non-zero entries of the layers' inputs, and room for small factors.
    pub(crate) nonzeros: Vec<Nonzeros<T>>,
    pub(crate) factor: Vec<T>,
    pub(crate) row: Vec<T>,
    pub(crate) statistics: Statistics,
    pub(crate) scratch: Scratch<T>,
}

/// The non-zero entries of a layer's input, by row and by column, and whether the layer works on those alone.
#[derive(Debug, Clone)]
pub(crate) struct Nonzeros<T> {
    pub(crate) rows: SparseRows<T>,
    pub(crate) columns: SparseRows<T>,
    /// The tangent's values at the places of `columns`.
    pub(crate) tangent_columns: SparseRows<T>,
    /// Few enough for the product with the weights, and for the gradient in the weights.
    pub(crate) few: bool,
    pub(crate) few_columns: bool,
}

impl<T: Scalar> Default for Nonzeros<T> {
    fn default() -> Nonzeros<T> {
        let [rows, columns, tangent_columns] = [(); 3].map(|()| SparseRows::new(0));
        Nonzeros { rows, columns, tangent_columns, few: false, few_columns: false }
    }
}

impl<T: Scalar> Default for Tape<T> {
    fn default() -> Tape<T> {
        Tape::new()
    }
}

impl<T: Scalar> Tape<T> {
    /// An empty tape, for any network.
    pub fn new() -> Tape<T> {
        Tape {
            batch: 0,
            values: Vec::new(),
            deltas: Vec::new(),
            value_tangents: Vec::new(),
            delta_tangents: Vec::new(),
            feature_cotangent: Vec::new(),
            probabilities: Vec::new(),
            nonzeros: Vec::new(),
            factor: Vec::new(),
            row: Vec::new(),
            statistics: Statistics::Batch,
            scratch: Scratch::default(),
        }
    }

    /// The same tape for passes under other statistics.
    pub fn with(mut self, statistics: Statistics) -> Tape<T> {
        self.statistics = statistics;
        self
    }

    /// Rows in the batch.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// The logits of the last forward pass, `[batch, classes]`.
    pub fn logits(&self) -> &[T] {
        self.values.last().map_or(&[], Vec::as_slice)
    }

    /// The features of the last forward pass, `[batch, features]`.
    pub fn features(&self) -> &[T] {
        self.values.iter().nth_back(1).map_or(&[], Vec::as_slice)
    }

    /// The tangent of the logits, `[batch, classes]`.
    pub fn logits_tangent(&self) -> &[T] {
        self.value_tangents.last().map_or(&[], Vec::as_slice)
    }

    /// Seeds the backward pass with a cotangent of the logits and, if any, one of the features.
    ///
    /// # Panics
    /// If a cotangent has another length than the values it belongs to.
    pub fn seed(&mut self, logits: &[T], features: Option<&[T]>) {
        assert_eq!(logits.len(), self.logits().len(), "a cotangent of another shape than the logits");
        self.logit_deltas().copy_from_slice(logits);
        self.feature_cotangent.clear();
        if let Some(features) = features {
            self.seed_features(features);
        }
    }

    /// The softmax that the last [`Tape::cross_entropy`] took, `[batch, classes]`.
    pub fn probabilities(&self) -> &[T] {
        &self.probabilities
    }

    /// Adds to the cotangent of the logits that [`Tape::seed`] or [`Tape::cross_entropy`] has seeded.
    ///
    /// # Panics
    /// If it has another length than the logits.
    pub fn add_logits_seed(&mut self, logits: &[T]) {
        assert_eq!(logits.len(), self.logits().len(), "a cotangent of another shape than the logits");
        self.logit_deltas().iter_mut().zip(logits).for_each(|(d, &c)| *d += c);
    }

    /// Adds a cotangent of the features to what [`Tape::seed`] or [`Tape::cross_entropy`] has seeded.
    ///
    /// # Panics
    /// If it has another length than the features.
    pub fn seed_features(&mut self, features: &[T]) {
        assert_eq!(features.len(), self.features().len(), "a cotangent of another shape than the features");
        self.feature_cotangent.clear();
        self.feature_cotangent.extend_from_slice(features);
    }

    /// The cotangent of the logits, to be filled.
    pub(crate) fn logit_deltas(&mut self) -> &mut Vec<T> {
        let last = self.values.len() - 1;
        let len = self.values[last].len();
        resize(&mut self.deltas, last + 1)[last].resize(len, T::zero());
        &mut self.deltas[last]
    }
}

/// `buffers` with at least `count` entries.
pub(crate) fn resize<T>(buffers: &mut Vec<Vec<T>>, count: usize) -> &mut [Vec<T>] {
    if buffers.len() != count {
        buffers.resize_with(count, Vec::new);
    }
    buffers
}
