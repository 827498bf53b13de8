//! The products that every convolution comes down to, in tiles that stay in registers.
//!
//! Lanes are cut into panels of two or three vectors (one only where there is no more). A sum is one chain in
//! the order of its terms, whatever tile it falls into.

#![allow(clippy::needless_range_loop, reason = "plain loops keep vectors in registers, see `vector`")]

use super::{
    LANES, Spot,
    vector::{Vector, is_wide, load, load_unchecked, store, store_unchecked, with_vectors},
};
use crate::Scalar;

/// The panels of `lanes` by vectors of `width`, each as its first lane and its number of vectors. The last
/// vector may not be filled.
#[inline(always)]
pub(super) fn panels(lanes: usize, width: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let vectors = match lanes.saturating_sub(start).div_ceil(width) {
            0 => return None,
            1 => 1,
            n if n % 2 == 1 => 3,
            _ => 2,
        };
        start += vectors * width;
        Some((start - vectors * width, vectors))
    })
}

/// Calls `$run::<T, V, rows, vectors>$args` for all tiles of a panel: `$first` and the rows from there on, of
/// `$count`, as many as suit the panel.
macro_rules! by_tile {
    ($vectors:expr, $count:expr, |$first:ident| $run:ident $args:tt) => {
        match $vectors {
            3 => by_tile!(@ 3, ROWS, $count, $first, $run $args; 8 6 4 3 2 1),
            2 => by_tile!(@ 2, ROWS, $count, $first, $run $args; 12 8 6 4 3 2 1),
            1 => by_tile!(@ 1, ROWS, $count, $first, $run $args; 12 8 4 2 1),
            _ => unreachable!("a panel has one to three vectors"),
        }
    };
    (outer $vectors:expr, $count:expr, |$first:ident| $run:ident $args:tt) => {
        match $vectors {
            3 => by_tile!(@ 3, OUTER_ROWS, $count, $first, $run $args; 8 4 2 1),
            2 => by_tile!(@ 2, OUTER_ROWS, $count, $first, $run $args; 8 4 2 1),
            1 => by_tile!(@ 1, OUTER_ROWS, $count, $first, $run $args; 8 4 2 1),
            _ => unreachable!("a panel has one to three vectors"),
        }
    };
    (@ $vectors:literal, $limit:ident, $count:expr, $first:ident, $run:ident $args:tt; $($rows:literal)*) => {{
        let (count, mut $first) = ($count, 0);
        while $first < count {
            $(
                if $rows <= V::$limit[$vectors - 1] && $rows <= count - $first {
                    by_tile!(@@ $run::<T, V, $rows, $vectors>, $args);
                    $first += $rows;
                    continue;
                }
            )*
        }
    }};
    (@@ $run:path, ($($arg:expr),*)) => { $run($($arg),*) };
}

/// What becomes of sums: added to what is there if `add`, to the bias in any case, and cut off if `relu`.
#[derive(Clone, Copy)]
pub(super) struct Ending<'a, T> {
    pub(super) bias: &'a [T],
    pub(super) add: bool,
    pub(super) relu: bool,
}

impl<T: Scalar> Ending<'_, T> {
    /// Writes the complete sums of the lanes from `j` on to `to` in `y`.
    #[inline(always)]
    fn apply<V: Vector<T>>(&self, sum: V, j: usize, y: &mut [T], to: usize) {
        let lanes = self.bias.len() - j;
        let y = &mut y[to..][..lanes.min(V::WIDTH)];
        // SAFETY: `y` has all numbers of the mask.
        unsafe { self.apply_unchecked(sum, load(self.bias, j, lanes), y, 0, V::mask(lanes)) };
    }

    /// Writes complete sums, of lanes with this bias, to `to` in `y`.
    ///
    /// # Safety
    /// All numbers of the mask are there.
    #[inline(always)]
    pub(super) unsafe fn apply_unchecked<V: Vector<T>>(
        &self,
        sum: V,
        bias: V,
        y: &mut [T],
        to: usize,
        mask: V::Mask,
    ) {
        let mut sum = sum.add(bias);
        if self.add {
            // SAFETY: the caller's promise.
            sum = sum.add(unsafe { load_unchecked(y, to, mask) });
        }
        if self.relu {
            sum = sum.relu();
        }
        // SAFETY: the caller's promise.
        unsafe { store_unchecked(sum, y, to, mask) };
    }
}

/// Products of pixels with weights, summed over `taps`, the distances from where a pixel is read.
#[derive(Clone, Copy)]
pub(super) struct PanelSweep<'a, T> {
    pub(super) x: &'a [T],
    pub(super) spots: &'a [Spot],
    pub(super) taps: &'a [usize],
    /// Channels of a tap.
    pub(super) depth: usize,
    /// `[panel, tap, depth, lanes of the panel]`.
    pub(super) weights: &'a [T],
    pub(super) ending: Ending<'a, T>,
}

