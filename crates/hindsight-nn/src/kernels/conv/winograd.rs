//! Convolutions with kernels of 3 x 3 and stride 1 in the domain of Winograd's transforms.
//!
//! Tiles of `M` x `M` outputs and the `M + 2` x `M + 2` inputs they depend on are values of polynomials at
//! `M + 2` points per direction, where a convolution is a product: `(M + 2)^2` products of matrices over the
//! channels in place of `9 M^2`, 4 times fewer for `M = 4`, 3.2 for `M = 3`. The gradient in the inputs is
//! the same with the kernel turned round. For the gradient in the weights, the same transform of the outputs'
//! gradient is multiplied with that of tiles of the inputs, and the sum over all tiles is transformed back.
//!
//! Blocks of tiles are transformed, multiplied and transformed back while they are in the cache. All sums of
//! a tile are its own, so an image does not depend on its batch.

#![allow(clippy::needless_range_loop, reason = "plain loops keep vectors in registers, see `vector`")]

use std::{mem::MaybeUninit, ops::Range};

use super::{
    super::prefetch,
    Conv, LANES, Part, Workspace, lanes,
    panels::{Ending, GROUP, Matrices, Product, Transposed, panels, product, transposed},
    room,
    vector::{
        Eight, Vector, is_wide, load, load_some, load_unchecked, store_some, store_unchecked, width,
        with_eights, with_vectors,
    },
};
use crate::Scalar;

/// The most points of a transform, and the most outputs of a tile.
const POINTS: usize = 6;
const MOST: usize = 4;

/// The transforms along one direction. Of an argument or result that is longer than needed, the front counts.
trait Transform {
    /// Outputs of a tile.
    const OUTPUTS: usize;
    /// Points, which are also the inputs of a tile.
    const POINTS: usize = Self::OUTPUTS + 2;

    /// Inputs to points.
    fn input<T: Scalar, V: Vector<T>>(x: [V; POINTS]) -> [V; POINTS];
    /// Points to outputs.
    fn output<T: Scalar, V: Vector<T>>(x: [V; POINTS]) -> [V; MOST];
    /// Kernel to points.
    fn kernel<T: Scalar, V: Vector<T>>(x: [V; 3]) -> [V; POINTS];
    /// Values of a tile to points: `output` transposed.
    fn tile<T: Scalar, V: Vector<T>>(x: [V; MOST]) -> [V; POINTS];
    /// Points to gradient in the kernel: `kernel` transposed.
    fn weights<T: Scalar, V: Vector<T>>(x: [V; POINTS]) -> [V; 3];
}

/// Points 0, 1, -1, 1/2 and infinity.
struct Three;

impl Transform for Three {
    const OUTPUTS: usize = 3;

    #[inline(always)]
    fn input<T: Scalar, V: Vector<T>>([a, b, c, d, e, _]: [V; POINTS]) -> [V; POINTS] {
        let half = number(0.5);
        let difference = d.sub(b);
        [
            a.sub(c).madd(half, difference),
            c.sub(b).madd(half, d),
            b.madd(half, c.msub(number(1.5), d)),
            difference,
            difference.msub(half, e.sub(c)),
            a,
        ]
    }

    #[inline(always)]
    fn output<T: Scalar, V: Vector<T>>([a, b, c, d, e, _]: [V; POINTS]) -> [V; MOST] {
        let even = b.add(c);
        [a.add(d).add(even), d.madd(number(0.5), b.sub(c)), d.madd(number(0.25), even.add(e)), a]
    }

    #[inline(always)]
    fn kernel<T: Scalar, V: Vector<T>>([a, b, c]: [V; 3]) -> [V; POINTS] {
        let even = a.add(c);
        let half = b.madd(number(0.5), c.madd(number(0.25), a));
        [a.add(a), even.add(b), b.sub(even).mul(number(1.0 / 3.0)), half.mul(number(-8.0 / 3.0)), c, a]
    }

    #[inline(always)]
    fn tile<T: Scalar, V: Vector<T>>([a, b, c, _]: [V; MOST]) -> [V; POINTS] {
        let even = a.add(c);
        [a, even.add(b), even.sub(b), b.madd(number(0.5), c.madd(number(0.25), a)), c, a]
    }

