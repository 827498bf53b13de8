//! `hindsight run`: methods on a benchmark or custom stream, over seeds, in parallel.

use std::{
    collections::BTreeMap,
    fs,
    io::{Write, stdout},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
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
use hindsight_report::{cautions, plural, results_table, summary};

use super::{
    data::stream_summary,
    report::ReportWriter,
    resume_plan::{CHECKPOINTS, CheckpointArgs, ResumePlan},
    worker::WorkerRole,
};
use crate::{
    cluster::{LaunchArgs, Mode, Submission, Worked, Worker, left_to_jobs, planned},
    executor::Executor,
    experiment::{ExperimentArgs, MachineArgs, RunTarget},
    messages::{inform, printable, tell},
    run_folder::{RunFolder, cannot_write, finished},
    signals::{INTERRUPTED, on_interrupt},
};

/// Run methods on a benchmark or a custom stream, and compare them.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    experiment: ExperimentArgs,
    /// Folder of the records; runs that have a record there are not repeated [default: a new one under
    /// `runs`]
    #[arg(long, short, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write a page of the results to the folder `report` of the records, from the start and until the end
    #[arg(long)]
    report: bool,
    /// Print one JSON object per finished run instead of a table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    checkpoints: CheckpointArgs,
}

impl RunArgs {
    /// The same command, as one of the workers that execute it.
    pub(crate) fn of_worker(mut self, role: WorkerRole) -> RunArgs {
        self.out = Some(role.folder);
        self.experiment.machine = role.machine;
        self.experiment.launch.become_worker(role.share);
        self
    }
}

/// Runs `hindsight run`.
pub(crate) fn execute(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let RunArgs { experiment, out, report, json, checkpoints } = args;
    experiment.verbosity.apply();
    let file = experiment.config.as_deref().map_or(Ok(Vec::new()), Override::from_toml)?;
    let mut overrides = experiment.overrides(file)?;
    let target = experiment.target(&mut overrides)?;
    let data_dir = experiment.machine.data_dir();
    let plan = ResumePlan::new(&overrides, &target, &data_dir, checkpoints.clone())?;
    let verbose = experiment.verbosity.verbose;
    let show = Show { verbose, json: *json, report: *report };
    let (machine, launch) = (&experiment.machine, &experiment.launch);
    execute_plan(&plan, &target, &data_dir, out.as_deref(), machine, launch, &show)
}

/// What is shown of runs.
struct Show {
    verbose: bool,
    json: bool,
    report: bool,
}

/// Resumes the runs of a folder.
pub(super) fn resume(
    folder: &Path,
    machine: &MachineArgs,
    verbose: bool,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let mut plan = ResumePlan::read(folder)?;
    if machine.has_data_dir() {
        plan.move_data_dir(&machine.data_dir())?;
    }
    let show = Show { verbose, json, report: false };
    let (target, launch) = (plan.target()?, LaunchArgs::default());
    execute_plan(&plan, &target, &plan.data_dir(), Some(folder), machine, &launch, &show)
}

