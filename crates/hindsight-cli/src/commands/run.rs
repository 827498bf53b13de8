//! `hindsight run`: methods on a benchmark, over seeds, in parallel.

use std::{
    collections::BTreeMap,
    error::Error,
    fmt,
    io::{Write, stdout},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::Context;
use clap::Args;
use hindsight::{
    Record,
    checkpoint::Checkpoints,
    config::{ConfigError, Experiment, Override},
    methods::METHODS,
    protocol::Status,
    record::RECORDS,
    run::RunError,
    settings::Value,
};
use hindsight_data::{atomic_file::AtomicFile, bounded_read::read_small};
use hindsight_report as report;
use serde::{Deserialize, Serialize};

use super::{
    data::summary,
    experiment::{ExperimentArgs, MachineArgs, RunTarget, Work},
    output::{Output, cannot_write, finished},
    plural,
};
use crate::tell;

/// Run methods on a benchmark and compare them.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    experiment: ExperimentArgs,
    /// Folder for the records; runs that have one there are not repeated [default: a new one under `runs`]
    #[arg(long, short, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one JSON object per finished run instead of a table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    saving: Saving,
}

/// How runs are saved on the way.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub(crate) struct Saving {
    /// Save every run after every so many batches; `hindsight resume` goes on from there [default: only on Ctrl-C]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    checkpoint_every: usize,
    /// How many checkpoints of a run are kept
    #[arg(long, value_name = "K", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..))]
    checkpoint_keep: u16,
}

/// Everything that a run was asked to do: what `hindsight resume` has to know.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    version: u32,
    /// `key=value`, later ones rank higher.
    settings: Vec<String>,
    /// The file of a stream of one's own, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stream: Option<PathBuf>,
    data_dir: PathBuf,
    #[serde(flatten)]
    saving: Saving,
}

/// The file that a plan is in.
pub(crate) const PLAN: &str = "resume.json";

const VERSION: u32 = 1;

impl Plan {
    fn overrides(&self) -> Result<Vec<Override>, ConfigError> {
        self.settings.iter().map(|text| Override::parse(text)).collect()
    }

    fn write(&self, folder: &Path) -> anyhow::Result<()> {
        let (path, text) = (folder.join(PLAN), serde_json::to_string_pretty(self)? + "\n");
        // One that is resumed stands there: a disk that is full is no reason to fail before a run does.
        if read_small(&path).is_ok_and(|known| known == text.as_bytes()) {
            return Ok(());
        }
        AtomicFile::write(&path, text).with_context(|| cannot_write(&path))
    }

    /// Reads the plan of a folder that `hindsight run` wrote to.
    pub(crate) fn read(folder: &Path) -> Result<Plan, NoPlan> {
        let no_plan = |reason: String| NoPlan { path: folder.join(PLAN), reason };
        let text = read_small(&folder.join(PLAN)).map_err(|error| no_plan(error.to_string()))?;
        let plan: Plan = serde_json::from_slice(&text).map_err(|error| no_plan(error.to_string()))?;
        match plan.version {
            VERSION => Ok(plan),
            found => Err(no_plan(format!("it has version {found}, expected {VERSION}"))),
        }
    }
}

/// Nothing to go on with.
#[derive(Debug)]
pub(crate) struct NoPlan {
    path: PathBuf,
    reason: String,
}

impl fmt::Display for NoPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot read `{}`: {}", self.path.display(), self.reason)
    }
}

impl Error for NoPlan {}

/// Runs `hindsight run`.
pub(crate) fn execute(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let RunArgs { experiment, out, json, saving } = args;
    let file = experiment.config.as_deref().map_or(Ok(Vec::new()), Override::from_toml)?;
    let mut overrides = experiment.overrides(file)?;
    let ground = experiment.ground(&mut overrides)?;
    let plan = Plan {
        version: VERSION,
        settings: overrides.iter().map(|o| format!("{}={}", o.key, o.value)).collect(),
        stream: ground.stream.as_ref().map(|stream| std::path::absolute(stream.path())).transpose()?,
        data_dir: std::path::absolute(experiment.machine.data_dir())?,
        saving: saving.clone(),
    };
    perform(&plan, &ground, &experiment.machine.data_dir(), out.as_deref(), &experiment.machine, *json)
}

/// Goes on with the runs of a folder.
pub(crate) fn resume(folder: &Path, machine: &MachineArgs, json: bool) -> anyhow::Result<ExitCode> {
    let mut plan = Plan::read(folder)?;
    if machine.moved() {
        plan.data_dir = std::path::absolute(machine.data_dir())?;
    }
    let ground = plan.stream.as_deref().map_or(Ok(RunTarget::TABLE), RunTarget::stream)?;
    perform(&plan, &ground, &plan.data_dir, Some(folder), machine, json)
}

