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

use std::{ops::Range, sync::Arc};

use crate::{
    Inputs, Layer, Net, Rng, Scalar, Tape,
    kernels::{
        column_sums,
        conv::{self, Conv, Finish, Packed, Part, Workspace, lanes},
        relu_backward,
    },
    layers::{
        batch_norm::{BatchNorm, Pass},
        linear::{Linear, LinearInput},
    },
    net::ShapeError,
    tape::resize,
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
    packed: [Packed<T>; 2],
    workspace: Workspace<T>,
    image: Vec<T>,
    /// Of the group of images under way: an output, and the delta of `z` of each reader with the sums of the
    /// gradient in its weights.
    group: Vec<T>,
    dz: [Vec<T>; 2],
    sums: [Vec<T>; 2],
    /// Gradient in the trained part of theta.
    gradient: Vec<T>,
    /// Deltas that were used. A few arrays that stay in the cache serve all layers, unless a Hessian product
    /// was asked for before: it needs all deltas, and so will the next.
    used: Vec<Vec<T>>,
    keep_deltas: bool,
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

    /// The blocks by the images that an evaluation takes through them at a time; each level takes a multiple
    /// of the one before.
    fn levels(&self) -> Vec<Level> {
        let mut levels: Vec<Level> = Vec::new();
        for (i, block) in self.blocks.iter().enumerate() {
            let conv = &self.units[block.second].conv;
            // An evaluation has half as many arrays in the cache as the way back.
            let images = group(conv.out_len(), conv.weights().max(2 * GROUP));
            match levels.last_mut() {
                Some(last) if images < 2 * last.images => last.blocks.end = i + 1,
                Some(last) => {
                    let images = images / last.images * last.images;
                    levels.push(Level { blocks: i..i + 1, images });
                }
                None => levels.push(Level { blocks: i..i + 1, images }),
            }
        }
        levels
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

    /// An array for the `len` deltas of an entry, where it is to be.
    fn delta_array<T: Scalar>(deltas: &mut Vec<T>, used: &mut Vec<Vec<T>>, keep: bool, len: usize) -> Vec<T> {
        let mut array = if keep { std::mem::take(deltas) } else { used.pop().unwrap_or_default() };
        if keep || array.len() < len {
            array.resize(len, T::zero());
        }
        array
    }

    /// Whether the tape keeps an entry: all outputs but those within a block.
    fn is_kept(&self, entry: usize) -> bool {
        self.blocks.iter().all(|block| output(block.first) != entry)
    }

    /// Completes an entry of the tape and takes it through the convolutions of its `readers`, a group of
    /// images at a time, which stays in the cache. It is complete if no unit is named to complete it, by
    /// batch-norm, the sum with another entry, and ReLU.
    fn advance<T: Scalar>(
        &self,
        theta: &[T],
        entry: usize,
        by: Option<(usize, Option<usize>)>,
        readers: [Option<usize>; 2],
        tape: &mut Tape<T>,
    ) {
        let Tape { values, scratch, batch_norm, batch, .. } = tape;
        let ResNetScratch { passes, packed, workspace, group: buffer, .. } =
            scratch.get_or_default::<ResNetScratch<T>>();
        let len = by.map_or_else(|| self.units[0].conv.in_len(), |(unit, _)| self.units[unit].conv.out_len());
        let mut results = readers.map(|reader| reader.map(|unit| std::mem::take(&mut values[z(unit)])));
        let mut group = group(len, 0);
        for (reader, result) in readers.iter().zip(&mut results) {
            let (Some(unit), Some(result)) = (*reader, result) else { continue };
            let Unit { conv, norm, .. } = &self.units[unit];
            result.resize(*batch * conv.out_len(), T::zero());
            norm.begin(theta, *batch_norm, &mut passes[unit]);
            group = group.max(self::group(len, conv.weights()));
        }
        for (&unit, packed) in readers.iter().flatten().zip(&mut *packed) {
            let unit = &self.units[unit];
            match group < *batch {
                true => conv::pack_forward(&unit.conv, unit.weights(theta), None, packed),
                false => conv::pack_forward_once(&unit.conv, unit.weights(theta), *batch, packed),
            }
        }
        let keep = self.is_kept(entry);
        let mut x = std::mem::take(if keep { &mut values[entry] } else { buffer });
        x.resize(if keep { *batch } else { group.min(*batch) } * len, T::zero());
        for start in (0..*batch).step_by(group) {
            let images = |len: usize| start * len..(start + group).min(*batch) * len;
            let x = if keep { &mut x[images(len)] } else { &mut x[..images(len).len()] };
            if let Some((unit, beside)) = by {
                let beside = beside.map(|entry| &values[entry][images(len)]);
                self.units[unit].norm.apply(&values[z(unit)][images(len)], (beside, true), &passes[unit], x);
            }
            for ((reader, packed), result) in readers.iter().zip(&*packed).zip(&mut results) {
                let (Some(unit), Some(result)) = (*reader, result) else { continue };
                let Unit { conv, norm, .. } = &self.units[unit];
                let result = &mut result[images(conv.out_len())];
                conv::forward(conv, x, packed, Finish::default(), result, workspace);
                norm.observe(result, &mut passes[unit]);
            }
        }
        *(if keep { &mut values[entry] } else { buffer }) = x;
        for (reader, result) in readers.into_iter().zip(results) {
            let (Some(unit), Some(result)) = (reader, result) else { continue };
            values[z(unit)] = result;
            self.units[unit].norm.complete(theta, &mut passes[unit]);
        }
    }

    /// The units whose batch-norms lead to an entry of the tape: the one that it is the output of, and the
    /// shortcut beside it.
    fn leading_to(&self, entry: usize) -> (usize, Option<usize>) {
        let block = self.blocks.iter().find(|block| output(block.second) == entry);
        (entry / 2 - 1, block.and_then(|block| block.shortcut))
    }

    /// Takes the delta of an entry, whose values are `h`, back through its ReLU, with what is added `beside`
    /// it, into the sums of the batch-norms that lead to it; for the images from `start` on.
    fn gate<T: Scalar>(
        &self,
        (entry, h): (usize, &[T]),
        start: usize,
        (values, passes): (&[Vec<T>], &mut [Pass<T>]),
        beside: Option<&[T]>,
        delta: &mut [T],
    ) {
        let (unit, shortcut) = self.leading_to(entry);
        let len = self.units[unit].conv.out_len();
        let images = start * len..start * len + delta.len();
        let beside = beside.map(|beside| &beside[images.clone()]);
        self.units[unit].norm.gate(&values[z(unit)][images.clone()], (h, beside), &mut passes[unit], delta);
        if let Some(unit) = shortcut {
            self.units[unit].norm.observe_backward(&values[z(unit)][images], delta, &mut passes[unit]);
        }
    }

    /// Begins or completes the sums of [`ResNet::gate`].
    fn gate_sums<T: Scalar>(
        &self,
        entry: usize,
        passes: &mut [Pass<T>],
        what: impl Fn(&BatchNorm, &mut Pass<T>),
    ) {
        let (unit, shortcut) = self.leading_to(entry);
        for unit in [Some(unit), shortcut].into_iter().flatten() {
            what(&self.units[unit].norm, &mut passes[unit]);
        }
    }

    /// From the deltas of its `readers`' outputs (each with the entry that holds it) to that of an entry,
    /// with what is added `beside` it, and to the gradient in the readers' weights if `weights`; a group of
    /// images at a time. The delta of the network's input is left to [`Net::input_gradient`].
    fn retreat<T: Scalar>(
        &self,
        theta: &[T],
        entry: usize,
        readers: [Option<(usize, usize)>; 2],
        beside: Option<usize>,
        weights: bool,
        tape: &mut Tape<T>,
    ) {
        let Tape { values, deltas, scratch, batch, .. } = tape;
        let ResNetScratch {
            passes,
            packed,
            workspace,
            group: buffer,
            dz,
            sums,
            gradient,
            used,
            keep_deltas,
            ..
        } = scratch.get_or_default::<ResNetScratch<T>>();
        let inner = entry > 0;
        let readers = readers.map(|reader| reader.map(|(unit, from)| (unit, from, &self.units[unit])));
        let len = readers[0].map_or(0, |(_, _, unit)| unit.conv.in_len());
        let mut group = group(len, 0);
        for (.., Unit { conv, .. }) in readers.iter().flatten() {
            group = group.max(self::group(len, conv.weights()));
        }
        for ((.., unit), packed) in readers.iter().flatten().zip(&mut *packed).filter(|_| inner) {
            match group < *batch {
                true => conv::pack_backward(&unit.conv, unit.weights(theta), packed),
                false => conv::pack_backward_once(&unit.conv, unit.weights(theta), *batch, packed),
            }
        }
        let mut dx = Vec::new();
        if inner {
            dx = Self::delta_array(&mut deltas[entry], used, *keep_deltas, *batch * len);
            self.gate_sums(entry, passes, BatchNorm::begin_backward);
        }
        for start in (0..*batch).step_by(group) {
            let images = |len: usize| start * len..(start + group).min(*batch) * len;
            let x = if self.is_kept(entry) {
                &values[entry][images(len)]
            } else {
                let (unit, _) = self.leading_to(entry);
                buffer.resize(images(len).len(), T::zero());
                self.units[unit].norm.apply(
                    &values[z(unit)][images(len)],
                    (None, true),
                    &passes[unit],
                    buffer,
                );
                &*buffer
            };
            for (i, reader) in readers.iter().enumerate() {
                let Some((unit, from, Unit { conv, norm, start: first })) = *reader else { continue };
                let images = images(conv.out_len());
                let dz = &mut dz[i];
                dz.resize(images.len(), T::zero());
                norm.apply_backward(
                    &values[z(unit)][images.clone()],
                    &deltas[from][images],
                    &passes[unit],
                    dz,
                );
                if weights {
                    let into = &mut gradient[*first..][..conv.weights()];
                    let last = (start + group >= *batch).then_some((T::one(), into));
                    let part = Part { first: start == 0, last };
                    conv::accumulate(conv, (x, dz), part, &mut sums[i], workspace);
                }
                if inner {
                    conv::backward(conv, dz, &packed[i], i > 0, &mut dx[start * len..][..x.len()], workspace);
                }
            }
            if inner {
                let beside = beside.map(|entry| &deltas[entry][..]);
                self.gate((entry, x), start, (values, passes), beside, &mut dx[images(len)]);
            }
        }
        if inner {
            self.gate_sums(entry, passes, BatchNorm::complete_backward);
        }
        deltas[entry] = dx;
    }

    /// Back through all blocks, and to the gradient in theta if `weights`.
    fn backward_all<T: Scalar>(&self, theta: &[T], weights: bool, tape: &mut Tape<T>) {
        let pooled = self.pooled();
        let last = output(self.last());
        let Tape { values, deltas, scratch, feature_cotangent, .. } = tape;
        let ResNetScratch { passes, gradient, used, keep_deltas, .. } =
            scratch.get_or_default::<ResNetScratch<T>>();
        let (maps, ends) = deltas.split_at_mut(pooled);
        let [features, logits] = ends else { unreachable!("features and logits come last") };
        features.resize(values[pooled].len(), T::zero());
        self.head.backward(theta, logits, features);
        if !feature_cotangent.is_empty() {
            add(feature_cotangent, features);
        }
        if weights {
            gradient.clear();
            gradient.resize(self.state, T::zero());
            self.head.accumulate(&values[pooled], logits, T::one(), gradient);
        }
        if !*keep_deltas {
            used.push(std::mem::take(&mut maps[output(0)]));
        }
        let len = values[last].len();
        maps[last] = Self::delta_array(&mut maps[last], used, *keep_deltas, len);
        self.unpool(features, &mut maps[last][..len]);
        self.gate_sums(last, passes, BatchNorm::begin_backward);
        self.gate((last, &values[last]), 0, (values, passes), None, &mut maps[last][..len]);
        self.gate_sums(last, passes, BatchNorm::complete_backward);
        for &Block { first, second, shortcut, input } in self.blocks.iter().rev() {
            let readers = [Some((second, output(second))), None];
            self.retreat(theta, output(first), readers, None, weights, tape);
            let readers = [Some((first, output(first))), shortcut.map(|unit| (unit, output(second)))];
            let beside = shortcut.is_none().then_some(output(second));
            self.retreat(theta, input, readers, beside, weights, tape);
            let ResNetScratch { used, keep_deltas, .. } = tape.scratch.get_or_default::<ResNetScratch<T>>();
            if !*keep_deltas {
                used.extend([first, second].map(|unit| std::mem::take(&mut tape.deltas[output(unit)])));
            }
        }
        if weights {
            self.retreat(theta, 0, [Some((0, output(0))), None], None, weights, tape);
            let ResNetScratch { passes, gradient, .. } = tape.scratch.get_or_default::<ResNetScratch<T>>();
            for (unit, pass) in self.units.iter().zip(passes) {
                unit.norm.accumulate(pass, T::one(), gradient);
            }
        }
    }

    /// The delta of a unit's `z`, from that of its output.
    fn z_delta<T: Scalar>(&self, unit: usize, from: usize, tape: &mut Tape<T>) {
        let Tape { values, deltas, scratch, .. } = tape;
        let ResNetScratch { passes, .. } = scratch.get_or_default::<ResNetScratch<T>>();
        let mut dz = std::mem::take(&mut deltas[z(unit)]);
        let len = values[z(unit)].len();
        dz.resize(len, T::zero());
        self.units[unit].norm.apply_backward(&values[z(unit)], &deltas[from][..len], &passes[unit], &mut dz);
        deltas[z(unit)] = dz;
    }

    /// From the delta of a unit's convolution to that of its input, `dx`, which it is added to if `add`.
    fn conv_backward<T: Scalar>(
        &self,
        theta: &[T],
        unit: usize,
        dz: &[T],
        add: bool,
        dx: &mut Vec<T>,
        scratch: &mut ResNetScratch<T>,
    ) {
        let Unit { conv, .. } = &self.units[unit];
        dx.resize(dz.len() / conv.out_len() * conv.in_len(), T::zero());
        conv::pack_backward(conv, self.units[unit].weights(theta), &mut scratch.packed[0]);
        conv::backward(conv, dz, &scratch.packed[0], add, dx, &mut scratch.workspace);
    }

    /// The tangent of [`ResNet::unit`] up to batch-norm.
    fn unit_tangent<T: Scalar>(
        &self,
        theta: &[T],
        v: &[T],
        (unit, input): (usize, usize),
        tape: &mut Tape<T>,
    ) {
        let Unit { conv, norm, .. } = &self.units[unit];
        let Tape { values, value_tangents, scratch, .. } = tape;
        let len = values[z(unit)].len();
        let mut sums = std::mem::take(&mut value_tangents[z(unit)]);
        let mut out = std::mem::take(&mut value_tangents[output(unit)]);
        sums.resize(len, T::zero());
        out.resize(len, T::zero());
        let ResNetScratch { passes, packed: [packed, _], workspace, .. } =
            scratch.get_or_default::<ResNetScratch<T>>();
        conv::pack_forward(conv, self.units[unit].weights(v), None, packed);
        conv::forward(conv, &values[input], packed, Finish::default(), &mut sums, workspace);
        // The input itself does not depend on theta.
        if input > 0 {
            conv::pack_forward(conv, self.units[unit].weights(theta), None, packed);
            let add = Finish { add: true, ..Finish::default() };
            conv::forward(conv, &value_tangents[input], packed, add, &mut sums, workspace);
        }
        norm.tangent(v, &values[z(unit)], &sums, &mut passes[unit], &mut out);
        value_tangents[z(unit)] = sums;
        value_tangents[output(unit)] = out;
    }

    /// The tangent of [`ResNet::unit_backward`].
    fn unit_backward_tangent<T: Scalar>(&self, unit: usize, from: usize, tape: &mut Tape<T>) {
        self.z_delta(unit, from, tape);
        let Tape { values, value_tangents, deltas, delta_tangents, scratch, .. } = tape;
        let scratch = scratch.get_or_default::<ResNetScratch<T>>();
        let mut dz = std::mem::take(&mut delta_tangents[z(unit)]);
        dz.resize(values[z(unit)].len(), T::zero());
        self.units[unit].norm.backward_tangent(
            [&values[z(unit)], &value_tangents[z(unit)]],
            [&deltas[from], &delta_tangents[from]],
            &mut scratch.passes[unit],
            &mut dz,
        );
        delta_tangents[z(unit)] = dz;
    }
}

/// Blocks of the network that are evaluated for as many images at a time.
struct Level {
    blocks: Range<usize>,
    images: usize,
}

/// An evaluation under way.
struct Inference<'n, T> {
    net: &'n ResNet,
    /// Weights and bias of each unit, its batch-norm included.
    folded: Vec<(Packed<T>, Vec<T>)>,
    workspace: Workspace<T>,
    rows: Vec<T>,
    /// What each level works in.
    buffers: Vec<[Vec<T>; 3]>,
}

