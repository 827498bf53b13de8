//! PublishedResults numbers to compare ours with: those of the paper, and those of its authors' program.

use std::{collections::BTreeMap, sync::LazyLock};

use hindsight::{
    benchmarks::BENCHMARKS,
    config::{Experiment, Override},
    methods::METHODS,
    settings::Value,
};
use serde::Deserialize;

use crate::group::{Group, Spread};

/// Settings that a published number holds for whatever their value: how often a run is evaluated, which does
/// not change the result, and the gradient of HAL's penalty, which the paper's tables leave open.
const UNSPECIFIED: [&str; 3] = ["evaluate", "evaluate_every", "hal.gradient"];

static PUBLISHED: LazyLock<Vec<PublishedResults>> =
    LazyLock::new(|| parse(include_str!("paper.toml")).expect("`paper.toml` is checked by a test"));

static PAPER: LazyLock<Reference> = LazyLock::new(|| Reference::of("paper", published()));

static PROGRAM: LazyLock<Reference> = LazyLock::new(|| {
    let rows = parse(include_str!("authors_program.toml"));
    Reference::of("authors' program", &rows.expect("`authors_program.toml` is checked by a test"))
});

/// A source of published numbers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reference {
    /// Heading of its column.
    pub name: &'static str,
    /// Its results.
    pub rows: Vec<ReferenceRow>,
}

/// One published result.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReferenceRow {
    /// The benchmark.
    pub benchmark: String,
    /// The method.
    pub method: String,
    /// The settings that it holds for.
    pub settings: BTreeMap<String, Value>,
    /// Accuracy in percent.
    pub accuracy: Option<Spread>,
    /// Forgetting, as a fraction.
    pub forgetting: Option<Spread>,
}

/// A row of a table, as printed.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedResults {
    /// The table: `t1`.
    pub table: String,
    /// The row. Its settings are those that differ from our defaults, or are varied.
    pub row: ReferenceRow,
}

/// Every row of every table of the HAL paper.
pub fn published() -> &'static [PublishedResults] {
    &PUBLISHED
}

impl Reference {
    /// The HAL paper.
    pub fn paper() -> &'static Reference {
        &PAPER
    }

    /// The program that the authors of the paper released, as run by us.
    pub fn program() -> &'static Reference {
        &PROGRAM
    }

    /// Both.
    pub fn all() -> [&'static Reference; 2] {
        [Reference::paper(), Reference::program()]
    }

    /// Every result once, with all settings that it holds for: those not given are our defaults. A row with a
    /// setting that does not exist is left out.
    fn of(name: &'static str, published: &[PublishedResults]) -> Reference {
        let mut rows: Vec<ReferenceRow> = Vec::new();
        for PublishedResults { row, .. } in published {
            let Some(settings) = complete(row) else { continue };
            let row = ReferenceRow { settings, ..row.clone() };
            let same = |other: &&mut ReferenceRow| {
                (&other.benchmark, &other.method, &other.settings)
                    == (&row.benchmark, &row.method, &row.settings)
            };
            match rows.iter_mut().find(same) {
                Some(known) => {
                    known.accuracy = known.accuracy.or(row.accuracy);
                    known.forgetting = known.forgetting.or(row.forgetting);
                }
                None => rows.push(row),
            }
        }
        Reference { name, rows }
    }

    /// The result that a group can be compared with.
    pub fn row(&self, group: &Group<'_>) -> Option<&ReferenceRow> {
        self.find(group.benchmark, group.method, |key| group.setting(key))
    }

    /// The result of a method on a benchmark, with these settings.
    pub fn find(
        &self,
        benchmark: &str,
        method: &str,
        setting: impl Fn(&str) -> Option<Value>,
    ) -> Option<&ReferenceRow> {
        self.rows.iter().find(|row| {
            let same = |(key, value): (&String, &Value)| setting(key).as_ref() == Some(value);
            (row.benchmark.as_str(), row.method.as_str()) == (benchmark, method)
                && row.settings.iter().all(same)
        })
    }
}

