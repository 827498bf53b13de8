//! Convolutions with kernels of 3 x 3 and stride 1 in the domain of Winograd's transforms.
//!
//! Tiles of `M` x `M` outputs and the `M + 2` x `M + 2` inputs they depend on are values of polynomials at
//! `M + 2` points per direction, where a convolution is a product: `(M + 2)^2` products of matrices over the
//! channels in place of `9 M^2`, 4 times fewer for `M = 4`, 3.2 for 3, 2.25 for 2. The gradient in the inputs is
//! the same with the kernel turned round; for the gradient in the weights, the transforms of inputs and of output
//! gradients are multiplied and the sum over all tiles is transformed back.
//!
//! Blocks of tiles are transformed, multiplied and transformed back while they are in the cache. All sums of a
//! tile are its own, so an image does not depend on its batch.

#![allow(clippy::needless_range_loop, reason = "plain loops keep vectors in registers, see `vector`")]

use super::{
    Conv, LANES, Spot, Workspace, lanes,
    panels::{Ending, Outer, Product, outer, panels, product},
    room,
    vector::{Vector, load, load_some, store, with_vectors},
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
    /// Gradient in the outputs to points: `output` transposed.
    fn gradient<T: Scalar, V: Vector<T>>(x: [V; MOST]) -> [V; POINTS];
    /// Points to gradient in the kernel: `kernel` transposed.
    fn weights<T: Scalar, V: Vector<T>>(x: [V; POINTS]) -> [V; 3];
}

/// Points 0, 1, -1 and infinity.
struct Two;

impl Transform for Two {
    const OUTPUTS: usize = 2;

    #[inline(always)]
    fn input<T: Scalar, V: Vector<T>>([a, b, c, d, ..]: [V; POINTS]) -> [V; POINTS] {
        [c.sub(a), c.add(b), c.sub(b), d.sub(b), a, a]
    }

    #[inline(always)]
    fn output<T: Scalar, V: Vector<T>>([a, b, c, d, ..]: [V; POINTS]) -> [V; MOST] {
        [a.add(b.add(c)), d.add(b.sub(c)), a, a]
    }

    #[inline(always)]
    fn kernel<T: Scalar, V: Vector<T>>([a, b, c]: [V; 3]) -> [V; POINTS] {
        let half = number(0.5);
        let (even, odd) = (a.add(c).mul(half), b.mul(half));
        [number::<T, V>(0.0).sub(a), even.add(odd), even.sub(odd), c, a, a]
    }

    #[inline(always)]
    fn gradient<T: Scalar, V: Vector<T>>([a, b, ..]: [V; MOST]) -> [V; POINTS] {
        [a, a.add(b), a.sub(b), b, a, a]
    }

    #[inline(always)]
    fn weights<T: Scalar, V: Vector<T>>([a, b, c, d, ..]: [V; POINTS]) -> [V; 3] {
        let half = number(0.5);
        let (even, odd) = (b.add(c).mul(half), b.sub(c).mul(half));
        [even.sub(a), odd, even.add(d)]
    }
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
    fn gradient<T: Scalar, V: Vector<T>>([a, b, c, _]: [V; MOST]) -> [V; POINTS] {
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
    fn gradient<T: Scalar, V: Vector<T>>([a, b, c, d]: [V; MOST]) -> [V; POINTS] {
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
            2 => $body::<T, V, Two>($($arg),*),
            3 => $body::<T, V, Three>($($arg),*),
            _ => $body::<T, V, Four>($($arg),*),
        }
    };
}

/// Distance of the matrices of two points: their entries at the same place fall into different sets of a cache.
fn spread(len: usize) -> usize {
    len.next_multiple_of(16) + if len.div_ceil(16).is_multiple_of(2) { 16 } else { 0 }
}

with_vectors! {
    pub(super) pack_forward =
        pack_forward_any(conv: &Conv, outputs: usize, weights: &[T], scale: Option<&[T]>, packed: &mut Vec<T>)
}

