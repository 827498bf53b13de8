//! Eight channels at once.
//!
//! Tiles of plain arrays are left to the compiler's judgement, which keeps some widths in registers and others
//! not; a type that is a register is not. So the kernels here are generic over [`Vector`], and `f32` has AVX.
//!
//! No closure and no function of the standard library may take or return a vector: it would be compiled
//! without AVX, and called. Hence the plain loops.

#![allow(clippy::needless_range_loop, reason = "plain loops, see above")]

use super::{super::madd, LANES};
use crate::Scalar;

/// Eight numbers.
pub trait Vector<T>: Copy {
    /// Rows of a register tile with one, two and three vectors in each.
    const ROWS: [usize; 3];

    /// The same number eight times.
    fn splat(x: T) -> Self;
    /// From memory.
    fn load(from: &[T; LANES]) -> Self;
    /// To memory.
    fn store(self, to: &mut [T; LANES]);
    /// Sum.
    fn add(self, other: Self) -> Self;
    /// Difference.
    fn sub(self, other: Self) -> Self;
    /// Product.
    fn mul(self, other: Self) -> Self;
    /// `self * by + to`.
    fn madd(self, by: Self, to: Self) -> Self;
    /// `from - self * by`.
    fn msub(self, by: Self, from: Self) -> Self;
    /// Zero where negative.
    fn relu(self) -> Self;
    /// Rows become columns.
    fn transpose(rows: [Self; LANES]) -> [Self; LANES];
}

/// Any number type on any machine.
#[derive(Debug, Clone, Copy)]
pub struct Plain<T, const FMA: bool>([T; LANES]);

impl<T: Scalar, const FMA: bool> Vector<T> for Plain<T, FMA> {
    // Half as many as there are AVX registers: the baseline has registers of half the size.
    const ROWS: [usize; 3] = [4, 2, 1];

    #[inline(always)]
    fn splat(x: T) -> Self {
        Plain([x; LANES])
    }

    #[inline(always)]
    fn load(from: &[T; LANES]) -> Self {
        Plain(*from)
    }

    #[inline(always)]
    fn store(self, to: &mut [T; LANES]) {
        *to = self.0;
    }

    #[inline(always)]
    fn add(mut self, other: Self) -> Self {
        for i in 0..LANES {
            self.0[i] += other.0[i];
        }
        self
    }

    #[inline(always)]
    fn sub(mut self, other: Self) -> Self {
        for i in 0..LANES {
            self.0[i] -= other.0[i];
        }
        self
    }

    #[inline(always)]
    fn mul(mut self, other: Self) -> Self {
        for i in 0..LANES {
            self.0[i] *= other.0[i];
        }
        self
    }

    #[inline(always)]
    fn madd(mut self, by: Self, to: Self) -> Self {
        for i in 0..LANES {
            self.0[i] = madd::<T, FMA>(self.0[i], by.0[i], to.0[i]);
        }
        self
    }

    #[inline(always)]
    fn msub(mut self, by: Self, from: Self) -> Self {
        for i in 0..LANES {
            self.0[i] = madd::<T, FMA>(-self.0[i], by.0[i], from.0[i]);
        }
        self
    }

    #[inline(always)]
    fn relu(mut self) -> Self {
        for i in 0..LANES {
            self.0[i] = if self.0[i] > T::zero() { self.0[i] } else { T::zero() };
        }
        self
    }