    #[inline(always)]
    fn weights<T: Scalar, V: Vector<T>>([a, b, c, d, e, _]: [V; POINTS]) -> [V; 3] {
        let (c, d) = (c.mul(number(1.0 / 3.0)), d.mul(number(8.0 / 3.0)));
        let even = b.sub(c);
        [a.add(a).add(even).sub(d), d.msub(number(0.5), b.add(c)), d.msub(number(0.25), even.add(e))]
    }
}

/// Points 0, ±sqrt(1/2), ±sqrt(2) and infinity: seven times as accurate as the customary 0, ±1, ±2, infinity.
struct Four;

/// The points and their cubes.
const A: f64 = std::f64::consts::FRAC_1_SQRT_2;
const B: f64 = std::f64::consts::SQRT_2;
const A3: f64 = A / 2.0;
const B3: f64 = B * 2.0;

impl Transform for Four {
    const OUTPUTS: usize = 4;

    #[inline(always)]
    fn input<T: Scalar, V: Vector<T>>([a, b, c, d, e, f]: [V; POINTS]) -> [V; POINTS] {
        let (half, two, sum) = (number(0.5), number(2.0), number(2.5));
        let (even_a, odd_a) = (c.msub(two, e), b.msub(two, d));
        let (even_b, odd_b) = (c.msub(half, e), b.msub(half, d));
        [
            c.msub(sum, a.add(e)),
            odd_a.madd(number(A), even_a),
            odd_a.msub(number(A), even_a),
            odd_b.madd(number(B), even_b),
            odd_b.msub(number(B), even_b),
            d.msub(sum, b.add(f)),
        ]
    }

    #[inline(always)]
    fn output<T: Scalar, V: Vector<T>>([a, b, c, d, e, f]: [V; POINTS]) -> [V; MOST] {
        let (even_a, odd_a, even_b, odd_b) = (b.add(c), b.sub(c), d.add(e), d.sub(e));
        [
            a.add(even_a).add(even_b),
            odd_a.madd(number(A), odd_b.mul(number(B))),
            even_a.madd(number(0.5), even_b.add(even_b)),
            odd_a.madd(number(A3), odd_b.madd(number(B3), f)),
        ]
    }

    #[inline(always)]
    fn kernel<T: Scalar, V: Vector<T>>([a, b, c]: [V; 3]) -> [V; POINTS] {
        let even_a = c.madd(number(0.5), a).mul(number(-2.0 / 3.0));
        let even_b = c.madd(number(2.0), a).mul(number(1.0 / 6.0));
        let (odd_a, odd_b) = (number(A / 1.5), number(B / 6.0));
        [a, b.msub(odd_a, even_a), b.madd(odd_a, even_a), b.madd(odd_b, even_b), b.msub(odd_b, even_b), c]
    }

    #[inline(always)]
    fn tile<T: Scalar, V: Vector<T>>([a, b, c, d]: [V; MOST]) -> [V; POINTS] {
        let (half, two) = (number(0.5), number(2.0));
        let (even_a, odd_a) = (c.madd(half, a), d.madd(half, b));
        let (even_b, odd_b) = (c.madd(two, a), d.madd(two, b));
        [
            a,
            odd_a.madd(number(A), even_a),
            odd_a.msub(number(A), even_a),
            odd_b.madd(number(B), even_b),
            odd_b.msub(number(B), even_b),
            d,
        ]
    }

    #[inline(always)]
    fn weights<T: Scalar, V: Vector<T>>([a, b, c, d, e, f]: [V; POINTS]) -> [V; 3] {
        let (even_a, even_b) = (b.add(c).mul(number(2.0 / 3.0)), d.add(e).mul(number(1.0 / 6.0)));
        [
            a.sub(even_a).add(even_b),
            d.sub(e).madd(number(B / 6.0), c.sub(b).mul(number(A / 1.5))),
            even_a.msub(number(0.5), even_b.madd(number(2.0), f)),
        ]
    }
}

#[inline(always)]
fn number<T: Scalar, V: Vector<T>>(x: f64) -> V {
    V::splat(T::of(x))
}

/// Calls `$body::<T, V, W>` with the transforms for tiles of `$outputs`.
macro_rules! by_transform {
    ($outputs:expr, $body:ident($($arg:expr),* $(,)?)) => {
        match $outputs {
            3 => $body::<T, V, Three>($($arg),*),
            _ => $body::<T, V, Four>($($arg),*),
        }
    };
}

