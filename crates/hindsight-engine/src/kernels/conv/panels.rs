//! The products that every convolution comes down to, in tiles that stay in registers.
//!
//! Lanes are cut into panels of two or three vectors (one only where there is no more). A sum is one chain in
//! the order of its terms, whatever tile it falls into.

use super::{
    super::tiles,
    LANES, Spot,
    vector::{Vector, load, store},
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
    (@ $vectors:literal, $count:expr, $first:ident, $run:ident $args:tt; $($rows:literal)*) => {
        for ($first, rows) in tiles($count, V::ROWS[$vectors - 1]) {
            match rows {
                $($rows => by_tile!(@@ $run::<T, V, $rows, $vectors>, $args),)*
                _ => unreachable!("a tile of another height"),
            }
        }
    };
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
    pub(super) fn apply<V: Vector<T>>(&self, sum: V, j: usize, y: &mut [T], to: usize) {
        let y = y[to..].first_chunk_mut().expect("eight lanes of a pixel");
        let mut sum = sum.add(load(self.bias, j));
        if self.add {
            sum = sum.add(V::load(y));
        }
        if self.relu {
            sum = sum.relu();
        }
        sum.store(y);
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

impl<T: Scalar> Sweep<'_, T> {
    /// All lanes of all spots.
    #[inline(always)]
    pub(super) fn run<V: Vector<T>>(&self, y: &mut [T]) {
        let depth = self.taps.len() * self.depth;
        for (j, vectors) in panels(self.ending.bias.len()) {
            let weights = &self.weights[j * depth..][..vectors * LANES * depth];
            by_tile!(vectors, self.spots.len(), |p| sweep_tile(self, p, j, weights, y));
        }
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
    for (spot, sums) in spots.iter().zip(sums) {
        for (v, sum) in sums.into_iter().enumerate() {
            sweep.ending.apply(sum, j + v * LANES, y, spot.to + j + v * LANES);
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
    let (weights, _) = weights.as_chunks::<LANES>();
    let (weights, _) = weights.as_chunks::<N>();
    let weights = &weights[..depth];
    let mut result = *sums;
    for q in 0..depth {
        let weights = weights[q].each_ref().map(V::load);
        for r in 0..R {
            let x = V::splat(rows[r][q]);
            for v in 0..N {
                result[r][v] = x.madd(weights[v], result[r][v]);
            }
        }
    }
    *sums = result;
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

impl<T: Scalar> Product<'_, T> {
    #[inline(always)]
    pub(super) fn run<V: Vector<T>>(&self, y: &mut [T]) {
        let count = self.x.len() / self.stride;
        for (j, vectors) in panels(self.lanes) {
            let weights = &self.weights[j * self.depth..][..vectors * LANES * self.depth];
            by_tile!(vectors, count, |i| product_tile(self, i, j, weights, y));
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
    let rows = std::array::from_fn(|r| &product.x[(i + r) * product.stride..][..product.depth]);
    let mut sums = [[V::splat(T::zero()); N]; R];
    multiply(rows, weights, &mut sums);
    for (r, sums) in sums.into_iter().enumerate() {
        for (v, sum) in sums.into_iter().enumerate() {
            store(sum, y, (i + r) * product.lanes + j + v * LANES);
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
    /// The sums start from zero instead of what is there.
    pub(super) fresh: bool,
}

impl<T: Scalar> Outer<'_, T> {
    #[inline(always)]
    pub(super) fn run<V: Vector<T>>(&self, sums: &mut [T]) {
        for (j, vectors) in panels(self.lanes) {
            by_tile!(vectors, self.depth, |i| outer_tile(self, i, j, sums));
        }
    }
}

#[inline(always)]
fn outer_tile<T: Scalar, V: Vector<T>, const R: usize, const N: usize>(
    outer: &Outer<'_, T>,
    i: usize,
    j: usize,
    into: &mut [T],
) {
    let at = |r: usize, v: usize| (i + r) * outer.lanes + j + v * LANES;
    let mut sums = [[V::splat(T::zero()); N]; R];
    if !outer.fresh {
        sums = std::array::from_fn(|r| std::array::from_fn(|v| load(into, at(r, v))));
    }
    for spot in outer.spots {
        let x: &[T; R] = outer.x[spot.from + i..].first_chunk().expect("the channels of a pixel");
        let dy = outer.dy[spot.to + j..][..N * LANES].as_chunks::<LANES>().0;
        let dy: [V; N] = std::array::from_fn(|v| V::load(&dy[v]));
        for r in 0..R {
            let x = V::splat(x[r]);
            for v in 0..N {
                sums[r][v] = x.madd(dy[v], sums[r][v]);
            }
        }
    }
    for (r, sums) in sums.into_iter().enumerate() {
        for (v, sum) in sums.into_iter().enumerate() {
            store(sum, into, at(r, v));
        }
    }
}
