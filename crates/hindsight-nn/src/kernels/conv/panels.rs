//! The products that every convolution comes down to, in tiles that stay in registers.
//!
//! Lanes are cut into panels of two or three vectors (one only where there is no more). A sum is one chain in
//! the order of its terms, whatever tile it falls into.

#![allow(clippy::needless_range_loop, reason = "plain loops keep vectors in registers, see `vector`")]

use super::{
    LANES, Spot,
    vector::{Vector, load, load_unchecked, store, store_unchecked, with_vectors},
};
use crate::Scalar;

/// The panels of `lanes`, each as its first lane and its number of vectors.
#[inline(always)]
pub(super) fn panels(lanes: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let vectors = match (lanes - start) / LANES {
            0 => return None,
            1 => 1,
            n if n % 2 == 1 => 3,
            _ => 2,
        };
        start += vectors * LANES;
        Some((start - vectors * LANES, vectors))
    })
}

/// Calls `$run::<T, V, rows, vectors>$args` for all tiles of a panel: `$first` and the rows from there on, of
/// `$count`, as many as suit the panel.
macro_rules! by_tile {
    ($vectors:expr, $count:expr, |$first:ident| $run:ident $args:tt) => {
        match $vectors {
            3 => by_tile!(@ 3, $count, $first, $run $args; 1 2 3 4),
            2 => by_tile!(@ 2, $count, $first, $run $args; 1 2 3 4 5 6),
            1 => by_tile!(@ 1, $count, $first, $run $args; 1 2 3 4 5 6 7 8),
            _ => unreachable!("a panel has one to three vectors"),
        }
    };
    (@ $vectors:literal, $count:expr, $first:ident, $run:ident $args:tt; $($rows:literal)*) => {{
        let (count, mut $first) = ($count, 0);
        while $first < count {
            let rows = V::ROWS[$vectors - 1].min(count - $first);
            match rows {
                $($rows if $rows <= V::ROWS[$vectors - 1] => by_tile!(@@ $run::<T, V, $rows, $vectors>, $args),)*
                _ => unreachable!("a tile of another height"),
            }
            $first += rows;
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
        let y = &mut y[to..][..LANES];
        // SAFETY: `y` has eight lanes.
        unsafe { self.apply_unchecked(sum, load(self.bias, j), y, 0) };
    }

    /// Writes complete sums, of lanes with this bias, to `to` in `y`.
    ///
    /// # Safety
    /// There are eight lanes.
    #[inline(always)]
    pub(super) unsafe fn apply_unchecked<V: Vector<T>>(&self, sum: V, bias: V, y: &mut [T], to: usize) {
        let mut sum = sum.add(bias);
        if self.add {
            // SAFETY: the caller's promise.
            sum = sum.add(unsafe { load_unchecked(y, to) });
        }
        if self.relu {
            sum = sum.relu();
        }
        // SAFETY: the caller's promise.
        unsafe { store_unchecked(sum, y, to) };
    }
}

/// Products of pixels with weights, summed over `taps`, the distances from where a pixel is read.
#[derive(Clone, Copy)]
pub(super) struct Sweep<'a, T> {
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
    pub(super) sweep = sweep_body(sweep: &Sweep<'_, T>, y: &mut [T])
}

#[inline(always)]
fn sweep_body<T: Scalar, V: Vector<T>>(sweep: &Sweep<'_, T>, y: &mut [T]) {
    let depth = sweep.taps.len() * sweep.depth;
    for (j, vectors) in panels(sweep.ending.bias.len()) {
        let weights = &sweep.weights[j * depth..][..vectors * LANES * depth];
        by_tile!(vectors, sweep.spots.len(), |p| sweep_tile(sweep, p, j, weights, y));
    }
}

#[inline(always)]
fn sweep_tile<T: Scalar, V: Vector<T>, const R: usize, const N: usize>(
    sweep: &Sweep<'_, T>,
    p: usize,
    j: usize,
    weights: &[T],
    y: &mut [T],
) {
    let spots: &[Spot; R] = sweep.spots[p..].first_chunk().expect("a tile of spots");
    let mut sums = [[V::splat(T::zero()); N]; R];
    for (tap, weights) in sweep.taps.iter().zip(weights.chunks_exact(sweep.depth * N * LANES)) {
        let rows = std::array::from_fn(|r| &sweep.x[spots[r].from + tap..][..sweep.depth]);
        multiply(rows, weights, &mut sums);
    }
    for r in 0..R {
        for v in 0..N {
            sweep.ending.apply(sums[r][v], j + v * LANES, y, spots[r].to + j + v * LANES);
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
    let weights = &weights.as_chunks::<LANES>().0.as_chunks::<N>().0[..depth];
    // A copy, since the caller's may be in memory: an array that is indexed by a variable anywhere is.
    let mut copy = *sums;
    for q in 0..depth {
        let mut row = [V::splat(T::zero()); N];
        for v in 0..N {
            row[v] = V::load(&weights[q][v]);
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

/// A product of matrices: `y = x weights`, where rows of `x` have `depth` entries and are `stride` apart, and the
/// weights are `[panel, depth, lanes of the panel]`.
#[derive(Clone, Copy)]
pub(super) struct Product<'a, T> {
    pub(super) x: &'a [T],
    pub(super) stride: usize,
    pub(super) depth: usize,
    pub(super) weights: &'a [T],
    pub(super) lanes: usize,
}

with_vectors! {
    pub(super) product = product_body(product: &Product<'_, T>, y: &mut [T])
}

#[inline(always)]
fn product_body<T: Scalar, V: Vector<T>>(product: &Product<'_, T>, y: &mut [T]) {
    let count = product.x.len() / product.stride;
    for (j, vectors) in panels(product.lanes) {
        let weights = &product.weights[j * product.depth..][..vectors * LANES * product.depth];
        by_tile!(vectors, count, |i| product_tile(product, i, j, weights, y));
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
    let rows = std::array::from_fn(|r| &product.x[(i + r) * product.stride..][..product.depth]);
    let mut sums = [[V::splat(T::zero()); N]; R];
    multiply(rows, weights, &mut sums);
    for r in 0..R {
        for v in 0..N {
            store(sums[r][v], y, (i + r) * product.lanes + j + v * LANES);
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
    pub(super) outer = outer_body(outer: &Outer<'_, T>, sums: &mut [T])
}

#[inline(always)]
fn outer_body<T: Scalar, V: Vector<T>>(outer: &Outer<'_, T>, sums: &mut [T]) {
    for (j, vectors) in panels(outer.lanes) {
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
        multiply_outer(x, &outer.dy[spot.to + j..], &mut sums);
    }
    add_tile(sums, true, &mut into[i * outer.lanes + j..], outer.lanes);
}

/// `sums += x^T dy`, where `dy` is `N` vectors.
#[inline(always)]
fn multiply_outer<T: Scalar, V: Vector<T>, const R: usize, const N: usize>(
    x: &[T; R],
    dy: &[T],
    sums: &mut [[V; N]; R],
) {
    let dy: &[[T; LANES]; N] = dy[..N * LANES].as_chunks().0.first_chunk().expect("a panel of a pixel");
    let mut row = [V::splat(T::zero()); N];
    for v in 0..N {
        row[v] = V::load(&dy[v]);
    }
    for r in 0..R {
        let x = V::splat(x[r]);
        for v in 0..N {
            sums[r][v] = x.madd(row[v], sums[r][v]);
        }
    }
}

/// Stores a tile, added to what is there if `add`; its rows are `stride` apart.
#[inline(always)]
fn add_tile<T: Scalar, V: Vector<T>, const R: usize, const N: usize>(
    sums: [[V; N]; R],
    add: bool,
    into: &mut [T],
    stride: usize,
) {
    for r in 0..R {
        for v in 0..N {
            let at = r * stride + v * LANES;
            let mut sum = sums[r][v];
            if add {
                sum = sum.add(load(into, at));
            }
            store(sum, into, at);
        }
    }
}

/// A product of matrices, the left one transposed: `sums = x^T dy`, or `+=` if `add`. Of `x`, whose rows are `stride`
/// apart, `depth` columns from `first` on count; rows of `dy` and `sums` are `lanes` apart.
#[derive(Clone, Copy)]
pub(super) struct Transposed<'a, T> {
    pub(super) x: &'a [T],
    pub(super) stride: usize,
    pub(super) first: usize,
    pub(super) depth: usize,
    pub(super) dy: &'a [T],
    pub(super) lanes: usize,
    pub(super) add: bool,
}

with_vectors! {
    pub(super) transposed = transposed_body(product: &Transposed<'_, T>, sums: &mut [T])
}

#[inline(always)]
fn transposed_body<T: Scalar, V: Vector<T>>(product: &Transposed<'_, T>, sums: &mut [T]) {
    for (j, vectors) in panels(product.lanes) {
        by_tile!(vectors, product.depth, |i| transposed_tile(product, i, j, sums));
    }
}

#[inline(always)]
fn transposed_tile<T: Scalar, V: Vector<T>, const R: usize, const N: usize>(
    product: &Transposed<'_, T>,
    i: usize,
    j: usize,
    into: &mut [T],
) {
    let Transposed { x, stride, first, dy, lanes, add, .. } = *product;
    let mut sums = [[V::splat(T::zero()); N]; R];
    for (x, dy) in x.chunks_exact(stride).zip(dy.chunks_exact(lanes)) {
        multiply_outer(x[first + i..].first_chunk().expect("the channels of a tile"), &dy[j..], &mut sums);
    }
    add_tile(sums, add, &mut into[i * lanes + j..], lanes);
}
