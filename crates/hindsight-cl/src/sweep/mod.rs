//! Search over settings by the paper's protocol: on tasks held apart for tuning, never on the evaluated ones.
//!
//! A [`Search`] is what was asked for. [`Sweep::resolve`] makes of it an ordered list of points, each a run
//! per seed; the order depends on nothing but the search, so any number of programs that are given the same
//! one agree on who does what ([`Shard`]) and on what is done already
//! ([`RunConfig::identity`]). [`Sweep::rank`] says which point is best.

mod grid;
mod rank;

pub use grid::{Grid, Shard};
pub use rank::{Standing, best_toml};

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use hindsight_data::hex::hex;
use hindsight_nn::Rng;
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::{
    benchmarks::Benchmark,
    config::{
        ConfigError, ConfiguredMethod, Experiment, Override, RunConfig, SHARED, checked, find_key, read_toml,
    },
    methods::Method,
    settings::{Key, Value},
};

/// Runs of a sweep, at most: more would take gigabytes before the first begins.
const LIMIT: usize = 100_000;

/// What to search, as a user asks for it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Search {
    /// Settings of all runs, `benchmark`, `method` and `seeds` among them; later ones rank higher.
    pub overrides: Vec<Override>,
    /// What varies. Nothing at all stands for the paper's grid.
    pub grid: Grid,
    /// Draw so many points of each method's grid instead of all.
    pub random: Option<usize>,
    /// Seed of that draw.
    pub seed: u64,
    /// Run on the evaluated tasks instead of the tuning tasks: to see how much a setting matters, not to
    /// choose it.
    pub evaluated: bool,
}

impl Search {
    /// Reads a TOML file: settings as for a run, and tables `grid` and `sweep` (`random`, `seed`,
    /// `evaluated`).
    pub fn from_toml(path: &Path) -> Result<Search, SweepError> {
        let mut table = read_toml(path)?;
        let mut search = Search::default();
        if let Some(grid) = table.remove("grid") {
            search.grid = Grid::from_toml(&grid)?;
        }
        let own = match table.remove("sweep") {
            None => toml::Table::new(),
            Some(toml::Value::Table(own)) => own,
            Some(other) => return Err(ConfigError::Malformed { found: format!("sweep = {other}") }.into()),
        };
        for (name, value) in own {
            let refused = |expected: &str| {
                let (key, found) = (format!("sweep.{name}"), value.to_string());
                SweepError::Own { key, found, expected: expected.to_owned() }
            };
            let number = |least: i64| {
                let number = value.as_integer().filter(|&n| n >= least);
                number.ok_or_else(|| refused(&format!("a whole number of at least {least}")))
            };
            match name.as_str() {
                "random" => search.random = Some(number(1)? as usize),
                "seed" => search.seed = number(0)? as u64,
                "evaluated" => {
                    search.evaluated = value.as_bool().ok_or_else(|| refused("`true` or `false`"))?;
                }
                _ => {
                    let known = ["sweep.random", "sweep.seed", "sweep.evaluated"];
                    return Err(ConfigError::unknown("key", &format!("sweep.{name}"), known).into());
                }
            }
        }
        search.overrides = Override::from_table(table)?;
        Ok(search)
    }
}

