//! The description of a stream on disk.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::{
    CustomTasks,
    description::{Boundaries, Description, Format},
    loading,
};
use crate::{
    bounded_read::read_small,
    dataset::Dataset,
    error::{CustomStreamError, DataError},
    hex::hex,
};

/// The description of a stream, read and checked; its data is not read yet.
#[derive(Debug, Clone)]
pub struct StreamFile {
    /// Name of the stream.
    pub name: String,
    pub(super) path: PathBuf,
    sha256: String,
    pub(super) description: Description,
}

impl StreamFile {
    /// Reads a description.
    pub fn read(path: &Path) -> Result<StreamFile, DataError> {
        let bytes = read_small(path).map_err(CustomStreamError::Unreadable);
        let parsed = bytes.and_then(|bytes| StreamFile::parse(&bytes, path));
        parsed.map_err(|flaw| DataError::CustomStream { path: path.into(), flaw })
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
        let sha256 = hex(&Sha256::digest(bytes));
        Ok(StreamFile { name, path: path.into(), sha256, description })
    }

    /// Whether the learner is told when a task ends.
    pub fn ends(&self) -> bool {
        self.description.tasks != Boundaries::None
    }

    /// The scenario of the stream, unless a run has another: `task`, `domain` or `class`.
    pub fn scenario(&self) -> &'static str {
        self.description.scenario()
    }

    /// Whether the samples are images.
    pub fn has_images(&self) -> bool {
        self.description.format == Format::Images
    }

    /// SHA-256 of the description.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Reads the data: all samples, as the training part of a data set, and how the tasks divide them.
    pub fn load(&self) -> Result<(Dataset, CustomTasks), DataError> {
        let (mut data, tasks) = loading::load(&self.description, &self.path)?;
        data.name.clone_from(&self.name);
        Ok((data, tasks))
    }
}
