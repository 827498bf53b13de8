//! The multi-layer perceptron: linear layers with ReLU between them. phi(x) is the last hidden layer.
//!
//! theta holds the layers one after the other, each as its weights `[inputs, outputs]` and its biases
//! `[outputs]`.

mod factored;
mod infer;
mod local;
mod sparsity;

use std::{iter, ops::Range, sync::Arc};

use crate::{
    input::Inputs,
    kernels::{Scalar, axpy, relu_backward},
    layers::linear::Linear,
    net::{BoundedLogits, FactoredNet, Layer, LocalNet, Net, ShapeError},
    rng::Rng,
    tape::{Tape, resize},
};
use sparsity::MlpScratch;

/// The shape of a perceptron. The weights belong to the caller.
///
/// ```
/// use hindsight_nn::{Mlp, Net};
///
/// let net = Mlp::new(&[784, 256, 256, 10]).unwrap();
/// assert_eq!((Net::<f32>::inputs(&net), Net::<f32>::features(&net), Net::<f32>::classes(&net)), (784, 256, 10));
/// assert_eq!(Net::<f32>::parameters(&net), 785 * 256 + 257 * 256 + 257 * 10);
/// assert!(Mlp::new(&[784, 0, 10]).is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mlp {
    layers: Vec<Linear>,
}

impl Mlp {
    /// A perceptron with the given widths: the input, one or more hidden layers, and the classes.
    pub fn new(widths: &[usize]) -> Result<Mlp, ShapeError> {
        if widths.len() < 3 || widths.contains(&0) {
            return Err(ShapeError::new(widths));
        }
        let mut layers: Vec<Linear> = Vec::new();
        for pair in widths.windows(2) {
            let start = layers.last().map_or(0, Linear::end);
            layers.push(Linear::new(pair[0], pair[1], start));
        }
        Ok(Mlp { layers })
    }

    /// The network in `f32`, behind its interface. Its code is compiled in this crate, once, and not again in
    /// every crate that uses it.
    pub fn into_net(self) -> Arc<dyn Net> {
        Arc::new(self)
    }

    #[cfg(test)]
    pub(crate) fn layers(&self) -> &[Linear] {
        &self.layers
    }

    fn first(&self) -> &Linear {
        &self.layers[0]
    }

    /// Index of the last layer.
    fn last(&self) -> usize {
        self.layers.len() - 1
    }

    /// `into += scale * gradient` in the layers from `first` on.
    fn accumulate_from<T: Scalar>(&self, first: usize, tape: &mut Tape<T>, scale: T, into: &mut [T]) {
        let Tape { values, deltas, scratch, .. } = tape;
        let MlpScratch { sparsity, .. } = scratch.get_or_default::<MlpScratch<T>>();
        for (l, layer) in self.layers.iter().enumerate().skip(first) {
            if sparsity[l].gradient_is_sparse {
                layer.accumulate_sparse(&sparsity[l].columns, &deltas[l + 1], scale, into);
            } else {
                layer.accumulate(&values[l], &deltas[l + 1], scale, into);
            }
        }
    }

    /// [`Net::accumulate_tangent`] in the layers from `first` on.
    fn accumulate_tangent_from<T: Scalar>(&self, first: usize, tape: &mut Tape<T>, scale: T, into: &mut [T]) {
        let Tape { values, value_tangents, deltas, delta_tangents, scratch, .. } = tape;
        let MlpScratch { sparsity, .. } = scratch.get_or_default::<MlpScratch<T>>();
        for (l, (layer, sparsity)) in self.layers.iter().zip(sparsity).enumerate().skip(first) {
            let (delta, tangent) = (&deltas[l + 1], &delta_tangents[l + 1]);
            match (l, sparsity.gradient_is_sparse) {
                // The input does not depend on theta.
                (0, true) => layer.accumulate_sparse(&sparsity.columns, tangent, scale, into),
                (0, false) => layer.accumulate(&values[0], tangent, scale, into),
                (_, true) => {
                    sparsity.columns.with_values(&value_tangents[l], &mut sparsity.tangent_columns);
                    let x = [&sparsity.columns, &sparsity.tangent_columns];
                    layer.accumulate_tangent_sparse(x, [delta, tangent], scale, into);
                }
                (_, false) => {
                    let x = [&values[l][..], &value_tangents[l]];
                    layer.accumulate_tangent(x, [delta, tangent], scale, into);
                }
            }
        }
    }

