//! Elementwise operations, inner products and column sums.

use super::{
    Scalar,
    dispatch::{dispatch, dispatch_fixed, madd},
};

dispatch! {
    /// The backward pass of ReLU: sets `d` to 0 wherever the output `h` is 0.
    pub relu_backward = relu_backward_body(h: &[T], d: &mut [T])
}

#[inline(always)]
fn relu_backward_body<T: Scalar, const FMA: bool>(h: &[T], d: &mut [T]) {
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

dispatch_fixed! {
    /// `out = exp(x / 2)`, elementwise, to about 1e-7 (2 + |x|) of its value; beyond 2^-126 and 2^126 it
    /// stays there.
    pub half_exp = half_exp_body(x: &[f32], out: &mut [f32])
}

#[inline(always)]
fn half_exp_body(x: &[f32], out: &mut [f32]) {
    out.iter_mut().zip(x).for_each(|(out, &x)| *out = exp(0.5 * x));
}

/// The exponential function without a branch, so that loops over it vectorise.
#[inline(always)]
fn exp(x: f32) -> f32 {
    // exp(x) = 2^n 2^f with n the nearest whole number. Adding 1.5 * 2^23 rounds to it and leaves it in the
    // last bits.
    const ROUND: f32 = 12_582_912.0;
    let t = (x * std::f32::consts::LOG2_E).clamp(-126.0, 126.0);
    let rounded = t + ROUND;
    let f = t - (rounded - ROUND);
    // The series of 2^f for |f| <= 1/2: the next term is below 1e-7.
    let mut p = 1.540_353e-4_f32;
    for c in [1.333_355_8e-3, 9.618_129e-3, 5.550_411e-2, 0.240_226_5, std::f32::consts::LN_2, 1.0] {
        p = p * f + c;
    }
    p * f32::from_bits(rounded.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127) << 23)
}

dispatch_fixed! {
    /// `w = mu + sigma eps`, elementwise.
    pub reparameterize = reparameterize_body(mu: &[f32], sigma: &[f32], eps: &[f32], w: &mut [f32])
}

#[inline(always)]
fn reparameterize_body(mu: &[f32], sigma: &[f32], eps: &[f32], w: &mut [f32]) {
    for (((w, mu), sigma), eps) in w.iter_mut().zip(mu).zip(sigma).zip(eps) {
        *w = mu + sigma * eps;
    }
}

dispatch_fixed! {
    /// `g_mu += s g` and `g_sigma += s g (w - mu)`, elementwise: the gradient `g` in `w = mu + sigma eps`,
    /// carried to `mu` and to the logarithm of `sigma`.
    pub reparameterize_backward = reparameterize_backward_body(
        s: f32,
        g: &[f32],
        w: &[f32],
        mu: &[f32],
        g_mu: &mut [f32],
        g_sigma: &mut [f32],
    )
}

#[inline(always)]
fn reparameterize_backward_body(
    s: f32,
    g: &[f32],
    w: &[f32],
    mu: &[f32],
    g_mu: &mut [f32],
    g_sigma: &mut [f32],
) {
    for ((((g, w), mu), g_mu), g_sigma) in g.iter().zip(w).zip(mu).zip(g_mu).zip(g_sigma) {
        let g = s * g;
        *g_mu += g;
        *g_sigma += g * (w - mu);
    }
}

/// A diagonal Gaussian `q` and its prior `p`.
#[derive(Debug, Clone, Copy)]
pub struct KlTerms<'a> {
    /// Means of `q`.
    pub mu: &'a [f32],
    /// Standard deviations of `q`.
    pub sigma: &'a [f32],
    /// Means of `p`.
    pub prior_mu: &'a [f32],
    /// Logarithms of the variances of `p`.
    pub prior_log_variance: &'a [f32],
}

dispatch_fixed! {
    /// `g_mu += s d KL(q || p) / d mu` and `g_log_variance = g_log_variance / 2 + s d KL(q || p) / d log
    /// sigma^2`, elementwise; the old value of the latter is a gradient in the logarithm of `sigma`.
    pub add_kl_gradient = add_kl_gradient_body(
        s: f32,
        terms: KlTerms<'_>,
        g_mu: &mut [f32],
        g_log_variance: &mut [f32],
    )
}

#[inline(always)]
fn add_kl_gradient_body(s: f32, terms: KlTerms<'_>, g_mu: &mut [f32], g_log_variance: &mut [f32]) {
    let KlTerms { mu, sigma, prior_mu, prior_log_variance } = terms;
    let gaussians = mu.iter().zip(sigma).zip(prior_mu.iter().zip(prior_log_variance));
    for (((mu, sigma), (prior_mu, log_variance)), (g_mu, g_log_variance)) in
        gaussians.zip(g_mu.iter_mut().zip(g_log_variance))
    {
        let precision = exp(-log_variance);
        *g_mu += s * ((mu - prior_mu) * precision);
        *g_log_variance = 0.5 * (*g_log_variance + s * (sigma * sigma * precision - 1.0));
    }
}

dispatch! {
    /// `y += x^2`, elementwise.
    pub add_squares = add_squares_body(x: &[T], y: &mut [T])
}

#[inline(always)]
fn add_squares_body<T: Scalar, const FMA: bool>(x: &[T], y: &mut [T]) {
    y.iter_mut().zip(x).for_each(|(y, &x)| *y = madd::<T, FMA>(x, x, *y));
}

dispatch! {
    /// `y += a (x + b w (y - centre))`, elementwise: a step along `x` plus the gradient of a quadratic
    /// penalty on the distance from `centre`, weighted by `w`.
    pub axpy_penalized = axpy_penalized_body(a: T, x: &[T], b: T, w: &[T], centre: &[T], y: &mut [T])
}

#[inline(always)]
fn axpy_penalized_body<T: Scalar, const FMA: bool>(a: T, x: &[T], b: T, w: &[T], centre: &[T], y: &mut [T]) {
    for (((y, &x), &w), &centre) in y.iter_mut().zip(x).zip(w).zip(centre) {
        *y = madd::<T, FMA>(a, madd::<T, FMA>(b * w, *y - centre, x), *y);
    }
}

dispatch! {
    /// [`add_squares`] of `x` to `squares`, and [`axpy_penalized`], in one pass.
    pub axpy_penalized_counted = axpy_penalized_counted_body(
        a: T, x: &[T], b: T, w: &[T], centre: &[T], y: &mut [T], squares: &mut [T],
    )
}

#[inline(always)]
fn axpy_penalized_counted_body<T: Scalar, const FMA: bool>(
    a: T,
    x: &[T],
    b: T,
    w: &[T],
    centre: &[T],
    y: &mut [T],
    squares: &mut [T],
) {
    for ((((y, &x), &w), &centre), square) in y.iter_mut().zip(x).zip(w).zip(centre).zip(squares) {
        *square = madd::<T, FMA>(x, x, *square);
        *y = madd::<T, FMA>(a, madd::<T, FMA>(b * w, *y - centre, x), *y);
    }
}

dispatch! {
    /// Sets `sum` to the inner product. Sixteen interleaved partial sums of at most 64 terms each are added
    /// in order, in `f64`.
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

/// The constants of one step of Adam, bias corrections included.
#[derive(Debug, Clone, Copy)]
pub struct AdamStep<T> {
    pub rate: T,
    pub decay: [T; 2],
    pub debias: T,
    pub epsilon: T,
}

dispatch! {
    /// One step of Adam: updates both moments and `x`.
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
    /// `into += scale * column sums`; `rows: [_, into.len()]`.
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
