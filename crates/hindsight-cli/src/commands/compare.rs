//! `hindsight compare`: methods within one budget of bytes, of updates or of training time.

use std::{
    collections::BTreeMap,
    io::{Write, stdout},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use clap::Args;
use hindsight::{
    Record, Stream, budget,
    checkpoint::Checkpoints,
    config::{ConfigError, Experiment, Override, RunConfig},
    methods::{METHODS, UPDATES},
    protocol::Status,
    run::{self, RunError},
    settings::Value,
    stream::Source,
};
use hindsight_report::{plural, results_table, summary};

use super::worker::WorkerRole;
use crate::{
    cluster::{Mode, Submission, Worker, left_to_jobs, planned},
    executor::Executor,
    experiment::{ExperimentArgs, RunTarget},
    messages::{inform, printable, tell},
    run_folder::{RunFolder, finished},
};

/// Compare methods within one budget of bytes, of updates or of training time.
#[derive(Debug, Args)]
#[command(after_help = "\
Each method gets the most memory slots with which all that it holds beyond its parameters stays within the bytes: \
samples, anchors, stored logits, copies of parameters. A method that needs more with a single slot is left out, which \
is said. Methods with replay can take several updates per batch of the stream: as many as `--updates` says, or as \
`--seconds` leaves room for. Records are as those of `hindsight run`, and `hindsight report` draws accuracy against \
bytes and against time.

Examples:
  hindsight compare -m er-ring,hal,der++ -b permuted-mnist --bytes 1000000 --seeds 5
  hindsight compare -m er-ring,der++ --bytes 300000 -s memory_precision=u8 --seconds 5")]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    experiment: ExperimentArgs,
    /// Most bytes that a learner may hold beyond its parameters
    #[arg(long, value_name = "N")]
    bytes: Option<u64>,
    /// Updates per batch of the stream, for methods that can take several
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    updates: Option<u16>,
    /// Seconds of training that a run may take: methods that can take several updates per batch take as many
    /// as fit
    #[arg(long, value_name = "S", conflicts_with_all = ["updates", "on"], value_parser = positive)]
    seconds: Option<f64>,
    /// Folder of the records; runs that have one there are not repeated [default: a new one under `runs`]
    #[arg(long, short, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl CompareArgs {
    /// The same command, as one of the workers that execute it.
    pub(crate) fn of_worker(mut self, role: WorkerRole) -> CompareArgs {
        self.out = Some(role.folder);
        self.experiment.machine = role.machine;
        self.experiment.launch.become_worker(role.share);
        self
    }
}

fn positive(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|seconds: &f64| seconds.is_finite() && *seconds > 0.0)
        .ok_or_else(|| format!("`{text}` is not a number of seconds above zero"))
}

