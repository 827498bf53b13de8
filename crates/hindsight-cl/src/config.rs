//! From what a user wrote to checked runs: files, flags and defaults become one configuration per run.

use std::{collections::BTreeMap, fmt, io, ops::Range, path::Path, sync::Arc};

use hindsight_data::{bounded_read::read_small, hex::hex};
use sha2::{Digest, Sha256};

pub use crate::settings::{ConfigError, SHARED};

use crate::{
    benchmarks::Benchmark,
    methods::{METHODS, Method},
    settings::{Key, Scenario, Settings, SharedSettings, Value, check_size},
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

impl fmt::Display for Override {
    /// As [`Override::parse`] reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Override { key, value } = self;
        match value {
            // A word that would be read as a number or a list has quotes.
            Value::Text(word) if Value::parse(word.trim()).as_ref() != Some(value) => {
                // As in JSON, which TOML reads too and which is one line whatever the word holds.
                write!(f, "{key}={}", serde_json::Value::from(&**word))
            }
            _ => write!(f, "{key}={value}"),
        }
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

/// One run, checked: everything that decides its result but the data.
#[derive(Debug, Clone)]
pub struct RunConfig {
    /// The benchmark.
    pub benchmark: Arc<Benchmark>,
    /// The method.
    pub method: Method,
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
        // Settings that came after the first records stay out of them unless they are set: a run has the
        // identity that it always had.
        let listed = |key: &str, value: &Value| {
            !LATER.iter().any(|(later, default)| key == *later && value == default)
        };
        let shared = self.shared.iter().filter(|(key, value)| listed(key, value));
        let mut all: BTreeMap<String, Value> =
            shared.map(|(key, value)| (key.to_owned(), value.clone())).collect();
        all.extend(
            self.method_settings
                .iter()
                .map(|(key, value)| (format!("{}.{key}", self.method.name), value.clone())),
        );
        let description = self.benchmark.description.clone();
        all.extend(description.map(|sha256| (DESCRIPTION.to_owned(), Value::Text(sha256.into()))));
        all
    }

    /// [`RunConfig::shared`], parsed.
    pub fn shared_settings(&self) -> SharedSettings {
        SharedSettings::new(&self.shared)
    }

    /// What makes two runs the same; equal to [`Record::identity`](crate::Record::identity) of its record.
    pub fn identity(&self) -> String {
        identity(&self.benchmark.name, self.method.name, self.seed, &self.effective())
    }

    /// A short name of its identity, for files; equal to [`Record::id`](crate::Record::id) of its record.
    pub fn id(&self) -> String {
        id(&self.identity())
    }
}

/// A short name of an identity: 16 hexadecimal digits of its SHA-256.
pub(crate) fn id(identity: &str) -> String {
    hex(&digest(identity)[..8])
}

/// What stands for an identity where there are many.
pub(crate) fn digest(identity: &str) -> [u8; 16] {
    let mut digest = [0; 16];
    digest.copy_from_slice(&Sha256::digest(identity)[..16]);
    digest
}

/// What makes two runs the same: everything that decides a result but the data and the program.
pub(crate) fn identity(benchmark: &str, method: &str, seed: u64, config: &BTreeMap<String, Value>) -> String {
    format!("{benchmark:?} {method:?} {seed} {config:?}")
}

/// Adds the settings that a run of an earlier version had without saying so, where that is known: iCaRL was
/// told the task on benchmarks whose tasks share their classes, which is none of today's scenarios.
pub(crate) fn complete(config: &mut BTreeMap<String, Value>, benchmark: &str, method: &str) {
    let built_in = |names: &[&str]| names.iter().any(|name| benchmark.starts_with(name));
    let scenario = match config.contains_key(DESCRIPTION) {
        false if built_in(&["split-"]) => Some("task"),
        false if built_in(&["permuted-", "rotated-"]) && method != "icarl" => Some("domain"),
        _ => None,
    };
    let known = [
        ("scenario", scenario.map(Value::text)),
        ("blur", Some(Value::Float(0.0))),
        ("visits", Some(Value::Int(1))),
        ("memory_precision", Some(Value::text("f32"))),
        ("prequential", Some(Value::Int(0))),
    ];
    for (key, value) in known {
        if let Some(value) = value {
            config.entry(key.to_owned()).or_insert(value);
        }
    }
    // Keys of methods that came later, where the method has them.
    let keys = METHODS.iter().find(|known| known.name == method).map_or(&[][..], |method| method.keys);
    let later = [
        ("average", Value::Float(0.0)),
        ("statistics", Value::text("running")),
        ("updates", Value::Int(1)),
        ("step_samples", Value::Int(1)),
        ("estimator", Value::text("weights")),
    ];
    for (name, value) in later {
        if keys.iter().any(|key| key.name == name) {
            config.entry(format!("{method}.{name}")).or_insert(value);
        }
    }
}

/// Shared settings that came after the first records, and their defaults.
const LATER: [(&str, Value); 2] = [("optimiser", Value::text("sgd")), ("epochs", Value::Int(1))];

/// The key of [`Benchmark::description`] among the settings of a run.
const DESCRIPTION: &str = "description";

/// A method with its settings.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ConfiguredMethod {
    /// The method.
    pub method: Method,
    /// Its settings.
    pub settings: Settings,
}

