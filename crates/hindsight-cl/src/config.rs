//! From what a user wrote to checked runs: files, flags and defaults become one configuration per run.

use std::{
    collections::BTreeMap,
    io,
    ops::Range,
    path::{Path, PathBuf},
};

use thiserror::Error;

use hindsight_data::{bounded_read::read_small, suggest::nearest};

use crate::{
    benchmarks::Benchmark,
    methods::Method,
    settings::{Key, Kind, Settings, Value},
};

/// One setting that a user made, and where.
#[derive(Debug, Clone, PartialEq)]
pub struct Override {
    /// The key: `batch`, or `hal.lambda` for a method's own.
    pub key: String,
    /// The value.
    pub value: Value,
}

impl Override {
    /// Reads `key=value`.
    pub fn parse(text: &str) -> Result<Override, ConfigError> {
        let malformed = || ConfigError::Malformed { found: text.to_owned() };
        let (key, value) = text.split_once('=').ok_or_else(malformed)?;
        let value = Value::parse(value.trim()).ok_or_else(malformed)?;
        Ok(Override { key: key.trim().to_owned(), value })
    }

    /// Reads a TOML file: its keys, and those of its tables as `table.key`.
    pub fn from_toml(path: &Path) -> Result<Vec<Override>, ConfigError> {
        Override::from_table(read_toml(path)?)
    }

    /// The settings of a TOML file that has been read.
    pub fn from_table(table: toml::Table) -> Result<Vec<Override>, ConfigError> {
        let mut overrides = Vec::new();
        for (key, value) in table {
            match value {
                toml::Value::Table(inner) => {
                    for (name, value) in inner {
                        overrides.push(Override::from_entry(format!("{key}.{name}"), &value)?);
                    }
                }
                // `method = ["a", "b"]` is the same as `method = "a,b"`.
                toml::Value::Array(names) if key == "method" => {
                    let words: Option<Vec<&str>> = names.iter().map(toml::Value::as_str).collect();
                    let Some(words) = words.filter(|words| !words.is_empty()) else {
                        let found = toml::Value::Array(names).to_string();
                        let expected = "names of methods".to_owned();
                        return Err(ConfigError::Value { key, found, expected });
                    };
                    overrides.push(Override { key, value: Value::Text(words.join(",").into()) });
                }
                value => overrides.push(Override::from_entry(key, &value)?),
            }
        }
        Ok(overrides)
    }

    fn from_entry(key: String, value: &toml::Value) -> Result<Override, ConfigError> {
        let found = || format!("{key} = {value}");
        let value = Value::from_toml(value).ok_or_else(|| ConfigError::Malformed { found: found() })?;
        Ok(Override { key, value })
    }
}

/// Reads a TOML file.
pub(crate) fn read_toml(path: &Path) -> Result<toml::Table, ConfigError> {
    let unreadable =
        |error: io::Error| ConfigError::Unreadable { path: path.to_owned(), reason: error.to_string() };
    let text = read_small(path).map_err(unreadable)?;
    let text = String::from_utf8(text).map_err(|error| unreadable(io::Error::other(error.utf8_error())))?;
    toml::from_str(&text).map_err(|error| {
        let before = error.span().map_or(0, |span| text[..span.start].matches('\n').count());
        let line = (before + 1).min(text.lines().count().max(1));
        ConfigError::Toml { path: path.to_owned(), line, reason: error.message().to_owned() }
    })
}

