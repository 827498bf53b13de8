//! The sums over pixels that batch-norm needs of images that were just written and are still in the cache.
//!
//! Rows are pixels. They go by in blocks that fit into the L1 cache, and lanes in panels whose sums stay in
//! registers.

#![allow(clippy::needless_range_loop, reason = "plain loops keep vectors in registers, see `vector`")]

use super::{
    panels::panels,
    vector::{Vector, is_wide, load, load_unchecked, store, store_unchecked, with_vectors},
};
use crate::Scalar;

/// Rows of a block. A block's sums are added up on their own, which also keeps rounding small.
const ROWS: usize = 64;

/// Calls `$body::<T, V, vectors>` for all panels of `$lanes`.
macro_rules! by_panel {
    ($lanes:expr, |$first:ident| $body:ident($($arg:expr),* $(,)?)) => {
        for ($first, vectors) in panels($lanes, V::WIDTH) {
            match vectors {
                3 => $body::<T, V, 3>($($arg),*),
                2 => $body::<T, V, 2>($($arg),*),
                _ => $body::<T, V, 1>($($arg),*),
            }
        }
    };
}

/// Numbers that a vector of a panel has, the last of which may not be filled.
#[inline(always)]
fn masks<T: Scalar, V: Vector<T>, const N: usize>(lanes: usize, first: usize) -> [V::Mask; N] {
    let mut masks = [V::mask(V::WIDTH); N];
    masks[N - 1] = V::mask(lanes - first - (N - 1) * V::WIDTH);
    masks
}

with_vectors! {
    /// See [`moments()`](super::moments()). One read from memory: a block's own mean is found first, and the
    /// block is then in the L1 cache; means and squares of blocks are merged by Chan's formula, which does
    /// not cancel.
    pub(super) moments = moments_body(x: &[T], before: usize, mean: &mut [T], squares: &mut [T])
        if is_wide(mean.len())
}

#[inline(always)]
fn moments_body<T: Scalar, V: Vector<T>>(x: &[T], mut before: usize, mean: &mut [T], squares: &mut [T]) {
    let lanes = mean.len();
    assert_eq!((x.len() % lanes, squares.len()), (0, lanes));
    for block in x.chunks(ROWS * lanes) {
        by_panel!(lanes, |first| merge(block, first, before, mean, squares));
        before += block.len() / lanes;
    }
}

/// Takes the lanes of a panel from `first` on of one block into the moments.
#[inline(always)]
fn merge<T: Scalar, V: Vector<T>, const N: usize>(
    block: &[T],
    first: usize,
    before: usize,
    mean: &mut [T],
    squares: &mut [T],
) {
    let lanes = mean.len();
    let rows = block.len() / lanes;
    let masks = masks::<T, V, N>(lanes, first);
    let zero = V::splat(T::zero());
    let (mut sum, mut square) = ([zero; N], [zero; N]);
    for row in 0..rows {
        for v in 0..N {
            // SAFETY: lanes of a row of the block, as far as there are any.
            let x: V = unsafe { load_unchecked(block, row * lanes + first + v * V::WIDTH, masks[v]) };
            sum[v] = sum[v].add(x);
        }
    }
    let share = V::splat(T::one() / T::of(rows as f64));
    for v in 0..N {
        sum[v] = sum[v].mul(share);
    }
    for row in 0..rows {
        for v in 0..N {
            // SAFETY: as above.
            let x: V = unsafe { load_unchecked(block, row * lanes + first + v * V::WIDTH, masks[v]) };
            let x = x.sub(sum[v]);
            square[v] = x.madd(x, square[v]);
        }
    }
    let (before, own) = (before as f64, rows as f64);
    let share = V::splat(T::of(own / (before + own)));
    let weight = V::splat(T::of(before * own / (before + own)));
    for v in 0..N {
        let at = first + v * V::WIDTH;
        let old: V = load(mean, at, lanes - at);
        let step = sum[v].sub(old);
        store(step.madd(share, old), mean, at, lanes - at);
        let old: V = load(squares, at, lanes - at);
        store(step.mul(step).madd(weight, old.add(square[v])), squares, at, lanes - at);
    }
}

/// What a gradient goes through on its way back from a convolution to the batch-norm before it.
#[derive(Debug, Clone, Copy)]
pub struct Gate<'a, T> {
    /// Output of the ReLU.
    pub h: &'a [T],
    /// What else leads to the gradient and is added, the shortcut's.
    pub beside: Option<&'a [T]>,
    /// What the batch-norm normalised.
    pub z: &'a [T],
    /// The batch-norm's mean.
    pub mean: &'a [T],
}

with_vectors! {
    /// See [`gate()`](super::gate()).
    pub(super) gate = gate_body(gate: Gate<'_, T>, d: &mut [T], sum: &mut [T], product: &mut [T])
        if is_wide(gate.mean.len())
}

#[inline(always)]
fn gate_body<T: Scalar, V: Vector<T>>(gate: Gate<'_, T>, d: &mut [T], sum: &mut [T], product: &mut [T]) {
    let lanes = gate.mean.len();
    assert_eq!((d.len() % lanes, sum.len(), product.len()), (0, lanes, lanes));
    assert_eq!((gate.h.len(), gate.z.len()), (d.len(), d.len()));
    assert!(gate.beside.is_none_or(|beside| beside.len() == d.len()));
    for start in (0..d.len()).step_by(ROWS * lanes) {
        let range = start..(start + ROWS * lanes).min(d.len());
        let d = &mut d[range.clone()];
        let block = Gate {
            h: &gate.h[range.clone()],
            beside: gate.beside.map(|beside| &beside[range.clone()]),
            z: &gate.z[range.clone()],
            mean: gate.mean,
        };
        by_panel!(lanes, |first| gate_block(block, first, d, sum, product));
    }
}

#[inline(always)]
fn gate_block<T: Scalar, V: Vector<T>, const N: usize>(
    Gate { h, beside, z, mean }: Gate<'_, T>,
    first: usize,
    d: &mut [T],
    sum: &mut [T],
    product: &mut [T],
) {
    let lanes = mean.len();
    let masks = masks::<T, V, N>(lanes, first);
    let zero = V::splat(T::zero());
    let (mut sums, mut products, mut means) = ([zero; N], [zero; N], [zero; N]);
    for v in 0..N {
        means[v] = load(mean, first + v * V::WIDTH, lanes - first - v * V::WIDTH);
    }
    for row in 0..d.len() / lanes {
        for v in 0..N {
            let at = row * lanes + first + v * V::WIDTH;
            // SAFETY: lanes of a row of each block, as far as there are any; all blocks are of one length.
            let (mut x, h, z): (V, V, V) = unsafe {
                (
                    load_unchecked(d, at, masks[v]),
                    load_unchecked(h, at, masks[v]),
                    load_unchecked(z, at, masks[v]),
                )
            };
            if let Some(beside) = beside {
                // SAFETY: as above.
                x = x.add(unsafe { load_unchecked(beside, at, masks[v]) });
            }
            x = x.where_positive(h);
            // SAFETY: as above.
            unsafe { store_unchecked(x, d, at, masks[v]) };
            sums[v] = sums[v].add(x);
            products[v] = x.madd(z.sub(means[v]), products[v]);
        }
    }
    for v in 0..N {
        let at = first + v * V::WIDTH;
        store(sums[v].add(load(sum, at, lanes - at)), sum, at, lanes - at);
        store(products[v].add(load(product, at, lanes - at)), product, at, lanes - at);
    }
}
