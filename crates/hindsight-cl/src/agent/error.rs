//! Why an agent cannot be made, or does not take what it is given.

use thiserror::Error;

use crate::{checkpoint::CheckpointError, config::ConfigError};

/// Why an agent cannot be made, or does not take what it is given.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
// The message of a variant says what its fields are.
#[allow(missing_docs)]
pub enum AgentError {
    /// A setting that does not exist, or not so.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A setting of experiments that says nothing about one learner on data as it comes.
    #[error("`{key}` is `{found}`, but an agent is {expected}")]
    Meaningless { key: String, found: String, expected: &'static str },
    /// It cannot be saved or loaded.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// Inputs or answers that no network can have.
    #[error("{what} is {found}, expected {expected}")]
    Shape { what: &'static str, found: String, expected: String },
    /// Values that do not make up inputs.
    #[error("{found} values for {labels} labels, expected {width} for each")]
    Values { found: usize, labels: usize, width: usize },
    /// A value that is infinite or not a number: one such input would ruin the model.
    #[error("value {place} is {found}, expected a finite number")]
    NotFinite { place: usize, found: f32 },
    /// A class or a task that there is not.
    #[error("{what} {found}, expected one below {end}")]
    Unknown { what: &'static str, found: u32, end: usize },
    /// The name of a class that there is not.
    #[error("class `{name}`, expected one of {known}")]
    UnknownName { name: String, known: String },
    /// A class that the task cannot answer with.
    #[error("class {class} in task {task}, expected a class of that task")]
    Foreign { task: u32, class: u32 },
    /// Asked before it has seen a sample, where classes come with the samples.
    #[error("the learner has no classes yet, expected a sample first")]
    NoClasses,
    /// Its answers are not those of its network, so they cannot be written as one.
    #[error("the answers of `{method}` are not those of its network, expected a method whose are")]
    NotANetwork { method: String },
    /// Its steps were too large, and there is no way back but to one that was saved.
    #[error("the learner has diverged: found a loss or a parameter that is infinite or not a number")]
    Diverged,
}

impl AgentError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            AgentError::Config(ConfigError::Unknown { nearest: Some(nearest), .. }) => {
                return Some(format!("did you mean `{nearest}`?"));
            }
            AgentError::Config(ConfigError::Value { .. } | ConfigError::Unknown { .. }) => {
                "`methods::METHODS` and `config::SHARED` list all keys with their values"
            }
            AgentError::Config(ConfigError::Malformed { .. }) => "for example `hal.lambda=0.3`",
            AgentError::Config(error) => return error.hint(),
            AgentError::Meaningless { .. } => "leave it out",
            AgentError::Checkpoint(CheckpointError::Unreadable { .. }) => "is this what `Agent::save` wrote?",
            AgentError::Checkpoint(CheckpointError::Unwritable { .. }) => {
                "make room or choose another folder; what was there before still is"
            }
            AgentError::Checkpoint(CheckpointError::Malformed { .. } | CheckpointError::Damaged { .. }) => {
                "load an earlier copy of it"
            }
            AgentError::Checkpoint(CheckpointError::Part { .. }) => {
                "it was saved by another version of the method"
            }
            AgentError::Checkpoint(error) => return error.hint(),
            AgentError::NotFinite { .. } => "leave the sample out, or replace the value",
            AgentError::Shape { .. } => "say what the data has: see `Agent::builder`",
            AgentError::Values { .. } => "give all values of every input, one after the other",
            AgentError::Diverged => "load the last one that was saved, and set a smaller `rate`",
            AgentError::Foreign { .. } => "say which classes a task has: see `AgentBuilder::task_heads`",
            AgentError::Unknown { .. } | AgentError::UnknownName { .. } => {
                "say all classes and tasks in advance, or make the agent `open`"
            }
            AgentError::NotANetwork { .. } => "export a learner of another method, such as `hal`",
            AgentError::NoClasses => "observe something first, or say the classes in advance",
        };
        Some(hint.to_owned())
    }
}
