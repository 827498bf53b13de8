//! Products of dense row-major matrices, on one thread: hindsight runs in parallel over runs, not within a
//! step.
//!
//! A tile of the result stays in registers during the loop over the common dimension. 6 rows by 16 columns
//! are 12 AVX registers, which hides the latency of FMA and leaves registers for the operands; 5 rows by 64
//! columns are 20 of the 32 registers of AVX-512. An entry is one sequential sum over the common dimension,
//! whatever tile it belongs to, so a row does not depend on the other rows.

use super::{dispatch_wide, madd, matmul_nt::SHORT, tiles};
use crate::Scalar;

/// Rows and columns of a tile. A register holds half as many f64.
const ROWS: usize = 6;
const COLUMNS: usize = 16;
const WIDE_ROWS: usize = 5;
const WIDE_COLUMNS: usize = 64;
const WIDE_COLUMNS_F64: usize = 32;
const NARROW_ROWS: usize = 10;

/// Number of rows from which a contiguous copy of a panel of the right operand pays. The rows of a matrix are
/// often a power of two apart, so that the columns of a panel share a few cache sets.
const PACK_FROM: usize = 48;

/// Rows of the right operand in a block: read in place, or packed into the L1 cache.
const IN_PLACE: usize = 128;
const PACKED: usize = 256;
const WIDE_PACKED: usize = 96;

/// The initial value of the sums of a product.
#[derive(Debug, Clone, Copy)]
pub enum Start<'a, T> {
    /// The same values in each row: `[n]`.
    Bias(&'a [T]),
    /// The current values of `out`.
    Out,
}

/// `out = start + a b`, then ReLU if `relu`; `a: [m, k]`, `b: [k, n]`, `out: [m, n]`.
pub fn matmul<T: Scalar>(a: &[T], b: &[T], n: usize, start: Start<'_, T>, relu: bool, out: &mut [T]) {
    let (m, k) = (out.len() / n, b.len() / n);
    assert_eq!(
        (a.len(), b.len(), out.len()),
        (m * k, k * n, m * n),
        "the shapes of the matrices do not match"
    );
    assert!(!matches!(start, Start::Bias(bias) if bias.len() != n), "the bias has another width");
    panels(a, b, [m, k, n], start, relu, out);
}

dispatch_wide! {
    panels = panels_body(a: &[T], b: &[T], shape: [usize; 3], start: Start<'_, T>, relu: bool, out: &mut [T])
}

#[inline(always)]
fn panels_body<T: Scalar, const FMA: bool, const WIDE: bool>(
    a: &[T],
    b: &[T],
    shape: [usize; 3],
    start: Start<'_, T>,
    relu: bool,
    out: &mut [T],
) {
    // A narrow matrix, such as that of the last layer, would leave most of a wide tile empty. In one vector of
    // columns more rows hide the latency.
    if WIDE && shape[2] <= COLUMNS {
        blocks::<T, FMA, NARROW_ROWS, COLUMNS, PACKED>(a, b, shape, start, relu, out);
    } else if WIDE && shape[2] >= WIDE_COLUMNS {
        match size_of::<T>() {
            4 => blocks::<T, FMA, WIDE_ROWS, WIDE_COLUMNS, WIDE_PACKED>(a, b, shape, start, relu, out),
            _ => blocks::<T, FMA, WIDE_ROWS, WIDE_COLUMNS_F64, WIDE_PACKED>(a, b, shape, start, relu, out),
        }
    } else {
        blocks::<T, FMA, ROWS, COLUMNS, PACKED>(a, b, shape, start, relu, out);
    }
}

#[inline(always)]
fn blocks<T: Scalar, const FMA: bool, const ROWS: usize, const COLUMNS: usize, const PACKED: usize>(
    a: &[T],
    b: &[T],
    [m, k, n]: [usize; 3],
    start: Start<'_, T>,
    relu: bool,
    out: &mut [T],
) {
    let mut panel = [[T::zero(); COLUMNS]; PACKED];
    let pack = m >= PACK_FROM && n > COLUMNS;
    let mut p = 0;
    while p < k.max(1) {
        let mut depth = if pack { PACKED } else { IN_PLACE }.min(k - p);
        // In place, a panel narrower than a tile reads into the next row, without effect. The last rows,
        // which have no next row, form a block of their own.
        let inner = k.saturating_sub(COLUMNS.div_ceil(n) + 1).max(p);
        let padded_end = n % COLUMNS > 0 && p == inner;
        if n % COLUMNS > 0 && !padded_end {
            depth = depth.min(inner - p);
        }
        let start = if p == 0 { start } else { Start::Out };
        let relu = relu && p + depth == k;
        for j in (0..n).step_by(COLUMNS) {
            let width = COLUMNS.min(n - j);
            let (weights, stride) = if !pack && !padded_end {
                (&b[p * n + j..], n)
            } else {
                for (q, to) in panel[..depth].iter_mut().enumerate() {
                    *to = padded(&b[(p + q) * n + j..][..width]);
                }
                (panel.as_flattened(), COLUMNS)
            };
            let rows = LhsBlock { a, stride: k, p, depth };
            columns::<T, FMA, ROWS, COLUMNS>(
                rows,
                weights,
                stride,
                start,
                relu,
                OutColumns { j, width, n },
                out,
            );
        }
        p += depth.max(1);
    }
}

/// Columns `p..p + depth` of the left operand.
#[derive(Clone, Copy)]
struct LhsBlock<'a, T> {
    a: &'a [T],
    stride: usize,
    p: usize,
    depth: usize,
}

/// Columns `j..j + width` of a result with `n` columns.
#[derive(Clone, Copy)]
struct OutColumns {
    j: usize,
    width: usize,
    n: usize,
}

