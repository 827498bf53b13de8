//! `hindsight status`: how the runs of a submitted folder stand.

use std::{
    io::{Write, stdout},
    path::PathBuf,
    process::ExitCode,
};

use clap::Args;

use crate::{
    cluster::survey::Survey,
    messages::{printable, tell},
};

/// Show how submitted runs stand: done, running and where, failed, left.
///
/// Works on any machine that has the folder, while jobs run. Exit code 1 if a run failed, or if runs are left
/// and nobody works on them.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// The folder whose runs were submitted with `--on slurm` or `--on commands`
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs `hindsight status`.
pub(crate) fn execute(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let survey = Survey::of(&args.folder)?;
    for note in &survey.notes {
        tell(format_args!("warning: {note}"));
    }
    if args.json {
        writeln!(stdout(), "{}", serde_json::to_string(&survey)?)?;
    } else {
        for line in survey.lines() {
            writeln!(stdout(), "{}", printable(&line))?;
        }
    }
    let stuck = !survey.is_over() && !survey.has_workers();
    if stuck {
        tell(
            "hint: nobody works on the runs that are left; repeat the command with `--on` to submit them again",
        );
    }
    Ok(if stuck || !survey.failed.is_empty() { ExitCode::from(1) } else { ExitCode::SUCCESS })
}
