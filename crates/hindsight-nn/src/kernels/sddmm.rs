//! Sampled dense-dense matrix multiplication: `a b^T` at the entries of a sparsity pattern only.
//!
//! About half of a hidden layer is zero after ReLU, and its delta is needed only where it is not. An entry is
//! sixteen interleaved sums, added by halves: enough to hide the latency of FMA even for few entries at a
//! time.

use super::madd;
use crate::{Scalar, SparseRows};

const LANES: usize = 16;

/// `out[i, j] = <row i of a, row j of b>`, or `+=` if `add`, where `pattern[j, i]` is not zero; all other
/// entries are zero. `a: [m, n]`, `b: [k, n]`, `out: [m, k]`, `pattern: [k, m]`.
pub fn sddmm<T: Scalar>(a: &[T], b: &[T], n: usize, pattern: &SparseRows<T>, add: bool, out: &mut [T]) {
    let (m, k) = (a.len() / n, b.len() / n);
    assert_eq!(
        (a.len(), b.len(), out.len()),
        (m * n, k * n, m * k),
        "the shapes of the matrices do not match"
    );
    assert_eq!(pattern.len(), k, "the pattern has another number of rows");
    if !add {
        out.fill(T::zero());
    }
    T::sddmm(a, b, n, pattern, add, out);
}

/// For any number type and machine.
pub(super) fn reference<T: Scalar, const FMA: bool>(
    a: &[T],
    b: &[T],
    n: usize,
    pattern: &SparseRows<T>,
    add: bool,
    out: &mut [T],
) {
    let k = b.len() / n;
    for (j, b) in b.chunks_exact(n).enumerate() {
        for &i in pattern.row(j).0 {
            let a = &a[i as usize * n..][..n];
            let mut v = [T::zero(); LANES];
            for (a, b) in a.chunks(LANES).zip(b.chunks(LANES)) {
                for (v, (&a, &b)) in v.iter_mut().zip(a.iter().zip(b)) {
                    *v = madd::<T, FMA>(a, b, *v);
                }
            }
            for half in [8, 4, 2, 1] {
                (0..half).for_each(|q| v[q] += v[q + half]);
            }
            let out = &mut out[i as usize * k + j];
            *out = if add { *out + v[0] } else { v[0] };
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) mod avx2 {
    use std::arch::x86_64::*;

    use super::LANES;
    use crate::SparseRows;

    #[target_feature(enable = "avx2,fma")]
    pub(in super::super) fn sddmm(
        a: &[f32],
        b: &[f32],
        n: usize,
        pattern: &SparseRows<f32>,
        add: bool,
        out: &mut [f32],
    ) {
        let k = b.len() / n;
        for (j, b) in b.chunks_exact(n).enumerate() {
            // At most six rows at a time: the sums of each take two registers.
            for chosen in pattern.row(j).0.chunks(6) {
                macro_rules! store {
                    ($($rows:literal)*) => {
                        match chosen.len() {
                            $($rows => {
                                let rows = std::array::from_fn(|r| &a[chosen[r] as usize * n..][..n]);
                                for (&i, sum) in chosen.iter().zip(dots::<$rows>(rows, b)) {
                                    let out = &mut out[i as usize * k + j];
                                    *out = if add { *out + sum } else { sum };
                                }
                            })*
                            _ => unreachable!("a chunk has 1 to 6 rows"),
                        }
                    };
                }
                store!(1 2 3 4 5 6);
            }
        }
    }

    /// The inner products of `R` rows with `b`.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn dots<const R: usize>(a: [&[f32]; R], b: &[f32]) -> [f32; R] {
        let n = b.len();
        assert!(a.iter().all(|row| row.len() == n));
        let mut sums = [[_mm256_setzero_ps(); 2]; R];
        for q in 0..n / LANES {
            for half in 0..2 {
                // SAFETY: all slices have n >= 16 (q + 1) entries.
                let load = |row: &[f32]| unsafe { _mm256_loadu_ps(row.as_ptr().add(q * LANES + half * 8)) };
                let b = load(b);
                for (sums, row) in sums.iter_mut().zip(a) {
                    sums[half] = _mm256_fmadd_ps(load(row), b, sums[half]);
                }
            }
        }
        for half in 0..2 {
            let from = n / LANES * LANES + 8 * half;
            if from < n {
                let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
                let mask = _mm256_cmpgt_epi32(_mm256_set1_epi32((n - from).min(8) as i32), lanes);
                // SAFETY: the mask selects the entries that each slice has from there on.
                let load = |row: &[f32]| unsafe { _mm256_maskload_ps(row.as_ptr().add(from), mask) };
                let b = load(b);
                for (sums, row) in sums.iter_mut().zip(a) {
                    sums[half] = _mm256_fmadd_ps(load(row), b, sums[half]);
                }
            }
        }
        sums.map(|[low, high]| halves(_mm256_add_ps(low, high)))
    }

    /// The sum of the eight lanes, by halves.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn halves(eight: __m256) -> f32 {
        let four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
        let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) mod avx512 {
    use std::arch::x86_64::*;

    use super::avx2::halves;
    use crate::SparseRows;

    /// The only supported length of a row: a row of `b` fills half of the registers and stays there.
    pub(in super::super) const WIDTH: usize = 256;

    #[target_feature(enable = "avx512f,avx2,fma")]
    pub(in super::super) fn sddmm(
        a: &[f32],
        b: &[f32],
        pattern: &SparseRows<f32>,
        add: bool,
        out: &mut [f32],
    ) {
        let (a, b) = (a.as_chunks::<WIDTH>().0, b.as_chunks::<WIDTH>().0);
        // SAFETY: each slice has 16 entries.
        let load = |lanes: &[f32; 16]| unsafe { _mm512_loadu_ps(lanes.as_ptr()) };
        for (j, row) in b.iter().enumerate() {
            let chosen = pattern.row(j).0;
            let row: [__m512; WIDTH / 16] = std::array::from_fn(|q| load(&row.as_chunks().0[q]));
            for &i in chosen {
                let other = a[i as usize].as_chunks().0;
                let mut sums = _mm512_setzero_ps();
                for q in 0..WIDTH / 16 {
                    sums = _mm512_fmadd_ps(load(&other[q]), row[q], sums);
                }
                let lanes = _mm512_castps_pd(sums);
                let high = _mm512_castpd_ps(_mm512_shuffle_f64x2::<0b1110>(lanes, lanes));
                let sum = halves(_mm256_add_ps(_mm512_castps512_ps256(sums), _mm512_castps512_ps256(high)));
                let out = &mut out[i as usize * b.len() + j];
                *out = if add { *out + sum } else { sum };
            }
        }
    }
}
