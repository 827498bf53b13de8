//! The two number types that the engine computes in.

use std::{fmt::Debug, iter::Sum};

use num_traits::{Float, NumAssign};

use super::Kernels;

/// `f32`, in which learners run, or `f64`, in which their derivatives are checked.
pub trait Scalar: Kernels + Float + NumAssign + Sum + Default + Debug + Send + Sync + 'static {
    /// The nearest value to `x`.
    fn of(x: f64) -> Self;

    /// The value as `f64`.
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
