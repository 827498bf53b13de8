//! Products and sums that everything else is made of; the only `unsafe` of the project.
//!
//! Each kernel is generic code that the compiler vectorises. It is compiled twice, for the baseline of the
//! target and for AVX2 with FMA, and the better one that the machine has is taken at run time.

mod dense;
mod sparse;

pub(crate) use dense::{accumulate_product, product, product_transposed};
pub(crate) use sparse::{Epilogue, sparse_product};

use crate::Scalar;

/// Whether `mul_add` is one instruction without any run-time check; elsewhere it would be a library call.
pub(crate) const BASELINE_FMA: bool = cfg!(any(target_arch = "aarch64", target_feature = "fma"));

/// `a * b + c`, fused where the hardware does it.
#[inline(always)]
pub(crate) fn madd<T: Scalar, const FMA: bool>(a: T, b: T, c: T) -> T {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

/// Defines `$name`, which runs `$body` compiled for the best instruction set of this machine.
macro_rules! dispatch {
    ($(#[$doc:meta])* $name:ident = $body:ident($($arg:ident: $ty:ty),* $(,)?)) => {
        $(#[$doc])*
        pub(crate) fn $name<T: $crate::Scalar>($($arg: $ty),*) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                fn fast<T: $crate::Scalar>($($arg: $ty),*) {
                    $body::<T, true>($($arg),*)
                }
                if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma") {
                    // SAFETY: the only requirement of `fast` is that the CPU has both features.
                    return unsafe { fast($($arg),*) };
                }
            }
            $body::<T, { $crate::kernels::BASELINE_FMA }>($($arg),*)
        }
    };
}
pub(crate) use dispatch;

dispatch! {
    /// `y += a * x`.
    axpy = axpy_body(a: T, x: &[T], y: &mut [T])
}

#[inline(always)]
fn axpy_body<T: Scalar, const FMA: bool>(a: T, x: &[T], y: &mut [T]) {
    for (y, &x) in y.iter_mut().zip(x) {
        *y = madd::<T, FMA>(a, x, *y);
    }
}

dispatch! {
    /// `into += scale * column sums` of `rows: [_, into.len()]`.
    accumulate_columns = accumulate_columns_body(rows: &[T], scale: T, into: &mut [T])
}

#[inline(always)]
fn accumulate_columns_body<T: Scalar, const FMA: bool>(rows: &[T], scale: T, into: &mut [T]) {
    const BLOCK: usize = 32;
    let n = into.len();
    for (block, into) in into.chunks_mut(BLOCK).enumerate() {
        let mut sums = [T::zero(); BLOCK];
        for row in rows.chunks_exact(n) {
            let row = &row[block * BLOCK..][..into.len()];
            sums.iter_mut().zip(row).for_each(|(sum, &x)| *sum += x);
        }
        into.iter_mut().zip(sums).for_each(|(into, sum)| *into = madd::<T, FMA>(scale, sum, *into));
    }
}
