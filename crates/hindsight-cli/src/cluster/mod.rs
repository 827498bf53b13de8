//! Runs beyond this process: launchers, and what the workers that they start agree on through a shared
//! folder.
//!
//! `--on slurm` writes what is to be done into the folder ([`plan`]) and starts workers (`hindsight worker`).
//! A worker claims a run ([`claims`]), executes it, and appends the record to a file of its own. Docs:
//! docs/cluster.md, docs/adr/0014.

mod claims;
mod commands;
mod local;
mod owner;
mod plan;
mod slurm;
pub(crate) mod survey;
mod worker;

pub(crate) use plan::{Launch, PlannedRun, is_submitted};
pub(crate) use worker::{Share, Worked, Worker};

use std::{
    collections::HashSet,
    fs,
    io::{Write, stdout},
    path::{Path, PathBuf},
};

use anyhow::Context;
use clap::{Args, ValueEnum};
use hindsight::{
    config::RunConfig,
    run::{costs, longest_first},
    run_folder::{Summary, summaries},
    sweep::Shard,
};
use hindsight_data::bounded_read::read_small;
use hindsight_report::plural;

use crate::{
    failure::LaunchError,
    messages::{inform, tell},
    run_folder::cannot_write,
};

use claims::{Claims, End};

/// Elements of a job array, unless `--workers` says how many.
const WORKERS: usize = 100;

#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Beyond this machine (docs/cluster.md)")]
pub(crate) struct LaunchArgs {
    /// Where to execute the runs: here, as a job array, or by commands that are printed, one per worker
    #[arg(long, value_name = "LAUNCHER")]
    on: Option<On>,
    /// Number of workers that share the runs; `N%M` for M at a time [default: one per run, at most 100]
    #[arg(long, value_name = "N", requires = "on")]
    workers: Option<String>,
    /// An option of `sbatch`: `time=04:00:00`, `mem=4G`, `exclusive`
    #[arg(long, value_name = "KEY=VALUE", requires = "on")]
    slurm: Vec<String>,
    /// A TOML file whose table `[slurm]` has such options; `--slurm` takes precedence
    #[arg(long, value_name = "FILE", requires = "on")]
    slurm_config: Option<PathBuf>,
    /// Seconds between checkpoints of a run that a worker executes
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..))]
    checkpoint_seconds: u32,
    /// Print the script, and write and submit nothing
    #[arg(long, requires = "on")]
    dry_run: bool,
    /// Wait until the runs have ended, then show the results
    #[arg(long, requires = "on", conflicts_with = "dry_run")]
    wait: bool,
    /// This process is such a worker.
    #[arg(skip)]
    share: Option<Share>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum On {
    Local,
    Slurm,
    Commands,
}

impl On {
    fn launcher(self) -> &'static dyn Launcher {
        match self {
            On::Local => &local::Local,
            On::Slurm => &slurm::Slurm,
            On::Commands => &commands::Commands,
        }
    }
}

/// Starts workers. One file each.
trait Launcher {
    /// What `--dry-run` prints.
    fn script(&self, job: &Job) -> anyhow::Result<String>;

    /// Starts the workers of a script.
    fn launch(&self, job: &Job, script: &str) -> anyhow::Result<Launched>;
}

/// Workers to start.
struct Job {
    /// The shared folder.
    folder: PathBuf,
    program: PathBuf,
    name: String,
    workers: usize,
    at_a_time: Option<usize>,
    /// Concurrent runs of a worker.
    jobs: usize,
    /// Of `sbatch`; a value may be empty.
    options: Vec<(String, String)>,
}

impl Job {
    /// The command of a worker, from 1.
    fn command(&self, index: usize) -> String {
        self.command_of(&index.to_string())
    }

    /// The command of the worker that a shell expression names.
    fn command_of(&self, index: &str) -> String {
        let (program, folder) = (self.program.display().to_string(), self.folder.display().to_string());
        let (program, folder, of) = (quoted(&program), quoted(&folder), self.workers);
        format!("{program} worker {folder} \"{index}/{of}\" --jobs {}", self.jobs)
    }
}

/// A word for a POSIX shell.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-+=:,./@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// What became of a job.
enum Launched {
    /// This process is to do it.
    Here,
    Printed,
    /// The id of the job, and what to tell about it.
    Submitted {
        job: String,
        lines: Vec<String>,
    },
}

/// What a command is to do about its runs.
pub(crate) enum Mode {
    /// Execute them, as the only process.
    Execute,
    /// Submit them.
    Submit,
    /// Execute those that no other worker does, and end.
    Worker(Share),
    /// Execute those that no other worker does, then show the results.
    TakePart(Share),
    /// Show the results: others execute them.
    Results,
}