fn execute_plan(
    plan: &ResumePlan,
    target: &RunTarget,
    data_dir: &Path,
    out: Option<&Path>,
    machine: &MachineArgs,
    launch: &LaunchArgs,
    &Show { verbose, json, report }: &Show,
) -> anyhow::Result<ExitCode> {
    let experiment = Experiment::resolve(&plan.overrides()?, &target.benchmarks, METHODS)?;
    let runs = &experiment.runs();
    let source = target.load(runs, data_dir)?;
    let name = &experiment.benchmark.name;
    let folder = match out {
        Some(folder) => folder.to_owned(),
        None if launch.is_dry_run() => Path::new("runs").join(format!("0000-{name}")),
        None => RunFolder::create_numbered(Path::new("runs"), name)?,
    };
    let labels: Vec<String> =
        runs.iter().map(|run| format!("{} seed {}", run.method.name, run.seed)).collect();
    let mode = launch.mode(&folder);
    let mut worked = Worked::default();
    match mode {
        Mode::Execute | Mode::Results => {}
        Mode::Submit => {
            let done = finished(&folder, runs, &source)?;
            if !launch.is_dry_run() {
                fs::create_dir_all(&folder).with_context(|| cannot_write(&folder))?;
                plan.write(&folder)?;
            }
            let measured: Vec<Record> = done.values().cloned().collect();
            let show = launch.submit(Submission {
                root: &folder,
                name,
                data_dir,
                jobs: machine.worker_jobs(),
                runs: planned(runs, &labels, &measured, |index| done.contains_key(&index)),
                data: vec![source.checksum().to_owned()],
            })?;
            if !show {
                return Ok(ExitCode::SUCCESS);
            }
        }
        Mode::Worker(share) | Mode::TakePart(share) => {
            let every = plan.checkpoints.checkpoint_every;
            let worker = Worker {
                root: &folder,
                folder: &folder,
                runs,
                source: &source,
                share,
                jobs: machine.jobs(runs.len()),
                details: true,
                checkpoints: Checkpoints {
                    folder: folder.join(CHECKPOINTS),
                    every,
                    interval: Some(launch.checkpoint_interval()),
                    keep: plan.checkpoints.checkpoint_keep.into(),
                    stop: Worker::stop_flag()?,
                    models: (!plan.checkpoints.no_model).then(|| folder.join("models")),
                },
                keep: every > 0,
            };
            worked = worker.work()?;
            if let Mode::Worker(_) = mode {
                return Ok(ExitCode::from(worked.code()));
            }
        }
    }
    let mut run_folder = RunFolder::open(&folder)?;
    plan.write(&folder)?;
    let mut records = finished(&folder, runs, &source)?;
    let here = matches!(mode, Mode::Execute);
    let todo: Vec<usize> = (0..runs.len()).filter(|index| here && !records.contains_key(index)).collect();
    let jobs = machine.jobs(todo.len());
    if let Some(tasks) = source.custom_tasks() {
        inform(format_args!("{}: {}", experiment.benchmark.name, stream_summary(&source.dataset, tasks)));
    }
    if here {
        announce(&experiment, target, jobs, &folder, verbose)?;
    }
    if !records.is_empty() {
        let (known, all) = (records.len(), plural(runs.len(), "run"));
        inform(format_args!("note: {known} of {all} already finished in `{}`", folder.display()));
    }

    // JSON lines come in the order of the configuration, whichever run ends first.
    let mut shown = 0;
    let mut show = |records: &BTreeMap<usize, Record>| -> anyhow::Result<()> {
        while let Some(record) = records.get(&shown).filter(|_| json) {
            writeln!(stdout(), "{}", serde_json::to_string(record)?)?;
            shown += 1;
        }
        Ok(())
    };
    show(&records)?;
    let measured = records.values().cloned().collect();
    let checkpoints = Some(Checkpoints {
        folder: folder.join(CHECKPOINTS),
        every: plan.checkpoints.checkpoint_every,
        interval: None,
        keep: plan.checkpoints.checkpoint_keep.into(),
        stop: if here { on_interrupt(true)? } else { Arc::default() },
        models: (!plan.checkpoints.no_model).then(|| folder.join("models")),
    });
    let page = report.then(|| LivePage::start(&folder));
    let executor = Executor { runs, labels, todo, measured, source: &source, jobs, checkpoints };
    executor.execute(&mut run_folder, true, |progress, index, record| match record {
        Ok(record) => {
            records.insert(index, record);
            // The final table goes to standard output.
            if records.len() < runs.len() {
                let so_far: Vec<Record> = records.values().cloned().collect();
                progress.show_table(&results_table(&so_far));
            }
            show(&records)
        }
        Err(RunError::Stopped { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    })?;

    let records: Vec<Record> = records.into_values().collect();
    if let Some(page) = page {
        page.finish(records.is_empty())?;
    }
    if !json && !records.is_empty() {
        write!(stdout(), "{}", printable(&results_table(&records)))?;
        if let Some(sentence) = summary(&records) {
            writeln!(stdout(), "\n{}", printable(&sentence))?;
        }
        cautions(&records).iter().for_each(|caution| inform(format_args!("note: {caution}")));
    }
    if !here {
        left_to_jobs(&folder, records.len(), runs.len());
        return Ok(ExitCode::from(worked.code()));
    }
    if records.len() < runs.len() {
        let (done, all) = (records.len(), plural(runs.len(), "run"));
        tell(format_args!("stopped: {done} of {all} finished, checkpoints saved of the active ones"));
        tell(format_args!("hint: `hindsight resume {}` continues", folder.display()));
        return Ok(ExitCode::from(INTERRUPTED));
    }
    let diverged = records.iter().any(|record| record.status == Status::Diverged);
    Ok(if diverged { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// A report that a thread of its own writes while runs go on.
struct LivePage {
    writer: ReportWriter,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<()>>,
}

impl LivePage {
    fn start(folder: &Path) -> LivePage {
        let (writer, stop) = (ReportWriter::inside(folder), Arc::new(AtomicBool::new(false)));
        inform(format_args!("page: {}", writer.page().display()));
        let (watching, flag) = (writer.clone(), stop.clone());
        LivePage { writer, stop, thread: std::thread::spawn(move || watching.watch(&flag)) }
    }

    /// Ends it, and writes the finished page unless there is nothing to tell.
    fn finish(self, nothing: bool) -> anyhow::Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        if nothing { Ok(()) } else { self.writer.write_quietly() }
    }
}

/// Announces what will run, with which settings, and where the records go.
fn announce(
    experiment: &Experiment,
    target: &RunTarget,
    jobs: usize,
    folder: &Path,
    verbose: bool,
) -> anyhow::Result<()> {
    let mut settings: BTreeMap<String, Value> = BTreeMap::new();
    let mut methods: Vec<&str> = Vec::new();
    for chosen in &experiment.methods {
        settings.extend(experiment.run(chosen, experiment.seeds.start).effective());
        methods.push(chosen.method.name);
        if let Some(caution) = (chosen.method.caution)(&chosen.settings) {
            tell(format_args!("warning: {caution}"));
        }
        if let Some(caution) = target.caution(&chosen.method) {
            inform(format_args!("note: {}: {caution}", chosen.method.name));
        }
    }
    inform(format_args!(
        "{} ({}-incremental): {}, {}, {} at a time",
        experiment.benchmark.name,
        experiment.shared.text("scenario"),
        methods.join(", "),
        plural(experiment.seeds.clone().count(), "seed"),
        plural(jobs, "run")
    ));
    let defaults = defaults(experiment, &methods, target)?;
    for (key, value) in settings.iter().filter(|(key, value)| verbose || defaults.get(*key) != Some(value)) {
        inform(format_args!("  {key} = {value}"));
    }
    if !verbose {
        inform("other settings have their defaults (`--verbose` lists all)");
    }
    inform(format_args!("records: {}\n", folder.join(RECORDS).display()));
    Ok(())
}

/// The default settings of some methods on a benchmark.
fn defaults(
    experiment: &Experiment,
    methods: &[&str],
    target: &RunTarget,
) -> Result<BTreeMap<String, Value>, ConfigError> {
    let text = |key: &str, word: String| Override { key: key.to_owned(), value: Value::Text(word.into()) };
    let overrides =
        [text("benchmark", experiment.benchmark.name.to_string()), text("method", methods.join(","))];
    let defaults = Experiment::resolve(&overrides, &target.benchmarks, METHODS)?;
    Ok(defaults.runs().iter().flat_map(|run| run.effective()).collect())
}
