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
    pub(super) const COLUMNS: usize = 4;

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
    pub(super) fn store<const R: usize>(
        tile: [__m128; R],
        stride: usize,
        width: usize,
        add: bool,
        out: &mut [f32],
    ) {
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

/// Two rows of `b` in one vector, so that the lanes of each are those of AVX.
#[cfg(target_arch = "x86_64")]
pub(super) mod avx512 {
    use std::arch::x86_64::*;

    use super::{
        super::tiles,
        LANES,
        avx2::{self, store},
    };

    /// Rows of `a`, and pairs of rows of `b`, in a tile: their sums take 20 of 32 registers.
    const ROWS: usize = 5;
    const PAIRS: usize = 4;
    const COLUMNS: usize = 2 * PAIRS;

    #[target_feature(enable = "avx512f,avx2,fma")]
    pub(in super::super) fn matmul_nt(a: &[f32], b: &[f32], n: usize, add: bool, out: &mut [f32]) {
        let (m, k) = (a.len() / n, b.len() / n);
        for j in (0..k).step_by(COLUMNS) {
            // Missing rows repeat the last one; their results are not stored.
            let columns = std::array::from_fn(|c| &b[(j + c).min(k - 1) * n..][..n]);
            for (i, rows) in tiles(m, ROWS) {
                let row = |r: usize| &a[(i + r) * n..][..n];
                let mut put = |r: usize, sums: [__m128; 2]| {
                    for (half, sums) in sums.into_iter().enumerate() {
                        let j = j + half * avx2::COLUMNS;
                        if j < k {
                            store([sums], k, k - j, add, &mut out[(i + r) * k + j..]);
                        }
                    }
                };
                macro_rules! tile {
                    ($($r:literal)*) => {
                        dots([$(row($r)),*], columns).into_iter().enumerate().for_each(|(r, sums)| put(r, sums))
                    };
                }
                match rows {
                    1 => tile!(0),
                    2 => tile!(0 1),
                    3 => tile!(0 1 2),
                    4 => tile!(0 1 2 3),
                    _ => tile!(0 1 2 3 4),
                }
            }
        }
    }

    /// The inner products of each of `R` rows with each of eight others.
    #[inline]
    #[target_feature(enable = "avx512f,avx2,fma")]
    fn dots<const R: usize>(a: [&[f32]; R], b: [&[f32]; COLUMNS]) -> [[__m128; 2]; R] {
        let n = b[0].len();
        assert!(a.iter().chain(&b).all(|row| row.len() == n));
        let mut sums = [[_mm512_setzero_ps(); PAIRS]; R];
        let two = |low: __m256, high: __m256| {
            let low = _mm512_castpd256_pd512(_mm256_castps_pd(low));
            _mm512_castpd_ps(_mm512_insertf64x4::<1>(low, _mm256_castps_pd(high)))
        };
        macro_rules! add_products {
            ($load:ident) => {
                let a = a.map(|row| _mm512_castpd_ps(_mm512_broadcast_f64x4(_mm256_castps_pd($load(row)))));
                for p in 0..PAIRS {
                    let b = two($load(b[p]), $load(b[p + PAIRS]));
                    for r in 0..R {
                        sums[r][p] = _mm512_fmadd_ps(a[r], b, sums[r][p]);
                    }
                }
            };
        }
        for q in 0..n / LANES {
            // SAFETY: all slices have n >= 8 (q + 1) entries.
            let load = |row: &[f32]| unsafe { _mm256_loadu_ps(row.as_ptr().add(q * LANES)) };
            add_products!(load);
        }
        if !n.is_multiple_of(LANES) {
            let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            let mask = _mm256_cmpgt_epi32(_mm256_set1_epi32((n % LANES) as i32), lanes);
            // SAFETY: the mask selects the n % 8 entries that each slice has from there on.
            let load = |row: &[f32]| unsafe { _mm256_maskload_ps(row.as_ptr().add(n / LANES * LANES), mask) };
            add_products!(load);
        }
        sums.map(|[s0, s1, s2, s3]| {
            let quarters = add_neighbours(add_neighbours(s0, s1), add_neighbours(s2, s3));
            let sums = _mm512_add_ps(quarters, _mm512_shuffle_f32x4::<0b10_11_00_01>(quarters, quarters));
            [_mm512_castps512_ps128(sums), _mm512_extractf32x4_ps::<2>(sums)]
        })
    }

    /// `_mm256_hadd_ps` of the halves. That instruction knows 16 registers only, and the compiler would keep
    /// the sums in these.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn add_neighbours(x: __m512, y: __m512) -> __m512 {
        let even = _mm512_shuffle_ps::<0b10_00_10_00>(x, y);
        _mm512_add_ps(even, _mm512_shuffle_ps::<0b11_01_11_01>(x, y))
    }
}
