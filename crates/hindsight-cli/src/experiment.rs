//! Arguments that `run`, `sweep` and `reproduce` share, and the benchmark or custom stream that they name.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;
use hindsight::{
    benchmarks::{BENCHMARKS, Benchmark},
    config::{ConfigError, Override, RunConfig},
    custom_stream::{self, StreamFile},
    data::{DATASETS, DataError, Info, Origin, data_dir},
    methods::Method,
    run::{load, stream},
    settings::{Settings, Value},
    stream::Source,
};

use crate::{
    cluster::LaunchArgs,
    messages::{inform, set_quiet},
};

#[derive(Debug, Args)]
pub(crate) struct ExperimentArgs {
    /// Benchmark [default: permuted-digits]
    #[arg(long, short, value_name = "NAME")]
    benchmark: Option<String>,
    /// A custom stream in place of a benchmark: the TOML file that describes it (see docs/streams.md), or the
    /// name of a published one: `electricity`, `covertype`, `weather`, `smartwatch`
    #[arg(long, value_name = "FILE", conflicts_with = "benchmark")]
    stream: Option<PathBuf>,
    /// Comma-separated methods, or `all` [default: finetune,er-ring,hal]
    #[arg(long, short, value_name = "NAME,…")]
    method: Option<String>,
    /// Number of seeds, from 0, or a range: `3..5` means the seeds 3 and 4 [default: 1]
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
    /// A TOML file of settings; flags take precedence
    #[arg(long, short, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) machine: MachineArgs,
    #[command(flatten)]
    pub(crate) launch: LaunchArgs,
    #[command(flatten)]
    pub(crate) verbosity: VerbosityArgs,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct MachineArgs {
    /// Number of concurrent runs [default: one per core]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Folder of the data sets [default: `HINDSIGHT_DATA`, or the user's cache directory]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// How much goes to standard error.
#[derive(Debug, Args)]
pub(crate) struct VerbosityArgs {
    /// Write only errors and warnings to standard error
    #[arg(long, short, conflicts_with = "verbose")]
    quiet: bool,
    /// List all settings, not only those that differ from the defaults
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

impl VerbosityArgs {
    pub(crate) fn apply(&self) {
        set_quiet(self.quiet);
    }
}

impl ExperimentArgs {
    /// Settings in rising precedence: those of the file, `--set`, other flags.
    pub(crate) fn overrides(&self, file: Vec<Override>) -> anyhow::Result<Vec<Override>> {
        let mut overrides = file;
        for text in &self.set {
            overrides.push(parse_setting(text)?);
        }
        let words = [("benchmark", &self.benchmark), ("method", &self.method)];
        for (key, word) in words {
            let value = word.clone().map(|word| Value::Text(word.into()));
            overrides.extend(value.map(|value| Override { key: key.to_owned(), value }));
        }
        for (key, number) in [("seeds", &self.seeds), ("slots", &self.slots), ("tasks", &self.tasks)] {
            if let Some(number) = number {
                overrides.push(parse_setting(&format!("{key}={number}"))?);
            }
        }
        Ok(overrides)
    }

    /// The benchmark or custom stream to run on; removes the key `stream` from `overrides`. A path in a file
    /// of settings is relative to that file, one given with `--stream` to the working directory.
    pub(crate) fn target(&self, overrides: &mut Vec<Override>) -> anyhow::Result<RunTarget> {
        let from_file =
            overrides.extract_if(.., |set| set.key == "stream").last().map(|set| set.value.to_string());
        let folder = self.config.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
        // `--benchmark` takes precedence over the file's stream as over its benchmark.
        let from_file = from_file.filter(|_| self.benchmark.is_none()).map(|path| folder.join(path));
        let Some(path) = self.stream.clone().or(from_file) else { return Ok(RunTarget::BUILT_IN) };
        let target = RunTarget::stream(&self.published_stream(&path)?.unwrap_or(path))?;
        let name = target.stream.as_ref().map_or_else(String::new, |stream| stream.name.clone());
        let value = Value::Text(name.into());
        overrides.insert(0, Override { key: "benchmark".to_owned(), value });
        Ok(target)
    }

    /// The stream file of a published stream, if that is what `name` is.
    fn published_stream(&self, name: &Path) -> Result<Option<PathBuf>, DataError> {
        let named = |info: &&Info| Path::new(info.name) == name && !name.exists();
        let Some(Origin::Stream(stream)) = DATASETS.iter().find(named).map(|info| info.origin) else {
            return Ok(None);
        };
        let folder = stream.published.locate(&self.machine.data_dir()).folder;
        let (name, file) = (stream.published.name.to_owned(), stream.file_name());
        let path = folder.join(&file);
        if path.is_file() { Ok(Some(path)) } else { Err(DataError::Missing { name, file, folder }) }
    }
}

/// What to run on: a built-in benchmark, or a custom stream.
pub(crate) struct RunTarget {
    pub(crate) benchmarks: Cow<'static, [Benchmark]>,
    pub(crate) stream: Option<StreamFile>,
}

impl RunTarget {
    pub(crate) const BUILT_IN: RunTarget = RunTarget { benchmarks: Cow::Borrowed(BENCHMARKS), stream: None };

    /// The custom stream that the file at `path` describes.
    pub(crate) fn stream(path: &Path) -> Result<RunTarget, DataError> {
        let stream = custom_stream::read(path)?;
        Ok(RunTarget { benchmarks: vec![custom_stream::benchmark(&stream)].into(), stream: Some(stream) })
    }

    /// Loads the data of `runs` and builds a stream for each configuration, so that settings which do not fit
    /// the data are reported before the first run starts.
    pub(crate) fn load(&self, runs: &[RunConfig], data_dir: &Path) -> anyhow::Result<Arc<Source>> {
        let source = match &self.stream {
            Some(stream) => custom_stream::load(stream)?,
            None => load(&runs[0], data_dir)?,
        };
        source.dataset.notes.iter().for_each(|note| inform(format_args!("note: {note}")));
        let mut checked: Vec<&Settings> = Vec::new();
        for run in runs {
            if !checked.contains(&&run.shared) {
                stream(run, &source)?;
                checked.push(&run.shared);
            }
        }
        Ok(source)
    }

    /// The restriction of a method on a stream without task boundaries.
    pub(crate) fn caution(&self, method: &Method) -> Option<&'static str> {
        method.without_task_ends.filter(|_| self.stream.as_ref().is_some_and(|stream| !stream.ends()))
    }
}

impl MachineArgs {
    pub(crate) fn data_dir(&self) -> PathBuf {
        data_dir(self.data_dir.as_deref())
    }

    /// Whether `--data-dir` is given.
    pub(crate) fn has_data_dir(&self) -> bool {
        self.data_dir.is_some()
    }

    /// What is not given, of a worker. Paths no longer depend on the working directory.
    pub(crate) fn with_defaults(self, jobs: u16, data_dir: &Path) -> MachineArgs {
        let given = self.data_dir.map(|dir| std::path::absolute(&dir).unwrap_or(dir));
        let data_dir = given.unwrap_or_else(|| data_dir.to_owned());
        MachineArgs { jobs: Some(self.jobs.unwrap_or(jobs)), data_dir: Some(data_dir) }
    }

    /// Number of concurrent runs of a worker: one unless `--jobs` is given, since a scheduler counts cores.
    pub(crate) fn worker_jobs(&self) -> usize {
        self.jobs.map_or(1, usize::from)
    }

    /// Number of concurrent runs, out of `runs`.
    pub(crate) fn jobs(&self, runs: usize) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.map_or(cores, usize::from).clamp(1, runs.max(1))
    }
}

/// Parses `key=value`. A line break would end the value and start another key, so it is refused.
pub(crate) fn parse_setting(text: &str) -> Result<Override, ConfigError> {
    if text.contains(['\n', '\r']) {
        return Err(ConfigError::Malformed { found: text.to_owned() });
    }
    Override::parse(text)
}