/// Why a search cannot be done.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
// The message of a variant says what its fields are.
#[allow(missing_docs)]
pub enum SweepError {
    /// A setting is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A key of the table `sweep` with a value that it does not take.
    #[error("`{key}` is `{found}`, expected {expected}")]
    Own { key: String, found: String, expected: String },
    /// Neither `paper` nor a list of values.
    #[error("`{found}` is not a grid, expected `paper` or a key with a list of values")]
    Malformed { found: String },
    /// A list without values.
    #[error("the grid has no values for `{key}`")]
    Empty { key: String },
    /// A key that is the same in all runs of a sweep.
    #[error("`{key}` cannot be in a grid")]
    Fixed { key: String },
    /// Not a part of a sweep.
    #[error("`{found}` is not a shard, expected `i/n` with i from 1 to n")]
    Shard { found: String },
    /// A product that nobody could wait for.
    #[error("with the grid of `{method}` there are {runs} runs, expected at most {LIMIT}")]
    TooMany { method: &'static str, runs: u128 },
    /// A folder that another sweep is in.
    #[error("`{}` is of another sweep: {}", path.display(), differences.join(", "))]
    Other { path: PathBuf, differences: Vec<String> },
    /// No task is held apart.
    #[error("`tuning_tasks` is 0, but a sweep runs on the tasks held apart for tuning")]
    NoTuningTasks,
}

impl SweepError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            SweepError::Config(error) => return error.hint(),
            SweepError::Own { .. } => "for example, below `[sweep]`, `random = 20`".to_owned(),
            SweepError::Malformed { .. } => {
                "for example `--grid hal.lambda=0.1,1`, or `hal.lambda = [0.1, 1.0]` below `[grid]`"
                    .to_owned()
            }
            SweepError::Empty { key } => format!("give comma-separated values, `--grid {key}=1,2`"),
            SweepError::Fixed { key } => match key.as_str() {
                "method" => "`--method hal,er-ring` searches each of them".to_owned(),
                "seeds" => "`--seeds 3` runs every point with three seeds".to_owned(),
                "tuning" => "`--evaluated` searches on the evaluated tasks".to_owned(),
                _ => "sweep over it in folders of their own, with `--set`".to_owned(),
            },
            SweepError::Shard { .. } => "`--shard 1/4` to `--shard 4/4` are the four parts".to_owned(),
            SweepError::TooMany { .. } => "`--random 100` draws some of them".to_owned(),
            SweepError::Other { .. } => {
                "choose another folder with `--out`, or let `--force` continue this one with \
                 the new settings"
                    .to_owned()
            }
            SweepError::NoTuningTasks => {
                "`--set tuning_tasks=3` holds some apart, `--evaluated` searches on the others".to_owned()
            }
        })
    }
}

/// Settings to try, with a run for every seed.
#[derive(Debug, Clone)]
pub struct GridPoint {
    /// The method.
    pub method: Method,
    /// What the grid says here, by full key.
    pub values: Vec<(String, Value)>,
    /// One per seed.
    pub runs: Vec<RunConfig>,
}

impl GridPoint {
    /// The method and what varies.
    pub fn label(&self) -> String {
        self.values.iter().fold(self.method.name.to_owned(), |label, (key, value)| {
            format!("{label} {}={value}", self.short(key))
        })
    }

    /// A key without the name of the method.
    fn short<'k>(&self, key: &'k str) -> &'k str {
        key.strip_prefix(self.method.name).and_then(|rest| rest.strip_prefix('.')).unwrap_or(key)
    }
}

/// A search, checked and spread out.
#[derive(Debug, Clone)]
pub struct Sweep {
    /// The benchmark.
    pub benchmark: Arc<Benchmark>,
    /// Method by method, in the order of the grid: shared keys first, each in the order of its table, the
    /// last one varying fastest.
    pub points: Vec<GridPoint>,
    /// Keys of the grid that belong to methods that do not run.
    pub idle: Vec<String>,
    definition: toml::Table,
}

type Axis = (String, Vec<Value>);

