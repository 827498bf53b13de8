//! The number types of the engine.

use std::{fmt::Debug, iter::Sum};

use num_traits::{Float, NumAssign};

use super::Kernels;

/// `f32`, in which learners run, or `f64`, in which tests check derivatives.
pub trait Scalar: Kernels + Float + NumAssign + Sum + Default + Debug + Send + Sync + 'static {
    /// Rounds `x` to this type.
    fn of(x: f64) -> Self;

    /// Converts to `f64`.
    fn wide(self) -> f64;
}

impl Scalar for f32 {
    fn of(x: f64) -> f32 {
        x as f32
    }

    fn wide(self) -> f64 {
        f64::from(self)
    }
}

impl Scalar for f64 {
    fn of(x: f64) -> f64 {
        x
    }

    fn wide(self) -> f64 {
        self
    }
}