/// Why what a user asked for cannot be done.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ConfigError {
    /// A name that does not exist.
    #[error("unknown {what} `{name}`")]
    Unknown {
        /// Key, method or benchmark.
        what: &'static str,
        /// The name.
        name: String,
        /// The nearest that does.
        nearest: Option<String>,
        /// All that do.
        known: Vec<String>,
    },
    /// A value that its key does not take.
    #[error("`{key}` is `{found}`, expected {expected}")]
    Value {
        /// The key.
        key: String,
        /// What was found.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// A key that another benchmark has.
    #[error("`{benchmark}` has no key `{key}`")]
    Elsewhere {
        /// The key.
        key: String,
        /// The benchmark.
        benchmark: &'static str,
        /// One that has it.
        other: &'static str,
    },
    /// A network that no machine at hand could train.
    #[error("`{key}` is `{found}`: {parameters} parameters, expected at most {limit}")]
    TooLarge {
        /// The key.
        key: &'static str,
        /// The widths.
        found: String,
        /// What they come to.
        parameters: u128,
        /// The most that is taken.
        limit: u128,
    },
    /// Not of the form `key=value`.
    #[error(
        "`{found}` is not a setting, expected `key=value` with a number, a word, a list of widths or a truth value"
    )]
    Malformed {
        /// The text.
        found: String,
    },
    /// A configuration file that cannot be read.
    #[error("cannot read `{}`: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A configuration file that is not TOML.
    #[error("`{}`, line {line}: {reason}", path.display())]
    Toml {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
        /// Why.
        reason: String,
    },
    /// More classes asked for than there are.
    #[error("{tasks} tasks of {per_task} classes need {}, but `{dataset}` has {classes}", tasks * per_task)]
    TooFewClasses {
        /// Tasks, those held apart for tuning included.
        tasks: usize,
        /// Classes of a task.
        per_task: usize,
        /// The data set.
        dataset: String,
        /// What it has.
        classes: usize,
    },
    /// A class with fewer samples than a task takes of it.
    #[error("`samples` is {found}: {per_class} of a class, but class {class} of `{dataset}` has {has}")]
    ClassTooSmall {
        /// Samples per task.
        found: usize,
        /// What comes of a class.
        per_class: usize,
        /// The class.
        class: usize,
        /// The data set.
        dataset: String,
        /// What it has.
        has: usize,
    },
    /// More samples asked of a task than there are.
    #[error("`samples` is {found}, but the training pool of `{dataset}` holds {pool}")]
    PoolTooSmall {
        /// Samples per task.
        found: usize,
        /// The data set.
        dataset: String,
        /// What it has.
        pool: usize,
    },
}

impl ConfigError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            ConfigError::Unknown { nearest: Some(nearest), .. } => Some(format!("did you mean `{nearest}`?")),
            ConfigError::Unknown { known, .. } => Some(format!("known are {}", known.join(", "))),
            ConfigError::Value { key, .. } if key == "seeds" => {
                Some("`--seeds 3` runs the seeds 0, 1 and 2; `--seeds 3..5` the seeds 3 and 4".to_owned())
            }
            ConfigError::Value { key, .. } => match key.split_once('.') {
                Some((method, _)) => Some(format!("`hindsight methods {method}` lists its keys")),
                None => Some("`hindsight benchmarks` lists the shared keys".to_owned()),
            },
            ConfigError::Elsewhere { key, other, .. } => Some(format!("`{key}` is a key of `{other}`")),
            ConfigError::TooLarge { .. } => Some("use fewer or narrower layers".to_owned()),
            ConfigError::Malformed { .. } => Some("for example `--set hal.lambda=0.3`".to_owned()),
            ConfigError::TooFewClasses { .. } => {
                Some("set `tasks` or `tuning_tasks` lower, or `tasks` to 0 for all that there are".to_owned())
            }
            ConfigError::ClassTooSmall { .. } => Some("set `samples` lower, or to 0 for all".to_owned()),
            ConfigError::PoolTooSmall { pool, .. } => Some(format!("set `samples` to at most {pool}")),
            ConfigError::Unreadable { .. } => Some("`--config` takes the path of a TOML file".to_owned()),
            ConfigError::Toml { .. } => {
                Some("for example `tasks = 10`, and below `[hal]` a line `lambda = 0.3`".to_owned())
            }
        }
    }

    /// A name that does not exist, with the nearest of those that do.
    pub fn unknown<'n>(
        what: &'static str,
        name: &str,
        known: impl IntoIterator<Item = &'n str>,
    ) -> ConfigError {
        let known: Vec<String> = known.into_iter().map(str::to_owned).collect();
        let nearest = nearest(name, known.iter().map(String::as_str)).map(str::to_owned);
        ConfigError::Unknown { what, name: name.to_owned(), nearest, known }
    }
}

