//! Vector algebra on parameters: theta, gradients and posteriors are plain slices.

pub use crate::kernels::KlTerms;
use crate::{Scalar, kernels};

/// `y += a * x`.
///
/// # Panics
/// If the lengths differ.
pub fn axpy<T: Scalar>(a: T, x: &[T], y: &mut [T]) {
    assert_eq!(x.len(), y.len(), "axpy of vectors of different lengths");
    kernels::axpy(a, x, y);
}

/// `y += a (x + b w (y - centre))`, elementwise: a step along `x` plus the gradient of a quadratic penalty on
/// the distance from `centre`, weighted by `w`.
///
/// # Panics
/// If the lengths differ.
pub fn axpy_penalized<T: Scalar>(a: T, x: &[T], b: T, w: &[T], centre: &[T], y: &mut [T]) {
    let lengths = [x, w, centre].map(<[T]>::len);
    assert_eq!(lengths, [y.len(); 3], "axpy_penalized of vectors of different lengths");
    kernels::axpy_penalized(a, x, b, w, centre, y);
}

/// [`add_squares`] of `x` to `squares`, and [`axpy_penalized`], in one pass over memory.
///
/// # Panics
/// If the lengths differ.
pub fn axpy_penalized_counted<T: Scalar>(
    a: T,
    x: &[T],
    b: T,
    w: &[T],
    centre: &[T],
    y: &mut [T],
    squares: &mut [T],
) {
    let lengths = [x, w, centre, squares].map(<[T]>::len);
    assert_eq!(lengths, [y.len(); 4], "axpy_penalized_counted of vectors of different lengths");
    kernels::axpy_penalized_counted(a, x, b, w, centre, y, squares);
}

/// `y = share y + (1 - share) x`.
///
/// # Panics
/// If the lengths differ.
pub fn blend<T: Scalar>(share: T, x: &[T], y: &mut [T]) {
    assert_eq!(x.len(), y.len(), "blend of vectors of different lengths");
    kernels::blend(share, x, y);
}

/// `y += x^2`, elementwise.
///
/// # Panics
/// If the lengths differ.
pub fn add_squares<T: Scalar>(x: &[T], y: &mut [T]) {
    assert_eq!(x.len(), y.len(), "add_squares of vectors of different lengths");
    kernels::add_squares(x, y);
}

/// The inner product. Short partial sums are added in `f64`.
///
/// # Panics
/// If the lengths differ.
pub fn dot<T: Scalar>(x: &[T], y: &[T]) -> f64 {
    assert_eq!(x.len(), y.len(), "dot of vectors of different lengths");
    let mut sum = 0.0;
    kernels::dot(x, y, &mut sum);
    sum
}

/// `out = exp(x / 2)`, elementwise: standard deviations from the logarithms of variances.
///
/// # Panics
/// If the lengths differ.
pub fn half_exp(x: &[f32], out: &mut [f32]) {
    assert_eq!(x.len(), out.len(), "half_exp of vectors of different lengths");
    kernels::half_exp(x, out);
}

/// `w = mu + sigma eps`, elementwise.
///
/// # Panics
/// If the lengths differ.
pub fn reparameterize(mu: &[f32], sigma: &[f32], eps: &[f32], w: &mut [f32]) {
    let lengths = [mu, sigma, eps].map(<[f32]>::len);
    assert_eq!(lengths, [w.len(); 3], "reparameterize of vectors of different lengths");
    kernels::reparameterize(mu, sigma, eps, w);
}

/// `w = mu + sigma eps`, elementwise, with normals that are a function of `key` and of the index alone, which
/// begins at `first`. They are made in registers and not drawn one after the other.
///
/// # Panics
/// If the lengths differ.
pub fn sample_gaussian(key: [u32; 2], first: u32, mu: &[f32], sigma: &[f32], w: &mut [f32]) {
    let lengths = [mu, sigma].map(<[f32]>::len);
    assert_eq!(lengths, [w.len(); 2], "sample_gaussian of vectors of different lengths");
    kernels::sample_gaussian(key, first, mu, sigma, w);
}

/// `g_mu += s g` and `g_sigma += s g (w - mu)`: the gradient `g` in `w = mu + sigma eps`, carried to `mu` and
/// to the logarithm of `sigma`.
///
/// # Panics
/// If the lengths differ.
pub fn reparameterize_backward(s: f32, g: &[f32], [w, mu]: [&[f32]; 2], [g_mu, g_sigma]: [&mut [f32]; 2]) {
    let lengths = [w.len(), mu.len(), g_mu.len(), g_sigma.len()];
    assert_eq!(lengths, [g.len(); 4], "reparameterize_backward of vectors of different lengths");
    kernels::reparameterize_backward(s, g, w, mu, g_mu, g_sigma);
}

