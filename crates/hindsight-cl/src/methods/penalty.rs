//! The penalty that EWC, SI and MAS share: parameters are held near a past value, each with its weight.

use std::ops::Range;

use hindsight_nn::params;

use super::Setup;

/// A step on the gradient g of the loss and on that of strength / 2 sum weight (theta - star)^2.
pub(super) struct QuadraticPenalty {
    /// The factor of weight (theta - star) in the gradient.
    strength: f32,
    /// Whether there is a past to hold to.
    pub(super) held: bool,
    pub(super) star: Vec<f32>,
    /// Of the trainable part of theta: running statistics, which no gradient reaches, are not held.
    pub(super) weight: Vec<f32>,
    zeros: Vec<f32>,
}

impl QuadraticPenalty {
    pub(super) fn new(setup: &Setup<'_>, strength: f32) -> QuadraticPenalty {
        let [star, weight] = [setup.net.parameters(), setup.net.trainable()].map(|n| vec![0.0; n]);
        QuadraticPenalty { strength, held: false, star, weight, zeros: Vec::new() }
    }

    /// Holds to `theta` from now on.
    pub(super) fn hold(&mut self, theta: &[f32]) {
        self.star.copy_from_slice(theta);
        self.held = true;
    }

    /// The step of the block `at` of theta, as [`Gradient::for_each_block`](hindsight_nn::Gradient) visits
    /// it.
    pub(super) fn step(&mut self, at: Range<usize>, g: Option<&[f32]>, rate: f32, theta: &mut [f32]) {
        match g {
            None if !self.held => {}
            Some(g) if !self.held => params::axpy(-rate, g, theta),
            _ => {
                self.zeros.resize(self.zeros.len().max(at.len()), 0.0);
                let g = g.unwrap_or(&self.zeros[..at.len()]);
                let (weight, star) = (&self.weight[at.clone()], &self.star[at]);
                params::axpy_penalized(-rate, g, self.strength, weight, star, theta);
            }
        }
    }

    /// [`QuadraticPenalty::step`], which also adds the squares of `g` to `squares`.
    pub(super) fn step_counted(
        &mut self,
        at: Range<usize>,
        g: &[f32],
        rate: f32,
        theta: &mut [f32],
        squares: &mut [f32],
    ) {
        if !self.held {
            params::add_squares(g, squares);
            return params::axpy(-rate, g, theta);
        }
        let (weight, star) = (&self.weight[at.clone()], &self.star[at]);
        params::axpy_penalized_counted(-rate, g, self.strength, weight, star, theta, squares);
    }

    /// What it keeps.
    pub(super) fn bytes(&self) -> u64 {
        (size_of_val(self.star.as_slice()) + size_of_val(self.weight.as_slice())) as u64
    }
}
