//! What an application's learner has seen, and what things are called there.

use hindsight_data::schema::Schema;
use serde::{Deserialize, Serialize};

use crate::scaling::Moments;

/// What a file of an [`Agent`](crate::Agent) has beside the learner and its shape.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Application {
    /// Samples learned from so far.
    pub samples: u64,
    /// Batches learned from so far.
    pub batches: u64,
    /// The number of classes met or announced, where more may come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<usize>,
    /// What the features are called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<Vec<String>>,
    /// What the tasks are called, those of them that have names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<String>,
    /// What the names of classes stand for where labels are more than text, in the words of the program that
    /// learns with it: the Python module writes `int`, `str` or `literal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_type: Option<String>,
    /// The task that it is in, until the task ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_task: Option<u32>,
    /// Samples learned from so far, by class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub class_samples: Vec<u64>,
    /// What the columns of tables are, where samples come from tables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Schema>,
    /// The files that it has learned from, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<LearnedFile>,
    /// What the scale is taken of, where that is what came first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) scaling: Option<Moments>,
}

/// A file that a learner has learned from, as far as it has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LearnedFile {
    /// Its name, without the folder.
    pub name: String,
    /// Rows that were read, those left out among them.
    pub rows: u64,
    /// SHA-256 of these rows.
    pub sha256: String,
}

impl LearnedFile {
    /// So many rows of a file.
    pub fn new(name: impl Into<String>, rows: u64, sha256: impl Into<String>) -> LearnedFile {
        LearnedFile { name: name.into(), rows, sha256: sha256.into() }
    }
}