/// A transform in both directions, first of each column that is read, then of each row that is written. What
/// is between them is written before it is read; filling it with zeros would take a tenth of the time.
macro_rules! both_ways {
    ($transform:path, [$rows:expr, $columns:expr] -> $results:expr, $most:expr,
     |$column:ident| $read:expr, |$row:ident, $values:ident| $write:expr) => {{
        assert!($rows <= $results);
        let mut between = [[MaybeUninit::<V>::uninit(); $most]; POINTS];
        for $column in 0..$columns {
            let values = $transform($read);
            for row in 0..$results {
                between[row][$column].write(values[row]);
            }
        }
        for $row in 0..$rows {
            let mut half = [number::<T, V>(0.0); $most];
            for column in 0..$columns {
                // SAFETY: written above, for all these rows and columns.
                half[column] = unsafe { between[$row][column].assume_init() };
            }
            let $values = $transform(half);
            $write
        }
    }};
}

/// Distance of the matrices of two points: 9 cache lines more than a multiple of 16, so that a few lines at
/// the same place of all of them spread over all sets of the L1 cache.
fn spread(len: usize) -> usize {
    const LINE: usize = 16;
    len.saturating_sub(9 * LINE).next_multiple_of(16 * LINE) + 9 * LINE
}

with_eights! {
    /// Transforms the weights of the output lanes `range`, whole vectors.
    pub(super) pack_forward = pack_forward_any(
        conv: &Conv,
        outputs: usize,
        weights: &[T],
        scale: Option<&[T]>,
        range: Range<usize>,
        packed: &mut Vec<T>,
    )
}

#[inline(always)]
fn pack_forward_any<T: Scalar, V: Eight<T>>(
    conv: &Conv,
    outputs: usize,
    weights: &[T],
    scale: Option<&[T]>,
    range: Range<usize>,
    packed: &mut Vec<T>,
) {
    by_transform!(outputs, pack_forward_body(conv, weights, scale, range, packed));
}

#[inline(always)]
fn pack_forward_body<T: Scalar, V: Eight<T>, W: Transform>(
    conv: &Conv,
    weights: &[T],
    scale: Option<&[T]>,
    range: Range<usize>,
    packed: &mut Vec<T>,
) {
    let Conv { inputs, outputs, .. } = *conv;
    let vector = width::<T>(lanes(outputs));
    let stride = spread(inputs * range.len());
    let packed = room(packed, W::POINTS * W::POINTS * stride);
    for (start, vectors) in panels(range.len(), vector) {
        for i in 0..inputs {
            for lane in (0..vectors * vector).step_by(LANES) {
                let j = range.start + start + lane;
                let some = outputs.saturating_sub(j);
                let mut kernel = [[number::<T, V>(1.0); 3]; 3];
                for tap in 0..9 {
                    kernel[tap / 3][tap % 3] =
                        load_some(weights, (tap * inputs + i) * outputs + j.min(outputs), some);
                }
                if let Some(scale) = scale {
                    let scale: V = load_some(scale, j.min(outputs), some);
                    for tap in 0..9 {
                        kernel[tap / 3][tap % 3] = kernel[tap / 3][tap % 3].mul(scale);
                    }
                }
                let at = start * inputs + i * vectors * vector + lane;
                pack_kernel::<T, V, W>(kernel, packed, stride, at);
            }
        }
    }
}

/// Stores the transform of eight kernels at `at` of the matrices of all points.
#[inline(always)]
fn pack_kernel<T: Scalar, V: Vector<T>, W: Transform>(
    kernel: [[V; 3]; 3],
    packed: &mut [T],
    stride: usize,
    at: usize,
) {
    assert!(at + LANES <= stride && W::POINTS * W::POINTS * stride <= packed.len());
    both_ways!(
        W::kernel,
        [W::POINTS, 3] -> W::POINTS, 3,
        |column| [kernel[0][column], kernel[1][column], kernel[2][column]],
        |row, values| {
            for column in 0..W::POINTS {
                let at = (row * W::POINTS + column) * stride + at;
                // SAFETY: all matrices have room there, see above.
                unsafe { store_unchecked(values[column], packed, at, V::mask(LANES)) };
            }
        }
    );
}

with_eights! {
    /// Transforms the weights of the input lanes `range`, whole vectors, turned round.
    pub(super) pack_backward = pack_backward_any(
        conv: &Conv,
        outputs: usize,
        weights: &[T],
        range: Range<usize>,
        packed: &mut Vec<T>,
    )
}

