//! Convolutions of images whose channels come last.
//!
//! Activations are `[batch, height, width, lanes]`: the channels, padded with zeros to a multiple of eight.
//! Every kernel writes zeros into the padding, so that whoever reads whole lanes gets what he expects.
//! Weights are as in theta, `[kernel, kernel, inputs, outputs]` without padding.

mod direct;
mod norm;
mod panels;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
pub(crate) mod vector;
mod winograd;

use crate::Scalar;
pub use norm::Gate;
use winograd::{ImageView, Weights};

/// `channels` with the padding of an activation.
pub const fn lanes(channels: usize) -> usize {
    channels.next_multiple_of(LANES)
}

/// Channels that are handled at once.
const LANES: usize = 8;

/// A square convolution with `kernel / 2` rows of zeros around the image: its shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conv {
    /// Height and width of the kernel: 1 or 3.
    pub kernel: usize,
    /// Distance of two outputs in the input: 1 or 2.
    pub stride: usize,
    /// Channels of the input.
    pub inputs: usize,
    /// Channels of the output.
    pub outputs: usize,
    /// Height and width of the input.
    pub size: [usize; 2],
}

impl Conv {
    /// Height and width of the output.
    pub fn out_size(&self) -> [usize; 2] {
        self.size.map(|side| side.div_ceil(self.stride))
    }

    /// Number of weights.
    pub fn weights(&self) -> usize {
        self.kernel * self.kernel * self.inputs * self.outputs
    }

    /// Values of one image that enters, padding included.
    pub fn in_len(&self) -> usize {
        self.size[0] * self.size[1] * lanes(self.inputs)
    }

    /// Values of one image that leaves, padding included.
    pub fn out_len(&self) -> usize {
        let [height, width] = self.out_size();
        height * width * lanes(self.outputs)
    }

    /// Images in `x` and `y`.
    fn batch<T>(&self, x: &[T], y: &[T]) -> usize {
        let batch = x.len() / self.in_len();
        assert_eq!(
            (x.len(), y.len()),
            (batch * self.in_len(), batch * self.out_len()),
            "images of another shape"
        );
        batch
    }
}

/// What becomes of the sums of a convolution.
#[derive(Debug, Clone, Copy, Default)]
pub struct Finish<'a, T> {
    /// Added to every pixel, `[outputs]`; nothing where absent.
    pub bias: Option<&'a [T]>,
    /// Added to what the result holds already, instead of replacing it.
    pub add: bool,
    /// ReLU at last.
    pub relu: bool,
}

/// Buffers that the kernels work in. Reused from step to step, they stop growing after the first.
#[derive(Debug, Clone, Default)]
pub struct Workspace<T> {
    /// Copies or transforms of what is read, and results.
    buffers: [Vec<T>; 2],
    /// Transformed weights of a vector of lanes.
    strip: Vec<T>,
    /// The bias with its padding.
    bias: Vec<T>,
    /// Where the pixels of a group of images are read and written.
    spots: Vec<Spot>,
}

/// Where a pixel is read and where its result goes.
#[derive(Debug, Clone, Copy)]
struct Spot {
    from: usize,
    to: usize,
}

/// One of the groups of images that a gradient in the weights is summed over.
#[derive(Debug)]
pub struct Part<'a, T> {
    /// The first of all: no sums were taken before.
    pub first: bool,
    /// The last of all: adds `scale` times the gradient to the weights.
    pub last: Option<(T, &'a mut [T])>,
}

/// Where the gradient in the inputs goes, and what it is made with: see [`backward`].
#[derive(Debug)]
pub struct Back<'a, T> {
    pub packed: &'a Packed<T>,
    pub add: bool,
    pub dx: &'a mut [T],
}

/// Weights made ready for [`forward`] or [`backward`].
#[derive(Debug, Clone, Default)]
pub struct Packed<T> {
    weights: Vec<T>,
    /// Not transformed yet: that is done strip by strip.
    raw: bool,
}

impl<T> Packed<T> {
    /// The weights for [`backward`] by Winograd's transforms.
    fn backward<'a>(&'a self, conv: &'a Conv) -> Weights<'a, T> {
        if self.raw { Weights::Backward(conv, &self.weights) } else { Weights::Packed(&self.weights) }
    }
}

