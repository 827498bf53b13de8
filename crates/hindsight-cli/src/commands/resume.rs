//! `hindsight resume`: resumes runs that were stopped or killed from their last checkpoints.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;

use super::run;
use crate::experiment::{MachineArgs, VerbosityArgs};

/// Resume stopped runs from their last checkpoints.
///
/// The settings are taken from the folder. Finished runs are not repeated, runs with a checkpoint continue
/// from it, and the others start. A resumed run is bit-identical to an uninterrupted one.
#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// The folder that `hindsight run` wrote to: its `--out`, or `runs/0001-…`
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Print one JSON object per finished run instead of a table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    machine: MachineArgs,
    #[command(flatten)]
    verbosity: VerbosityArgs,
}

/// Runs `hindsight resume`.
pub(crate) fn execute(args: &ResumeArgs) -> anyhow::Result<ExitCode> {
    args.verbosity.apply();
    run::resume(&args.folder, &args.machine, args.verbosity.verbose, args.json)
}
