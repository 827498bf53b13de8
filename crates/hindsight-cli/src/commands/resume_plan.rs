//! `resume.json`: what a folder's runs were asked to do, for `hindsight resume`.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context;
use clap::Args;
use hindsight::{
    checkpoint::Checkpoints,
    config::{ConfigError, Experiment, Override},
    methods::METHODS,
    run::matched,
    run_folder,
};
use hindsight_data::{atomic_file::AtomicFile, bounded_read::read_small};
use hindsight_report::plural;
use serde::{Deserialize, Serialize};

use crate::{experiment::RunTarget, failure::FolderError, run_folder::cannot_write};

/// When checkpoints are saved.
#[derive(Debug, Clone, PartialEq, Args, Serialize, Deserialize)]
pub(super) struct CheckpointArgs {
    /// Save a checkpoint of every run after every N batches [default: only on Ctrl-C]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(super) checkpoint_every: usize,
    /// Number of checkpoints to keep of each run
    #[arg(long, value_name = "K", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) checkpoint_keep: u16,
    /// Do not keep the final learners, which `predict` and `learn` take, under `models`
    #[arg(long)]
    #[serde(default)]
    pub(super) no_model: bool,
}

/// Everything that `hindsight resume` has to know.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ResumePlan {
    version: u32,
    /// `key=value`, in rising precedence.
    settings: Vec<String>,
    /// The file of a custom stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stream: Option<JsonPath>,
    data_dir: JsonPath,
    #[serde(flatten)]
    pub(super) checkpoints: CheckpointArgs,
}

const FILE: &str = "resume.json";

/// The folder of the checkpoints of all runs.
pub(super) const CHECKPOINTS: &str = "checkpoints";

const VERSION: u32 = 1;

impl ResumePlan {
    pub(super) fn new(
        overrides: &[Override],
        target: &RunTarget,
        data_dir: &Path,
        checkpoints: CheckpointArgs,
    ) -> anyhow::Result<ResumePlan> {
        Ok(ResumePlan {
            version: VERSION,
            settings: overrides.iter().map(ToString::to_string).collect(),
            stream: target
                .stream
                .as_ref()
                .map(|stream| std::path::absolute(stream.path()))
                .transpose()?
                .map(JsonPath::from),
            data_dir: std::path::absolute(data_dir)?.into(),
            checkpoints,
        })
    }

    /// Reads the plan of a folder that `hindsight run` wrote to.
    pub(super) fn read(folder: &Path) -> Result<ResumePlan, FolderError> {
        let no_plan = |reason: String| FolderError::NoPlan { path: folder.join(FILE), reason };
        let text = read_small(&folder.join(FILE)).map_err(|error| no_plan(error.to_string()))?;
        let plan: ResumePlan = serde_json::from_slice(&text).map_err(|error| no_plan(error.to_string()))?;
        match plan.version {
            VERSION => Ok(plan),
            found => Err(no_plan(format!("it has version {found}, expected {VERSION}"))),
        }
    }

    /// Writes the plan, unless it would replace one whose runs have checkpoints to resume from.
    pub(super) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        let (path, text) = (folder.join(FILE), serde_json::to_string_pretty(self)? + "\n");
        // A full disk must not keep a run from being resumed.
        if read_small(&path).is_ok_and(|known| known == text.as_bytes()) {
            return Ok(());
        }
        if let Ok(other) = ResumePlan::read(folder)
            && (&other.settings, &other.stream) != (&self.settings, &self.stream)
        {
            other.check_unused(self, folder)?;
        }
        AtomicFile::write(&path, text).with_context(|| cannot_write(&path))
    }

    pub(super) fn overrides(&self) -> Result<Vec<Override>, ConfigError> {
        self.settings.iter().map(|text| Override::parse(text)).collect()
    }

    pub(super) fn target(&self) -> anyhow::Result<RunTarget> {
        Ok(match &self.stream {
            Some(stream) => RunTarget::stream(&stream.path())?,
            None => RunTarget::BUILT_IN,
        })
    }

    pub(super) fn data_dir(&self) -> PathBuf {
        self.data_dir.path()
    }

    /// Records that the data sets have moved.
    pub(super) fn move_data_dir(&mut self, to: &Path) -> anyhow::Result<()> {
        self.data_dir = std::path::absolute(to)?.into();
        Ok(())
    }

    fn experiment(&self) -> anyhow::Result<Experiment> {
        Ok(Experiment::resolve(&self.overrides()?, &self.target()?.benchmarks, METHODS)?)
    }

    /// Fails if a run of this plan that `new` does not have is unfinished and has a checkpoint.
    fn check_unused(&self, new: &ResumePlan, folder: &Path) -> anyhow::Result<()> {
        // A plan that cannot be resolved any more cannot be resumed either.
        let (Ok(old), Ok(new)) = (self.experiment(), new.experiment()) else { return Ok(()) };
        let records = run_folder::read(&[folder]).map_or_else(|_| Vec::new(), |found| found.records);
        let (old, new) = (old.runs(), new.runs());
        let finished = matched(&old, records);
        let (folder_of_all, stop) = (folder.join(CHECKPOINTS), Arc::default());
        let checkpoints =
            Checkpoints { folder: folder_of_all, every: 0, interval: None, keep: 1, stop, models: None };
        let mut left = Vec::new();
        for (index, run) in old.iter().enumerate() {
            let repeated = new.iter().any(|other| other.identity() == run.identity());
            if !repeated && !finished.contains_key(&index) && checkpoints.of(run).is_dir() {
                left.push(format!("{} seed {}", run.method.name, run.seed));
            }
        }
        if left.is_empty() {
            return Ok(());
        }
        let more = left.len().saturating_sub(3);
        left.truncate(3);
        let more = if more > 0 { format!(" and {} more", plural(more, "run")) } else { String::new() };
        let left = left.join(", ") + &more;
        Err(FolderError::Unfinished { folder: folder.to_owned(), left }.into())
    }
}

/// A path in JSON: a string, or the bytes of a path that is not UTF-8.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum JsonPath {
    Text(String),
    Bytes(Vec<u8>),
}

impl From<PathBuf> for JsonPath {
    fn from(path: PathBuf) -> JsonPath {
        match path.into_os_string().into_string() {
            Ok(text) => JsonPath::Text(text),
            Err(other) => JsonPath::Bytes(other.into_encoded_bytes()),
        }
    }
}

impl JsonPath {
    fn path(&self) -> PathBuf {
        match self {
            JsonPath::Text(text) => text.into(),
            #[cfg(unix)]
            JsonPath::Bytes(bytes) => {
                use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
                OsStr::from_bytes(bytes).into()
            }
            #[cfg(not(unix))]
            JsonPath::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned().into(),
        }
    }
}
