//! Quantization and dequantization around the int16 products.

use crate::kernels::dispatch_fixed;

/// Entries processed at a time.
const LANES: usize = 16;

/// 1.5 * 2^23: adding it to a number below 2^15 leaves the nearest integer in the lowest bits.
const MAGIC: f32 = 12_582_912.0;

/// The largest integer that stands for an activation, unless the weights allow more.
pub(super) const MAX_ACTIVATION: f32 = 2047.0;

dispatch_fixed! {
    /// `h = max(0, sum * row scale * column scale + bias)`. `norms` receives the squared norm, the maximum
    /// and the number of non-zeros of each row.
    pub(super) dequantize_relu = dequantize_relu_body(sums: &[i32], row_scales: &[f32], scales: &[f32], bias: &[f32], h: &mut [f32], norms: &mut [[f32; 3]])
}

#[inline(always)]
fn dequantize_relu_body(
    sums: &[i32],
    row_scales: &[f32],
    scales: &[f32],
    bias: &[f32],
    h: &mut [f32],
    norms: &mut [[f32; 3]],
) {
    let n = scales.len();
    let rows = sums.chunks_exact(n).zip(h.chunks_exact_mut(n));
    for (((sums, h), &row_scale), norms) in rows.zip(row_scales).zip(norms) {
        let [mut square, mut most, mut count] = [[0.0f32; LANES]; 3];
        let columns = scales.as_chunks::<LANES>().0.iter().zip(bias.as_chunks::<LANES>().0);
        let entries = sums.as_chunks::<LANES>().0.iter().zip(h.as_chunks_mut::<LANES>().0);
        for ((sums, h), (scales, bias)) in entries.zip(columns) {
            for q in 0..LANES {
                let z = sums[q] as f32 * (row_scale * scales[q]) + bias[q];
                h[q] = z.max(0.0);
                square[q] += h[q] * h[q];
                most[q] = most[q].max(h[q]);
                count[q] += if h[q] > 0.0 { 1.0 } else { 0.0 };
            }
        }
        let most = most.iter().fold(0.0, |most: f32, &h| most.max(h));
        *norms = [square.iter().sum(), most, count.iter().sum()];
    }
}

dispatch_fixed! {
    /// Rounds activations to integers. The maximum of row `i`, `norms[i][1]`, becomes `largest`; `scales[i]`
    /// receives the scale, and `norms[i][1]` the squared rounding error.
    pub(super) quantize_activations = quantize_activations_body(h: &[f32], largest: f32, norms: &mut [[f32; 3]], scales: &mut [f32], integers: &mut [i16])
}

#[inline(always)]
fn quantize_activations_body(
    h: &[f32],
    largest: f32,
    norms: &mut [[f32; 3]],
    scales: &mut [f32],
    integers: &mut [i16],
) {
    let n = h.len() / norms.len().max(1);
    let rows = h.chunks_exact(n).zip(integers.chunks_exact_mut(n));
    for (((h, integers), norms), scale) in rows.zip(norms).zip(scales) {
        *scale = norms[1] / largest;
        let inverse = if *scale > 0.0 { 1.0 / *scale } else { 0.0 };
        let mut error = [0.0f32; LANES];
        for (h, integers) in h.as_chunks::<LANES>().0.iter().zip(integers.as_chunks_mut::<LANES>().0) {
            for q in 0..LANES {
                let shifted = h[q] * inverse + MAGIC;
                integers[q] = shifted.to_bits() as i16;
                let difference = h[q] - (shifted - MAGIC) * *scale;
                error[q] += difference * difference;
            }
        }
        norms[1] = error.iter().sum();
    }
}

dispatch_fixed! {
    /// `to[i] = value[i] / scales[i]`, rounded to the nearest integer; no quotient is above 2^15. `norms`
    /// receives the squared norm of the values and of their rounding errors.
    pub(super) quantize_row = quantize_row_body(values: &[f32], scales: &[f32], to: &mut [i16], norms: &mut [f32; 2])
}

#[inline(always)]
fn quantize_row_body(values: &[f32], scales: &[f32], to: &mut [i16], norms: &mut [f32; 2]) {
    let [mut square, mut error] = [[0.0f32; LANES]; 2];
    let parts = values.chunks(LANES).zip(scales.chunks(LANES)).zip(to.chunks_mut(LANES));
    for ((values, scales), to) in parts {
        for (q, ((&value, &scale), to)) in values.iter().zip(scales).zip(to).enumerate() {
            let shifted = value / scale + MAGIC;
            *to = shifted.to_bits() as i16;
            let difference = value - (shifted - MAGIC) * scale;
            square[q] += value * value;
            error[q] += difference * difference;
        }
    }
    *norms = [square.iter().sum(), error.iter().sum()];
}

dispatch_fixed! {
    /// `largest = max(largest, |row|)` and `sums += |row|`, elementwise.
    pub(super) accumulate_abs = accumulate_abs_body(row: &[f32], largest: &mut [f32], sums: &mut [f32])
}

#[inline(always)]
fn accumulate_abs_body(row: &[f32], largest: &mut [f32], sums: &mut [f32]) {
    for ((&w, largest), sum) in row.iter().zip(largest).zip(sums) {
        *largest = largest.max(w.abs());
        *sum += w.abs();
    }
}

dispatch_fixed! {
    /// The squared distance of `a` and `b` over the entries whose `sum * row scale * column scale + bias` is
    /// above `least`.
    pub(super) active_distance_squared = active_distance_squared_body(a: &[f32], b: &[f32], sums: &[i32], scales: &[f32], bias: &[f32], scale: [f32; 2], out: &mut f32)
}

#[inline(always)]
fn active_distance_squared_body(
    a: &[f32],
    b: &[f32],
    sums: &[i32],
    scales: &[f32],
    bias: &[f32],
    [row_scale, least]: [f32; 2],
    out: &mut f32,
) {
    let mut square = [0.0f32; LANES];
    let lanes = a.as_chunks::<LANES>().0.iter().zip(b.as_chunks::<LANES>().0);
    let columns = scales.as_chunks::<LANES>().0.iter().zip(bias.as_chunks::<LANES>().0);
    for (((a, b), sums), (scales, bias)) in lanes.zip(sums.as_chunks::<LANES>().0).zip(columns) {
        for q in 0..LANES {
            let active = sums[q] as f32 * (row_scale * scales[q]) + bias[q] > least;
            square[q] += if active { (a[q] - b[q]) * (a[q] - b[q]) } else { 0.0 };
        }
    }
    *out = square.iter().sum();
}
