//! The operations of a perceptron's gradient on its factors: `V = a^T e` in each layer, with the inputs `a`
//! and the deltas `e`.

use super::{
    Ahead, FirstProduct, Mlp,
    sparsity::{MlpScratch, Sparsity},
};
use crate::{
    kernels::{Scalar, axpy, matmul_nt, relu_backward},
    layers::BlockVisitor,
    net::{Correction, FactoredNet, Net},
    tape::{Tape, resize},
};

impl<T: Scalar> FactoredNet<T> for Mlp {
    /// Gradients over the same inputs share the product of the first layer.
    fn add_sum_to(&self, [one, other]: [&mut Tape<T>; 2], factor: f64, scale: T, into: &mut [T]) {
        let shared = usize::from(one.values[0] == other.values[0]);
        if shared == 1 {
            let Tape { values, deltas, scratch, .. } = &mut *one;
            let MlpScratch { sparsity, factor: sums, .. } = scratch.get_or_default::<MlpScratch<T>>();
            let by = T::of(factor);
            sums.clear();
            sums.extend(deltas[1].iter().zip(&other.deltas[1]).map(|(&a, &b)| a + by * b));
            self.accumulate_first(&sparsity[0], &values[0], sums, scale, into);
        }
        self.accumulate_from(shared, one, scale, into);
        self.accumulate_from(shared, other, T::of(scale.wide() * factor), into);
    }

    /// With `V = a^T e` and `U = b^T f`, the sum over all entries of `V U` is that of `(a b^T) (e f^T)`; for
    /// the biases, that of `e f^T`.
    fn dot(&self, one: &Tape<T>, other: &Tape<T>, [inputs, deltas]: &mut [Vec<T>; 2]) -> f64 {
        let mut sum = 0.0;
        for (l, layer) in self.layers.iter().enumerate() {
            for (width, of, factor) in [
                (layer.inputs, [&one.values[l], &other.values[l]], &mut *inputs),
                (layer.outputs, [&one.deltas[l + 1], &other.deltas[l + 1]], &mut *deltas),
            ] {
                factor.resize(one.batch * other.batch, T::zero());
                matmul_nt(of[0], of[1], width, false, factor);
            }
            sum += inputs.iter().zip(&*deltas).map(|(x, d)| (x.wide() + 1.0) * d.wide()).sum::<f64>();
        }
        sum
    }

    fn for_each_block(&self, tape: &Tape<T>, block: &mut Vec<T>, visit: &mut BlockVisitor<'_, T>) {
        let Some(MlpScratch { sparsity, .. }) = tape.scratch.get::<MlpScratch<T>>() else { return };
        for (l, (layer, sparsity)) in self.layers.iter().zip(sparsity).enumerate() {
            let x =
                if sparsity.gradient_is_sparse { Ok(&sparsity.columns) } else { Err(&tape.values[l][..]) };
            layer.for_each_block(x, &tape.deltas[l + 1], block, visit);
        }
    }

    fn hvp(&self, theta: &[T], along: &Tape<T>, tape: &mut Tape<T>, scale: T, into: &mut [T]) {
        self.tangents(theta, along, tape);
        self.accumulate_tangent(tape, scale, into);
    }

    /// In each layer `x (W - rate a^T e)` is `x W - rate (x a^T) e`; in the first, both passes share `x W`.
    fn forward_ahead(
        &self,
        theta: &[T],
        along: &Tape<T>,
        rate: T,
        x: &[T],
        [tape, ahead]: &mut [Tape<T>; 2],
        first: &mut Vec<T>,
    ) {
        self.pass(theta, x, tape, FirstProduct::Keep(first), None);
        let step = Ahead { along, rate, layers: self.layers.len() };
        self.pass(theta, x, ahead, FirstProduct::Reuse(first), Some(step));
    }

    fn step_ahead(&self, theta: &[T], tape: &mut Tape<T>, scale: T, ahead: &mut Vec<T>) {
        ahead.resize(theta.len(), T::zero());
        let rest = self.first().end();
        ahead[rest..].copy_from_slice(&theta[rest..]);
        self.accumulate_from(1, tape, scale, ahead);
    }

