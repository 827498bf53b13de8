//! Vector algebra on parameters. theta, look-aheads, gradients and posteriors are all plain slices.

use crate::{Scalar, kernels};

/// `y += a * x`.
///
/// # Panics
/// If the lengths differ.
pub fn axpy<T: Scalar>(a: T, x: &[T], y: &mut [T]) {
    assert_eq!(x.len(), y.len(), "axpy of vectors of different lengths");
    kernels::axpy(a, x, y);
}

/// The inner product, summed in `f64`.
///
/// # Panics
/// If the lengths differ.
pub fn dot<T: Scalar>(x: &[T], y: &[T]) -> f64 {
    assert_eq!(x.len(), y.len(), "dot of vectors of different lengths");
    let mut sum = 0.0;
    kernels::dot(x, y, &mut sum);
    sum
}

/// Whether no entry is infinite or not a number.
pub fn finite<T: Scalar>(x: &[T]) -> bool {
    // No early exit within a chunk, so that it vectorises.
    x.chunks(1024).all(|x| x.iter().fold(true, |finite, v| finite & v.is_finite()))
}