fn perform(
    plan: &Plan,
    ground: &RunTarget,
    data_dir: &Path,
    out: Option<&Path>,
    machine: &MachineArgs,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let experiment = Experiment::resolve(&plan.overrides()?, &ground.benchmarks, METHODS)?;
    let runs = &experiment.runs();
    let source = ground.load(runs, data_dir)?;
    let folder = match out {
        Some(folder) => folder.to_owned(),
        None => Output::fresh(Path::new("runs"), &experiment.benchmark.name)?,
    };
    let mut output = Output::open(&folder)?;
    plan.write(&folder)?;
    let mut records = finished(&folder, runs, &source)?;
    let todo: Vec<usize> = (0..runs.len()).filter(|index| !records.contains_key(index)).collect();
    let jobs = machine.jobs(todo.len());
    if let Some(samples) = source.samples() {
        tell(format_args!("{}: {}", experiment.benchmark.name, summary(samples)));
    }
    announce(&experiment, ground, jobs, &folder);
    if !records.is_empty() {
        let (known, all) = (records.len(), plural(runs.len(), "run"));
        tell(format_args!("note: {known} of {all} done already, in `{}`", folder.display()));
    }

    // Standard output keeps the order of the configuration, whichever run was faster.
    let mut shown = 0;
    let mut show = |records: &BTreeMap<usize, Record>| -> anyhow::Result<()> {
        while let Some(record) = records.get(&shown).filter(|_| json) {
            writeln!(stdout(), "{}", serde_json::to_string(record)?)?;
            shown += 1;
        }
        Ok(())
    };
    show(&records)?;
    let labels = runs.iter().map(|run| format!("{} seed {}", run.method.name, run.seed)).collect();
    let measured = records.values().cloned().collect();
    let checkpoints = Some(Checkpoints {
        folder: folder.join("checkpoints"),
        every: plan.saving.checkpoint_every,
        keep: plan.saving.checkpoint_keep.into(),
        stop: on_interrupt()?,
    });
    let work = Work { runs, labels, todo, measured, source: &source, jobs, checkpoints };
    work.execute(&mut output, true, |progress, index, record| match record {
        Ok(record) => {
            records.insert(index, record);
            // The last table goes to standard output.
            if records.len() < runs.len() {
                let so_far: Vec<Record> = records.values().cloned().collect();
                progress.say(report::table(&so_far));
            }
            show(&records)
        }
        Err(RunError::Stopped { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    })?;

    let records: Vec<Record> = records.into_values().collect();
    if !json && !records.is_empty() {
        write!(stdout(), "{}", report::table(&records))?;
        if let Some(reading) = report::summary(&records) {
            writeln!(stdout(), "\n{reading}")?;
        }
    }
    if records.len() < runs.len() {
        let (done, all) = (records.len(), plural(runs.len(), "run"));
        tell(format_args!("stopped: {done} of {all} done, those under way are saved"));
        tell(format_args!("hint: go on with `hindsight resume {}`", folder.display()));
        return Ok(ExitCode::from(INTERRUPTED));
    }
    let diverged = records.iter().any(|record| record.status == Status::Diverged);
    Ok(if diverged { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// What shells expect of a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

/// Becomes true at the first Ctrl-C (or request to terminate); the second ends the program at once.
fn on_interrupt() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED.into());
        }
        tell("saving; once more to stop at once");
    })?;
    Ok(stop)
}

/// Says what will run, with which settings, and where the records go.
fn announce(experiment: &Experiment, ground: &RunTarget, jobs: usize, folder: &Path) {
    let mut settings: BTreeMap<String, Value> = BTreeMap::new();
    let mut methods: Vec<&str> = Vec::new();
    for chosen in &experiment.methods {
        settings.extend(experiment.run(chosen, experiment.seeds.start).effective());
        methods.push(chosen.method.name);
        if let Some(caution) = (chosen.method.caution)(&chosen.settings) {
            tell(format_args!("warning: {caution}"));
        }
        if let Some(caution) = ground.caution(&chosen.method) {
            tell(format_args!("note: {}: {caution}", chosen.method.name));
        }
    }
    tell(format_args!(
        "{}: {}, {}, {} at a time",
        experiment.benchmark.name,
        methods.join(", "),
        plural(experiment.seeds.clone().count(), "seed"),
        plural(jobs, "run")
    ));
    for (key, value) in settings {
        tell(format_args!("  {key} = {value}"));
    }
    tell(format_args!("records: {}\n", folder.join(RECORDS).display()));
}
