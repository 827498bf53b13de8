//! Eight or sixteen channels at once.
//!
//! Tiles of plain arrays are left to the compiler's judgement, which keeps some widths in registers and
//! others not; a type that is a register is not. So the kernels here are generic over [`Vector`], and `f32`
//! has AVX2 and AVX-512. Channels come in eights, so that a vector of sixteen may be half filled: hence the
//! masks. What a channel goes through does not depend on the width of the vector that it is in.
//!
//! No closure and no function of the standard library may take or return a vector: it would be compiled
//! without AVX, and called. Hence the plain loops.

#![allow(clippy::needless_range_loop, reason = "plain loops, see above")]

use super::{super::madd, LANES};
use crate::Scalar;

/// As many numbers as a register holds.
pub trait Vector<T>: Copy {
    /// Numbers of a vector.
    const WIDTH: usize;
    /// Rows of a register tile with one, two and three vectors in each.
    const ROWS: [usize; 3];
    /// The same for outer products, powers of two.
    const OUTER_ROWS: [usize; 3];
    /// How many numbers of a vector are read or written.
    type Mask: Copy;

    /// The first `count` numbers, a multiple of eight, or all if these are more.
    fn mask(count: usize) -> Self::Mask;
    /// The same number in all places.
    fn splat(x: T) -> Self;
    /// From memory, and zeros where the mask is not.
    ///
    /// # Safety
    /// What the mask has is readable.
    unsafe fn load(from: *const T, mask: Self::Mask) -> Self;
    /// The same if `there`, else zeros.
    ///
    /// # Safety
    /// What the mask has is readable if `there`.
    unsafe fn load_if(from: *const T, mask: Self::Mask, there: bool) -> Self;
    /// To memory, as far as the mask goes.
    ///
    /// # Safety
    /// What the mask has is writable.
    unsafe fn store(self, to: *mut T, mask: Self::Mask);
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
    /// Zero where `other` is not positive.
    fn where_positive(self, other: Self) -> Self;
}

/// A vector of eight numbers.
pub trait Eight<T>: Vector<T> {
    /// Rows become columns.
    fn transpose(rows: [Self; LANES]) -> [Self; LANES];
}

/// Any number type on any machine.
#[derive(Debug, Clone, Copy)]
pub struct Plain<T, const FMA: bool>([T; LANES]);

impl<T: Scalar, const FMA: bool> Vector<T> for Plain<T, FMA> {
    // Half as many as there are AVX registers: the baseline has registers of half the size.
    const ROWS: [usize; 3] = [4, 2, 1];
    const OUTER_ROWS: [usize; 3] = [4, 2, 1];
    const WIDTH: usize = LANES;
    type Mask = ();

    #[inline(always)]
    fn mask(_: usize) {}

    #[inline(always)]
    fn splat(x: T) -> Self {
        Plain([x; LANES])
    }

    #[inline(always)]
    unsafe fn load(from: *const T, (): ()) -> Self {
        // SAFETY: the caller's promise; there are eight numbers.
        Plain(unsafe { *from.cast() })
    }

