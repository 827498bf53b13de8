//! The passes of a training step: forward, and back to the gradients in theta and the input.

use super::{Block, ResNet, ResNetScratch, Unit, WORK, Work, add, group, output, z};
use crate::{
    Scalar, Tape,
    kernels::conv::{self, Back, Finish, Part},
    layers::{
        batch_norm::{BatchNorm, Pass},
        linear::LinearInput,
    },
    tape::resize,
};

impl ResNet {
    /// Forward through all blocks.
    pub(super) fn forward_all<T: Scalar>(&self, theta: &[T], x: &[T], tape: &mut Tape<T>) {
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
        let ResNetScratch { passes, .. } = scratch.get_or_default::<ResNetScratch<T>>();
        let mut thread = WORK.take();
        let Work { packed, workspace, group: buffer, .. } = thread.get_or_default::<Work<T>>();
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
        WORK.set(thread);
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
        let ResNetScratch { passes, gradient, used, keep_deltas } =
            scratch.get_or_default::<ResNetScratch<T>>();
        let mut thread = WORK.take();
        let Work { packed, workspace, group: buffer, dz, sums, .. } = thread.get_or_default::<Work<T>>();
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
                let into = &mut gradient[if weights { *first..*first + conv.weights() } else { 0..0 }];
                let last = (start + group >= *batch).then_some((T::one(), into));
                let part = Part { first: start == 0, last };
                let (packed, add) = (&packed[i], i > 0);
                let dx = if inner { &mut dx[start * len..][..x.len()] } else { &mut [] };
                match (weights, inner) {
                    (true, true) => {
                        let back = Back { packed, add, dx };
                        conv::gradients(conv, (x, dz), part, &mut sums[i], back, workspace);
                    }
                    (true, false) => conv::accumulate(conv, (x, dz), part, &mut sums[i], workspace),
                    (false, _) => conv::backward(conv, dz, packed, add, dx, workspace),
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
        WORK.set(thread);
    }

    /// Back through all blocks, and to the gradient in theta if `weights`.
    pub(super) fn backward_all<T: Scalar>(&self, theta: &[T], weights: bool, tape: &mut Tape<T>) {
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
    pub(super) fn z_delta<T: Scalar>(&self, unit: usize, from: usize, tape: &mut Tape<T>) {
        let Tape { values, deltas, scratch, .. } = tape;
        let ResNetScratch { passes, .. } = scratch.get_or_default::<ResNetScratch<T>>();
        let mut dz = std::mem::take(&mut deltas[z(unit)]);
        let len = values[z(unit)].len();
        dz.resize(len, T::zero());
        self.units[unit].norm.apply_backward(&values[z(unit)], &deltas[from][..len], &passes[unit], &mut dz);
        deltas[z(unit)] = dz;
    }

    /// From the delta of a unit's convolution to that of its input, `dx`, which it is added to if `add`.
    pub(super) fn conv_backward<T: Scalar>(
        &self,
        theta: &[T],
        unit: usize,
        dz: &[T],
        add: bool,
        dx: &mut Vec<T>,
        work: &mut Work<T>,
    ) {
        let Unit { conv, .. } = &self.units[unit];
        dx.resize(dz.len() / conv.out_len() * conv.in_len(), T::zero());
        conv::pack_backward(conv, self.units[unit].weights(theta), &mut work.packed[0]);
        conv::backward(conv, dz, &work.packed[0], add, dx, &mut work.workspace);
    }
}
