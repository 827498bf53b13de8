//! `hindsight run`: methods on a benchmark, over seeds, in parallel.

use std::{
    collections::BTreeMap,
    fmt,
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write, stdout},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context;
use clap::Args;
use hindsight::{
    Record,
    benchmarks::BENCHMARKS,
    config::{Experiment, Override},
    data::data_dir,
    methods::METHODS,
    protocol::Status,
    record::RECORDS,
    report,
    run::{Report, load, run_all, stream},
    settings::Value,
    snapshot::{SNAPSHOTS, Snapshot},
};
use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};

use crate::{fail, tell};

/// Run methods on a benchmark and compare them.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Benchmark [default: permuted-digits]
    #[arg(long, short, value_name = "NAME")]
    benchmark: Option<String>,
    /// Methods, parted by commas, or `all` [default: finetune,er-ring,hal]
    #[arg(long, short, value_name = "NAME,…")]
    method: Option<String>,
    /// Number of seeds, counted from 0 [default: 1]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    seeds: Option<String>,
    /// m: memory slots per class per task [default: 1]
    #[arg(long, value_name = "M", allow_hyphen_values = true)]
    slots: Option<String>,
    /// Number of tasks [default: 20]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    tasks: Option<String>,
    /// Any setting: `batch=20`, `hal.lambda=0.3`; see `hindsight methods` and `hindsight benchmarks`
    #[arg(long, short, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// A TOML file of settings; flags rank above it
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Runs at a time [default: one per core]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Where data sets are [default: `HINDSIGHT_DATA`, or the user's cache directory]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Folder for the records [default: a new one under `runs`]
    #[arg(long, short, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one JSON object per finished run instead of a table
    #[arg(long)]
    json: bool,
}

impl RunArgs {
    /// File first, then `--set`, then the flags of their own: later ones rank higher.
    fn overrides(&self) -> anyhow::Result<Vec<Override>> {
        let mut overrides = match &self.config {
            Some(path) => Override::from_toml(path)?,
            None => Vec::new(),
        };
        for text in &self.set {
            overrides.push(Override::parse(text)?);
        }
        let words = [("benchmark", &self.benchmark), ("method", &self.method)];
        for (key, word) in words {
            let value = word.clone().map(|word| Value::Text(word.into()));
            overrides.extend(value.map(|value| Override { key: key.to_owned(), value }));
        }
        for (key, number) in [("seeds", &self.seeds), ("slots", &self.slots), ("tasks", &self.tasks)] {
            if let Some(number) = number {
                overrides.push(Override::parse(&format!("{key}={number}"))?);
            }
        }
        Ok(overrides)
    }
}