/// The runs of a command, to submit.
pub(crate) struct Submission<'s> {
    /// The shared folder.
    pub(crate) root: &'s Path,
    pub(crate) name: &'s str,
    pub(crate) data_dir: &'s Path,
    /// Concurrent runs of a worker.
    pub(crate) jobs: usize,
    pub(crate) runs: Vec<PlannedRun>,
    /// SHA-256 of the data.
    pub(crate) data: Vec<String>,
}

impl LaunchArgs {
    /// Makes of a command that was submitted that of one of its workers.
    pub(crate) fn become_worker(&mut self, share: Share) {
        self.share = Some(share);
    }

    /// What to do about the runs of a folder.
    pub(crate) fn mode(&self, root: &Path) -> Mode {
        let whole = Share { shard: Shard::WHOLE, stale_after: None };
        match (self.share, self.on) {
            (Some(share), _) => Mode::Worker(share),
            (None, Some(On::Slurm | On::Commands)) => Mode::Submit,
            (None, Some(On::Local)) if self.dry_run => Mode::Submit,
            (None, Some(On::Local)) if is_submitted(root) => Mode::TakePart(whole),
            (None, None) if is_submitted(root) => Mode::Results,
            (None, _) => Mode::Execute,
        }
    }

    pub(crate) fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    pub(crate) fn checkpoint_interval(&self) -> std::time::Duration {
        std::time::Duration::from_secs(self.checkpoint_seconds.into())
    }

    /// Submits runs. Returns whether the caller is to show results, as after `--wait`.
    pub(crate) fn submit(&self, mut submission: Submission<'_>) -> anyhow::Result<bool> {
        let Some(on) = self.on else { return Ok(false) };
        let todo = submission.runs.iter().filter(|run| !run.done).count();
        submission.runs.sort_by(|a, b| b.cost.total_cmp(&a.cost));
        let (workers, at_a_time) = self.workers(todo)?;
        let job = Job {
            folder: std::path::absolute(submission.root)?,
            program: std::env::current_exe()?,
            name: submission.name.to_owned(),
            workers,
            at_a_time,
            jobs: submission.jobs,
            options: self.options()?,
        };
        let script = on.launcher().script(&job)?;
        let all = plural(submission.runs.len(), "run");
        inform(format_args!("{todo} of {all} to do, {}", plural(workers, "worker")));
        if self.dry_run {
            write!(stdout(), "{script}")?;
            return Ok(false);
        }
        if todo == 0 {
            inform("note: nothing to submit");
            return Ok(true);
        }
        let logs = job.folder.join("logs");
        fs::create_dir_all(&logs).with_context(|| cannot_write(&logs))?;
        let claims = Claims::of(&job.folder);
        claims.create()?;
        let listing = claims.list().with_context(|| cannot_write(&job.folder))?;
        let ended = |run: &PlannedRun| matches!(listing.of(&run.id).end, Some(End::Done | End::Failed));
        if submission.runs.iter().any(|run| !run.done && ended(run)) {
            // Records that were written after the caller looked and before the claims were listed.
            let (found, _) = summaries(&[&job.folder])?;
            let counts = |run: &Summary| run.counts(&submission.data);
            let found: HashSet<&str> =
                found.iter().filter(|run| counts(run)).map(|run| run.id.as_str()).collect();
            for run in submission.runs.iter_mut().filter(|run| !run.done && ended(run)) {
                // A run that failed is tried again, and so is one whose record is gone.
                run.done = found.contains(run.id.as_str());
                run.retry = listing.of(&run.id).claims;
            }
        }
        plan::write_plan(&job.folder, &submission.runs)?;
        Launch::current(submission.data_dir, submission.data)?.write(&job.folder)?;
        match on.launcher().launch(&job, &script)? {
            Launched::Here | Launched::Printed => {}
            Launched::Submitted { job: id, lines } => {
                claims.submitted(&id)?;
                lines.iter().for_each(tell);
            }
        }
        if self.wait {
            survey::follow(&job.folder)?;
        }
        Ok(self.wait)
    }

    /// `N`, or `N%M`.
    fn workers(&self, todo: usize) -> Result<(usize, Option<usize>), LaunchError> {
        let Some(text) = &self.workers else { return Ok((todo.clamp(1, WORKERS), None)) };
        let number = |text: &str| text.parse().ok().filter(|n| (1..=1_000_000).contains(n));
        let (all, most) = text.split_once('%').map_or((text.as_str(), None), |(all, most)| (all, Some(most)));
        let refused =
            || LaunchError::Option { found: format!("workers={text}"), expected: "a whole number, or `N%M`" };
        let all = number(all).ok_or_else(refused)?;
        let most = most.map(|most| number(most).ok_or_else(refused)).transpose()?;
        Ok((all, most))
    }

