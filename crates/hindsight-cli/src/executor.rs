//! Executes runs in parallel, with a progress bar, and writes their records.

use std::sync::Arc;

use anyhow::Context;
use hindsight::{
    Record,
    checkpoint::Checkpoints,
    config::RunConfig,
    protocol::Status,
    record::RECORDS,
    run::{RunError, RunEvent, costs, longest_first, run_all},
    stream::Source,
};

use crate::{
    failure::fail,
    progress::Progress,
    run_folder::{RunFolder, cannot_write},
};

/// A set of runs and what is needed to execute those that are missing.
pub(crate) struct Executor<'w> {
    pub(crate) runs: &'w [RunConfig],
    /// One per run.
    pub(crate) labels: Vec<String>,
    /// Indices of the runs to execute.
    pub(crate) todo: Vec<usize>,
    /// Records from which the duration of runs is estimated.
    pub(crate) measured: Vec<Record>,
    pub(crate) source: &'w Arc<Source>,
    pub(crate) jobs: usize,
    pub(crate) checkpoints: Option<Checkpoints>,
}

impl Executor<'_> {
    /// Executes the runs, longest first. A record is on the disk before `ended` is called with it; with
    /// `details`, so are finished tasks and snapshots.
    pub(crate) fn execute(
        self,
        folder: &mut RunFolder,
        details: bool,
        mut ended: impl FnMut(&Progress, usize, Result<Record, RunError>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let costs = costs(self.runs, &self.measured);
        let order = longest_first(self.todo, &costs);
        let mut progress = Progress::new(self.labels, &costs, &order);
        let runs = self.runs;
        let mut watch = |progress: &mut Progress, report| -> anyhow::Result<()> {
            match report {
                RunEvent::Started { index } => progress.start(index),
                RunEvent::Progress { index, done, total } => progress.advance(index, done, total),
                RunEvent::Note { index, text } => {
                    let line = format!("note: {}: {text}", progress.label(index));
                    progress.say(line);
                }
                RunEvent::Warning { index, text } => {
                    progress.warn(format_args!("warning: {}: {text}", progress.label(index)));
                }
                RunEvent::Task { index, task, row } if details => folder.task(&runs[index], task, &row)?,
                RunEvent::Task { .. } => {}
                RunEvent::Finished { index, record, snapshot } => {
                    // The record comes last: a run that has one is not repeated.
                    if let Some(snapshot) = snapshot.filter(|_| details) {
                        folder.snapshot(&snapshot)?;
                    }
                    let result = match &*record {
                        Ok(record) => {
                            folder.record(record)?;
                            if record.status == Status::Diverged && details {
                                let (label, remedy) = (progress.label(index), remedy(&runs[index]));
                                progress.warn(format_args!("warning: {label} diverged; set {remedy}"));
                            }
                            record.accuracy.map_or("diverged".to_owned(), |a| format!("{a:.1} %"))
                        }
                        Err(RunError::Stopped { .. }) => "stopped".to_owned(),
                        Err(error) => {
                            // The error is reported in any case, and may be that nothing can be written.
                            let _ = folder.failure(&runs[index], error);
                            "failed".to_owned()
                        }
                    };
                    progress.end(index, &result);
                    ended(progress, index, *record)?;
                }
            }
            Ok(())
        };
        run_all(runs, &order, self.source, self.jobs, self.checkpoints.as_ref(), &mut |report| {
            // Do not wait for active runs: what is finished is on the disk.
            watch(&mut progress, report).inspect_err(|error| {
                progress.clear();
                std::process::exit(fail(error).into())
            })
        })?;
        progress.clear();
        folder.restore().with_context(|| cannot_write(&folder.path(RECORDS)))
    }
}

/// The setting that keeps a run from diverging, most likely.
fn remedy(run: &RunConfig) -> String {
    let (method, settings) = (run.method.name, run.effective());
    let rate = match settings.get(&format!("{method}.rate")) {
        Some(rate) => format!("a `{method}.rate` below {rate}"),
        None => "smaller steps".to_owned(),
    };
    match settings.get("hal.preset") {
        Some(preset) if preset.to_string() != "robust" => format!("`hal.preset=robust`, or {rate}"),
        _ => rate,
    }
}