#[inline(always)]
fn pack_forward_any<T: Scalar, V: Vector<T>>(
    conv: &Conv,
    outputs: usize,
    weights: &[T],
    scale: Option<&[T]>,
    packed: &mut Vec<T>,
) {
    by_transform!(outputs, pack_forward_body(conv, weights, scale, packed));
}

#[inline(always)]
fn pack_forward_body<T: Scalar, V: Vector<T>, W: Transform>(
    conv: &Conv,
    weights: &[T],
    scale: Option<&[T]>,
    packed: &mut Vec<T>,
) {
    let Conv { inputs, outputs, .. } = *conv;
    let stride = spread(inputs * lanes(outputs));
    let packed = room(packed, W::POINTS * W::POINTS * stride);
    for (start, vectors) in panels(lanes(outputs)) {
        for j in (start..start + vectors * LANES).step_by(LANES) {
            let mut factor: V = number(1.0);
            if let Some(scale) = scale {
                factor = load_some(scale, j, outputs - j);
            }
            for i in 0..inputs {
                let mut kernel = [[factor; 3]; 3];
                for tap in 0..9 {
                    let weights: V = load_some(weights, (tap * inputs + i) * outputs + j, outputs - j);
                    kernel[tap / 3][tap % 3] = weights.mul(factor);
                }
                let at = start * inputs + i * vectors * LANES + j - start;
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
    let mut half = [[kernel[0][0]; 3]; POINTS];
    for kx in 0..3 {
        let column = W::kernel([kernel[0][kx], kernel[1][kx], kernel[2][kx]]);
        for y in 0..W::POINTS {
            half[y][kx] = column[y];
        }
    }
    for y in 0..W::POINTS {
        let row = W::kernel(half[y]);
        for x in 0..W::POINTS {
            store(row[x], packed, (y * W::POINTS + x) * stride + at);
        }
    }
}

with_vectors! {
    pub(super) pack_backward =
        pack_backward_any(conv: &Conv, outputs: usize, weights: &[T], packed: &mut Vec<T>)
}

#[inline(always)]
fn pack_backward_any<T: Scalar, V: Vector<T>>(
    conv: &Conv,
    outputs: usize,
    weights: &[T],
    packed: &mut Vec<T>,
) {
    by_transform!(outputs, pack_backward_body(conv, weights, packed));
}

#[inline(always)]
fn pack_backward_body<T: Scalar, V: Vector<T>, W: Transform>(
    conv: &Conv,
    weights: &[T],
    packed: &mut Vec<T>,
) {
    let Conv { inputs, outputs, .. } = *conv;
    let stride = spread(outputs * lanes(inputs));
    let packed = room(packed, W::POINTS * W::POINTS * stride);
    for (start, vectors) in panels(lanes(inputs)) {
        for j in (start..start + vectors * LANES).step_by(LANES) {
            for i in (0..outputs).step_by(LANES) {
                let mut kernels = [[number::<T, V>(0.0); LANES]; 9];
                for tap in 0..9 {
                    let mut rows = [number::<T, V>(0.0); LANES];
                    for lane in 0..LANES.min(inputs - j) {
                        rows[lane] = load_some(weights, (tap * inputs + j + lane) * outputs + i, outputs - i);
                    }
                    kernels[tap] = V::transpose(rows);
                }
                for c in 0..LANES.min(outputs - i) {
                    // Turned round.
                    let mut kernel = [[number::<T, V>(0.0); 3]; 3];
                    for tap in 0..9 {
                        kernel[tap / 3][tap % 3] = kernels[8 - tap][c];
                    }
                    let at = start * outputs + (i + c) * vectors * LANES + j - start;
                    pack_kernel::<T, V, W>(kernel, packed, stride, at);
                }
            }
        }
    }
}

/// Images cut into tiles.
#[derive(Clone, Copy)]
struct Grid {
    size: [usize; 2],
    /// Tiles in an image.
    tiles: [usize; 2],
}

impl Grid {
    fn new(size: [usize; 2], outputs: usize) -> Grid {
        Grid { size, tiles: size.map(|side| side.div_ceil(outputs)) }
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

/// Transforms the inputs of a tile and stores them at `at` of the matrices of all points.
#[inline(always)]
fn transform_input<T: Scalar, V: Vector<T>, W: Transform>(
    grid: &Grid,
    tile: usize,
    x: &[T],
    lanes: usize,
    to: &mut [T],
    stride: usize,
    at: usize,
) {
    let (first, place) = grid.tile(tile, W::OUTPUTS);
    // Rows and columns of the tile that are in the image.
    let [rows, columns] = [0, 1].map(|i| {
        let start = usize::from(place[i] == 0);
        start..(grid.size[i] + 1 - place[i]).min(W::POINTS)
    });
    let inside = rows.len() == W::POINTS && columns.len() == W::POINTS;
    let pixel = |y: usize, x: usize| (first + (place[0] + y - 1) * grid.size[1] + place[1] + x - 1) * lanes;
    for lane in (0..lanes).step_by(LANES) {
        let zero: V = number(0.0);
        let mut half = [[zero; POINTS]; POINTS];
        if inside {
            for column in 0..W::POINTS {
                let mut values = [zero; POINTS];
                for row in 0..W::POINTS {
                    values[row] = load(x, pixel(row, column) + lane);
                }
                let values = W::input(values);
                for row in 0..W::POINTS {
                    half[row][column] = values[row];
                }
            }
        } else {
            for column in columns.clone() {
                let mut values = [zero; POINTS];
                for row in 0..W::POINTS {
                    if rows.contains(&row) {
                        values[row] = load(x, pixel(row, column) + lane);
                    }
                }
                let values = W::input(values);
                for row in 0..W::POINTS {
                    half[row][column] = values[row];
                }
            }
        }
        for row in 0..W::POINTS {
            let values = W::input(half[row]);
            for column in 0..W::POINTS {
                store(values[column], to, (row * W::POINTS + column) * stride + at + lane);
            }
        }
    }
}

/// Transforms the gradient in the outputs of a tile.
#[inline(always)]
fn transform_gradient<T: Scalar, V: Vector<T>, W: Transform>(
    grid: &Grid,
    tile: usize,
    dy: &[T],
    lanes: usize,
    to: &mut [T],
    stride: usize,
    at: usize,
) {
    let (first, place) = grid.tile(tile, W::OUTPUTS);
    let [rows, columns] = [0, 1].map(|i| (grid.size[i] - place[i]).min(W::OUTPUTS));
    let pixel = |y: usize, x: usize| (first + (place[0] + y) * grid.size[1] + place[1] + x) * lanes;
    for lane in (0..lanes).step_by(LANES) {
        let zero: V = number(0.0);
        let mut half = [[zero; MOST]; POINTS];
        for column in 0..columns {
            let mut values = [zero; MOST];
            for row in 0..W::OUTPUTS {
                if row < rows {
                    values[row] = load(dy, pixel(row, column) + lane);
                }
            }
            let values = W::gradient(values);
            for row in 0..W::POINTS {
                half[row][column] = values[row];
            }
        }
        for row in 0..W::POINTS {
            let values = W::gradient(half[row]);
            for column in 0..W::POINTS {
                store(values[column], to, (row * W::POINTS + column) * stride + at + lane);
            }
        }
    }
}

/// Transforms the products at `at` of the matrices of all points back and writes the outputs of a tile.
#[inline(always)]
fn transform_output<T: Scalar, V: Vector<T>, W: Transform>(
    grid: &Grid,
    tile: usize,
    from: &[T],
    stride: usize,
    at: usize,
    ending: Ending<'_, T>,
    y: &mut [T],
) {
    let lanes = ending.bias.len();
    let (first, place) = grid.tile(tile, W::OUTPUTS);
    let [rows, columns] = [0, 1].map(|i| (grid.size[i] - place[i]).min(W::OUTPUTS));
    for lane in (0..lanes).step_by(LANES) {
        let zero: V = number(0.0);
        let mut half = [[zero; POINTS]; MOST];
        for column in 0..W::POINTS {
            let mut values = [zero; POINTS];
            for row in 0..W::POINTS {
                values[row] = load(from, (row * W::POINTS + column) * stride + at + lane);
            }
            let values = W::output(values);
            for row in 0..W::OUTPUTS {
                half[row][column] = values[row];
            }
        }
        for row in 0..rows {
            let values = W::output(half[row]);
            let pixel = (first + (place[0] + row) * grid.size[1] + place[1]) * lanes + lane;
            for column in 0..W::OUTPUTS {
                if column < columns {
                    ending.apply(values[column], lane, y, pixel + column * lanes);
                }
            }
        }
    }
}

/// Values of a block of tiles.
const BLOCK: usize = 64 << 10;

/// Tiles of a block: as many as leave inputs and products in the L2 cache, but enough that reading weights is
/// worth it.
fn block(points: usize, ins: usize, outs: usize) -> usize {
    (BLOCK / (points * points * (ins + outs))).max(24)
}

/// Channels and their lanes of what is read and of what is written.
#[derive(Clone, Copy)]
pub(super) struct Ends {
    pub(super) inputs: usize,
    pub(super) outputs: usize,
}

with_vectors! {
    /// Forward, or backward with the ends exchanged and weights made for it.
    pub(super) convolve = convolve_any(
        size: [usize; 2],
        ends: Ends,
        outputs: usize,
        x: &[T],
        weights: &[T],
        ending: [bool; 2],
        y: &mut [T],
        workspace: &mut Workspace<T>,
    )
}

#[expect(clippy::too_many_arguments, reason = "inlined")]
#[inline(always)]
fn convolve_any<T: Scalar, V: Vector<T>>(
    size: [usize; 2],
    ends: Ends,
    outputs: usize,
    x: &[T],
    weights: &[T],
    ending: [bool; 2],
    y: &mut [T],
    workspace: &mut Workspace<T>,
) {
    by_transform!(outputs, convolve_body(size, ends, x, weights, ending, y, workspace));
}

#[inline(always)]
fn convolve_body<T: Scalar, V: Vector<T>, W: Transform>(
    size: [usize; 2],
    Ends { inputs, outputs }: Ends,
    x: &[T],
    weights: &[T],
    [add, relu]: [bool; 2],
    y: &mut [T],
    workspace: &mut Workspace<T>,
) {
    let (ins, outs) = (lanes(inputs), lanes(outputs));
    let grid = Grid::new(size, W::OUTPUTS);
    let ending = Ending { bias: &workspace.bias, add, relu };
    let tiles = grid.count() * (x.len() / (size[0] * size[1] * ins));
    let block = block(W::POINTS, ins, outs).min(tiles);
    let points = W::POINTS * W::POINTS;
    let (in_stride, out_stride) = (spread(block * ins), spread(block * outs));
    let weight_stride = spread(inputs * outs);
    let [values, products, _] = &mut workspace.buffers;
    let (values, products) = (room(values, points * in_stride), room(products, points * out_stride));
    for (start, count) in super::super::tiles(tiles, block.max(1)) {
        for i in 0..count {
            transform_input::<T, V, W>(&grid, start + i, x, ins, values, in_stride, i * ins);
        }
        for point in 0..points {
            let x = &values[point * in_stride..][..count * ins];
            let weights = &weights[point * weight_stride..];
            let y = &mut products[point * out_stride..][..count * outs];
            product(&Product { x, stride: ins, depth: inputs, weights, lanes: outs }, y);
        }
        for i in 0..count {
            transform_output::<T, V, W>(&grid, start + i, products, out_stride, i * outs, ending, y);
        }
    }
}

with_vectors! {
    pub(super) accumulate = accumulate_any(
        conv: &Conv,
        outputs: usize,
        pairs: &[(&[T], &[T])],
        scale: T,
        into: &mut [T],
        workspace: &mut Workspace<T>,
    )
}

#[inline(always)]
fn accumulate_any<T: Scalar, V: Vector<T>>(
    conv: &Conv,
    outputs: usize,
    pairs: &[(&[T], &[T])],
    scale: T,
    into: &mut [T],
    workspace: &mut Workspace<T>,
) {
    by_transform!(outputs, accumulate_body(conv, pairs, scale, into, workspace));
}

#[inline(always)]
fn accumulate_body<T: Scalar, V: Vector<T>, W: Transform>(
    conv: &Conv,
    pairs: &[(&[T], &[T])],
    scale: T,
    into: &mut [T],
    workspace: &mut Workspace<T>,
) {
    let Conv { inputs, outputs, size, .. } = *conv;
    let (ins, outs) = (lanes(inputs), lanes(outputs));
    let grid = Grid::new(size, W::OUTPUTS);
    let points = W::POINTS * W::POINTS;
    let most = pairs.iter().map(|(x, _)| x.len() / conv.in_len() * grid.count()).max().unwrap_or(0);
    let block = block(W::POINTS, ins, outs).min(most).max(1);
    let (in_stride, out_stride) = (spread(block * ins), spread(block * outs));
    let sum_stride = spread(inputs * outs);
    let [values, gradients, sums] = &mut workspace.buffers;
    let (values, gradients) = (room(values, points * in_stride), room(gradients, points * out_stride));
    let sums = room(sums, points * sum_stride);
    workspace.spots.clear();
    workspace.spots.extend((0..block).map(|i| Spot { from: i * ins, to: i * outs }));
    let mut fresh = true;
    for (x, dy) in pairs {
        let tiles = grid.count() * (x.len() / conv.in_len());
        for (start, count) in super::super::tiles(tiles, block) {
            for i in 0..count {
                transform_input::<T, V, W>(&grid, start + i, x, ins, values, in_stride, i * ins);
                transform_gradient::<T, V, W>(&grid, start + i, dy, outs, gradients, out_stride, i * outs);
            }
            let spots = &workspace.spots[..count];
            for point in 0..points {
                let (x, dy) = (&values[point * in_stride..], &gradients[point * out_stride..]);
                let sums = &mut sums[point * sum_stride..];
                outer(&Outer { x, dy, spots, depth: inputs, lanes: outs, fresh }, sums);
            }
            fresh = false;
        }
    }
    if fresh {
        return;
    }
    let scale = V::splat(scale);
    for i in 0..inputs {
        for j in (0..outs).step_by(LANES) {
            let mut half = [[scale; POINTS]; 3];
            for column in 0..W::POINTS {
                let mut values = [scale; POINTS];
                for row in 0..W::POINTS {
                    values[row] = load(sums, (row * W::POINTS + column) * sum_stride + i * outs + j);
                }
                let values = W::weights(values);
                for row in 0..3 {
                    half[row][column] = values[row];
                }
            }
            for ky in 0..3 {
                let row = W::weights(half[ky]);
                for kx in 0..3 {
                    let at = ((ky * 3 + kx) * inputs + i) * outputs + j;
                    let sum = scale.madd(row[kx], load_some(into, at, outputs - j));
                    if outputs - j >= LANES {
                        store(sum, into, at);
                    } else {
                        let mut eight = [T::zero(); LANES];
                        sum.store(&mut eight);
                        into[at..][..outputs - j].copy_from_slice(&eight[..outputs - j]);
                    }
                }
            }
        }
    }
}
