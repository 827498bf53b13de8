//! `hindsight reproduce`: reproduces the paper's tables and figures and compares the numbers.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    io::{Write, stdout},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use clap::Args;
use hindsight::{
    Record,
    checkpoint::Checkpoints,
    config::RunConfig,
    protocol::Status,
    record::Machine,
    run::RunError,
    run_folder::{self, RecordError, Records},
    stream::Source,
};
use hindsight_report::{
    Chapter, Reference, Report, Spread, Verdict, html, plural,
    reproduce::{Entry, Measure, Reproduction, Request},
};

use indicatif::HumanDuration;

use super::worker::WorkerRole;
use crate::{
    cluster::{LaunchArgs, Mode, Share, Submission, Worked, Worker, left_to_jobs, planned},
    estimate::estimate,
    executor::Executor,
    experiment::{MachineArgs, RunTarget, parse_setting},
    messages::{inform, printable, set_quiet, tell},
    run_folder::{RunFolder, cannot_write, finished, finished_on_any_data},
};

/// Reproduce the paper's tables and figures, and compare with its numbers.
#[derive(Debug, Args)]
#[command(after_help = "\
Tables and figures:
  t1  all methods, one slot per class per task
  t2  HAL against ER-Ring with twice the memory
  t3  anchors from all future tasks (oracle)
  t4  real samples as anchors
  t5  accuracy with 3 and 5 slots
  t6  forgetting with 3 and 5 slots
  t7  sensitivity of HAL to lambda, gamma and beta
  f1  accuracy against the size of the memory
  f2  data and anchors in image and feature space
  f3  accuracy as tasks are learned
  f4  training time

A run that several tables need is executed once. Records are written as runs end, and the same command continues \
where it stopped. The folder then has every table as Markdown, CSV and LaTeX, every figure as SVG and PNG, and a \
page, `index.html`. Each number stands beside the paper's, with the difference and a verdict.

Examples:
  hindsight reproduce t1 t2 --benchmark permuted-mnist
  hindsight reproduce all --quick                       a first look: 5 tasks, 2 seeds
  hindsight reproduce t1 --method er-ring,hal --seeds 10
  hindsight reproduce all --no-runs                     what the records give so far
  hindsight reproduce all --on slurm --slurm time=12:00:00        as a job array")]
pub(crate) struct ReproduceArgs {
    /// Tables and figures: `t1` to `t7`, `f1` to `f4`, or `all`
    #[arg(value_name = "NAME", required = true, value_delimiter = ',')]
    names: Vec<String>,
    /// Only these benchmarks, comma-separated [default: those of the paper whose data is present]
    #[arg(long, short, value_name = "NAME,…", value_delimiter = ',')]
    benchmark: Vec<String>,
    /// Only these methods, comma-separated [default: all of each table]
    #[arg(long, short, value_name = "NAME,…", value_delimiter = ',')]
    method: Vec<String>,
    /// Number of seeds, from 0 [default: 5, as in the paper]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    seeds: Option<String>,
    /// 5 tasks and 2 seeds: to see that it works, not to compare numbers
    #[arg(long)]
    quick: bool,
    /// A setting of all runs, with precedence over those of the tables: `samples=1250`
    #[arg(long, short, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Folder of records, tables and figures; runs that have a record there are not repeated
    #[arg(long, short, value_name = "DIR", default_value = "reproduction")]
    out: PathBuf,
    /// Execute nothing: tables and figures of the records that are there; needs no data
    #[arg(long, conflicts_with_all = ["on", "dry_run"])]
    no_runs: bool,
    #[command(flatten)]
    machine: MachineArgs,
    #[command(flatten)]
    launch: LaunchArgs,
    /// Write only errors and warnings to standard error
    #[arg(long, short)]
    quiet: bool,
}

impl ReproduceArgs {
    /// The same command, as one of the workers that execute it.
    pub(crate) fn of_worker(mut self, role: WorkerRole) -> ReproduceArgs {
        self.out = role.folder;
        self.machine = role.machine;
        self.launch.become_worker(role.share);
        self
    }

