//! The product of a transposed matrix, `a^T b`, added to the result: the weight gradient of a dense batch.
//!
//! The tiles are those of `matmul`. The common dimension is the batch. Where it is short and the result is
//! large, tiles follow its rows, in memory order; where the rows of b exceed the L1 cache, they go through in
//! panels that fit.

use std::ops::Range;

use super::{dispatch_wide, madd, prefetch, tiles};
use crate::Scalar;

/// Rows of a tile. It has 16 columns, or 64 with AVX-512.
const ROWS: usize = 6;
const WIDE_ROWS: usize = 5;

/// Bytes of a panel of b.
const PANEL_BYTES: usize = 32 << 10;

/// `into += scale * (sum over pairs of a^T b)`; `a: [m, k]`, `b: [m, n]`, `into: [k, n]`.
///
/// The sum is complete before it is scaled and added. So adding to theta directly gives the same bits as
/// computing the gradient first and adding that to theta.
pub fn matmul_tn_accumulate<T: Scalar>(pairs: &[(&[T], &[T])], n: usize, scale: T, into: &mut [T]) {
    let k = into.len() / n;
    let fits = pairs.iter().all(|(a, b)| a.len() == b.len() / n * k && b.len().is_multiple_of(n));
    assert!(fits && into.len() == k * n, "the shapes of the matrices do not match");
    accumulate(pairs, [k, n], scale, into);
}

dispatch_wide! {
    accumulate = accumulate_body(pairs: &[(&[T], &[T])], shape: [usize; 2], scale: T, into: &mut [T])
}

#[inline(always)]
fn accumulate_body<T: Scalar, const FMA: bool, const WIDE: bool>(
    pairs: &[(&[T], &[T])],
    [k, n]: [usize; 2],
    scale: T,
    into: &mut [T],
) {
    let batch: usize = pairs.iter().map(|(_, b)| b.len() / n).sum();
    let fitting = PANEL_BYTES / (batch.max(1) * size_of::<T>());
    let panel = if fitting < n { fitting.next_multiple_of(64) } else { n };
    for first in (0..n).step_by(panel) {
        for (i, rows) in tiles(k, if WIDE { WIDE_ROWS } else { ROWS }) {
            let into = &mut into[i * n..(i + rows) * n];
            let columns = first..(first + panel).min(n);
            macro_rules! strip {
                ($($rows:literal)*) => {
                    match rows {
                        $($rows => strip::<T, $rows, FMA, WIDE>(pairs, i, columns, [k, n], scale, into),)*
                        _ => unreachable!("a tile has 1 to {ROWS} rows"),
                    }
                };
            }
            strip!(1 2 3 4 5 6);
        }
    }
}

/// Some columns of the rows `i..i + R` of the result; `into` holds these rows.
#[inline(always)]
fn strip<T: Scalar, const R: usize, const FMA: bool, const WIDE: bool>(
    pairs: &[(&[T], &[T])],
    i: usize,
    columns: Range<usize>,
    shape: [usize; 2],
    scale: T,
    into: &mut [T],
) {
    let mut j = columns.start;
    macro_rules! cover {
        ($($width:literal)*) => {
            $(while columns.end - j >= $width {
                sum::<T, R, $width, FMA>(pairs, [i, j], shape, scale, into);
                j += $width;
            })*
        };
    }
    if WIDE {
        cover!(64);
    }
    cover!(16 8 4 2 1);
}

#[inline(always)]
fn sum<T: Scalar, const R: usize, const N: usize, const FMA: bool>(
    pairs: &[(&[T], &[T])],
    [i, j]: [usize; 2],
    [k, n]: [usize; 2],
    scale: T,
    into: &mut [T],
) {
    // What is read after a long sum may be in no cache of the core.
    for r in 0..R {
        prefetch(&into[r * n + j..][..N]);
    }
    let mut sums = [[T::zero(); N]; R];
    for (a, b) in pairs {
        for (a, b) in a.chunks_exact(k).zip(b.chunks_exact(n)) {
            let (a, b): (&[T; R], &[T; N]) = (a[i..].first_chunk().unwrap(), b[j..].first_chunk().unwrap());
            for r in 0..R {
                for c in 0..N {
                    sums[r][c] = madd::<T, FMA>(a[r], b[c], sums[r][c]);
                }
            }
        }
    }
    for (r, sums) in sums.iter().enumerate() {
        let into: &mut [T; N] = into[r * n + j..].first_chunk_mut().unwrap();
        for c in 0..N {
            into[c] = madd::<T, FMA>(scale, sums[c], into[c]);
        }
    }
}
