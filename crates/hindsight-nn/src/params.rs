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

/// `y += a (x + b w (y - centre))`, entry by entry: a step along `x` that `w` holds back from leaving `centre`.
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

/// `y += x^2`, entry by entry.
///
/// # Panics
/// If the lengths differ.
pub fn add_squares<T: Scalar>(x: &[T], y: &mut [T]) {
    assert_eq!(x.len(), y.len(), "squares of a vector of another length");
    kernels::add_squares(x, y);
}

/// The inner product; its many short parts are summed in `f64`.
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
