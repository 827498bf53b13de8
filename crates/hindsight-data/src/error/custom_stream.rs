//! What is wrong with a custom stream.

use std::{io, path::PathBuf};

use crate::{formats::idx::IdxError, suggest::nearest};

/// What is wrong with a custom stream.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
// The message of a variant says what its fields are.
#[allow(missing_docs)]
pub enum CustomStreamError {
    /// The description is not TOML, or has a key that there is not.
    #[error("line {line}: {reason}")]
    Toml { line: usize, reason: String },
    /// A value that its key does not take.
    #[error("`{key}` is `{found}`, expected {expected}")]
    Value { key: &'static str, found: String, expected: String },
    /// A key that this stream must have.
    #[error("no `{key}`, expected {expected}")]
    Needed { key: &'static str, expected: &'static str },
    /// A key that means nothing in this stream.
    #[error("`{key}` is set, but {reason}")]
    Superfluous { key: &'static str, reason: &'static str },
    /// A file or folder that is not there, or cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(io::Error),
    /// A file is not a good IDX file.
    #[error(transparent)]
    Idx(IdxError),
    /// Samples and their labels or tasks differ in number.
    #[error("found {found} {what}, expected {expected}, as many as samples in `{}`", samples.display())]
    Count { what: &'static str, found: usize, expected: usize, samples: PathBuf },
    /// Samples of different sizes.
    #[error("found samples of {found:?}, expected {expected:?} as in `{}`", first.display())]
    Shape { found: [usize; 3], expected: [usize; 3], first: PathBuf },
    /// A class that is tested and never learned.
    #[error("{place}: found the class `{class}`, expected one of the training data{}", of(task))]
    Class { place: String, class: String, task: Option<String> },
    /// A task that is tested and never learned.
    #[error("{place}: found the task `{task}`, expected one of the training data")]
    Task { place: String, task: String },
    /// A task without a sample to be tested on.
    #[error("task `{task}` has no samples for test, expected at least one beside those for training")]
    NoTest { task: String },
    /// Nothing to tell apart, or too much.
    #[error("found {found} classes, expected 2 to {most}")]
    Classes { found: usize, most: usize },
    /// Too many tasks.
    #[error("found {found} tasks, expected 1 to {most}")]
    Tasks { found: usize, most: usize },
}

fn of(task: &Option<String>) -> String {
    task.as_ref().map_or(String::new(), |task| format!(" of task `{task}`"))
}

impl CustomStreamError {
    /// What the user can do about it.
    pub fn hint(&self) -> String {
        if let CustomStreamError::Toml { reason, .. } = self
            && reason.starts_with("unknown ")
        {
            // The name that was found, then those that it might have been, all in backticks.
            let mut names = reason.split('`').skip(1).step_by(2);
            if let Some(nearest) = names.next().and_then(|found| nearest(found, names)) {
                return format!("did you mean `{nearest}`? docs/streams.md has every key, with examples");
            }
        }
        match self {
            CustomStreamError::Toml { .. } | CustomStreamError::Value { .. } | CustomStreamError::Needed { .. } | CustomStreamError::Superfluous { .. } => {
                "docs/streams.md has every key of a stream file, with examples"
            }
            CustomStreamError::Unreadable(_) => "`--stream` takes a TOML file; the paths in it begin in its own folder",
            CustomStreamError::Idx(_) => "`train` and `test` name IDX files of images, `labels` and `test_labels` those of labels",
            CustomStreamError::Count { .. } => "every sample has one label, and one task where tasks are told",
            CustomStreamError::Shape { .. } => "all files of a stream have samples of one size",
            CustomStreamError::Class { .. } => {
                "leave these samples out, or add some of the class to the training data; with `hold_out_rows = \
                 \"last\"` a class may come too late"
            }
            CustomStreamError::Task { .. } => "leave these samples out, or add some of the task to the training data",
            CustomStreamError::NoTest { .. } => "give every task a class of two samples or more, or name test files with samples of every task",
            CustomStreamError::Classes { .. } => "is `label` the column or array of classes?",
            CustomStreamError::Tasks { .. } => "is `task` the column or array of tasks?",
        }
        .to_owned()
    }
}