    fn request(&self) -> anyhow::Result<Request> {
        let seeds = self.seeds.as_ref().map(|count| parse_setting(&format!("seeds={count}"))).transpose()?;
        Ok(Request {
            items: self.names.clone(),
            benchmarks: self.benchmark.clone(),
            methods: self.method.clone(),
            seeds: seeds.map(|seeds| seeds.value),
            quick: self.quick,
            overrides: self.set.iter().map(|text| parse_setting(text)).collect::<Result<_, _>>()?,
        })
    }

    /// The folder of the records on a data set.
    fn folder(&self, dataset: &str) -> PathBuf {
        self.out.join("runs").join(dataset)
    }
}

/// The runs on one data set, and the folder of their records.
struct DatasetRuns<'r> {
    dataset: &'r str,
    /// Indices into [`Reproduction::runs`].
    indices: Vec<usize>,
    runs: Vec<RunConfig>,
    source: Arc<Source>,
}

/// What is left to do on a data set.
struct Pending<'r> {
    part: DatasetRuns<'r>,
    folder: RunFolder,
    finished: BTreeMap<usize, Record>,
    todo: Vec<usize>,
    jobs: usize,
}

/// Runs `hindsight reproduce`.
pub(crate) fn execute(args: &ReproduceArgs) -> anyhow::Result<ExitCode> {
    set_quiet(args.quiet);
    let reproduction = Reproduction::resolve(&args.request()?)?;
    if args.no_runs {
        announce(args, &reproduction);
        fs::create_dir_all(&args.out).with_context(|| cannot_write(&args.out))?;
        let records = records_there(args, &reproduction)?;
        write_results(args, &reproduction, &records)?;
        return show(args, &reproduction, &records, 0);
    }
    let parts = load_datasets(args, &reproduction)?;
    let mode = args.launch.mode(&args.out);
    if !args.launch.is_dry_run() {
        fs::create_dir_all(&args.out).with_context(|| cannot_write(&args.out))?;
    }
    let mut worked = Worked::default();
    match mode {
        Mode::Execute | Mode::Results => announce(args, &reproduction),
        Mode::Submit => {
            announce(args, &reproduction);
            if !submit(args, &reproduction, &parts)? {
                return Ok(ExitCode::SUCCESS);
            }
        }
        Mode::Worker(share) | Mode::TakePart(share) => {
            worked = work(args, &parts, share)?;
            if let Mode::Worker(_) = mode {
                return Ok(ExitCode::from(worked.code()));
            }
        }
    }
    let here = matches!(mode, Mode::Execute);
    let pending = find_pending(args, parts, here)?;
    let mut records: BTreeMap<usize, Record> = BTreeMap::new();
    let mut failed = worked.failed;
    for pending in pending {
        failed += execute_pending(&reproduction, pending, &mut records)?;
        // Other data sets may take days; these results can be read meanwhile.
        write_results(args, &reproduction, &records)?;
    }
    let code = show(args, &reproduction, &records, failed)?;
    if !here {
        left_to_jobs(&args.out, records.len(), reproduction.runs.len());
    }
    Ok(code)
}

/// The records that are there, whether or not the data they were made from is.
fn records_there(
    args: &ReproduceArgs,
    reproduction: &Reproduction,
) -> anyhow::Result<BTreeMap<usize, Record>> {
    let mut records = BTreeMap::new();
    for (dataset, indices, runs) in by_dataset(reproduction) {
        let found = finished_on_any_data(&args.folder(dataset), &runs)?;
        records.extend(found.into_iter().map(|(index, record)| (indices[index], record)));
    }
    Ok(records)
}