/// Functions that are compiled here, once for each number type, and not once more in every crate that uses
/// them.
macro_rules! compiled {
    ($($(#[$doc:meta])* $vis:vis $name:ident = $body:path, ($($arg:ident: $ty:ty),* $(,)?);)*) => {
        /// The kernels of convolutional networks for numbers `T`; see the functions of these names.
        pub trait Compiled<T> {
            $(#[doc(hidden)] fn $name($($arg: $ty),*);)*
        }
        mod single {
            use super::*;
            type T = f32;
            impl Compiled<T> for T {
                $(fn $name($($arg: $ty),*) { $body($($arg),*) })*
            }
        }
        mod double {
            use super::*;
            type T = f64;
            impl Compiled<T> for T {
                $(fn $name($($arg: $ty),*) { $body($($arg),*) })*
            }
        }
        $(
            $(#[$doc])*
            $vis fn $name<T: Scalar>($($arg: $ty),*) {
                <T as Compiled<T>>::$name($($arg),*)
            }
        )*
    };
}

compiled! {
    /// Makes weights ready for [`forward`]; `scale: [outputs]` multiplies all weights of an output channel.
    pub pack_forward = pack_forward_any, (conv: &Conv, weights: &[T], scale: Option<&[T]>, packed: &mut Packed<T>);

    /// Makes weights ready for [`forward`] of so many images, once.
    pub pack_forward_once = pack_forward_once_any, (conv: &Conv, weights: &[T], images: usize, packed: &mut Packed<T>);

    /// Makes weights ready for [`backward`].
    pub pack_backward = pack_backward_any, (conv: &Conv, weights: &[T], packed: &mut Packed<T>);

    /// Makes weights ready for [`backward`] of so many images, once.
    pub pack_backward_once = pack_backward_once_any, (conv: &Conv, weights: &[T], images: usize, packed: &mut Packed<T>);

    /// `y = x * w`, with `finish`.
    pub forward = forward_any, (
        conv: &Conv,
        x: &[T],
        packed: &Packed<T>,
        finish: Finish<'_, T>,
        y: &mut [T],
        workspace: &mut Workspace<T>,
    );

    /// `dx = gradient in x`, or `dx += ` if `add`, given the gradient `dy` in `y`.
    pub backward = backward_any, (
        conv: &Conv,
        dy: &[T],
        packed: &Packed<T>,
        add: bool,
        dx: &mut [T],
        workspace: &mut Workspace<T>,
    );

    /// Takes a group of images, a pair of `x` and the gradient in `y`, into the `sums` of the gradient in the
    /// weights, which keep from part to part what they have to.
    pub accumulate = accumulate_any, (
        conv: &Conv,
        pair: (&[T], &[T]),
        part: Part<'_, T>,
        sums: &mut Vec<T>,
        workspace: &mut Workspace<T>,
    );

    /// [`accumulate`] and [`backward`] of the same images.
    pub gradients = gradients_any, (
        conv: &Conv,
        pair: (&[T], &[T]),
        part: Part<'_, T>,
        sums: &mut Vec<T>,
        back: Back<'_, T>,
        workspace: &mut Workspace<T>,
    );

    /// Takes the rows of `x` into `mean` and `squares`, the mean and the sum of squared distances from it of
    /// the `before` rows until now, per lane.
    pub moments = norm::moments, (x: &[T], before: usize, mean: &mut [T], squares: &mut [T]);

    /// `d = d + beside` where the ReLU let its input through, else 0; `sum += sum over rows of d` and
    /// `product += sum over rows of d (z - mean)`, per lane.
    pub gate = norm::gate, (gate: Gate<'_, T>, d: &mut [T], sum: &mut [T], product: &mut [T]);
}

fn pack_forward_any<T: Scalar>(conv: &Conv, weights: &[T], scale: Option<&[T]>, packed: &mut Packed<T>) {
    assert_eq!(weights.len(), conv.weights(), "weights of another convolution");
    packed.raw = false;
    match tile(conv) {
        Some(tile) => {
            let all = 0..conv.outputs.next_multiple_of(vector::width::<T>(lanes(conv.outputs)));
            winograd::pack_forward(conv, tile, weights, scale, all, &mut packed.weights);
        }
        None => direct::pack_forward(conv, weights, scale, &mut packed.weights),
    }
}

fn pack_forward_once_any<T: Scalar>(conv: &Conv, weights: &[T], images: usize, packed: &mut Packed<T>) {
    if !pack_raw(conv, weights, images, packed) {
        pack_forward_any(conv, weights, None, packed);
    }
}

fn pack_backward_once_any<T: Scalar>(conv: &Conv, weights: &[T], images: usize, packed: &mut Packed<T>) {
    if !pack_raw(conv, weights, images, packed) {
        pack_backward_any(conv, weights, packed);
    }
}

/// Transformed weights above this number leave the cache before they are used.
const MANY: usize = 128 << 10;

/// Leaves the transform of weights to [`winograd::convolve`], if that goes over them once, and they are many.
fn pack_raw<T: Scalar>(conv: &Conv, weights: &[T], images: usize, packed: &mut Packed<T>) -> bool {
    assert_eq!(weights.len(), conv.weights(), "weights of another convolution");
    packed.raw = tile(conv).is_some_and(|tile| {
        let transformed = (tile + 2) * (tile + 2) * conv.inputs * conv.outputs;
        transformed > MANY && winograd::is_one_block(conv, tile, images)
    });
    if packed.raw {
        packed.weights.clear();
        packed.weights.extend_from_slice(weights);
    }
    packed.raw
}

fn pack_backward_any<T: Scalar>(conv: &Conv, weights: &[T], packed: &mut Packed<T>) {
    assert_eq!(weights.len(), conv.weights(), "weights of another convolution");
    packed.raw = false;
    match tile(conv) {
        Some(tile) => {
            let all = 0..conv.inputs.next_multiple_of(vector::width::<T>(lanes(conv.inputs)));
            winograd::pack_backward(conv, tile, weights, all, &mut packed.weights);
        }
        None => direct::pack_backward(conv, weights, &mut packed.weights),
    }
}

fn forward_any<T: Scalar>(
    conv: &Conv,
    x: &[T],
    packed: &Packed<T>,
    finish: Finish<'_, T>,
    y: &mut [T],
    workspace: &mut Workspace<T>,
) {
    conv.batch(x, y);
    workspace.bias.clear();
    workspace.bias.extend_from_slice(finish.bias.unwrap_or_default());
    workspace.bias.resize(lanes(conv.outputs), T::zero());
    let Finish { add, relu, .. } = finish;
    match tile(conv) {
        Some(tile) => {
            let Conv { inputs, outputs, size, .. } = *conv;
            let weights = if packed.raw {
                Weights::Forward(conv, &packed.weights)
            } else {
                Weights::Packed(&packed.weights)
            };
            let images = ImageView { size, inputs, outputs, x, weights, add, relu };
            winograd::convolve(images, tile, y, workspace);
        }
        None => direct::forward(conv, x, &packed.weights, add, relu, y, workspace),
    }
}

fn backward_any<T: Scalar>(
    conv: &Conv,
    dy: &[T],
    packed: &Packed<T>,
    add: bool,
    dx: &mut [T],
    workspace: &mut Workspace<T>,
) {
    conv.batch(dx, dy);
    workspace.bias.clear();
    workspace.bias.resize(lanes(conv.inputs), T::zero());
    match tile(conv) {
        Some(tile) => {
            let Conv { inputs: outputs, outputs: inputs, size, .. } = *conv;
            let weights = packed.backward(conv);
            let images = ImageView { size, inputs, outputs, x: dy, weights, add, relu: false };
            winograd::convolve(images, tile, dx, workspace);
        }
        None => direct::backward(conv, dy, &packed.weights, add, dx, workspace),
    }
}

fn accumulate_any<T: Scalar>(
    conv: &Conv,
    pair: (&[T], &[T]),
    part: Part<'_, T>,
    sums: &mut Vec<T>,
    workspace: &mut Workspace<T>,
) {
    if let Some((_, into)) = &part.last {
        assert_eq!(into.len(), conv.weights(), "weights of another convolution");
    }
    conv.batch(pair.0, pair.1);
    match tile(conv) {
        Some(tile) => winograd::gradients(conv, tile, pair, part, sums, None, workspace),
        None => direct::accumulate(conv, pair, part, sums, workspace),
    }
}

fn gradients_any<T: Scalar>(
    conv: &Conv,
    pair: (&[T], &[T]),
    part: Part<'_, T>,
    sums: &mut Vec<T>,
    Back { packed, add, dx }: Back<'_, T>,
    workspace: &mut Workspace<T>,
) {
    match tile(conv) {
        Some(tile) => {
            if let Some((_, into)) = &part.last {
                assert_eq!(into.len(), conv.weights(), "weights of another convolution");
            }
            assert_eq!(conv.batch(pair.0, pair.1), conv.batch(dx, pair.1), "images of another batch");
            workspace.bias.clear();
            workspace.bias.resize(lanes(conv.inputs), T::zero());
            let back = winograd::Back { weights: packed.backward(conv), add, dx };
            winograd::gradients(conv, tile, pair, part, sums, Some(back), workspace);
        }
        None => {
            accumulate_any(conv, pair, part, sums, workspace);
            backward_any(conv, pair.1, packed, add, dx, workspace);
        }
    }
}

/// Outputs of a tile per direction if the convolution goes by Winograd's transforms: the way that multiplies
/// least, counted per image and pair of channels, as far as tiles fit the image. A function of the shape
/// alone, so that an image is the same in any batch.
fn tile(conv: &Conv) -> Option<usize> {
    if conv.kernel != 3 || conv.stride != 1 {
        return None;
    }
    let products =
        |tile: usize| conv.size.map(|side| side.div_ceil(tile) * (tile + 2)).iter().product::<usize>();
    let direct = 9 * conv.size[0] * conv.size[1];
    [4, 3].into_iter().min_by_key(|&tile| products(tile)).filter(|&tile| products(tile) < direct)
}

/// The first `len` entries of `buffer`, which grows if it has to; what they hold is arbitrary.
fn room<T: Scalar>(buffer: &mut Vec<T>, len: usize) -> &mut [T] {
    if buffer.capacity() < len {
        // From the system, which need not write the zeros.
        *buffer = vec![T::zero(); len];
    } else if buffer.len() < len {
        buffer.resize(len, T::zero());
    }
    &mut buffer[..len]
}
