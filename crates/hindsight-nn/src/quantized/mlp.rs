//! int16 evaluation of a perceptron.

use std::ops::Range;

use super::{
    SLACK, UNIT_ROUNDOFF,
    int16::{Int16Rows, int16_matmul},
    layer::{QuantizedLayer, to_f32},
    rounding::{active_distance_squared, dequantize_relu, quantize_activations},
    rows::{QuantizedRows, RowStats},
};
use crate::{
    kernels::{Scalar, Start, matmul},
    layers::linear::Linear,
};

/// Rows that are processed at a time.
pub(super) const BLOCK: usize = 60;

/// A perceptron with int16 hidden layers.
pub(crate) struct QuantizedMlp {
    hidden: Vec<QuantizedLayer>,
    /// The last layer in f32: weights `[units, columns]` and biases `[columns]`, padded with zeros, and the
    /// weights transposed, `[classes, units]`.
    weights: Vec<f32>,
    bias: Vec<f32>,
    by_class: Vec<f32>,
    /// `|w_a - w_b|`, `[classes, classes]`.
    weight_distances: Vec<f64>,
    classes: usize,
    /// The largest `|w_a|` and the largest bias.
    largest_norm: f64,
    largest_bias: f64,
}

impl QuantizedMlp {
    /// Quantizes a perceptron. `first` are the weights of the first layer, into which a map may have been
    /// folded. `None` if a weight is not finite.
    pub(crate) fn new<T: Scalar>(layers: &[Linear], theta: &[T], first: &[T]) -> Option<QuantizedMlp> {
        let (last, hidden) = layers.split_last()?;
        let mut quantized: Vec<QuantizedLayer> = Vec::new();
        for layer in hidden {
            let bias = layer.bias(theta);
            quantized.push(match quantized.last() {
                None => QuantizedLayer::new(first, bias, layer.inputs, true)?,
                Some(below) => QuantizedLayer::new(layer.weights(theta), bias, below.scales.len(), false)?,
            });
        }
        let (classes, units) = (last.outputs, quantized.last()?.scales.len());
        // Full tiles are faster than partial ones.
        let columns = classes.next_multiple_of(16);
        let mut weights = vec![0.0; units * columns];
        for (to, from) in
            weights.chunks_exact_mut(columns).zip(to_f32(last.weights(theta)).chunks_exact(classes))
        {
            to[..classes].copy_from_slice(from);
        }
        let mut bias = to_f32(last.bias(theta));
        bias.resize(columns, 0.0);
        let by_class: Vec<f32> =
            (0..classes * units).map(|i| weights[i % units * columns + i / units]).collect();
        let of = |class: usize| &by_class[class * units..][..units];
        let distance = |i: usize| {
            let pairs = of(i / classes).iter().zip(of(i % classes));
            pairs.map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2)).sum::<f64>().sqrt() * SLACK
        };
        let norm = |class: usize| of(class).iter().map(|&w| f64::from(w).powi(2)).sum::<f64>().sqrt();
        let largest_norm = (0..classes).map(norm).fold(0.0, f64::max);
        let largest_bias = bias.iter().fold(0.0, |most: f64, &b| most.max(f64::from(b).abs()));
        let weight_distances = (0..classes * classes).map(distance).collect();
        Some(QuantizedMlp {
            hidden: quantized,
            weights,
            bias,
            by_class,
            weight_distances,
            classes,
            largest_norm,
            largest_bias,
        })
    }

    /// The class with the largest logit among `allowed` for each row, `None` where the error bound is not
    /// met.
    pub(crate) fn predict_classes(&self, inputs: &QuantizedRows, allowed: &[usize]) -> Vec<Option<u32>> {
        let mut predicted = vec![None; inputs.len()];
        self.for_each_row(inputs, |original, i, logits, pass| {
            predicted[original] = self.certain_class(logits, allowed, pass, i);
        });
        predicted
    }

    /// The logits of each row, `[_, classes]`, and a bound on the error of the difference of any two of them.
    pub(crate) fn bounded_logits(&self, inputs: &QuantizedRows) -> (Vec<f32>, Vec<f32>) {
        let (mut all, mut bounds) = (vec![0.0; inputs.len() * self.classes], vec![0.0; inputs.len()]);
        let farthest = self.weight_distances.iter().fold(0.0, |most: f64, &distance| most.max(distance));
        self.for_each_row(inputs, |original, i, logits, pass| {
            all[original * self.classes..][..self.classes].copy_from_slice(&logits[..self.classes]);
            let bound = farthest * pass.errors[i] + self.lost(pass, i);
            bounds[original] = (bound * SLACK) as f32;
        });
        (all, bounds)
    }

    /// Passes the original index of each row, its index in a block, its logits, padded, and the block to
    /// `visit`.
    fn for_each_row(
        &self,
        inputs: &QuantizedRows,
        mut visit: impl FnMut(usize, usize, &[f32], &ForwardBuffers),
    ) {
        let columns = self.bias.len();
        let (mut pass, mut logits) = (ForwardBuffers::default(), Vec::new());
        for start in (0..inputs.len()).step_by(BLOCK) {
            let range = start..(start + BLOCK).min(inputs.len());
            self.forward(inputs, range.clone(), &mut pass);
            logits.resize(pass.scales.len() * columns, 0.0);
            matmul(&pass.h, &self.weights, columns, Start::Bias(&self.bias), false, &mut logits);
            for (i, (row, &original)) in logits.chunks_exact(columns).zip(&inputs.order[range]).enumerate() {
                visit(original, i, row, &pass);
            }
        }
    }

    /// What rounding in f32 adds to the error of the difference of two logits, here and in `infer`.
    fn lost(&self, pass: &ForwardBuffers, i: usize) -> f64 {
        let (row, error) = (pass.stats[i], pass.errors[i]);
        let lost =
            (row.terms + 16.0) * UNIT_ROUNDOFF * (self.largest_norm * (row.norm + error) + self.largest_bias);
        4.0 * SLACK * lost
    }

    /// Passes rows through the hidden layers.
    pub(super) fn forward(&self, inputs: &QuantizedRows, range: Range<usize>, pass: &mut ForwardBuffers) {
        let ForwardBuffers { sums, h, integers, rows, norms, scales, stats, errors } = pass;
        // Rows are processed in pairs.
        let batch = range.len().next_multiple_of(2);
        stats.clear();
        stats.extend_from_slice(&inputs.stats[range.clone()]);
        errors.clear();
        errors.resize(batch, 0.0);
        scales.clear();
        scales.resize(batch, inputs.scale as f32);
        norms.resize(batch, [0.0; 3]);
        for (l, layer) in self.hidden.iter().enumerate() {
            let n = layer.scales.len();
            sums.resize(batch * n, 0);
            match l {
                0 => int16_matmul(&inputs.rows, range.start / 2..range.end.div_ceil(2), &layer.matrix, sums),
                _ => int16_matmul(rows, 0..batch / 2, &layer.matrix, sums),
            }
            h.resize(batch * n, 0.0);
            dequantize_relu(sums, scales, &layer.scales, &layer.bias, h, norms);
            if let Some(next) = self.hidden.get(l + 1) {
                integers.resize(batch * n, 0);
                quantize_activations(h, next.largest_input, norms, scales, integers);
                rows.clear(n);
                integers.chunks_exact(2 * n).for_each(|two| rows.push(two.split_at(n).into()));
            }
            for ((stats, error), &[square, rounded, nonzeros]) in
                stats.iter_mut().zip(&mut *errors).zip(&*norms)
            {
                *error = layer.error_bound(*stats, *error);
                // After the last hidden layer nothing is rounded, and the error is not used.
                let norm = |square: f32| f64::from(square).sqrt() * SLACK;
                *stats = RowStats {
                    norm: norm(square),
                    error: norm(rounded),
                    nonzeros: f64::from(nonzeros),
                    terms: n as f64,
                };
            }
        }
    }

    /// The class with the largest logit in row `i`, if it leads by more than the error bound.
    fn certain_class(
        &self,
        logits: &[f32],
        allowed: &[usize],
        pass: &ForwardBuffers,
        i: usize,
    ) -> Option<u32> {
        let (error, lost) = (pass.errors[i], self.lost(pass, i));
        let best = allowed.iter().copied().max_by(|&a, &b| logits[a].total_cmp(&logits[b]))?;
        // A comparison with NaN is false, so NaN falls back to `infer`.
        let lead = |class: usize| f64::from(logits[best]) - f64::from(logits[class]) - lost;
        let certain = |class: usize| {
            class == best
                || lead(class) > self.weight_distances[best * self.classes + class] * error
                || lead(class) > self.active_weight_distance(best, class, pass, i) * error
        };
        allowed.iter().all(|&class| certain(class)).then_some(best as u32)
    }

    /// `|w_a - w_b|` over the units that can be active in row `i`. A unit whose input is below zero by more
    /// than the error bound is not active in `infer` either.
    fn active_weight_distance(&self, a: usize, b: usize, pass: &ForwardBuffers, i: usize) -> f64 {
        let Some(QuantizedLayer { scales, bias, .. }) = self.hidden.last() else { return f64::NAN };
        let n = scales.len();
        let [a, b] = [a, b].map(|class| &self.by_class[class * n..][..n]);
        let least = -(pass.errors[i] * SLACK) as f32;
        let mut square = 0.0;
        let sums = &pass.sums[i * n..][..n];
        active_distance_squared(a, b, sums, scales, bias, [pass.scales[i], least], &mut square);
        f64::from(square).sqrt() * SLACK
    }
}

/// The state of a block of rows between layers.
#[derive(Debug, Default)]
pub(super) struct ForwardBuffers {
    sums: Vec<i32>,
    /// Activations, in f32 and as integers.
    pub(super) h: Vec<f32>,
    integers: Vec<i16>,
    rows: Int16Rows,
    /// Per row: squared norm, squared rounding error, number of non-zeros.
    norms: Vec<[f32; 3]>,
    /// The value that the integer 1 stands for in each row.
    scales: Vec<f32>,
    stats: Vec<RowStats>,
    /// Bound on the distance of each row of activations from that of `infer`.
    pub(super) errors: Vec<f64>,
}