/// Runs `hindsight compare`.
pub(crate) fn execute(args: &CompareArgs) -> anyhow::Result<ExitCode> {
    args.experiment.verbosity.apply();
    let file = args.experiment.config.as_deref().map_or(Ok(Vec::new()), Override::from_toml)?;
    let mut overrides = args.experiment.overrides(file)?;
    let target = args.experiment.target(&mut overrides)?;
    let experiment = Experiment::resolve(&overrides, &target.benchmarks, METHODS)?;
    let source = target.load(&experiment.runs(), &args.experiment.machine.data_dir())?;
    let runs = plan(args, &overrides, &target, &experiment, &source)?;
    let (machine, launch, name) =
        (&args.experiment.machine, &args.experiment.launch, &experiment.benchmark.name);
    let folder = match &args.out {
        Some(folder) => folder.clone(),
        None if launch.is_dry_run() => Path::new("runs").join(format!("0000-{name}")),
        None => RunFolder::create_numbered(Path::new("runs"), name)?,
    };
    let labels: Vec<String> =
        runs.iter().map(|run| format!("{} seed {}", run.method.name, run.seed)).collect();
    let mode = launch.mode(&folder);
    match mode {
        Mode::Execute | Mode::Results => {}
        Mode::Submit => {
            let done = finished(&folder, &runs, &source)?;
            let measured: Vec<Record> = done.values().cloned().collect();
            let show = launch.submit(Submission {
                root: &folder,
                name,
                data_dir: &machine.data_dir(),
                jobs: machine.worker_jobs(),
                runs: planned(&runs, &labels, &measured, |index| done.contains_key(&index)),
                data: vec![source.checksum().to_owned()],
            })?;
            if !show {
                return Ok(ExitCode::SUCCESS);
            }
        }
        Mode::Worker(share) | Mode::TakePart(share) => {
            let checkpoints = Checkpoints {
                folder: folder.join("checkpoints"),
                every: 0,
                interval: Some(launch.checkpoint_interval()),
                keep: 1,
                stop: Worker::stop_flag()?,
                models: None,
            };
            let (root, folder, runs, source) = (&*folder, &*folder, &*runs, &source);
            let jobs = machine.jobs(runs.len());
            let worker =
                Worker { root, folder, runs, source, share, jobs, details: false, checkpoints, keep: false };
            let worked = worker.work()?;
            if let Mode::Worker(_) = mode {
                return Ok(ExitCode::from(worked.code()));
            }
        }
    }
    let here = matches!(mode, Mode::Execute);
    let mut run_folder = RunFolder::open(&folder)?;
    let mut records: BTreeMap<usize, Record> = finished(&folder, &runs, &source)?;
    let todo: Vec<usize> = (0..runs.len()).filter(|index| here && !records.contains_key(index)).collect();
    let jobs = args.experiment.machine.jobs(todo.len());
    inform(format_args!("{} of {} to do, {jobs} at a time", todo.len(), plural(runs.len(), "run")));
    let measured = records.values().cloned().collect();
    let executor = Executor { runs: &runs, labels, todo, measured, source: &source, jobs, checkpoints: None };
    executor.execute(&mut run_folder, false, |_, index, record| match record {
        Ok(record) => {
            records.insert(index, record);
            Ok(())
        }
        Err(RunError::Stopped { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    })?;
    if !here {
        left_to_jobs(&folder, records.len(), runs.len());
    }
    let records: Vec<Record> = records.into_values().collect();
    write!(stdout(), "{}", printable(&results_table(&records)))?;
    if let Some(sentence) = summary(&records) {
        writeln!(stdout(), "\n{}", printable(&sentence))?;
    }
    inform(format_args!("\nrecords: {0}\nhint: `hindsight report {0}` draws them", folder.display()));
    let diverged = records.iter().any(|record| record.status == Status::Diverged);
    Ok(if diverged { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// The runs of each method that fits, with its slots and updates, which are announced.
fn plan(
    args: &CompareArgs,
    overrides: &[Override],
    target: &RunTarget,
    experiment: &Experiment,
    source: &Arc<Source>,
) -> anyhow::Result<Vec<RunConfig>> {
    let (mut all, mut left_out) = (Vec::new(), Vec::new());
    for chosen in &experiment.methods {
        let run = experiment.run(chosen, experiment.seeds.start);
        let name = run.method.name;
        let stream = run::stream(&run, source)?;
        let mut own = overrides.to_vec();
        let mut set = |key: &str, value: Value| own.push(Override { key: key.to_owned(), value });
        set("method", Value::Text(name.into()));
        let mut words = Vec::new();
        if let Some(most) = args.bytes {
            match budget::slots_within(&run, &stream, most) {
                Ok(slots) => set("slots", Value::Int(slots as i64)),
                Err(least) => {
                    left_out.push((least, name));
                    continue;
                }
            }
        }
        if run.method.keys.iter().any(|key| key.name == UPDATES.name) {
            let updates = match (args.updates, args.seconds) {
                (Some(updates), _) => Some(i64::from(updates)),
                (None, Some(seconds)) => Some(updates_within(&run, source, seconds)?),
                (None, None) => None,
            };
            if let Some(updates) = updates {
                set(&format!("{name}.{}", UPDATES.name), Value::Int(updates));
                words.push(plural(updates as usize, "update") + " per batch");
            }
        }
        let fitted = Experiment::resolve(&own, &target.benchmarks, METHODS)?;
        words.insert(0, describe(&fitted.first_run(), &stream));
        inform(format_args!("  {name}: {}", words.join(", ")));
        all.extend(fitted.runs());
    }
    if let (true, Some((least, name))) = (all.is_empty(), left_out.iter().min()) {
        let (key, found) = ("bytes".to_owned(), args.bytes.unwrap_or(0).to_string());
        let expected = format!("at least {least}, what {name} holds with one slot");
        return Err(ConfigError::Value { key, found, expected }.into());
    }
    for (least, name) in left_out {
        tell(format_args!("note: {name} is left out: it holds {least} bytes with one slot"));
    }
    Ok(all)
}

fn describe(run: &RunConfig, stream: &Stream) -> String {
    let slots = plural(run.shared.int("slots"), "slot");
    format!("{} bytes with {slots} per class per task", budget::bytes(run, stream))
}

/// The updates per batch that a run has time for, from a trial on its first tasks.
fn updates_within(config: &RunConfig, source: &Arc<Source>, seconds: f64) -> anyhow::Result<i64> {
    const TRIAL_TASKS: i64 = 3;
    const MOST: f64 = 1000.0;
    let tasks = config.shared.int("tasks") as i64;
    let text =
        |key: &str, word: &str| Override { key: key.to_owned(), value: Value::Text(word.to_owned().into()) };
    let trial: Vec<Override> = config
        .effective()
        .into_iter()
        .map(|(key, value)| Override { key, value })
        .chain([text("benchmark", &config.benchmark.name), text("method", config.method.name)])
        .chain([text("evaluate", "final")])
        .chain([Override { key: "tasks".to_owned(), value: Value::Int(TRIAL_TASKS.min(tasks.max(1))) }])
        .collect();
    let benchmarks = [(*config.benchmark).clone()];
    let trial = Experiment::resolve(&trial, &benchmarks, METHODS)?.first_run();
    let record = run::run(&trial, source, &mut |_| {})?;
    let (samples, stream) = (record.samples.unwrap_or(0).max(1), run::stream(config, source)?);
    let whole = record.train_seconds / samples as f64 * (stream.len() * stream.samples_per_task()) as f64;
    Ok((seconds / whole).floor().clamp(1.0, MOST) as i64)
}
