//! The arithmetic kernels.
//!
//! Most kernels are generic code that the compiler vectorises. Each is compiled for the baseline of the
//! target, for AVX2 with FMA and, where wider blocks pay, for AVX-512; the best version that the machine
//! supports is selected at run time. Where the compiler fails to vectorise ([`Kernels`]), `f32` has a second
//! version in intrinsics.
//!
//! The order of every sum is part of the contract. AVX2 and AVX-512 give the same bits. An entry of a result
//! depends on its own row only. The sparse products equal the dense ones bit for bit. `tests.rs` checks all
//! of this against the definitions.

mod alloc;
mod columns;
mod compress;
pub mod conv;
mod dispatch;
mod elementwise;
mod matmul;
mod matmul_nt;
mod matmul_tn;
mod noise;
mod scalar;
mod sddmm;
mod sparse_rows;
mod spmm;
#[cfg(test)]
mod tests;
mod transpose;

pub use alloc::CacheAligned;
pub use columns::{column_products, column_squares, column_sums, combine, scale_shift};
use compress::compress;
pub(crate) use dispatch::{
    BASELINE_FMA, dispatch, dispatch_fixed, dispatch_wide, has_full_rate_avx512, madd,
};
#[cfg(target_arch = "x86_64")]
pub(crate) use dispatch::{has_avx2, has_avx512};
pub use elementwise::{
    AdamStep, KlTerms, accumulate_columns, adam, add_kl_gradient, add_squares, axpy, axpy_penalized,
    axpy_penalized_counted, blend, dot, half_exp, relu_backward, reparameterize, reparameterize_backward,
};
pub use matmul::{Start, matmul};
pub use matmul_nt::matmul_nt;
pub use matmul_tn::matmul_tn_accumulate;
pub use noise::sample_gaussian;
pub use scalar::Scalar;
pub use sddmm::sddmm;
pub use sparse_rows::SparseRows;
pub use spmm::{PackedMatrix, count_nonzeros, spmm, spmm_accumulate, spmm_packed};

use std::ops::Range;

use dispatch::tiles;

/// Asks for values that will be read soon.
#[inline(always)]
fn prefetch<T>(values: &[T]) {
    #[cfg(target_arch = "x86_64")]
    for line in values.chunks(64 / size_of::<T>()) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that the program sees; SSE is part of the architecture.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = values;
}

/// The kernels that vectorise by hand only: an implementation per number type.
pub trait Kernels: conv::Compiled<Self> + Sized {
    /// The vectors of the convolutions where the CPU has AVX2 and FMA.
    type Vector: conv::vector::Eight<Self>;

    /// The same where it has AVX-512.
    type Wide: conv::vector::Vector<Self>;

    /// See [`matmul_nt()`].
    fn matmul_nt(a: &[Self], b: &[Self], n: usize, add: bool, out: &mut [Self]);

    /// The columns and values of the non-zero entries of `row`, and the number found up to the end of each
    /// segment, plus `base`.
    fn compress(
        row: &[Self],
        segment: usize,
        base: usize,
        columns: &mut [u32],
        values: &mut [Self],
        ends: &mut Vec<u32>,
    );

    /// Writes the rows and the values of the non-zero entries of each column of `dense: [_, width]` to `rows`
    /// and `values`, and where each column ends to `ends`, if the machine can do that faster than by sorting.
    fn transpose(
        _dense: &[Self],
        _width: usize,
        _ends: &mut [u32],
        _rows: &mut [u32],
        _values: &mut [Self],
    ) -> bool {
        false
    }

    /// The first columns of [`spmm()`], as many as this returns.
    fn spmm_blocks(
        _rows: &SparseRows<Self>,
        _range: Range<usize>,
        _matrix: &[Self],
        _bias: &[Self],
        _relu: bool,
        _out: &mut [Self],
    ) -> usize {
        0
    }

    /// See [`sddmm()`].
    fn sddmm(a: &[Self], b: &[Self], n: usize, pattern: &SparseRows<Self>, add: bool, out: &mut [Self]);
}

impl Kernels for f64 {
    type Vector = conv::vector::Plain<f64, true>;
    type Wide = Self::Vector;

