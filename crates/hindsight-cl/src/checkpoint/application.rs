//! What an application's learner has seen, and what things are called there.

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
    /// What the scale is taken of, where that is what came first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) scaling: Option<Moments>,
}