impl Sweep {
    /// Checks a search against the tables of what there is.
    pub fn resolve(
        search: &Search,
        benchmarks: &[Benchmark],
        methods: &[Method],
    ) -> Result<Sweep, SweepError> {
        let mut overrides = search.overrides.clone();
        set(&mut overrides, "tuning", Value::Bool(!search.evaluated));
        let base = Experiment::resolve(&overrides, benchmarks, methods)?;
        let benchmark = &base.benchmark;
        let mut grid = search.grid.clone();
        grid.paper |= grid.lists.is_empty();
        for (key, values) in &mut grid.lists {
            // What is loaded and how a sweep goes about it is the same for all its runs.
            if ["benchmark", "method", "seeds", "tuning", "image_size", "description"].contains(&key.as_str())
            {
                return Err(SweepError::Fixed { key: key.clone() });
            }
            let declared = find_key(key, benchmark, benchmarks, methods)?;
            let mut distinct: Vec<Value> = Vec::new();
            for value in values.iter() {
                let value = checked(declared, key, value)?;
                if !distinct.contains(&value) {
                    distinct.push(value);
                }
            }
            *values = distinct;
        }

        let owner = |key: &str| key.split_once('.').map(|(method, _)| method.to_owned());
        let runs = |method: &String| base.methods.iter().any(|chosen| chosen.method.name == method);
        let idle = grid.lists.iter().map(|(key, _)| key);
        let idle: BTreeSet<String> =
            idle.filter(|key| owner(key).is_some_and(|method| !runs(&method))).cloned().collect();

        let mut points = Vec::new();
        let mut searched: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        let seeds = base.seeds.clone().count();
        for ConfiguredMethod { method, .. } in &base.methods {
            let axes = axes(&grid, benchmark, method);
            for place in places(&axes, search, seeds, points.len(), method)? {
                let values = point(&axes, place);
                let mut overrides = overrides.clone();
                set(&mut overrides, "method", Value::text(method.name));
                values.iter().for_each(|(key, value)| set(&mut overrides, key, value.clone()));
                let experiment = Experiment::resolve(&overrides, benchmarks, methods)?;
                if !search.evaluated && experiment.shared.int("tuning_tasks") == 0 {
                    return Err(SweepError::NoTuningTasks);
                }
                points.push(GridPoint { method: *method, values, runs: experiment.runs() });
            }
            searched.extend(axes);
        }
        let definition = definition(search, &base, &searched);
        Ok(Sweep { benchmark: base.benchmark, points, idle: idle.into_iter().collect(), definition })
    }

    /// All runs, point by point, seed by seed.
    pub fn runs(&self) -> Vec<RunConfig> {
        self.points.iter().flat_map(|point| &point.runs).cloned().collect()
    }

    /// Everything that decides which runs there are, as a file that [`Search::from_toml`] reads.
    pub fn definition(&self) -> String {
        let text = toml::to_string(&self.definition).expect("a table of values, lists and tables");
        format!("# What this folder is a sweep of; `hindsight sweep --config` takes it.\n{text}")
    }

    /// The same as lines `key = value`.
    pub fn lines(&self) -> Vec<String> {
        flat(&self.definition).into_iter().map(|(key, value)| format!("{key} = {value}")).collect()
    }

    /// A name for a folder, the same for the same search.
    pub fn name(&self) -> String {
        let digest = Sha256::digest(self.definition());
        let digits = hex(&digest[..4]);
        format!("sweep-{}-{digits}", self.benchmark.name)
    }

    /// What is different in the definition of another sweep.
    pub fn differences(&self, other: &str) -> Vec<String> {
        let Ok(other) = toml::from_str::<toml::Table>(other) else { return vec!["not TOML".to_owned()] };
        let (here, there) = (flat(&self.definition), flat(&other));
        let keys: BTreeSet<&String> = here.keys().chain(there.keys()).collect();
        let show = |value: Option<&String>| value.map_or("not set".to_owned(), |value| format!("`{value}`"));
        keys.into_iter()
            .filter(|key| here.get(*key) != there.get(*key))
            .map(|key| format!("`{key}` was {}, now {}", show(there.get(key)), show(here.get(key))))
            .collect()
    }
}

fn set(overrides: &mut Vec<Override>, key: &str, value: Value) {
    overrides.push(Override { key: key.to_owned(), value });
}

/// What varies for a method: in the order of the tables, so that the order of flags does not matter.
fn axes(grid: &Grid, benchmark: &Benchmark, method: &Method) -> Vec<Axis> {
    let shared = SHARED.iter().chain(benchmark.keys);
    let shared = shared.filter_map(|key| Some((key.name.to_owned(), grid.list(key.name)?.to_vec())));
    let own = method.keys.iter().filter_map(|key: &Key| {
        let name = format!("{}.{}", method.name, key.name);
        let paper: Vec<Value> = key.grid.iter().map(|&x| Value::Float(x)).collect();
        let values = match grid.list(&name) {
            Some(values) => values.to_vec(),
            None if grid.paper && !paper.is_empty() => paper,
            None => return None,
        };
        Some((name, values))
    });
    shared.chain(own).collect()
}

