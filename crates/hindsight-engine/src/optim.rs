//! Optimisers whose state does not fit into one `axpy`. Plain SGD is [`crate::Net::accumulate`] with a
//! negative scale, straight into theta.

use crate::Scalar;

/// Adam (Kingma and Ba, 2015) with its usual constants.
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

    /// Fresh state for a vector of `len` values.
    pub fn new(rate: T, len: usize) -> Adam<T> {
        Adam { rate, steps: 0, mean: vec![T::zero(); len], square: vec![T::zero(); len] }
    }

    /// One step that lowers the function whose gradient at `x` is `gradient`.
    ///
    /// # Panics
    /// If the lengths are not the one given to [`Adam::new`].
    pub fn step(&mut self, x: &mut [T], gradient: &[T]) {
        assert_eq!(x.len(), self.mean.len(), "Adam was made for another length");
        assert_eq!(x.len(), gradient.len(), "a gradient of another length");
        self.steps += 1;
        let (beta1, beta2) = (T::of(Self::BETA1), T::of(Self::BETA2));
        let debias1 = T::of(1.0 - Self::BETA1.powi(self.steps));
        let debias2 = T::of(1.0 - Self::BETA2.powi(self.steps)).sqrt();
        let (rate, epsilon) = (self.rate / debias1, T::of(Self::EPSILON));
        for (((x, &g), m), s) in x.iter_mut().zip(gradient).zip(&mut self.mean).zip(&mut self.square) {
            *m = beta1 * *m + (T::one() - beta1) * g;
            *s = beta2 * *s + (T::one() - beta2) * g * g;
            *x -= rate * *m / (s.sqrt() / debias2 + epsilon);
        }
    }
}
