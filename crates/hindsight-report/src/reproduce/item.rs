//! One table or figure: its file under `tables`, and the runs that this describes.

use std::sync::Arc;

use serde::Deserialize;

use super::{ReproduceError, RunList, benchmark};
use crate::{
    group::Spread,
    references::{Reference, ReferenceRow},
};
use hindsight::{
    Record,
    benchmarks::{BENCHMARKS, Benchmark},
    config::{ConfigError, Experiment, Override, RunConfig},
    methods::{METHODS, Method},
    settings::Value,
    sweep::{Grid, point},
};

static FILES: [(&str, &str); 11] = [
    ("t1", include_str!("tables/t1.toml")),
    ("t2", include_str!("tables/t2.toml")),
    ("t3", include_str!("tables/t3.toml")),
    ("t4", include_str!("tables/t4.toml")),
    ("t5", include_str!("tables/t5.toml")),
    ("t6", include_str!("tables/t6.toml")),
    ("t7", include_str!("tables/t7.toml")),
    ("f1", include_str!("tables/f1.toml")),
    ("f2", include_str!("tables/f2.toml")),
    ("f3", include_str!("tables/f3.toml")),
    ("f4", include_str!("tables/f4.toml")),
];

/// The names of all tables and figures, in the order of the paper.
pub fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(name, _)| *name)
}

/// A table or figure to reproduce.
#[derive(Debug, Clone)]
pub struct Item {
    /// Its name: `t1`.
    pub name: &'static str,
    /// What it shows.
    pub title: String,
    /// The kind of figure, if it is one.
    pub figure: Option<String>,
    /// The measures that it compares.
    pub measures: Vec<Measure>,
    /// Its rows, grouped by benchmark.
    pub entries: Vec<Entry>,
}

/// A method with its settings on a benchmark, with a run for every seed.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The benchmark.
    pub benchmark: Arc<Benchmark>,
    /// The method.
    pub method: Method,
    /// The method, and the settings that distinguish it from other entries.
    pub label: String,
    /// Indices into [`Reproduction::runs`](super::Reproduction::runs), one per seed.
    pub runs: Vec<usize>,
    /// The paper's result.
    pub paper: Option<&'static ReferenceRow>,
    /// The result of the authors' program.
    pub program: Option<&'static ReferenceRow>,
}

/// A measure that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Accuracy after the last task.
    Accuracy,
    /// Fall from each task's peak.
    Forgetting,
    /// Seconds of training.
    TrainSeconds,
}

impl Measure {
    /// Its name, with the unit.
    pub fn title(self) -> &'static str {
        match self {
            Measure::Accuracy => "accuracy %",
            Measure::Forgetting => "forgetting",
            Measure::TrainSeconds => "train s",
        }
    }

    /// Digits after the point: of the paper's numbers, and of ours.
    pub(super) fn digits(self) -> [usize; 2] {
        match self {
            Measure::Accuracy => [1, 1],
            Measure::Forgetting => [2, 3],
            Measure::TrainSeconds => [2, 2],
        }
    }

    /// The value of a record; none if its run diverged.
    pub(super) fn ours(self, record: &Record) -> Option<f64> {
        match self {
            Measure::Accuracy => record.accuracy,
            Measure::Forgetting => record.forgetting,
            Measure::TrainSeconds => record.accuracy.map(|_| record.train_seconds),
        }
    }

    /// The published value.
    pub(super) fn published(self, row: &ReferenceRow) -> Option<Spread> {
        match self {
            Measure::Accuracy => row.accuracy,
            Measure::Forgetting => row.forgetting,
            // The paper has a figure without numbers.
            Measure::TrainSeconds => None,
        }
    }
}

/// The requested items, each once, in the order of the paper.
pub(super) fn selected(asked: &[String]) -> Result<Vec<&'static str>, ConfigError> {
    let asked: Vec<String> = asked.iter().map(|name| name.to_lowercase()).collect();
    for name in &asked {
        if name != "all" && names().all(|known| known != name) {
            return Err(ConfigError::unknown("table or figure", name, names().chain(["all"])));
        }
    }
    Ok(names().filter(|known| asked.iter().any(|name| name == "all" || name == known)).collect())
}

