//! The interface of a network.

mod gradient;
mod local;
mod step_ahead;

pub(crate) use gradient::FactoredNet;
pub use gradient::Gradient;
pub use local::{LocalNet, LocalPass};
pub use step_ahead::{Correction, StepAhead};

use std::{iter, ops::Range};

use crate::{input::Inputs, kernels::Scalar, layers::batch_norm::MOMENTUM, rng::Rng, tape::Tape};

/// A network as a pure function of theta, with the derivatives that continual learning needs.
///
/// The calls of a pass share a [`Tape`]. `forward` records the activations. The caller seeds cotangents with
/// [`Tape::cross_entropy`] or [`Tape::seed`]. `backward` computes the deltas of all layers. After that
/// `accumulate`, `input_gradient` and the operations of [`Gradient`] can be called any number of times.
/// `accumulate` does not read theta, so it can add a multiple of the gradient directly to theta: a fused SGD
/// step.
///
/// ```
/// use hindsight_nn::{Inputs, Mlp, Net, Rng, Tape};
///
/// let net: Box<dyn Net> = Box::new(Mlp::new(&[2, 16, 2]).unwrap());
/// let mut theta = net.init(&mut Rng::named(1, "init"));
/// let (x, labels) = ([0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0], [0, 1, 1, 0]); // XOR
/// let mut tape = Tape::new();
/// for _ in 0..500 {
///     net.forward(&theta, &x, &mut tape);
///     tape.cross_entropy(&labels, None);
///     net.backward(&theta, &mut tape);
///     net.accumulate(&mut tape, -0.5, &mut theta);
/// }
/// assert_eq!(net.predict_classes(&theta, &Inputs::dense(&x, 2), &[0, 1]), labels);
/// ```
pub trait Net<T: Scalar = f32>: Send + Sync {
    /// Number of values in an input.
    fn inputs(&self) -> usize;

    /// Number of values in a feature vector phi(x).
    fn features(&self) -> usize;

    /// Number of logits.
    fn classes(&self) -> usize;

    /// Length of theta.
    fn parameters(&self) -> usize;

    /// Length of the trained part of theta, which comes first. The rest are running statistics, whose
    /// gradient is zero.
    fn trainable(&self) -> usize {
        self.parameters()
    }

    /// The parts of the trainable theta that a pass over `x` reads, in order. The gradient in all others is
    /// zero.
    fn active_parameters(&self, _x: &[T]) -> Vec<Range<usize>> {
        iter::once(0..self.trainable()).collect()
    }

    /// Draws an initial theta.
    fn init(&self, rng: &mut Rng) -> Vec<T>;

    /// Draws output weights, `[features]`, and a bias for one more class, as `init` would.
    fn init_class(&self, rng: &mut Rng) -> Vec<T>;

    /// Computes the logits and features of the rows of `x` and records what the derivatives need.
    fn forward(&self, theta: &[T], x: &[T], tape: &mut Tape<T>);

    /// Moves the running statistics in theta towards those of the batch on the tape. A forward pass does not
    /// do this by itself: the caller decides which of its passes count.
    fn update_running_stats(&self, tape: &Tape<T>, theta: &mut [T]) {
        self.blend_running_stats(tape, T::of(MOMENTUM), theta);
    }

    /// The same by another share: at 1 they become those of the batch.
    fn blend_running_stats(&self, _tape: &Tape<T>, _share: T, _theta: &mut [T]) {}

    /// Propagates the seeded cotangents back through all layers.
    fn backward(&self, theta: &[T], tape: &mut Tape<T>);

    /// `into += scale * gradient` in theta, after `backward`.
    fn accumulate(&self, tape: &mut Tape<T>, scale: T, into: &mut [T]);

    /// `out = gradient` in the input, after `backward`: `[batch, inputs]`.
    fn input_gradient(&self, theta: &[T], tape: &mut Tape<T>, out: &mut [T]);

