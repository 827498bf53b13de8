//! What a continual learner is: three verbs.
//!
//! Data enters through [`Learner::observe`] alone; [`Learner::end_task`] gets none, and
//! [`Learner::predict`] takes `&self`, so an evaluation cannot teach. The single pass over the stream is a
//! property of these signatures.

use std::borrow::Cow;

use hindsight_nn::{Inputs, params};

use crate::{batch::Batch, state::StateDict};

/// A model that learns from a stream of tasks. Any number of threads may call `predict` at a time, so it is
/// `Sync`.
///
/// ```
/// use hindsight::{Batch, Inputs, Learner};
///
/// /// Answers with the class that it has seen last.
/// #[derive(Default)]
/// struct Last {
///     class: u32,
/// }
///
/// impl Learner for Last {
///     fn observe(&mut self, batch: &Batch) -> f32 {
///         self.class = batch.labels.last().copied().unwrap_or(self.class);
///         0.0
///     }
///
///     fn end_task(&mut self) {}
///
///     fn predict(&self, inputs: &Inputs<'_>, _task: usize) -> Vec<u32> {
///         vec![self.class; inputs.len()]
///     }
///
///     fn theta(&self) -> &[f32] {
///         &[]
///     }
/// }
///
/// let mut learner = Last::default();
/// learner.observe(&[(&[0.5][..], 3, 0)].into_iter().collect());
/// assert_eq!(learner.predict(&Inputs::dense(&[1.0, 2.0], 1), 0), [3, 3]);
/// ```
pub trait Learner: Send + Sync {
    /// Learns from the next batch of the stream and returns the loss on it before the update.
    fn observe(&mut self, batch: &Batch) -> f32;

    /// The task that the last batches came from is over.
    fn end_task(&mut self);

    /// The class of each input, as answered for `task`.
    fn predict(&self, inputs: &Inputs<'_>, task: usize) -> Vec<u32>;

    /// The probability of each class for each input, `[inputs.len(), classes]`: rows sum to 1, a class that
    /// `task` may not answer with has 0, and the largest is that of [`Learner::predict`], up to ties. Empty
    /// for a learner that answers without probabilities.
    fn predict_proba(&self, _inputs: &Inputs<'_>, _task: usize) -> Vec<f32> {
        Vec::new()
    }

    /// The parameters that predictions are made with now.
    fn theta(&self) -> &[f32];

    /// Whether its parameters are finite: a learner has diverged otherwise.
    fn is_finite(&self) -> bool {
        params::finite(self.theta())
    }

    /// The parameters to be moved by an optimiser, where the method's update is a gradient step.
    fn theta_mut(&mut self) -> Option<&mut [f32]> {
        None
    }

    /// All that changes while it learns, by name: what is saved, and loaded into a learner of the same
    /// configuration. A learner that lists nothing cannot be saved.
    fn state(&mut self) -> StateDict<'_> {
        StateDict::new()
    }

    /// What the learner keeps beyond its parameters, by kind.
    fn retained_samples(&self) -> RetainedSamples<'_> {
        RetainedSamples::default()
    }

    /// Bytes of what it keeps beyond the parameters that it answers with. A method that keeps more than
    /// inputs, such as logits beside them or copies of theta, adds those.
    fn retained_bytes(&self) -> u64 {
        self.retained_samples().bytes()
    }
}

/// Samples that a learner holds, for figures and for the account of its memory.
#[derive(Debug, Clone, Default)]
pub struct RetainedSamples<'a> {
    /// Episodic memory: real samples of the stream.
    pub memory: Option<Cow<'a, Batch>>,
    /// What the inputs of the memory take, which may be in 8 bits.
    pub memory_bytes: u64,
    /// Anchors: inputs whose answers must not move.
    pub anchors: Option<&'a Batch>,
}

impl<'a> RetainedSamples<'a> {
    /// A memory whose inputs take so many bytes.
    pub fn of(memory: Cow<'a, Batch>, memory_bytes: u64) -> RetainedSamples<'a> {
        RetainedSamples { memory: Some(memory), memory_bytes, anchors: None }
    }

    /// What their inputs take.
    pub fn bytes(&self) -> u64 {
        self.memory_bytes + self.anchors.map_or(0, |anchors| size_of_val(anchors.x.as_slice()) as u64)
    }
}
