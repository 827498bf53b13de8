//! Selection of the instruction set at run time.

#[cfg(target_arch = "x86_64")]
use std::sync::LazyLock;

use super::Scalar;

/// Whether the target has FMA without a run-time check. Without it `mul_add` would be a slow library call.
pub(crate) const BASELINE_FMA: bool = cfg!(any(target_arch = "aarch64", target_feature = "fma"));

/// Whether this machine has the instructions that the fast dispatch_fixed are compiled for.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn has_avx2() -> bool {
    std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma")
}

/// Whether this machine has AVX-512. `HINDSIGHT_AVX512=off` disables it, to check that results do not depend
/// on it.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn has_avx512() -> bool {
    static WANTED: LazyLock<bool> =
        LazyLock::new(|| std::env::var_os("HINDSIGHT_AVX512").is_none_or(|value| value != "off"));
    has_avx2() && std::is_x86_feature_detected!("avx512f") && *WANTED
}

/// Whether this machine has AVX-512 at the rate of AVX2. AMD's Zen 4 takes two cycles for an instruction
/// where it takes one for AVX2: a wide vector that is not filled costs more than narrow ones there.
/// `HINDSIGHT_AVX512=always` says yes, to check that results do not depend on it.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn has_full_rate_avx512() -> bool {
    use std::arch::x86_64::__cpuid;
    static HALF: LazyLock<bool> = LazyLock::new(|| {
        let vendor = __cpuid(0);
        let amd = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).concat() == b"AuthenticAMD";
        let version = __cpuid(1).eax;
        let family = (version >> 8 & 0xf) + (version >> 20 & 0xff);
        amd && family == 0x19 && std::env::var_os("HINDSIGHT_AVX512").is_none_or(|value| value != "always")
    });
    has_avx512() && !*HALF
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn has_full_rate_avx512() -> bool {
    false
}

/// Splits `0..len` into ranges of at most `most`, as equal as possible; yields the start and length of each.
#[inline(always)]
pub(super) fn tiles(len: usize, most: usize) -> impl Iterator<Item = (usize, usize)> {
    let count = len.div_ceil(most);
    let start = move |tile| tile * len / count;
    (0..count).map(move |tile| (start(tile), start(tile + 1) - start(tile)))
}

/// `a * b + c`, fused if `FMA`.
#[inline(always)]
pub(crate) fn madd<T: Scalar, const FMA: bool>(a: T, b: T, c: T) -> T {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

/// Defines `$name`, which runs `$body` compiled for AVX2 with FMA where the machine has both.
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

/// [`dispatch`] for a `$body` that also has a version with wider blocks, for AVX-512.
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

/// [`dispatch_wide`] for a `$body` that is not generic over the number type.
macro_rules! dispatch_fixed {
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
pub(crate) use dispatch_fixed;