/// The benchmarks of some items, in the order in which they first appear.
pub(super) fn benchmarks(names: &[&str]) -> Vec<&'static str> {
    let mut found: Vec<&'static str> = Vec::new();
    for file in names.iter().map(|name| ItemFile::read(name)) {
        for name in file.blocks.iter().flat_map(|block| &block.benchmarks) {
            let name = &*benchmark(name).name;
            if !found.contains(&name) {
                found.push(name);
            }
        }
    }
    found
}

impl Item {
    pub(super) fn resolve(
        name: &'static str,
        wanted: &dyn Fn(&str) -> bool,
        method: &dyn Fn(&str) -> bool,
        seeds: Option<&Value>,
        changed: &[Override],
        runs: &mut RunList,
    ) -> Result<Item, ReproduceError> {
        let file = ItemFile::read(name);
        let mut entries = Vec::new();
        for benchmark in benchmarks(&[name]).into_iter().filter(|benchmark| wanted(benchmark)) {
            for block in file.blocks.iter().filter(|block| block.benchmarks.iter().any(|b| b == benchmark)) {
                entries.extend(block.entries(name, benchmark, method, seeds, changed, runs)?);
            }
        }
        Ok(Item { name, title: file.title, figure: file.figure, measures: file.measures, entries })
    }
}

/// The content of a file.
struct ItemFile {
    title: String,
    figure: Option<String>,
    measures: Vec<Measure>,
    blocks: Vec<RunBlock>,
}

/// A `[[runs]]` table: every method at every point of the grid, on every benchmark.
struct RunBlock {
    benchmarks: Vec<String>,
    /// All settings, those of the file's head first.
    overrides: Vec<Override>,
    /// How many of these are of the file's head.
    common: usize,
    grid: Grid,
}

impl ItemFile {
    /// Reads one of the files above.
    fn read(name: &str) -> ItemFile {
        let (_, text) = FILES.iter().find(|(known, _)| *known == name).expect("a name of the table");
        ItemFile::parse(text).unwrap_or_else(|error| panic!("`tables/{name}.toml`: {error}"))
    }

    /// A head with settings as for a run, `title`, `measures` and `figure`, then any number of `[[runs]]`
    /// with settings that take precedence and a `grid` as for a sweep.
    fn parse(text: &str) -> Result<ItemFile, String> {
        #[derive(Deserialize)]
        struct TableHead {
            title: String,
            figure: Option<String>,
            measures: Vec<Measure>,
            runs: Vec<toml::Table>,
        }
        let mut table: toml::Table = toml::from_str(text).map_err(|error| error.to_string())?;
        let head: TableHead = table.clone().try_into().map_err(|error: toml::de::Error| error.to_string())?;
        ["title", "figure", "measures", "runs"].iter().for_each(|key| drop(table.remove(*key)));
        let everywhere = take_benchmarks(&mut table);
        let common = Override::from_table(table).map_err(|error| error.to_string())?;
        let block = |mut own: toml::Table| {
            let grid = own.remove("grid").map_or(Ok(Grid::default()), |grid| Grid::from_toml(&grid));
            let benchmarks = take_benchmarks(&mut own).or(everywhere.clone()).ok_or("no benchmark")?;
            let mut overrides = common.clone();
            overrides.extend(Override::from_table(own).map_err(|error| error.to_string())?);
            let grid = grid.map_err(|error| error.to_string())?;
            Ok(RunBlock { benchmarks, overrides, common: common.len(), grid })
        };
        let blocks = head.runs.into_iter().map(block).collect::<Result<_, String>>()?;
        Ok(ItemFile { title: head.title, figure: head.figure, measures: head.measures, blocks })
    }
}

/// Removes the benchmarks from a table: one name, or several.
fn take_benchmarks(table: &mut toml::Table) -> Option<Vec<String>> {
    match table.remove("benchmark")? {
        toml::Value::Array(names) => names.iter().map(|name| Some(name.as_str()?.to_owned())).collect(),
        name => Some(vec![name.as_str()?.to_owned()]),
    }
}

