//! Finding the non-zero entries of a dense row.

use crate::Scalar;

/// Writes the columns, counted from `first`, and values of the non-zero entries of `row` one after the other and
/// returns their number. What lies behind the last entry is scratch.
///
/// # Panics
/// If an output is shorter than the row.
pub fn compress<T: Scalar>(row: &[T], first: u32, columns: &mut [u32], values: &mut [T]) -> usize {
    let (columns, values) = (&mut columns[..row.len()], &mut values[..row.len()]);
    T::compress(row, first, columns, values)
}

/// Any number type, any machine. Writing always and advancing sometimes avoids a branch that no processor could
/// predict.
pub(super) fn reference<T: Scalar>(row: &[T], first: u32, columns: &mut [u32], values: &mut [T]) -> usize {
    row.iter().zip(first..).fold(0, |at, (&x, column)| {
        columns[at] = column;
        values[at] = x;
        at + usize::from(x != T::zero())
    })
}

#[cfg(target_arch = "x86_64")]
pub(super) mod avx2 {
    use std::arch::x86_64::*;

    /// `PLACES[mask]` lists the bits that are set in `mask`.
    static PLACES: [[i32; 8]; 256] = {
        let (mut places, mut mask) = ([[0; 8]; 256], 0);
        while mask < 256 {
            let (mut at, mut bit) = (0, 0);
            while bit < 8 {
                if mask >> bit & 1 == 1 {
                    places[mask][at] = bit;
                    at += 1;
                }
                bit += 1;
            }
            mask += 1;
        }
        places
    };

    #[target_feature(enable = "avx2,fma")]
    pub(in super::super) fn compress(
        row: &[f32],
        first: u32,
        columns: &mut [u32],
        values: &mut [f32],
    ) -> usize {
        assert!(columns.len() >= row.len() && values.len() >= row.len());
        let (eights, rest) = row.as_chunks::<8>();
        let mut at = 0;
        for (first, eight) in (first as i32..).step_by(8).zip(eights) {
            // SAFETY: the load reads the eight entries of `eight`. No more entries were found than passed, so the
            // stores end at most eight behind those, within row.len(), the least length of the outputs.
            unsafe {
                let x = _mm256_loadu_ps(eight.as_ptr());
                let kept = _mm256_cmp_ps::<_CMP_NEQ_UQ>(x, _mm256_setzero_ps());
                let mask = _mm256_movemask_ps(kept) as usize & 255;
                let places = _mm256_loadu_si256(PLACES[mask].as_ptr().cast());
                let found = _mm256_add_epi32(places, _mm256_set1_epi32(first));
                _mm256_storeu_si256(columns.as_mut_ptr().add(at).cast(), found);
                _mm256_storeu_ps(values.as_mut_ptr().add(at), _mm256_permutevar8x32_ps(x, places));
                at += mask.count_ones() as usize;
            }
        }
        let passed = first + (row.len() - rest.len()) as u32;
        at + super::reference(rest, passed, &mut columns[at..], &mut values[at..])
    }
}