#[inline(always)]
fn pack_backward_any<T: Scalar, V: Eight<T>>(
    conv: &Conv,
    outputs: usize,
    weights: &[T],
    range: Range<usize>,
    packed: &mut Vec<T>,
) {
    by_transform!(outputs, pack_backward_body(conv, weights, range, packed));
}

#[inline(always)]
fn pack_backward_body<T: Scalar, V: Eight<T>, W: Transform>(
    conv: &Conv,
    weights: &[T],
    range: Range<usize>,
    packed: &mut Vec<T>,
) {
    let Conv { inputs, outputs, .. } = *conv;
    let vector = width::<T>(lanes(inputs));
    let stride = spread(outputs * range.len());
    let packed = room(packed, W::POINTS * W::POINTS * stride);
    for (start, vectors) in panels(range.len(), vector) {
        for i in (0..outputs).step_by(LANES) {
            for lane in (0..vectors * vector).step_by(LANES) {
                let j = range.start + start + lane;
                let mut kernels = [[number::<T, V>(0.0); LANES]; 9];
                for tap in 0..9 {
                    let mut rows = [number::<T, V>(0.0); LANES];
                    for row in 0..LANES.min(inputs.saturating_sub(j)) {
                        rows[row] = load_some(weights, (tap * inputs + j + row) * outputs + i, outputs - i);
                    }
                    kernels[tap] = V::transpose(rows);
                }
                for c in 0..LANES.min(outputs - i) {
                    // Turned round.
                    let mut kernel = [[number::<T, V>(0.0); 3]; 3];
                    for tap in 0..9 {
                        kernel[tap / 3][tap % 3] = kernels[8 - tap][c];
                    }
                    let at = start * outputs + (i + c) * vectors * vector + lane;
                    pack_kernel::<T, V, W>(kernel, packed, stride, at);
                }
            }
        }
    }
}

/// ImageView cut into tiles.
#[derive(Clone, Copy)]
struct TileGrid {
    size: [usize; 2],
    /// Tiles in an image.
    tiles: [usize; 2],
}

impl TileGrid {
    fn new(size: [usize; 2], outputs: usize) -> TileGrid {
        TileGrid { size, tiles: size.map(|side| side.div_ceil(outputs)) }
    }

    fn count(&self) -> usize {
        self.tiles[0] * self.tiles[1]
    }

    /// First pixel of the image of a tile, and the place of the tile's first output in that image.
    #[inline(always)]
    fn tile(&self, tile: usize, outputs: usize) -> (usize, [usize; 2]) {
        let (image, place) = (tile / self.count(), tile % self.count());
        let place = [place / self.tiles[1] * outputs, place % self.tiles[1] * outputs];
        (image * self.size[0] * self.size[1], place)
    }
}

/// Where a tile is, see [`TileGrid::tile`]. Checks what the transforms rely on: that its image is among
/// `images`, and that `len` values are `matrices` of all points that have this row.
#[inline(always)]
fn locate<T, W: Transform>(
    grid: &TileGrid,
    tile: usize,
    images: &[T],
    lanes: usize,
    (matrices, row, len): (Matrices, usize, usize),
) -> (usize, [usize; 2]) {
    let (first, place) = grid.tile(tile, W::OUTPUTS);
    assert!((first + grid.size[0] * grid.size[1]) * lanes <= images.len());
    assert!(lanes.is_multiple_of(LANES) && matrices.count == W::POINTS * W::POINTS && matrices.len() <= len);
    assert!(row < GROUP * matrices.groups && lanes <= matrices.vectors * matrices.width);
    (first, place)
}

