//! Vector algebra on parameters: theta, gradients and posteriors are plain slices.

use crate::{Scalar, kernels};

/// `y += a * x`.
///
/// # Panics
/// If the lengths differ.
pub fn axpy<T: Scalar>(a: T, x: &[T], y: &mut [T]) {
    assert_eq!(x.len(), y.len(), "axpy of vectors of different lengths");
    kernels::axpy(a, x, y);
}

/// `y += a (x + b w (y - centre))`, elementwise: a step along `x` plus the gradient of a quadratic penalty on
/// the distance from `centre`, weighted by `w`.
///
/// # Panics
/// If the lengths differ.
pub fn axpy_penalized<T: Scalar>(a: T, x: &[T], b: T, w: &[T], centre: &[T], y: &mut [T]) {
    let lengths = [x, w, centre].map(<[T]>::len);
    assert_eq!(lengths, [y.len(); 3], "axpy_penalized of vectors of different lengths");
    kernels::axpy_penalized(a, x, b, w, centre, y);
}

/// `y = share y + (1 - share) x`.
///
/// # Panics
/// If the lengths differ.
pub fn blend<T: Scalar>(share: T, x: &[T], y: &mut [T]) {
    assert_eq!(x.len(), y.len(), "blend of vectors of different lengths");
    kernels::blend(share, x, y);
}

/// `y += x^2`, elementwise.
///
/// # Panics
/// If the lengths differ.
pub fn add_squares<T: Scalar>(x: &[T], y: &mut [T]) {
    assert_eq!(x.len(), y.len(), "add_squares of vectors of different lengths");
    kernels::add_squares(x, y);
}

/// The inner product. Short partial sums are added in `f64`.
///
/// # Panics
/// If the lengths differ.
pub fn dot<T: Scalar>(x: &[T], y: &[T]) -> f64 {
    assert_eq!(x.len(), y.len(), "dot of vectors of different lengths");
    let mut sum = 0.0;
    kernels::dot(x, y, &mut sum);
    sum
}

/// Whether all entries are finite.
pub fn finite<T: Scalar>(x: &[T]) -> bool {
    // No early exit within a chunk, so that the loop vectorises.
    x.chunks(1024).all(|x| x.iter().fold(true, |finite, v| finite & v.is_finite()))
}