/// Which points of the product are searched, in its order; there are `before` of other methods.
fn places(
    axes: &[Axis],
    search: &Search,
    seeds: usize,
    before: usize,
    method: &Method,
) -> Result<Vec<usize>, SweepError> {
    let all = axes.iter().try_fold(1_u128, |product, (_, values)| product.checked_mul(values.len() as u128));
    let all = all.unwrap_or(u128::MAX);
    let count = search.random.map_or(all, |count| all.min(count as u128));
    let runs = count.saturating_add(before as u128).saturating_mul(seeds as u128);
    let too_many = |runs| SweepError::TooMany { method: method.name, runs };
    if runs > LIMIT as u128 {
        return Err(too_many(runs));
    }
    let Ok(size) = usize::try_from(all) else { return Err(too_many(all)) };
    if count == all {
        return Ok((0..size).collect());
    }
    // Drawn until there are enough different ones: more points add to fewer, and methods do not disturb
    // each other.
    let mut rng = Rng::named(search.seed, &format!("sweep {}", method.name));
    let mut drawn = BTreeSet::new();
    while drawn.len() < count as usize {
        drawn.insert(rng.below(size));
    }
    Ok(drawn.into_iter().collect())
}

/// The point at a place of the product: the last axis varies fastest.
pub fn point(axes: &[Axis], mut place: usize) -> Vec<(String, Value)> {
    let mut values = Vec::new();
    for (key, list) in axes.iter().rev() {
        values.push((key.clone(), list[place % list.len()].clone()));
        place /= list.len();
    }
    values.reverse();
    values
}

fn definition(search: &Search, base: &Experiment, searched: &BTreeMap<String, Vec<Value>>) -> toml::Table {
    let mut table = toml::Table::new();
    let names: Vec<&str> = base.methods.iter().map(|chosen| chosen.method.name).collect();
    table.insert("benchmark".to_owned(), base.benchmark.name.as_ref().into());
    table.insert("method".to_owned(), names.join(",").into());
    table.insert("seeds".to_owned(), seeds(&base.seeds));
    for chosen in &base.methods {
        let run = base.run(chosen, base.seeds.start);
        // Values that come from a preset must not outrank it where it varies.
        let preset = format!("{}.preset", run.method.name);
        let bare = |key: &String| key.split_once('.').map(|(_, name)| name.to_owned());
        let given = |key: &String| {
            search.overrides.iter().any(|o| o.key == *key || bare(key).as_ref() == Some(&o.key))
        };
        let kept = |key: &String| {
            let fixed = key != "tuning" && !searched.contains_key(key);
            fixed && (!key.contains('.') || !searched.contains_key(&preset) || given(key))
        };
        for (key, value) in run.effective().into_iter().filter(|(key, _)| kept(key)) {
            insert(&mut table, &key, toml_value(&value));
        }
    }
    let lists = searched
        .iter()
        .map(|(key, values)| (key.clone(), toml::Value::Array(values.iter().map(toml_value).collect())));
    table.insert("grid".to_owned(), toml::Value::Table(lists.collect()));
    let mut own = toml::Table::new();
    if let Some(count) = search.random {
        own.insert("random".to_owned(), (count as i64).into());
        own.insert("seed".to_owned(), (search.seed as i64).into());
    }
    own.insert("evaluated".to_owned(), search.evaluated.into());
    table.insert("sweep".to_owned(), toml::Value::Table(own));
    table
}

/// Seeds as a user writes them: a number of them from 0 on, or a range.
fn seeds(Range { start, end }: &Range<u64>) -> toml::Value {
    match start {
        0 => (*end as i64).into(),
        start => format!("{start}..{end}").into(),
    }
}

/// Puts `method.key` into the table of the method.
fn insert(table: &mut toml::Table, key: &str, value: toml::Value) {
    match key.split_once('.') {
        None => drop(table.insert(key.to_owned(), value)),
        Some((owner, name)) => {
            let inner = table.entry(owner).or_insert_with(|| toml::Table::new().into());
            let inner = inner.as_table_mut().expect("no shared key is called like a method");
            inner.insert(name.to_owned(), value);
        }
    }
}

fn toml_value(value: &Value) -> toml::Value {
    toml::Value::try_from(value).expect("TOML has all kinds of values that settings have")
}