/// Transforms the inputs of a tile and stores them in a row of the matrices of all points.
#[inline(always)]
fn transform_input<T: Scalar, V: Vector<T>, W: Transform>(
    grid: &TileGrid,
    tile: usize,
    x: &[T],
    lanes: usize,
    (matrices, tile_row): (Matrices, usize),
    to: &mut [T],
) {
    let (first, place) = locate::<T, W>(grid, tile, x, lanes, (matrices, tile_row, to.len()));
    // Rows and columns of the tile that are in the image.
    let [rows, columns] = [0, 1].map(|i| {
        let start = usize::from(place[i] == 0);
        start..(grid.size[i] + 1 - place[i]).min(W::POINTS)
    });
    let inside = rows.len() == W::POINTS && columns.len() == W::POINTS;
    // Of the pixel left above the first output, which may not exist.
    let corner =
        ((first + place[0] * grid.size[1] + place[1]) * lanes).wrapping_sub((grid.size[1] + 1) * lanes);
    let line = grid.size[1] * lanes;
    for lane in (0..lanes).step_by(V::WIDTH) {
        let mask = V::mask(lanes - lane);
        let start = matrices.at(tile_row, lane / V::WIDTH);
        let corner = corner.wrapping_add(lane);
        macro_rules! transform {
            ($has:expr) => {
                both_ways!(
                    W::input,
                    [W::POINTS, W::POINTS] -> W::POINTS, POINTS,
                    |column| {
                        let mut values = [number::<T, V>(0.0); POINTS];
                        for row in 0..W::POINTS {
                            let at = corner.wrapping_add(row * line + column * lanes);
                            // SAFETY: if the pixel is in the image, it is in `x`, as the image is, see
                            // `locate`.
                            values[row] = unsafe { V::load_if(x.as_ptr().wrapping_add(at), mask, $has(row, column)) };
                        }
                        values
                    },
                    |row, values| {
                        for column in 0..W::POINTS {
                            let at = start + (row * W::POINTS + column) * GROUP * V::WIDTH;
                            // SAFETY: all matrices have this row, see `locate`.
                            unsafe { store_unchecked(values[column], to, at, V::mask(V::WIDTH)) };
                        }
                    }
                )
            };
        }
        if inside {
            transform!(|_, _| true);
        } else {
            transform!(|row, column| rows.contains(&row) && columns.contains(&column));
        }
    }
}

/// Transforms the values of a tile without what surrounds it: in the gradient in the weights, `x` plays the
/// part of outputs, and the transform of `dy` is the one that the gradient in the inputs needs.
#[inline(always)]
fn transform_tile<T: Scalar, V: Vector<T>, W: Transform>(
    grid: &TileGrid,
    tile: usize,
    dy: &[T],
    lanes: usize,
    (matrices, tile_row): (Matrices, usize),
    to: &mut [T],
) {
    let (first, place) = locate::<T, W>(grid, tile, dy, lanes, (matrices, tile_row, to.len()));
    let [rows, columns] = [0, 1].map(|i| (grid.size[i] - place[i]).min(W::OUTPUTS));
    let corner = (first + place[0] * grid.size[1] + place[1]) * lanes;
    let line = grid.size[1] * lanes;
    for lane in (0..lanes).step_by(V::WIDTH) {
        let mask = V::mask(lanes - lane);
        let start = matrices.at(tile_row, lane / V::WIDTH);
        macro_rules! transform {
            ($has:expr) => {
                both_ways!(
                    W::tile,
                    [W::POINTS, W::OUTPUTS] -> W::POINTS, MOST,
                    |column| {
                        let mut values = [number::<T, V>(0.0); MOST];
                        for row in 0..W::OUTPUTS {
                            let from = dy.as_ptr().wrapping_add(corner + row * line + column * lanes + lane);
                            // SAFETY: if the pixel is in the image, it is in `dy`, as the image is, see
                            // `locate`.
                            values[row] = unsafe { V::load_if(from, mask, $has(row, column)) };
                        }
                        values
                    },
                    |row, values| {
                        for column in 0..W::POINTS {
                            let at = start + (row * W::POINTS + column) * GROUP * V::WIDTH;
                            // SAFETY: all matrices have this row, see `locate`.
                            unsafe { store_unchecked(values[column], to, at, V::mask(V::WIDTH)) };
                        }
                    }
                )
            };
        }
        if rows == W::OUTPUTS && columns == W::OUTPUTS {
            transform!(|_, _| true);
        } else {
            transform!(|row, column| row < rows && column < columns);
        }
    }
}

/// Tiles between one that is read and the one that is asked for.
const AHEAD: usize = 2;

/// Asks for the pixels of a tile, if it is in the images.
#[inline(always)]
fn prefetch_tile<T>(
    grid: &TileGrid,
    (first, place): (usize, [usize; 2]),
    outputs: usize,
    images: &[T],
    lanes: usize,
) {
    let columns = outputs.min(grid.size[1] - place[1]);
    for row in place[0]..(place[0] + outputs).min(grid.size[0]) {
        let at = (first + row * grid.size[1] + place[1]) * lanes;
        images.get(at..at + columns * lanes).into_iter().for_each(prefetch);
    }
}

