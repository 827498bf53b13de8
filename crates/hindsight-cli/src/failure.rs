//! Errors of the command line: message, hint and exit code.

use std::{error::Error, fmt, io, path::PathBuf, process::ExitCode};

use hindsight::{
    AgentError, checkpoint::CheckpointError, config::ConfigError, data::DataError, run::RunError,
    run_folder::RecordError, sweep::SweepError,
};
use hindsight_report::reproduce::ReproduceError;

use crate::{messages::tell, model_file::ModelError};

/// Reports an error and returns its exit code.
pub(crate) fn fail(error: &anyhow::Error) -> u8 {
    // Errors of files carry their path; any other I/O error is of standard output.
    let output = error.downcast_ref::<io::Error>().filter(|_| !error.is::<CannotWrite>());
    match output.map(io::Error::kind) {
        // A reader that has seen enough, such as `head`, is not a failure.
        Some(io::ErrorKind::BrokenPipe) => return 0,
        Some(_) => tell(format_args!("error: cannot write to standard output: {error:#}")),
        None => tell(format_args!("error: {error:#}")),
    }
    if let Some(hint) = hint(error) {
        tell(format_args!("hint: {hint}"));
    }
    2
}

/// Reports wrong usage in the form of all other errors; help and version are printed as they are.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    let text = error.render().to_string().replace('\'', "`");
    let mut paragraphs =
        text.split("\n\n").map(|lines| lines.split_whitespace().collect::<Vec<_>>().join(" "));
    match paragraphs.next() {
        Some(first) if first.starts_with("error: ") => {
            tell(&first);
            let tip = paragraphs.find_map(|line| Some(line.strip_prefix("tip: ")?.to_owned()));
            tell(format_args!("hint: {}", tip.as_deref().unwrap_or("`--help` lists what can be given here")));
        }
        _ => {
            if let Err(error) = error.print() {
                return ExitCode::from(fail(&error.into()));
            }
        }
    }
    ExitCode::from(error.exit_code() as u8)
}

/// What the user can do about an error.
pub(crate) fn hint(error: &anyhow::Error) -> Option<String> {
    if let Some(io) = error.downcast_ref::<io::Error>() {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        let full = matches!(io.kind(), StorageFull | QuotaExceeded | FileTooLarge);
        // ENFILE and EMFILE, on every Unix; the standard library has no kind for them.
        if cfg!(unix) && matches!(io.raw_os_error(), Some(23 | 24)) {
            return Some(
                "raise the limit of open files, `ulimit -n 1024`, or close some programs".to_owned(),
            );
        }
        let hint = match (full, error.is::<CannotWrite>()) {
            (true, true) => {
                "free some space and repeat the command, which keeps the records that are there; or choose \
                 another folder with `--out`"
            }
            (false, true) => "choose another folder with `--out`",
            (true, false) => "free some space, or redirect the output elsewhere",
            (false, false) => "redirect the output to a file or program that accepts it",
        };
        return Some(hint.to_owned());
    }
    let run = error.downcast_ref().and_then(RunError::hint);
    let config = || error.downcast_ref().and_then(ConfigError::hint);
    let data = || error.downcast_ref().and_then(DataError::hint);
    let record = || error.downcast_ref().and_then(RecordError::hint);
    let sweep = || error.downcast_ref().and_then(SweepError::hint);
    let reproduce = || error.downcast_ref().and_then(ReproduceError::hint);
    let folder = || error.downcast_ref().map(FolderError::hint);
    let launch = || error.downcast_ref().map(LaunchError::hint);
    let model = || error.downcast_ref().map(ModelError::hint);
    let agent = || error.downcast_ref().and_then(agent_hint);
    let run = run.or_else(config).or_else(data).or_else(record).or_else(sweep);
    run.or_else(reproduce).or_else(folder).or_else(launch).or_else(model).or_else(agent)
}

