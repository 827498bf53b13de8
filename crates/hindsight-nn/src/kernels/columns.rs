//! The kernels of batch-norm: sums over the rows of channels-last activations, `[rows, lanes]`, and linear
//! combinations with one coefficient per lane. `lanes` is a multiple of eight.
//!
//! Rows are processed in blocks that fit into the L1 cache, and lanes in groups of eight whose coefficients
//! stay in registers.

use super::{dispatch, madd};
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

dispatch! {
    /// `out = a x + b`, per lane, plus `add` if it is given, then ReLU if `relu`.
    pub scale_shift = scale_body(x: &[T], a: &[T], b: &[T], add: Option<&[T]>, relu: bool, out: &mut [T])
}

#[inline(always)]
fn scale_body<T: Scalar, const FMA: bool>(
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
    let lanes = a.len();
    let blocks = out.chunks_mut(ROWS * lanes).zip(x.chunks(ROWS * lanes)).zip(add.chunks(ROWS * lanes));
    for ((out, x), add) in blocks {
        for at in (0..lanes).step_by(LANES) {
            let (a, b) = (*eight(a, at), *eight(b, at));
            let rows = out.chunks_exact_mut(lanes).zip(x.chunks_exact(lanes)).zip(add.chunks_exact(lanes));
            for ((out, x), add) in rows {
                let (out, x, add) = (eight_mut(out, at), eight(x, at), eight(add, at));
                for c in 0..LANES {
                    let mut y = madd::<T, FMA>(a[c], x[c], b[c]);
                    if ADD {
                        y += add[c];
                    }
                    out[c] = if RELU { y.max(T::zero()) } else { y };
                }
            }
        }
    }
}

dispatch! {
    /// `out = a x + b y + c`, per lane, or `out +=` if `add`.
    pub combine = combine_body(x: &[T], y: &[T], by: [&[T]; 3], add: bool, out: &mut [T])
}

#[inline(always)]
fn combine_body<T: Scalar, const FMA: bool>(
    x: &[T],
    y: &[T],
    [a, b, c]: [&[T]; 3],
    add: bool,
    out: &mut [T],
) {
    let lanes = a.len();
    let blocks = out.chunks_mut(ROWS * lanes).zip(x.chunks(ROWS * lanes)).zip(y.chunks(ROWS * lanes));
    for ((out, x), y) in blocks {
        for at in (0..lanes).step_by(LANES) {
            let (a, b, c) = (*eight(a, at), *eight(b, at), *eight(c, at));
            let rows = out.chunks_exact_mut(lanes).zip(x.chunks_exact(lanes)).zip(y.chunks_exact(lanes));
            for ((out, x), y) in rows {
                let (out, x, y) = (eight_mut(out, at), eight(x, at), eight(y, at));
                for l in 0..LANES {
                    let sum = madd::<T, FMA>(a[l], x[l], madd::<T, FMA>(b[l], y[l], c[l]));
                    out[l] = if add { out[l] + sum } else { sum };
                }
            }
        }
    }
}
