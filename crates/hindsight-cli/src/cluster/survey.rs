//! How the runs of a submitted folder stand: `hindsight status`, and `--wait`.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Context;
use hindsight::{
    protocol::Status,
    run_folder::{Note, summaries},
};
use hindsight_report::plural;
use indicatif::HumanDuration;
use serde::Serialize;

use super::{
    claims::{Claims, End},
    owner::{Liveness, Owner, liveness},
    plan::{Launch, read_plan},
    slurm,
};
use crate::{messages::inform, progress::Progress, run_folder::cannot_write};

/// How the runs of a folder stand.
#[derive(Debug, Serialize)]
pub(crate) struct Survey {
    pub(crate) runs: usize,
    pub(crate) done: usize,
    /// Of those that are done.
    pub(crate) diverged: usize,
    pub(crate) running: Vec<Running>,
    /// Labels.
    pub(crate) failed: Vec<String>,
    /// Runs that nobody has begun, or that were saved.
    pub(crate) left: usize,
    /// Runs whose owner has ended without a word: a worker or the next submission takes them over.
    pub(crate) lost: Vec<Running>,
    /// Workers that run, and that wait in the queue; none if Slurm was not asked or does not answer.
    pub(crate) workers: Option<[usize; 2]>,
    /// How long the rest will take, with the workers that run now.
    pub(crate) seconds_left: Option<f64>,
    #[serde(skip)]
    pub(crate) notes: Vec<Note>,
}

/// A run that somebody has claimed.
#[derive(Debug, Serialize)]
pub(crate) struct Running {
    pub(crate) run: String,
    /// Who, for people.
    pub(crate) on: String,
    /// Nobody can be asked whether it still runs.
    pub(crate) unknown: bool,
}

impl Survey {
    /// Looks at a folder that was submitted.
    pub(crate) fn of(root: &Path) -> anyhow::Result<Survey> {
        let (launch, plan) = (Launch::read(root)?, read_plan(root)?);
        let claims = Claims::of(root);
        let listing = claims.list().with_context(|| cannot_write(root))?;
        let (found, notes) = summaries(&[root])?;
        let found = found.iter().filter(|run| run.counts(&launch.data));
        let finished: HashMap<&str, (Status, f64)> =
            found.map(|run| (run.id.as_str(), (run.status, run.seconds))).collect();

        let mut survey = Survey {
            runs: plan.len(),
            done: 0,
            diverged: 0,
            running: Vec::new(),
            failed: Vec::new(),
            left: 0,
            lost: Vec::new(),
            workers: None,
            seconds_left: None,
            notes,
        };
        // Seconds per unit of cost, and the cost that is left.
        let (mut seconds, mut spent, mut cost) = (0.0, 0.0, 0.0);
        let mut held = Vec::new();
        for run in &plan {
            let state = listing.of(&run.id);
            if let Some((status, took)) = finished.get(run.id.as_str()) {
                survey.done += 1;
                survey.diverged += usize::from(*status == Status::Diverged);
                if *status == Status::Done {
                    (seconds, spent) = (seconds + took, spent + run.cost);
                }
            } else if state.is_settled(run.retry) && state.end == Some(End::Failed) {
                survey.failed.push(run.label.clone());
            } else if state.is_under_way() {
                // It may end between the listing and now.
                if let Ok((owner, _)) = claims.read(&run.id, state.claims - 1) {
                    held.push((run, owner));
                }
            } else {
                survey.left += 1;
                cost += run.cost;
            }
        }
        let owners: Vec<Owner> =
            held.iter().filter_map(|(_, file)| Some(file.as_ref()?.owner.clone())).collect();
        let alive = if owners.is_empty() { BTreeMap::new() } else { liveness(&owners) };
        let mut at_work = BTreeSet::new();
        for (run, file) in held {
            let owner = file.map(|file| file.owner);
            let alive = owner.as_ref().map_or(Liveness::Unknown, |owner| alive[owner]);
            let on = owner.as_ref().map_or("an unknown worker".to_owned(), Owner::describe);
            let running = Running { run: run.label.clone(), on, unknown: alive == Liveness::Unknown };
            match alive {
                Liveness::Running | Liveness::Unknown => {
                    // On average it is half done.
                    cost += run.cost / 2.0;
                    at_work.extend(owner);
                    survey.running.push(running);
                }
                Liveness::Ended | Liveness::Gone => {
                    cost += run.cost;
                    survey.lost.push(running);
                }
            }
        }
        if !listing.submitted.is_empty() {
            survey.workers = slurm::own_queue().map(|queue| {
                let sum = |of: &dyn Fn(&str) -> usize| listing.submitted.iter().map(|job| of(job)).sum();
                [sum(&|job| queue.running(job)), sum(&|job| queue.waiting(job))]
            });
        }
        if spent > 0.0 && !at_work.is_empty() {
            survey.seconds_left = Some(cost * seconds / spent / at_work.len() as f64);
        }
        Ok(survey)
    }

