//! Products and sums that everything else is made of; the only `unsafe` of the project.
//!
//! Most kernels are generic code that the compiler vectorises. It is compiled for the baseline of the target, for AVX2
//! with FMA and, where wider blocks pay, for AVX-512, and the best one that the machine has is taken at run time. Where
//! the compiler fails ([`Kernels`]), `f32` has a version in intrinsics beside the generic one. AVX2 and AVX-512 give the
//! same bits: only the number of entries that are worked on at a time differs, not the order of any sum.
//!
//! The order of every sum is part of the contract: an entry of a result depends on its own row only, the sparse
//! products equal the dense ones to the bit, and `tests.rs` checks all of it against the definitions.

mod alloc;
mod chosen;
mod columns;
mod compress;
pub mod conv;
mod dense;
mod dots;
mod gradient;
mod pairs;
mod sparse;
#[cfg(test)]
mod tests;
mod whole;

pub use alloc::CacheAligned;
pub use chosen::product_transposed_at;
pub use columns::{column_products, column_squares, column_sums, combine, scale_shift};
pub use compress::compress;
pub use dense::{Start, product};
pub use dots::product_transposed;
pub use gradient::accumulate_product;
pub use pairs::{PairPanels, PairRows, pair_product, pairs_pay};
pub use sparse::{Panels, count_nonzeros, panel_product, sparse_accumulate, sparse_product};
pub use whole::{ACTIVATION, activate, distance_where, round, round_to, take_in};

#[cfg(target_arch = "x86_64")]
use std::sync::LazyLock;

use crate::{Scalar, SparseRows};

/// The kernels that vectorise by hand only: an implementation per number type.
pub trait Kernels: conv::Compiled<Self> + Sized {
    /// The vectors of the convolutions where the CPU has AVX2 and FMA.
    type Vector: conv::vector::Eight<Self>;

    /// The same where it has AVX-512.
    type Wide: conv::vector::Vector<Self>;

    /// See [`product_transposed()`].
    fn product_transposed(a: &[Self], b: &[Self], n: usize, add: bool, out: &mut [Self]);

    /// See [`compress()`].
    fn compress(row: &[Self], first: u32, columns: &mut [u32], values: &mut [Self]) -> usize;

    /// See [`product_transposed_at()`].
    fn product_transposed_at(
        a: &[Self],
        b: &[Self],
        n: usize,
        places: &SparseRows<Self>,
        add: bool,
        out: &mut [Self],
    );
}

impl Kernels for f64 {
    type Vector = conv::vector::Plain<f64, true>;
    type Wide = Self::Vector;

    fn product_transposed(a: &[f64], b: &[f64], n: usize, add: bool, out: &mut [f64]) {
        dots::reference::<f64, BASELINE_FMA>(a, b, n, add, out);
    }

    fn compress(row: &[f64], first: u32, columns: &mut [u32], values: &mut [f64]) -> usize {
        compress::reference(row, first, columns, values)
    }

    fn product_transposed_at(
        a: &[f64],
        b: &[f64],
        n: usize,
        places: &SparseRows<f64>,
        add: bool,
        out: &mut [f64],
    ) {
        chosen::reference::<f64, BASELINE_FMA>(a, b, n, places, add, out);
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

    fn product_transposed(a: &[f32], b: &[f32], n: usize, add: bool, out: &mut [f32]) {
        #[cfg(target_arch = "x86_64")]
        if has_avx2() {
            // SAFETY: the CPU has AVX2 and FMA.
            return unsafe { dots::avx2::product_transposed(a, b, n, add, out) };
        }
        dots::reference::<f32, BASELINE_FMA>(a, b, n, add, out);
    }

    fn compress(row: &[f32], first: u32, columns: &mut [u32], values: &mut [f32]) -> usize {
        #[cfg(target_arch = "x86_64")]
        if has_avx2() {
            // SAFETY: the CPU has AVX2 and FMA.
            return unsafe { compress::avx2::compress(row, first, columns, values) };
        }
        compress::reference(row, first, columns, values)
    }

    fn product_transposed_at(
        a: &[f32],
        b: &[f32],
        n: usize,
        places: &SparseRows<f32>,
        add: bool,
        out: &mut [f32],
    ) {
        #[cfg(target_arch = "x86_64")]
        if has_avx512() && n == chosen::avx512::WIDTH {
            // SAFETY: the CPU has AVX-512, AVX2 and FMA.
            return unsafe { chosen::avx512::product_transposed_at(a, b, places, add, out) };
        } else if has_avx2() {
            // SAFETY: the CPU has AVX2 and FMA.
            return unsafe { chosen::avx2::product_transposed_at(a, b, n, places, add, out) };
        }
        chosen::reference::<f32, BASELINE_FMA>(a, b, n, places, add, out);
    }
}

/// Whether `mul_add` is one instruction without any run-time check; elsewhere it would be a library call.
pub(crate) const BASELINE_FMA: bool = cfg!(any(target_arch = "aarch64", target_feature = "fma"));

/// Whether this machine has the instructions that the fast versions are compiled for.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn has_avx2() -> bool {
    std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma")
}

