//! The residual network of the paper: a reduced ResNet-18. phi(x) is the vector of pooled maps.
//!
//! A stem, four stages of two basic blocks, global average pooling and one linear layer. theta holds each
//! convolution `[kernel, kernel, inputs, outputs]` with its batch-norm's gamma and beta right behind it, then
//! the linear layer, and behind everything that is trained the running mean and variance of each batch-norm.
//! So a copy of theta is a copy of the whole network, and nothing is ever remembered elsewhere.
//!
//! Inside, activations are channels-last with padded lanes (see [`conv`]). Each convolution leaves two
//! entries on the tape: its result `z`, and the `output` of what follows it (batch-norm, the sum with the
//! shortcut, ReLU). Deltas and tangents are found under the same numbers.
//!
//! A step is bound by the memory that it reads and writes, so three things are not kept: the output within a
//! block, which is made again from `z` where it is needed, the deltas of `z`, and the gradient's factors: the
//! way back adds up the gradient in the weights while a group of images is in the cache. A Hessian product
//! makes what it needs of them first.

mod infer;
mod step;
mod tangent;

use std::{cell::Cell, sync::Arc};

use crate::{
    Inputs, Layer, Net, Rng, Scalar, Tape,
    kernels::{
        column_sums,
        conv::{Conv, Packed, Workspace, lanes},
    },
    layers::{
        batch_norm::{BatchNorm, Pass},
        linear::Linear,
    },
    net::ShapeError,
    tape::NetScratch,
};

/// The shape of a residual network. The weights belong to the caller.
///
/// ```
/// use hindsight_nn::{Net, ResNet, Rng, Tape};
///
/// let net = ResNet::reduced18([3, 32, 32], 100).unwrap();
/// let theta: Vec<f32> = net.init(&mut Rng::named(1, "init"));
/// let mut tape = Tape::new();
/// net.forward(&theta, &vec![0.5; 2 * 3 * 32 * 32], &mut tape);
/// assert_eq!((tape.logits().len(), tape.features().len()), (2 * 100, 2 * 160));
/// // Behind the trained part of theta come the running statistics.
/// assert!(Net::<f32>::trainable(&net) < theta.len());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResNet {
    /// Channels, height and width of an input.
    shape: [usize; 3],
    units: Vec<Unit>,
    blocks: Vec<Block>,
    head: Linear,
    /// Where the running statistics begin in theta, and where they end.
    state: usize,
    end: usize,
}

/// A convolution and the batch-norm behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Unit {
    conv: Conv,
    start: usize,
    norm: BatchNorm,
}

impl Unit {
    fn weights<'t, T>(&self, theta: &'t [T]) -> &'t [T] {
        &theta[self.start..][..self.conv.weights()]
    }
}

/// A basic block: which units it is made of. Without a unit of its own, the shortcut is the block's input.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Block {
    first: usize,
    second: usize,
    shortcut: Option<usize>,
    /// The entry on the tape that enters the block.
    input: usize,
}

/// Entry on the tape of a unit's convolution.
const fn z(unit: usize) -> usize {
    1 + 2 * unit
}

/// Entry on the tape of what a unit gives on.
const fn output(unit: usize) -> usize {
    2 + 2 * unit
}

/// Values of the images of a group: the way back has seven such arrays in the L2 cache, and what a
/// convolution works in.
const GROUP: usize = 32 << 10;

/// Images, of `len` values each, that go through a layer together: as many as stay in the L2 cache, but
/// enough that they outweigh the layer's weights, which each group reads again.
fn group(len: usize, weights: usize) -> usize {
    GROUP.max(weights).div_ceil(len.max(1))
}

/// Blocks in a stage.
const BLOCKS: usize = 2;

/// What [`ResNet`] passes keep on a [`Tape`] beside values and deltas.
#[derive(Debug, Clone, Default)]
struct ResNetScratch<T> {
    passes: Vec<Pass<T>>,
    /// Gradient in the trained part of theta.
    gradient: Vec<T>,
    /// Deltas that were used. A few arrays that stay in the cache serve all layers, unless a Hessian product
    /// was asked for before: it needs all deltas, and so will the next.
    used: Vec<Vec<T>>,
    keep_deltas: bool,
}

