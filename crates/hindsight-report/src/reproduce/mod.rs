//! The tables and figures of HAL's paper, run again: which runs they are made of, and how near ours come.
//!
//! [`Reproduction::resolve`] makes of what was asked for a list of different runs, since one run serves several
//! tables; [`compare`] sets what they gave beside the paper's numbers.

pub mod compare;
mod item;

pub use compare::{Comparison, Verdict};
pub use item::{Entry, Item, Measure, names};

use std::collections::BTreeMap;

use thiserror::Error;

use crate::paper::untold;
use hindsight::{
    benchmarks::{BENCHMARKS, Benchmark},
    config::{ConfigError, Override, RunConfig},
    methods::METHODS,
    settings::Value,
};

/// Seeds and tasks of a quick look.
const QUICK_SEEDS: i64 = 2;
const QUICK_TASKS: i64 = 5;

/// What to reproduce, as a user asks for it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Request {
    /// Names of tables and figures, or `all`.
    pub items: Vec<String>,
    /// On these benchmarks alone; none stands for all that the paper has.
    pub benchmarks: Vec<String>,
    /// With these methods alone; none stands for all.
    pub methods: Vec<String>,
    /// Number of seeds; the paper's five if none is given.
    pub seeds: Option<Value>,
    /// A few tasks and seeds, to see that it works.
    pub quick: bool,
    /// Settings over those of the tables.
    pub overrides: Vec<Override>,
}

/// Why something cannot be reproduced.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ReproduceError {
    /// A name or a setting is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// What was asked for has no such benchmark or method in it.
    #[error("`{found}` is not in {}", asked.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "))]
    Nothing {
        /// The benchmark or method.
        found: String,
        /// The tables and figures.
        asked: Vec<&'static str>,
        /// What there is instead.
        known: Vec<String>,
    },
}

impl ReproduceError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            ReproduceError::Config(error) => error.hint(),
            ReproduceError::Nothing { known, .. } => Some(format!("there are {}", known.join(", "))),
        }
    }
}

/// Tables and figures, and the runs that they need.
#[derive(Debug, Clone)]
pub struct Reproduction {
    /// What was asked for, in the order of the paper.
    pub items: Vec<Item>,
    /// Every run once.
    pub runs: Vec<RunConfig>,
    /// Why the results must not be compared with the paper's, if so.
    pub apart: Option<&'static str>,
    /// Benchmarks that were asked for and that none of the items has.
    pub without: Vec<String>,
    /// Settings over those of the tables.
    changed: Vec<Override>,
}

impl Reproduction {
    /// Checks what was asked for.
    pub fn resolve(request: &Request) -> Result<Reproduction, ReproduceError> {
        let names = item::chosen(&request.items)?;
        for name in &request.methods {
            if METHODS.iter().all(|method| method.name != name) {
                return Err(ConfigError::unknown("method", name, METHODS.iter().map(|m| m.name)).into());
            }
        }
        let benchmarks = item::benchmarks(&names);
        for name in &request.benchmarks {
            // Of this paper, that is: there are others.
            let all = item::benchmarks(&item::names().collect::<Vec<_>>());
            if !all.contains(&name.as_str()) {
                return Err(ConfigError::unknown("benchmark", name, all).into());
            }
        }
        let (there, without): (Vec<&String>, Vec<&String>) =
            request.benchmarks.iter().partition(|name| benchmarks.contains(&name.as_str()));
        if let (true, Some(found)) = (there.is_empty(), without.first()) {
            let known = benchmarks.iter().map(|&benchmark| benchmark.to_owned()).collect();
            return Err(ReproduceError::Nothing { found: found.to_string(), asked: names, known });
        }
        let without = without.into_iter().cloned().collect();

        let mut changed = request.overrides.clone();
        let mut seeds = request.seeds.clone();
        if request.quick {
            seeds = seeds.or(Some(Value::Int(QUICK_SEEDS)));
            // What the user says outright ranks higher.
            if changed.iter().all(|o| o.key != "tasks") {
                changed.push(Override { key: "tasks".to_owned(), value: Value::Int(QUICK_TASKS) });
            }
        }
        let apart = match request.overrides.iter().any(|o| !untold(&o.key)) {
            _ if request.quick => Some("quick"),
            true => Some("settings"),
            false => None,
        };
        let mut plan = Plan { runs: Vec::new(), places: BTreeMap::new() };
        let mut items = Vec::new();
        for name in &names {
            let wanted = |benchmark: &str| {
                request.benchmarks.is_empty() || request.benchmarks.iter().any(|b| b == benchmark)
            };
            let method =
                |method: &str| request.methods.is_empty() || request.methods.iter().any(|m| m == method);
            let item = Item::resolve(name, &wanted, &method, seeds.as_ref(), &changed, &mut plan)?;
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
        Ok(Reproduction { items, runs: plan.runs, apart, without, changed })
    }

    /// The entries that a run is in, each once, whatever table it stands in.
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

/// Runs, each once.
struct Plan {
    runs: Vec<RunConfig>,
    places: BTreeMap<String, usize>,
}

impl Plan {
    /// The place of a run, new or not.
    fn place(&mut self, run: RunConfig) -> usize {
        let runs = &mut self.runs;
        *self.places.entry(run.identity()).or_insert_with(|| {
            runs.push(run);
            runs.len() - 1
        })
    }
}

/// The benchmark of this name, which a file of ours says there is.
fn benchmark(name: &str) -> &'static Benchmark {
    BENCHMARKS.iter().find(|b| b.name == name).expect("the files are checked by a test")
}