/// Methods to run on a benchmark, each with every seed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Experiment {
    /// The benchmark.
    pub benchmark: Arc<Benchmark>,
    /// The methods, each once.
    pub methods: Vec<ConfiguredMethod>,
    /// Settings of every run and of the benchmark.
    pub shared: Settings,
    /// The seeds, at least one.
    pub seeds: Range<u64>,
}

impl Experiment {
    /// Checks `overrides` against the tables of what there is. Later overrides take precedence.
    ///
    /// Beside the settings, `benchmark`, `method` (comma-separated names, or `all`) and `seeds` are keys.
    /// With one method its keys need no prefix.
    pub fn resolve(
        overrides: &[Override],
        benchmarks: &[Benchmark],
        methods: &[Method],
    ) -> Result<Experiment, ConfigError> {
        let last = |key: &str| overrides.iter().rev().find(|o| o.key == key).map(|o| &o.value);

        let name = last("benchmark").map_or("permuted-digits".to_owned(), Value::to_string);
        let benchmark = benchmarks
            .iter()
            .find(|b| b.name == name)
            .ok_or_else(|| ConfigError::unknown("benchmark", &name, benchmarks.iter().map(|b| &*b.name)))?;
        let names = last("method").map_or("finetune,er-ring,hal".to_owned(), Value::to_string);
        let mut chosen: Vec<Method> = Vec::new();
        for name in names.split(',').map(str::trim) {
            let found: Vec<_> = methods.iter().filter(|m| name == "all" || m.name == name).collect();
            if found.is_empty() {
                return Err(ConfigError::unknown("method", name, methods.iter().map(|m| m.name)));
            }
            for method in found {
                if chosen.iter().all(|other| other.name != method.name) {
                    chosen.push(*method);
                }
            }
        }
        let seeds = seeds(last("seeds"))?;
        let overrides = &qualified(overrides, benchmark, &chosen);

        let mut shared = shared_defaults(benchmark);
        for Override { key, value } in overrides {
            if ["benchmark", "method", "seeds"].contains(&key.as_str()) {
                continue;
            }
            if let Some(expected) = benchmark.description.as_ref().filter(|_| key == DESCRIPTION) {
                // Settings that were made for another description are refused.
                let (found, expected) = (value.to_string(), format!("`{expected}`"));
                if found != expected[1..expected.len() - 1] {
                    return Err(ConfigError::Value { key: key.clone(), found, expected });
                }
                continue;
            }
            // Any known method's keys may be set, also of one that does not run now: a file serves many runs.
            let found = find_key(key, benchmark, benchmarks, methods)?;
            let value = checked(found, key, value)?;
            if !key.contains('.') {
                shared.set(found.name, value);
            }
        }

        let settings = SharedSettings::new(&shared);
        check_size(&settings)?;
        let refused =
            |method: &&Method| method.needs_task && !method.oracle && settings.scenario != Scenario::Task;
        if let Some(method) = chosen.iter().find(refused) {
            let (method, scenario) = (method.name, shared.text("scenario").to_owned());
            return Err(ConfigError::NeedsTask { method, scenario });
        }

        let configure = |method: Method| {
            let settings = method_settings(&method, benchmark, overrides)?;
            let optimiser = shared.text("optimiser");
            if !method.gradient_step && optimiser != "sgd" {
                let expected = format!("`sgd` for `{}`, whose update is no gradient step", method.name);
                let (key, found) = ("optimiser".to_owned(), optimiser.to_owned());
                return Err(ConfigError::Value { key, found, expected });
            }
            Ok(ConfiguredMethod { method, settings })
        };
        let methods = chosen.into_iter().map(configure).collect::<Result<_, ConfigError>>()?;
        Ok(Experiment { benchmark: Arc::new(benchmark.clone()), methods, shared, seeds })
    }

    /// The runs, method by method, seed by seed.
    pub fn runs(&self) -> Vec<RunConfig> {
        let of_method = |method| self.seeds.clone().map(move |seed| self.run(method, seed));
        self.methods.iter().flat_map(of_method).collect()
    }

    /// The run of a method with a seed.
    pub fn run(&self, method: &ConfiguredMethod, seed: u64) -> RunConfig {
        RunConfig {
            benchmark: self.benchmark.clone(),
            method: method.method,
            seed,
            shared: self.shared.clone(),
            method_settings: method.settings.clone(),
        }
    }