    #[inline(always)]
    unsafe fn load_if(from: *const T, (): (), there: bool) -> Self {
        // SAFETY: the caller's promise.
        if there { unsafe { Self::load(from, ()) } } else { Self::splat(T::zero()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut T, (): ()) {
        // SAFETY: the caller's promise; there is room for eight numbers.
        unsafe { *to.cast() = self.0 }
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
    fn where_positive(mut self, other: Self) -> Self {
        for i in 0..LANES {
            self.0[i] = if other.0[i] > T::zero() { self.0[i] } else { T::zero() };
        }
        self
    }
}

impl<T: Scalar, const FMA: bool> Eight<T> for Plain<T, FMA> {
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

    use super::{super::LANES, Eight, Vector};

    /// A register. Values of it exist only in code that runs where the CPU has AVX2 and FMA.
    #[derive(Debug, Clone, Copy)]
    pub struct Avx(__m256);

    impl Vector<f32> for Avx {
        // Enough sums to hide the latency of FMA, with room for the operands: 4 x 3 would be one register too
        // many.
        const ROWS: [usize; 3] = [8, 6, 3];
        const OUTER_ROWS: [usize; 3] = [8, 4, 2];
        const WIDTH: usize = LANES;
        type Mask = ();

        #[inline(always)]
        fn mask(_: usize) {}

        #[inline(always)]
        fn splat(x: f32) -> Avx {
            // SAFETY: the CPU has AVX2, see `Avx`.
            Avx(unsafe { _mm256_set1_ps(x) })
        }

        #[inline(always)]
        unsafe fn load(from: *const f32, (): ()) -> Avx {
            // SAFETY: the CPU has AVX2, see `Avx`; there are eight numbers, as the caller promises.
            Avx(unsafe { _mm256_loadu_ps(from) })
        }

        #[inline(always)]
        unsafe fn load_if(from: *const f32, (): (), there: bool) -> Avx {
            static ZEROS: [f32; LANES] = [0.0; LANES];
            // Another address in place of a branch.
            let from = if there { from } else { ZEROS.as_ptr() };
            // SAFETY: the caller's promise, or the zeros.
            unsafe { Avx::load(from, ()) }
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut f32, (): ()) {
            // SAFETY: the CPU has AVX2, see `Avx`; there is room for eight numbers, as the caller promises.
            unsafe { _mm256_storeu_ps(to, self.0) }
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
        fn where_positive(self, other: Avx) -> Avx {
            // SAFETY: the CPU has AVX2, see `Avx`.
            unsafe {
                let positive = _mm256_cmp_ps::<_CMP_GT_OQ>(other.0, _mm256_setzero_ps());
                Avx(_mm256_and_ps(self.0, positive))
            }
        }
    }

    impl Eight<f32> for Avx {
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

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512 {
    use std::arch::x86_64::*;

    use super::Vector;

    /// A register. Values of it exist only in code that runs where the CPU has AVX-512.
    #[derive(Debug, Clone, Copy)]
    pub struct Avx512(__m512);

    impl Vector<f32> for Avx512 {
        // Of 32 registers, 24 for sums; two sums or more for each of the units' cycles of latency.
        const ROWS: [usize; 3] = [12, 12, 6];
        const OUTER_ROWS: [usize; 3] = [8, 8, 8];
        const WIDTH: usize = 16;
        type Mask = __mmask16;

        #[inline(always)]
        fn mask(count: usize) -> __mmask16 {
            if count >= 16 { 0xffff } else { 0x00ff }
        }

        #[inline(always)]
        fn splat(x: f32) -> Avx512 {
            // SAFETY: the CPU has AVX-512, see `Avx512`.
            Avx512(unsafe { _mm512_set1_ps(x) })
        }

        #[inline(always)]
        unsafe fn load(from: *const f32, mask: __mmask16) -> Avx512 {
            // SAFETY: the CPU has AVX-512, see `Avx512`; the numbers are there, as the caller promises.
            Avx512(unsafe { _mm512_maskz_loadu_ps(mask, from) })
        }

        #[inline(always)]
        unsafe fn load_if(from: *const f32, mask: __mmask16, there: bool) -> Avx512 {
            // SAFETY: the caller's promise; an empty mask reads nothing.
            unsafe { Avx512::load(from, if there { mask } else { 0 }) }
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut f32, mask: __mmask16) {
            // SAFETY: the CPU has AVX-512, see `Avx512`; there is room for the numbers, as the caller
            // promises.
            unsafe { _mm512_mask_storeu_ps(to, mask, self.0) }
        }

        #[inline(always)]
        fn add(self, other: Avx512) -> Avx512 {
            // SAFETY: the CPU has AVX-512, see `Avx512`.
            Avx512(unsafe { _mm512_add_ps(self.0, other.0) })
        }

        #[inline(always)]
        fn sub(self, other: Avx512) -> Avx512 {
            // SAFETY: the CPU has AVX-512, see `Avx512`.
            Avx512(unsafe { _mm512_sub_ps(self.0, other.0) })
        }

        #[inline(always)]
        fn mul(self, other: Avx512) -> Avx512 {
            // SAFETY: the CPU has AVX-512, see `Avx512`.
            Avx512(unsafe { _mm512_mul_ps(self.0, other.0) })
        }

        #[inline(always)]
        fn madd(self, by: Avx512, to: Avx512) -> Avx512 {
            // SAFETY: the CPU has AVX-512, see `Avx512`.
            Avx512(unsafe { _mm512_fmadd_ps(self.0, by.0, to.0) })
        }

        #[inline(always)]
        fn msub(self, by: Avx512, from: Avx512) -> Avx512 {
            // SAFETY: the CPU has AVX-512, see `Avx512`.
            Avx512(unsafe { _mm512_fnmadd_ps(self.0, by.0, from.0) })
        }

        #[inline(always)]
        fn relu(self) -> Avx512 {
            // SAFETY: the CPU has AVX-512, see `Avx512`.
            Avx512(unsafe { _mm512_max_ps(self.0, _mm512_setzero_ps()) })
        }

        #[inline(always)]
        fn where_positive(self, other: Avx512) -> Avx512 {
            // SAFETY: the CPU has AVX-512, see `Avx512`.
            unsafe {
                let positive = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(other.0, _mm512_setzero_ps());
                Avx512(_mm512_maskz_mov_ps(positive, self.0))
            }
        }
    }
}

/// Whether what has `lanes` goes in vectors of AVX-512 on this machine.
#[cfg(target_arch = "x86_64")]
pub(super) fn is_wide(lanes: usize) -> bool {
    use crate::kernels::{has_avx512, has_full_rate_avx512};
    has_full_rate_avx512() || has_avx512() && lanes.is_multiple_of(2 * LANES)
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn is_wide(_: usize) -> bool {
    false
}

/// Numbers of a vector in what [`with_vectors`] defines for `lanes`, on this machine.
pub(super) fn width<T: Scalar>(lanes: usize) -> usize {
    if is_wide(lanes) { <T::Wide as Vector<T>>::WIDTH } else { LANES }
}

/// Defines `$name`, which runs `$body` with the best vectors of this machine, wide ones if `$wide`.
macro_rules! with_vectors {
    ($(#[$doc:meta])* $vis:vis $name:ident = $body:ident($($arg:ident: $ty:ty),* $(,)?) if $wide:expr) => {
        $(#[$doc])*
        $vis fn $name<T: $crate::Scalar>($($arg: $ty),*) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma,avx512f")]
                fn wide<T: $crate::Scalar>($($arg: $ty),*) {
                    $body::<T, T::Wide>($($arg),*)
                }
                #[target_feature(enable = "avx2,fma")]
                fn fast<T: $crate::Scalar>($($arg: $ty),*) {
                    $body::<T, T::Vector>($($arg),*)
                }
                if $wide && $crate::kernels::has_avx512() {
                    // SAFETY: the only requirement of `wide`, and of its vectors, is that the CPU has these
                    // features.
                    return unsafe { wide($($arg),*) };
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

/// The same with vectors of eight.
macro_rules! with_eights {
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
pub(super) use with_eights;

/// The numbers at `at`: a whole vector, or `lanes` if these are fewer, and zeros behind them.
#[inline(always)]
pub(super) fn load<T, V: Vector<T>>(from: &[T], at: usize, lanes: usize) -> V {
    let from = &from[at..][..lanes.min(V::WIDTH)];
    // SAFETY: all numbers of the mask are in the slice.
    unsafe { V::load(from.as_ptr(), V::mask(lanes)) }
}

/// Stores the numbers of a vector at `at`, or `lanes` if these are fewer.
#[inline(always)]
pub(super) fn store<T, V: Vector<T>>(x: V, to: &mut [T], at: usize, lanes: usize) {
    let to = &mut to[at..][..lanes.min(V::WIDTH)];
    // SAFETY: there is room in the slice for all numbers of the mask.
    unsafe { x.store(to.as_mut_ptr(), V::mask(lanes)) }
}

/// The numbers at `at`, at most a vector and `count`, and zeros behind them. Unlike in [`load`], `count` is
/// any number.
#[inline(always)]
pub(super) fn load_some<T: Scalar, V: Vector<T>>(from: &[T], at: usize, count: usize) -> V {
    if count >= V::WIDTH {
        return load(from, at, V::WIDTH);
    }
    let mut padded = [T::zero(); WIDEST];
    padded[..count].copy_from_slice(&from[at..][..count]);
    load(&padded, 0, V::WIDTH)
}

/// Stores the numbers of a vector at `at`, at most `count`, any number.
#[inline(always)]
pub(super) fn store_some<T: Scalar, V: Vector<T>>(x: V, to: &mut [T], at: usize, count: usize) {
    if count >= V::WIDTH {
        return store(x, to, at, V::WIDTH);
    }
    let mut padded = [T::zero(); WIDEST];
    store(x, &mut padded, 0, V::WIDTH);
    to[at..][..count].copy_from_slice(&padded[..count]);
}

/// The most numbers of a vector.
const WIDEST: usize = 16;

/// The numbers at `at` that the mask has.
///
/// # Safety
/// They are in the slice.
#[inline(always)]
pub(super) unsafe fn load_unchecked<T, V: Vector<T>>(from: &[T], at: usize, mask: V::Mask) -> V {
    debug_assert!(at + LANES <= from.len());
    // SAFETY: the caller's promise.
    unsafe { V::load(from.as_ptr().add(at), mask) }
}

/// Stores the numbers that the mask has at `at`.
///
/// # Safety
/// They have room in the slice.
#[inline(always)]
pub(super) unsafe fn store_unchecked<T, V: Vector<T>>(x: V, to: &mut [T], at: usize, mask: V::Mask) {
    debug_assert!(at + LANES <= to.len());
    // SAFETY: the caller's promise.
    unsafe { x.store(to.as_mut_ptr().add(at), mask) }
}