/// All entries by full key, as text.
fn flat(table: &toml::Table) -> BTreeMap<String, String> {
    let mut entries = BTreeMap::new();
    for (key, value) in table {
        match value {
            toml::Value::Table(inner) => {
                entries.extend(flat(inner).into_iter().map(|(name, value)| (format!("{key}.{name}"), value)));
            }
            value => drop(entries.insert(key.clone(), value.to_string())),
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{benchmarks::BENCHMARKS, methods::METHODS};

    fn search(settings: &[&str], grid: &[&str]) -> Search {
        let mut search = Search {
            overrides: settings.iter().map(|text| Override::parse(text).unwrap()).collect(),
            ..Search::default()
        };
        grid.iter().for_each(|text| search.grid.add(text).unwrap());
        search
    }

    fn resolve(search: &Search) -> Result<Sweep, SweepError> {
        Sweep::resolve(search, BENCHMARKS, METHODS)
    }

    fn labels(sweep: &Sweep) -> Vec<String> {
        sweep.points.iter().map(GridPoint::label).collect()
    }

    #[test]
    fn a_grid_is_the_product_of_its_lists_for_each_method() {
        let grid = ["hal.lambda=0.1,1", "slots=1,2", "ewc.lambda=3"];
        let sweep = resolve(&search(&["method=hal,er-ring", "seeds=2"], &grid)).unwrap();
        let expected = [
            "hal slots=1 lambda=0.1",
            "hal slots=1 lambda=1.0",
            "hal slots=2 lambda=0.1",
            "hal slots=2 lambda=1.0",
            "er-ring slots=1",
            "er-ring slots=2",
        ];
        assert_eq!(labels(&sweep), expected);
        assert_eq!(sweep.idle, ["ewc.lambda"]);
        let runs = sweep.runs();
        assert_eq!(runs.len(), 12);
        assert_eq!(
            (runs[3].seed, runs[3].method_settings.float("lambda"), runs[3].shared.int("slots")),
            (1, 1.0, 1)
        );
        assert!(runs.iter().all(|run| run.shared.flag("tuning")));
        let distinct: BTreeSet<String> = runs.iter().map(RunConfig::identity).collect();
        assert_eq!(distinct.len(), runs.len());

        // The order of flags and values that come twice make no difference.
        let again = resolve(&search(
            &["seeds=2", "method=hal,er-ring"],
            &["slots=1,2", "ewc.lambda=3", "hal.lambda=0.10,1.0,0.1"],
        ));
        let again = again.unwrap();
        assert_eq!((again.definition(), again.name()), (sweep.definition(), sweep.name()));
    }

    #[test]
    fn without_a_grid_the_paper_s_is_searched() {
        let sweep = resolve(&search(&["method=mer,vcl"], &[])).unwrap();
        assert_eq!(sweep.points.len(), 6 * 5 * 4 + 1);
        let sweep = resolve(&search(&["method=mer"], &["paper", "mer.rate=0.1"])).unwrap();
        assert_eq!(sweep.points.len(), 5 * 4, "a given list replaces the paper's");
        let sweep = resolve(&search(&["method=mer"], &["mer.rate=0.1,0.2"])).unwrap();
        assert_eq!(sweep.points.len(), 2, "what is not named does not vary");
    }

    #[test]
    fn random_points_are_distinct_and_more_add_to_fewer() {
        let draw = |count, seed| {
            let mut search = search(&["method=hal,mer"], &[]);
            (search.random, search.seed) = (Some(count), seed);
            labels(&resolve(&search).unwrap())
        };
        let (few, many): (BTreeSet<_>, BTreeSet<_>) =
            (draw(5, 0).into_iter().collect(), draw(50, 0).into_iter().collect());
        assert_eq!((few.len(), many.len()), (10, 100));
        assert!(few.is_subset(&many));
        assert_eq!(draw(5, 0), draw(5, 0));
        assert_ne!(draw(5, 0), draw(5, 1));
        assert_eq!(draw(10_000, 0), labels(&resolve(&search(&["method=hal,mer"], &[])).unwrap()));
    }

    #[test]
    fn tuning_is_the_default_and_needs_tasks() {
        let mut search = search(&["method=er-ring", "tuning_tasks=0"], &[]);
        assert_eq!(resolve(&search).unwrap_err(), SweepError::NoTuningTasks);
        search.evaluated = true;
        assert!(resolve(&search).unwrap().runs().iter().all(|run| !run.shared.flag("tuning")));
    }

    #[test]
    fn wrong_grids_are_refused() {
        let refused = |grid: &str| resolve(&search(&["method=hal"], &[grid])).unwrap_err();
        for key in ["method", "seeds", "benchmark", "tuning", "image_size"] {
            assert_eq!(refused(&format!("{key}=1,2")), SweepError::Fixed { key: key.to_owned() });
        }
        let text = |grid: &str| refused(grid).to_string();
        assert_eq!(text("hal.lamda=1"), "unknown key `hal.lamda`");
        assert_eq!(text("hall.lambda=1"), "unknown method `hall`");
        assert_eq!(text("ewc.lambda=-1"), "`ewc.lambda` is `-1`, expected a number from 0 to 1000000000");
        let numbers: Vec<String> = (1..=1000).map(|n| n.to_string()).collect();
        let (samples, batch) =
            (format!("samples={}", numbers.join(",")), format!("batch={}", numbers.join(",")));
        let mut huge = search(&["method=hal", "seeds=2"], &[&samples, &batch]);
        assert_eq!(resolve(&huge).unwrap_err(), SweepError::TooMany { method: "hal", runs: 2_000_000 });
        huge.random = Some(3);
        assert_eq!(resolve(&huge).unwrap().points.len(), 3);
        // Nor may methods that are few enough each be too many together.
        let many = search(&["method=finetune,vcl", "seeds=60"], &[&samples]);
        assert_eq!(resolve(&many).unwrap_err(), SweepError::TooMany { method: "vcl", runs: 120_000 });
    }

    #[test]
    fn seeds_need_not_begin_at_zero() {
        let sweep = resolve(&search(&["method=er-ring,hal", "seeds=3..5"], &["slots=1,2"])).unwrap();
        assert_eq!(sweep.points.len(), 4);
        assert_eq!(sweep.runs().iter().map(|run| run.seed).collect::<Vec<_>>(), [3, 4].repeat(4));
        assert!(sweep.lines().contains(&"seeds = \"3..5\"".to_owned()), "{:?}", sweep.lines());
        let best = best_toml(&[&sweep.points[0]]).unwrap();
        assert!(best.contains("seeds = \"3..5\""), "{best}");
    }

    #[test]
    fn a_definition_is_read_back_as_the_same_sweep() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sweep.toml");
        for (settings, grid) in [
            (
                &["method=hal,er-ring", "seeds=3", "hal.preset=stable", "hidden=[8,8]"][..],
                &["paper", "slots=1,2"][..],
            ),
            (&["method=hal", "hal.beta=0.25"], &["hal.preset=authors,stable", "hidden=[8],[16,16]"]),
            (&["method=vcl", "benchmark=rotated-digits"], &[]),
        ] {
            let mut search = search(settings, grid);
            (search.random, search.seed) = (Some(4), 7);
            let sweep = resolve(&search).unwrap();
            std::fs::write(&path, sweep.definition()).unwrap();
            let again = resolve(&Search::from_toml(&path).unwrap()).unwrap();
            assert_eq!(sweep.definition(), again.definition());
            let identities = |sweep: &Sweep| sweep.runs().iter().map(RunConfig::identity).collect::<Vec<_>>();
            assert_eq!(identities(&sweep), identities(&again), "{settings:?}");
        }
    }

    #[test]
    fn differences_between_definitions_are_named() {
        let one = resolve(&search(&["method=hal"], &["hal.lambda=0.1,1"])).unwrap();
        let mut other = search(&["method=hal", "slots=3"], &["hal.lambda=0.1"]);
        other.random = Some(1);
        let other = resolve(&other).unwrap();
        assert_eq!(one.differences(&one.definition()), Vec::<String>::new());
        let expected = [
            "`grid.hal.lambda` was `[0.1]`, now `[0.1, 1.0]`",
            "`slots` was `3`, now `1`",
            "`sweep.random` was `1`, now not set",
            "`sweep.seed` was `0`, now not set",
        ];
        assert_eq!(one.differences(&other.definition()), expected);
        assert_eq!(one.differences("= 3"), ["not TOML"]);
    }
}