    fn matmul_nt(a: &[f64], b: &[f64], n: usize, add: bool, out: &mut [f64]) {
        matmul_nt::reference::<f64, BASELINE_FMA>(a, b, n, add, out);
    }

    fn compress(
        row: &[f64],
        segment: usize,
        base: usize,
        columns: &mut [u32],
        values: &mut [f64],
        ends: &mut Vec<u32>,
    ) {
        compress::plain(row, segment, base, columns, values, ends);
    }

    fn sddmm(a: &[f64], b: &[f64], n: usize, pattern: &SparseRows<f64>, add: bool, out: &mut [f64]) {
        sddmm::reference::<f64, BASELINE_FMA>(a, b, n, pattern, add, out);
    }
}

impl Kernels for f32 {
    #[cfg(target_arch = "x86_64")]
    type Vector = conv::vector::avx2::Avx;
    #[cfg(not(target_arch = "x86_64"))]
    type Vector = conv::vector::Plain<f32, BASELINE_FMA>;
    #[cfg(target_arch = "x86_64")]
    type Wide = conv::vector::avx512::Avx512;
    #[cfg(not(target_arch = "x86_64"))]
    type Wide = Self::Vector;

    fn matmul_nt(a: &[f32], b: &[f32], n: usize, add: bool, out: &mut [f32]) {
        #[cfg(target_arch = "x86_64")]
        if has_full_rate_avx512() {
            // SAFETY: the CPU has AVX-512, AVX2 and FMA.
            return unsafe { matmul_nt::avx512::matmul_nt(a, b, n, add, out) };
        } else if has_avx2() {
            // SAFETY: the CPU has AVX2 and FMA.
            return unsafe { matmul_nt::avx2::matmul_nt(a, b, n, add, out) };
        }
        matmul_nt::reference::<f32, BASELINE_FMA>(a, b, n, add, out);
    }

    fn compress(
        row: &[f32],
        segment: usize,
        base: usize,
        columns: &mut [u32],
        values: &mut [f32],
        ends: &mut Vec<u32>,
    ) {
        #[cfg(target_arch = "x86_64")]
        if has_full_rate_avx512() {
            // SAFETY: the CPU has AVX-512.
            return unsafe { compress::avx512::compress(row, segment, base, columns, values, ends) };
        } else if has_avx2() {
            // SAFETY: the CPU has AVX2 and FMA.
            return unsafe { compress::avx2::compress(row, segment, base, columns, values, ends) };
        }
        compress::plain(row, segment, base, columns, values, ends)
    }

    fn transpose(
        dense: &[f32],
        width: usize,
        ends: &mut [u32],
        rows: &mut [u32],
        values: &mut [f32],
    ) -> bool {
        #[cfg(target_arch = "x86_64")]
        if has_full_rate_avx512() {
            // SAFETY: the CPU has AVX-512.
            unsafe { transpose::avx512::transpose(dense, width, ends, rows, values) };
            return true;
        }
        false
    }

    fn spmm_blocks(
        rows: &SparseRows<f32>,
        range: Range<usize>,
        matrix: &[f32],
        bias: &[f32],
        relu: bool,
        out: &mut [f32],
    ) -> usize {
        #[cfg(target_arch = "x86_64")]
        if has_avx512() {
            // SAFETY: the CPU has AVX-512 and FMA.
            return unsafe { spmm::avx512::spmm_blocks(rows, range, matrix, bias, relu, out) };
        }
        0
    }

    fn sddmm(a: &[f32], b: &[f32], n: usize, pattern: &SparseRows<f32>, add: bool, out: &mut [f32]) {
        #[cfg(target_arch = "x86_64")]
        if has_avx512() && n == sddmm::avx512::WIDTH {
            // SAFETY: the CPU has AVX-512, AVX2 and FMA.
            return unsafe { sddmm::avx512::sddmm(a, b, pattern, add, out) };
        } else if has_avx2() {
            // SAFETY: the CPU has AVX2 and FMA.
            return unsafe { sddmm::avx2::sddmm(a, b, n, pattern, add, out) };
        }
        sddmm::reference::<f32, BASELINE_FMA>(a, b, n, pattern, add, out);
    }
}
