//! A hidden layer with int16 weights and the bound on its error.

use std::cell::RefCell;

use super::{
    SLACK, UNIT_ROUNDOFF, WEIGHT_GRID,
    int16::Int16Matrix,
    rounding::{MAX_ACTIVATION, accumulate_abs, quantize_row},
    rows::{MAX_INPUT, RowStats},
};
use crate::kernels::{Scalar, matmul_nt};

/// Covers squares that are below the smallest `f32`.
const UNDERFLOW: f64 = 1e-15;

/// A hidden layer with int16 weights. Columns of zeros fill its last panel.
pub(super) struct QuantizedLayer {
    pub(super) matrix: Int16Matrix,
    /// The largest integer in its input.
    pub(super) largest_input: f32,
    /// The value that the integer 1 stands for in each column; zero in the padding.
    pub(super) scales: Vec<f32>,
    pub(super) bias: Vec<f32>,
    /// A bound on the spectral norm of the weights.
    spectral: f64,
    /// The largest norm of a row of the weights, and of a row of their rounding errors.
    row_norm: f64,
    row_error: f64,
    frobenius: f64,
    bias_norm: f64,
}

impl QuantizedLayer {
    /// Quantizes a layer with `inputs` values as its input: that of the network, or activations. `None` if a
    /// weight is not finite.
    pub(super) fn new<T: Scalar>(
        weights: &[T],
        bias: &[T],
        inputs: usize,
        is_first: bool,
    ) -> Option<QuantizedLayer> {
        let n = bias.len();
        let rows = weights.len() / n;
        let (weights_f32, bias) = (to_f32(weights), to_f32(bias));
        // Per column: the largest weight must fit into 16 bits, and the sum of all products into 32.
        let [mut largest, mut sums] = [vec![0.0; n], vec![0.0; n]];
        weights_f32.chunks_exact(n).for_each(|row| accumulate_abs(row, &mut largest, &mut sums));
        let exact = exact_largest_input(&weights_f32, &largest, &sums, is_first);
        let largest_input = exact.unwrap_or(if is_first { MAX_INPUT } else { MAX_ACTIVATION });
        let largest_sum = f64::from(i32::MAX) / f64::from(largest_input) - rows as f64;
        // A sum is not finite if one of its terms is not.
        if largest_sum <= 0.0 || !sums.iter().chain(&bias).all(|sum| sum.is_finite()) {
            return None;
        }
        let scale = |(&largest, &sum): (&f32, &f32)| {
            let scale = (f64::from(largest) / f64::from(i16::MAX)).max(f64::from(sum) / largest_sum);
            (scale * SLACK) as f32 + f32::MIN_POSITIVE
        };
        let mut scales: Vec<f32> = match exact {
            Some(_) => vec![WEIGHT_GRID; n],
            None => largest.iter().zip(&sums).map(scale).collect(),
        };
        let (mut square, mut row_norm, mut row_error) = (0.0, 0.0f64, 0.0f64);
        let matrix = Int16Matrix::new(inputs, n, |i, to| match weights_f32.get(i * n..(i + 1) * n) {
            Some(values) => {
                let mut norms = [0.0; 2];
                quantize_row(values, &scales, to, &mut norms);
                let [norm, error] = norms.map(|square| f64::from(square).sqrt() * SLACK);
                square += norm * norm;
                row_norm = row_norm.max(norm);
                // The error itself is computed with rounding.
                row_error = row_error.max(error + 4.0 * UNIT_ROUNDOFF * norm);
            }
            // A row for a padding column of the layer before.
            None => to.fill(0),
        });
        scales.resize(matrix.padded_columns(), 0.0);
        let bias_norm = bias.iter().map(|&b| f64::from(b).powi(2)).sum::<f64>().sqrt() * SLACK;
        let mut padded = bias;
        padded.resize(matrix.padded_columns(), 0.0);
        let frobenius = square.sqrt();
        // Inputs have almost no rounding error, which is what the norm is multiplied with: any bound will do.
        let spectral =
            if is_first { frobenius } else { cached_spectral_bound(weights, weights_f32, n, frobenius) };
        Some(QuantizedLayer {
            matrix,
            largest_input,
            scales,
            bias: padded,
            spectral,
            row_norm,
            row_error,
            frobenius,
            bias_norm,
        })
    }

