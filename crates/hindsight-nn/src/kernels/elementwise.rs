//! Elementwise operations, inner products and column sums.

use super::{
    Scalar,
    dispatch::{dispatch, madd},
};

dispatch! {
    /// The backward pass of ReLU: sets `d` to 0 wherever the output `h` is 0.
    pub relu_backward = relu_backward_body(h: &[T], d: &mut [T])
}

#[inline(always)]
fn relu_backward_body<T: Scalar, const FMA: bool>(h: &[T], d: &mut [T]) {
    d.iter_mut().zip(h).for_each(|(d, &h)| *d = if h > T::zero() { *d } else { T::zero() });
}

dispatch! {
    /// `y += a * x`.
    pub axpy = axpy_body(a: T, x: &[T], y: &mut [T])
}

#[inline(always)]
fn axpy_body<T: Scalar, const FMA: bool>(a: T, x: &[T], y: &mut [T]) {
    for (y, &x) in y.iter_mut().zip(x) {
        *y = madd::<T, FMA>(a, x, *y);
    }
}

dispatch! {
    /// `y = share y + (1 - share) x`.
    pub blend = blend_body(share: T, x: &[T], y: &mut [T])
}

#[inline(always)]
fn blend_body<T: Scalar, const FMA: bool>(share: T, x: &[T], y: &mut [T]) {
    for (y, &x) in y.iter_mut().zip(x) {
        *y = madd::<T, FMA>(T::one() - share, x, share * *y);
    }
}

dispatch! {
    /// `y += x^2`, elementwise.
    pub add_squares = add_squares_body(x: &[T], y: &mut [T])
}

#[inline(always)]
fn add_squares_body<T: Scalar, const FMA: bool>(x: &[T], y: &mut [T]) {
    y.iter_mut().zip(x).for_each(|(y, &x)| *y = madd::<T, FMA>(x, x, *y));
}

dispatch! {
    /// `y += a (x + b w (y - centre))`, elementwise: a step along `x` plus the gradient of a quadratic
    /// penalty on the distance from `centre`, weighted by `w`.
    pub axpy_penalized = axpy_penalized_body(a: T, x: &[T], b: T, w: &[T], centre: &[T], y: &mut [T])
}

#[inline(always)]
fn axpy_penalized_body<T: Scalar, const FMA: bool>(a: T, x: &[T], b: T, w: &[T], centre: &[T], y: &mut [T]) {
    for (((y, &x), &w), &centre) in y.iter_mut().zip(x).zip(w).zip(centre) {
        *y = madd::<T, FMA>(a, madd::<T, FMA>(b * w, *y - centre, x), *y);
    }
}

dispatch! {
    /// Sets `sum` to the inner product. Sixteen interleaved partial sums of at most 64 terms each are added
    /// in order, in `f64`.
    pub dot = dot_body(x: &[T], y: &[T], sum: &mut f64)
}

#[inline(always)]
fn dot_body<T: Scalar, const FMA: bool>(x: &[T], y: &[T], sum: &mut f64) {
    const LANES: usize = 16;
    let mut totals = [0.0; LANES];
    for (x, y) in x.chunks(64 * LANES).zip(y.chunks(64 * LANES)) {
        let mut sums = [T::zero(); LANES];
        for (x, y) in x.chunks(LANES).zip(y.chunks(LANES)) {
            for ((sum, &x), &y) in sums.iter_mut().zip(x).zip(y) {
                *sum = madd::<T, FMA>(x, y, *sum);
            }
        }
        totals.iter_mut().zip(sums).for_each(|(total, sum)| *total += sum.wide());
    }
    *sum = totals.iter().sum();
}

/// The constants of one step of Adam, bias corrections included.
#[derive(Debug, Clone, Copy)]
pub struct AdamStep<T> {
    pub rate: T,
    pub decay: [T; 2],
    pub debias: T,
    pub epsilon: T,
}

dispatch! {
    /// One step of Adam: updates both moments and `x`.
    pub adam = adam_body(step: AdamStep<T>, gradient: &[T], mean: &mut [T], square: &mut [T], x: &mut [T])
}

#[inline(always)]
fn adam_body<T: Scalar, const FMA: bool>(
    AdamStep { rate, decay: [beta1, beta2], debias, epsilon }: AdamStep<T>,
    gradient: &[T],
    mean: &mut [T],
    square: &mut [T],
    x: &mut [T],
) {
    for (((x, &g), m), s) in x.iter_mut().zip(gradient).zip(mean).zip(square) {
        *m = beta1 * *m + (T::one() - beta1) * g;
        *s = beta2 * *s + (T::one() - beta2) * g * g;
        *x -= rate * *m / (s.sqrt() / debias + epsilon);
    }
}

dispatch! {
    /// `into += scale * column sums`; `rows: [_, into.len()]`.
    pub accumulate_columns = accumulate_columns_body(rows: &[T], scale: T, into: &mut [T])
}

#[inline(always)]
fn accumulate_columns_body<T: Scalar, const FMA: bool>(rows: &[T], scale: T, into: &mut [T]) {
    const BLOCK: usize = 32;
    let n = into.len();
    for (block, into) in into.chunks_mut(BLOCK).enumerate() {
        let mut sums = [T::zero(); BLOCK];
        for row in rows.chunks_exact(n) {
            let row = &row[block * BLOCK..][..into.len()];
            sums.iter_mut().zip(row).for_each(|(sum, &x)| *sum += x);
        }
        into.iter_mut().zip(sums).for_each(|(into, sum)| *into = madd::<T, FMA>(scale, sum, *into));
    }
}
