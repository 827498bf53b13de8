//! From real values to whole numbers and back: what surrounds the products of whole numbers.

use super::versions;

/// Entries that are worked on at a time.
const LANES: usize = 16;

/// Added to a number below 2^15, it leaves the nearest whole number in the lowest bits.
const MAGIC: f32 = 12_582_912.0;

/// Largest whole number that stands for an activation.
pub const ACTIVATION: f32 = 2047.0;

versions! {
    /// Activations of whole sums, `h = max(0, sum * unit of the row * unit of the column + bias)`, and of each row the squared
    /// norm, the largest, and the number that are not zero.
    pub activate = activate_body(sums: &[i32], row_units: &[f32], units: &[f32], bias: &[f32], h: &mut [f32], norms: &mut [[f32; 3]])
}

#[inline(always)]
fn activate_body(
    sums: &[i32],
    row_units: &[f32],
    units: &[f32],
    bias: &[f32],
    h: &mut [f32],
    norms: &mut [[f32; 3]],
) {
    let n = units.len();
    let rows = sums.chunks_exact(n).zip(h.chunks_exact_mut(n));
    for (((sums, h), &row_unit), norms) in rows.zip(row_units).zip(norms) {
        let [mut square, mut most, mut count] = [[0.0f32; LANES]; 3];
        let columns = units.as_chunks::<LANES>().0.iter().zip(bias.as_chunks::<LANES>().0);
        let entries = sums.as_chunks::<LANES>().0.iter().zip(h.as_chunks_mut::<LANES>().0);
        for ((sums, h), (units, bias)) in entries.zip(columns) {
            for q in 0..LANES {
                let z = sums[q] as f32 * (row_unit * units[q]) + bias[q];
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

versions! {
    /// Activations as whole numbers of which the largest of a row, `norms[i][1]`, is [`ACTIVATION`]; `units[i]` becomes the
    /// value of one, and `norms[i][1]` the squared distance from what was rounded.
    pub round = round_body(h: &[f32], norms: &mut [[f32; 3]], units: &mut [f32], numbers: &mut [i16])
}

#[inline(always)]
fn round_body(h: &[f32], norms: &mut [[f32; 3]], units: &mut [f32], numbers: &mut [i16]) {
    let n = h.len() / norms.len().max(1);
    let rows = h.chunks_exact(n).zip(numbers.chunks_exact_mut(n));
    for (((h, numbers), norms), unit) in rows.zip(norms).zip(units) {
        *unit = norms[1] / ACTIVATION;
        let inverse = if *unit > 0.0 { 1.0 / *unit } else { 0.0 };
        let mut off = [0.0f32; LANES];
        for (h, numbers) in h.as_chunks::<LANES>().0.iter().zip(numbers.as_chunks_mut::<LANES>().0) {
            for q in 0..LANES {
                let shifted = h[q] * inverse + MAGIC;
                numbers[q] = shifted.to_bits() as i16;
                let apart = h[q] - (shifted - MAGIC) * *unit;
                off[q] += apart * apart;
            }
        }
        norms[1] = off.iter().sum();
    }
}

versions! {
    /// `to[i] = value[i] / units[i]` to the nearest whole number; `norms` becomes the squared norm of the values and of what was
    /// rounded off. No quotient is above 2^15.
    pub round_to = round_to_body(values: &[f32], units: &[f32], to: &mut [i16], norms: &mut [f32; 2])
}

#[inline(always)]
fn round_to_body(values: &[f32], units: &[f32], to: &mut [i16], norms: &mut [f32; 2]) {
    let [mut square, mut off] = [[0.0f32; LANES]; 2];
    let parts = values.chunks(LANES).zip(units.chunks(LANES)).zip(to.chunks_mut(LANES));
    for ((values, units), to) in parts {
        for (q, ((&value, &unit), to)) in values.iter().zip(units).zip(to).enumerate() {
            let shifted = value / unit + MAGIC;
            *to = shifted.to_bits() as i16;
            let apart = value - (shifted - MAGIC) * unit;
            square[q] += value * value;
            off[q] += apart * apart;
        }
    }
    *norms = [square.iter().sum(), off.iter().sum()];
}

versions! {
    /// `most = max(most, |row|)` and `sums += |row|`, entry by entry.
    pub take_in = take_in_body(row: &[f32], most: &mut [f32], sums: &mut [f32])
}

#[inline(always)]
fn take_in_body(row: &[f32], most: &mut [f32], sums: &mut [f32]) {
    for ((&w, most), sum) in row.iter().zip(most).zip(sums) {
        *most = most.max(w.abs());
        *sum += w.abs();
    }
}

versions! {
    /// The squared distance of `a` and `b` over the entries at which `sum * unit + bias` is above `least`.
    pub distance_where = distance_where_body(a: &[f32], b: &[f32], sums: &[i32], units: &[f32], bias: &[f32], unit: [f32; 2], out: &mut f32)
}

#[inline(always)]
fn distance_where_body(
    a: &[f32],
    b: &[f32],
    sums: &[i32],
    units: &[f32],
    bias: &[f32],
    [unit, least]: [f32; 2],
    out: &mut f32,
) {
    let mut square = [0.0f32; LANES];
    let lanes = a.as_chunks::<LANES>().0.iter().zip(b.as_chunks::<LANES>().0);
    let columns = units.as_chunks::<LANES>().0.iter().zip(bias.as_chunks::<LANES>().0);
    for (((a, b), sums), (units, bias)) in lanes.zip(sums.as_chunks::<LANES>().0).zip(columns) {
        for q in 0..LANES {
            let active = sums[q] as f32 * (unit * units[q]) + bias[q] > least;
            square[q] += if active { (a[q] - b[q]) * (a[q] - b[q]) } else { 0.0 };
        }
    }
    *out = square.iter().sum();
}