thread_local! {
    /// What passes work in: [`Work`]. One serves all tapes of a thread, since its passes come one after the
    /// other.
    static WORK: Cell<NetScratch> = Cell::default();
}

/// What a pass works in, and leaves behind it without a meaning.
#[derive(Debug, Clone, Default)]
struct Work<T> {
    packed: [Packed<T>; 2],
    workspace: Workspace<T>,
    image: Vec<T>,
    /// Of the group of images under way: an output, and the delta of `z` of each reader with the sums of the
    /// gradient in its weights.
    group: Vec<T>,
    dz: [Vec<T>; 2],
    sums: [Vec<T>; 2],
}

impl ResNet {
    /// The network in `f32`, behind its interface, compiled in this crate.
    pub fn into_net(self) -> Arc<dyn Net> {
        Arc::new(self)
    }

    /// The network for images of `shape` (channels, height, width), with the given maps per stage; every
    /// stage but the first halves height and width, and the stem does if `stem_stride` is 2.
    pub fn new(
        shape: [usize; 3],
        maps: &[usize],
        stem_stride: usize,
        classes: usize,
    ) -> Result<ResNet, ShapeError> {
        let widths = [&shape, maps, &[classes, stem_stride]].concat();
        if maps.is_empty() || widths.contains(&0) || stem_stride > 2 {
            return Err(ShapeError::new(&widths));
        }
        let mut net = ResNet {
            shape,
            units: Vec::new(),
            blocks: Vec::new(),
            head: Linear::new(0, 0, 0),
            state: 0,
            end: 0,
        };
        let (mut size, mut channels) = ([shape[1], shape[2]], shape[0]);
        let stem =
            net.push(Conv { kernel: 3, stride: stem_stride, inputs: channels, outputs: maps[0], size });
        let mut input = output(stem);
        (size, channels) = (net.units[stem].conv.out_size(), maps[0]);
        for (stage, &outputs) in maps.iter().enumerate() {
            for block in 0..BLOCKS {
                let stride = if stage > 0 && block == 0 { 2 } else { 1 };
                let first = net.push(Conv { kernel: 3, stride, inputs: channels, outputs, size });
                let halved = net.units[first].conv.out_size();
                let second = net.push(Conv { kernel: 3, stride: 1, inputs: outputs, outputs, size: halved });
                let shortcut = (stride > 1 || channels != outputs)
                    .then(|| net.push(Conv { kernel: 1, stride, inputs: channels, outputs, size }));
                net.blocks.push(Block { first, second, shortcut, input });
                (size, channels, input) = (halved, outputs, output(second));
            }
        }
        let start =
            net.units.last().map_or(0, |unit| unit.start + unit.conv.weights() + unit.norm.parameters());
        net.head = Linear::new(channels, classes, start);
        net.state = net.head.end();
        net.end = net.state;
        for unit in &mut net.units {
            unit.norm.state = net.end;
            net.end += 2 * unit.norm.channels;
        }
        Ok(net)
    }

    /// The paper's: 20, 40, 80 and 160 maps. Images above 64 pixels enter through a stem of stride 2.
    pub fn reduced18(shape: [usize; 3], classes: usize) -> Result<ResNet, ShapeError> {
        let stem_stride = if shape[1].max(shape[2]) > 64 { 2 } else { 1 };
        ResNet::new(shape, &[20, 40, 80, 160], stem_stride, classes)
    }

    fn push(&mut self, conv: Conv) -> usize {
        let start =
            self.units.last().map_or(0, |unit| unit.start + unit.conv.weights() + unit.norm.parameters());
        let norm = BatchNorm { channels: conv.outputs, start: start + conv.weights(), state: 0 };
        self.units.push(Unit { conv, start, norm });
        self.units.len() - 1
    }