    /// A forward pass at theta, or where a step leads.
    fn pass<T: Scalar>(
        &self,
        theta: &[T],
        x: &[T],
        tape: &mut Tape<T>,
        mut first: FirstProduct<'_, T>,
        step: Option<Ahead<'_, T>>,
    ) {
        let width = self.first().inputs;
        assert!(x.len().is_multiple_of(width), "{} values are not rows of {width}", x.len());
        let count = self.layers.len();
        let Tape { batch, values, value_tangents, scratch, .. } = tape;
        *batch = x.len() / width;
        let values = resize(values, count + 1);
        let MlpScratch { sparsity, factor, sums } = scratch.get_or_default::<MlpScratch<T>>();
        sparsity.resize_with(count, Default::default);
        for (l, (layer, sparsity)) in self.layers.iter().zip(sparsity).enumerate() {
            let (before, z) = values.split_at_mut(l + 1);
            let (h, z) = (if l == 0 { x } else { &before[l] }, &mut z[0]);
            z.resize(*batch * layer.outputs, T::zero());
            let relu = l < self.last();
            let step = step.as_ref().filter(|step| l < step.layers);
            let fused = step.is_none() && (l > 0 || matches!(first, FirstProduct::Fused));
            if let (0, FirstProduct::Reuse(kept)) = (l, &first) {
                sparsity.set_dense();
                z.copy_from_slice(kept);
            } else {
                match l {
                    0 => sparsity.find_input(x, width),
                    // The last layer is narrow: dense is always faster.
                    _ if !relu => sparsity.set_dense(),
                    _ => sparsity.find_hidden(h, layer.inputs),
                }
                layer.forward(
                    &sparsity.rows_of(h),
                    layer.weights(theta),
                    layer.bias(theta),
                    relu && fused,
                    z,
                );
            }
            if let (0, FirstProduct::Keep(keep)) = (l, &mut first) {
                keep.clone_from(z);
            }
            if let Some(&Ahead { along: gradient, rate, .. }) = step {
                let moved = &mut resize(value_tangents, count + 1)[l + 1];
                moved.resize(z.len(), T::zero());
                let factors = [&gradient.values[l][..], &gradient.deltas[l + 1]];
                layer.tangent_factored(theta, factors, [h, &[]], [&mut *factor, &mut *sums], moved);
                axpy(-rate, moved, z);
            }
            if relu && !fused {
                z.iter_mut().for_each(|z| *z = z.max(T::zero()));
            }
            if l == 0 {
                before[0].clear();
                before[0].extend_from_slice(x);
            }
        }
    }
}

/// In its first layers, a pass is at theta - rate * gradient, with the gradient on the tape `along`.
struct Ahead<'a, T: Scalar> {
    along: &'a Tape<T>,
    rate: T,
    layers: usize,
}

