//! `y = gamma xhat + beta` with `xhat = (z - mean) s`, channel by channel, and `s` one over the deviation.
//!
//! In training, mean and deviation are the batch's; they depend on `z`, and so every derivative goes through
//! them. Under running statistics they are constants. All of it comes down to sums over the pixels and linear
//! combinations with one coefficient per lane. The sums of a group of images are taken when the group is
//! written, while it is in the cache; what needs them follows when all groups are complete.

use super::BatchNormMode;
use crate::{
    Scalar,
    kernels::{
        axpy, column_products, column_sums, combine,
        conv::{Gate, gate, lanes, moments},
        scale_shift,
    },
};

/// Added to a variance before its root is taken.
const EPSILON: f64 = 1e-3;

/// What a batch moves the running statistics by.
pub(crate) const MOMENTUM: f64 = 0.1;

/// A batch-norm: its channels, its place in theta (gamma, then beta) and that of its running mean and
/// variance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BatchNorm {
    pub(crate) channels: usize,
    pub(crate) start: usize,
    pub(crate) state: usize,
}

/// What a pass over a batch-norm leaves, per lane; padding included, where everything is zero.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pass<T> {
    /// Pixels of all images.
    rows: usize,
    statistics: BatchNormMode,
    gamma: Vec<T>,
    mean: Vec<T>,
    variance: Vec<T>,
    /// One over the deviation.
    s: Vec<T>,
    /// Sums over pixels: `dy` and `dy xhat`, which are the gradients of beta and gamma.
    dy: Vec<T>,
    dy_xhat: Vec<T>,
    /// Tangents: of gamma, the mean of `z'`, the mean of `z' xhat`, and of the two sums above.
    gamma_tangent: Vec<T>,
    z_mean: Vec<T>,
    z_xhat: Vec<T>,
    dy_tangent: Vec<T>,
    dy_xhat_tangent: Vec<T>,
    /// Coefficients: of `z` and the rest in `y`, and of `dy`, of `z` and the rest in `dz`.
    forward: [Vec<T>; 2],
    backward: [Vec<T>; 3],
    /// Coefficients of the tangents under way.
    by: [Vec<T>; 5],
}

/// `into = values` and zeros for the padding.
fn pad<T: Scalar>(values: &[T], into: &mut Vec<T>) {
    into.clear();
    into.extend_from_slice(values);
    into.resize(lanes(values.len()), T::zero());
}

fn zeros<T: Scalar>(lanes: usize, into: &mut Vec<T>) {
    into.clear();
    into.resize(lanes, T::zero());
}

/// `into[l] = f(l)` for all lanes.
fn fill<T: Scalar>(lanes: usize, into: &mut Vec<T>, f: impl Fn(usize) -> T) {
    into.clear();
    into.extend((0..lanes).map(f));
}

impl BatchNorm {
    /// Number of parameters: gamma and beta.
    pub(crate) fn parameters(&self) -> usize {
        2 * self.channels
    }