    /// Entry on the tape of the features; the logits come next.
    fn pooled(&self) -> usize {
        1 + 2 * self.units.len()
    }

    /// The last block's unit that gives on what is pooled.
    fn last(&self) -> usize {
        self.blocks[self.blocks.len() - 1].second
    }

    /// Pixels that are pooled into one.
    fn pixels(&self) -> usize {
        self.units[self.last()].conv.out_size().iter().product()
    }

    /// The unit and the entry that enters it, for all units.
    fn wires(&self) -> impl Iterator<Item = (usize, usize)> {
        let blocks = self.blocks.iter().flat_map(|block| {
            [Some((block.first, block.input)), Some((block.second, output(block.first)))]
                .into_iter()
                .chain([block.shortcut.map(|shortcut| (shortcut, block.input))])
                .flatten()
        });
        std::iter::once((0, 0)).chain(blocks)
    }

    /// Images from planes to channels-last with padded lanes.
    fn load<T: Scalar>(&self, x: &[T], into: &mut Vec<T>) {
        let [channels, height, width] = self.shape;
        let (pixels, lanes) = (height * width, lanes(channels));
        into.clear();
        into.resize(x.len() / channels * lanes, T::zero());
        for (image, into) in x.chunks_exact(channels * pixels).zip(into.chunks_exact_mut(pixels * lanes)) {
            for (c, plane) in image.chunks_exact(pixels).enumerate() {
                into.iter_mut().skip(c).step_by(lanes).zip(plane).for_each(|(to, &from)| *to = from);
            }
        }
    }

    /// The way back.
    fn unload<T: Scalar>(&self, from: &[T], x: &mut [T]) {
        let [channels, height, width] = self.shape;
        let (pixels, lanes) = (height * width, lanes(channels));
        for (image, from) in x.chunks_exact_mut(channels * pixels).zip(from.chunks_exact(pixels * lanes)) {
            for (c, plane) in image.chunks_exact_mut(pixels).enumerate() {
                plane.iter_mut().zip(from.iter().skip(c).step_by(lanes)).for_each(|(to, &from)| *to = from);
            }
        }
    }

    /// Mean over the pixels of each image.
    fn pool<T: Scalar>(&self, maps: &[T], features: &mut Vec<T>) {
        let (lanes, pixels) = (lanes(self.head.inputs), self.pixels());
        let share = T::one() / T::of(pixels as f64);
        features.clear();
        for image in maps.chunks_exact(lanes * pixels) {
            let start = features.len();
            features.resize(start + lanes, T::zero());
            column_sums(image, &mut features[start..]);
            features[start..].iter_mut().for_each(|sum| *sum *= share);
            features.truncate(start + self.head.inputs);
        }
    }

    /// The transposed of [`ResNet::pool`].
    fn unpool<T: Scalar>(&self, features: &[T], maps: &mut [T]) {
        let (lanes, pixels) = (lanes(self.head.inputs), self.pixels());
        let share = T::one() / T::of(pixels as f64);
        for (features, image) in
            features.chunks_exact(self.head.inputs).zip(maps.chunks_exact_mut(pixels * lanes))
        {
            let (first, rest) = image.split_at_mut(lanes);
            first.iter_mut().zip(features).for_each(|(to, &d)| *to = d * share);
            first[features.len()..].fill(T::zero());
            rest.chunks_exact_mut(lanes).for_each(|pixel| pixel.copy_from_slice(first));
        }
    }
}

/// `to += from`.
fn add<T: Scalar>(from: &[T], to: &mut [T]) {
    crate::kernels::axpy(T::one(), from, to);
}

impl<T: Scalar> Net<T> for ResNet {
    fn inputs(&self) -> usize {
        self.shape.iter().product()
    }

    fn features(&self) -> usize {
        self.head.inputs
    }

    fn classes(&self) -> usize {
        self.head.outputs
    }

    fn parameters(&self) -> usize {
        self.end
    }

    fn trainable(&self) -> usize {
        self.state
    }

