//! Products of sparse rows with a dense matrix: four fifths of an MNIST image is zero.
//!
//! An entry is one chain of sums over its row's non-zeros in order, whatever block of columns it falls into,
//! so a row's result does not depend on the rows around it, nor on which of the kernels computed it.

use std::ops::Range;

use super::{dispatch, madd};
use crate::{Scalar, SparseRows};

/// Columns whose sums stay in registers: eight of AVX, enough to hide the latency of FMA.
const BLOCK: usize = 64;

/// Covers the columns `0..n` with blocks of `BLOCK`, then 8, then 1.
macro_rules! cover {
    ($n:expr, |$j:ident, $width:ident| $body:expr) => {{
        let mut $j = 0;
        cover!(@ $j, $n, $width, BLOCK, $body);
        cover!(@ $j, $n, $width, 8, $body);
        cover!(@ $j, $n, $width, 1, $body);
    }};
    (@ $j:ident, $n:expr, $width:ident, $columns:expr, $body:expr) => {
        while $n - $j >= $columns {
            const $width: usize = $columns;
            $body;
            $j += $columns;
        }
    };
}

dispatch! {
    /// `out = bias + rows[range] matrix`, then ReLU if `relu`; `matrix: [width, n]`, `out: [range.len(), n]`.
    pub sparse_product = product_body(rows: &SparseRows<T>, range: Range<usize>, matrix: &[T], bias: &[T], relu: bool, out: &mut [T])
}

#[inline(always)]
fn product_body<T: Scalar, const FMA: bool>(
    rows: &SparseRows<T>,
    range: Range<usize>,
    matrix: &[T],
    bias: &[T],
    relu: bool,
    out: &mut [T],
) {
    // Block by block: that part of the matrix stays in the cache while the rows pass over it.
    let n = bias.len();
    cover!(n, |j, N| {
        for (i, out) in range.clone().zip(out.chunks_exact_mut(n)) {
            let start = *bias[j..].first_chunk::<N>().expect("a bias for each column");
            let sums = chain::<T, N, FMA>(rows.row(i), matrix, n, j, start);
            out[j..][..N].copy_from_slice(&if relu { sums.map(|z| z.max(T::zero())) } else { sums });
        }
    });
}

dispatch! {
    /// `into += scale * rows matrix`, `into: [rows.len(), n]`; rows without entries are not touched.
    ///
    /// This is the weight gradient: the rows are the pixels (the transposed batch), the matrix holds the deltas.
    pub sparse_accumulate = accumulate_body(rows: &SparseRows<T>, matrix: &[T], n: usize, scale: T, into: &mut [T])
}

#[inline(always)]
fn accumulate_body<T: Scalar, const FMA: bool>(
    rows: &SparseRows<T>,
    matrix: &[T],
    n: usize,
    scale: T,
    into: &mut [T],
) {
    // Row by row: the deltas are small, and the weights are passed over once, in the order of memory.
    for (i, into) in into.chunks_exact_mut(n).enumerate() {
        let row = rows.row(i);
        if row.0.is_empty() {
            continue;
        }
        cover!(n, |j, N| {
            let sums = chain::<T, N, FMA>(row, matrix, n, j, [T::zero(); N]);
            let into: &mut [T; N] = into[j..].first_chunk_mut().expect("a full block");
            for q in 0..N {
                into[q] = madd::<T, FMA>(scale, sums[q], into[q]);
            }
        });
    }
}

/// Columns `j..j + N` of the product of one row with a matrix whose rows are `stride` apart.
#[inline(always)]
fn chain<T: Scalar, const N: usize, const FMA: bool>(
    (columns, values): (&[u32], &[T]),
    matrix: &[T],
    stride: usize,
    j: usize,
    mut sums: [T; N],
) -> [T; N] {
    for (&column, &value) in columns.iter().zip(values) {
        let weights = &matrix[column as usize * stride + j..][..N];
        for q in 0..N {
            sums[q] = madd::<T, FMA>(value, weights[q], sums[q]);
        }
    }
    sums
}

/// A matrix cut into panels of 32 columns, for products with many rows.
///
/// A panel of the 784 x 256 first layer is 100 KB in one piece, and the part of it that belongs to pixels in use
/// largely stays in the L1 cache; in place, its rows lie 1 KB apart and fall into an eighth of the cache's sets.
#[derive(Debug, Clone)]
pub struct Panels<T> {
    entries: Vec<T>,
    /// The first entry that begins a cache line: a row of a panel is then two lines, not three.
    start: usize,
    len: usize,
}

const PANEL: usize = 32;

impl<T: Scalar> Panels<T> {
    /// A copy of `matrix`, which has `n` columns.
    pub fn new(matrix: &[T], n: usize) -> Panels<T> {
        let len = matrix.len() / n * PANEL;
        let line = 64 / size_of::<T>();
        let mut entries = vec![T::zero(); n.div_ceil(PANEL) * len + line];
        let start = entries.as_ptr().align_offset(64).min(line);
        for (i, row) in matrix.chunks_exact(n).enumerate() {
            for (panel, part) in row.chunks(PANEL).enumerate() {
                entries[start + panel * len + i * PANEL..][..part.len()].copy_from_slice(part);
            }
        }
        Panels { entries, start, len }
    }
}

dispatch! {
    /// [`sparse_product`] for many rows.
    pub panel_product = panel_body(rows: &SparseRows<T>, range: Range<usize>, panels: &Panels<T>, bias: &[T], relu: bool, out: &mut [T])
}

#[inline(always)]
fn panel_body<T: Scalar, const FMA: bool>(
    rows: &SparseRows<T>,
    range: Range<usize>,
    panels: &Panels<T>,
    bias: &[T],
    relu: bool,
    out: &mut [T],
) {
    let n = bias.len();
    for (bias, j) in bias.chunks(PANEL).zip((0..n).step_by(PANEL)) {
        let panel = &panels.entries[panels.start + j / PANEL * panels.len..][..panels.len];
        let mut start = [T::zero(); PANEL];
        start[..bias.len()].copy_from_slice(bias);
        for (i, out) in range.clone().zip(out.chunks_exact_mut(n)) {
            let sums = chain::<T, PANEL, FMA>(rows.row(i), panel, PANEL, 0, start);
            let sums = if relu { sums.map(|z| z.max(T::zero())) } else { sums };
            put(sums, &mut out[j..][..bias.len()]);
        }
    }
}

/// As many of `sums` as there is room for. The rare case is a call: an array that is indexed by a variable is
/// kept in memory, and sums must stay in registers.
#[inline(always)]
fn put<T: Scalar, const N: usize>(sums: [T; N], to: &mut [T]) {
    #[cold]
    #[inline(never)]
    fn cut<T: Scalar, const N: usize>(sums: [T; N], to: &mut [T]) {
        to.copy_from_slice(&sums[..to.len()]);
    }
    if to.len() == N { to.copy_from_slice(&sums) } else { cut(sums, to) }
}

dispatch! {
    /// Adds the number of entries that are not zero to `count`.
    pub count_nonzeros = count_body(x: &[T], count: &mut usize)
}

#[inline(always)]
fn count_body<T: Scalar, const FMA: bool>(x: &[T], count: &mut usize) {
    // Short sums of narrow numbers, which vectorise.
    *count += x
        .chunks(128)
        .map(|x| x.iter().map(|&x| u32::from(x != T::zero())).sum::<u32>() as usize)
        .sum::<usize>();
}