impl<T: Scalar> Inference<'_, T> {
    fn apply(&mut self, unit: usize, x: &[T], (add, relu): (bool, bool), y: &mut Vec<T>) {
        let conv = &self.net.units[unit].conv;
        let (packed, shift) = &self.folded[unit];
        y.resize(x.len() / conv.in_len() * conv.out_len(), T::zero());
        conv::forward(conv, x, packed, Finish { bias: Some(shift), add, relu }, y, &mut self.workspace);
    }

    /// Appends the maps of `images` after the last of `levels`. The earlier ones work through fewer images at
    /// a time, whose larger maps stay in the cache.
    fn advance(&mut self, levels: &[Level], inputs: &Inputs<'_, T>, images: Range<usize>, maps: &mut Vec<T>) {
        let Some((level, before)) = levels.split_last() else { return };
        let [mut x, mut inner, mut y] = std::mem::take(&mut self.buffers[before.len()]);
        for start in images.clone().step_by(level.images) {
            let images = start..(start + level.images).min(images.end);
            if before.is_empty() {
                self.rows.clear();
                inputs.materialise(images, &mut self.rows);
                self.net.load(&self.rows, &mut y);
                self.apply(0, &y, (false, true), &mut x);
            } else {
                x.clear();
                self.advance(before, inputs, images, &mut x);
            }
            for &Block { first, second, shortcut, .. } in &self.net.blocks[level.blocks.clone()] {
                self.apply(first, &x, (false, true), &mut inner);
                if let Some(shortcut) = shortcut {
                    self.apply(shortcut, &x, (false, false), &mut y);
                    std::mem::swap(&mut x, &mut y);
                }
                self.apply(second, &inner, (true, true), &mut x);
            }
            maps.extend_from_slice(&x);
        }
        self.buffers[before.len()] = [x, inner, y];
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
        let width: usize = self.shape.iter().product();
        assert!(x.len().is_multiple_of(width), "{} values are not rows of {width}", x.len());
        tape.batch = x.len() / width;
        resize(&mut tape.values, self.pooled() + 2);
        let passes = &mut tape.scratch.get_or_default::<ResNetScratch<T>>().passes;
        if passes.len() != self.units.len() {
            passes.resize_with(self.units.len(), Pass::default);
        }
        self.load(x, &mut tape.values[0]);
        self.advance(theta, 0, None, [Some(0), None], tape);
        let mut by = (0, None);
        for &Block { first, second, shortcut, input } in &self.blocks {
            self.advance(theta, input, Some(by), [Some(first), shortcut], tape);
            if let Some(unit) = shortcut {
                let Tape { values, scratch, .. } = &mut *tape;
                let mut out = std::mem::take(&mut values[output(unit)]);
                out.resize(values[z(unit)].len(), T::zero());
                self.units[unit].norm.apply(
                    &values[z(unit)],
                    (None, false),
                    &scratch.get_or_default::<ResNetScratch<T>>().passes[unit],
                    &mut out,
                );
                values[output(unit)] = out;
            }
            self.advance(theta, output(first), Some((first, None)), [Some(second), None], tape);
            by = (second, Some(shortcut.map_or(input, output)));
        }
        self.advance(theta, output(self.last()), Some(by), [None; 2], tape);
        let (maps, ends) = tape.values.split_at_mut(self.pooled());
        let [features, logits] = ends else { unreachable!("features and logits come last") };
        self.pool(&maps[output(self.last())], features);
        logits.resize(tape.batch * self.head.outputs, T::zero());
        let (weights, bias) = (self.head.weights(theta), self.head.bias(theta));
        self.head.forward(&LinearInput::Dense(features), weights, bias, false, logits);
    }

    fn update_running_stats(&self, tape: &Tape<T>, theta: &mut [T]) {
        let Some(scratch) = tape.scratch.get::<ResNetScratch<T>>() else { return };
        for (unit, pass) in self.units.iter().zip(&scratch.passes) {
            unit.norm.update_running_stats(pass, theta);
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
        let scratch = tape.scratch.get_or_default::<ResNetScratch<T>>();
        let mut image = std::mem::take(&mut scratch.image);
        self.conv_backward(theta, 0, &tape.deltas[z(0)], false, &mut image, scratch);
        self.unload(&image, out);
        scratch.image = image;
    }

    fn backward_to_input(&self, theta: &[T], tape: &mut Tape<T>, out: &mut [T]) {
        tape.scratch.get_or_default::<ResNetScratch<T>>().gradient.clear();
        self.backward_all(theta, false, tape);
        self.input_gradient(theta, tape, out);
    }

    fn tangent_forward(&self, theta: &[T], v: &[T], tape: &mut Tape<T>) {
        let pooled = self.pooled();
        resize(&mut tape.value_tangents, pooled + 2);
        let finish = |unit: usize, beside: Option<usize>, tape: &mut Tape<T>| {
            let mut tangent = std::mem::take(&mut tape.value_tangents[output(unit)]);
            if let Some(beside) = beside {
                add(&tape.value_tangents[beside], &mut tangent);
            }
            relu_backward(&tape.values[output(unit)], &mut tangent);
            tape.value_tangents[output(unit)] = tangent;
        };
        // What a step does not keep.
        for &Block { first, .. } in &self.blocks {
            let Tape { values, scratch, .. } = &mut *tape;
            let mut out = std::mem::take(&mut values[output(first)]);
            out.resize(values[z(first)].len(), T::zero());
            let pass = &scratch.get_or_default::<ResNetScratch<T>>().passes[first];
            self.units[first].norm.apply(&values[z(first)], (None, true), pass, &mut out);
            values[output(first)] = out;
        }
        self.unit_tangent(theta, v, (0, 0), tape);
        finish(0, None, tape);
        for &Block { first, second, shortcut, input } in &self.blocks {
            self.unit_tangent(theta, v, (first, input), tape);
            finish(first, None, tape);
            if let Some(shortcut) = shortcut {
                self.unit_tangent(theta, v, (shortcut, input), tape);
            }
            self.unit_tangent(theta, v, (second, output(first)), tape);
            finish(second, Some(shortcut.map_or(input, output)), tape);
        }
        let (maps, ends) = tape.value_tangents.split_at_mut(pooled);
        let [features, logits] = ends else { unreachable!("features and logits come last") };
        self.pool(&maps[output(self.last())], features);
        logits.resize(tape.batch * self.head.outputs, T::zero());
        self.head.tangent(theta, v, &LinearInput::Dense(&tape.values[pooled]), Some(features), logits);
    }

    fn tangent_backward(&self, theta: &[T], v: &[T], tape: &mut Tape<T>) {
        let keep_deltas = &mut tape.scratch.get_or_default::<ResNetScratch<T>>().keep_deltas;
        if !std::mem::replace(keep_deltas, true) {
            self.backward_all(theta, false, tape);
        }
        let pooled = self.pooled();
        let (maps, ends) = tape.delta_tangents.split_at_mut(pooled);
        let [features, logits] = ends else { unreachable!("features and logits come last") };
        features.resize(tape.values[pooled].len(), T::zero());
        self.head.backward_tangent(theta, v, [&tape.deltas[pooled + 1], logits], features);
        let last = output(self.last());
        maps[last].resize(tape.values[last].len(), T::zero());
        self.unpool(features, &mut maps[last]);
        relu_backward(&tape.values[last], &mut maps[last]);
        let both = |unit: usize, add: bool, dx: &mut Vec<T>, tape: &mut Tape<T>| {
            let Tape { deltas, delta_tangents, scratch, .. } = tape;
            let scratch = scratch.get_or_default::<ResNetScratch<T>>();
            self.conv_backward(theta, unit, &delta_tangents[z(unit)], add, dx, scratch);
            self.conv_backward(v, unit, &deltas[z(unit)], true, dx, scratch);
        };
        for &Block { first, second, shortcut, input } in self.blocks.iter().rev() {
            self.unit_backward_tangent(second, output(second), tape);
            let mut inner = std::mem::take(&mut tape.delta_tangents[output(first)]);
            both(second, false, &mut inner, tape);
            relu_backward(&tape.values[output(first)], &mut inner);
            tape.delta_tangents[output(first)] = inner;

            self.unit_backward_tangent(first, output(first), tape);
            if let Some(shortcut) = shortcut {
                self.unit_backward_tangent(shortcut, output(second), tape);
            }
            let mut outer = std::mem::take(&mut tape.delta_tangents[input]);
            both(first, false, &mut outer, tape);
            match shortcut {
                Some(unit) => both(unit, true, &mut outer, tape),
                None => add(&tape.delta_tangents[output(second)], &mut outer),
            }
            relu_backward(&tape.values[input], &mut outer);
            tape.delta_tangents[input] = outer;
        }
        self.unit_backward_tangent(0, output(0), tape);
    }

    fn accumulate_tangent(&self, tape: &mut Tape<T>, scale: T, into: &mut [T]) {
        let Tape { values, value_tangents, deltas, delta_tangents, scratch, .. } = tape;
        let ResNetScratch { passes, workspace, sums: [sums, _], .. } = scratch.get_or_default();
        for (unit, input) in self.wires() {
            let Unit { conv, start, norm } = &self.units[unit];
            let own = &mut into[*start..][..conv.weights()];
            let along: (&[T], &[T]) = (&values[input], &delta_tangents[z(unit)]);
            // The input itself does not depend on theta.
            if input == 0 {
                let part = Part { first: true, last: Some((scale, own)) };
                conv::accumulate(conv, along, part, sums, workspace);
            } else {
                let pair: (&[T], &[T]) = (&value_tangents[input], &deltas[z(unit)]);
                conv::accumulate(conv, along, Part { first: true, last: None }, sums, workspace);
                conv::accumulate(
                    conv,
                    pair,
                    Part { first: false, last: Some((scale, own)) },
                    sums,
                    workspace,
                );
            }
            norm.accumulate_tangent(&passes[unit], scale, into);
        }
        let (pooled, logits) = (self.pooled(), self.pooled() + 1);
        let features = [&values[pooled][..], &value_tangents[pooled]];
        self.head.accumulate_tangent(features, [&deltas[logits], &delta_tangents[logits]], scale, into);
    }

    fn infer_blocks(&self, theta: &[T], inputs: &Inputs<'_, T>, layer: Layer, visit: &mut dyn FnMut(&[T])) {
        // Batch-norm under running statistics is linear: its scale goes into the weights, its shift is a
        // bias.
        let folded: Vec<(Packed<T>, Vec<T>)> = self
            .units
            .iter()
            .map(|unit| {
                let (scale, shift) = unit.norm.fold(theta);
                let mut packed = Packed::default();
                conv::pack_forward(&unit.conv, unit.weights(theta), Some(&scale), &mut packed);
                (packed, shift)
            })
            .collect();
        let levels = self.levels();
        let buffers = levels.iter().map(|_| Default::default()).collect();
        let mut run =
            Inference { net: self, folded, workspace: Workspace::default(), rows: Vec::new(), buffers };
        let (mut maps, mut features, mut logits) = (Vec::new(), Vec::new(), Vec::new());
        let most = levels.last().map_or(1, |level| level.images);
        for start in (0..inputs.len()).step_by(most) {
            maps.clear();
            run.advance(&levels, inputs, start..(start + most).min(inputs.len()), &mut maps);
            self.pool(&maps, &mut features);
            match layer {
                Layer::Features => visit(&features),
                Layer::Logits => {
                    logits.resize(features.len() / self.head.inputs * self.head.outputs, T::zero());
                    let (weights, bias) = (self.head.weights(theta), self.head.bias(theta));
                    self.head.forward(&LinearInput::Dense(&features), weights, bias, false, &mut logits);
                    visit(&logits);
                }
            }
        }
    }
}
