//! Reproduction of the tables and figures of the HAL paper: the runs that they need, and how close our
//! numbers come.
//!
//! [`Reproduction::resolve`] turns a request into a list of different runs, since several tables may need the
//! same run; [`Reproduction::compare`] sets their results beside the published numbers.

mod compare;
mod item;

pub use compare::Comparison;
pub use item::{Entry, Item, Measure, names};

use std::collections::BTreeMap;

use thiserror::Error;

use crate::references::is_unspecified;
use hindsight::{
    benchmarks::{BENCHMARKS, Benchmark},
    config::{ConfigError, Override, RunConfig},
    methods::METHODS,
    settings::Value,
};

/// Seeds and tasks of `--quick`.
const QUICK_SEEDS: i64 = 2;
const QUICK_TASKS: i64 = 5;

/// What to reproduce.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Request {
    /// Names of tables and figures, or `all`.
    pub items: Vec<String>,
    /// Only these benchmarks; empty for all that the paper has.
    pub benchmarks: Vec<String>,
    /// Only these methods; empty for all.
    pub methods: Vec<String>,
    /// Number of seeds; the paper's five if none is given.
    pub seeds: Option<Value>,
    /// Few tasks and seeds, to see that it works.
    pub quick: bool,
    /// Settings with precedence over those of the tables.
    pub overrides: Vec<Override>,
}

/// Why something cannot be reproduced.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
// The message of a variant says what its fields are.
#[allow(missing_docs)]
pub enum ReproduceError {
    /// A name or a setting is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The tables and figures have no such benchmark or method.
    #[error("`{found}` is not in {}", asked.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "))]
    Nothing { found: String, asked: Vec<&'static str>, known: Vec<String> },
    /// A setting would change what a row is named after.
    #[error("`{key}` cannot be set: `{item}` has a row `{row}`, which would run with {found}")]
    NamedSetting { key: String, found: String, item: &'static str, row: String },
}

impl ReproduceError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            ReproduceError::Config(error) => error.hint(),
            ReproduceError::Nothing { known, .. } => Some(format!("there are {}", known.join(", "))),
            ReproduceError::NamedSetting { key, .. } => Some(match key.as_str() {
                "benchmark" | "method" => format!("choose rows with `--{key}`"),
                key => format!("`hindsight run --set {key}=…` runs other values; or leave this table out"),
            }),
        }
    }
}

/// Tables and figures, and the runs that they need.
#[derive(Debug, Clone)]
pub struct Reproduction {
    /// In the order of the paper.
    pub items: Vec<Item>,
    /// Every run once.
    pub runs: Vec<RunConfig>,
    /// Why the results must not be compared with published numbers, if so.
    pub not_comparable: Option<&'static str>,
    /// Requested benchmarks that none of the items has.
    pub absent_benchmarks: Vec<String>,
    /// Settings with precedence over those of the tables.
    overrides: Vec<Override>,
}

impl Reproduction {
    /// Checks a request and lists its runs.
    pub fn resolve(request: &Request) -> Result<Reproduction, ReproduceError> {
        let names = item::selected(&request.items)?;
        for name in &request.methods {
            if METHODS.iter().all(|method| method.name != name) {
                return Err(ConfigError::unknown("method", name, METHODS.iter().map(|m| m.name)).into());
            }
        }
        let benchmarks = item::benchmarks(&names);
        for name in &request.benchmarks {
            // Only those of the paper: there are others.
            let all = item::benchmarks(&item::names().collect::<Vec<_>>());
            if !all.contains(&name.as_str()) {
                return Err(ConfigError::unknown("benchmark", name, all).into());
            }
        }
        let (there, absent): (Vec<&String>, Vec<&String>) =
            request.benchmarks.iter().partition(|name| benchmarks.contains(&name.as_str()));
        if let (true, Some(found)) = (there.is_empty(), absent.first()) {
            let known = benchmarks.iter().map(|&benchmark| benchmark.to_owned()).collect();
            return Err(ReproduceError::Nothing { found: found.to_string(), asked: names, known });
        }
        let absent_benchmarks = absent.into_iter().cloned().collect();

        let mut changed = request.overrides.clone();
        let mut seeds = request.seeds.clone();
        if request.quick {
            seeds = seeds.or(Some(Value::Int(QUICK_SEEDS)));
            // An explicit setting takes precedence.
            if changed.iter().all(|o| o.key != "tasks") {
                changed.push(Override { key: "tasks".to_owned(), value: Value::Int(QUICK_TASKS) });
            }
        }
        let not_comparable = match request.overrides.iter().any(|o| !is_unspecified(&o.key)) {
            _ if request.quick => Some("quick"),
            true => Some("settings"),
            false => None,
        };
        let mut runs = RunList::default();
        let mut items = Vec::new();
        for name in &names {
            let wanted = |benchmark: &str| {
                request.benchmarks.is_empty() || request.benchmarks.iter().any(|b| b == benchmark)
            };
            let method =
                |method: &str| request.methods.is_empty() || request.methods.iter().any(|m| m == method);
            let item = Item::resolve(name, &wanted, &method, seeds.as_ref(), &changed, &mut runs)?;
            items.extend((!item.entries.is_empty()).then_some(item));
        }
        if items.is_empty() {
            let mut known: Vec<String> = Vec::new();
            if !request.methods.is_empty() {
                let all = Reproduction::resolve(&Request { methods: Vec::new(), ..request.clone() })?;
                for entry in all.items.iter().flat_map(|item| &item.entries) {
                    if known.iter().all(|name| name != entry.method.name) {
                        known.push(entry.method.name.to_owned());
                    }
                }
            }
            return Err(ReproduceError::Nothing { found: request.methods.join(","), asked: names, known });
        }
        Ok(Reproduction { items, runs: runs.runs, not_comparable, absent_benchmarks, overrides: changed })
    }

    /// Every entry once, even if it stands in several tables.
    pub fn entries(&self) -> Vec<&Entry> {
        let mut entries: Vec<&Entry> = Vec::new();
        for entry in self.items.iter().flat_map(|item| &item.entries) {
            if entries.iter().all(|other| other.runs != entry.runs) {
                entries.push(entry);
            }
        }
        entries
    }
}

/// Different runs.
#[derive(Default)]
struct RunList {
    runs: Vec<RunConfig>,
    index_of: BTreeMap<String, usize>,
}

impl RunList {
    /// The index of a run, which is added if it is new.
    fn index(&mut self, run: RunConfig) -> usize {
        let runs = &mut self.runs;
        *self.index_of.entry(run.identity()).or_insert_with(|| {
            runs.push(run);
            runs.len() - 1
        })
    }
}

/// The benchmark that one of our files names.
fn benchmark(name: &str) -> &'static Benchmark {
    BENCHMARKS.iter().find(|b| b.name == name).expect("the files are checked by a test")
}