/// At most `COLUMNS` columns of a product, in all rows. The rows of `weights` are `stride` apart.
#[inline(always)]
fn columns<T: Scalar, const FMA: bool, const ROWS: usize, const COLUMNS: usize>(
    rows: LhsBlock<'_, T>,
    weights: &[T],
    stride: usize,
    start: Start<'_, T>,
    relu: bool,
    target: OutColumns,
    out: &mut [T],
) {
    let full = target.width == COLUMNS;
    for (i, height) in tiles(out.len() / target.n, ROWS) {
        macro_rules! tile {
            ($($height:literal)*) => {
                match height {
                    $($height if $height > ROWS => unreachable!("a tile has at most {ROWS} rows"),
                    $height if full => tile::<T, $height, COLUMNS, true, FMA>(i, rows, weights, stride, start, relu, target, out),
                    $height => tile::<T, $height, COLUMNS, false, FMA>(i, rows, weights, stride, start, relu, target, out),)*
                    _ => unreachable!("a tile has 1 to 10 rows"),
                }
            };
        }
        tile!(1 2 3 4 5 6 7 8 9 10);
    }
}

/// Rows `i..i + R` of [`columns`]. `FULL` panels have their own version, in which the width is a constant.
#[expect(clippy::too_many_arguments, reason = "inlined into one loop")]
#[inline(always)]
fn tile<T: Scalar, const R: usize, const COLUMNS: usize, const FULL: bool, const FMA: bool>(
    i: usize,
    LhsBlock { a, stride: k, p, depth }: LhsBlock<'_, T>,
    weights: &[T],
    stride: usize,
    start: Start<'_, T>,
    relu: bool,
    OutColumns { j, width, n }: OutColumns,
    out: &mut [T],
) {
    let width = if FULL { COLUMNS } else { width };
    let rows: [&[T]; R] = std::array::from_fn(|r| &a[(i + r) * k + p..][..depth]);
    let mut sums = [[T::zero(); COLUMNS]; R];
    for (r, sums) in sums.iter_mut().enumerate() {
        *sums = padded(match start {
            Start::Bias(bias) => &bias[j..][..width],
            Start::Out => &out[(i + r) * n + j..][..width],
        });
    }
    for q in 0..depth {
        let weights: &[T; COLUMNS] = weights[q * stride..].first_chunk().expect("a full row of a panel");
        for r in 0..R {
            let x = rows[r][q];
            for c in 0..COLUMNS {
                sums[r][c] = madd::<T, FMA>(x, weights[c], sums[r][c]);
            }
        }
    }
    for (r, sums) in sums.iter_mut().enumerate() {
        if relu {
            sums.iter_mut().for_each(|z| *z = z.max(T::zero()));
        }
        let out = &mut out[(i + r) * n + j..][..width];
        if FULL {
            out.copy_from_slice(sums);
        } else {
            let row = *sums;
            out.copy_from_slice(&row[..width]);
        }
    }
}

dispatch_wide! {
    /// `out = a b^T` or `out += a b^T` for rows of at most 16 entries, `n`; `b: [k, n]`, `out: [_, k]`.
    ///
    /// For rows this short, transposing a panel is cheaper than a horizontal sum per inner product.
    pub(super) short_transposed = short_body(a: &[T], b: &[T], shape: [usize; 2], add: bool, out: &mut [T])
}

#[inline(always)]
fn short_body<T: Scalar, const FMA: bool, const WIDE: bool>(
    a: &[T],
    b: &[T],
    shape: [usize; 2],
    add: bool,
    out: &mut [T],
) {
    if WIDE && shape[0] >= WIDE_COLUMNS {
        match size_of::<T>() {
            4 => short::<T, FMA, WIDE_ROWS, WIDE_COLUMNS>(a, b, shape, add, out),
            _ => short::<T, FMA, WIDE_ROWS, WIDE_COLUMNS_F64>(a, b, shape, add, out),
        }
    } else {
        short::<T, FMA, ROWS, COLUMNS>(a, b, shape, add, out);
    }
}

#[inline(always)]
fn short<T: Scalar, const FMA: bool, const ROWS: usize, const COLUMNS: usize>(
    a: &[T],
    b: &[T],
    [k, n]: [usize; 2],
    add: bool,
    out: &mut [T],
) {
    let mut panel = [[T::zero(); COLUMNS]; SHORT];
    let zeros = [T::zero(); COLUMNS];
    for j in (0..k).step_by(COLUMNS) {
        let width = COLUMNS.min(k - j);
        for (c, row) in b[j * n..(j + width) * n].chunks_exact(n).enumerate() {
            panel.iter_mut().zip(row).for_each(|(panel, &b)| panel[c] = b);
        }
        if !add {
            out.chunks_exact_mut(k).for_each(|out| out[j..][..width].copy_from_slice(&zeros[..width]));
        }
        let rows = LhsBlock { a, stride: n, p: 0, depth: n };
        let target = OutColumns { j, width, n: k };
        columns::<T, FMA, ROWS, COLUMNS>(rows, panel.as_flattened(), COLUMNS, Start::Out, false, target, out);
    }
}

/// A row of a tile whose last columns may lie outside the matrix, padded with zeros. It is a copy because an
/// array that is indexed by a variable is kept in memory, and the sums must stay in registers.
#[inline(always)]
fn padded<T: Scalar, const COLUMNS: usize>(from: &[T]) -> [T; COLUMNS] {
    from.try_into().unwrap_or_else(|_| {
        let mut row = [T::zero(); COLUMNS];
        row[..from.len()].copy_from_slice(from);
        row
    })
}