/// Transforms the products in a row of the matrices of all points back and writes the outputs of a tile.
#[inline(always)]
fn transform_output<T: Scalar, V: Vector<T>, W: Transform>(
    grid: &TileGrid,
    tile: usize,
    from: &[T],
    (matrices, tile_row): (Matrices, usize),
    ending: Ending<'_, T>,
    y: &mut [T],
) {
    let lanes = ending.bias.len();
    let (first, place) = locate::<T, W>(grid, tile, y, lanes, (matrices, tile_row, from.len()));
    let [rows, columns] = [0, 1].map(|i| (grid.size[i] - place[i]).min(W::OUTPUTS));
    let corner = (first + place[0] * grid.size[1] + place[1]) * lanes;
    let line = grid.size[1] * lanes;
    for lane in (0..lanes).step_by(V::WIDTH) {
        let mask = V::mask(lanes - lane);
        let start = matrices.at(tile_row, lane / V::WIDTH);
        let bias: V = load(ending.bias, lane, lanes - lane);
        macro_rules! transform {
            ($rows:expr, $has:expr) => {
                both_ways!(
                    W::output,
                    [$rows, W::POINTS] -> W::OUTPUTS, POINTS,
                    |column| {
                        let mut values = [number::<T, V>(0.0); POINTS];
                        for row in 0..W::POINTS {
                            let at = start + (row * W::POINTS + column) * GROUP * V::WIDTH;
                            // SAFETY: all matrices have this row, see `locate`.
                            values[row] = unsafe { load_unchecked(from, at, V::mask(V::WIDTH)) };
                        }
                        values
                    },
                    |row, values| {
                        for column in 0..W::OUTPUTS {
                            if $has(column) {
                                let at = corner + row * line + column * lanes + lane;
                                // SAFETY: the pixel is in the image, and the image in `y`, see `locate`.
                                unsafe { ending.apply_unchecked(values[column], bias, y, at, mask) };
                            }
                        }
                    }
                )
            };
        }
        // Whole tiles apart: what depends on a row or column costs time.
        if rows == W::OUTPUTS && columns == W::OUTPUTS {
            transform!(W::OUTPUTS, |_| true);
        } else {
            transform!(rows, |column| column < columns);
        }
    }
}

/// Values of a block of tiles.
const BLOCK: usize = 64 << 10;

/// Tiles of a block, a multiple of the rows of all register tiles: as many as leave inputs and products in
/// the L2 cache, but enough that they outweigh the weights, which each block reads from further away where
/// they are many.
fn block(points: usize, ins: usize, outs: usize) -> usize {
    (BLOCK / (points * points * (ins + outs))).max(ins * outs / (ins + outs)).next_multiple_of(24)
}

/// Whether so many images are one block.
pub(super) fn is_one_block(conv: &Conv, outputs: usize, images: usize) -> bool {
    let tiles = images * TileGrid::new(conv.size, outputs).count();
    tiles <= block(outputs + 2, lanes(conv.inputs), lanes(conv.outputs))
}

/// A convolution of images: forward, or backward with gradients, channels exchanged and weights made for it.
#[derive(Clone, Copy)]
pub(super) struct ImageView<'a, T> {
    pub(super) size: [usize; 2],
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    pub(super) x: &'a [T],
    pub(super) weights: Weights<'a, T>,
    pub(super) add: bool,
    pub(super) relu: bool,
}

/// The weights of a convolution: transformed, or to be transformed a vector of output lanes at a time,
/// forward or backward, for the convolution in theta.
#[derive(Clone, Copy)]
pub(super) enum Weights<'a, T> {
    Packed(&'a [T]),
    Forward(&'a Conv, &'a [T]),
    Backward(&'a Conv, &'a [T]),
}

