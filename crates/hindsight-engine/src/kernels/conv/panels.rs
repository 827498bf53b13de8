//! The two products that every convolution comes down to, in tiles that stay in registers.
//!
//! Lanes are cut into panels of 16 or 24 (8 only where there are no more): with 6 or 4 rows these are 12 AVX
//! registers of sums, enough to hide the latency of FMA, and leave room for the operands. A sum is one chain
//! in the order of its terms, whatever tile it falls into.

use super::{
    super::{madd, tiles},
    LANES, Spot,
};
use crate::Scalar;

/// The panels of `lanes`, each as its first lane and its width.
#[inline(always)]
pub(super) fn panels(lanes: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let width = match (lanes - start) / LANES {
            0 => return None,
            1 => LANES,
            n if n % 2 == 1 => 3 * LANES,
            _ => 2 * LANES,
        };
        start += width;
        Some((start - width, width))
    })
}

/// Calls `$run::<T, rows, width, FMA>$args` for all tiles of a panel, each `$first` and as many of the `$count` rows
/// as suit its width.
macro_rules! by_tile {
    ($width:expr, $count:expr, |$first:ident| $run:ident $args:tt) => {
        match $width {
            24 => by_tile!(@ 24, $count, $first, $run $args; 1 2 3 4),
            16 => by_tile!(@ 16, $count, $first, $run $args; 1 2 3 4 5 6),
            8 => by_tile!(@ 8, $count, $first, $run $args; 1 2 3 4 5 6 7 8),
            _ => unreachable!("a panel has 8, 16 or 24 lanes"),
        }
    };
    (@ $width:literal, $count:expr, $first:ident, $run:ident $args:tt; $($rows:literal)*) => {
        for ($first, rows) in tiles($count, [$($rows),*].len()) {
            match rows {
                $($rows => by_tile!(@@ $run::<T, $rows, $width, FMA>, $args),)*
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

/// Products of pixels with weights, summed over `taps`, the distances from where a pixel is read.
#[derive(Clone, Copy)]
pub(super) struct Sweep<'a, T> {
    pub(super) x: &'a [T],
    pub(super) spots: &'a [Spot],
    pub(super) taps: &'a [usize],
    /// Channels of a tap.
    pub(super) depth: usize,
    /// `[panel, tap, depth, width of the panel]`.
    pub(super) weights: &'a [T],
    pub(super) ending: Ending<'a, T>,
}

impl<T: Scalar> Sweep<'_, T> {
    /// All lanes of all spots.
    #[inline(always)]
    pub(super) fn run<const FMA: bool>(&self, y: &mut [T]) {
        let depth = self.taps.len() * self.depth;
        for (j, width) in panels(self.ending.bias.len()) {
            let weights = &self.weights[j * depth..][..width * depth];
            by_tile!(width, self.spots.len(), |p| sweep_tile(self, p, j, weights, y));
        }
    }
}

#[inline(always)]
fn sweep_tile<T: Scalar, const R: usize, const N: usize, const FMA: bool>(
    sweep: &Sweep<'_, T>,
    p: usize,
    j: usize,
    weights: &[T],
    y: &mut [T],
) {
    let spots: &[Spot; R] = sweep.spots[p..].first_chunk().expect("a tile of spots");
    let mut sums = [[T::zero(); N]; R];
    for (tap, weights) in sweep.taps.iter().zip(weights.chunks_exact(sweep.depth * N)) {
        let rows: [&[T]; R] = std::array::from_fn(|r| &sweep.x[spots[r].from + tap..][..sweep.depth]);
        let (weights, _) = weights.as_chunks::<N>();
        let weights = &weights[..sweep.depth];
        for q in 0..sweep.depth {
            for r in 0..R {
                for c in 0..N {
                    sums[r][c] = madd::<T, FMA>(rows[r][q], weights[q][c], sums[r][c]);
                }
            }
        }
    }
    let Ending { bias, add, relu } = sweep.ending;
    let bias: &[T; N] = bias[j..].first_chunk().expect("a panel of the bias");
    for (spot, sums) in spots.iter().zip(&sums) {
        finish(*sums, bias, add, relu, y[spot.to + j..].first_chunk_mut().expect("a panel of a pixel"));
    }
}

/// Writes complete sums.
#[inline(always)]
pub(super) fn finish<T: Scalar, const N: usize>(
    sums: [T; N],
    bias: &[T; N],
    add: bool,
    relu: bool,
    y: &mut [T; N],
) {
    let mut sums: [T; N] = std::array::from_fn(|c| sums[c] + bias[c]);
    if add {
        sums = std::array::from_fn(|c| sums[c] + y[c]);
    }
    if relu {
        sums = sums.map(|sum| if sum > T::zero() { sum } else { T::zero() });
    }
    *y = sums;
}

/// Outer products of pixels, summed over `spots`: `sums: [depth, lanes] += x^T dy`.
#[derive(Clone, Copy)]
pub(super) struct Outer<'a, T> {
    pub(super) x: &'a [T],
    pub(super) dy: &'a [T],
    pub(super) spots: &'a [Spot],
    /// Distance from where the spots are in `x`.
    pub(super) tap: usize,
    pub(super) depth: usize,
    pub(super) lanes: usize,
}

impl<T: Scalar> Outer<'_, T> {
    #[inline(always)]
    pub(super) fn run<const FMA: bool>(&self, sums: &mut [T]) {
        for (j, width) in panels(self.lanes) {
            by_tile!(width, self.depth, |i| outer_tile(self, i, j, sums));
        }
    }
}

#[inline(always)]
fn outer_tile<T: Scalar, const R: usize, const N: usize, const FMA: bool>(
    outer: &Outer<'_, T>,
    i: usize,
    j: usize,
    into: &mut [T],
) {
    let at = |r: usize| (i + r) * outer.lanes + j;
    let mut sums: [[T; N]; R] =
        std::array::from_fn(|r| *into[at(r)..].first_chunk().expect("a panel of a row"));
    for spot in outer.spots {
        let x: &[T; R] = outer.x[spot.from + outer.tap + i..].first_chunk().expect("the channels of a pixel");
        let dy: &[T; N] = outer.dy[spot.to + j..].first_chunk().expect("a panel of a pixel");
        for r in 0..R {
            for c in 0..N {
                sums[r][c] = madd::<T, FMA>(x[r], dy[c], sums[r][c]);
            }
        }
    }
    for (r, sums) in sums.iter().enumerate() {
        *into[at(r)..].first_chunk_mut().expect("a panel of a row") = *sums;
    }
}
