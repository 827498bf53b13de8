//! `hindsight export`: a model's answers in a format of other programs.

use std::{
    io::{Write, stdout},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::Context;
use clap::Args;
use hindsight::{Agent, data::atomic_file::AtomicFile};

use super::predict::Tasks;
use crate::failure::CannotWrite;

/// Write what a model answers, without what it learns with, for other programs.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The model's file
    model: PathBuf,
    /// The ONNX file to write: input `x`, outputs `logits` and `probabilities`
    #[arg(long, value_name = "FILE", required = true)]
    onnx: PathBuf,
    /// The task to answer for, where the model has a head per task
    #[arg(long, value_name = "NAME")]
    task: Option<String>,
}

/// Runs `hindsight export`.
pub(crate) fn execute(args: &ExportArgs) -> anyhow::Result<ExitCode> {
    let agent = Agent::load(&args.model)?;
    let task = Tasks::new(&agent, args.task.as_deref())?.of(None)?;
    let bytes = agent.to_onnx(task)?;
    AtomicFile::write(&args.onnx, &bytes).with_context(|| CannotWrite(args.onnx.clone()))?;
    writeln!(stdout(), "{}: {} bytes", args.onnx.display(), bytes.len())?;
    Ok(ExitCode::SUCCESS)
}