/// Whether it has those of twice the width, and twice as many registers. `HINDSIGHT_AVX512=off` says that it has not, so that a
/// machine that has them can show that results do not depend on it.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn has_avx512() -> bool {
    static WANTED: LazyLock<bool> =
        LazyLock::new(|| std::env::var_os("HINDSIGHT_AVX512").is_none_or(|value| value != "off"));
    has_avx2() && std::is_x86_feature_detected!("avx512f") && *WANTED
}

/// `0..len` in ranges of at most `most` and as equal as possible, each as its start and length.
#[inline(always)]
fn tiles(len: usize, most: usize) -> impl Iterator<Item = (usize, usize)> {
    let count = len.div_ceil(most);
    let start = move |tile| tile * len / count;
    (0..count).map(move |tile| (start(tile), start(tile + 1) - start(tile)))
}

/// `a * b + c`, fused where the hardware does it.
#[inline(always)]
pub(crate) fn madd<T: Scalar, const FMA: bool>(a: T, b: T, c: T) -> T {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

/// Defines `$name`, which runs `$body` compiled for the best instruction set of this machine.
macro_rules! dispatch {
    ($(#[$doc:meta])* $vis:vis $name:ident = $body:ident($($arg:ident: $ty:ty),* $(,)?)) => {
        $(#[$doc])*
        $vis fn $name<T: $crate::Scalar>($($arg: $ty),*) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                fn fast<T: $crate::Scalar>($($arg: $ty),*) {
                    $body::<T, true>($($arg),*)
                }
                if $crate::kernels::has_avx2() {
                    // SAFETY: the only requirement of `fast` is that the CPU has both features.
                    return unsafe { fast($($arg),*) };
                }
            }
            $body::<T, { $crate::kernels::BASELINE_FMA }>($($arg),*)
        }
    };
}
pub(crate) use dispatch;

/// The same for a `$body` that has larger blocks to offer where registers are many and wide.
macro_rules! dispatch_wide {
    ($(#[$doc:meta])* $vis:vis $name:ident = $body:ident($($arg:ident: $ty:ty),* $(,)?)) => {
        $(#[$doc])*
        $vis fn $name<T: $crate::Scalar>($($arg: $ty),*) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                fn fast<T: $crate::Scalar>($($arg: $ty),*) {
                    $body::<T, true, false>($($arg),*)
                }
                #[target_feature(enable = "avx512f,fma")]
                fn wide<T: $crate::Scalar>($($arg: $ty),*) {
                    $body::<T, true, true>($($arg),*)
                }
                if $crate::kernels::has_avx512() {
                    // SAFETY: the only requirement of `wide` is that the CPU has both features.
                    return unsafe { wide($($arg),*) };
                }
                if $crate::kernels::has_avx2() {
                    // SAFETY: the only requirement of `fast` is that the CPU has both features.
                    return unsafe { fast($($arg),*) };
                }
            }
            $body::<T, { $crate::kernels::BASELINE_FMA }, false>($($arg),*)
        }
    };
}
pub(crate) use dispatch_wide;

/// The same for a `$body` of no number type of its own.
macro_rules! versions {
    ($(#[$doc:meta])* $vis:vis $name:ident = $body:ident($($arg:ident: $ty:ty),* $(,)?)) => {
        $(#[$doc])*
        $vis fn $name($($arg: $ty),*) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                fn fast($($arg: $ty),*) {
                    $body($($arg),*)
                }
                #[target_feature(enable = "avx512f,fma")]
                fn wide($($arg: $ty),*) {
                    $body($($arg),*)
                }
                if $crate::kernels::has_avx512() {
                    // SAFETY: the CPU has both features.
                    return unsafe { wide($($arg),*) };
                }
                if $crate::kernels::has_avx2() {
                    // SAFETY: the CPU has both features.
                    return unsafe { fast($($arg),*) };
                }
            }
            $body($($arg),*)
        }
    };
}
pub(crate) use versions;

dispatch! {
    /// `d = d` where the ReLU with output `h` let its input through, else 0.
    pub through_relu = through_relu_body(h: &[T], d: &mut [T])
}

#[inline(always)]
fn through_relu_body<T: Scalar, const FMA: bool>(h: &[T], d: &mut [T]) {
    d.iter_mut().zip(h).for_each(|(d, &h)| *d = if h > T::zero() { *d } else { T::zero() });
}

dispatch! {
    /// `y += a * x`.
    pub axpy = axpy_body(a: T, x: &[T], y: &mut [T])
}

#[inline(always)]
fn axpy_body<T: Scalar, const FMA: bool>(a: T, x: &[T], y: &mut [T]) {
    for (y, &x) in y.iter_mut().zip(x) {
        *y = madd::<T, FMA>(a, x, *y);
    }
}

dispatch! {
    /// `y = share y + (1 - share) x`.
    pub blend = blend_body(share: T, x: &[T], y: &mut [T])
}

#[inline(always)]
fn blend_body<T: Scalar, const FMA: bool>(share: T, x: &[T], y: &mut [T]) {
    for (y, &x) in y.iter_mut().zip(x) {
        *y = madd::<T, FMA>(T::one() - share, x, share * *y);
    }
}

dispatch! {
    /// `y += x^2`, entry by entry.
    pub add_squares = add_squares_body(x: &[T], y: &mut [T])
}

#[inline(always)]
fn add_squares_body<T: Scalar, const FMA: bool>(x: &[T], y: &mut [T]) {
    y.iter_mut().zip(x).for_each(|(y, &x)| *y = madd::<T, FMA>(x, x, *y));
}

dispatch! {
    /// `y += a (x + b w (y - centre))`, entry by entry: a step along `x` that `w` holds back from leaving `centre`.
    pub axpy_held = axpy_held_body(a: T, x: &[T], b: T, w: &[T], centre: &[T], y: &mut [T])
}

#[inline(always)]
fn axpy_held_body<T: Scalar, const FMA: bool>(a: T, x: &[T], b: T, w: &[T], centre: &[T], y: &mut [T]) {
    for (((y, &x), &w), &centre) in y.iter_mut().zip(x).zip(w).zip(centre) {
        *y = madd::<T, FMA>(a, madd::<T, FMA>(b * w, *y - centre, x), *y);
    }
}

dispatch! {
    /// Sets `sum` to the inner product: sixteen interleaved sums of at most 64 terms, added up in order, in `f64`.
    pub dot = dot_body(x: &[T], y: &[T], sum: &mut f64)
}

#[inline(always)]
fn dot_body<T: Scalar, const FMA: bool>(x: &[T], y: &[T], sum: &mut f64) {
    const LANES: usize = 16;
    let mut totals = [0.0; LANES];
    for (x, y) in x.chunks(64 * LANES).zip(y.chunks(64 * LANES)) {
        let mut sums = [T::zero(); LANES];
        for (x, y) in x.chunks(LANES).zip(y.chunks(LANES)) {
            for ((sum, &x), &y) in sums.iter_mut().zip(x).zip(y) {
                *sum = madd::<T, FMA>(x, y, *sum);
            }
        }
        totals.iter_mut().zip(sums).for_each(|(total, sum)| *total += sum.wide());
    }
    *sum = totals.iter().sum();
}

/// The constants of a step of Adam: decays of the means, and corrections for their start at zero.
#[derive(Debug, Clone, Copy)]
pub struct AdamStep<T> {
    pub rate: T,
    pub decay: [T; 2],
    pub debias: T,
    pub epsilon: T,
}

dispatch! {
    /// `mean` and `square` follow the gradient, `x` goes down.
    pub adam = adam_body(step: AdamStep<T>, gradient: &[T], mean: &mut [T], square: &mut [T], x: &mut [T])
}

#[inline(always)]
fn adam_body<T: Scalar, const FMA: bool>(
    AdamStep { rate, decay: [beta1, beta2], debias, epsilon }: AdamStep<T>,
    gradient: &[T],
    mean: &mut [T],
    square: &mut [T],
    x: &mut [T],
) {
    for (((x, &g), m), s) in x.iter_mut().zip(gradient).zip(mean).zip(square) {
        *m = beta1 * *m + (T::one() - beta1) * g;
        *s = beta2 * *s + (T::one() - beta2) * g * g;
        *x -= rate * *m / (s.sqrt() / debias + epsilon);
    }
}

dispatch! {
    /// `into += scale * column sums` of `rows: [_, into.len()]`.
    pub accumulate_columns = accumulate_columns_body(rows: &[T], scale: T, into: &mut [T])
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
