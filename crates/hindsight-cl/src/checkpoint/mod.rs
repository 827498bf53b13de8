//! Learners on disk: a safetensors file with the state, and in its metadata a header that says of what.
//!
//! The format is described in `docs/checkpoints.md`.

mod application;
mod file;
mod folder;
mod safetensors;

pub use application::{Application, LearnedFile};
pub use file::{Checkpoint, save};
pub use folder::{CheckpointWriter, Checkpoints};

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{
    config::RunConfig,
    protocol::RunState,
    record::{COMMIT, Data, PROGRAM},
    settings::Value,
    shape::Shape,
    state::StateError,
};

/// The version of the format that this program writes.
pub const VERSION: u32 = 3;

/// The oldest version that it reads.
pub const OLDEST_VERSION: u32 = 2;

/// What a checkpoint is of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Version of the format.
    pub version: u32,
    /// The program that wrote it.
    pub program: String,
    /// The commit that it was built from, if from a repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The method.
    pub method: String,
    /// The benchmark, or the one whose defaults apply.
    pub benchmark: String,
    /// The seed.
    pub seed: u64,
    /// All settings.
    pub config: BTreeMap<String, Value>,
    /// What the learner's inputs and answers are.
    pub shape: Shape,
    /// Where the run is that it is of; none for a learner that an application saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Run>,
    /// What an application's learner has seen; none for a checkpoint of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<Application>,
}

/// Where a run is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The data.
    pub data: Data,
    /// When the run began: seconds since 1970.
    pub started: u64,
    /// How far it has come, and what it found.
    #[serde(rename = "course")]
    pub run_state: RunState,
}

impl Header {
    /// The header of a learner, now.
    pub fn new(config: &RunConfig, shape: Shape, run: Option<Run>) -> Header {
        Header {
            version: VERSION,
            program: PROGRAM.to_owned(),
            commit: COMMIT.map(str::to_owned),
            method: config.method.name.to_owned(),
            benchmark: config.benchmark.name.to_string(),
            seed: config.seed,
            config: config.effective(),
            shape,
            run,
            application: None,
        }
    }

    /// What the learner has seen, be it in an application or in a run.
    pub(crate) fn application(&self) -> Application {
        let of_run = |run: &Run| {
            let crate::protocol::Outcome { samples, batches, .. } = run.run_state.outcome;
            Application { samples: samples as u64, batches: batches as u64, ..Application::default() }
        };
        self.application.clone().or_else(|| self.run.as_ref().map(of_run)).unwrap_or_default()
    }

    /// The program that wrote it, as exactly as it is known.
    pub(crate) fn build(&self) -> String {
        self.commit
            .as_ref()
            .map_or_else(|| self.program.clone(), |commit| format!("{} of commit {commit}", self.program))
    }

    /// Refuses a checkpoint of another learner than the one that `self` describes.
    pub(crate) fn check(&self, found: &Header, path: &std::path::Path) -> Result<(), CheckpointError> {
        let differ = |what: &str, found: String, expected: String| {
            let (path, what) = (path.to_owned(), what.to_owned());
            if found == expected {
                Ok(())
            } else {
                Err(CheckpointError::Other { path, what, found, expected })
            }
        };
        differ("method", found.method.clone(), self.method.clone())?;
        differ("benchmark", found.benchmark.clone(), self.benchmark.clone())?;
        differ("seed", found.seed.to_string(), self.seed.to_string())?;
        let data =
            |header: &Header| header.run.as_ref().map_or_else(String::new, |run| run.data.sha256.clone());
        differ("data", data(found), data(self))?;
        let known = |header: &Header, key: &String| {
            header.config.get(key).map_or("not set".to_owned(), Value::to_string)
        };
        for key in found.config.keys().chain(self.config.keys()) {
            differ(key, known(found, key), known(self, key))?;
        }
        // Names and scale come from the data.
        let shape = |Header { shape, .. }: &Header| {
            format!("{:?}", (shape.input, shape.classes, shape.heads.per_task()))
        };
        differ("shape", shape(found), shape(self))
    }
}

/// Why a learner cannot be saved or loaded.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
// The message of a variant says what its fields are.
#[allow(missing_docs)]
pub enum CheckpointError {
    /// The file cannot be read.
    #[error("cannot read `{}`: {reason}", path.display())]
    Unreadable { path: PathBuf, reason: String },
    /// The file cannot be written; what was there before still is.
    #[error("cannot write `{}`: {reason}", path.display())]
    Unwritable { path: PathBuf, reason: String },
    /// Not a checkpoint.
    #[error("`{}` is no checkpoint: {reason}", path.display())]
    Malformed { path: PathBuf, reason: String },
    /// A checkpoint whose contents have changed since it was written.
    #[error("`{}` is damaged: its contents have the checksum {found}, expected {expected}", path.display())]
    Damaged { path: PathBuf, found: u32, expected: u32 },
    /// Written in a format of another version.
    #[error("`{}` has version {found}, expected {OLDEST_VERSION} to {VERSION}", path.display())]
    Version { path: PathBuf, found: u64 },
    /// Of another learner.
    #[error("`{}` has `{found}` for {what}, expected `{expected}`", path.display())]
    Other { path: PathBuf, what: String, found: String, expected: String },
    /// A part of the learner that the checkpoint does not have, or has otherwise.
    #[error("`{}`: {part}", path.display())]
    Part { path: PathBuf, part: StateError },
    /// A place in the stream that the stream does not have.
    #[error("`{}`: {reason}", path.display())]
    Place { path: PathBuf, reason: String },
    /// The method's learners list no parts.
    #[error("learners of `{method}` cannot be saved")]
    NoParts { method: String },
}

impl CheckpointError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            CheckpointError::Unreadable { .. } => "is this the folder that the run wrote to?".to_owned(),
            CheckpointError::Unwritable { .. } => {
                "make room or choose another folder, then go on from the last checkpoint with `hindsight resume`"
                    .to_owned()
            }
            CheckpointError::Malformed { .. } | CheckpointError::Damaged { .. } => {
                "delete it: an earlier one beside it, if there is one, is then used".to_owned()
            }
            CheckpointError::Version { .. } => "use the version of the program that wrote it".to_owned(),
            CheckpointError::Other { .. } => {
                "load it with the settings and the data that it was saved with".to_owned()
            }
            CheckpointError::Part { .. } | CheckpointError::Place { .. } => {
                "it was written by another version of the method; delete it to start again".to_owned()
            }
            CheckpointError::NoParts { .. } => "its learner needs `Learner::state`".to_owned(),
        })
    }
}
