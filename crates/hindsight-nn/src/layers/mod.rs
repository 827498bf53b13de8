//! The layers: forward, backward and tangent side by side. A layer is a shape and an offset in theta.

pub(crate) mod batch_norm;
pub(crate) mod linear;

/// Which mean and variance batch-norm uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BatchNormMode {
    /// Those of the batch, as in training.
    #[default]
    Batch,
    /// The running averages in theta, as in evaluation.
    Running,
}

/// Receives a range in theta and the gradient there, `None` if that is zero.
pub(crate) type BlockVisitor<'v, T> = dyn FnMut(std::ops::Range<usize>, Option<&[T]>) + 'v;
