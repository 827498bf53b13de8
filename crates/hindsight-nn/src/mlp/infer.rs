//! Evaluation of a perceptron on many inputs.

use std::{borrow::Cow, ops::Range};

use super::Mlp;
use crate::{
    input::{InputRows, Inputs},
    kernels::{PackedMatrix, Scalar, SparseRows},
    layers::linear::LinearInput,
    net::{Layer, argmax_rows},
    quantized::{QuantizedMlp, QuantizedRows, int16_is_faster},
};

/// Rows evaluated at a time: enough for the products to run at full speed, few enough for the activations to
/// stay in the cache.
const BLOCK: usize = 240;

/// Number of rows from which a packed copy of the weights pays. To copy them takes longer than to answer a
/// single row, as a program that asks line by line does.
const PACK_FROM: usize = 16;

/// Number of rows from which int16 evaluation pays: quantizing the weights takes as long as some hundred
/// rows.
const QUANTIZE_FROM: usize = 1000;

impl Mlp {
    /// [`Net::predict_classes`](crate::Net::predict_classes).
    pub(super) fn predict<T: Scalar>(
        &self,
        theta: &[T],
        inputs: &Inputs<'_, T>,
        allowed: &[usize],
    ) -> Vec<u32> {
        let first = self.fold_map(theta, inputs);
        let classes = self.layers[self.last()].outputs;
        let answer = |inputs: &Inputs<'_, T>| {
            let mut all = Vec::with_capacity(inputs.len());
            self.infer_folded(theta, &first, inputs, Layer::Logits, &mut |rows| {
                all.extend(argmax_rows(rows, classes, allowed));
            });
            all
        };
        let certain =
            self.quantized(theta, &first, inputs).map(|(rows, mlp)| mlp.predict_classes(rows, allowed));
        let (Some(certain), InputRows::Sparse(rows)) = (certain, inputs.rows) else {
            return answer(inputs);
        };
        let uncertain: Vec<usize> = (0..rows.len()).filter(|&i| certain[i].is_none()).collect();
        let uncertain = rows.select(&uncertain);
        let mut rest = answer(&Inputs::sparse(&uncertain)).into_iter();
        certain.into_iter().map(|class| class.or_else(|| rest.next()).unwrap_or(0)).collect()
    }

    /// The int16 copies of `inputs` and of the network, where int16 evaluation pays.
    pub(super) fn quantized<'i, T: Scalar>(
        &self,
        theta: &[T],
        first_weights: &[T],
        inputs: &Inputs<'i, T>,
    ) -> Option<(&'i QuantizedRows, QuantizedMlp)> {
        let pays = matches!(inputs.rows, InputRows::Sparse(rows) if rows.len() >= QUANTIZE_FROM);
        let rows = inputs.quantized.filter(|_| pays && int16_is_faster())?;
        Some((rows, QuantizedMlp::new(&self.layers, theta, first_weights)?))
    }

    /// The weights of the first layer with the map of `inputs` folded in: x' W with x' = A x is x (A^T W).
    pub(super) fn fold_map<'t, T: Scalar>(&self, theta: &'t [T], inputs: &Inputs<'_, T>) -> Cow<'t, [T]> {
        let weights = self.first().weights(theta);
        match inputs.map {
            Some(map) => Cow::Owned(map.fold(weights, self.first().outputs)),
            None => Cow::Borrowed(weights),
        }
    }

    /// [`Net::infer_blocks`](crate::Net::infer_blocks) with the given weights of the first layer. Ignores the
    /// map of `inputs`.
    pub(super) fn infer_folded<T: Scalar>(
        &self,
        theta: &[T],
        first_weights: &[T],
        inputs: &Inputs<'_, T>,
        layer: Layer,
        visit: &mut dyn FnMut(&[T]),
    ) {
        let last_layer = match layer {
            Layer::Features => self.last() - 1,
            Layer::Logits => self.last(),
        };
        let sparse = |l: usize| l > 0 || matches!(inputs.rows, InputRows::Sparse(_));
        let packed: Vec<Option<PackedMatrix<T>>> = self.layers[..self.last()]
            .iter()
            .enumerate()
            .map(|(l, layer)| {
                let weights = if l == 0 { first_weights } else { layer.weights(theta) };
                let pays = inputs.len() >= PACK_FROM && sparse(l);
                pays.then(|| PackedMatrix::new(weights, layer.outputs))
            })
            .collect();
        let mut values = vec![Vec::new(); self.layers.len() + 1];
        let mut hidden = SparseRows::new(0);
        let mut block = Vec::new();
        for start in (0..inputs.len()).step_by(BLOCK) {
            let range = start..(start + BLOCK).min(inputs.len());
            let batch = range.len();
            for (l, layer) in self.layers[..=last_layer].iter().enumerate() {
                let (before, z) = values.split_at_mut(l + 1);
                let rows = match inputs.rows {
                    InputRows::Pixels(pixels, chosen) if l == 0 => {
                        block.clear();
                        chosen[range.clone()].iter().for_each(|&i| pixels.push(i as usize, &mut block));
                        LinearInput::Dense(&block)
                    }
                    InputRows::Dense { x, width } if l == 0 => {
                        LinearInput::Dense(&x[range.start * width..range.end * width])
                    }
                    InputRows::Sparse(rows) if l == 0 => sparse_input(rows, range.clone(), &packed[0]),
                    _ if l == self.last() => LinearInput::Dense(&before[l]),
                    // ReLU leaves about half of the entries.
                    _ => {
                        hidden.clear(layer.inputs);
                        before[l].chunks_exact(layer.inputs).for_each(|row| hidden.push_slice(row));
                        sparse_input(&hidden, 0..batch, &packed[l])
                    }
                };
                z[0].resize(batch * layer.outputs, T::zero());
                let weights = if l == 0 { first_weights } else { layer.weights(theta) };
                layer.forward(&rows, weights, layer.bias(theta), l < self.last(), &mut z[0]);
            }
            visit(&values[last_layer + 1]);
        }
    }
}

/// Sparse rows as the input of a layer. Few rows, whose weights are not packed, are all of `rows`; the bits
/// are the same either way.
fn sparse_input<'a, T>(
    rows: &'a SparseRows<T>,
    range: Range<usize>,
    packed: &'a Option<PackedMatrix<T>>,
) -> LinearInput<'a, T> {
    match packed {
        Some(packed) => LinearInput::Packed(rows, range, packed),
        None => LinearInput::Sparse(rows),
    }
}
