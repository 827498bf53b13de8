//! Optimisers with state. Plain SGD is [`crate::Net::accumulate`] with a negative scale, directly into theta.

use crate::{
    Scalar,
    kernels::{self, AdamStep},
};

/// Adam (Kingma and Ba, 2015) with its default constants.
#[derive(Debug, Clone, PartialEq)]
pub struct Adam<T> {
    rate: T,
    steps: i32,
    mean: Vec<T>,
    square: Vec<T>,
}

impl<T: Scalar> Adam<T> {
    const BETA1: f64 = 0.9;
    const BETA2: f64 = 0.999;
    const EPSILON: f64 = 1e-8;

    /// The initial state, for a vector of `len` values.
    pub fn new(rate: T, len: usize) -> Adam<T> {
        Adam { rate, steps: 0, mean: vec![T::zero(); len], square: vec![T::zero(); len] }
    }

    /// Number of steps, and the moving averages of the gradient and of its square.
    pub fn moments(&self) -> (i32, [&[T]; 2]) {
        (self.steps, [&self.mean, &self.square])
    }

    /// Restores the state that [`Adam::moments`] returned.
    ///
    /// # Panics
    /// If a length is not that given to [`Adam::new`].
    pub fn set_moments(&mut self, steps: i32, [mean, square]: [Vec<T>; 2]) {
        let len = self.mean.len();
        assert!(mean.len() == len && square.len() == len, "Adam was created for another length");
        (self.steps, self.mean, self.square) = (steps, mean, square);
    }

    /// One step of gradient descent on `x`.
    ///
    /// # Panics
    /// If a length is not that given to [`Adam::new`].
    pub fn step(&mut self, x: &mut [T], gradient: &[T]) {
        assert_eq!(x.len(), self.mean.len(), "Adam was created for another length");
        self.begin_step();
        self.step_block(0, x, gradient);
    }

    /// Begins a step that is taken block by block.
    pub fn begin_step(&mut self) {
        self.steps += 1;
    }

    /// The step of the values from `first` on, which are `x`.
    ///
    /// # Panics
    /// If there are not as many values in the vector and in the gradient.
    pub fn step_block(&mut self, first: usize, x: &mut [T], gradient: &[T]) {
        assert_eq!(x.len(), gradient.len(), "the gradient has another length");
        let step = AdamStep {
            rate: self.rate / T::of(1.0 - Self::BETA1.powi(self.steps)),
            decay: [T::of(Self::BETA1), T::of(Self::BETA2)],
            debias: T::of(1.0 - Self::BETA2.powi(self.steps)).sqrt(),
            epsilon: T::of(Self::EPSILON),
        };
        let block = first..first + x.len();
        kernels::adam(step, gradient, &mut self.mean[block.clone()], &mut self.square[block], x);
    }
}
