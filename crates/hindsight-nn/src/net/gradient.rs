//! The gradient in theta as a value that need not be written out.
//!
//! In a linear layer the gradient of a batch is a product of two narrow matrices, `a^T e`, of the inputs `a`
//! and the deltas `e`. For a batch of ten, products with it are far cheaper through these factors than
//! through a dense vector as long as theta.

use std::ops::Range;

use super::{Correction, Net};
use crate::{kernels::Scalar, layers::BlockVisitor, params, tape::Tape};

/// The gradient in theta that a tape holds after [`Net::backward`].
///
/// A network whose gradient is factored computes with the factors. For any other network the gradient is
/// written to a buffer on the tape when an operation needs it.
///
/// ```
/// use hindsight_nn::{Gradient, Mlp, Net, Rng, Tape};
///
/// let net = Mlp::new(&[2, 8, 3]).unwrap();
/// let theta: Vec<f32> = net.init(&mut Rng::named(1, "init"));
/// let [mut now, mut past] = [Tape::new(), Tape::new()];
/// for (tape, x, label) in [(&mut now, [0.5, 1.0], 2), (&mut past, [1.0, 0.0], 0)] {
///     net.forward(&theta, &x, tape);
///     tape.cross_entropy(&[label], None);
///     net.backward(&theta, tape);
/// }
/// let (mut g, mut r) = (Gradient::new(&net, &mut now), Gradient::new(&net, &mut past));
/// let cosine = g.dot(&mut r) / (g.squared_norm() * r.squared_norm()).sqrt();
/// assert!((-1.0..=1.0).contains(&cosine));
/// ```
pub struct Gradient<'a, T: Scalar = f32> {
    pub(super) net: &'a dyn Net<T>,
    pub(super) tape: &'a mut Tape<T>,
    /// Whether `tape.gradient[0]` holds the gradient.
    written: bool,
}

impl<'a, T: Scalar> Gradient<'a, T> {
    /// The gradient on `tape`, after `net.backward`.
    pub fn new(net: &'a dyn Net<T>, tape: &'a mut Tape<T>) -> Gradient<'a, T> {
        Gradient { net, tape, written: false }
    }

    /// `into += scale * self`.
    pub fn add_to(&mut self, scale: T, into: &mut [T]) {
        if self.written {
            params::axpy(scale, &self.tape.gradient[0], into);
        } else {
            self.net.accumulate(self.tape, scale, into);
        }
    }

    /// `into += scale * (self + factor * other)`. `other` must be of the same network.
    pub fn add_sum_to(&mut self, factor: f64, other: &mut Gradient<'_, T>, scale: T, into: &mut [T]) {
        if let Some(factored) = self.net.factored() {
            factored.add_sum_to([self.tape, other.tape], factor, scale, into);
        } else if self.written && other.written {
            params::axpy(T::of(factor), &other.tape.gradient[0], &mut self.tape.gradient[0]);
            params::axpy(scale, &self.tape.gradient[0], into);
            self.written = false;
        } else {
            self.add_to(scale, into);
            other.add_to(T::of(scale.wide() * factor), into);
        }
    }

    /// The inner product. `other` must be of the same network.
    pub fn dot(&mut self, other: &mut Gradient<'_, T>) -> f64 {
        let Some(factored) = self.net.factored() else {
            return params::dot(self.dense(), other.dense());
        };
        let mut buffers = std::mem::take(&mut self.tape.gradient);
        let sum = factored.dot(self.tape, other.tape, &mut buffers);
        self.tape.gradient = buffers;
        sum
    }

    /// The inner product with itself.
    pub fn squared_norm(&mut self) -> f64 {
        let Some(factored) = self.net.factored() else {
            let gradient = self.dense();
            return params::dot(gradient, gradient);
        };
        let mut buffers = std::mem::take(&mut self.tape.gradient);
        let sum = factored.dot(self.tape, self.tape, &mut buffers);
        self.tape.gradient = buffers;
        sum
    }

    /// Calls `visit` once for each block of the trainable part of theta, with its range and the gradient
    /// there, or `None` if that is zero. A block of a factored gradient is in the cache when `visit` is
    /// called.
    pub fn for_each_block(&mut self, mut visit: impl FnMut(Range<usize>, Option<&[T]>)) {
        let Some(factored) = self.net.factored() else {
            let trainable = self.net.trainable();
            return visit(0..trainable, Some(&self.dense()[..trainable]));
        };
        let mut block = std::mem::take(&mut self.tape.gradient[0]);
        factored.for_each_block(self.tape, &mut block, &mut visit);
        self.tape.gradient[0] = block;
    }

    /// `into += scale * H self`, with H as in [`Net::hvp`]: the Hessian of the loss on `tape`.
    pub fn hvp(&mut self, theta: &[T], tape: &mut Tape<T>, scale: T, into: &mut [T]) {
        match self.net.factored() {
            Some(factored) => factored.hvp(theta, self.tape, tape, scale, into),
            None => self.net.hvp(theta, self.dense(), tape, scale, into),
        }
    }

    /// Two forward passes over `x`: at theta, and at `theta - rate * self`. The second tape is for its logits
    /// only.
    pub fn forward_ahead(&mut self, theta: &[T], rate: T, x: &[T], tapes: &mut [Tape<T>; 2]) {
        let mut buffer = std::mem::take(&mut self.tape.gradient[0]);
        self.written = false;
        if let Some(factored) = self.net.factored() {
            factored.forward_ahead(theta, self.tape, rate, x, tapes, &mut buffer);
        } else {
            buffer.clear();
            buffer.extend_from_slice(theta);
            self.add_to(-rate, &mut buffer);
            self.net.forward(theta, x, &mut tapes[0]);
            self.net.forward(&buffer, x, &mut tapes[1]);
        }
        self.tape.gradient[0] = buffer;
    }

    /// The gradient, written out.
    fn dense(&mut self) -> &[T] {
        if !self.written {
            let mut dense = std::mem::take(&mut self.tape.gradient[0]);
            dense.clear();
            dense.resize(self.net.parameters(), T::zero());
            self.add_to(T::one(), &mut dense);
            self.tape.gradient[0] = dense;
            self.written = true;
        }
        &self.tape.gradient[0]
    }
}