with_vectors! {
    /// All lanes of all spots.
    pub(super) sweep = sweep_body(sweep: &PanelSweep<'_, T>, y: &mut [T]) if is_wide(sweep.ending.bias.len())
}

#[inline(always)]
fn sweep_body<T: Scalar, V: Vector<T>>(sweep: &PanelSweep<'_, T>, y: &mut [T]) {
    let depth = sweep.taps.len() * sweep.depth;
    for (j, vectors) in panels(sweep.ending.bias.len(), V::WIDTH) {
        let weights = &sweep.weights[j * depth..][..vectors * V::WIDTH * depth];
        by_tile!(vectors, sweep.spots.len(), |p| sweep_tile(sweep, p, j, weights, y));
    }
}

#[inline(always)]
fn sweep_tile<T: Scalar, V: Vector<T>, const R: usize, const N: usize>(
    sweep: &PanelSweep<'_, T>,
    p: usize,
    j: usize,
    weights: &[T],
    y: &mut [T],
) {
    let spots: &[Spot; R] = sweep.spots[p..].first_chunk().expect("a tile of spots");
    let mut sums = [[V::splat(T::zero()); N]; R];
    for (tap, weights) in sweep.taps.iter().zip(weights.chunks_exact(sweep.depth * N * V::WIDTH)) {
        let rows = std::array::from_fn(|r| &sweep.x[spots[r].from + tap..][..sweep.depth]);
        multiply(rows, weights, &mut sums);
    }
    for r in 0..R {
        for v in 0..N {
            sweep.ending.apply(sums[r][v], j + v * V::WIDTH, y, spots[r].to + j + v * V::WIDTH);
        }
    }
}

/// `sums += rows * weights`, where a row of the weights is `N` vectors.
#[inline(always)]
fn multiply<T: Scalar, V: Vector<T>, const R: usize, const N: usize>(
    rows: [&[T]; R],
    weights: &[T],
    sums: &mut [[V; N]; R],
) {
    let depth = rows[0].len();
    let rows = rows.map(|row| &row[..depth]);
    assert!(depth * N * V::WIDTH <= weights.len());
    // A copy, since the caller's may be in memory: an array that is indexed by a variable anywhere is.
    let mut copy = *sums;
    for q in 0..depth {
        let mut row = [V::splat(T::zero()); N];
        for v in 0..N {
            // SAFETY: among the weights, see above.
            row[v] = unsafe { load_unchecked(weights, (q * N + v) * V::WIDTH, V::mask(V::WIDTH)) };
        }
        for r in 0..R {
            let x = V::splat(rows[r][q]);
            for v in 0..N {
                copy[r][v] = x.madd(row[v], copy[r][v]);
            }
        }
    }
    *sums = copy;
}

/// Rows of a group, as many as a register tile has at most.
pub(super) const GROUP: usize = 12;

/// Matrices of equal shape in memory: `[vectors of a row, groups of rows, matrices, GROUP, lanes of a
/// vector]`. So the same vector of a row is a constant distance from matrix to matrix, which needs no address
/// of its own, and within a few pages of memory.
#[derive(Clone, Copy)]
pub(super) struct Matrices {
    pub(super) count: usize,
    /// Groups that there is room for.
    pub(super) groups: usize,
    /// Vectors of a row, and their width.
    pub(super) vectors: usize,
    pub(super) width: usize,
}

impl Matrices {
    /// Matrices with room for `rows` of `lanes`.
    pub(super) fn new<T, V: Vector<T>>(count: usize, rows: usize, lanes: usize) -> Matrices {
        Matrices { count, groups: rows.div_ceil(GROUP), vectors: lanes.div_ceil(V::WIDTH), width: V::WIDTH }
    }

    pub(super) fn len(self) -> usize {
        self.vectors * self.distance()
    }

    /// Distance of two vectors of a row.
    #[inline(always)]
    fn distance(self) -> usize {
        self.groups * self.group()
    }

    /// Distance of two groups.
    #[inline(always)]
    fn group(self) -> usize {
        self.count * GROUP * self.width
    }

    /// Where a vector of a row is in the first matrix; the other matrices' are `GROUP * width` apart.
    #[inline(always)]
    pub(super) fn at(self, row: usize, vector: usize) -> usize {
        vector * self.distance() + row / GROUP * self.group() + row % GROUP * self.width
    }
}

/// A product of matrices: `y = x weights` with the first `rows` rows of one of many `x` and `y`, where the
/// first `depth` entries of a row of `x` count, and the weights, `[panel, depth, lanes of the panel]`, are
/// for some `vectors` of `y`.
#[derive(Clone, Copy)]
pub(super) struct Product<'a, T> {
    pub(super) x: &'a [T],
    pub(super) xs: Matrices,
    pub(super) which: usize,
    pub(super) rows: usize,
    pub(super) depth: usize,
    pub(super) weights: &'a [T],
    pub(super) ys: Matrices,
    /// The first vector and their number.
    pub(super) vectors: (usize, usize),
}

