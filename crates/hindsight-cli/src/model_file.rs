//! The file of a model: read, and replaced as a whole.

use std::{
    error::Error,
    fmt, fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use hindsight::{Agent, AgentError};

/// A model's file, and what it was when it was last read or written.
pub(crate) struct ModelFile {
    path: PathBuf,
    stamp: Option<(SystemTime, u64)>,
}

impl ModelFile {
    /// Reads the model at `path`, if there is one.
    pub(crate) fn open(path: &Path) -> Result<(ModelFile, Option<Agent>), AgentError> {
        let file = ModelFile { path: path.to_owned(), stamp: stamp(path) };
        let agent = if path.exists() { Some(Agent::load(path)?) } else { None };
        Ok((file, agent))
    }

    /// Replaces the file. Another program's work since it was read is not overwritten.
    pub(crate) fn save(&mut self, agent: &Agent) -> anyhow::Result<()> {
        if stamp(&self.path) != self.stamp {
            return Err(ModelError::Changed(self.path.clone()).into());
        }
        agent.save(&self.path)?;
        self.stamp = stamp(&self.path);
        Ok(())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

fn stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let found = fs::metadata(path).ok()?;
    Some((found.modified().ok()?, found.len()))
}

/// Why a model cannot be used so.
#[derive(Debug)]
pub(crate) enum ModelError {
    /// Another program has written to its file.
    Changed(PathBuf),
    /// A setting that a model gets when it is made, given for one that there is.
    Fixed { option: &'static str, given: String, found: String },
    /// A task that the model does not know.
    NoTask { task: Option<String>, known: Vec<String> },
}

impl ModelError {
    pub(crate) fn hint(&self) -> String {
        match self {
            ModelError::Changed(_) => {
                "run the command again: it goes on with the model that is there now".to_owned()
            }
            ModelError::Fixed { option, .. } => format!("leave `{option}` out, or make another model"),
            ModelError::NoTask { .. } => {
                "`hindsight inspect` lists the tasks; name one with `--task`".to_owned()
            }
        }
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ModelError::Changed(path) => {
                write!(f, "`{}` was changed by another program since it was read", path.display())
            }
            ModelError::Fixed { option, given, found } => {
                write!(f, "`{option} {given}`, but the model was made with {found}")
            }
            ModelError::NoTask { task, known } => {
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                match task {
                    Some(task) => write!(f, "unknown task `{task}`, expected one of the model's: {known}"),
                    None => {
                        write!(f, "no task, expected one of the model's, which has a head for each: {known}")
                    }
                }
            }
        }
    }
}

impl Error for ModelError {}