/// Prints the tables and how close they come.
fn show(
    args: &ReproduceArgs,
    reproduction: &Reproduction,
    records: &BTreeMap<usize, Record>,
    failed: usize,
) -> anyhow::Result<ExitCode> {
    let mut out = stdout();
    for item in &reproduction.items {
        writeln!(out, "{}: {}\n", item.name, item.title)?;
        for table in reproduction.tables(item, records) {
            writeln!(out, "{}\n{}", table.title, printable(&table.text()))?;
        }
        reproduction.notes(item).iter().try_for_each(|note| writeln!(out, "{note}"))?;
        writeln!(out)?;
    }
    reproduction.summary(records).iter().try_for_each(|line| writeln!(out, "{line}"))?;
    writeln!(out, "{}", args.out.join("index.html").display())?;
    let diverged = records.values().any(|record| record.status == Status::Diverged);
    Ok(if diverged || failed > 0 { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// Finds which runs are missing, and prints how many there are and how long they will take.
fn find_pending<'r>(
    args: &ReproduceArgs,
    parts: Vec<DatasetRuns<'r>>,
    here: bool,
) -> anyhow::Result<Vec<Pending<'r>>> {
    let mut all = Vec::new();
    let mut total = Some(Duration::ZERO);
    for part in parts {
        let path = args.folder(part.dataset);
        let folder = RunFolder::open(&path)?;
        let finished = finished(&path, &part.runs, &part.source)?;
        let is_todo = |index: &usize| here && !finished.contains_key(index);
        let todo: Vec<usize> = (0..part.runs.len()).filter(is_todo).collect();
        let jobs = args.machine.jobs(todo.len());
        let here_too = |record: &&Record| record.machine == Some(Machine::current());
        let measured: Vec<Record> = finished.values().filter(here_too).cloned().collect();
        let time = estimate(&part.runs, &todo, &measured, &part.source, jobs);
        total = total.zip(time).map(|(total, time)| total + time);
        let about = match time {
            Some(time) if !todo.is_empty() => format!(", about {} on this machine", HumanDuration(time)),
            _ => String::new(),
        };
        let runs = plural(part.runs.len(), "run");
        let tell = |line: fmt::Arguments<'_>| {
            if here {
                inform(line)
            }
        };
        tell(format_args!("{}: {} of {runs} to do, {jobs} at a time{about}", part.dataset, todo.len()));
        all.push(Pending { part, folder, finished, todo, jobs });
    }
    if let (Some(total), true, true) = (total, all.len() > 1, here) {
        inform(format_args!("about {} in all", HumanDuration(total)));
    }
    Ok(all)
}