with_vectors! {
    pub(super) product = product_body(product: &Product<'_, T>, y: &mut [T]) if product.xs.width > LANES
}

#[inline(always)]
fn product_body<T: Scalar, V: Vector<T>>(product: &Product<'_, T>, y: &mut [T]) {
    let Product { x, xs, rows, depth, which, ys, vectors: (first, count), .. } = *product;
    // What the tiles rely on.
    assert!(xs.width == V::WIDTH && xs.len() <= x.len() && ys.width == V::WIDTH && ys.len() <= y.len());
    assert!(which < xs.count && which < ys.count && rows <= GROUP * xs.groups.min(ys.groups));
    assert!(depth <= xs.vectors * V::WIDTH && first + count <= ys.vectors);
    for (j, vectors) in panels(count * V::WIDTH, V::WIDTH) {
        let weights = &product.weights[j * depth..][..vectors * V::WIDTH * depth];
        let j = j + first * V::WIDTH;
        for group in (0..rows).step_by(GROUP) {
            by_tile!(vectors, GROUP.min(rows - group), |i| product_tile(product, group + i, j, weights, y));
        }
    }
}

#[inline(always)]
fn product_tile<T: Scalar, V: Vector<T>, const R: usize, const N: usize>(
    product: &Product<'_, T>,
    i: usize,
    j: usize,
    weights: &[T],
    y: &mut [T],
) {
    let Product { x, xs, depth, which, ys, .. } = *product;
    let mut sums = [[V::splat(T::zero()); N]; R];
    for (block, weights) in weights.chunks(V::WIDTH * N * V::WIDTH).enumerate() {
        let at = xs.at(i, block) + which * GROUP * V::WIDTH;
        for q in 0..V::WIDTH.min(depth - block * V::WIDTH) {
            let mut row = [V::splat(T::zero()); N];
            for v in 0..N {
                // SAFETY: among the weights, a row of which is `N` vectors, and `depth` of which there are.
                row[v] = unsafe { load_unchecked(weights, (q * N + v) * V::WIDTH, V::mask(V::WIDTH)) };
            }
            for r in 0..R {
                // SAFETY: an entry of a row of this matrix, see `product_body`.
                let x = V::splat(unsafe { *x.get_unchecked(at + r * V::WIDTH + q) });
                for v in 0..N {
                    sums[r][v] = x.madd(row[v], sums[r][v]);
                }
            }
        }
    }
    for v in 0..N {
        let at = ys.at(i, j / V::WIDTH + v) + which * GROUP * V::WIDTH;
        for r in 0..R {
            // SAFETY: a vector of a row of this matrix, see `product_body`.
            unsafe { store_unchecked(sums[r][v], y, at + r * V::WIDTH, V::mask(V::WIDTH)) };
        }
    }
}

/// Outer products of pixels, summed over `spots`: `sums: [depth, lanes] += x^T dy`.
#[derive(Clone, Copy)]
pub(super) struct Outer<'a, T> {
    pub(super) x: &'a [T],
    pub(super) dy: &'a [T],
    pub(super) spots: &'a [Spot],
    pub(super) depth: usize,
    pub(super) lanes: usize,
}