/// What a pass does with `x W + b` of the first layer, before ReLU.
enum FirstProduct<'f, T> {
    /// Computes it together with ReLU.
    Fused,
    /// Computes and keeps it.
    Keep(&'f mut Vec<T>),
    /// Takes the one that another pass over the same inputs has kept.
    Reuse(&'f [T]),
}

impl<T: Scalar> Net<T> for Mlp {
    fn inputs(&self) -> usize {
        self.first().inputs
    }

    fn features(&self) -> usize {
        self.layers[self.last()].inputs
    }

    fn classes(&self) -> usize {
        self.layers[self.last()].outputs
    }

    fn parameters(&self) -> usize {
        self.layers[self.last()].end()
    }

    /// The weights of inputs that are zero in all of `x` are not read.
    fn active_parameters(&self, x: &[T]) -> Vec<Range<usize>> {
        let Linear { inputs, outputs, .. } = *self.first();
        let mut used = vec![false; inputs];
        for row in x.chunks_exact(inputs) {
            used.iter_mut().zip(row).for_each(|(used, &x)| *used |= x != T::zero());
        }
        let mut ranges: Vec<Range<usize>> = Vec::new();
        let rows = (0..inputs).filter(|&i| used[i]).map(|i| i * outputs..(i + 1) * outputs);
        for range in rows.chain(iter::once(inputs * outputs..Net::<T>::parameters(self))) {
            match ranges.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => ranges.push(range),
            }
        }
        ranges
    }

    /// Weights are truncated normal, biases 0.1.
    fn init(&self, rng: &mut Rng) -> Vec<T> {
        let mut theta = Vec::with_capacity(self.layers[self.last()].end());
        for layer in &self.layers {
            let deviation = deviation(layer.inputs);
            let weights = (0..layer.inputs * layer.outputs).map(|_| T::of(rng.truncated_normal(deviation)));
            theta.extend(weights);
            theta.extend((0..layer.outputs).map(|_| T::of(0.1)));
        }
        theta
    }

    fn init_class(&self, rng: &mut Rng) -> Vec<T> {
        let inputs = self.layers[self.last()].inputs;
        let weights = (0..inputs).map(|_| T::of(rng.truncated_normal(deviation(inputs))));
        weights.chain([T::of(0.1)]).collect()
    }

    fn forward(&self, theta: &[T], x: &[T], tape: &mut Tape<T>) {
        self.pass(theta, x, tape, FirstProduct::Fused, None);
    }

    fn backward(&self, theta: &[T], tape: &mut Tape<T>) {
        let Tape { values, deltas, feature_cotangent, scratch, .. } = tape;
        let MlpScratch { sparsity, .. } = scratch.get_or_default::<MlpScratch<T>>();
        for l in (1..=self.last()).rev() {
            let (below, above) = deltas.split_at_mut(l + 1);
            let (dx, h) = (&mut below[l], &values[l]);
            dx.resize(h.len(), T::zero());
            if l < self.last() {
                sparsity[l].transpose(h);
                self.layers[l].backward_masked(theta, &above[0], &sparsity[l].columns, dx);
                continue;
            }
            self.layers[l].backward(theta, &above[0], dx);
            if !feature_cotangent.is_empty() {
                dx.iter_mut().zip(&*feature_cotangent).for_each(|(d, &c)| *d += c);
            }
            relu_backward(h, dx);
        }
        if sparsity[0].is_sparse {
            sparsity[0].transpose(&values[0]);
        }
    }

    fn accumulate(&self, tape: &mut Tape<T>, scale: T, into: &mut [T]) {
        self.accumulate_from(0, tape, scale, into);
    }

    fn input_gradient(&self, theta: &[T], tape: &mut Tape<T>, out: &mut [T]) {
        self.first().backward(theta, &tape.deltas[1], out);
    }

    fn tangent_forward(&self, theta: &[T], v: &[T], tape: &mut Tape<T>) {
        let Tape { batch, values, value_tangents, scratch, .. } = tape;
        let MlpScratch { sparsity, .. } = scratch.get_or_default::<MlpScratch<T>>();
        resize(value_tangents, self.layers.len() + 1);
        for (l, layer) in self.layers.iter().enumerate() {
            let (before, z) = value_tangents.split_at_mut(l + 1);
            let z = &mut z[0];
            z.resize(*batch * layer.outputs, T::zero());
            // The input does not depend on theta.
            let x_tangent = (l > 0).then_some(before[l].as_slice());
            layer.tangent(theta, v, &sparsity[l].rows_of(&values[l]), x_tangent, z);
            if l < self.last() {
                relu_backward(&values[l + 1], z);
            }
        }
    }

    fn tangent_backward(&self, theta: &[T], v: &[T], tape: &mut Tape<T>) {
        let Tape { values, deltas, delta_tangents, scratch, .. } = tape;
        let MlpScratch { sparsity, .. } = scratch.get_or_default::<MlpScratch<T>>();
        for l in (1..=self.last()).rev() {
            let (below, above) = delta_tangents.split_at_mut(l + 1);
            let (dx, h) = (&mut below[l], &values[l]);
            dx.resize(h.len(), T::zero());
            let deltas = [&deltas[l + 1], &above[0][..]];
            if l < self.last() {
                self.layers[l].backward_tangent_masked(theta, v, deltas, &sparsity[l].columns, dx);
                continue;
            }
            self.layers[l].backward_tangent(theta, v, deltas, dx);
            relu_backward(h, dx);
        }
    }

    fn accumulate_tangent(&self, tape: &mut Tape<T>, scale: T, into: &mut [T]) {
        self.accumulate_tangent_from(0, tape, scale, into);
    }

    fn factored(&self) -> Option<&dyn FactoredNet<T>> {
        Some(self)
    }

    fn local(&self) -> Option<&dyn LocalNet<T>> {
        Some(self)
    }

    fn infer_blocks(&self, theta: &[T], inputs: &Inputs<'_, T>, layer: Layer, visit: &mut dyn FnMut(&[T])) {
        self.infer_folded(theta, &self.fold_map(theta, inputs), inputs, layer, visit);
    }

    /// int16 evaluation where `inputs` have a quantized copy.
    fn infer_bounded(&self, theta: &[T], inputs: &Inputs<'_, T>) -> Option<BoundedLogits> {
        let (quantized, mlp) = self.quantized(theta, &self.fold_map(theta, inputs), inputs)?;
        let (logits, bounds) = mlp.bounded_logits(quantized);
        Some(BoundedLogits { logits, bounds })
    }

    /// int16 evaluation where `inputs` have a quantized copy; rows whose error bound is not met fall back to
    /// f32.
    fn predict_classes(&self, theta: &[T], inputs: &Inputs<'_, T>, allowed: &[usize]) -> Vec<u32> {
        self.predict(theta, inputs, allowed)
    }
}

/// The standard deviation of the initial weights of a layer: 0.1, as in the paper, up to the 784 inputs it was
/// chosen for. Behind more of them it falls with their root: sums that grow with the width stop the learning
/// before it begins (docs/adr/0021).
fn deviation(inputs: usize) -> f64 {
    const WIDEST: usize = 784;
    0.1 * (WIDEST as f64 / inputs.max(WIDEST) as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_behind_more_inputs_than_the_paper_has_start_smaller() {
        let spread = |inputs: usize| {
            let net = Mlp::new(&[inputs, 16, 2]).unwrap();
            let theta: Vec<f64> = net.init(&mut Rng::named(1, "init"));
            theta[..inputs * 16].iter().fold(0.0, |most: f64, w| most.max(w.abs()))
        };
        // Two deviations, where the draws are cut off.
        for (inputs, most) in [(64, 0.2), (784, 0.2), (4 * 784, 0.1)] {
            let spread = spread(inputs);
            assert!(spread <= most && spread > 0.97 * most, "{inputs} inputs: {spread}");
        }
    }
}