/// Submits the runs that are missing. Returns whether to show results.
fn submit(
    args: &ReproduceArgs,
    reproduction: &Reproduction,
    parts: &[DatasetRuns<'_>],
) -> anyhow::Result<bool> {
    let labels = labels(reproduction);
    let (mut runs, mut names) = (Vec::new(), Vec::new());
    for part in parts {
        let done = finished(&args.folder(part.dataset), &part.runs, &part.source)?;
        let labels: Vec<String> = part.indices.iter().map(|&index| labels[index].clone()).collect();
        let measured: Vec<Record> = done.values().cloned().collect();
        runs.extend(planned(&part.runs, &labels, &measured, |index| done.contains_key(&index)));
    }
    names.extend(reproduction.items.iter().map(|item| item.name));
    args.launch.submit(Submission {
        root: &args.out,
        name: &names.join("-"),
        data_dir: &args.machine.data_dir(),
        jobs: args.machine.worker_jobs(),
        runs,
        data: parts.iter().map(|part| part.source.checksum().to_owned()).collect(),
    })
}

/// Executes runs as one of several workers, one data set after the other.
fn work(args: &ReproduceArgs, parts: &[DatasetRuns<'_>], share: Share) -> anyhow::Result<Worked> {
    let stop = Worker::stop_flag()?;
    let mut worked = Worked::default();
    for part in parts {
        let folder = args.folder(part.dataset);
        let checkpoints = Checkpoints {
            folder: folder.join("checkpoints"),
            every: 0,
            interval: Some(args.launch.checkpoint_interval()),
            keep: 1,
            stop: stop.clone(),
            models: None,
        };
        let (root, folder, runs, source) = (&*args.out, &*folder, &*part.runs, &part.source);
        let jobs = args.machine.jobs(runs.len());
        let worker =
            Worker { root, folder, runs, source, share, jobs, details: true, checkpoints, keep: false };
        worked.add(worker.work()?);
    }
    Ok(worked)
}

/// The data sets, each with the indices of its runs and the runs.
fn by_dataset(reproduction: &Reproduction) -> Vec<(&str, Vec<usize>, Vec<RunConfig>)> {
    let mut datasets: Vec<(&str, Vec<usize>, Vec<RunConfig>)> = Vec::new();
    for (index, run) in reproduction.runs.iter().enumerate() {
        let name = &*run.benchmark.dataset;
        let known = datasets.iter().position(|(dataset, ..)| *dataset == name);
        let place = known.unwrap_or_else(|| {
            datasets.push((name, Vec::new(), Vec::new()));
            datasets.len() - 1
        });
        datasets[place].1.push(index);
        datasets[place].2.push(run.clone());
    }
    datasets
}

/// Loads the data sets that are present, so that errors are reported before the first run starts.
fn load_datasets<'r>(
    args: &ReproduceArgs,
    reproduction: &'r Reproduction,
) -> anyhow::Result<Vec<DatasetRuns<'r>>> {
    let (mut parts, mut absent) = (Vec::new(), Vec::new());
    for (dataset, indices, runs) in by_dataset(reproduction) {
        match RunTarget::BUILT_IN.load(&runs, &args.machine.data_dir()) {
            Ok(source) => parts.push(DatasetRuns { dataset, indices, runs, source }),
            // A benchmark that is asked for by name must be present.
            Err(error) if args.benchmark.is_empty() && is_absent(&error) => absent.push(error),
            Err(error) => return Err(error),
        }
    }
    if parts.is_empty() {
        return Err(absent.swap_remove(0));
    }
    for error in &absent {
        inform(format_args!("note: {error}; benchmarks on it are skipped"));
    }
    Ok(parts)
}

fn is_absent(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(RunError::Data(error)) if error.absent())
}

/// Announces what will run, and where the results go.
fn announce(args: &ReproduceArgs, reproduction: &Reproduction) {
    let names: Vec<&str> = reproduction.items.iter().map(|item| item.name).collect();
    let benchmarks: BTreeSet<&str> = reproduction.runs.iter().map(|run| &*run.benchmark.name).collect();
    let benchmarks: Vec<&str> = benchmarks.into_iter().collect();
    let runs = plural(reproduction.runs.len(), "different run");
    inform(format_args!(
        "{} on {}: {runs}, results in `{}`",
        names.join(", "),
        benchmarks.join(", "),
        args.out.display()
    ));
    for name in &reproduction.absent_benchmarks {
        inform(format_args!("note: {} has no results on {name}", names.join(", ")));
    }
    if let Some(why) = reproduction.not_comparable {
        tell(format_args!("warning: {why}: these numbers are not comparable with published ones"));
    }
}

/// Executes the missing runs on one data set. Returns how many failed.
fn execute_pending(
    reproduction: &Reproduction,
    pending: Pending<'_>,
    records: &mut BTreeMap<usize, Record>,
) -> anyhow::Result<usize> {
    let Pending { part, mut folder, finished, todo, jobs } = pending;
    let DatasetRuns { indices, runs, source, .. } = part;
    let entries = reproduction.entries();
    let labels = labels(reproduction);
    let labels: Vec<String> = indices.iter().map(|&index| labels[index].clone()).collect();
    let measured = finished.values().cloned().collect();
    records.extend(finished.into_iter().map(|(index, record)| (indices[index], record)));
    let mut failed = 0;
    let executor = Executor {
        runs: &runs,
        labels: labels.clone(),
        todo,
        measured,
        source: &source,
        jobs,
        checkpoints: None,
    };
    executor.execute(&mut folder, true, |progress, index, record| {
        match record {
            Ok(record) => drop(records.insert(indices[index], record)),
            Err(error) => {
                progress.warn(format_args!("{} failed: {error}", labels[index]));
                failed += 1;
            }
        }
        for entry in entries.iter().filter(|entry| entry.runs.contains(&indices[index])) {
            if let Some(line) = result(reproduction, entry, records) {
                progress.say(line);
            }
        }
        Ok(())
    })?;
    Ok(failed)
}

