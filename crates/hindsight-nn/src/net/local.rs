//! Passes of a network whose weights are Gaussian, with noise on the outputs of its layers.

use crate::{Scalar, SparseRows, tape::Tape};

/// A network that can be passed through by the local reparameterisation (Kingma et al., 2015): weights have
/// means and variances, `[mu, variance]`, and the outputs of every layer are drawn instead of the weights.
pub trait LocalNet<T: Scalar = f32>: Send + Sync {
    /// Outputs of all layers for one row: the number of noises that it takes.
    fn units(&self) -> usize;

    /// Draws the logits of the rows of `x` some times, one draw of all rows after the other. `eps` holds the
    /// noise of each layer after the other: `[draws, batch, outputs]`.
    ///
    /// The caller seeds a cotangent of the logits on the pass's tape, which has `draws * batch` rows.
    ///
    /// # Panics
    /// If the noise is not for a whole number of draws.
    fn forward_local(&self, q: [&[T]; 2], x: &[T], eps: &[T], pass: &mut LocalPass<T>);

    /// Adds the gradients in the means and in the variances to `into`. `q` and `eps` are those of the forward
    /// pass; what that left is used up.
    fn backward_local(&self, q: [&[T]; 2], eps: &[T], pass: &mut LocalPass<T>, into: [&mut [T]; 2]);
}

/// What a pass leaves.
#[derive(Debug, Clone)]
pub struct LocalPass<T: Scalar = f32> {
    /// Of the logits: the loss is computed and seeded here.
    pub tape: Tape<T>,
    pub(crate) layers: Vec<LocalLayer<T>>,
    /// The inputs and their squares.
    pub(crate) rows: SparseRows<T>,
    pub(crate) squares: SparseRows<T>,
    pub(crate) columns: SparseRows<T>,
    pub(crate) by_variance: Vec<T>,
}

impl<T: Scalar> Default for LocalPass<T> {
    fn default() -> LocalPass<T> {
        let [rows, squares, columns] = [(); 3].map(|()| SparseRows::new(0));
        LocalPass { tape: Tape::new(), layers: Vec::new(), rows, squares, columns, by_variance: Vec::new() }
    }
}

/// Means and standard deviations of the outputs of a layer, and the squares of its inputs.
#[derive(Debug, Clone, Default)]
pub(crate) struct LocalLayer<T> {
    pub(crate) mean: Vec<T>,
    pub(crate) spread: Vec<T>,
    pub(crate) squares: Vec<T>,
}
