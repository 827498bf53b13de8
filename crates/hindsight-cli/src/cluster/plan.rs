//! What was submitted: `launch.json`, the command whose runs workers execute, and `plan.jsonl`, a line per
//! run.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Write},
    path::{Path, PathBuf},
};

use anyhow::Context;
use hindsight_data::{atomic_file::AtomicFile, bounded_read::read_small};
use serde::{Deserialize, Serialize};

use crate::{failure::LaunchError, run_folder::cannot_write};

const LAUNCH: &str = "launch.json";
const PLAN: &str = "plan.jsonl";
const VERSION: u32 = 1;

/// The command that was given, and what it depended on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Launch {
    version: u32,
    /// With the name of the program.
    pub(crate) args: Vec<String>,
    /// What relative paths in `args` are relative to.
    pub(crate) directory: PathBuf,
    pub(crate) data_dir: PathBuf,
    /// SHA-256 of the data sets: a record of other data does not count.
    pub(crate) data: Vec<String>,
}

impl Launch {
    /// This process's command.
    pub(super) fn current(data_dir: &Path, data: Vec<String>) -> anyhow::Result<Launch> {
        let args = std::env::args_os().map(|arg| {
            arg.into_string().map_err(|arg| LaunchError::Text { found: arg.to_string_lossy().into_owned() })
        });
        let args = args.collect::<Result<_, _>>()?;
        let directory = std::env::current_dir()?;
        Ok(Launch { version: VERSION, args, directory, data_dir: std::path::absolute(data_dir)?, data })
    }

    pub(super) fn write(&self, root: &Path) -> anyhow::Result<()> {
        let path = root.join(LAUNCH);
        let text = serde_json::to_string_pretty(self)? + "\n";
        AtomicFile::write(&path, text).with_context(|| cannot_write(&path))
    }

    pub(crate) fn read(root: &Path) -> Result<Launch, LaunchError> {
        let path = root.join(LAUNCH);
        let refused = |reason: String| LaunchError::NoLaunch { path: path.clone(), reason };
        let text = read_small(&path).map_err(|error| refused(error.to_string()))?;
        let launch: Launch = serde_json::from_slice(&text).map_err(|error| refused(error.to_string()))?;
        match launch.version {
            VERSION => Ok(launch),
            found => Err(refused(format!("it has version {found}, expected {VERSION}"))),
        }
    }
}

/// Whether the runs of a folder were submitted.
pub(crate) fn is_submitted(root: &Path) -> bool {
    root.join(LAUNCH).is_file()
}

/// A run of a submission.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PlannedRun {
    /// [`RunConfig::id`](hindsight::config::RunConfig::id).
    pub(crate) id: String,
    pub(crate) label: String,
    /// How long it takes, compared with others.
    pub(crate) cost: f64,
    /// It had a record when it was submitted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) done: bool,
    /// So many claims had ended without a record when it was submitted: they do not count.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) retry: u32,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Writes the runs of a submission, in the order in which they are begun.
pub(super) fn write_plan(root: &Path, runs: &[PlannedRun]) -> anyhow::Result<()> {
    let path = root.join(PLAN);
    let write = || -> anyhow::Result<()> {
        let mut file = io::BufWriter::new(AtomicFile::new(&path)?);
        for run in runs {
            serde_json::to_writer(&mut file, run)?;
            file.write_all(b"\n")?;
        }
        Ok(file.into_inner().map_err(io::IntoInnerError::into_error)?.keep()?)
    };
    write().with_context(|| cannot_write(&path))
}

pub(super) fn read_plan(root: &Path) -> Result<Vec<PlannedRun>, LaunchError> {
    let path = root.join(PLAN);
    let refused = |reason: String| LaunchError::NoLaunch { path: path.clone(), reason };
    let file = File::open(&path).map_err(|error| refused(error.to_string()))?;
    let mut runs = Vec::new();
    for (line, text) in BufReader::new(io::Read::take(file, LONGEST)).lines().enumerate() {
        let text = text.map_err(|error| refused(error.to_string()))?;
        let run = serde_json::from_str(&text);
        runs.push(run.map_err(|error: serde_json::Error| refused(format!("line {}: {error}", line + 1)))?);
    }
    Ok(runs)
}

/// Bytes of the longest plan: 100,000 runs have some 20 MB.
const LONGEST: u64 = 1 << 28;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_read_as_it_was_written_and_a_damaged_one_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let run = |id: &str, done| PlannedRun {
            id: id.into(),
            label: "hal \"a\"".into(),
            cost: 0.1,
            done,
            retry: 2,
        };
        let runs = [run("a", false), run("b", true)];
        write_plan(root.path(), &runs).unwrap();
        assert_eq!(read_plan(root.path()).unwrap(), runs);
        std::fs::write(root.path().join(PLAN), "{\"id\":1}\n").unwrap();
        assert!(read_plan(root.path()).unwrap_err().to_string().contains("line 1"));
        std::fs::write(root.path().join(LAUNCH), "{\"version\":1}").unwrap();
        assert!(Launch::read(root.path()).is_err() && is_submitted(root.path()));
    }
}
