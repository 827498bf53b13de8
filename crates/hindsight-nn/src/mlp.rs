//! The multi-layer perceptron: linear layers with ReLU between them. phi(x) is the last hidden layer.
//!
//! theta holds the layers one after the other, each as its weights `[inputs, outputs]` and its biases.

use std::borrow::Cow;

use crate::{
    Inputs, Layer, Net, Rng, Scalar, SparseRows, Tape,
    input::RowsRef,
    kernels::{Panels, axpy, count_nonzeros, pairs_pay, product_transposed, through_relu},
    layers::linear::{Linear, Rows},
    net::{Nonzeros, Visit, best_classes, resize},
    screen::Screen,
};

/// A perceptron's shape; its weights are the caller's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mlp {
    layers: Vec<Linear>,
}

/// Layer widths that make no network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShapeError(Vec<usize>);

impl ShapeError {
    pub(crate) fn new(widths: &[usize]) -> ShapeError {
        ShapeError(widths.to_vec())
    }
}

impl std::fmt::Display for ShapeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "expected input, hidden and output widths above zero, found {:?}", self.0)
    }
}

impl std::error::Error for ShapeError {}

/// Above these shares of non-zero inputs, the dense product with the weights is the faster one, and the dense gradient.
const DENSE_FROM: f64 = 0.45;
const DENSE_GRADIENT_FROM: f64 = 0.7;

/// Rows that are evaluated at a time: enough for the products to run at full speed, few enough for the
/// activations to stay in the cache.
const BLOCK: usize = 240;

/// Rows from which on an exam begins with whole numbers.
const SCREEN_FROM: usize = 1000;

impl Mlp {
    /// A perceptron with the given widths, from the input over the hidden layers to the classes.
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

    #[cfg(test)]
    pub(crate) fn layers(&self) -> &[Linear] {
        &self.layers
    }

    fn first(&self) -> &Linear {
        &self.layers[0]
    }

    fn last(&self) -> usize {
        self.layers.len() - 1
    }

    /// `into += scale * gradient` in the layers from `first` on.
    fn accumulate_from<T: Scalar>(&self, first: usize, tape: &Tape<T>, scale: T, into: &mut [T]) {
        for (l, layer) in self.layers.iter().enumerate().skip(first) {
            if tape.nonzeros[l].few_columns {
                layer.accumulate_sparse(&tape.nonzeros[l].columns, &tape.deltas[l + 1], scale, into);
            } else {
                layer.accumulate(&tape.values[l], &tape.deltas[l + 1], scale, into);
            }
        }
    }
}