with_vectors! {
    pub(super) convolve =
        convolve_any(images: ImageView<'_, T>, outputs: usize, y: &mut [T], workspace: &mut Workspace<T>)
        if is_wide(lanes(images.outputs))
}

#[inline(always)]
fn convolve_any<T: Scalar, V: Vector<T>>(
    images: ImageView<'_, T>,
    outputs: usize,
    y: &mut [T],
    workspace: &mut Workspace<T>,
) {
    by_transform!(outputs, convolve_body(images, y, workspace));
}

#[inline(always)]
fn convolve_body<T: Scalar, V: Vector<T>, W: Transform>(
    ImageView { size, inputs, outputs, x, weights, add, relu }: ImageView<'_, T>,
    y: &mut [T],
    workspace: &mut Workspace<T>,
) {
    let (ins, outs) = (lanes(inputs), lanes(outputs));
    let grid = TileGrid::new(size, W::OUTPUTS);
    let ending = Ending { bias: &workspace.bias, add, relu };
    let count = grid.count() * (x.len() / (size[0] * size[1] * ins));
    let block = block(W::POINTS, ins, outs).min(count).max(1);
    let points = W::POINTS * W::POINTS;
    let [xs, ys] = [ins, outs].map(|lanes| Matrices::new::<T, V>(points, block, lanes));
    let Workspace { buffers: [values, products], strip, .. } = workspace;
    let (values, products) = (room(values, xs.len()), room(products, ys.len()));
    for start in (0..count).step_by(block) {
        let rows = block.min(count - start);
        for i in 0..rows {
            transform_input::<T, V, W>(&grid, start + i, x, ins, (xs, i), values);
        }
        self::products::<T, V, W>((values, xs, inputs), weights, rows, (products, ys), strip);
        for i in 0..rows {
            transform_output::<T, V, W>(&grid, start + i, products, (ys, i), ending, y);
        }
    }
}

/// Products with the weights at all points, of rows of so many channels.
#[inline(always)]
fn products<T: Scalar, V: Vector<T>, W: Transform>(
    (x, xs, depth): (&[T], Matrices, usize),
    weights: Weights<'_, T>,
    rows: usize,
    (y, ys): (&mut [T], Matrices),
    buffer: &mut Vec<T>,
) {
    let strip = match weights {
        Weights::Packed(_) => ys.vectors,
        _ => STRIP_VECTORS.min(ys.vectors),
    };
    for first in (0..ys.vectors).step_by(strip) {
        let strip = strip.min(ys.vectors - first);
        let range = first * V::WIDTH..(first + strip) * V::WIDTH;
        let weights = match weights {
            Weights::Packed(packed) => packed,
            Weights::Forward(conv, weights) => {
                pack_forward(conv, W::OUTPUTS, weights, None, range, buffer);
                &*buffer
            }
            Weights::Backward(conv, weights) => {
                pack_backward(conv, W::OUTPUTS, weights, range, buffer);
                &*buffer
            }
        };
        let stride = spread(depth * strip * V::WIDTH);
        for which in 0..W::POINTS * W::POINTS {
            let (weights, vectors) = (&weights[which * stride..], (first, strip));
            product(&Product { x, xs, which, rows, depth, weights, ys, vectors }, y);
        }
    }
}

/// Vectors of output lanes whose weights are transformed at a time.
const STRIP_VECTORS: usize = 2;

/// Where the gradient in the inputs goes on its way, and the transformed weights that take it there.
pub(super) struct Back<'a, T> {
    pub(super) weights: Weights<'a, T>,
    pub(super) add: bool,
    pub(super) dx: &'a mut [T],
}

with_vectors! {
    /// Both gradients, which share the transform of `dy`; the one in the inputs if there is a way `back`.
    pub(super) gradients = gradients_any(
        conv: &Conv,
        outputs: usize,
        pair: (&[T], &[T]),
        part: Part<'_, T>,
        sums: &mut Vec<T>,
        back: Option<Back<'_, T>>,
        workspace: &mut Workspace<T>,
    ) if is_wide(lanes(conv.inputs))
}

#[inline(always)]
fn gradients_any<T: Scalar, V: Vector<T>>(
    conv: &Conv,
    outputs: usize,
    pair: (&[T], &[T]),
    part: Part<'_, T>,
    sums: &mut Vec<T>,
    back: Option<Back<'_, T>>,
    workspace: &mut Workspace<T>,
) {
    by_transform!(outputs, gradients_body(conv, pair, part, sums, back, workspace));
}