with_vectors! {
    pub(super) outer = outer_body(outer: &Outer<'_, T>, sums: &mut [T]) if is_wide(outer.lanes)
}

#[inline(always)]
fn outer_body<T: Scalar, V: Vector<T>>(outer: &Outer<'_, T>, sums: &mut [T]) {
    for (j, vectors) in panels(outer.lanes, V::WIDTH) {
        by_tile!(vectors, outer.depth, |i| outer_tile(outer, i, j, sums));
    }
}

#[inline(always)]
fn outer_tile<T: Scalar, V: Vector<T>, const R: usize, const N: usize>(
    outer: &Outer<'_, T>,
    i: usize,
    j: usize,
    into: &mut [T],
) {
    let mut sums = [[V::splat(T::zero()); N]; R];
    for spot in outer.spots {
        let x = outer.x[spot.from + i..].first_chunk().expect("the channels of a pixel");
        multiply_outer(x, &outer.dy[spot.to..][..outer.lanes], j, &mut sums);
    }
    add_tile(sums, true, &mut into[i * outer.lanes..], outer.lanes, j);
}

/// `sums += x^T dy`, where `dy` is `N` vectors from `j` on.
#[inline(always)]
fn multiply_outer<T: Scalar, V: Vector<T>, const R: usize, const N: usize>(
    x: &[T; R],
    dy: &[T],
    j: usize,
    sums: &mut [[V; N]; R],
) {
    let mut row = [V::splat(T::zero()); N];
    for v in 0..N {
        let lane = j + v * V::WIDTH;
        row[v] = load(dy, lane, if v + 1 < N { V::WIDTH } else { dy.len() - lane });
    }
    for r in 0..R {
        let x = V::splat(x[r]);
        for v in 0..N {
            sums[r][v] = x.madd(row[v], sums[r][v]);
        }
    }
}

/// Stores a tile of lanes from `j` on, added to what is there if `add`; its rows have `lanes`.
#[inline(always)]
fn add_tile<T: Scalar, V: Vector<T>, const R: usize, const N: usize>(
    sums: [[V; N]; R],
    add: bool,
    into: &mut [T],
    lanes: usize,
    j: usize,
) {
    for r in 0..R {
        for v in 0..N {
            let lane = j + v * V::WIDTH;
            let mut sum = sums[r][v];
            if add {
                sum = sum.add(load(into, r * lanes + lane, lanes - lane));
            }
            store(sum, into, r * lanes + lane, lanes - lane);
        }
    }
}

/// A product of matrices, the left one transposed: `sums = x^T dy`, or `+=` if `add`, with the first `rows`
/// rows of one of many `x` and `dy`. Of `x`, `depth` columns from `first` on count, a multiple of eight; rows
/// of `sums` have `lanes`.
#[derive(Clone, Copy)]
pub(super) struct Transposed<'a, T> {
    pub(super) x: &'a [T],
    pub(super) xs: Matrices,
    pub(super) dy: &'a [T],
    pub(super) dys: Matrices,
    pub(super) which: usize,
    pub(super) rows: usize,
    pub(super) first: usize,
    pub(super) depth: usize,
    pub(super) lanes: usize,
    pub(super) add: bool,
}

with_vectors! {
    pub(super) transposed = transposed_body(product: &Transposed<'_, T>, sums: &mut [T]) if product.xs.width > LANES
}

#[inline(always)]
fn transposed_body<T: Scalar, V: Vector<T>>(product: &Transposed<'_, T>, sums: &mut [T]) {
    let Transposed { x, xs, dy, dys, which, rows, first, depth, lanes, .. } = *product;
    // What the tiles rely on.
    assert!(xs.width == V::WIDTH && xs.len() <= x.len() && dys.width == V::WIDTH && dys.len() <= dy.len());
    assert!(which < xs.count && which < dys.count && rows <= GROUP * xs.groups.min(dys.groups));
    assert!(
        first.is_multiple_of(8) && first + depth <= xs.vectors * V::WIDTH && lanes <= dys.vectors * V::WIDTH
    );
    for (j, vectors) in panels(lanes, V::WIDTH) {
        by_tile!(outer vectors, depth, |i| transposed_tile(product, i, j, sums));
    }
}

#[inline(always)]
fn transposed_tile<T: Scalar, V: Vector<T>, const R: usize, const N: usize>(
    product: &Transposed<'_, T>,
    i: usize,
    j: usize,
    into: &mut [T],
) {
    let Transposed { x, xs, dy, dys, which, rows, first, lanes, add, .. } = *product;
    let mut sums = [[V::splat(T::zero()); N]; R];
    // A tile's columns are in one vector: their number is a power of two, at most eight, and divides the
    // first.
    let (vector, column) = ((first + i) / V::WIDTH, (first + i) % V::WIDTH);
    for group in (0..rows).step_by(GROUP) {
        let x_at = xs.at(group, vector) + which * GROUP * V::WIDTH + column;
        let dy_at = dys.at(group, j / V::WIDTH) + which * GROUP * V::WIDTH;
        for row in 0..GROUP.min(rows - group) {
            let mut of_dy = [V::splat(T::zero()); N];
            for v in 0..N {
                let at = dy_at + v * dys.distance() + row * V::WIDTH;
                // SAFETY: a vector of a row of this matrix, see `transposed_body`.
                of_dy[v] = unsafe { load_unchecked(dy, at, V::mask(V::WIDTH)) };
            }
            for r in 0..R {
                // SAFETY: an entry of a row of this matrix, see `transposed_body`.
                let x = V::splat(unsafe { *x.get_unchecked(x_at + row * V::WIDTH + r) });
                for v in 0..N {
                    sums[r][v] = x.madd(of_dy[v], sums[r][v]);
                }
            }
        }
    }
    add_tile(sums, add, &mut into[i * lanes..], lanes, j);
}