/// The settings that every run has.
pub static SHARED: &[Key] = &[
    Key::new(
        "tasks",
        Kind::Int(0, 1000),
        Value::Int(20),
        "number of tasks (0, on split benchmarks: all that there are classes for)",
    ),
    Key::new(
        "samples",
        Kind::Int(0, i64::MAX),
        Value::Int(1000),
        "training samples per task (0, on split benchmarks: all that there are)",
    ),
    Key::new("tuning_tasks", Kind::Int(0, 1000), Value::Int(3), "number of tasks held apart for tuning"),
    Key::new(
        "tuning",
        Kind::Bool,
        Value::Bool(false),
        "learn the tasks held apart for tuning in place of the others",
    ),
    Key::new("slots", Kind::Int(0, 100_000), Value::Int(1), "m: memory slots per class per task"),
    Key::new("batch", Kind::Int(1, 100_000), Value::Int(10), "samples in a batch of the stream"),
    Key::new("replay_batch", Kind::Int(1, 100_000), Value::Int(10), "samples in a batch from the memory"),
    Key::new(
        "replay_from",
        Kind::Choice(&["finished", "all"]),
        Value::text("finished"),
        "draw from the memory of finished tasks only, or of the running one too",
    ),
    Key::per_family(
        "network",
        Kind::Choice(&["mlp", "resnet"]),
        [Value::text("mlp"), Value::text("resnet"), Value::text("resnet")],
        "the network: a perceptron, or a residual network of two basic blocks per stage",
    ),
    Key::new(
        "maps",
        Kind::Widths,
        Value::ints(&[20, 40, 80, 160]),
        "maps in each stage of the residual network",
    ),
    Key::per_family(
        "stem_stride",
        Kind::Int(1, 2),
        [Value::Int(1), Value::Int(1), Value::Int(2)],
        "stride of the residual network's first convolution",
    ),
    Key::new("hidden", Kind::Widths, Value::ints(&[256, 256]), "widths of the perceptron's hidden layers"),
    Key::new(
        "evaluate",
        Kind::Choice(&["full", "seen", "final"]),
        Value::text("full"),
        "after each task on all tasks, only on those seen so far, or once in the end",
    ),
    Key::new(
        "evaluate_every",
        Kind::Int(0, i64::MAX),
        Value::Int(0),
        "evaluate the tasks seen so far every so many batches too (0: never)",
    ),
];

/// One run, checked: everything that decides its result but the data.
#[derive(Debug, Clone)]
pub struct RunConfig {
    /// The benchmark.
    pub benchmark: &'static Benchmark,
    /// The method.
    pub method: &'static Method,
    /// The seed of all generators.
    pub seed: u64,
    /// Settings of every run and of the benchmark.
    pub shared: Settings,
    /// Settings of the method.
    pub method_settings: Settings,
}

impl RunConfig {
    /// All settings under their full keys, as records and reports show them.
    pub fn effective(&self) -> BTreeMap<String, Value> {
        let own =
            self.method_settings.iter().map(|(key, value)| (format!("{}.{key}", self.method.name), value));
        self.shared.iter().map(|(key, value)| (key.to_owned(), value)).chain(own).fold(
            BTreeMap::new(),
            |mut all, (key, value)| {
                all.insert(key, value.clone());
                all
            },
        )
    }

    /// What makes two runs the same; equal to [`Record::identity`](crate::Record::identity) of its record.
    pub fn identity(&self) -> String {
        identity(self.benchmark.name, self.method.name, self.seed, &self.effective())
    }
}

/// What makes two runs the same: everything that decides a result but the data and the program.
pub(crate) fn identity(benchmark: &str, method: &str, seed: u64, config: &BTreeMap<String, Value>) -> String {
    format!("{benchmark:?} {method:?} {seed} {config:?}")
}

/// A benchmark, and the runs to do on it.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// The benchmark.
    pub benchmark: &'static Benchmark,
    /// Method by method, seed by seed.
    pub runs: Vec<RunConfig>,
}

