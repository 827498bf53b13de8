//! Compression of a dense row to its non-zero entries.

use crate::Scalar;

/// Writes the columns and the values of the non-zero entries of `row` to the outputs, and the number of those
/// found up to the end of each segment, plus `base`, to `ends`. Entries of the outputs after the last one are
/// undefined.
///
/// # Panics
/// If an output is shorter than the row.
pub(super) fn compress<T: Scalar>(
    row: &[T],
    segment: usize,
    base: usize,
    columns: &mut [u32],
    values: &mut [T],
    ends: &mut Vec<u32>,
) {
    let (columns, values) = (&mut columns[..row.len()], &mut values[..row.len()]);
    T::compress(row, segment, base, columns, values, ends);
}

/// [`compress()`] segment by segment.
macro_rules! by_segments {
    ($compress:path, $row:ident, $segment:ident, $base:ident, $columns:ident, $values:ident, $ends:ident) => {
        let mut at = 0;
        for (part, first) in $row.chunks($segment).zip((0..).step_by($segment)) {
            at += $compress(part, first, &mut $columns[at..], &mut $values[at..]);
            $ends.push(($base + at) as u32);
        }
    };
}

pub(super) fn plain<T: Scalar>(
    row: &[T],
    segment: usize,
    base: usize,
    columns: &mut [u32],
    values: &mut [T],
    ends: &mut Vec<u32>,
) {
    by_segments!(reference, row, segment, base, columns, values, ends);
}

/// For any number type and machine. Always writes and advances only past a non-zero entry, which avoids an
/// unpredictable branch.
fn reference<T: Scalar>(row: &[T], first: u32, columns: &mut [u32], values: &mut [T]) -> usize {
    row.iter().zip(first..).fold(0, |at, (&x, column)| {
        columns[at] = column;
        values[at] = x;
        at + usize::from(x != T::zero())
    })
}

#[cfg(target_arch = "x86_64")]
pub(super) mod avx2 {
    use std::arch::x86_64::*;

    /// `SET_BITS[mask]` lists the positions of the bits that are set in `mask`.
    static SET_BITS: [[i32; 8]; 256] = {
        let (mut positions, mut mask) = ([[0; 8]; 256], 0);
        while mask < 256 {
            let (mut at, mut bit) = (0, 0);
            while bit < 8 {
                if mask >> bit & 1 == 1 {
                    positions[mask][at] = bit;
                    at += 1;
                }
                bit += 1;
            }
            mask += 1;
        }
        positions
    };

    #[target_feature(enable = "avx2,fma")]
    pub(in super::super) fn compress(
        row: &[f32],
        segment: usize,
        base: usize,
        columns: &mut [u32],
        values: &mut [f32],
        ends: &mut Vec<u32>,
    ) {
        by_segments!(one, row, segment, base, columns, values, ends);
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn one(row: &[f32], first: u32, columns: &mut [u32], values: &mut [f32]) -> usize {
        assert!(columns.len() >= row.len() && values.len() >= row.len());
        let (eights, rest) = row.as_chunks::<8>();
        let mut at = 0;
        for (first, eight) in (first as i32..).step_by(8).zip(eights) {
            // SAFETY: the load reads the eight entries of `eight`. At most as many entries were found as were
            // read, so the stores end at most eight entries after them, within row.len(), the least length of
            // the outputs.
            unsafe {
                let x = _mm256_loadu_ps(eight.as_ptr());
                let kept = _mm256_cmp_ps::<_CMP_NEQ_UQ>(x, _mm256_setzero_ps());
                let mask = _mm256_movemask_ps(kept) as usize & 255;
                let positions = _mm256_loadu_si256(SET_BITS[mask].as_ptr().cast());
                let found = _mm256_add_epi32(positions, _mm256_set1_epi32(first));
                _mm256_storeu_si256(columns.as_mut_ptr().add(at).cast(), found);
                _mm256_storeu_ps(values.as_mut_ptr().add(at), _mm256_permutevar8x32_ps(x, positions));
                at += mask.count_ones() as usize;
            }
        }
        let passed = first + (row.len() - rest.len()) as u32;
        at + super::reference(rest, passed, &mut columns[at..], &mut values[at..])
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) mod avx512 {
    use std::arch::x86_64::*;

    #[target_feature(enable = "avx512f")]
    pub(in super::super) fn compress(
        row: &[f32],
        segment: usize,
        base: usize,
        columns: &mut [u32],
        values: &mut [f32],
        ends: &mut Vec<u32>,
    ) {
        by_segments!(one, row, segment, base, columns, values, ends);
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn one(row: &[f32], first: u32, columns: &mut [u32], values: &mut [f32]) -> usize {
        assert!(columns.len() >= row.len() && values.len() >= row.len());
        let (sixteens, rest) = row.as_chunks::<16>();
        let ascending = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        let mut at = 0;
        for (first, sixteen) in (first as i32..).step_by(16).zip(sixteens) {
            // SAFETY: the load reads the sixteen entries of `sixteen`. At most as many entries were found as
            // were read, so the stores end at most sixteen entries after them, within row.len(), the least
            // length of the outputs.
            unsafe {
                let x = _mm512_loadu_ps(sixteen.as_ptr());
                let kept = _mm512_cmp_ps_mask::<_CMP_NEQ_UQ>(x, _mm512_setzero_ps());
                let found = _mm512_add_epi32(ascending, _mm512_set1_epi32(first));
                let found = _mm512_maskz_compress_epi32(kept, found);
                _mm512_storeu_si512(columns.as_mut_ptr().add(at).cast(), found);
                _mm512_storeu_ps(values.as_mut_ptr().add(at), _mm512_maskz_compress_ps(kept, x));
                at += kept.count_ones() as usize;
            }
        }
        let passed = first + (row.len() - rest.len()) as u32;
        at + super::reference(rest, passed, &mut columns[at..], &mut values[at..])
    }
}
