//! `hindsight run`: methods on a benchmark or custom stream, over seeds, in parallel.

use std::{
    collections::BTreeMap,
    io::{Write, stdout},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

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
use hindsight_report::{plural, results_table, summary};

use super::{
    data::stream_summary,
    report::ReportWriter,
    resume_plan::{CheckpointArgs, ResumePlan},
};
use crate::{
    executor::Executor,
    experiment::{ExperimentArgs, MachineArgs, RunTarget},
    messages::{inform, printable, tell},
    run_folder::{RunFolder, finished},
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
    execute_plan(&plan, &target, &data_dir, out.as_deref(), &experiment.machine, &show)
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
    execute_plan(&plan, &plan.target()?, &plan.data_dir(), Some(folder), machine, &show)
}

fn execute_plan(
    plan: &ResumePlan,
    target: &RunTarget,
    data_dir: &Path,
    out: Option<&Path>,
    machine: &MachineArgs,
    &Show { verbose, json, report }: &Show,
) -> anyhow::Result<ExitCode> {
    let experiment = Experiment::resolve(&plan.overrides()?, &target.benchmarks, METHODS)?;
    let runs = &experiment.runs();
    let source = target.load(runs, data_dir)?;
    let folder = match out {
        Some(folder) => folder.to_owned(),
        None => RunFolder::create_numbered(Path::new("runs"), &experiment.benchmark.name)?,
    };
    let mut run_folder = RunFolder::open(&folder)?;
    plan.write(&folder)?;
    let mut records = finished(&folder, runs, &source)?;
    let todo: Vec<usize> = (0..runs.len()).filter(|index| !records.contains_key(index)).collect();
    let jobs = machine.jobs(todo.len());
    if let Some(samples) = source.samples() {
        inform(format_args!("{}: {}", experiment.benchmark.name, stream_summary(samples)));
    }
    announce(&experiment, target, jobs, &folder, verbose)?;
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
    let labels = runs.iter().map(|run| format!("{} seed {}", run.method.name, run.seed)).collect();
    let measured = records.values().cloned().collect();
    let checkpoints = Some(Checkpoints {
        folder: folder.join("checkpoints"),
        every: plan.checkpoints.checkpoint_every,
        keep: plan.checkpoints.checkpoint_keep.into(),
        stop: on_interrupt()?,
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

/// The exit code of a program that Ctrl-C ended, as shells expect it.
const INTERRUPTED: u8 = 130;

/// A flag that the first SIGINT, SIGTERM or SIGHUP sets; the second ends the program at once.
fn on_interrupt() -> anyhow::Result<Arc<AtomicBool>> {
    keep_ignored_hangup();
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED.into());
        }
        tell("saving checkpoints; press Ctrl-C again to stop at once");
    })?;
    Ok(stop)
}

/// Leaves SIGHUP ignored where `nohup` has set it so: the handler of `ctrlc` would replace that. A blocked
/// signal is never delivered, and threads that start later inherit the mask.
fn keep_ignored_hangup() {
    #[cfg(target_os = "linux")]
    {
        use nix::sys::signal::{SigSet, Signal::SIGHUP};
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
        if ignored >> (SIGHUP as u32 - 1) & 1 == 1 {
            let mut hangup = SigSet::empty();
            hangup.add(SIGHUP);
            // If this fails a hang-up stops the run, which is saved first.
            let _ = hangup.thread_block();
        }
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
