//! The non-zero entries of the columns of a dense matrix.

/// Rows of a matrix whose columns fit into two vectors of AVX-512, and from which on that pays: a square of
/// 16 rows takes its time however few there are.
pub(super) const MOST_ROWS: usize = 32;
pub(super) const FEWEST_ROWS: usize = 6;

/// Entries behind the last one that a column may write.
pub(super) const SPARE: usize = 16;

#[cfg(target_arch = "x86_64")]
pub(super) mod avx512 {
    use std::arch::x86_64::*;

    use super::{MOST_ROWS, SPARE};

    const LANES: usize = 16;

    /// Writes the rows and the values of the non-zero entries of each column of `dense: [_, width]` to `rows`
    /// and `values`, and where each column ends to `ends`.
    ///
    /// Squares of 16 by 16 entries are transposed in registers; a column is then compressed as a whole, which
    /// takes half the time of sorting the entries of the rows by their column.
    ///
    /// # Panics
    /// If there are more than [`MOST_ROWS`] rows, or an output is too short for all of them and [`SPARE`] more.
    #[target_feature(enable = "avx512f")]
    pub(in super::super) fn transpose(
        dense: &[f32],
        width: usize,
        ends: &mut [u32],
        rows: &mut [u32],
        values: &mut [f32],
    ) {
        let count = dense.len() / width.max(1);
        assert!(count <= MOST_ROWS && dense.len() == count * width && ends.len() == width);
        assert!(
            rows.len().min(values.len()) >= dense.len() + SPARE,
            "room for every entry, and one vector more"
        );
        let ascending = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        let blocks = [ascending, _mm512_add_epi32(ascending, _mm512_set1_epi32(LANES as i32))];
        let mut at = 0;
        for (j, ends) in (0..width).step_by(LANES).zip(ends.chunks_mut(LANES)) {
            let inside = ((1_u32 << ends.len()) - 1) as __mmask16;
            let square = |first: usize| {
                transposed(std::array::from_fn(|i| match first + i < count {
                    // SAFETY: the lanes inside are the entries `j..j + ends.len()` of a row of `dense`.
                    true => unsafe {
                        _mm512_maskz_loadu_ps(inside, dense.as_ptr().add((first + i) * width + j))
                    },
                    false => _mm512_setzero_ps(),
                }))
            };
            let squares =
                [square(0), if count > LANES { square(LANES) } else { [_mm512_setzero_ps(); LANES] }];
            for (c, end) in ends.iter_mut().enumerate() {
                for (square, numbers) in squares.iter().zip(blocks).take(count.div_ceil(LANES)) {
                    let x = square[c];
                    let kept = _mm512_cmp_ps_mask::<_CMP_NEQ_UQ>(x, _mm512_setzero_ps());
                    // SAFETY: at most as many entries were found as `dense` has, and the outputs are a vector
                    // longer.
                    unsafe {
                        let found = _mm512_maskz_compress_epi32(kept, numbers);
                        _mm512_storeu_si512(rows.as_mut_ptr().add(at).cast(), found);
                        _mm512_storeu_ps(values.as_mut_ptr().add(at), _mm512_maskz_compress_ps(kept, x));
                    }
                    at += kept.count_ones() as usize;
                }
                *end = at as u32;
            }
        }
    }

    /// The transpose of 16 rows of 16 entries: neighbours first, then pairs, then quarters of a vector.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn transposed(mut rows: [__m512; LANES]) -> [__m512; LANES] {
        for pair in rows.as_chunks_mut::<2>().0 {
            *pair = [_mm512_unpacklo_ps(pair[0], pair[1]), _mm512_unpackhi_ps(pair[0], pair[1])];
        }
        for four in rows.as_chunks_mut::<4>().0 {
            let [a, b, c, d] = four.map(|row| _mm512_castps_pd(row));
            let low_high = [
                _mm512_unpacklo_pd(a, c),
                _mm512_unpackhi_pd(a, c),
                _mm512_unpacklo_pd(b, d),
                _mm512_unpackhi_pd(b, d),
            ];
            *four = low_high.map(|column| _mm512_castpd_ps(column));
        }
        // rows[4 i + k] has, in its quarter q, the entries of column 4 q + k in the rows 4 i to 4 i + 3.
        let mut columns = [_mm512_setzero_ps(); LANES];
        for k in 0..4 {
            let [a, b, c, d] = [rows[k], rows[4 + k], rows[8 + k], rows[12 + k]];
            let even = [_mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0x88>(c, d)];
            let odd = [_mm512_shuffle_f32x4::<0xdd>(a, b), _mm512_shuffle_f32x4::<0xdd>(c, d)];
            columns[k] = _mm512_shuffle_f32x4::<0x88>(even[0], even[1]);
            columns[8 + k] = _mm512_shuffle_f32x4::<0xdd>(even[0], even[1]);
            columns[4 + k] = _mm512_shuffle_f32x4::<0x88>(odd[0], odd[1]);
            columns[12 + k] = _mm512_shuffle_f32x4::<0xdd>(odd[0], odd[1]);
        }
        columns
    }
}