    /// The run of the first method with the first seed.
    pub fn first_run(&self) -> RunConfig {
        self.run(&self.methods[0], self.seeds.start)
    }
}

/// Where there is one method, its keys may be named without its name: `rate` is `hal.rate`.
fn qualified(overrides: &[Override], benchmark: &Benchmark, chosen: &[Method]) -> Vec<Override> {
    let mut overrides = overrides.to_vec();
    let [method] = chosen else { return overrides };
    let has = |keys: &[Key], name: &str| keys.iter().any(|key| key.name == name);
    for Override { key, .. } in &mut overrides {
        if has(method.keys, key) && !has(SHARED, key) && !has(benchmark.keys, key) {
            *key = format!("{}.{key}", method.name);
        }
    }
    overrides
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
    benchmark: &Benchmark,
    benchmarks: &[Benchmark],
    methods: &[Method],
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
            let [benchmark, other] = [benchmark, other].map(|b| b.name.to_string());
            let key = key.to_owned();
            Err(ConfigError::Elsewhere { key, benchmark, other })
        }
        None => find(shared(), key, key),
    }
}

/// Defaults, then the preset, then what the user set.
fn method_settings(
    method: &Method,
    benchmark: &Benchmark,
    overrides: &[Override],
) -> Result<Settings, ConfigError> {
    let mut settings = Settings::defaults(method.keys, benchmark.family);
    let apply_benchmark_defaults = |settings: &mut Settings| {
        for (key, value) in benchmark.defaults.iter() {
            let name = key.strip_prefix(method.name).and_then(|rest| rest.strip_prefix('.'));
            if let Some(found) = name.and_then(|name| method.keys.iter().find(|key| key.name == name)) {
                settings.set(found.name, value.clone());
            }
        }
    };
    apply_benchmark_defaults(&mut settings);
    let set = |settings: &mut Settings, only: Option<&str>| -> Result<(), ConfigError> {
        for Override { key, value } in overrides {
            let Some((owner, name)) = key.split_once('.') else { continue };
            if owner == method.name && only.is_none_or(|only| only == name) {
                let found = find(method.keys, name, key)?;
                settings.set(found.name, checked(found, key, value)?);
            }
        }
        Ok(())
    };
    if method.keys.iter().any(|key| key.name == "preset") {
        let usual = settings.text("preset").to_owned();
        set(&mut settings, Some("preset"))?;
        let preset = settings.text("preset").to_owned();
        if preset != usual {
            // What a benchmark changes goes with the preset that it names.
            settings = Settings::defaults(method.keys, benchmark.family);
            set(&mut settings, Some("preset"))?;
        }
        for (_, values) in method.presets.iter().filter(|(name, _)| *name == preset) {
            values.iter().for_each(|(key, value)| settings.set(key, value.clone()));
        }
        if preset == usual {
            apply_benchmark_defaults(&mut settings);
        }
    }
    set(&mut settings, None)?;
    Ok(settings)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::benchmarks::BENCHMARKS;

    fn resolve(set: &[&str]) -> Result<Experiment, ConfigError> {
        let set: Vec<Override> = set.iter().map(|text| Override::parse(text).unwrap()).collect();
        Experiment::resolve(&set, BENCHMARKS, METHODS)
    }

    #[test]
    fn the_keys_of_a_single_method_need_no_prefix() {
        let one = resolve(&["method=hal", "hal.rate=0.5", "rate=0.3"]).unwrap();
        assert_eq!(one.methods[0].settings.float("rate"), 0.3);
        let shared = resolve(&["method=vcl", "samples=77"]).unwrap();
        assert_eq!(shared.first_run().shared_settings().samples, 77, "a shared key comes first");
        let refused = resolve(&["method=hal,er-ring", "rate=0.3"]).unwrap_err();
        assert_eq!(refused.to_string(), "unknown key `rate`");
    }

    #[test]
    fn a_setting_that_is_written_down_is_read_as_it_was() {
        for text in
            ["a=[2]", "a=\"[2]\"", "a=\"5\"", "a=word", "a=\" x\"", "a=5.0", "a=\"\\\"\\n\"", "a=\"\""]
        {
            let set = Override::parse(text).unwrap();
            assert_eq!(Override::parse(&set.to_string()).as_ref(), Ok(&set), "{text} became {set}");
        }
    }

    #[test]
    fn an_experiment_has_a_run_per_method_and_seed() {
        let runs = resolve(&["method=er-ring,hal", "seeds=3..5"]).unwrap().runs();
        let runs: Vec<(&str, u64)> = runs.iter().map(|run| (run.method.name, run.seed)).collect();
        assert_eq!(runs, [("er-ring", 3), ("er-ring", 4), ("hal", 3), ("hal", 4)]);
    }
}
