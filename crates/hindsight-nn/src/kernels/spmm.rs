//! Products of sparse rows with a dense matrix. Four fifths of an MNIST image is zero.
//!
//! An entry of the result is one sequential sum over the non-zero entries of its row, whatever block of
//! columns it belongs to. So a row does not depend on the other rows, nor on which of the kernels computed
//! it.

use std::ops::Range;

use super::{dispatch, dispatch_wide, madd};
use crate::{Scalar, SparseRows};

/// Columns whose sums stay in registers: eight of AVX, which hides the latency of FMA, or sixteen of AVX-512.
const BLOCK: usize = 64;
const WIDE_BLOCK: usize = 256;

/// Covers the columns `first..n` with blocks of 256 if `wide`, then 64, 8 and 1.
macro_rules! cover {
    ($wide:expr, $first:expr, $n:expr, |$j:ident, $width:ident| $body:expr) => {{
        let mut $j = $first;
        if $wide {
            cover!(@ $j, $n, $width, WIDE_BLOCK, $body);
        }
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

/// `out = bias + rows[range] matrix`, then ReLU if `relu`; `matrix: [width, n]`, `out: [range.len(), n]`.
pub fn spmm<T: Scalar>(
    rows: &SparseRows<T>,
    range: Range<usize>,
    matrix: &[T],
    bias: &[T],
    relu: bool,
    out: &mut [T],
) {
    let n = bias.len();
    assert_eq!(
        (matrix.len(), out.len(), range.end <= rows.len()),
        (rows.width() * n, range.len() * n, true),
        "the shapes of the matrices do not match"
    );
    let done = T::spmm_blocks(rows, range.clone(), matrix, bias, relu, out);
    if done < n {
        product(rows, range, matrix, bias, relu, done, out);
    }
}

dispatch_wide! {
    /// The columns of [`spmm`] from `first` on.
    product = product_body(rows: &SparseRows<T>, range: Range<usize>, matrix: &[T], bias: &[T], relu: bool, first: usize, out: &mut [T])
}

#[inline(always)]
fn product_body<T: Scalar, const FMA: bool, const WIDE: bool>(
    rows: &SparseRows<T>,
    range: Range<usize>,
    matrix: &[T],
    bias: &[T],
    relu: bool,
    first: usize,
    out: &mut [T],
) {
    // The outer loop goes over blocks: the columns of the matrix stay in the cache for all rows.
    let n = bias.len();
    cover!(WIDE, first, n, |j, N| {
        for (i, out) in range.clone().zip(out.chunks_exact_mut(n)) {
            let start = *bias[j..].first_chunk::<N>().expect("a bias for each column");
            let sums = chain::<T, N, FMA>(rows.row(i), matrix, n, j, start);
            out[j..][..N].copy_from_slice(&if relu { sums.map(|z| z.max(T::zero())) } else { sums });
        }
    });
}

dispatch_wide! {
    /// `into += scale * (sum over pairs of rows[first..] matrix)`; `into: [_, n]`. Skips rows without
    /// entries.
    ///
    /// This is the weight gradient: the rows are the transposed batch, the matrix holds the deltas.
    pub spmm_accumulate = accumulate_body(pairs: &[(&SparseRows<T>, &[T])], first: usize, n: usize, scale: T, into: &mut [T])
}

#[inline(always)]
fn accumulate_body<T: Scalar, const FMA: bool, const WIDE: bool>(
    pairs: &[(&SparseRows<T>, &[T])],
    first: usize,
    n: usize,
    scale: T,
    into: &mut [T],
) {
    // The outer loop goes over rows: the deltas are small, and the weights are read once, in memory order.
    for (i, into) in (first..).zip(into.chunks_exact_mut(n)) {
        if pairs.iter().all(|(rows, _)| rows.row(i).0.is_empty()) {
            continue;
        }
        cover!(WIDE, 0, n, |j, N| {
            let mut sums = [T::zero(); N];
            for (rows, matrix) in pairs {
                sums = chain::<T, N, FMA>(rows.row(i), matrix, n, j, sums);
            }
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

/// The blocks of 256 columns of [`spmm`], in AVX-512.
///
/// All rows visit a segment of the matrix, 32 rows of 256 entries, before the next one: it is read from the
/// L2 cache once, and from the L1 cache by every row. The sums of a block take 16 of 32 registers.
#[cfg(target_arch = "x86_64")]
pub(super) mod avx512 {
    use std::{arch::x86_64::*, ops::Range};

    use super::WIDE_BLOCK;
    use crate::SparseRows;

    const REGISTERS: usize = WIDE_BLOCK / 16;

    /// Rows from which visiting them segment by segment pays.
    const BY_SEGMENTS_FROM: usize = 4;

    /// Returns the number of columns that are done.
    #[target_feature(enable = "avx512f,fma")]
    pub(in super::super) fn spmm_blocks(
        rows: &SparseRows<f32>,
        range: Range<usize>,
        matrix: &[f32],
        bias: &[f32],
        relu: bool,
        out: &mut [f32],
    ) -> usize {
        let (n, segments) = (bias.len(), rows.segments());
        assert!(matrix.len() >= rows.width() * n && out.len() >= range.len() * n);
        let by = if range.len() < BY_SEGMENTS_FROM { segments } else { 1 };
        let blocks = n / WIDE_BLOCK;
        for j in (0..blocks).map(|block| block * WIDE_BLOCK) {
            for s in (0..segments).step_by(by) {
                let end = s + by;
                for (row, i) in range.clone().enumerate() {
                    let out = &mut out[row * n + j..][..WIDE_BLOCK];
                    let start = if s == 0 { &bias[j..][..WIDE_BLOCK] } else { &*out };
                    let (columns, values) = rows.entries_in(i, s..end);
                    // SAFETY: `start` and `out` have 256 entries. A column is less than the width of the rows,
                    // so its row of the matrix ends within the matrix, and j + 256 <= n.
                    unsafe {
                        let mut sums: [__m512; REGISTERS] =
                            std::array::from_fn(|q| _mm512_loadu_ps(start.as_ptr().add(q * 16)));
                        for (&column, &value) in columns.iter().zip(values) {
                            debug_assert!((column as usize) < rows.width());
                            let weights = matrix.as_ptr().add(column as usize * n + j);
                            let value = _mm512_set1_ps(value);
                            for (q, sum) in sums.iter_mut().enumerate() {
                                *sum = _mm512_fmadd_ps(value, _mm512_loadu_ps(weights.add(q * 16)), *sum);
                            }
                        }
                        if relu && end == segments {
                            sums.iter_mut().for_each(|z| *z = _mm512_max_ps(*z, _mm512_setzero_ps()));
                        }
                        for (q, sum) in sums.iter().enumerate() {
                            _mm512_storeu_ps(out.as_mut_ptr().add(q * 16), *sum);
                        }
                    }
                }
            }
        }
        blocks * WIDE_BLOCK
    }
}

/// A copy of a matrix in panels of 64 columns, or 128 for AVX-512, for products with many rows. The last panel
/// is filled up with zeros.
///
/// The product visits a panel segment by segment, so that the part in use stays in the L1 cache. Without the
/// copy, the rows of a panel are a kilobyte apart and share a quarter of the sets of the cache.
#[derive(Debug, Clone)]
pub struct PackedMatrix<T> {
    entries: Vec<T>,
    /// The first entry at the start of a cache line: a row of a panel then touches no more lines than
    /// necessary.
    start: usize,
    /// Number of entries in a panel.
    len: usize,
    width: usize,
}

const PANEL: usize = 64;
const WIDE_PANEL: usize = 128;

/// Segments that are visited at a time: the part of a panel that their entries read fits into the L1 cache.
const PACKED_SEGMENTS: usize = 3;

impl<T: Scalar> PackedMatrix<T> {
    /// Packs `matrix: [_, n]`.
    pub fn new(matrix: &[T], n: usize) -> PackedMatrix<T> {
        #[cfg(target_arch = "x86_64")]
        let wide = super::has_avx512() && n > PANEL;
        #[cfg(not(target_arch = "x86_64"))]
        let wide = false;
        let width = if wide { WIDE_PANEL } else { PANEL };
        let len = matrix.len() / n * width;
        let line = 64 / size_of::<T>();
        let mut entries = vec![T::zero(); n.div_ceil(width) * len + line];
        let start = entries.as_ptr().align_offset(64).min(line);
        for (i, row) in matrix.chunks_exact(n).enumerate() {
            for (panel, part) in row.chunks(width).enumerate() {
                entries[start + panel * len + i * width..][..part.len()].copy_from_slice(part);
            }
        }
        PackedMatrix { entries, start, len, width }
    }
}

dispatch_wide! {
    /// [`spmm`] for many rows.
    pub spmm_packed = packed_body(rows: &SparseRows<T>, range: Range<usize>, packed: &PackedMatrix<T>, bias: &[T], relu: bool, out: &mut [T])
}

#[inline(always)]
fn packed_body<T: Scalar, const FMA: bool, const WIDE: bool>(
    rows: &SparseRows<T>,
    range: Range<usize>,
    packed: &PackedMatrix<T>,
    bias: &[T],
    relu: bool,
    out: &mut [T],
) {
    match WIDE && packed.width == WIDE_PANEL {
        true => panels::<T, WIDE_PANEL, FMA>(rows, range, packed, bias, relu, out),
        false => panels::<T, PANEL, FMA>(rows, range, packed, bias, relu, out),
    }
}

#[inline(always)]
fn panels<T: Scalar, const N: usize, const FMA: bool>(
    rows: &SparseRows<T>,
    range: Range<usize>,
    packed: &PackedMatrix<T>,
    bias: &[T],
    relu: bool,
    out: &mut [T],
) {
    let n = bias.len();
    assert_eq!(packed.width, N, "packed for other vectors");
    let entries = packed.entries[packed.start..].chunks_exact(packed.len.max(1));
    for ((panel, bias), j) in entries.zip(bias.chunks(N)).zip((0..n).step_by(N)) {
        if let Some(bias) = bias.first_chunk() {
            full_panel::<T, N, FMA>(rows, range.clone(), panel, bias, relu, n, &mut out[j..]);
        } else {
            // Narrower than a panel: computed in a buffer.
            let (mut wide_bias, mut sums) = ([T::zero(); N], vec![T::zero(); range.len() * N]);
            wide_bias[..bias.len()].copy_from_slice(bias);
            full_panel::<T, N, FMA>(rows, range.clone(), panel, &wide_bias, relu, N, &mut sums);
            for (out, sums) in out.chunks_exact_mut(n).zip(sums.chunks_exact(N)) {
                out[j..].copy_from_slice(&sums[..bias.len()]);
            }
        }
    }
}

/// One panel of the product. The rows of `out` are `n` apart.
#[inline(always)]
fn full_panel<T: Scalar, const N: usize, const FMA: bool>(
    rows: &SparseRows<T>,
    range: Range<usize>,
    panel: &[T],
    bias: &[T; N],
    relu: bool,
    n: usize,
    out: &mut [T],
) {
    let segments = rows.segments();
    for s in (0..segments).step_by(PACKED_SEGMENTS) {
        let end = (s + PACKED_SEGMENTS).min(segments);
        for (i, out) in range.clone().zip(out.chunks_mut(n)) {
            let out: &mut [T; N] = out.first_chunk_mut().expect("a full panel");
            let start = if s == 0 { *bias } else { *out };
            *out = chain::<T, N, FMA>(rows.entries_in(i, s..end), panel, N, 0, start);
            if relu && end == segments {
                out.iter_mut().for_each(|z| *z = z.max(T::zero()));
            }
        }
    }
}

dispatch! {
    /// Adds the number of non-zero entries to `count`.
    pub count_nonzeros = count_body(x: &[T], count: &mut usize)
}

#[inline(always)]
fn count_body<T: Scalar, const FMA: bool>(x: &[T], count: &mut usize) {
    // Short sums of u32 vectorise.
    *count += x
        .chunks(128)
        .map(|x| x.iter().map(|&x| u32::from(x != T::zero())).sum::<u32>() as usize)
        .sum::<usize>();
}