/// What becomes of the first layer's `x W + b`: ReLU at once; it is kept before that; or it was.
enum First<'f, T> {
    Fused,
    Keep(&'f mut Vec<T>),
    Kept(&'f [T]),
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

    /// Weights truncated normal with deviation 0.1, biases 0.1.
    fn init(&self, rng: &mut Rng) -> Vec<T> {
        let mut theta = Vec::with_capacity(self.layers[self.last()].end());
        for layer in &self.layers {
            theta.extend((0..layer.inputs * layer.outputs).map(|_| T::of(rng.truncated_normal(0.1))));
            theta.extend((0..layer.outputs).map(|_| T::of(0.1)));
        }
        theta
    }

    fn forward(&self, theta: &[T], x: &[T], tape: &mut Tape<T>) {
        self.pass(theta, x, tape, First::Fused, None);
    }

    /// In each layer `x (W - rate a^T e)` is `x W - rate (x a^T) e`, and in the first `x W` is the same for both passes.
    fn forward_ahead(
        &self,
        theta: &[T],
        along: &mut Tape<T>,
        rate: T,
        x: &[T],
        [tape, after]: &mut [Tape<T>; 2],
        first: &mut Vec<T>,
    ) {
        self.pass(theta, x, tape, First::Keep(first), None);
        self.pass(theta, x, after, First::Kept(first), Some((along, rate)));
    }

    fn backward(&self, theta: &[T], tape: &mut Tape<T>) {
        for l in (1..=self.last()).rev() {
            let (below, above) = tape.deltas.split_at_mut(l + 1);
            let (dx, h) = (&mut below[l], &tape.values[l]);
            dx.resize(h.len(), T::zero());
            if l < self.last() {
                tape.nonzeros[l].transpose();
                self.layers[l].backward_through(theta, &above[0], &tape.nonzeros[l].columns, dx);
                continue;
            }
            self.layers[l].backward(theta, &above[0], dx);
            if !tape.feature_cotangent.is_empty() {
                dx.iter_mut().zip(&tape.feature_cotangent).for_each(|(d, &c)| *d += c);
            }
            through_relu(h, dx);
        }
        if tape.nonzeros[0].few {
            tape.nonzeros[0].transpose();
        }
    }

    fn accumulate(&self, tape: &mut Tape<T>, scale: T, into: &mut [T]) {
        self.accumulate_from(0, tape, scale, into);
    }

    fn visit_gradient(&self, tape: &mut Tape<T>, room: &mut Vec<T>, visit: &mut Visit<'_, T>) {
        for (l, layer) in self.layers.iter().enumerate() {
            let nonzeros = &tape.nonzeros[l];
            let x = if nonzeros.few_columns { Ok(&nonzeros.columns) } else { Err(&tape.values[l][..]) };
            layer.visit_gradient(x, &tape.deltas[l + 1], room, visit);
        }
    }

    fn input_gradient(&self, theta: &[T], tape: &mut Tape<T>, out: &mut [T]) {
        self.first().backward(theta, &tape.deltas[1], out);
    }

    fn tangent_forward(&self, theta: &[T], v: &[T], tape: &mut Tape<T>) {
        resize(&mut tape.value_tangents, self.layers.len() + 1);
        for (l, layer) in self.layers.iter().enumerate() {
            let (before, z) = tape.value_tangents.split_at_mut(l + 1);
            let z = &mut z[0];
            z.resize(tape.batch * layer.outputs, T::zero());
            let nonzeros = &tape.nonzeros[l];
            let x = if nonzeros.few { Rows::Sparse(&nonzeros.rows) } else { Rows::Dense(&tape.values[l]) };
            // The input itself does not depend on theta.
            let x_tangent = (l > 0).then_some(before[l].as_slice());
            layer.tangent(theta, v, &x, x_tangent, z);
            if l < self.last() {
                through_relu(&tape.values[l + 1], z);
            }
        }
    }

    fn tangent_backward(&self, theta: &[T], v: &[T], tape: &mut Tape<T>) {
        for l in (1..=self.last()).rev() {
            let (below, above) = tape.delta_tangents.split_at_mut(l + 1);
            let (dx, h) = (&mut below[l], &tape.values[l]);
            dx.resize(h.len(), T::zero());
            let deltas = [&tape.deltas[l + 1], &above[0][..]];
            if l < self.last() {
                self.layers[l].backward_tangent_through(theta, v, deltas, &tape.nonzeros[l].columns, dx);
                continue;
            }
            self.layers[l].backward_tangent(theta, v, deltas, dx);
            through_relu(h, dx);
        }
    }

    fn accumulate_tangent(&self, tape: &mut Tape<T>, scale: T, into: &mut [T]) {
        for (l, layer) in self.layers.iter().enumerate() {
            let (delta, tangent) = (&tape.deltas[l + 1], &tape.delta_tangents[l + 1]);
            let nonzeros = &mut tape.nonzeros[l];
            match (l, nonzeros.few_columns) {
                // The input itself does not depend on theta.
                (0, true) => layer.accumulate_sparse(&nonzeros.columns, tangent, scale, into),
                (0, false) => layer.accumulate(&tape.values[0], tangent, scale, into),
                (_, true) => {
                    nonzeros.columns.with_values(&tape.value_tangents[l], &mut nonzeros.tangent_columns);
                    let x = [&nonzeros.columns, &nonzeros.tangent_columns];
                    layer.accumulate_tangent_sparse(x, [delta, tangent], scale, into);
                }
                (_, false) => {
                    let values = [&tape.values[l][..], &tape.value_tangents[l]];
                    layer.accumulate_tangent(values, [delta, tangent], scale, into);
                }
            }
        }
    }

    /// A gradient of a few rows is a product of two narrow matrices in each layer: `V = a^T e`, with the layer's inputs
    /// `a` and deltas `e`. Products with `V` go through those.
    fn hvp_along(
        &self,
        theta: &[T],
        along: &mut Tape<T>,
        _v: &mut Vec<T>,
        tape: &mut Tape<T>,
        scale: T,
        into: &mut [T],
    ) {
        let last = self.last();
        resize(&mut tape.value_tangents, last + 2);
        for (l, layer) in self.layers.iter().enumerate() {
            let (before, z) = tape.value_tangents.split_at_mut(l + 1);
            let (z, scratch) = (&mut z[0], [&mut tape.factor, &mut tape.row]);
            z.resize(tape.batch * layer.outputs, T::zero());
            let gradient = [&along.values[l][..], &along.deltas[l + 1]];
            // The input itself does not depend on theta.
            let x = [&tape.values[l][..], if l == 0 { &[] } else { &before[l] }];
            layer.tangent_along(theta, gradient, x, scratch, z);
            if l < last {
                through_relu(&tape.values[l + 1], z);
            }
        }
        tape.seed_cross_entropy_tangent();
        for l in (1..=last).rev() {
            let (layer, h) = (&self.layers[l], &tape.values[l]);
            let (below, above) = tape.delta_tangents.split_at_mut(l + 1);
            let dx = &mut below[l];
            dx.resize(h.len(), T::zero());
            if l < last {
                layer.backward_through(theta, &above[0], &tape.nonzeros[l].columns, dx);
            } else {
                layer.backward(theta, &above[0], dx);
            }
            let gradient = [&along.values[l][..], &along.deltas[l + 1]];
            layer.backward_along(gradient, &tape.deltas[l + 1], &mut tape.factor, dx);
            through_relu(h, dx);
        }
        self.accumulate_tangent(tape, scale, into);
    }

    /// With `V = a^T e` and `U = b^T f`, the sum over all entries of `V U` is that of `(a b^T) (e f^T)`; for the biases,
    /// of `e f^T`.
    fn gradient_dot(
        &self,
        one: &Tape<T>,
        other: &Tape<T>,
        [inputs, deltas]: [&mut Vec<T>; 2],
    ) -> Option<f64> {
        let mut sum = 0.0;
        for (l, layer) in self.layers.iter().enumerate() {
            for (width, of, factor) in [
                (layer.inputs, [&one.values[l], &other.values[l]], &mut *inputs),
                (layer.outputs, [&one.deltas[l + 1], &other.deltas[l + 1]], &mut *deltas),
            ] {
                factor.resize(one.batch * other.batch, T::zero());
                product_transposed(of[0], of[1], width, false, factor);
            }
            sum += inputs.iter().zip(&*deltas).map(|(x, d)| (x.wide() + 1.0) * d.wide()).sum::<f64>();
        }
        Some(sum)
    }

    /// Passes over the same inputs share the product of the first layer.
    fn accumulate_difference(&self, plus: &mut Tape<T>, minus: &mut Tape<T>, scale: T, into: &mut [T]) {
        let shared = usize::from(plus.values[0] == minus.values[0]);
        if shared == 1 {
            let deltas = plus.deltas[1].iter().zip(&minus.deltas[1]).map(|(&a, &b)| a - b);
            plus.factor.clear();
            plus.factor.extend(deltas);
            if plus.nonzeros[0].few_columns {
                self.first().accumulate_sparse(&plus.nonzeros[0].columns, &plus.factor, scale, into);
            } else {
                self.first().accumulate(&plus.values[0], &plus.factor, scale, into);
            }
        }
        self.accumulate_from(shared, plus, scale, into);
        self.accumulate_from(shared, minus, -scale, into);
    }

    fn infer(&self, theta: &[T], inputs: &Inputs<'_, T>, layer: Layer) -> Vec<T> {
        self.infer_folded(theta, &self.fold(theta, inputs), inputs, layer)
    }

    /// Whole numbers answer most rows (`screen.rs`), and the others are left to [`Net::infer`].
    fn answers(&self, theta: &[T], inputs: &Inputs<'_, T>, allowed: &[usize]) -> Vec<u32> {
        let first = self.fold(theta, inputs);
        let screened = match (inputs.whole, inputs.rows) {
            // To prepare the weights takes as long as some hundred rows.
            (Some(whole), RowsRef::Sparse(rows)) if pairs_pay() && rows.len() >= SCREEN_FROM => {
                let screen = Screen::new(&self.layers, theta, &first);
                screen.map(|screen| (rows, screen.answers(whole, allowed)))
            }
            _ => None,
        };
        let best = |logits: Vec<T>| best_classes(&logits, self.layers[self.last()].outputs, allowed);
        let Some((rows, screened)) = screened else {
            return best(self.infer_folded(theta, &first, inputs, Layer::Logits));
        };
        let doubtful: Vec<usize> = (0..rows.len()).filter(|&i| screened[i].is_none()).collect();
        let doubtful = rows.chosen(&doubtful);
        let mut rest =
            best(self.infer_folded(theta, &first, &Inputs::sparse(&doubtful), Layer::Logits)).into_iter();
        screened.into_iter().map(|answer| answer.or_else(|| rest.next()).unwrap_or(0)).collect()
    }
}

impl Mlp {
    /// A forward pass at theta, or at theta - rate * gradient for a step `(along, rate)`.
    fn pass<T: Scalar>(
        &self,
        theta: &[T],
        x: &[T],
        tape: &mut Tape<T>,
        mut first: First<'_, T>,
        step: Option<(&Tape<T>, T)>,
    ) {
        let width = self.first().inputs;
        assert!(x.len().is_multiple_of(width), "{} values are not rows of {width}", x.len());
        tape.batch = x.len() / width;
        let count = self.layers.len();
        let (values, nonzeros) = (resize(&mut tape.values, count + 1), &mut tape.nonzeros);
        nonzeros.resize_with(count, Nonzeros::default);
        for (l, (layer, nonzeros)) in self.layers.iter().zip(nonzeros).enumerate() {
            let (before, z) = values.split_at_mut(l + 1);
            let (h, z) = (if l == 0 { x } else { &before[l] }, &mut z[0]);
            z.resize(tape.batch * layer.outputs, T::zero());
            let relu = l < self.last();
            let fused = step.is_none() && (l > 0 || matches!(first, First::Fused));
            if let (0, First::Kept(kept)) = (l, &first) {
                z.copy_from_slice(kept);
            } else {
                match l {
                    0 => nonzeros.load(x, width),
                    // Narrow, and the last: dense in any case.
                    _ if !relu => (nonzeros.few, nonzeros.few_columns) = (false, false),
                    _ => nonzeros.load_hidden(h, layer.inputs),
                }
                let rows = if nonzeros.few { Rows::Sparse(&nonzeros.rows) } else { Rows::Dense(h) };
                layer.forward(&rows, layer.weights(theta), layer.bias(theta), relu && fused, z);
            }
            if let (0, First::Keep(keep)) = (l, &mut first) {
                keep.clone_from(z);
            }
            if let Some((along, rate)) = step {
                let moved = &mut resize(&mut tape.value_tangents, count + 1)[l + 1];
                moved.resize(z.len(), T::zero());
                let gradient = [&along.values[l][..], &along.deltas[l + 1]];
                layer.tangent_along(theta, gradient, [h, &[]], [&mut tape.factor, &mut tape.row], moved);
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

    /// The first layer's weights, seen through the map of `inputs`: x' W with x' = A x is x (A^T W), so the map
    /// moves into the weights, once for all rows.
    fn fold<'t, T: Scalar>(&self, theta: &'t [T], inputs: &Inputs<'_, T>) -> Cow<'t, [T]> {
        let weights = self.first().weights(theta);
        match inputs.map {
            Some(map) => Cow::Owned(map.fold(weights, self.first().outputs)),
            None => Cow::Borrowed(weights),
        }
    }

    /// [`Net::infer`] with the first layer's weights given, whatever map `inputs` have.
    fn infer_folded<T: Scalar>(
        &self,
        theta: &[T],
        first_weights: &[T],
        inputs: &Inputs<'_, T>,
        layer: Layer,
    ) -> Vec<T> {
        let (upto, width) = match layer {
            Layer::Features => (self.last() - 1, self.layers[self.last()].inputs),
            Layer::Logits => (self.last(), self.layers[self.last()].outputs),
        };
        let panels: Vec<Panels<T>> = self.layers[..self.last()]
            .iter()
            .enumerate()
            .map(|(l, layer)| {
                Panels::new(if l == 0 { first_weights } else { layer.weights(theta) }, layer.outputs)
            })
            .collect();
        let mut values = vec![Vec::new(); self.layers.len() + 1];
        let mut hidden = SparseRows::new(0);
        let (mut block, mut out) = (Vec::new(), Vec::with_capacity(inputs.len() * width));
        for start in (0..inputs.len()).step_by(BLOCK) {
            let range = start..(start + BLOCK).min(inputs.len());
            let batch = range.len();
            for (l, layer) in self.layers[..=upto].iter().enumerate() {
                let (before, z) = values.split_at_mut(l + 1);
                let rows = match inputs.rows {
                    RowsRef::Pixels(pixels, chosen) if l == 0 => {
                        block.clear();
                        chosen[range.clone()].iter().for_each(|&i| pixels.push(i as usize, &mut block));
                        Rows::Dense(&block)
                    }
                    RowsRef::Dense { x, width } if l == 0 => {
                        Rows::Dense(&x[range.start * width..range.end * width])
                    }
                    RowsRef::Sparse(rows) if l == 0 => Rows::Panels(rows, range.clone(), &panels[0]),
                    _ if l == self.last() => Rows::Dense(&before[l]),
                    // ReLU leaves about half.
                    _ => {
                        hidden.clear(layer.inputs);
                        before[l].chunks_exact(layer.inputs).for_each(|row| hidden.push_slice(row));
                        Rows::Panels(&hidden, 0..batch, &panels[l])
                    }
                };
                z[0].resize(batch * layer.outputs, T::zero());
                let weights = if l == 0 { first_weights } else { layer.weights(theta) };
                layer.forward(&rows, weights, layer.bias(theta), l < self.last(), &mut z[0]);
            }
            out.extend_from_slice(&values[upto + 1]);
        }
        out
    }
}

impl<T: Scalar> Nonzeros<T> {
    /// Finds the non-zero entries of an input and decides whether the first layer works on those alone.
    fn load(&mut self, x: &[T], width: usize) {
        let mut nonzeros = 0;
        count_nonzeros(x, &mut nonzeros);
        self.few = (nonzeros as f64) < DENSE_FROM * x.len() as f64;
        self.few_columns = self.few;
        if self.few {
            self.find(x, width);
        }
    }

    /// Finds those of a hidden layer, which the way back needs in any case.
    fn load_hidden(&mut self, h: &[T], width: usize) {
        self.find(h, width);
        let share = self.rows.nonzeros() as f64 / h.len().max(1) as f64;
        // A single row reads all weights once in either case: the fewer the better.
        self.few = share < DENSE_FROM || self.rows.len() == 1;
        self.few_columns = share < DENSE_GRADIENT_FROM;
    }

    fn find(&mut self, x: &[T], width: usize) {
        self.rows.clear(width);
        self.rows.reserve(x.len());
        x.chunks_exact(width).for_each(|row| self.rows.push_slice(row));
    }

    /// The same by column, for the way back.
    fn transpose(&mut self) {
        self.rows.transpose_into(&mut self.columns);
    }
}
