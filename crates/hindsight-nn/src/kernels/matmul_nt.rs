//! The product with a transposed matrix, `a b^T`: inner products of rows.
//!
//! An entry is eight interleaved sums, added as a tree. The AVX version and the reference do the same, so
//! they agree bit for bit where the reference has FMA.

use super::{madd, matmul::short_transposed};
use crate::Scalar;

const LANES: usize = 8;

/// Rows up to this length: transposing `b` is cheaper than horizontal sums.
pub(super) const SHORT: usize = 16;

/// `out = a b^T`, or `out += a b^T` if `add`; `a: [m, n]`, `b: [k, n]`, `out: [m, k]`.
pub fn matmul_nt<T: Scalar>(a: &[T], b: &[T], n: usize, add: bool, out: &mut [T]) {
    let (m, k) = (a.len() / n, b.len() / n);
    assert_eq!(
        (a.len(), b.len(), out.len()),
        (m * n, k * n, m * k),
        "the shapes of the matrices do not match"
    );
    if n <= SHORT { short_transposed(a, b, [k, n], add, out) } else { T::matmul_nt(a, b, n, add, out) }
}

/// For any number type and machine.
pub(super) fn reference<T: Scalar, const FMA: bool>(a: &[T], b: &[T], n: usize, add: bool, out: &mut [T]) {
    let k = b.len() / n;
    for (a, out) in a.chunks_exact(n).zip(out.chunks_exact_mut(k)) {
        for (b, out) in b.chunks_exact(n).zip(out) {
            let mut v = [T::zero(); LANES];
            for (a, b) in a.chunks(LANES).zip(b.chunks(LANES)) {
                for (v, (&a, &b)) in v.iter_mut().zip(a.iter().zip(b)) {
                    *v = madd::<T, FMA>(a, b, *v);
                }
            }
            let sum = ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
            *out = if add { *out + sum } else { sum };
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) mod avx2 {
    use std::arch::x86_64::*;

    use super::{super::tiles, LANES};

    /// Rows of `a` and of `b` in a tile: their sums take 12 registers.
    const ROWS: usize = 3;
    const COLUMNS: usize = 4;

    #[target_feature(enable = "avx2,fma")]
    pub(in super::super) fn matmul_nt(a: &[f32], b: &[f32], n: usize, add: bool, out: &mut [f32]) {
        let (m, k) = (a.len() / n, b.len() / n);
        for j in (0..k).step_by(COLUMNS) {
            // Missing rows repeat the last one; their results are not stored.
            let columns = std::array::from_fn(|c| &b[(j + c).min(k - 1) * n..][..n]);
            for (i, rows) in tiles(m, ROWS) {
                let row = |r: usize| &a[(i + r) * n..][..n];
                let out = &mut out[i * k + j..];
                match rows {
                    1 => store(dots([row(0)], columns), k, k - j, add, out),
                    2 => store(dots([row(0), row(1)], columns), k, k - j, add, out),
                    _ => store(dots([row(0), row(1), row(2)], columns), k, k - j, add, out),
                }
            }
        }
    }

    /// The inner products of each of `R` rows with each of four others.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn dots<const R: usize>(a: [&[f32]; R], b: [&[f32]; COLUMNS]) -> [__m128; R] {
        let n = b[0].len();
        assert!(a.iter().chain(&b).all(|row| row.len() == n));
        let mut sums = [[_mm256_setzero_ps(); COLUMNS]; R];
        for q in 0..n / LANES {
            // SAFETY: all slices have n >= 8 (q + 1) entries.
            let load = |row: &[f32]| unsafe { _mm256_loadu_ps(row.as_ptr().add(q * LANES)) };
            let a = a.map(load);
            for c in 0..COLUMNS {
                let b = load(b[c]);
                for r in 0..R {
                    sums[r][c] = _mm256_fmadd_ps(a[r], b, sums[r][c]);
                }
            }
        }
        if !n.is_multiple_of(LANES) {
            let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            let mask = _mm256_cmpgt_epi32(_mm256_set1_epi32((n % LANES) as i32), lanes);
            // SAFETY: the mask selects the n % 8 entries that each slice has from there on.
            let load = |row: &[f32]| unsafe { _mm256_maskload_ps(row.as_ptr().add(n / LANES * LANES), mask) };
            let a = a.map(load);
            for c in 0..COLUMNS {
                let b = load(b[c]);
                for r in 0..R {
                    sums[r][c] = _mm256_fmadd_ps(a[r], b, sums[r][c]);
                }
            }
        }
        sums.map(|[s0, s1, s2, s3]| {
            let quarters = _mm256_hadd_ps(_mm256_hadd_ps(s0, s1), _mm256_hadd_ps(s2, s3));
            _mm_add_ps(_mm256_castps256_ps128(quarters), _mm256_extractf128_ps::<1>(quarters))
        })
    }

    /// Stores the first `width` entries of each row of a tile to rows of `out` that are `stride` apart.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn store<const R: usize>(tile: [__m128; R], stride: usize, width: usize, add: bool, out: &mut [f32]) {
        for (r, sums) in tile.into_iter().enumerate() {
            let out = &mut out[r * stride..][..width.min(COLUMNS)];
            if out.len() == COLUMNS {
                // SAFETY: `out` has four entries.
                unsafe {
                    let before = if add { _mm_loadu_ps(out.as_ptr()) } else { _mm_setzero_ps() };
                    let sums = if add { _mm_add_ps(before, sums) } else { sums };
                    _mm_storeu_ps(out.as_mut_ptr(), sums);
                }
            } else {
                let mut four = [0.0; COLUMNS];
                // SAFETY: `four` has four entries.
                unsafe { _mm_storeu_ps(four.as_mut_ptr(), sums) };
                out.iter_mut().zip(four).for_each(|(out, sum)| *out = if add { *out + sum } else { sum });
            }
        }
    }
}