    fn forward_around(
        &self,
        [theta, ahead]: [&[T]; 2],
        (along, rate): (&Tape<T>, T),
        x: &[T],
        [here, there]: [&mut Tape<T>; 2],
        first: &mut Vec<T>,
    ) {
        self.pass(theta, x, here, FirstProduct::Keep(first), None);
        self.pass(ahead, x, there, FirstProduct::Reuse(first), Some(Ahead { along, rate, layers: 1 }));
    }

    fn correct(
        &self,
        [theta, ahead]: [&mut [T]; 2],
        rate: T,
        [tape, here, there]: [&mut Tape<T>; 3],
        correction: Correction,
    ) {
        if correction != Correction::Here {
            self.accumulate_from(1, there, rate, ahead);
        }
        self.accumulate_from(1, here, -rate, ahead);
        let hessian = correction == Correction::WithHessian;
        if hessian {
            self.tangents(theta, there, tape);
            self.accumulate_tangent_from(1, tape, -(rate * rate), ahead);
        }
        // The first layer: -rate x^T (dz + rate dz') and, over the other inputs, -rate a^T (e - e~).
        let Tape { values, deltas, delta_tangents, scratch, .. } = tape;
        let MlpScratch { sparsity, sums, .. } = scratch.get_or_default::<MlpScratch<T>>();
        sums.clone_from(&deltas[1]);
        if hessian {
            axpy(rate, &delta_tangents[1], sums);
        }
        self.accumulate_first(&sparsity[0], &values[0], sums, -rate, theta);
        let Tape { values, deltas, scratch, .. } = here;
        let MlpScratch { sparsity, sums, .. } = scratch.get_or_default::<MlpScratch<T>>();
        sums.clone_from(&deltas[1]);
        if correction != Correction::Here {
            axpy(-T::one(), &there.deltas[1], sums);
        }
        self.accumulate_first(&sparsity[0], &values[0], sums, -rate, theta);
    }

    fn finish_step(&self, theta: &mut [T], ahead: &[T]) {
        let rest = self.first().end();
        theta[rest..].copy_from_slice(&ahead[rest..]);
    }
}

impl Mlp {
    /// `into += scale * gradient` of the first layer, for the given deltas.
    fn accumulate_first<T: Scalar>(
        &self,
        sparsity: &Sparsity<T>,
        x: &[T],
        deltas: &[T],
        scale: T,
        into: &mut [T],
    ) {
        if sparsity.gradient_is_sparse {
            self.first().accumulate_sparse(&sparsity.columns, deltas, scale, into);
        } else {
            self.first().accumulate(x, deltas, scale, into);
        }
    }

    /// The tangents of the forward and of the backward pass on `tape` along the gradient on `along`.
    fn tangents<T: Scalar>(&self, theta: &[T], along: &Tape<T>, tape: &mut Tape<T>) {
        let last = self.last();
        let Tape { batch, values, value_tangents, scratch, .. } = &mut *tape;
        let MlpScratch { factor, sums, .. } = scratch.get_or_default::<MlpScratch<T>>();
        resize(value_tangents, last + 2);
        for (l, layer) in self.layers.iter().enumerate() {
            let (before, z) = value_tangents.split_at_mut(l + 1);
            let z = &mut z[0];
            z.resize(*batch * layer.outputs, T::zero());
            let gradient = [&along.values[l][..], &along.deltas[l + 1]];
            // The input does not depend on theta.
            let x = [&values[l][..], if l == 0 { &[] } else { &before[l] }];
            layer.tangent_factored(theta, gradient, x, [&mut *factor, &mut *sums], z);
            if l < last {
                relu_backward(&values[l + 1], z);
            }
        }
        tape.seed_cross_entropy_tangent();
        let Tape { values, deltas, delta_tangents, scratch, .. } = &mut *tape;
        let MlpScratch { sparsity, factor, .. } = scratch.get_or_default::<MlpScratch<T>>();
        for l in (1..=last).rev() {
            let (layer, h) = (&self.layers[l], &values[l]);
            let (below, above) = delta_tangents.split_at_mut(l + 1);
            let dx = &mut below[l];
            dx.resize(h.len(), T::zero());
            if l < last {
                layer.backward_masked(theta, &above[0], &sparsity[l].columns, dx);
            } else {
                layer.backward(theta, &above[0], dx);
            }
            let gradient = [&along.values[l][..], &along.deltas[l + 1]];
            layer.backward_factored(gradient, &deltas[l + 1], factor, dx);
            relu_backward(h, dx);
        }
    }
}