impl Experiment {
    /// Checks `overrides`, later ones first in rank, against the tables of what there is.
    ///
    /// Beside the settings, `benchmark`, `method` (names parted by commas, or `all`) and `seeds` are keys.
    pub fn resolve(
        overrides: &[Override],
        benchmarks: &'static [Benchmark],
        methods: &'static [Method],
    ) -> Result<Experiment, ConfigError> {
        let last = |key: &str| overrides.iter().rev().find(|o| o.key == key).map(|o| &o.value);

        let name = last("benchmark").map_or("permuted-digits".to_owned(), Value::to_string);
        let benchmark = benchmarks
            .iter()
            .find(|b| b.name == name)
            .ok_or_else(|| ConfigError::unknown("benchmark", &name, benchmarks.iter().map(|b| b.name)))?;
        let names = last("method").map_or("finetune,er-ring,hal".to_owned(), Value::to_string);
        let mut chosen: Vec<&'static Method> = Vec::new();
        for name in names.split(',').map(str::trim) {
            let found: Vec<_> = methods.iter().filter(|m| name == "all" || m.name == name).collect();
            if found.is_empty() {
                return Err(ConfigError::unknown("method", name, methods.iter().map(|m| m.name)));
            }
            chosen.extend(
                found.into_iter().filter(|m| chosen.iter().all(|c| c.name != m.name)).collect::<Vec<_>>(),
            );
        }
        let seeds = seeds(last("seeds"))?;

        let mut shared = shared_defaults(benchmark);
        for Override { key, value } in overrides {
            if ["benchmark", "method", "seeds"].contains(&key.as_str()) {
                continue;
            }
            // Any known method's keys may be set, also of one that does not run now: a file serves many runs.
            let found = find_key(key, benchmark, benchmarks, methods)?;
            let value = checked(found, key, value)?;
            if !key.contains('.') {
                shared.set(found.name, value);
            }
        }

        check_size(&shared)?;

        let mut runs = Vec::new();
        for method in chosen {
            let own = own_settings(method, benchmark, overrides)?;
            for seed in seeds.clone() {
                runs.push(RunConfig {
                    benchmark,
                    method,
                    seed,
                    shared: shared.clone(),
                    method_settings: own.clone(),
                });
            }
        }
        Ok(Experiment { benchmark, runs })
    }
}

/// `3` is the seeds 0, 1 and 2; `3..5` the seeds 3 and 4; nothing is seed 0.
fn seeds(value: Option<&Value>) -> Result<Range<u64>, ConfigError> {
    const MOST: u64 = 100_000;
    let range = match value {
        None => Some(0..1),
        Some(Value::Int(count)) => u64::try_from(*count).ok().map(|count| 0..count),
        Some(Value::Text(text)) => text.split_once("..").and_then(|(first, end)| {
            let [first, end] = [first, end].map(|bound| bound.trim().parse().ok());
            Some(first?..end?)
        }),
        Some(_) => None,
    };
    let fits = |range: &Range<u64>| !range.is_empty() && range.end <= MOST;
    range.filter(fits).ok_or_else(|| ConfigError::Value {
        key: "seeds".to_owned(),
        found: value.map_or_else(String::new, Value::to_string),
        expected: format!("a whole number from 1 to {MOST}, or a range such as 3..5"),
    })
}

/// The shared settings of a benchmark where nothing is set.
pub(crate) fn shared_defaults(benchmark: &Benchmark) -> Settings {
    let mut shared = Settings::defaults(SHARED.iter().chain(benchmark.keys), benchmark.family);
    for (key, value) in benchmark.defaults.iter().filter(|(key, _)| !key.contains('.')) {
        shared.set(key, value.clone());
    }
    shared
}

/// The declaration of a key that a user named: a shared one, or `method.key`.
pub(crate) fn find_key(
    key: &str,
    benchmark: &'static Benchmark,
    benchmarks: &'static [Benchmark],
    methods: &'static [Method],
) -> Result<&'static Key, ConfigError> {
    if let Some((method, name)) = key.split_once('.') {
        let method = methods
            .iter()
            .find(|m| m.name == method)
            .ok_or_else(|| ConfigError::unknown("method", method, methods.iter().map(|m| m.name)))?;
        return find(method.keys, name, key);
    }
    let shared = || SHARED.iter().chain(benchmark.keys);
    let elsewhere = benchmarks.iter().find(|b| b.keys.iter().any(|k| k.name == key));
    match elsewhere.filter(|_| shared().all(|k| k.name != key)) {
        Some(other) => {
            let (key, benchmark, other) = (key.to_owned(), benchmark.name, other.name);
            Err(ConfigError::Elsewhere { key, benchmark, other })
        }
        None => find(shared(), key, key),
    }
}

