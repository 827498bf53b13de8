//! Tangents of the passes along a direction in theta, for Hessian products.

use super::{Block, ResNet, ResNetScratch, Unit, WORK, Work, add, output, z};
use crate::{
    Scalar, Tape,
    kernels::{
        conv::{self, Finish, Part},
        relu_backward,
    },
    layers::linear::LinearInput,
    tape::resize,
};

impl ResNet {
    pub(super) fn tangent_forward_all<T: Scalar>(&self, theta: &[T], v: &[T], tape: &mut Tape<T>) {
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

    pub(super) fn tangent_backward_all<T: Scalar>(&self, theta: &[T], v: &[T], tape: &mut Tape<T>) {
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
        let both = |unit: usize, add: bool, dx: &mut Vec<T>, tape: &Tape<T>| {
            let mut thread = WORK.take();
            let work = thread.get_or_default::<Work<T>>();
            self.conv_backward(theta, unit, &tape.delta_tangents[z(unit)], add, dx, work);
            self.conv_backward(v, unit, &tape.deltas[z(unit)], true, dx, work);
            WORK.set(thread);
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

    pub(super) fn accumulate_tangent_all<T: Scalar>(&self, tape: &mut Tape<T>, scale: T, into: &mut [T]) {
        let Tape { values, value_tangents, deltas, delta_tangents, scratch, .. } = tape;
        let ResNetScratch { passes, .. } = scratch.get_or_default();
        let mut thread = WORK.take();
        let Work { workspace, sums: [sums, _], .. } = thread.get_or_default();
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
        WORK.set(thread);
        let (pooled, logits) = (self.pooled(), self.pooled() + 1);
        let features = [&values[pooled][..], &value_tangents[pooled]];
        self.head.accumulate_tangent(features, [&deltas[logits], &delta_tangents[logits]], scale, into);
    }

    /// The tangent of a unit up to batch-norm.
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
        let mut thread = WORK.take();
        let Work { packed: [packed, _], workspace, .. } = thread.get_or_default::<Work<T>>();
        conv::pack_forward(conv, self.units[unit].weights(v), None, packed);
        conv::forward(conv, &values[input], packed, Finish::default(), &mut sums, workspace);
        // The input itself does not depend on theta.
        if input > 0 {
            conv::pack_forward(conv, self.units[unit].weights(theta), None, packed);
            let add = Finish { add: true, ..Finish::default() };
            conv::forward(conv, &value_tangents[input], packed, add, &mut sums, workspace);
        }
        WORK.set(thread);
        let pass = &mut scratch.get_or_default::<ResNetScratch<T>>().passes[unit];
        norm.tangent(v, &values[z(unit)], &sums, pass, &mut out);
        value_tangents[z(unit)] = sums;
        value_tangents[output(unit)] = out;
    }

    /// The tangent of the way back through a batch-norm.
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
