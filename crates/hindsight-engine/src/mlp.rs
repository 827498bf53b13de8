//! The multi-layer perceptron: linear layers with ReLU between them. phi(x) is the last hidden layer.
//!
//! theta holds the layers one after the other, each as its weights `[inputs, outputs]` and its biases.

use crate::{
    Inputs, Layer, Net, Rng, Scalar, Tape,
    input::RowsRef,
    kernels::{Panels, count_nonzeros, through_relu},
    layers::linear::{Linear, Rows},
    net::resize,
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

/// Above this share of non-zero inputs, the dense product of the first layer is the faster one.
const DENSE_FROM: f64 = 0.4;

/// Rows that are evaluated at a time: enough for the products to run at full speed, few enough for the
/// activations to stay in the cache.
const BLOCK: usize = 240;

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

    fn first(&self) -> &Linear {
        &self.layers[0]
    }

    fn last(&self) -> usize {
        self.layers.len() - 1
    }

    /// All layers on `x`; `values[l + 1]` is the output of layer `l`, up to and including layer `upto`.
    fn propagate<T: Scalar>(
        &self,
        first_weights: &[T],
        theta: &[T],
        x: &Rows<'_, T>,
        batch: usize,
        upto: usize,
        values: &mut [Vec<T>],
    ) {
        for (l, layer) in self.layers[..=upto].iter().enumerate() {
            let (before, z) = values.split_at_mut(l + 1);
            z[0].resize(batch * layer.outputs, T::zero());
            let input = if l == 0 { x } else { &Rows::Dense(&before[l]) };
            let weights = if l == 0 { first_weights } else { layer.weights(theta) };
            layer.forward(input, weights, layer.bias(theta), l < self.last(), &mut z[0]);
        }
    }
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
        let width = self.first().inputs;
        assert!(x.len().is_multiple_of(width), "{} values are not rows of {width}", x.len());
        tape.batch = x.len() / width;
        tape.load(x, width);
        let mut values = std::mem::take(&mut tape.values);
        resize(&mut values, self.layers.len() + 1);
        let rows = if tape.sparse {
            Rows::Sparse(&tape.rows)
        } else {
            values[0].clear();
            values[0].extend_from_slice(x);
            Rows::Dense(x)
        };
        self.propagate(self.first().weights(theta), theta, &rows, tape.batch, self.last(), &mut values);
        tape.values = values;
    }

    fn backward(&self, theta: &[T], tape: &mut Tape<T>) {
        for l in (1..=self.last()).rev() {
            let (below, above) = tape.deltas.split_at_mut(l + 1);
            let (dx, h) = (&mut below[l], &tape.values[l]);
            dx.resize(h.len(), T::zero());
            self.layers[l].backward(theta, &above[0], dx);
            if l == self.last() && !tape.feature_cotangent.is_empty() {
                dx.iter_mut().zip(&tape.feature_cotangent).for_each(|(d, &c)| *d += c);
            }
            through_relu(h, dx);
        }
    }

    fn accumulate(&self, tape: &mut Tape<T>, scale: T, into: &mut [T]) {
        for (l, layer) in self.layers.iter().enumerate() {
            if l == 0 && tape.sparse {
                layer.accumulate_sparse(&tape.columns, &tape.deltas[1], scale, into);
            } else {
                layer.accumulate(&tape.values[l], &tape.deltas[l + 1], scale, into);
            }
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
            let x = match l {
                0 if tape.sparse => Rows::Sparse(&tape.rows),
                _ => Rows::Dense(&tape.values[l]),
            };
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
            self.layers[l].backward_tangent(theta, v, [&tape.deltas[l + 1], &above[0]], dx);
            through_relu(h, dx);
        }
    }

    fn accumulate_tangent(&self, tape: &mut Tape<T>, scale: T, into: &mut [T]) {
        for (l, layer) in self.layers.iter().enumerate() {
            let (delta, tangent) = (&tape.deltas[l + 1], &tape.delta_tangents[l + 1]);
            // The input itself does not depend on theta.
            match l {
                0 if tape.sparse => layer.accumulate_sparse(&tape.columns, tangent, scale, into),
                0 => layer.accumulate(&tape.values[0], tangent, scale, into),
                _ => {
                    let values = [&tape.values[l][..], &tape.value_tangents[l]];
                    layer.accumulate_tangent(values, [delta, tangent], scale, into);
                }
            }
        }
    }

    fn infer(&self, theta: &[T], inputs: &Inputs<'_, T>, layer: Layer) -> Vec<T> {
        let (upto, width) = match layer {
            Layer::Features => (self.last() - 1, self.layers[self.last()].inputs),
            Layer::Logits => (self.last(), self.layers[self.last()].outputs),
        };
        // x' W with x' = A x is x (A^T W): the map moves into the weights, once for all rows.
        let folded = inputs.map.map(|map| map.fold(self.first().weights(theta), self.first().outputs));
        let first_weights = folded.as_deref().unwrap_or(self.first().weights(theta));
        let panels = matches!(inputs.rows, RowsRef::Sparse(_))
            .then(|| Panels::new(first_weights, self.first().outputs));
        let mut values = vec![Vec::new(); self.layers.len() + 1];
        let (mut block, mut out) = (Vec::new(), Vec::with_capacity(inputs.len() * width));
        for start in (0..inputs.len()).step_by(BLOCK) {
            let range = start..(start + BLOCK).min(inputs.len());
            let batch = range.len();
            let rows = match inputs.rows {
                RowsRef::Pixels(pixels, chosen) => {
                    block.clear();
                    chosen[range].iter().for_each(|&i| pixels.push(i as usize, &mut block));
                    Rows::Dense(&block)
                }
                RowsRef::Dense { x, width } => Rows::Dense(&x[range.start * width..range.end * width]),
                RowsRef::Sparse(rows) => {
                    Rows::Panels(rows, range, panels.as_ref().expect("panels of sparse rows"))
                }
            };
            self.propagate(first_weights, theta, &rows, batch, upto, &mut values);
            out.extend_from_slice(&values[upto + 1]);
        }
        out
    }
}

impl<T: Scalar> Tape<T> {
    /// Finds the non-zero entries of `x` and decides whether the first layer works on those alone.
    fn load(&mut self, x: &[T], width: usize) {
        let mut nonzeros = 0;
        count_nonzeros(x, &mut nonzeros);
        self.sparse = (nonzeros as f64) < DENSE_FROM * x.len() as f64;
        if self.sparse {
            self.rows.clear(width);
            x.chunks_exact(width).for_each(|row| self.rows.push_slice(row));
            self.rows.transpose_into(&mut self.columns);
        }
    }
}
