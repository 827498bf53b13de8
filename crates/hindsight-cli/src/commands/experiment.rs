//! What commands that run have in common: the settings of runs, and doing them.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;
use hindsight::{
    Record,
    benchmarks::{BENCHMARKS, Benchmark},
    checkpoint::Checkpoints,
    config::{Override, RunConfig},
    custom_stream::{self, StreamFile},
    data::{DataError, data_dir},
    methods::Method,
    run::{Report, RunError, costs, load, longest_first, run_all, stream},
    settings::{Settings, Value},
    stream::Source,
};

use super::{output::Output, progress::Progress};
use crate::{fail, tell};

#[derive(Debug, Args)]
pub(crate) struct ExperimentArgs {
    /// Benchmark [default: permuted-digits]
    #[arg(long, short, value_name = "NAME")]
    benchmark: Option<String>,
    /// A stream of your own in place of a benchmark: a TOML file that describes it, see docs/streams.md
    #[arg(long, value_name = "FILE", conflicts_with = "benchmark")]
    stream: Option<PathBuf>,
    /// Methods, parted by commas, or `all` [default: finetune,er-ring,hal]
    #[arg(long, short, value_name = "NAME,…")]
    method: Option<String>,
    /// Number of seeds, counted from 0, or a range: `3..5` is the seeds 3 and 4 [default: 1]
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
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) machine: MachineArgs,
}

#[derive(Debug, Args)]
pub(crate) struct MachineArgs {
    /// Runs at a time [default: one per core]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Where data sets are [default: `HINDSIGHT_DATA`, or the user's cache directory]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

impl ExperimentArgs {
    /// File first, then `--set`, then the flags of their own: later ones rank higher.
    pub(crate) fn overrides(&self, file: Vec<Override>) -> anyhow::Result<Vec<Override>> {
        let mut overrides = file;
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

    /// Takes the key `stream` out of `overrides`. The path in a file of settings begins where that file is, that of
    /// `--stream` where the user is.
    pub(crate) fn ground(&self, overrides: &mut Vec<Override>) -> anyhow::Result<RunTarget> {
        let from_file =
            overrides.extract_if(.., |set| set.key == "stream").last().map(|set| set.value.to_string());
        let folder = self.config.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
        // `--benchmark` beats the file's stream as it beats the file's benchmark.
        let from_file = from_file.filter(|_| self.benchmark.is_none()).map(|path| folder.join(path));
        let Some(path) = self.stream.clone().or(from_file) else { return Ok(RunTarget::TABLE) };
        let ground = RunTarget::stream(&path)?;
        let name = ground.stream.as_ref().map_or_else(String::new, |stream| stream.name.clone());
        let value = Value::Text(name.into());
        overrides.insert(0, Override { key: "benchmark".to_owned(), value });
        Ok(ground)
    }
}

/// What runs are done on: a benchmark of the table, or a stream of one's own.
pub(crate) struct RunTarget {
    pub(crate) benchmarks: Cow<'static, [Benchmark]>,
    pub(crate) stream: Option<StreamFile>,
}

impl RunTarget {
    pub(crate) const TABLE: RunTarget = RunTarget { benchmarks: Cow::Borrowed(BENCHMARKS), stream: None };

    /// The stream that the file at `path` describes.
    pub(crate) fn stream(path: &Path) -> Result<RunTarget, DataError> {
        let stream = StreamFile::read(path)?;
        Ok(RunTarget { benchmarks: vec![custom_stream::benchmark(&stream)].into(), stream: Some(stream) })
    }

    /// Reads the data of runs. What does not fit it shows now, not after other runs have been waited for.
    pub(crate) fn load(&self, runs: &[RunConfig], data_dir: &Path) -> anyhow::Result<Arc<Source>> {
        let source = match &self.stream {
            Some(stream) => custom_stream::load(stream)?,
            None => load(&runs[0], data_dir)?,
        };
        source.dataset.notes.iter().for_each(|note| tell(format_args!("note: {note}")));
        let mut checked: Vec<&Settings> = Vec::new();
        for run in runs {
            if !checked.contains(&&run.shared) {
                stream(run, &source)?;
                checked.push(&run.shared);
            }
        }
        Ok(source)
    }

    /// What to know of a method before it runs here.
    pub(crate) fn caution(&self, method: &Method) -> Option<&'static str> {
        method.without_ends.filter(|_| self.stream.as_ref().is_some_and(|stream| !stream.ends()))
    }
}

impl MachineArgs {
    /// Where data sets are.
    pub(crate) fn data_dir(&self) -> PathBuf {
        data_dir(self.data_dir.as_deref())
    }

    /// Whether that was said.
    pub(crate) fn moved(&self) -> bool {
        self.data_dir.is_some()
    }

    /// How many of `runs` go at a time.
    pub(crate) fn jobs(&self, runs: usize) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.map_or(cores, usize::from).clamp(1, runs.max(1))
    }
}

/// Runs to do.
pub(crate) struct Work<'w> {
    pub(crate) runs: &'w [RunConfig],
    /// What to call them.
    pub(crate) labels: Vec<String>,
    /// Which of them.
    pub(crate) todo: Vec<usize>,
    /// From which it can be told how long they take.
    pub(crate) measured: Vec<Record>,
    pub(crate) source: &'w Arc<Source>,
    pub(crate) jobs: usize,
    /// How they are saved on the way, if they are.
    pub(crate) checkpoints: Option<Checkpoints>,
}

impl Work<'_> {
    /// Does them, longest first. A record is on the disk before `ended` is told of it; with `details`, so are
    /// finished tasks and what is to be seen of learners.
    pub(crate) fn execute(
        self,
        output: &mut Output,
        details: bool,
        mut ended: impl FnMut(&Progress, usize, Result<Record, RunError>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let costs = costs(self.runs, &self.measured);
        let order = longest_first(self.todo, &costs);
        let mut progress = Progress::new(self.labels, &costs, &order);
        let runs = self.runs;
        let mut watch = |progress: &mut Progress, report| -> anyhow::Result<()> {
            match report {
                Report::Started { index } => progress.start(index),
                Report::Progress { index, done, total } => progress.advance(index, done, total),
                Report::Note { index, text } => {
                    let line = format!("note: {}: {text}", progress.label(index));
                    progress.say(line);
                }
                Report::Task { index, task, row } if details => output.task(&runs[index], task, &row)?,
                Report::Task { .. } => {}
                Report::Finished { index, record, snapshot } => {
                    // The record last: a run that has one is not done again.
                    if let Some(snapshot) = snapshot.filter(|_| details) {
                        output.snapshot(&snapshot)?;
                    }
                    let result = match &*record {
                        Ok(record) => {
                            output.record(record)?;
                            record.accuracy.map_or("diverged".to_owned(), |a| format!("{a:.1} %"))
                        }
                        // It is to be gone on with.
                        Err(RunError::Stopped { .. }) => "stopped".to_owned(),
                        Err(error) => {
                            // The error is told in any case, and may be that nothing can be written.
                            let _ = output.failure(&runs[index], error);
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
            // Runs under way could take long to end, and what they have finished is on the disk.
            watch(&mut progress, report).inspect_err(|error| {
                progress.clear();
                std::process::exit(fail(error).into())
            })
        })?;
        progress.clear();
        Ok(())
    }
}