/// More parameters would not fit into memory a few times over.
const LIMIT: u128 = 100_000_000;

/// The layers that a user sets must stay within what fits.
fn check_size(shared: &Settings) -> Result<(), ConfigError> {
    for (key, kernel) in [("hidden", 1), ("maps", 9)] {
        let widths = shared.widths(key);
        let pairs = widths.windows(2).map(|pair| kernel * pair[0] as u128 * pair[1] as u128);
        // A stage of the residual network also has convolutions from its own width to its own.
        let own = widths.iter().map(|&w| if kernel > 1 { 3 * kernel * (w * w) as u128 } else { 0 });
        let parameters: u128 = pairs.chain(own).sum();
        if parameters > LIMIT {
            let found = shared.get(key).to_string();
            return Err(ConfigError::TooLarge { key, found, parameters, limit: LIMIT });
        }
    }
    Ok(())
}

/// Where inputs and classes are of the user's own too, so must the perceptron's first and last layer.
pub(crate) fn check_network(shared: &Settings, shape: [usize; 3], classes: usize) -> Result<(), ConfigError> {
    let (key, inputs) = match shared.text("network") {
        "mlp" => ("hidden", shape.iter().product()),
        _ => ("maps", 9 * shape[0]),
    };
    let widths = shared.widths(key);
    let [first, last] = [widths.first(), widths.last()].map(|width| width.copied().unwrap_or(0) as u128);
    let parameters = inputs as u128 * first + last * classes as u128;
    if parameters > LIMIT {
        let found = shared.get(key).to_string();
        return Err(ConfigError::TooLarge { key, found, parameters, limit: LIMIT });
    }
    Ok(())
}

/// Defaults, then the preset, then what the user set.
fn own_settings(
    method: &Method,
    benchmark: &Benchmark,
    overrides: &[Override],
) -> Result<Settings, ConfigError> {
    let mut own = Settings::defaults(method.keys, benchmark.family);
    for (key, value) in benchmark.defaults {
        let name = key.strip_prefix(method.name).and_then(|rest| rest.strip_prefix('.'));
        if let Some(found) = name.and_then(|name| method.keys.iter().find(|key| key.name == name)) {
            own.set(found.name, value.clone());
        }
    }
    let set = |own: &mut Settings, only: Option<&str>| -> Result<(), ConfigError> {
        for Override { key, value } in overrides {
            let Some((owner, name)) = key.split_once('.') else { continue };
            if owner == method.name && only.is_none_or(|only| only == name) {
                let found = find(method.keys, name, key)?;
                own.set(found.name, checked(found, key, value)?);
            }
        }
        Ok(())
    };
    if method.keys.iter().any(|key| key.name == "preset") {
        set(&mut own, Some("preset"))?;
        let preset = own.text("preset").to_owned();
        for (_, values) in method.presets.iter().filter(|(name, _)| *name == preset) {
            values.iter().for_each(|(key, value)| own.set(key, value.clone()));
        }
    }
    set(&mut own, None)?;
    Ok(own)
}

fn find<'k>(
    keys: impl IntoIterator<Item = &'k Key, IntoIter: Clone>,
    name: &str,
    full: &str,
) -> Result<&'k Key, ConfigError> {
    let keys = keys.into_iter();
    let prefix = &full[..full.len() - name.len()];
    keys.clone().find(|key| key.name == name).ok_or_else(|| {
        let known: Vec<String> = keys.map(|key| format!("{prefix}{}", key.name)).collect();
        ConfigError::unknown("key", full, known.iter().map(String::as_str))
    })
}

pub(crate) fn checked(key: &Key, full: &str, value: &Value) -> Result<Value, ConfigError> {
    key.check(value).ok_or_else(|| ConfigError::Value {
        key: full.to_owned(),
        found: value.to_string(),
        expected: key.kind.to_string(),
    })
}