    fn gamma<'t, T>(&self, theta: &'t [T]) -> &'t [T] {
        &theta[self.start..][..self.channels]
    }

    fn beta<'t, T>(&self, theta: &'t [T]) -> &'t [T] {
        &theta[self.start + self.channels..][..self.channels]
    }

    fn running<'t, T>(&self, theta: &'t [T]) -> (&'t [T], &'t [T]) {
        theta[self.state..][..2 * self.channels].split_at(self.channels)
    }

    /// gamma s and beta - mean gamma s under running statistics, without padding: what batch-norm does to a
    /// convolution in an evaluation.
    pub(crate) fn fold<T: Scalar>(&self, theta: &[T]) -> (Vec<T>, Vec<T>) {
        let (mean, variance) = self.running(theta);
        let scale: Vec<T> =
            self.gamma(theta).iter().zip(variance).map(|(&gamma, &var)| gamma * inverse(var)).collect();
        let shift = self.beta(theta).iter().zip(mean).zip(&scale).map(|((&b, &m), &a)| b - m * a).collect();
        (scale, shift)
    }

    /// Begins a pass: what comes before the statistics are known.
    pub(crate) fn begin<T: Scalar>(&self, theta: &[T], statistics: BatchNormMode, pass: &mut Pass<T>) {
        (pass.rows, pass.statistics) = (0, statistics);
        pad(self.gamma(theta), &mut pass.gamma);
        match statistics {
            BatchNormMode::Batch => {
                zeros(lanes(self.channels), &mut pass.mean);
                zeros(lanes(self.channels), &mut pass.variance);
            }
            BatchNormMode::Running => {
                let (mean, variance) = self.running(theta);
                pad(mean, &mut pass.mean);
                pad(variance, &mut pass.variance);
            }
        }
    }

    /// Takes a group of images into the statistics.
    pub(crate) fn observe<T: Scalar>(&self, z: &[T], pass: &mut Pass<T>) {
        if pass.statistics == BatchNormMode::Batch {
            moments(z, pass.rows, &mut pass.mean, &mut pass.variance);
        }
        pass.rows += z.len() / lanes(self.channels);
    }

    /// Completes the statistics, after all groups.
    pub(crate) fn complete<T: Scalar>(&self, theta: &[T], pass: &mut Pass<T>) {
        let width = lanes(self.channels);
        if pass.statistics == BatchNormMode::Batch {
            let share = pass.share();
            pass.variance.iter_mut().for_each(|variance| *variance *= share);
        }
        fill(width, &mut pass.s, |l| inverse(pass.variance[l]));
        let [a, b] = &mut pass.forward;
        let beta = self.beta(theta);
        fill(width, a, |l| pass.gamma[l] * pass.s[l]);
        fill(width, b, |l| beta.get(l).map_or(T::zero(), |&beta| beta - pass.mean[l] * a[l]));
    }

    /// `out = y`, plus `add` where there is one, then ReLU if `relu`.
    pub(crate) fn apply<T: Scalar>(
        &self,
        z: &[T],
        (add, relu): (Option<&[T]>, bool),
        pass: &Pass<T>,
        out: &mut [T],
    ) {
        scale_shift(z, &pass.forward[0], &pass.forward[1], add, relu, out);
    }

    /// Moves the running statistics in `theta` towards the batch's, by a `share` of the way.
    pub(crate) fn blend_running_stats<T: Scalar>(&self, pass: &Pass<T>, share: T, theta: &mut [T]) {
        if pass.statistics == BatchNormMode::Running {
            return;
        }
        // The variance of the population that the batch is a sample of.
        let unbiased = T::of(pass.rows as f64 / (pass.rows.max(2) - 1) as f64);
        let (mean, variance) = theta[self.state..][..2 * self.channels].split_at_mut(self.channels);
        for l in 0..self.channels {
            mean[l] += share * (pass.mean[l] - mean[l]);
            variance[l] += share * (unbiased * pass.variance[l] - variance[l]);
        }
    }

    /// Begins the way back: the sums over pixels of `dy` and `dy xhat`.
    pub(crate) fn begin_backward<T: Scalar>(&self, pass: &mut Pass<T>) {
        zeros(lanes(self.channels), &mut pass.dy);
        zeros(lanes(self.channels), &mut pass.dy_xhat);
    }

    /// Adds `beside`, takes `dy` through the ReLU with output `h`, and adds a group of images to the sums.
    pub(crate) fn gate<T: Scalar>(
        &self,
        z: &[T],
        (h, beside): (&[T], Option<&[T]>),
        pass: &mut Pass<T>,
        dy: &mut [T],
    ) {
        gate(Gate { h, beside, z, mean: &pass.mean }, dy, &mut pass.dy, &mut pass.dy_xhat);
    }

    /// Adds a group of images to the sums.
    pub(crate) fn observe_backward<T: Scalar>(&self, z: &[T], dy: &[T], pass: &mut Pass<T>) {
        column_sums(dy, &mut pass.dy);
        column_products(dy, z, &pass.mean, &mut pass.dy_xhat);
    }

    /// Completes the sums, after all groups.
    pub(crate) fn complete_backward<T: Scalar>(&self, pass: &mut Pass<T>) {
        let width = lanes(self.channels);
        pass.dy_xhat.iter_mut().zip(&pass.s).for_each(|(sum, &s)| *sum *= s);
        // dz = gamma s (dy - mean of dy - xhat * mean of dy xhat)
        let share = pass.share();
        let [a, b, c] = &mut pass.backward;
        fill(width, a, |l| pass.gamma[l] * pass.s[l]);
        fill(width, b, |l| -a[l] * pass.s[l] * pass.dy_xhat[l] * share);
        fill(width, c, |l| -a[l] * pass.dy[l] * share - b[l] * pass.mean[l]);
    }

    /// `dz` from `dy`.
    pub(crate) fn apply_backward<T: Scalar>(&self, z: &[T], dy: &[T], pass: &Pass<T>, dz: &mut [T]) {
        let [a, b, c] = &pass.backward;
        combine(dy, z, [a, b, c], false, dz);
    }

    /// `into += scale * gradient` of gamma and beta.
    pub(crate) fn accumulate<T: Scalar>(&self, pass: &Pass<T>, scale: T, into: &mut [T]) {
        self.add([&pass.dy_xhat, &pass.dy], scale, into);
    }

    /// `into += scale * tangent of the gradient` of gamma and beta.
    pub(crate) fn accumulate_tangent<T: Scalar>(&self, pass: &Pass<T>, scale: T, into: &mut [T]) {
        self.add([&pass.dy_xhat_tangent, &pass.dy_tangent], scale, into);
    }

    fn add<T: Scalar>(&self, [gamma, beta]: [&[T]; 2], scale: T, into: &mut [T]) {
        for (i, sums) in [gamma, beta].into_iter().enumerate() {
            axpy(scale, sums, &mut into[self.start + i * self.channels..][..self.channels]);
        }
    }

    /// `y'` from `z'`, along `v`.
    pub(crate) fn tangent<T: Scalar>(
        &self,
        v: &[T],
        z: &[T],
        z_tangent: &[T],
        pass: &mut Pass<T>,
        out: &mut [T],
    ) {
        let width = lanes(self.channels);
        pad(self.gamma(v), &mut pass.gamma_tangent);
        zeros(width, &mut pass.z_mean);
        zeros(width, &mut pass.z_xhat);
        if pass.statistics == BatchNormMode::Batch {
            let share = pass.share();
            column_sums(z_tangent, &mut pass.z_mean);
            column_products(z_tangent, z, &pass.mean, &mut pass.z_xhat);
            pass.z_mean.iter_mut().for_each(|mean| *mean *= share);
            pass.z_xhat.iter_mut().zip(&pass.s).for_each(|(mean, &s)| *mean *= s * share);
        }
        // xhat' = s (z' - mean of z' - xhat * mean of z' xhat), y' = gamma xhat' + gamma' xhat + beta'
        let beta = self.beta(v);
        let [a, b, c, ..] = &mut pass.by;
        fill(width, a, |l| pass.gamma[l] * pass.s[l]);
        fill(width, b, |l| pass.s[l] * (pass.gamma_tangent[l] - a[l] * pass.z_xhat[l]));
        fill(width, c, |l| {
            beta.get(l).map_or(T::zero(), |&beta| beta - a[l] * pass.z_mean[l] - b[l] * pass.mean[l])
        });
        combine(z_tangent, z, [a, b, c], false, out);
    }

    /// `dz'` from `dy` and `dy'`.
    pub(crate) fn backward_tangent<T: Scalar>(
        &self,
        [z, z_tangent]: [&[T]; 2],
        [dy, dy_tangent]: [&[T]; 2],
        pass: &mut Pass<T>,
        dz_tangent: &mut [T],
    ) {
        let width = lanes(self.channels);
        let share = pass.share();
        zeros(width, &mut pass.dy_tangent);
        zeros(width, &mut pass.dy_xhat_tangent);
        column_sums(dy_tangent, &mut pass.dy_tangent);
        let [a, b, c, d, e] = &mut pass.by;
        // The sum of dy xhat' + dy' xhat, with xhat' as above.
        column_products(dy_tangent, z, &pass.mean, &mut pass.dy_xhat_tangent);
        column_products(dy, z_tangent, &pass.z_mean, &mut pass.dy_xhat_tangent);
        for l in 0..width {
            let sum = &mut pass.dy_xhat_tangent[l];
            *sum = pass.s[l] * (*sum - pass.z_xhat[l] * pass.dy_xhat[l]);
        }
        // dz = gamma s r with r = dy - mean of dy - xhat * m, m the mean of dy xhat. s' = -s^2 * mean of z'
        // xhat. dz' = (gamma s)' r + gamma s (dy' - mean of dy' - xhat' m - xhat m')
        fill(width, a, |l| pass.gamma[l] * pass.s[l]);
        fill(width, b, |l| pass.gamma_tangent[l] * pass.s[l] - a[l] * pass.s[l] * pass.z_xhat[l]);
        // Coefficients of dy', of z' and of z, that of dy being b, and the rest.
        fill(width, c, |l| -a[l] * pass.s[l] * pass.dy_xhat[l] * share);
        fill(width, d, |l| {
            let m = pass.dy_xhat[l] * share;
            let of_xhat =
                -b[l] * m + a[l] * (m * pass.s[l] * pass.z_xhat[l] - pass.dy_xhat_tangent[l] * share);
            pass.s[l] * of_xhat
        });
        fill(width, e, |l| {
            -b[l] * pass.dy[l] * share
                - a[l] * pass.dy_tangent[l] * share
                - c[l] * pass.z_mean[l]
                - d[l] * pass.mean[l]
        });
        combine(dy, z, [b, d, e], false, dz_tangent);
        e.iter_mut().for_each(|e| *e = T::zero());
        combine(dy_tangent, z_tangent, [a, c, e], true, dz_tangent);
    }
}

impl<T: Scalar> Pass<T> {
    /// What turns a sum over pixels into a mean; zero under running statistics, which no sum goes into.
    fn share(&self) -> T {
        match self.statistics {
            BatchNormMode::Batch => T::one() / T::of(self.rows.max(1) as f64),
            BatchNormMode::Running => T::zero(),
        }
    }
}

fn inverse<T: Scalar>(variance: T) -> T {
    T::one() / (variance + T::of(EPSILON)).sqrt()
}