impl RunBlock {
    fn entries(
        &self,
        item: &'static str,
        benchmark: &str,
        wanted: &dyn Fn(&str) -> bool,
        seeds: Option<&Value>,
        changed: &[Override],
        runs: &mut RunList,
    ) -> Result<Vec<Entry>, ReproduceError> {
        let over = |key: &str, value: Value| Override { key: key.to_owned(), value };
        let text = |key: &str, word: &str| over(key, Value::Text(word.to_owned().into()));
        let mut base = self.overrides.clone();
        base.push(text("benchmark", benchmark));
        // A file without `seeds` shows one seed only.
        let several = self.overrides.iter().any(|o| o.key == "seeds");
        base.extend(seeds.filter(|_| several).map(|seeds| over("seeds", seeds.clone())));
        let mut entries = Vec::new();
        let methods = Experiment::resolve(&base, BENCHMARKS, METHODS)?.methods.into_iter();
        for method in methods.map(|chosen| chosen.method).filter(|method| wanted(method.name)) {
            for index in 0..self.grid.lists.iter().map(|(_, values)| values.len()).product() {
                let values = point(&self.grid.lists, index);
                let mut overrides = base.clone();
                overrides.push(text("method", method.name));
                overrides.extend(values.iter().map(|(key, value)| over(key, value.clone())));
                // The published number is that of the table's settings, whatever the user changed.
                let planned = Experiment::resolve(&overrides, BENCHMARKS, METHODS)?.first_run();
                let settings = planned.effective();
                let find = |reference: &'static Reference| {
                    reference.find(benchmark, method.name, |key| settings.get(key).cloned())
                };
                overrides.extend_from_slice(changed);
                let experiment = Experiment::resolve(&overrides, BENCHMARKS, METHODS)?;
                let label = self.label(&method, &values);
                if let Some((key, found)) = self.changed_name(&planned, &experiment.first_run(), &values) {
                    return Err(ReproduceError::NamedSetting { key, found, item, row: label });
                }
                entries.push(Entry {
                    benchmark: planned.benchmark.clone(),
                    method,
                    label,
                    runs: experiment.runs().into_iter().map(|run| runs.index(run)).collect(),
                    paper: find(Reference::paper()),
                    program: find(Reference::program()),
                });
            }
        }
        Ok(entries)
    }

    /// The first key that rows are named after and that is not as planned, with the value found.
    fn changed_name(
        &self,
        planned: &RunConfig,
        found: &RunConfig,
        values: &[(String, Value)],
    ) -> Option<(String, String)> {
        let names = [
            ("benchmark", &*planned.benchmark.name, &*found.benchmark.name),
            ("method", planned.method.name, found.method.name),
        ];
        if let Some((key, _, found)) = names.into_iter().find(|(_, planned, found)| planned != found) {
            return Some((key.to_owned(), format!("`{found}`")));
        }
        let (planned, found) = (planned.effective(), found.effective());
        let mut keys = self.named_settings(values).map(|(key, _)| key);
        let key = keys.find(|key| planned.get(*key) != found.get(*key))?;
        Some((key.clone(), found.get(key).map_or("nothing".to_owned(), |value| format!("`{value}`"))))
    }

    /// The settings that distinguish the rows of this block: its own, and those of the grid.
    fn named_settings<'b>(
        &'b self,
        values: &'b [(String, Value)],
    ) -> impl Iterator<Item = (&'b String, &'b Value)> {
        let own = self.overrides[self.common..].iter().map(|o| (&o.key, &o.value));
        own.chain(values.iter().map(|(key, value)| (key, value)))
    }

    /// The method, with the settings of this block that it uses.
    fn label(&self, method: &Method, values: &[(String, Value)]) -> String {
        let settings = self.named_settings(values);
        let shown = settings.filter(|(key, _)| *key != "method").filter_map(|(key, value)| {
            let short = match key.split_once('.') {
                Some((owner, name)) => (owner == method.name).then_some(name)?,
                None => key,
            };
            Some(format!("{short}={value}"))
        });
        let shown: Vec<String> = shown.collect();
        if shown.is_empty() {
            method.name.to_owned()
        } else {
            format!("{} ({})", method.name, shown.join(", "))
        }
    }
}