/// Runs `hindsight run`.
pub(crate) fn execute(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let experiment = Experiment::resolve(&args.overrides()?, BENCHMARKS, METHODS)?;
    let runs = &experiment.runs;
    let source = load(&experiment.runs[0], &data_dir(args.data_dir.as_deref()))?;
    source.dataset.notes.iter().for_each(|note| eprintln!("note: {note}"));
    // What does not fit the data shows now, not after other runs have been waited for.
    stream(&runs[0], &source)?;

    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = args.jobs.map_or(cores, usize::from).min(runs.len());
    let mut output = Output::create(args.out.as_deref(), experiment.benchmark.name)?;
    announce(&experiment, jobs, &output.folder);

    let bar = ProgressBar::new(1);
    let style = ProgressStyle::with_template("{bar:20} {percent:>3} %  {elapsed} gone{left}  {wide_msg}")?;
    bar.set_style(style.with_key("left", |state: &ProgressState, to: &mut dyn fmt::Write| {
        // Before that the speed is a guess, and a wild one.
        if state.fraction() > 0.02 {
            let _ = write!(to, ", {:#} to go", HumanDuration(state.eta()));
        }
    }));
    let mut progress: Vec<(usize, usize)> = vec![(0, 0); runs.len()];
    let mut records: BTreeMap<usize, Record> = BTreeMap::new();
    let mut shown = 0;
    let mut watch = |report| -> anyhow::Result<()> {
        match report {
            Report::Progress { index, done, total } => {
                progress[index] = (done, total);
                // Runs that have not begun are taken to be as long as those that have.
                let begun = progress.iter().filter(|(_, total)| *total > 0).count().max(1);
                let all: usize = progress.iter().map(|(_, total)| total).sum();
                bar.set_length((all * runs.len() / begun) as u64);
                bar.set_position(progress.iter().map(|(done, _)| *done as u64).sum());
            }
            Report::Task { index, task, row } => output.task(&runs[index], task, &row)?,
            Report::Finished { index, record, snapshot } => {
                let record = (*record)?;
                output.record(&record)?;
                if let Some(snapshot) = snapshot {
                    output.snapshot(&snapshot)?;
                }
                let what = format!("{} seed {}", record.method, record.seed);
                let result = record.accuracy.map_or("diverged".to_owned(), |a| format!("{a:.1} %"));
                bar.set_message(format!("{} of {} runs, {what}: {result}", records.len() + 1, runs.len()));
                records.insert(index, record);
                // Standard output keeps the order of the configuration, whichever run was faster.
                while let Some(record) = records.get(&shown).filter(|_| args.json) {
                    writeln!(stdout(), "{}", serde_json::to_string(record)?)?;
                    shown += 1;
                }
            }
        }
        Ok(())
    };
    run_all(runs, &source, jobs, &mut |report| {
        // Runs under way could take long to end, and what they have finished is on the disk.
        watch(report).inspect_err(|error| {
            bar.finish_and_clear();
            std::process::exit(fail(error).into())
        })
    })?;
    bar.finish_and_clear();

    let records: Vec<Record> = records.into_values().collect();
    if !args.json {
        write!(stdout(), "{}", report::table(&records))?;
        if let Some(reading) = report::reading(&records) {
            writeln!(stdout(), "\n{reading}")?;
        }
    }
    let diverged = records.iter().any(|record| record.status == Status::Diverged);
    Ok(if diverged { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// Says what will run, with which settings, and where the records go.
fn announce(experiment: &Experiment, jobs: usize, folder: &Path) {
    let mut settings: BTreeMap<String, Value> = BTreeMap::new();
    let mut methods: Vec<&str> = Vec::new();
    let mut seeds = 0;
    for run in &experiment.runs {
        settings.extend(run.effective());
        if !methods.contains(&run.method.name) {
            methods.push(run.method.name);
            if let Some(caution) = (run.method.caution)(&run.own) {
                tell(format_args!("warning: {caution}"));
            }
        }
        seeds = seeds.max(run.seed + 1);
    }
    let plural = |n: u64, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
    tell(format_args!(
        "{}: {}, {}, {} at a time",
        experiment.benchmark.name,
        methods.join(", "),
        plural(seeds, "seed"),
        plural(jobs as u64, "run")
    ));
    for (key, value) in settings {
        tell(format_args!("  {key} = {value}"));
    }
    tell(format_args!("records: {}\n", folder.join(RECORDS).display()));
}

/// The folder of a command: finished runs in one file, finished tasks of any run in another, and what is to
/// be seen of learners in a third.
struct Output {
    folder: PathBuf,
    records: File,
    tasks: File,
}

impl Output {
    fn create(folder: Option<&Path>, benchmark: &str) -> anyhow::Result<Output> {
        let folder = match folder {
            Some(folder) => {
                fs::create_dir_all(folder).with_context(|| cannot_write(folder))?;
                folder.to_owned()
            }
            None => Output::fresh(Path::new("runs"), benchmark)?,
        };
        Ok(Output { records: append(&folder, RECORDS)?, tasks: append(&folder, "tasks.jsonl")?, folder })
    }

    /// The first numbered folder that does not exist yet; two commands at once get two.
    fn fresh(parent: &Path, benchmark: &str) -> anyhow::Result<PathBuf> {
        fs::create_dir_all(parent).with_context(|| cannot_write(parent))?;
        for number in 1.. {
            let folder = parent.join(format!("{number:04}-{benchmark}"));
            let taken = parent
                .read_dir()
                .with_context(|| cannot_write(parent))?
                .flatten()
                .any(|entry| entry.file_name().to_string_lossy().starts_with(&format!("{number:04}-")));
            if taken {
                continue;
            }
            match fs::create_dir(&folder) {
                Ok(()) => return Ok(folder),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error).with_context(|| cannot_write(&folder)),
            }
        }
        unreachable!("there is always another number")
    }

    fn record(&mut self, record: &Record) -> anyhow::Result<()> {
        let line = serde_json::to_string(record)? + "\n";
        self.records.write_all(line.as_bytes()).with_context(|| cannot_write(&self.folder.join(RECORDS)))
    }

    fn snapshot(&self, snapshot: &Snapshot) -> anyhow::Result<()> {
        let line = serde_json::to_string(snapshot)? + "\n";
        let path = self.folder.join(SNAPSHOTS);
        append(&self.folder, SNAPSHOTS)?.write_all(line.as_bytes()).with_context(|| cannot_write(&path))
    }

    /// So that a killed run leaves what it had learned about its finished tasks.
    fn task(&mut self, run: &hindsight::config::RunConfig, task: usize, row: &[f64]) -> anyhow::Result<()> {
        let line = serde_json::json!({
            "method": run.method.name, "benchmark": run.benchmark.name, "seed": run.seed, "task": task, "row": row,
        });
        let path = self.folder.join("tasks.jsonl");
        self.tasks.write_all(format!("{line}\n").as_bytes()).with_context(|| cannot_write(&path))
    }
}

/// Opens a file of lines to add some.
fn append(folder: &Path, name: &str) -> anyhow::Result<File> {
    let path = folder.join(name);
    let open = || -> io::Result<File> {
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(&path)?;
        // A program that was killed may have left half a line; the next must not become its end.
        let mut last = [b'\n'];
        if file.metadata()?.len() > 0 {
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
        }
        if last != [b'\n'] {
            file.write_all(b"\n")?;
        }
        Ok(file)
    };
    open().with_context(|| cannot_write(&path))
}

pub(crate) fn cannot_write(path: &Path) -> CannotWrite {
    CannotWrite(path.to_owned())
}

/// The context of an error: which part of the output could not be written.
#[derive(Debug)]
pub(crate) struct CannotWrite(PathBuf);

impl fmt::Display for CannotWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot write `{}`", self.0.display())
    }
}