    /// Weights uniform within one over the root of kernel times inputs, as in the authors' program (a kernel
    /// of 3x3 counts as 3), gamma 1, beta 0; running means 0 and variances 1. Under batch-norm the scale of
    /// the weights matters: rates act on them by the inverse of its square.
    fn init(&self, rng: &mut Rng) -> Vec<T> {
        let mut theta = Vec::with_capacity(self.end);
        let mut uniform = |count: usize, entering: usize, theta: &mut Vec<T>| {
            let bound = 1.0 / (entering as f64).sqrt();
            theta.extend((0..count).map(|_| T::of(bound * (2.0 * rng.uniform() - 1.0))));
        };
        for Unit { conv, .. } in &self.units {
            uniform(conv.weights(), conv.kernel * conv.inputs, &mut theta);
            theta.extend(std::iter::repeat_n(T::one(), conv.outputs));
            theta.extend(std::iter::repeat_n(T::zero(), conv.outputs));
        }
        uniform((self.head.inputs + 1) * self.head.outputs, self.head.inputs, &mut theta);
        for Unit { conv, .. } in &self.units {
            theta.extend(std::iter::repeat_n(T::zero(), conv.outputs));
            theta.extend(std::iter::repeat_n(T::one(), conv.outputs));
        }
        theta
    }

    fn init_class(&self, rng: &mut Rng) -> Vec<T> {
        let bound = 1.0 / (self.head.inputs as f64).sqrt();
        (0..=self.head.inputs).map(|_| T::of(bound * (2.0 * rng.uniform() - 1.0))).collect()
    }

    fn forward(&self, theta: &[T], x: &[T], tape: &mut Tape<T>) {
        self.forward_all(theta, x, tape);
    }

    fn blend_running_stats(&self, tape: &Tape<T>, share: T, theta: &mut [T]) {
        let Some(scratch) = tape.scratch.get::<ResNetScratch<T>>() else { return };
        for (unit, pass) in self.units.iter().zip(&scratch.passes) {
            unit.norm.blend_running_stats(pass, share, theta);
        }
    }

    fn backward(&self, theta: &[T], tape: &mut Tape<T>) {
        self.backward_all(theta, true, tape);
    }

    fn accumulate(&self, tape: &mut Tape<T>, scale: T, into: &mut [T]) {
        let gradient = &tape.scratch.get_or_default::<ResNetScratch<T>>().gradient;
        assert_eq!(gradient.len(), self.state, "the last pass went to the input only");
        crate::kernels::axpy(scale, gradient, &mut into[..self.state]);
    }

    fn input_gradient(&self, theta: &[T], tape: &mut Tape<T>, out: &mut [T]) {
        self.z_delta(0, output(0), tape);
        let mut thread = WORK.take();
        let work = thread.get_or_default::<Work<T>>();
        let mut image = std::mem::take(&mut work.image);
        self.conv_backward(theta, 0, &tape.deltas[z(0)], false, &mut image, work);
        self.unload(&image, out);
        work.image = image;
        WORK.set(thread);
    }

    fn backward_to_input(&self, theta: &[T], tape: &mut Tape<T>, out: &mut [T]) {
        tape.scratch.get_or_default::<ResNetScratch<T>>().gradient.clear();
        self.backward_all(theta, false, tape);
        self.input_gradient(theta, tape, out);
    }

    fn tangent_forward(&self, theta: &[T], v: &[T], tape: &mut Tape<T>) {
        self.tangent_forward_all(theta, v, tape);
    }

    fn tangent_backward(&self, theta: &[T], v: &[T], tape: &mut Tape<T>) {
        self.tangent_backward_all(theta, v, tape);
    }

    fn accumulate_tangent(&self, tape: &mut Tape<T>, scale: T, into: &mut [T]) {
        self.accumulate_tangent_all(tape, scale, into);
    }

    fn infer_blocks(&self, theta: &[T], inputs: &Inputs<'_, T>, layer: Layer, visit: &mut dyn FnMut(&[T])) {
        self.infer_all(theta, inputs, layer, visit);
    }
}
