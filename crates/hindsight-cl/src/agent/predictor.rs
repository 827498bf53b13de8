//! What answers, apart from what learns.

use std::{fmt, sync::Arc};

use super::{AgentError, interface::Interface};
use crate::{Learner, Shape};

/// An agent as it was when this was made: it only answers, and copies of it are cheap and may go to any
/// thread while the agent learns on.
///
/// ```
/// use hindsight::Agent;
///
/// let mut agent = Agent::builder(2, 2).method("finetune").set("hidden", vec![8]).build()?;
/// let predictor = agent.predictor()?;
/// let before = predictor.predict_proba(&[0.5, 0.1], 0)?;
/// let asked = std::thread::spawn({
///     let predictor = predictor.clone();
///     move || predictor.predict_proba(&[0.5, 0.1], 0)
/// });
/// agent.observe(&[0.5, 0.1], &[1], 0)?;
/// assert_eq!(asked.join().unwrap()?, before);
/// assert_ne!(agent.predict_proba(&[0.5, 0.1], 0)?, before);
/// # Ok::<(), hindsight::AgentError>(())
/// ```
#[derive(Clone)]
pub struct Predictor(Arc<(Box<dyn Learner>, Interface)>);

impl Predictor {
    pub(super) fn new(learner: Box<dyn Learner>, interface: Interface) -> Predictor {
        Predictor(Arc::new((learner, interface)))
    }

    /// The class of each input.
    pub fn predict(&self, inputs: &[f32], task: u32) -> Result<Vec<u32>, AgentError> {
        self.0.1.predict(&*self.0.0, inputs, task)
    }

    /// The probability of each class for each input, `[n, classes]`.
    pub fn predict_proba(&self, inputs: &[f32], task: u32) -> Result<Vec<f32>, AgentError> {
        self.0.1.predict_proba(&*self.0.0, inputs, task)
    }

    /// What its inputs and answers are.
    pub fn shape(&self) -> &Shape {
        &self.0.1.shape
    }
}

impl fmt::Debug for Predictor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Predictor").field("interface", &self.0.1).finish_non_exhaustive()
    }
}
