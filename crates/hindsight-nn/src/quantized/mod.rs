//! int16 evaluation of a perceptron, with an f32 fallback.
//!
//! A prediction needs the class with the largest logit, not the logits. With inputs, weights and activations
//! rounded to integers, the logits are accurate to about a thousandth, at twice the speed ([`int16`]). Each
//! row has a bound on its error. If the lead of the best class exceeds the bound,
//! [`Net::infer`](crate::Net::infer) finds the same class; any other row falls back to `infer`. So the
//! predictions are those of `infer`, row by row, on every machine.
//!
//! The bound, layer by layer: let `x` be the activations here, `X` those of `infer` with `|x - X| <= d`, and
//! `x~`, `W~` the rounded values. Then
//!
//! ```text
//! x~ W~ - X W = (x~ - X) W + x~ (W~ - W),   hence
//! d'  =  |W| (|x~ - x| + d)  +  |W~ - W| |x~|  +  rounding of f32, n u (|W| |X| + |b|)
//! ```
//!
//! in Euclidean norms; the norm of a matrix is a bound on its spectral norm. ReLU increases no distance. In
//! the last layer the difference of the logits of classes `a` and `b` is off by at most `|w_a - w_b| d`,
//! where only units that can be active count.

mod int16;
mod layer;
mod mlp;
mod rounding;
mod rows;
#[cfg(test)]
mod tests;

pub(crate) use int16::int16_is_faster;
pub(crate) use mlp::QuantizedMlp;
pub use rows::QuantizedRows;

/// The step of weights that quantize without error: 2^-12. A network whose weights are multiples of it, and
/// not much above 1, has error bounds a third as large as another.
pub const WEIGHT_GRID: f32 = 1.0 / 4096.0;

/// The unit roundoff of `f32`.
const UNIT_ROUNDOFF: f64 = 1.0 / (1 << 24) as f64;

/// Covers the rounding of norms that are themselves computed in `f32`.
const SLACK: f64 = 1.001;