/// [`AgentError::hint`] in the words of the command line.
fn agent_hint(error: &AgentError) -> Option<String> {
    let hint = match error {
        AgentError::Config(error) => return error.hint(),
        AgentError::Checkpoint(CheckpointError::Unreadable { .. }) => {
            "is this a model that `learn` or `run` saved?"
        }
        AgentError::Checkpoint(CheckpointError::Unwritable { .. }) => {
            "make room or choose another place; what was there before still is"
        }
        AgentError::Checkpoint(CheckpointError::Malformed { .. } | CheckpointError::Damaged { .. }) => {
            "give a file that `learn` or `run` saved, or an earlier copy of this one"
        }
        AgentError::NoClasses => "let it learn from some rows first: `hindsight learn`",
        AgentError::Unknown { .. } | AgentError::UnknownName { .. } => {
            "`hindsight inspect` lists the classes and tasks of a model"
        }
        AgentError::Foreign { .. } => "the model has a head per task: is this the right task?",
        AgentError::Shape { .. } => "is this the right data for the model?",
        other => return other.hint(),
    };
    Some(hint.to_owned())
}

/// The context of an I/O error: the file or folder that could not be written.
#[derive(Debug)]
pub(crate) struct CannotWrite(pub(crate) PathBuf);

impl fmt::Display for CannotWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot write `{}`", self.0.display())
    }
}

/// Why a folder of runs cannot be used.
#[derive(Debug)]
pub(crate) enum FolderError {
    /// Another command writes to it.
    InUse(PathBuf),
    /// It has no usable `resume.json`.
    NoPlan { path: PathBuf, reason: String },
    /// It has checkpoints of other runs, which are not finished.
    Unfinished { folder: PathBuf, left: String },
}

impl FolderError {
    fn hint(&self) -> String {
        match self {
            FolderError::InUse(_) => "wait for it, or choose another folder with `--out`".to_owned(),
            FolderError::NoPlan { .. } => {
                "give the folder that `hindsight run` wrote to, under `runs`".to_owned()
            }
            FolderError::Unfinished { folder, .. } => {
                let folder = folder.display();
                format!("finish them with `hindsight resume {folder}`, or choose another folder with `--out`")
            }
        }
    }
}

impl fmt::Display for FolderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FolderError::InUse(folder) => {
                write!(f, "`{}` is in use by another `hindsight`", folder.display())
            }
            FolderError::NoPlan { path, reason } => write!(f, "cannot read `{}`: {reason}", path.display()),
            FolderError::Unfinished { folder, left } => {
                write!(
                    f,
                    "`{}` has checkpoints of other runs that are not finished: {left}",
                    folder.display()
                )
            }
        }
    }
}

impl Error for FolderError {}

/// Why runs cannot be executed elsewhere, or a worker cannot join.
#[derive(Debug)]
pub(crate) enum LaunchError {
    /// A program of the scheduler is absent or fails.
    Tool { tool: &'static str, reason: String },
    /// An option that the scheduler is not given.
    Option { found: String, expected: &'static str },
    /// The file of `--slurm-config`.
    Config { path: PathBuf, reason: String },
    /// An argument that cannot be written down for workers.
    Text { found: String },
    /// A folder whose runs were not submitted.
    NoLaunch { path: PathBuf, reason: String },
    /// What was submitted has other runs now.
    Changed { folder: PathBuf, run: String },
}

impl LaunchError {
    fn hint(&self) -> String {
        match self {
            LaunchError::Tool { tool, .. } => format!(
                "is `{tool}` on this machine, and does the cluster accept the options? `--dry-run` prints the \
                 script, `--on commands` the commands for any other scheduler"
            ),
            LaunchError::Option { .. } | LaunchError::Config { .. } => {
                "`--slurm time=04:00:00`, or a TOML file with a table `[slurm]`; see docs/cluster.md"
                    .to_owned()
            }
            LaunchError::Text { .. } => "rename the file, or give another path".to_owned(),
            LaunchError::NoLaunch { .. } => {
                "give a folder whose runs were submitted with `--on slurm` or `--on commands`".to_owned()
            }
            LaunchError::Changed { .. } => {
                "repeat the command with `--on` to submit the runs as they are now".to_owned()
            }
        }
    }
}

impl fmt::Display for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LaunchError::Tool { tool, reason } => write!(f, "`{tool}` failed: {reason}"),
            LaunchError::Option { found, expected } => write!(f, "`{found}`: expected {expected}"),
            LaunchError::Config { path, reason } | LaunchError::NoLaunch { path, reason } => {
                write!(f, "cannot read `{}`: {reason}", path.display())
            }
            LaunchError::Text { found } => write!(f, "`{found}` is not UTF-8"),
            LaunchError::Changed { folder, run } => write!(
                f,
                "the settings have changed since the runs in `{}` were submitted: `{run}` is not among them",
                folder.display()
            ),
        }
    }
}

impl Error for LaunchError {}
