//! What goes into an agent and what comes out of it: checked, scaled, named.

use hindsight_nn::Inputs;

use super::AgentError;
use crate::{Learner, Shape, checkpoint::Application, scaling::FARTHEST};

/// Between the caller's values and a learner's.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Interface {
    pub(super) shape: Shape,
    pub(super) application: Application,
}

impl Interface {
    pub(super) fn width(&self) -> usize {
        self.shape.inputs()
    }

    /// The number of classes that it can answer with.
    pub(super) fn classes(&self) -> usize {
        // An open agent that knows none has room for the first one.
        self.application.known.unwrap_or(self.shape.classes)
    }

    /// Whether `labels` inputs of `task` can be asked about or learned.
    pub(super) fn check(&self, inputs: &[f32], labels: usize, task: u32) -> Result<(), AgentError> {
        let width = self.width();
        if labels.checked_mul(width) != Some(inputs.len()) {
            return Err(AgentError::Values { found: inputs.len(), labels, width });
        }
        if let Some(place) = inputs.iter().position(|x| !x.is_finite()) {
            return Err(AgentError::NotFinite { place, found: inputs[place] });
        }
        // Tasks are saved counted from 1.
        if task == u32::MAX {
            return Err(AgentError::Unknown { what: "task", found: task, end: u32::MAX as usize });
        }
        Ok(())
    }

    fn check_question(&self, inputs: &[f32], task: u32) -> Result<(), AgentError> {
        self.check(inputs, inputs.len() / self.width(), task)?;
        if self.classes() == 0 {
            return Err(AgentError::NoClasses);
        }
        match self.shape.heads.per_task() {
            Some(heads) if heads.get(task as usize).is_none_or(Vec::is_empty) => {
                Err(AgentError::Unknown { what: "task", found: task, end: heads.len() })
            }
            _ => Ok(()),
        }
    }

    /// Appends inputs as the learner sees them.
    pub(super) fn scale(&self, inputs: &[f32], to: &mut Vec<f32>) {
        let start = to.len();
        self.shape.scale.push(inputs, to);
        if self.application.scaling.is_some() {
            to[start..].iter_mut().for_each(|x| *x = x.clamp(-FARTHEST, FARTHEST));
        }
    }

    fn scaled<R>(&self, inputs: &[f32], ask: impl FnOnce(&Inputs<'_>) -> R) -> R {
        if self.shape.scale.is_none() && self.application.scaling.is_none() {
            return ask(&Inputs::dense(inputs, self.width()));
        }
        let mut scaled = Vec::with_capacity(inputs.len());
        self.scale(inputs, &mut scaled);
        ask(&Inputs::dense(&scaled, self.width()))
    }

    pub(super) fn predict(
        &self,
        learner: &dyn Learner,
        inputs: &[f32],
        task: u32,
    ) -> Result<Vec<u32>, AgentError> {
        self.check_question(inputs, task)?;
        Ok(self.scaled(inputs, |inputs| learner.predict(inputs, task as usize)))
    }

    pub(super) fn predict_proba(
        &self,
        learner: &dyn Learner,
        inputs: &[f32],
        task: u32,
    ) -> Result<Vec<f32>, AgentError> {
        self.check_question(inputs, task)?;
        let rows = self.scaled(inputs, |inputs| learner.predict_proba(inputs, task as usize));
        if !rows.is_empty() || inputs.is_empty() {
            return Ok(rows);
        }
        // A learner without probabilities is certain.
        let answers = self.scaled(inputs, |inputs| learner.predict(inputs, task as usize));
        let mut rows = vec![0.0; answers.len() * self.shape.classes];
        for (row, answer) in rows.chunks_exact_mut(self.shape.classes).zip(answers) {
            row[answer as usize] = 1.0;
        }
        Ok(rows)
    }
}
