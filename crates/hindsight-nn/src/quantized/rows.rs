//! Quantized inputs.

use super::{SLACK, int16::Int16Rows};
use crate::kernels::SparseRows;

/// The largest integer that stands for an input: 8-bit pixels are exact.
pub(super) const MAX_INPUT: f32 = 255.0;

/// An int16 copy of a set of inputs, for repeated evaluation. Making one takes about as long as it saves in
/// five evaluations.
#[derive(Debug, Clone)]
pub struct QuantizedRows {
    /// Original index of each row: similar rows are next to each other.
    pub(super) order: Vec<usize>,
    pub(super) rows: Int16Rows,
    /// The value that the integer 1 stands for.
    pub(super) scale: f64,
    pub(super) stats: Vec<RowStats>,
}

/// What the error bound needs to know about a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowStats {
    pub(super) norm: f64,
    /// Distance of the rounded row from the row.
    pub(super) error: f64,
    /// Number of non-zero entries.
    pub(super) nonzeros: f64,
    /// Largest number of terms in a sum over the row in `infer`.
    pub(super) terms: f64,
}

impl QuantizedRows {
    /// Quantizes `rows`.
    pub fn new(rows: &SparseRows) -> QuantizedRows {
        let largest = (0..rows.len()).flat_map(|i| rows.row(i).1).fold(0.0f32, |most, x| most.max(x.abs()));
        let scale = if largest > 0.0 { f64::from(largest / MAX_INPUT) } else { 1.0 };
        let mut quantized = QuantizedRows {
            order: similarity_order(rows),
            rows: Int16Rows::new(rows.width()),
            scale,
            stats: Vec::new(),
        };
        let [mut one, mut two] = [vec![0i16; rows.width()], vec![0i16; rows.width()]];
        for pair in quantized.order.chunks(2) {
            one.fill(0);
            two.fill(0);
            for (&i, dense) in pair.iter().zip([&mut one, &mut two]) {
                let (columns, values) = rows.row(i);
                let (mut norm, mut error) = (0.0, 0.0);
                for (&column, &x) in columns.iter().zip(values) {
                    let number = (x / scale as f32).round();
                    dense[column as usize] = number as i16;
                    norm += f64::from(x).powi(2);
                    error += (f64::from(x) - f64::from(number) * scale).powi(2);
                }
                let (norm, error, nonzeros) =
                    (norm.sqrt() * SLACK, error.sqrt() * SLACK, columns.len() as f64);
                quantized.stats.push(RowStats { norm, error, nonzeros, terms: nonzeros });
            }
            quantized.rows.push([&one, &two]);
        }
        quantized
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.stats.len()
    }
}

/// An order in which each row is followed by the most similar of the next rows: the one that shares most of
/// its columns. The product loads the weights of a shared column once for two rows.
pub(super) fn similarity_order(rows: &SparseRows) -> Vec<usize> {
    const WINDOW: usize = 100;
    let words = rows.width().div_ceil(64);
    let mut used = vec![0u64; rows.len() * words];
    for i in 0..rows.len() {
        rows.row(i).0.iter().for_each(|&c| used[i * words + c as usize / 64] |= 1 << (c % 64));
    }
    let of = |i: usize| &used[i * words..][..words];
    let distance =
        |i: usize, j: usize| of(i).iter().zip(of(j)).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>();
    let mut rest = 0..rows.len();
    let (mut window, mut order) = (Vec::new(), Vec::with_capacity(rows.len()));
    window.extend(rest.by_ref().take(WINDOW));
    while !window.is_empty() {
        let nearest =
            |last: &usize| (0..window.len()).min_by_key(|&k| distance(*last, window[k])).unwrap_or(0);
        let next = order.last().map_or(0, nearest);
        order.push(window.swap_remove(next));
        window.extend(rest.next());
    }
    order
}
