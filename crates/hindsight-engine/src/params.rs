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
    x.iter().zip(y).map(|(&a, &b)| a.wide() * b.wide()).sum()
}

/// Whether no entry is infinite or not a number.
pub fn finite<T: Scalar>(x: &[T]) -> bool {
    x.iter().all(|v| v.is_finite())
}
