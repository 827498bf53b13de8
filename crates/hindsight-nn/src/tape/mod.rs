//! The record of a pass over a network.

mod cross_entropy;
mod scratch;

pub(crate) use scratch::NetScratch;

use crate::{kernels::Scalar, layers::BatchNormMode};

/// The record of one pass over a network: activations, their cotangents and their tangents.
///
/// A tape that is reused stops allocating after the first step. It works for any network.
///
/// ```
/// use hindsight_nn::{Mlp, Net, Rng, Tape};
///
/// let net = Mlp::new(&[2, 8, 3]).unwrap();
/// let theta: Vec<f32> = net.init(&mut Rng::named(1, "init"));
/// let mut tape = Tape::new();
/// net.forward(&theta, &[0.5, 1.0, 0.0, 0.25], &mut tape);
/// assert_eq!((tape.batch(), tape.logits().len(), tape.features().len()), (2, 2 * 3, 2 * 8));
///
/// let loss = tape.cross_entropy(&[2, 0], None); // also seeds the backward pass
/// net.backward(&theta, &mut tape);
/// let mut gradient = vec![0.0; theta.len()];
/// net.accumulate(&mut tape, 1.0, &mut gradient);
/// assert!(loss > 0.0 && gradient.iter().any(|&g| g != 0.0));
/// ```
#[derive(Debug, Clone)]
pub struct Tape<T = f32> {
    pub(crate) batch: usize,
    /// The input and the output of every layer. The logits come last, the features before them.
    pub(crate) values: Vec<Vec<T>>,
    /// Cotangents of the outputs of the layers, before their activation.
    pub(crate) deltas: Vec<Vec<T>>,
    pub(crate) value_tangents: Vec<Vec<T>>,
    pub(crate) delta_tangents: Vec<Vec<T>>,
    /// Cotangent of the features; empty if there is none.
    pub(crate) feature_cotangent: Vec<T>,
    /// Softmax of the logits, which the tangent of the cross-entropy needs.
    pub(crate) probabilities: Vec<T>,
    pub(crate) batch_norm: BatchNormMode,
    pub(crate) scratch: NetScratch,
    /// Buffers for the operations of a gradient.
    pub(crate) gradient: [Vec<T>; 2],
}

impl<T: Scalar> Default for Tape<T> {
    fn default() -> Tape<T> {
        Tape::new()
    }
}

impl<T: Scalar> Tape<T> {
    /// An empty tape.
    pub fn new() -> Tape<T> {
        Tape {
            batch: 0,
            values: Vec::new(),
            deltas: Vec::new(),
            value_tangents: Vec::new(),
            delta_tangents: Vec::new(),
            feature_cotangent: Vec::new(),
            probabilities: Vec::new(),
            batch_norm: BatchNormMode::Batch,
            scratch: NetScratch::default(),
            gradient: [Vec::new(), Vec::new()],
        }
    }

    /// The same tape, for passes in which batch-norm runs in `mode`.
    pub fn with_batch_norm(mut self, mode: BatchNormMode) -> Tape<T> {
        self.batch_norm = mode;
        self
    }

    /// Number of rows in the batch.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// The logits of the last forward pass, `[batch, classes]`.
    pub fn logits(&self) -> &[T] {
        self.values.last().map_or(&[], Vec::as_slice)
    }

    /// The features of the last forward pass, `[batch, features]`.
    pub fn features(&self) -> &[T] {
        self.values.iter().nth_back(1).map_or(&[], Vec::as_slice)
    }

    /// The tangent of the logits, `[batch, classes]`.
    pub fn logits_tangent(&self) -> &[T] {
        self.value_tangents.last().map_or(&[], Vec::as_slice)
    }

    /// The softmax of the last [`Tape::cross_entropy`], `[batch, classes]`.
    pub fn probabilities(&self) -> &[T] {
        &self.probabilities
    }

    /// Seeds the backward pass with a cotangent of the logits and, optionally, one of the features.
    ///
    /// # Panics
    /// If a cotangent has another length than the values it belongs to.
    pub fn seed(&mut self, logits: &[T], features: Option<&[T]>) {
        self.check_logits(logits);
        self.logit_deltas().copy_from_slice(logits);
        self.feature_cotangent.clear();
        if let Some(features) = features {
            self.seed_features(features);
        }
    }

    /// Adds to the cotangent of the logits that [`Tape::seed`] or [`Tape::cross_entropy`] has set.
    ///
    /// # Panics
    /// If it has another length than the logits.
    pub fn add_logits_seed(&mut self, logits: &[T]) {
        self.check_logits(logits);
        self.logit_deltas().iter_mut().zip(logits).for_each(|(d, &c)| *d += c);
    }

    /// Sets a cotangent of the features, beside the one of the logits that [`Tape::seed`] or
    /// [`Tape::cross_entropy`] has set.
    ///
    /// # Panics
    /// If it has another length than the features.
    pub fn seed_features(&mut self, features: &[T]) {
        assert_eq!(
            features.len(),
            self.features().len(),
            "the cotangent has another shape than the features"
        );
        self.feature_cotangent.clear();
        self.feature_cotangent.extend_from_slice(features);
    }

    fn check_logits(&self, cotangent: &[T]) {
        assert_eq!(cotangent.len(), self.logits().len(), "the cotangent has another shape than the logits");
    }

    /// The cotangent of the logits, of the right length, to be filled.
    pub(crate) fn logit_deltas(&mut self) -> &mut Vec<T> {
        let last = self.values.len() - 1;
        let len = self.values[last].len();
        resize(&mut self.deltas, last + 1)[last].resize(len, T::zero());
        &mut self.deltas[last]
    }
}

/// `buffers`, resized to `count` entries.
pub(crate) fn resize<T>(buffers: &mut Vec<Vec<T>>, count: usize) -> &mut [Vec<T>] {
    if buffers.len() != count {
        buffers.resize_with(count, Vec::new);
    }
    buffers
}