/// Adds `s` times the gradient of KL(q || p) in the means and log variances of q. `g_log_variance` holds a
/// gradient in the logarithm of sigma before.
///
/// # Panics
/// If the lengths differ.
pub fn add_kl_gradient(s: f32, terms: KlTerms<'_>, [g_mu, g_log_variance]: [&mut [f32]; 2]) {
    let KlTerms { mu, sigma, prior_mu, prior_log_variance } = terms;
    let lengths = [mu, sigma, prior_mu, prior_log_variance, g_log_variance].map(<[f32]>::len);
    assert_eq!(lengths, [g_mu.len(); 5], "add_kl_gradient of vectors of different lengths");
    kernels::add_kl_gradient(s, terms, g_mu, g_log_variance);
}

/// Whether all entries are finite.
pub fn finite<T: Scalar>(x: &[T]) -> bool {
    // No early exit within a chunk, so that the loop vectorises.
    x.chunks(1024).all(|x| x.iter().fold(true, |finite, v| finite & v.is_finite()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mlp, Net};

    #[test]
    fn half_exp_is_as_exact_as_its_argument_and_stays_finite() {
        let x: Vec<f32> = (-16_000..16_000).map(|i| i as f32 * 0.01).collect();
        let mut out = vec![0.0; x.len()];
        half_exp(&x, &mut out);
        for (&x, &found) in x.iter().zip(&out) {
            let expected = (0.5 * f64::from(x)).exp();
            let tolerance = 2e-7 + 1e-7 * f64::from(x.abs());
            assert!((f64::from(found) / expected - 1.0).abs() < tolerance, "{x}: {found} {expected}");
        }
        let mut far = [0.0; 3];
        half_exp(&[-1e6, 0.0, 1e6], &mut far);
        assert!(far[0] > 0.0 && far[1] == 1.0 && far[2].is_finite(), "{far:?}");
    }

    #[test]
    fn the_gradient_of_the_kl_agrees_with_finite_differences() {
        let (mu, log_variance) = ([0.3_f32, -0.5, 0.0], [-1.0_f32, 0.2, -6.0]);
        let (prior_mu, prior_log_variance) = ([0.0_f32, 0.1, 0.2], [0.0_f32, -0.4, -5.0]);
        let kl = |mu: &[f64; 3], log_variance: &[f64; 3]| -> f64 {
            (0..3)
                .map(|i| {
                    let (m0, v0) = (f64::from(prior_mu[i]), f64::from(prior_log_variance[i]));
                    let square = (mu[i] - m0).powi(2);
                    0.5 * (v0 - log_variance[i] + (log_variance[i].exp() + square) / v0.exp() - 1.0)
                })
                .sum()
        };
        let mut sigma = [0.0; 3];
        half_exp(&log_variance, &mut sigma);
        // What is there is kept: in the means as it is, in the log variances as a gradient in log sigma.
        let (mut g_mu, mut g_log_variance) = ([1.0; 3], [2.0; 3]);
        let terms =
            KlTerms { mu: &mu, sigma: &sigma, prior_mu: &prior_mu, prior_log_variance: &prior_log_variance };
        add_kl_gradient(0.5, terms, [&mut g_mu, &mut g_log_variance]);
        let step = 1e-5;
        for i in 0..3 {
            let difference = |of_mean: bool| {
                let [above, below] = [step, -step].map(|h| {
                    let (mut m, mut v) = (mu.map(f64::from), log_variance.map(f64::from));
                    if of_mean {
                        m[i] += h
                    } else {
                        v[i] += h
                    }
                    kl(&m, &v)
                });
                (above - below) / (2.0 * step)
            };
            assert!((f64::from(g_mu[i]) - 1.0 - 0.5 * difference(true)).abs() < 1e-4, "mean {i}");
            assert!(
                (f64::from(g_log_variance[i]) - 1.0 - 0.5 * difference(false)).abs() < 1e-4,
                "variance {i}"
            );
        }
    }

    #[test]
    fn a_gradient_in_sampled_weights_is_carried_to_mean_and_log_sigma() {
        let (mu, sigma, eps) = ([0.5_f32, -1.0], [0.2_f32, 0.4], [1.5_f32, -0.5]);
        let (mut w, mut g_mu, mut g_sigma) = ([0.0; 2], [0.0; 2], [0.0; 2]);
        reparameterize(&mu, &sigma, &eps, &mut w);
        reparameterize_backward(2.0, &[3.0, -1.0], [&w, &mu], [&mut g_mu, &mut g_sigma]);
        assert_eq!(g_mu, [6.0, -2.0]);
        for (found, expected) in g_sigma.iter().zip([6.0 * 0.3, 2.0 * 0.2]) {
            assert!((found - expected).abs() < 1e-6, "{g_sigma:?}");
        }
    }

    #[test]
    fn weights_of_inputs_that_are_all_zero_are_not_active() {
        let net = Mlp::new(&[4, 3, 2]).unwrap();
        let all = 4 * 3 + 3 + 3 * 2 + 2;
        let active = |x: &[f32]| Net::<f32>::active_parameters(&net, x);
        assert_eq!(active(&[1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 2.0, 0.0]), [0..3, 6..9, 12..all]);
        assert_eq!(active(&[0.0, 1.0, 0.0, 1.0]), [3..6, 9..all]);
        assert_eq!(active(&[1.0; 4]).first(), Some(&(0..all)));
    }
}
