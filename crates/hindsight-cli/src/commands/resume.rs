//! `hindsight resume`: runs that were stopped or killed, from their last checkpoints.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;

use super::{experiment::MachineArgs, run};

/// Go on with runs that were stopped, from their last checkpoints.
///
/// The folder knows the settings. Finished runs are not repeated, those with a checkpoint go on from it, and the
/// others start; the records are those of an undisturbed run, to the last bit.
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
}

/// Runs `hindsight resume`.
pub(crate) fn execute(args: &ResumeArgs) -> anyhow::Result<ExitCode> {
    run::resume(&args.folder, &args.machine, args.json)
}