/// Whether a published number holds whatever the value of this key.
pub(crate) fn is_unspecified(key: &str) -> bool {
    UNSPECIFIED.contains(&key)
}

/// All settings of a row, except those that it leaves open; none if it has a key that does not exist.
fn complete(row: &ReferenceRow) -> Option<BTreeMap<String, Value>> {
    let text = |key: &str, value: &str| Override {
        key: key.to_owned(),
        value: Value::Text(value.to_owned().into()),
    };
    let mut overrides = vec![text("benchmark", &row.benchmark), text("method", &row.method)];
    overrides
        .extend(row.settings.iter().map(|(key, value)| Override { key: key.clone(), value: value.clone() }));
    let mut settings = Experiment::resolve(&overrides, BENCHMARKS, METHODS).ok()?.first_run().effective();
    settings.retain(|key, _| !is_unspecified(key));
    Some(settings)
}

/// Tables by name, each a list of rows.
fn parse(text: &str) -> Result<Vec<PublishedResults>, toml::de::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct ReferenceLine {
        benchmark: String,
        method: String,
        #[serde(default)]
        settings: BTreeMap<String, Value>,
        accuracy: Option<Number>,
        #[serde(default = "five")]
        runs: usize,
        forgetting: Option<Number>,
    }
    /// With its standard deviation over the runs, where one is given.
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Number {
        Varied([f64; 2]),
        Alone([f64; 1]),
    }
    fn five() -> usize {
        5
    }
    let spread = |number: Number, count: usize| match number {
        Number::Varied([mean, deviation]) => Spread { mean, deviation, count },
        Number::Alone([mean]) => Spread { mean, deviation: 0.0, count: 1 },
    };
    let tables: BTreeMap<String, Vec<ReferenceLine>> = toml::from_str(text)?;
    let row = |line: ReferenceLine| ReferenceRow {
        benchmark: line.benchmark,
        method: line.method,
        settings: line.settings,
        accuracy: line.accuracy.map(|number| spread(number, line.runs)),
        forgetting: line.forgetting.map(|number| spread(number, line.runs)),
    };
    let rows = tables
        .into_iter()
        .flat_map(|(table, lines)| lines.into_iter().map(move |line| (table.clone(), line)));
    Ok(rows.map(|(table, line)| PublishedResults { table, row: row(line) }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_the_paper_are_unique_and_consistent() {
        let rows = published();
        for (i, a) in rows.iter().enumerate() {
            assert!(a.row.accuracy.is_some() || a.row.forgetting.is_some(), "{a:?}");
            for b in &rows[..i] {
                let identity = |p: &PublishedResults| {
                    (p.row.benchmark.clone(), p.row.method.clone(), p.row.settings.clone())
                };
                assert!(
                    a.table != b.table || identity(a) != identity(b),
                    "twice in {}: {:?}",
                    a.table,
                    a.row
                );
                if (&a.row.benchmark, &a.row.method, complete(&a.row))
                    == (&b.row.benchmark, &b.row.method, complete(&b.row))
                {
                    let agree = |x: Option<Spread>, y: Option<Spread>| x.is_none() || y.is_none() || x == y;
                    assert!(agree(a.row.accuracy, b.row.accuracy), "{a:?} {b:?}");
                    assert!(agree(a.row.forgetting, b.row.forgetting), "{a:?} {b:?}");
                }
            }
        }
        let count = |table: &str| rows.iter().filter(|p| p.table == table).count();
        assert_eq!(["t1", "t2", "t3", "t4", "t5", "t6", "t7"].map(count), [40, 6, 4, 2, 38, 38, 18]);
    }

    #[test]
    fn numbers_are_those_of_the_paper() {
        let find = |table: &str, benchmark: &str, method: &str, setting: &str| {
            let set = |row: &ReferenceRow| {
                row.settings.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(",")
            };
            let mut rows = published().iter().filter(|p| p.table == table).map(|p| &p.row);
            rows.find(|r| r.benchmark == benchmark && r.method == method && set(r) == setting).unwrap()
        };
        for (table, benchmark, method, setting, mean, deviation) in [
            ("t1", "permuted-mnist", "finetune", "", 53.5, 1.46),
            ("t1", "rotated-mnist", "mer", "", 66.0, 2.04),
            ("t1", "split-cifar100", "icarl", "", 46.4, 1.21),
            ("t1", "split-miniimagenet", "multitask", "", 63.5, 0.0),
            ("t2", "split-cifar100", "er-ring", "slots=2", 58.6, 2.68),
            ("t3", "permuted-mnist", "hal", "hal.anchors=oracle", 73.9, 0.41),
            ("t4", "split-cifar100", "hal", "hal.anchors=real", 58.0, 0.15),
            ("t5", "permuted-mnist", "mer", "slots=5", 78.3, 0.19),
            ("t5", "split-miniimagenet", "er-ring", "slots=5", 54.2, 3.23),
            ("t7", "permuted-mnist", "hal", "hal.lambda=1.0", 73.2, 0.85),
            ("t7", "split-cifar100", "hal", "hal.beta=0.9", 59.6, 1.05),
        ] {
            let found = find(table, benchmark, method, setting).accuracy.unwrap();
            assert_eq!((found.mean, found.deviation), (mean, deviation), "{table} {benchmark} {method}");
            assert_eq!(found.count > 1, deviation > 0.0);
        }
        for (table, benchmark, method, setting, mean, deviation) in [
            ("t1", "rotated-mnist", "vcl", "", 0.5, 0.01),
            ("t6", "split-cifar100", "a-gem", "slots=3", 0.13, 0.03),
            ("t6", "rotated-mnist", "hal", "slots=5", 0.11, 0.01),
        ] {
            let found = find(table, benchmark, method, setting).forgetting.unwrap();
            assert_eq!((found.mean, found.deviation), (mean, deviation), "{table} {benchmark} {method}");
        }
    }

    #[test]
    fn every_row_is_usable() {
        let unusable = published().iter().filter(|published| complete(&published.row).is_none()).count();
        assert_eq!(unusable, 0);
        let program = parse(include_str!("authors_program.toml")).unwrap();
        assert_eq!(program.len(), 7);
        for PublishedResults { row, .. } in &program {
            assert!(complete(row).is_some() || row.method == "a-gem", "{row:?}");
        }
        let hal = Reference::program().rows.iter().find(|row| row.method == "hal").unwrap();
        assert_eq!(hal.accuracy, Some(Spread { mean: 72.61, deviation: 0.80, count: 20 }));
        assert_eq!(hal.forgetting, Some(Spread { mean: 0.102, deviation: 0.0, count: 1 }));
    }

    #[test]
    fn a_result_is_found_by_all_of_its_settings() {
        let paper = Reference::paper();
        let find = |set: &[&str]| {
            let all = ["benchmark=permuted-mnist", "method=hal"].iter().chain(set);
            let overrides: Vec<Override> = all.map(|text| Override::parse(text).unwrap()).collect();
            let run = Experiment::resolve(&overrides, BENCHMARKS, METHODS).unwrap().first_run();
            let settings = run.effective();
            let row = paper.find(&run.benchmark.name, run.method.name, |key| settings.get(key).cloned());
            row.map(|row| (row.accuracy.unwrap().mean, row.forgetting.map(|f| f.mean)))
        };
        assert_eq!(find(&[]), Some((73.6, Some(0.09))));
        assert_eq!(find(&["slots=3", "evaluate=seen"]), Some((76.2, Some(0.07))), "of two tables");
        assert_eq!(find(&["hal.lambda=1", "hal.gradient=first"]), Some((73.2, None)));
        for other in ["slots=2", "tasks=5", "hal.lambda=0.3", "samples=500"] {
            assert_eq!(find(&[other]), None, "{other}");
        }
    }
}