    #[inline(always)]
    fn transpose(rows: [Self; LANES]) -> [Self; LANES] {
        let mut columns = rows;
        for i in 0..LANES {
            for j in 0..LANES {
                columns[i].0[j] = rows[j].0[i];
            }
        }
        columns
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2 {
    use std::arch::x86_64::*;

    use super::{super::LANES, Vector};

    /// A register. Values of it exist only in code that runs where the CPU has AVX2 and FMA.
    #[derive(Debug, Clone, Copy)]
    pub struct Avx(__m256);

    impl Vector<f32> for Avx {
        // Enough sums to hide the latency of FMA, with room for the operands: 4 x 3 would be one register too many.
        const ROWS: [usize; 3] = [8, 6, 3];

        #[inline(always)]
        fn splat(x: f32) -> Avx {
            // SAFETY: the CPU has AVX2, see `Avx`.
            Avx(unsafe { _mm256_set1_ps(x) })
        }

        #[inline(always)]
        fn load(from: &[f32; LANES]) -> Avx {
            // SAFETY: the CPU has AVX2, see `Avx`; there are eight numbers.
            Avx(unsafe { _mm256_loadu_ps(from.as_ptr()) })
        }

        #[inline(always)]
        fn store(self, to: &mut [f32; LANES]) {
            // SAFETY: the CPU has AVX2, see `Avx`; there is room for eight numbers.
            unsafe { _mm256_storeu_ps(to.as_mut_ptr(), self.0) }
        }

        #[inline(always)]
        fn add(self, other: Avx) -> Avx {
            // SAFETY: the CPU has AVX2, see `Avx`.
            Avx(unsafe { _mm256_add_ps(self.0, other.0) })
        }

        #[inline(always)]
        fn sub(self, other: Avx) -> Avx {
            // SAFETY: the CPU has AVX2, see `Avx`.
            Avx(unsafe { _mm256_sub_ps(self.0, other.0) })
        }

        #[inline(always)]
        fn mul(self, other: Avx) -> Avx {
            // SAFETY: the CPU has AVX2, see `Avx`.
            Avx(unsafe { _mm256_mul_ps(self.0, other.0) })
        }

        #[inline(always)]
        fn madd(self, by: Avx, to: Avx) -> Avx {
            // SAFETY: the CPU has FMA, see `Avx`.
            Avx(unsafe { _mm256_fmadd_ps(self.0, by.0, to.0) })
        }

        #[inline(always)]
        fn msub(self, by: Avx, from: Avx) -> Avx {
            // SAFETY: the CPU has FMA, see `Avx`.
            Avx(unsafe { _mm256_fnmadd_ps(self.0, by.0, from.0) })
        }

        #[inline(always)]
        fn relu(self) -> Avx {
            // SAFETY: the CPU has AVX2, see `Avx`.
            Avx(unsafe { _mm256_max_ps(self.0, _mm256_setzero_ps()) })
        }

        #[inline(always)]
        fn transpose(rows: [Avx; LANES]) -> [Avx; LANES] {
            // SAFETY: the CPU has AVX2, see `Avx`.
            unsafe {
                let [a, b, c, d, e, f, g, h] = rows;
                let (ab, cd) = (_mm256_unpacklo_ps(a.0, b.0), _mm256_unpacklo_ps(c.0, d.0));
                let (ef, gh) = (_mm256_unpacklo_ps(e.0, f.0), _mm256_unpacklo_ps(g.0, h.0));
                let (ab_high, cd_high) = (_mm256_unpackhi_ps(a.0, b.0), _mm256_unpackhi_ps(c.0, d.0));
                let (ef_high, gh_high) = (_mm256_unpackhi_ps(e.0, f.0), _mm256_unpackhi_ps(g.0, h.0));
                let low = [
                    _mm256_shuffle_ps::<0x44>(ab, cd),
                    _mm256_shuffle_ps::<0xee>(ab, cd),
                    _mm256_shuffle_ps::<0x44>(ab_high, cd_high),
                    _mm256_shuffle_ps::<0xee>(ab_high, cd_high),
                ];
                let high = [
                    _mm256_shuffle_ps::<0x44>(ef, gh),
                    _mm256_shuffle_ps::<0xee>(ef, gh),
                    _mm256_shuffle_ps::<0x44>(ef_high, gh_high),
                    _mm256_shuffle_ps::<0xee>(ef_high, gh_high),
                ];
                let mut columns = rows;
                for i in 0..LANES / 2 {
                    columns[i] = Avx(_mm256_permute2f128_ps::<0x20>(low[i], high[i]));
                    columns[i + LANES / 2] = Avx(_mm256_permute2f128_ps::<0x31>(low[i], high[i]));
                }
                columns
            }
        }
    }
}

/// Defines `$name`, which runs `$body` with the best vectors of this machine.
macro_rules! with_vectors {
    ($(#[$doc:meta])* $vis:vis $name:ident = $body:ident($($arg:ident: $ty:ty),* $(,)?)) => {
        $(#[$doc])*
        $vis fn $name<T: $crate::Scalar>($($arg: $ty),*) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                fn fast<T: $crate::Scalar>($($arg: $ty),*) {
                    $body::<T, T::Vector>($($arg),*)
                }
                if $crate::kernels::has_avx2() {
                    // SAFETY: the only requirement of `fast`, and of its vectors, is that the CPU has both
                    // features.
                    return unsafe { fast($($arg),*) };
                }
            }
            $body::<T, $crate::kernels::conv::vector::Plain<T, { $crate::kernels::BASELINE_FMA }>>($($arg),*)
        }
    };
}
pub(super) use with_vectors;

/// The eight numbers at `at`.
#[inline(always)]
pub(super) fn load<T, V: Vector<T>>(from: &[T], at: usize) -> V {
    V::load(from[at..].first_chunk().expect("eight numbers"))
}

/// The numbers at `at`, at most eight and `count`, and zeros behind them.
#[inline(always)]
pub(super) fn load_some<T: Scalar, V: Vector<T>>(from: &[T], at: usize, count: usize) -> V {
    if count >= LANES {
        return load(from, at);
    }
    let mut eight = [T::zero(); LANES];
    eight[..count].copy_from_slice(&from[at..][..count]);
    V::load(&eight)
}

/// Stores eight numbers at `at`.
#[inline(always)]
pub(super) fn store<T, V: Vector<T>>(x: V, to: &mut [T], at: usize) {
    x.store(to[at..].first_chunk_mut().expect("room for eight numbers"));
}

/// The eight numbers at `at`.
///
/// # Safety
/// They are in the slice.
#[inline(always)]
pub(super) unsafe fn load_unchecked<T, V: Vector<T>>(from: &[T], at: usize) -> V {
    debug_assert!(at + LANES <= from.len());
    // SAFETY: the caller's promise.
    V::load(unsafe { &*from.as_ptr().add(at).cast() })
}

/// Stores eight numbers at `at`.
///
/// # Safety
/// They have room in the slice.
#[inline(always)]
pub(super) unsafe fn store_unchecked<T, V: Vector<T>>(x: V, to: &mut [T], at: usize) {
    debug_assert!(at + LANES <= to.len());
    // SAFETY: the caller's promise.
    x.store(unsafe { &mut *to.as_mut_ptr().add(at).cast() });
}