    /// Whether every run has a record or has failed.
    pub(crate) fn is_over(&self) -> bool {
        self.done + self.failed.len() == self.runs
    }

    /// Whether somebody works on the runs, or will; also if nobody knows.
    pub(crate) fn has_workers(&self) -> bool {
        !self.running.is_empty() || self.workers.is_none_or(|workers| workers != [0, 0])
    }

    /// For people.
    pub(crate) fn lines(&self) -> Vec<String> {
        const SHOWN: usize = 20;
        let mut lines = vec![plural(self.runs, "run")];
        let diverged =
            if self.diverged > 0 { format!(", {} of them diverged", self.diverged) } else { String::new() };
        lines.push(format!("done     {:>6}{diverged}", self.done));
        let mut list = |title: &str, all: Vec<String>| {
            lines.push(format!("{title:<8} {:>6}", all.len()));
            let more = all.len().saturating_sub(SHOWN);
            lines.extend(all.into_iter().take(SHOWN).map(|line| format!("  {line}")));
            lines.extend((more > 0).then(|| format!("  and {more} more")));
        };
        let named = |runs: &[Running]| {
            let end = |run: &Running| if run.unknown { " (cannot be asked)" } else { "" };
            runs.iter().map(|run| format!("{}: {}{}", run.run, run.on, end(run))).collect()
        };
        list("running", named(&self.running));
        list("failed", self.failed.clone());
        if !self.lost.is_empty() {
            list("stopped", named(&self.lost));
        }
        lines.push(format!("left     {:>6}", self.left));
        if let Some([running, waiting]) = self.workers {
            lines.push(format!("workers  {running:>6} running, {waiting} in the queue"));
        }
        if let Some(seconds) = self.seconds_left.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        {
            lines.push(format!("about {} left with the workers that run now", HumanDuration(seconds)));
        }
        lines
    }
}

/// Shows a progress bar until the runs of a folder are over, or nobody is left to do them.
pub(super) fn follow(root: &Path) -> anyhow::Result<()> {
    let all = read_plan(root)?.len();
    let mut progress = Progress::new(vec!["runs".to_owned()], &[1.0], &[0]);
    let mut idle = 0;
    loop {
        let begin = Instant::now();
        let survey = Survey::of(root)?;
        progress.advance(0, survey.done + survey.failed.len(), all);
        progress.note(&format!(
            "{} of {} done, {} running, {} failed",
            survey.done,
            plural(all, "run"),
            survey.running.len(),
            survey.failed.len()
        ));
        // A job that was just requeued may be on neither list.
        idle = if survey.has_workers() { 0 } else { idle + 1 };
        if survey.is_over() || idle == 3 {
            progress.clear();
            if !survey.is_over() {
                let left = all - survey.done - survey.failed.len();
                inform(format_args!("note: {} left, and no job to do them", plural(left, "run")));
                inform("hint: the same command submits them again; finished runs are kept");
            }
            return Ok(());
        }
        // To look takes as long as there are records; most of the time is for the workers.
        std::thread::sleep(Duration::from_secs(2).max(20 * begin.elapsed()));
    }
}