/// One per run.
fn labels(reproduction: &Reproduction) -> Vec<String> {
    let mut labels = vec![String::new(); reproduction.runs.len()];
    for entry in reproduction.entries() {
        for &index in &entry.runs {
            let seed = reproduction.runs[index].seed;
            labels[index] = format!("{} {} seed {seed}", entry.benchmark.name, entry.label);
        }
    }
    labels
}

/// The result of an entry, once all of its runs have ended.
fn result(reproduction: &Reproduction, entry: &Entry, records: &BTreeMap<usize, Record>) -> Option<String> {
    let found = reproduction.compare(entry, Measure::Accuracy, records);
    if found.ended < found.planned {
        return None;
    }
    let ours = found.ours.map_or("-".to_owned(), |ours| format!("{:.1} %", ours.mean));
    let diverged = if found.diverged > 0 { format!(", {} diverged", found.diverged) } else { String::new() };
    let published = |name: &str, number: Option<Spread>, verdict: Verdict| {
        number.map_or(String::new(), |number| format!(", {name} {:.1} %: {verdict}", number.mean))
    };
    let paper = published("paper", found.paper, found.verdict);
    let program = published("authors' program", found.program, found.program_verdict);
    Some(format!("{} {}: {ours}{diverged}{paper}{program}", entry.benchmark.name, entry.label))
}

/// Writes tables, figures and the page.
fn write_results(
    args: &ReproduceArgs,
    reproduction: &Reproduction,
    records: &BTreeMap<usize, Record>,
) -> anyhow::Result<()> {
    let snapshots = match run_folder::read(&[args.out.join("runs")]) {
        Ok(found) => found.snapshots,
        // No record yet: all runs may have failed.
        Err(RecordError::NoFile { .. } | RecordError::Nothing { .. }) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let found = Records::with_snapshots(records.values().cloned().collect(), &snapshots);
    let mut report = Report::new("Hindsight Anchor Learning, reproduced", &found, &Reference::all());
    for item in &reproduction.items {
        let chapter = reproduction.chapter(item, records, &found.snapshots);
        let file = |end: &str| args.out.join(format!("{}.{end}", item.name));
        write_file(&file("md"), markdown(&chapter).as_bytes())?;
        if !chapter.tables.is_empty() {
            write_file(&file("csv"), reproduction.combined_table(item, records).csv().as_bytes())?;
            write_file(&file("tex"), latex(&chapter).as_bytes())?;
        }
        for figure in &chapter.figures {
            let file = |end: &str| args.out.join(format!("{}.{end}", figure.name));
            write_file(&file("svg"), figure.svg().as_bytes())?;
            write_file(&file("png"), &figure.png())?;
        }
        report.chapters.push(chapter);
    }
    write_file(&args.out.join("index.html"), html(&report).as_bytes())
}

fn markdown(chapter: &Chapter) -> String {
    let mut text = format!("# {}: {}\n", chapter.name, chapter.title);
    for table in &chapter.tables {
        text += &format!("\n## {}\n\n{}", table.title, table.markdown());
    }
    for figure in &chapter.figures {
        text += &format!("\n![{}]({}.svg)\n\n{}\n", figure.title, figure.name, figure.caption);
    }
    chapter.notes.iter().fold(text, |text, note| format!("{text}\n{note}\n"))
}

fn latex(chapter: &Chapter) -> String {
    let mut text = format!("% {}: {}\n", chapter.name, chapter.title);
    for table in &chapter.tables {
        text += &format!("\n% {}\n{}", table.title, table.latex());
    }
    chapter.notes.iter().fold(text, |text, note| format!("{text}% {note}\n"))
}

fn write_file(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    fs::write(path, bytes).with_context(|| cannot_write(path))
}