#[inline(always)]
fn gradients_body<T: Scalar, V: Vector<T>, W: Transform>(
    conv: &Conv,
    (x, dy): (&[T], &[T]),
    Part { first: first_part, mut last }: Part<'_, T>,
    sums: &mut Vec<T>,
    mut back: Option<Back<'_, T>>,
    workspace: &mut Workspace<T>,
) {
    let Conv { inputs, outputs, size, .. } = *conv;
    let (ins, outs) = (lanes(inputs), lanes(outputs));
    let grid = TileGrid::new(size, W::OUTPUTS);
    let points = W::POINTS * W::POINTS;
    let count = grid.count() * (x.len() / conv.in_len());
    let block = block(W::POINTS, ins, outs).min(count).max(1);
    let [xs, ys] = [ins, outs].map(|lanes| Matrices::new::<T, V>(points, block, lanes));
    // A single block needs no more sums than it transforms back at once.
    let single = first_part && last.is_some() && count <= block;
    let sum_rows = if single { STRIP.min(inputs) } else { inputs };
    let sum_stride = spread(sum_rows * outs);
    let Workspace { buffers: [values, gradients], strip, bias, .. } = workspace;
    let (values, gradients) = (room(values, xs.len()), room(gradients, ys.len()));
    let sums = room(sums, points * sum_stride);
    for start in (0..count.max(1)).step_by(block) {
        let rows = block.min(count - start);
        for i in 0..rows {
            // What `x` holds was written on the way forward, and is no longer in the core's caches.
            let ahead = grid.tile(start + i + AHEAD, W::OUTPUTS);
            prefetch_tile(&grid, ahead, W::OUTPUTS, x, ins);
            transform_tile::<T, V, W>(&grid, start + i, x, ins, (xs, i), values);
            transform_input::<T, V, W>(&grid, start + i, dy, outs, (ys, i), gradients);
        }
        let add = !(first_part && start == 0);
        let complete = start + block >= count;
        let strip_rows = if complete && last.is_some() { STRIP } else { inputs };
        for first in (0..inputs).step_by(strip_rows) {
            let depth = strip_rows.min(inputs - first);
            let row = if single { 0 } else { first };
            for which in 0..points {
                let sums = &mut sums[which * sum_stride + row * outs..];
                let (x, dy, dys, lanes) = (&*values, &*gradients, ys, outs);
                transposed(&Transposed { x, xs, dy, dys, which, rows, first, depth, lanes, add }, sums);
            }
            if let Some((scale, into)) = last.as_mut().filter(|_| complete) {
                let sums = Sums { sums, stride: sum_stride, row };
                add_weights::<T, V, W>(conv, sums, first, depth, *scale, into);
            }
        }
        if let Some(Back { weights, add, dx }) = &mut back {
            // The products take the place of the transforms of `x`.
            products::<T, V, W>((gradients, ys, outputs), *weights, rows, (values, xs), strip);
            let ending = Ending { bias, add: *add, relu: false };
            for i in 0..rows {
                transform_output::<T, V, W>(&grid, start + i, values, (xs, i), ending, dx);
            }
        }
    }
}

/// Rows of weights whose sums are complete and in the L2 cache when they are transformed back.
const STRIP: usize = 32;

/// Sums of products at all points, `stride` apart, from a row on.
#[derive(Clone, Copy)]
struct Sums<'a, T> {
    sums: &'a [T],
    stride: usize,
    row: usize,
}

/// Transforms sums back and adds them to the weights of the input channels `first..first + depth`.
#[inline(always)]
fn add_weights<T: Scalar, V: Vector<T>, W: Transform>(
    conv: &Conv,
    Sums { sums, stride: sum_stride, row: sum_row }: Sums<'_, T>,
    first: usize,
    depth: usize,
    scale: T,
    into: &mut [T],
) {
    let Conv { inputs, outputs, .. } = *conv;
    let outs = lanes(outputs);
    let scale = V::splat(scale);
    for i in 0..depth {
        for j in (0..outs).step_by(V::WIDTH) {
            let at = (sum_row + i) * outs + j;
            let mask = V::mask(outs - j);
            assert!(
                at + V::WIDTH.min(outs - j) <= sum_stride && W::POINTS * W::POINTS * sum_stride <= sums.len()
            );
            both_ways!(
                W::weights,
                [3, W::POINTS] -> 3, POINTS,
                |column| {
                    let mut values = [scale; POINTS];
                    for row in 0..W::POINTS {
                        let at = (row * W::POINTS + column) * sum_stride + at;
                        // SAFETY: all matrices have entries there, see above.
                        values[row] = unsafe { load_unchecked(sums, at, mask) };
                    }
                    values
                },
                |ky, row| {
                    for kx in 0..3 {
                        // Turned round, since `x` and `dy` have changed places.
                        let at = ((8 - ky * 3 - kx) * inputs + first + i) * outputs + j;
                        let sum = scale.madd(row[kx], load_some(into, at, outputs - j));
                        store_some(sum, into, at, outputs - j);
                    }
                }
            );
        }
    }
}