    /// `backward`, of which only the gradient in the input is wanted: `out`, `[batch, inputs]`. What else
    /// `backward` leaves on the tape may be missing.
    fn backward_to_input(&self, theta: &[T], tape: &mut Tape<T>, out: &mut [T]) {
        self.backward(theta, tape);
        self.input_gradient(theta, tape, out);
    }

    /// The tangent of the forward pass along `v`. Sets [`Tape::logits_tangent`].
    fn tangent_forward(&self, theta: &[T], v: &[T], tape: &mut Tape<T>);

    /// The tangent of the backward pass along `v`, after `tangent_forward` and a seeded tangent.
    fn tangent_backward(&self, theta: &[T], v: &[T], tape: &mut Tape<T>);

    /// `into += scale * tangent of the gradient`, after `tangent_backward`.
    fn accumulate_tangent(&self, tape: &mut Tape<T>, scale: T, into: &mut [T]);

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

    /// The operations of [`Gradient`] on factors, if the gradient is factored.
    #[doc(hidden)]
    fn factored(&self) -> Option<&dyn FactoredNet<T>> {
        None
    }

    /// Passes by the local reparameterisation, if the network has them.
    fn local(&self) -> Option<&dyn LocalNet<T>> {
        None
    }

    /// Passes the logits or features of `inputs` to `visit`, some rows at a time, in order: `[_, classes]` or
    /// `[_, features]`.
    fn infer_blocks(&self, theta: &[T], inputs: &Inputs<'_, T>, layer: Layer, visit: &mut dyn FnMut(&[T]));

    /// The logits or features of all `inputs`: `[inputs.len(), classes]` or `[inputs.len(), features]`.
    fn infer(&self, theta: &[T], inputs: &Inputs<'_, T>, layer: Layer) -> Vec<T> {
        let mut all = Vec::new();
        self.infer_blocks(theta, inputs, layer, &mut |rows| all.extend_from_slice(rows));
        all
    }

    /// The logits of all `inputs`, computed faster, with bounds on how far they are from those of
    /// [`Net::infer`]; `None` where there is no faster way.
    fn infer_bounded(&self, _theta: &[T], _inputs: &Inputs<'_, T>) -> Option<BoundedLogits> {
        None
    }

    /// The class with the largest logit among `allowed`, for each input.
    fn predict_classes(&self, theta: &[T], inputs: &Inputs<'_, T>, allowed: &[usize]) -> Vec<u32> {
        let mut all = Vec::with_capacity(inputs.len());
        self.infer_blocks(theta, inputs, Layer::Logits, &mut |rows| {
            all.extend(argmax_rows(rows, self.classes(), allowed));
        });
        all
    }
}

/// Logits that are known within bounds.
#[derive(Debug, Clone, PartialEq)]
pub struct BoundedLogits {
    /// `[inputs, classes]`.
    pub logits: Vec<f32>,
    /// For each input: the difference of any two of its logits is at most this far from the exact one.
    pub bounds: Vec<f32>,
}

/// Which values [`Net::infer`] returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// The features, phi(x).
    Features,
    /// The logits, f(x).
    Logits,
}

/// The class with the largest logit among `allowed`, for each row of `logits`: `[_, classes]`.
pub(crate) fn argmax_rows<T: Scalar>(
    logits: &[T],
    classes: usize,
    allowed: &[usize],
) -> impl Iterator<Item = u32> {
    logits.chunks_exact(classes).map(move |row| {
        let allowed = allowed.iter().copied();
        allowed.max_by(|&a, &b| row[a].wide().total_cmp(&row[b].wide())).unwrap_or(0) as u32
    })
}

/// Layer sizes of which no network can be built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShapeError(Vec<usize>);

impl ShapeError {
    pub(crate) fn new(widths: &[usize]) -> ShapeError {
        ShapeError(widths.to_vec())
    }
}

impl std::fmt::Display for ShapeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "expected input, hidden and output widths above zero, found {:?}", self.0)
    }
}

impl std::error::Error for ShapeError {}
