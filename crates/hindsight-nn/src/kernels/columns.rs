//! The kernels of batch-norm: sums over the rows of channels-last activations, `[rows, lanes]`, and linear
//! combinations with one coefficient per lane. `lanes` is a multiple of eight.
//!
//! For sums, rows are processed in blocks that fit into the L1 cache, and lanes in groups of eight whose sums stay
//! in registers. Combinations go through memory in its order, with coefficients that are repeated to whole vectors.

use super::{dispatch, dispatch_wide, madd};
use crate::Scalar;

/// Lanes processed at a time.
const LANES: usize = 8;

/// Rows of a block. Each block has its own partial sum, which also reduces rounding errors.
const ROWS: usize = 64;

/// The eight lanes that begin at `at`.
#[inline(always)]
fn eight<T: Scalar>(values: &[T], at: usize) -> &[T; LANES] {
    values[at..].first_chunk().expect("a multiple of eight lanes")
}

#[inline(always)]
fn eight_mut<T: Scalar>(values: &mut [T], at: usize) -> &mut [T; LANES] {
    values[at..].first_chunk_mut().expect("a multiple of eight lanes")
}

dispatch! {
    /// `sum += sum over rows of x`, per lane.
    pub column_sums = sums_body(x: &[T], sum: &mut [T])
}

#[inline(always)]
fn sums_body<T: Scalar, const FMA: bool>(x: &[T], sum: &mut [T]) {
    let lanes = sum.len();
    for block in x.chunks(ROWS * lanes) {
        for at in (0..lanes).step_by(LANES) {
            let mut total = [T::zero(); LANES];
            for row in block.chunks_exact(lanes) {
                let row = eight(row, at);
                (0..LANES).for_each(|c| total[c] += row[c]);
            }
            let sum = eight_mut(sum, at);
            (0..LANES).for_each(|c| sum[c] += total[c]);
        }
    }
}

dispatch! {
    /// `sum += sum over rows of (x - mean)^2`, per lane.
    pub column_squares = squares_body(x: &[T], mean: &[T], sum: &mut [T])
}

#[inline(always)]
fn squares_body<T: Scalar, const FMA: bool>(x: &[T], mean: &[T], sum: &mut [T]) {
    let lanes = sum.len();
    for block in x.chunks(ROWS * lanes) {
        for at in (0..lanes).step_by(LANES) {
            let (mean, mut total) = (*eight(mean, at), [T::zero(); LANES]);
            for row in block.chunks_exact(lanes) {
                let row = eight(row, at);
                for c in 0..LANES {
                    let x = row[c] - mean[c];
                    total[c] = madd::<T, FMA>(x, x, total[c]);
                }
            }
            let sum = eight_mut(sum, at);
            (0..LANES).for_each(|c| sum[c] += total[c]);
        }
    }
}

dispatch! {
    /// `sum += sum over rows of x (y - mean)`, per lane.
    pub column_products = products_body(x: &[T], y: &[T], mean: &[T], sum: &mut [T])
}

#[inline(always)]
fn products_body<T: Scalar, const FMA: bool>(x: &[T], y: &[T], mean: &[T], sum: &mut [T]) {
    let lanes = sum.len();
    for (x, y) in x.chunks(ROWS * lanes).zip(y.chunks(ROWS * lanes)) {
        for at in (0..lanes).step_by(LANES) {
            let (mean, mut total) = (*eight(mean, at), [T::zero(); LANES]);
            for (x, y) in x.chunks_exact(lanes).zip(y.chunks_exact(lanes)) {
                let (x, y) = (eight(x, at), eight(y, at));
                (0..LANES).for_each(|c| total[c] = madd::<T, FMA>(x[c], y[c] - mean[c], total[c]));
            }
            let sum = eight_mut(sum, at);
            (0..LANES).for_each(|c| sum[c] += total[c]);
        }
    }
}

/// Coefficients repeated until they are whole vectors, and enough of them for a loop.
fn repeated<T: Scalar>(coefficients: &[T]) -> Vec<T> {
    const ENOUGH: usize = 192;
    let lanes = coefficients.len();
    coefficients.repeat((WHOLE / LANES) * ENOUGH.div_ceil((WHOLE / LANES) * lanes.max(1)))
}

/// Lanes of which any number of eights, so many times repeated, is whole vectors: four of AVX-512, which loops
/// take at a time.
const WHOLE: usize = 64;

dispatch_wide! {
    /// `out = a x + b`, per lane, plus `add` if it is given, then ReLU if `relu`.
    pub scale_shift = scale_body(x: &[T], a: &[T], b: &[T], add: Option<&[T]>, relu: bool, out: &mut [T])
}

#[inline(always)]
fn scale_body<T: Scalar, const FMA: bool, const WIDE: bool>(
    x: &[T],
    a: &[T],
    b: &[T],
    add: Option<&[T]>,
    relu: bool,
    out: &mut [T],
) {
    // One branch here, so that the loops have none.
    match (add, relu) {
        (None, false) => scale_loop::<T, FMA, false, false>(x, a, b, x, out),
        (None, true) => scale_loop::<T, FMA, false, true>(x, a, b, x, out),
        (Some(add), false) => scale_loop::<T, FMA, true, false>(x, a, b, add, out),
        (Some(add), true) => scale_loop::<T, FMA, true, true>(x, a, b, add, out),
    }
}

#[inline(always)]
fn scale_loop<T: Scalar, const FMA: bool, const ADD: bool, const RELU: bool>(
    x: &[T],
    a: &[T],
    b: &[T],
    add: &[T],
    out: &mut [T],
) {
    let [a, b] = [a, b].map(repeated);
    let len = a.len();
    for ((out, x), add) in out.chunks_mut(len).zip(x.chunks(len)).zip(add.chunks(len)) {
        for ((((out, &x), &add), &a), &b) in out.iter_mut().zip(x).zip(add).zip(&a).zip(&b) {
            let mut y = madd::<T, FMA>(a, x, b);
            if ADD {
                y += add;
            }
            *out = if RELU { y.max(T::zero()) } else { y };
        }
    }
}

dispatch_wide! {
    /// `out = a x + b y + c`, per lane, or `out +=` if `add`.
    pub combine = combine_body(x: &[T], y: &[T], by: [&[T]; 3], add: bool, out: &mut [T])
}

#[inline(always)]
fn combine_body<T: Scalar, const FMA: bool, const WIDE: bool>(
    x: &[T],
    y: &[T],
    by: [&[T]; 3],
    add: bool,
    out: &mut [T],
) {
    match add {
        true => combine_loop::<T, FMA, true>(x, y, by, out),
        false => combine_loop::<T, FMA, false>(x, y, by, out),
    }
}

#[inline(always)]
fn combine_loop<T: Scalar, const FMA: bool, const ADD: bool>(x: &[T], y: &[T], by: [&[T]; 3], out: &mut [T]) {
    let [a, b, c] = by.map(repeated);
    let len = a.len();
    for ((out, x), y) in out.chunks_mut(len).zip(x.chunks(len)).zip(y.chunks(len)) {
        for (((((out, &x), &y), &a), &b), &c) in out.iter_mut().zip(x).zip(y).zip(&a).zip(&b).zip(&c) {
            let sum = madd::<T, FMA>(a, x, madd::<T, FMA>(b, y, c));
            *out = if ADD { *out + sum } else { sum };
        }
    }
}
