//! Streams of one's own: data in CSV, NPY, NPZ or IDX files or folders of images, described by a TOML file.
//!
//! [`StreamFile::read`] reads the description, [`StreamFile::load`] what it names. The keys are in `docs/streams.md`.

mod description;
mod samples;
mod scale;

use std::{
    io,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

pub use samples::{Part, Samples};
pub use scale::Scale;

use crate::{DataError, Dataset, Split, bounded_read::read_small, idx::IdxError, suggest::nearest};
use description::{Boundaries, Description, Format};

/// The most classes and the most tasks that a stream may have.
const MAX_CLASSES: usize = 1 << 16;
const MAX_TASKS: usize = 1000;

/// What is wrong with a stream of one's own.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CustomStreamError {
    /// The description is not TOML, or has a key that there is not.
    #[error("line {line}: {reason}")]
    Toml {
        /// The line.
        line: usize,
        /// Why.
        reason: String,
    },
    /// A value that its key does not take.
    #[error("`{key}` is `{found}`, expected {expected}")]
    Value {
        /// The key.
        key: &'static str,
        /// What was found.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// A key that this stream must have.
    #[error("no `{key}`, expected {expected}")]
    Needed {
        /// The key.
        key: &'static str,
        /// What it says.
        expected: &'static str,
    },
    /// A key that means nothing in this stream.
    #[error("`{key}` is set, but {reason}")]
    Superfluous {
        /// The key.
        key: &'static str,
        /// Why it means nothing.
        reason: &'static str,
    },
    /// A file or folder that is not there, or cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(io::Error),
    /// A file is not a good IDX file.
    #[error(transparent)]
    Idx(IdxError),
    /// Samples and their labels or tasks differ in number.
    #[error("found {found} {what}, expected {expected}, as many as samples in `{}`", samples.display())]
    Count {
        /// Labels or tasks.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// Number of samples.
        expected: usize,
        /// The file of samples.
        samples: PathBuf,
    },
    /// Samples of different sizes.
    #[error("found samples of {found:?}, expected {expected:?} as in `{}`", first.display())]
    Shape {
        /// Channels, height, width.
        found: [usize; 3],
        /// Those of the first file.
        expected: [usize; 3],
        /// The first file.
        first: PathBuf,
    },
    /// A class that is tested and never learned.
    #[error("{place}: found the class `{class}`, expected one of the training data{}", of(task))]
    Class {
        /// Line or row.
        place: String,
        /// The class.
        class: String,
        /// The task, where each has a head of its own.
        task: Option<String>,
    },
    /// A task that is tested and never learned.
    #[error("{place}: found the task `{task}`, expected one of the training data")]
    Task {
        /// Line or row.
        place: String,
        /// The task.
        task: String,
    },
    /// A task without a sample to be tested on.
    #[error("task `{task}` has no samples for test, expected at least one beside those for training")]
    NoTest {
        /// The task.
        task: String,
    },
    /// Nothing to tell apart, or too much.
    #[error("found {found} classes, expected 2 to {most}")]
    Classes {
        /// How many there are.
        found: usize,
        /// How many there may be.
        most: usize,
    },
    /// Too many tasks.
    #[error("found {found} tasks, expected 1 to {most}")]
    Tasks {
        /// How many there are.
        found: usize,
        /// How many there may be.
        most: usize,
    },
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

/// The description of a stream, read and checked; its data is not read yet.
#[derive(Debug, Clone)]
pub struct StreamFile {
    /// Name of the stream.
    pub name: String,
    path: PathBuf,
    sha256: String,
    description: Description,
}

impl StreamFile {
    /// Reads a description.
    pub fn read(path: &Path) -> Result<StreamFile, DataError> {
        let bytes = read_small(path).map_err(CustomStreamError::Unreadable);
        let parsed = bytes.and_then(|bytes| StreamFile::parse(&bytes, path));
        parsed.map_err(|flaw| DataError::Own { path: path.into(), flaw })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads a description from the content of the file `path`, where the paths in it begin.
    pub fn parse(bytes: &[u8], path: &Path) -> Result<StreamFile, CustomStreamError> {
        let description = Description::parse(&String::from_utf8_lossy(bytes))?;
        let stem = || path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let name = description.name.clone().unwrap_or_else(stem);
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || name.starts_with('.') || !name.chars().all(plain) {
            let expected = "letters, digits, `-`, `_` and `.`".to_owned();
            return Err(CustomStreamError::Value { key: "name", found: name, expected });
        }
        let sha256 = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(StreamFile { name, path: path.into(), sha256, description })
    }

    /// Whether the learner is told when a task ends.
    pub fn ends(&self) -> bool {
        self.description.tasks != Boundaries::None
    }

    /// Whether the samples are images.
    pub fn has_images(&self) -> bool {
        self.description.format == Format::Images
    }

    /// SHA-256 of the description.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Reads the data.
    pub fn load(&self) -> Result<(Dataset, Samples), DataError> {
        let (samples, notes) = samples::load(&self.description, &self.path)?;
        let dataset = Dataset {
            name: self.name.clone(),
            shape: samples.shape,
            classes: samples.classes.len(),
            train: Split::default(),
            test: Split::default(),
            notes,
        };
        Ok((dataset, samples))
    }
}