/// The operations of a [`Gradient`] that a network computes from factors. The tapes hold gradients.
pub trait FactoredNet<T: Scalar> {
    /// See [`Gradient::add_sum_to`].
    fn add_sum_to(&self, tapes: [&mut Tape<T>; 2], factor: f64, scale: T, into: &mut [T]);

    /// See [`Gradient::dot`]. The buffers may hold anything.
    fn dot(&self, one: &Tape<T>, other: &Tape<T>, buffers: &mut [Vec<T>; 2]) -> f64;

    /// See [`Gradient::for_each_block`]. `block` is a buffer.
    fn for_each_block(&self, tape: &Tape<T>, block: &mut Vec<T>, visit: &mut BlockVisitor<'_, T>);

    /// See [`Gradient::hvp`]: the product of the Hessian on `tape` with the gradient on `along`.
    fn hvp(&self, theta: &[T], along: &Tape<T>, tape: &mut Tape<T>, scale: T, into: &mut [T]);

    /// See [`Gradient::forward_ahead`]. `first` is a buffer.
    fn forward_ahead(
        &self,
        theta: &[T],
        along: &Tape<T>,
        rate: T,
        x: &[T],
        tapes: &mut [Tape<T>; 2],
        first: &mut Vec<T>,
    );

    /// `ahead = theta + scale * gradient`, without the first layer.
    fn step_ahead(&self, theta: &[T], tape: &mut Tape<T>, scale: T, ahead: &mut Vec<T>);

    /// See [`StepAhead::forward`](super::StepAhead::forward): `ahead` lacks the first layer, `along` is the
    /// gradient and the rate of the step. `first` is a buffer.
    fn forward_around(
        &self,
        thetas: [&[T]; 2],
        along: (&Tape<T>, T),
        x: &[T],
        tapes: [&mut Tape<T>; 2],
        first: &mut Vec<T>,
    );

    /// See [`StepAhead::correct`](super::StepAhead::correct). The tapes are those of the step, and of the
    /// passes here and there. The first layer of `theta` takes its whole step.
    fn correct(&self, thetas: [&mut [T]; 2], rate: T, tapes: [&mut Tape<T>; 3], correction: Correction);

    /// Copies all but the first layer.
    fn finish_step(&self, theta: &mut [T], ahead: &[T]);
}