    /// Options of `sbatch`, in rising precedence.
    fn options(&self) -> anyhow::Result<Vec<(String, String)>> {
        let mut options = Vec::new();
        if let Some(path) = &self.slurm_config {
            let refused = |reason: String| LaunchError::Config { path: path.clone(), reason };
            let text = read_small(path).map_err(|error| refused(error.to_string()))?;
            let text = String::from_utf8(text).map_err(|error| refused(error.to_string()))?;
            let table: toml::Table =
                text.parse().map_err(|error: toml::de::Error| refused(error.to_string()))?;
            let table = table.get("slurm").and_then(toml::Value::as_table);
            for (key, value) in table.ok_or_else(|| refused("it has no table `[slurm]`".to_owned()))? {
                match value {
                    toml::Value::Boolean(true) => options.push((key.clone(), String::new())),
                    toml::Value::Boolean(false) => {}
                    toml::Value::String(text) => options.push((key.clone(), text.clone())),
                    toml::Value::Integer(number) => options.push((key.clone(), number.to_string())),
                    other => {
                        return Err(
                            refused(format!("`{key}` is `{other}`, expected text or a number")).into()
                        );
                    }
                }
            }
        }
        for text in &self.slurm {
            let (key, value) = text.split_once('=').unwrap_or((text, ""));
            options.push((key.to_owned(), value.to_owned()));
        }
        for (key, value) in &options {
            let name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            let fits = !key.is_empty() && !key.starts_with('-') && key.chars().all(name);
            if !fits || value.contains(|c: char| c.is_control() || c == '"') {
                let found = format!("{key}={value}");
                return Err(LaunchError::Option {
                    found,
                    expected: "a long option of `sbatch`, `time=04:00:00`",
                }
                .into());
            }
        }
        Ok(options)
    }
}

/// The runs of a data set, to submit.
pub(crate) fn planned(
    runs: &[RunConfig],
    labels: &[String],
    measured: &[hindsight::Record],
    is_done: impl Fn(usize) -> bool,
) -> Vec<PlannedRun> {
    let costs = costs(runs, measured);
    let order = longest_first((0..runs.len()).collect(), &costs);
    let planned = |index: usize| PlannedRun {
        id: runs[index].id(),
        label: labels[index].clone(),
        cost: costs[index],
        done: is_done(index),
        retry: 0,
    };
    order.into_iter().map(planned).collect()
}

/// Tells that the runs that are missing are left to others.
pub(crate) fn left_to_jobs(root: &Path, done: usize, all: usize) {
    if done < all {
        let (runs, folder) = (plural(all, "run"), root.display());
        inform(format_args!(
            "note: {done} of {runs} finished; the others were submitted: `hindsight status {folder}`"
        ));
        inform("hint: `--on local` executes here what no job does");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Job {
        Job {
            folder: "/shared/my sweeps/a".into(),
            program: "/opt/hindsight".into(),
            name: "hal".to_owned(),
            workers: 12,
            at_a_time: None,
            jobs: 2,
            options: vec![
                ("time".to_owned(), "00:30:00".to_owned()),
                ("exclusive".to_owned(), String::new()),
            ],
        }
    }

    #[test]
    fn a_script_has_the_array_the_signal_and_the_options() {
        let script = slurm::Slurm.script(&job()).unwrap();
        for line in [
            "#SBATCH --array=1-12",
            "#SBATCH --cpus-per-task=2",
            "#SBATCH --exclusive",
            "#SBATCH --output=\"/shared/my sweeps/a/logs/%A_%a.log\"",
            "#SBATCH --requeue",
            "#SBATCH --signal=B:USR1@120",
            "#SBATCH --time=00:30:00",
            "/opt/hindsight worker '/shared/my sweeps/a' \"$SLURM_ARRAY_TASK_ID/12\" --jobs 2 &",
        ] {
            assert!(script.lines().any(|found| found == line), "{line}:\n{script}");
        }
        let mut job = job();
        job.options = vec![("signal".to_owned(), "30".to_owned())];
        job.at_a_time = Some(4);
        let script = slurm::Slurm.script(&job).unwrap();
        assert!(script.contains("--signal=B:USR1@30\n") && script.contains("--array=1-12%4\n"), "{script}");
        for (key, value) in [("array", "1-3"), ("cpus-per-task", "2"), ("signal", "B:TERM@1")] {
            job.options = vec![(key.to_owned(), value.to_owned())];
            assert!(slurm::Slurm.script(&job).is_err(), "{key}");
        }
    }

    #[test]
    fn commands_are_one_per_worker_for_any_shell() {
        let commands = commands::Commands.script(&job()).unwrap();
        let lines: Vec<&str> = commands.lines().collect();
        assert_eq!(lines.len(), 12);
        assert_eq!(lines[2], "/opt/hindsight worker '/shared/my sweeps/a' \"3/12\" --jobs 2");
        assert_eq!(quoted("it's"), "'it'\\''s'");
    }
}