    /// A bound on the error of the output, given the row and the bound on the error of the input.
    pub(super) fn error_bound(&self, row: RowStats, input_error: f64) -> f64 {
        // Only the rows of the matrix count at which the input is not zero.
        let rows = row.nonzeros.sqrt();
        // The sums of `infer`, and the few roundings of the dequantization.
        let lost = (row.terms + 32.0) * UNIT_ROUNDOFF;
        let lost = lost
            * (rows * self.row_norm * (row.norm + row.error) + self.frobenius * input_error + self.bias_norm);
        let rounded = rows * self.row_error * (row.norm + row.error);
        SLACK * (self.spectral * (row.error + input_error) + rounded + lost) + UNDERFLOW
    }
}

/// A copy in `f32`.
pub(super) fn to_f32<T: Scalar>(values: &[T]) -> Vec<f32> {
    values.iter().map(|x| x.wide() as f32).collect()
}

/// The largest integer in the input with which no sum overflows, if all weights are multiples of
/// [`WEIGHT_GRID`]: they then have no rounding error.
fn exact_largest_input(weights: &[f32], largest: &[f32], sums: &[f32], is_first: bool) -> Option<f32> {
    let most = |values: &[f32]| values.iter().fold(0.0f32, |most, &x| most.max(x)) / WEIGHT_GRID;
    // Sums of multiples below 2^24 are exact in f32.
    let (weight, sum) = (most(largest), most(sums));
    let largest_input = if is_first {
        MAX_INPUT
    } else {
        (f64::from(i32::MAX) / f64::from(sum.max(1.0))).min(f64::from(i16::MAX)).floor() as f32
    };
    let fits = weight <= f32::from(i16::MAX)
        && sum < (1 << 24) as f32
        && f64::from(largest_input) * f64::from(sum) <= f64::from(i32::MAX)
        && (is_first || largest_input >= MAX_ACTIVATION);
    let is_multiple = |w: &f32| (w / WEIGHT_GRID) as i32 as f32 == w / WEIGHT_GRID;
    (fits && weights.iter().all(is_multiple)).then_some(largest_input)
}

/// Weights, their number of columns and their bound.
type KnownBound = (Vec<f32>, usize, f64);

thread_local! {
    /// The last weights, and which is replaced next: the evaluations after a task share them, those of an
    /// average over several networks too.
    static LAST: RefCell<(Vec<KnownBound>, usize)> = const { RefCell::new((Vec::new(), 0)) };
}

/// Number of weights whose bound is kept.
const KNOWN: usize = 16;

/// [`spectral_bound`] of `weights`, which are `weights_f32` in `f32`.
fn cached_spectral_bound<T: Scalar>(weights: &[T], weights_f32: Vec<f32>, n: usize, frobenius: f64) -> f64 {
    LAST.with_borrow_mut(|(known, next)| {
        if let Some((.., bound)) = known.iter().find(|(of, columns, _)| *columns == n && *of == weights_f32) {
            return *bound;
        }
        let bound = spectral_bound(weights, n, frobenius);
        match known.get_mut(*next) {
            Some(old) => *old = (weights_f32, n, bound),
            None => known.push((weights_f32, n, bound)),
        }
        *next = (*next + 1) % KNOWN;
        bound
    })
}

/// A bound on the spectral norm: its eighth power is at most the Frobenius norm of `(W W^T)^4`.
fn spectral_bound<T: Scalar>(weights: &[T], n: usize, frobenius: f64) -> f64 {
    let rows = weights.len() / n;
    let (mut matrix, mut width, mut norm) = (weights.to_vec(), n, frobenius);
    // A bound on the rounding error of `matrix`, in the Frobenius norm.
    let mut lost = 0.0;
    for _ in 0..3 {
        let mut square = vec![T::zero(); rows * rows];
        matmul_nt(&matrix, &matrix, width, false, &mut square);
        lost = 2.0 * norm * lost + lost * lost + (width + 1) as f64 * UNIT_ROUNDOFF * norm * norm;
        norm = square.iter().map(|x| x.wide() * x.wide()).sum::<f64>().sqrt();
        (matrix, width) = (square, rows);
    }
    (norm + lost).powf(0.125) * SLACK
}
