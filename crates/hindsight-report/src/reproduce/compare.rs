//! What came out, beside what the paper has.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use super::{Entry, Item, Measure, Reproduction};
use crate::{Cell, Chapter, Figure, Spread, Table, figure};
use hindsight::{
    Record, config::RunConfig, metrics::mean, protocol::Status, run_folder::Records, settings::Settings,
    snapshot::Snapshot,
};

const SPREAD: &str =
    "mean ± population standard deviation over seeds; runs that diverged are counted, not averaged";
const VERDICT: &str = "verdict: with s = sqrt(paper's deviation² + ours²), within one std is a difference of at \
                       most s, within two of at most 2 s; a deviation that is not known counts as 0";
const TIMES: &str = "the paper's figure has no numbers; times are of this machine with all that ran beside, and \
                     `--jobs 1` disturbs them least";

/// How near our number is to the paper's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The difference is at most s, the root of the sum of the squares of both standard deviations.
    WithinOne,
    /// It is at most 2 s.
    WithinTwo,
    /// It is larger.
    Outside,
    /// All runs diverged.
    Diverged,
    /// There is no run.
    NotRun,
    /// The runs are other ones than the paper's, and why.
    NotComparable(&'static str),
    /// The paper has no number.
    NoNumber,
}

impl Verdict {
    /// The verdict on two numbers.
    pub fn of(paper: Spread, ours: Spread) -> Verdict {
        let s = paper.deviation.hypot(ours.deviation);
        // Numbers like 0.3 have no exact value; one that is as far as allowed must not fall outside by that.
        match (ours.mean - paper.mean).abs() - 1e-9 {
            near if near <= s => Verdict::WithinOne,
            near if near <= 2.0 * s => Verdict::WithinTwo,
            _ => Verdict::Outside,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::WithinOne => f.write_str("within one std"),
            Verdict::WithinTwo => f.write_str("within two"),
            Verdict::Outside => f.write_str("outside"),
            Verdict::Diverged => f.write_str("diverged"),
            Verdict::NotRun => f.write_str("not run"),
            Verdict::NotComparable(why) => write!(f, "not comparable ({why})"),
            Verdict::NoNumber => f.write_str("-"),
        }
    }
}

/// One number of the paper and ours.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// The paper's.
    pub paper: Option<Spread>,
    /// Ours, over the runs that did not diverge.
    pub ours: Option<Spread>,
    /// How near they are.
    pub verdict: Verdict,
    /// Runs that ended, diverged ones included.
    pub ended: usize,
    /// Runs that diverged.
    pub diverged: usize,
    /// Runs that there should be.
    pub planned: usize,
}

impl Comparison {
    /// Ours minus the paper's.
    pub fn difference(&self) -> Option<f64> {
        Some(self.ours?.mean - self.paper?.mean)
    }

    /// How many runs ended, and how.
    fn runs(&self) -> String {
        let ended = match self.ended == self.planned {
            true => self.planned.to_string(),
            false => format!("{} of {}", self.ended, self.planned),
        };
        if self.diverged > 0 { format!("{ended}, {} diverged", self.diverged) } else { ended }
    }
}

impl Reproduction {
    /// Compares the runs of an entry, of which `records` has those that ended, by place.
    pub fn compare(&self, entry: &Entry, measure: Measure, records: &BTreeMap<usize, Record>) -> Comparison {
        let found: Vec<&Record> = entry.runs.iter().filter_map(|place| records.get(place)).collect();
        let values: Vec<f64> = found.iter().filter_map(|record| measure.ours(record)).collect();
        let (paper, ours) = (entry.paper.and_then(|row| measure.paper(row)), Spread::of(&values));
        let diverged = found.iter().filter(|record| record.status == Status::Diverged).count();
        let verdict = match (paper, ours) {
            _ if found.is_empty() => Verdict::NotRun,
            (_, None) => Verdict::Diverged,
            (None, _) => Verdict::NoNumber,
            (Some(paper), Some(ours)) => {
                self.apart.map_or_else(|| Verdict::of(paper, ours), Verdict::NotComparable)
            }
        };
        Comparison { paper, ours, verdict, ended: found.len(), diverged, planned: entry.runs.len() }
    }

    /// The tables of an item, one for each benchmark and measure.
    pub fn tables(&self, item: &Item, records: &BTreeMap<usize, Record>) -> Vec<Table> {
        let mut tables = Vec::new();
        for entries in item.entries.chunk_by(|a, b| a.benchmark.name == b.benchmark.name) {
            for &measure in &item.measures {
                let row = |entry: &Entry| {
                    let label = vec![Cell::Text(entry.label.clone())];
                    cells(label, measure, &self.compare(entry, measure, records))
                };
                tables.push(Table {
                    name: item.name,
                    title: format!("{}, {}", entries[0].benchmark.name, measure.title()),
                    head: head(&["method"]),
                    rows: entries.iter().map(row).collect(),
                    notes: Vec::new(),
                });
            }
        }
        tables
    }

    /// All tables of an item as one, which tells the benchmark and the measure in columns of their own.
    pub fn whole(&self, item: &Item, records: &BTreeMap<usize, Record>) -> Table {
        let mut rows = Vec::new();
        for entries in item.entries.chunk_by(|a, b| a.benchmark.name == b.benchmark.name) {
            for &measure in &item.measures {
                rows.extend(entries.iter().map(|entry| {
                    let words = [&entry.benchmark.name, measure.title(), &entry.label];
                    let words = words.map(|word| Cell::Text(word.to_owned())).to_vec();
                    cells(words, measure, &self.compare(entry, measure, records))
                }));
            }
        }
        let head = head(&["benchmark", "measure", "method"]);
        Table { name: item.name, title: item.title.clone(), head, rows, notes: self.notes(item) }
    }

    /// What must be known to read the tables of an item.
    pub fn notes(&self, item: &Item) -> Vec<String> {
        let mut notes = Vec::new();
        if !item.measures.is_empty() {
            notes.push(SPREAD.to_owned());
        }
        if item.measures.iter().any(|measure| *measure != Measure::TrainSeconds) {
            notes.push(VERDICT.to_owned());
        } else if !item.measures.is_empty() {
            notes.push(TIMES.to_owned());
        }
        let changed: Vec<String> = self.changed.iter().map(|o| format!("{} = {}", o.key, o.value)).collect();
        if self.apart.is_some() {
            notes.push(format!("not comparable with the paper: run with {}", changed.join(", ")));
        }
        notes
    }

    /// The figures of an item, one or more for each benchmark.
    pub fn figures(
        &self,
        item: &Item,
        records: &BTreeMap<usize, Record>,
        snapshots: &[Snapshot],
    ) -> Vec<Figure> {
        let Some(kind) = &item.figure else { return Vec::new() };
        let mut figures = Vec::new();
        for entries in item.entries.chunk_by(|a, b| a.benchmark.name == b.benchmark.name) {
            let places: BTreeSet<usize> = entries.iter().flat_map(|entry| &entry.runs).copied().collect();
            let found: Vec<Record> = places.iter().filter_map(|place| records.get(place)).cloned().collect();
            let found = Records::with_snapshots(found, snapshots);
            figures.extend(figure(kind, &found).into_iter().map(|mut figure| {
                figure.name = format!("{}-{}", item.name, entries[0].benchmark.name);
                figure.title = format!("{}: {}", figure.title, entries[0].benchmark.name);
                figure
            }));
        }
        figures
    }

    /// An item as a part of a page.
    pub fn chapter(&self, item: &Item, records: &BTreeMap<usize, Record>, snapshots: &[Snapshot]) -> Chapter {
        Chapter {
            name: item.name,
            title: item.title.clone(),
            tables: self.tables(item, records),
            figures: self.figures(item, records, snapshots),
            notes: self.notes(item),
        }
    }

    /// What it all says, in a few lines: how much of the paper came out, and its claim on every benchmark.
    pub fn summary(&self, records: &BTreeMap<usize, Record>) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let mut counts: BTreeMap<Verdict, usize> = BTreeMap::new();
        for item in &self.items {
            for (entry, &measure) in
                item.entries.iter().flat_map(|e| item.measures.iter().map(move |m| (e, m)))
            {
                let comparison = self.compare(entry, measure, records);
                // The same number stands in several tables.
                if comparison.paper.is_some() && seen.insert((&entry.runs, measure)) {
                    *counts.entry(comparison.verdict).or_default() += 1;
                }
            }
        }
        let mut lines = Vec::new();
        if !seen.is_empty() {
            let parts: Vec<String> =
                counts.iter().map(|(verdict, count)| format!("{count} {verdict}")).collect();
            let numbers = if seen.len() == 1 { "number" } else { "different numbers" };
            lines.push(format!("of {} {numbers} of the paper: {}", seen.len(), parts.join(", ")));
        }
        let mut benchmarks: Vec<&str> = Vec::new();
        for entry in self.entries() {
            if !benchmarks.contains(&&*entry.benchmark.name) {
                benchmarks.push(&entry.benchmark.name);
                lines.extend(self.claim(&entry.benchmark.name, records));
            }
        }
        lines
    }

    /// How far HAL is above the replay that it extends, where both ran as in the first table.
    fn claim(&self, benchmark: &str, records: &BTreeMap<usize, Record>) -> Option<String> {
        let entries = self.entries();
        let plain = |method: &str| {
            let mut own = entries.iter().filter(|e| e.benchmark.name == benchmark && e.method.name == method);
            // All other rows of the paper are of another memory, other anchors or another strength.
            own.find(|entry| {
                let run = &self.runs[entry.runs[0]];
                let first = run.shared.int("slots") == 1 && run.method_settings == defaults(run);
                first && entry.paper.is_some()
            })
        };
        let (hal, er) = (plain("hal")?, plain("er-ring")?);
        let pairs = hal
            .runs
            .iter()
            .zip(&er.runs)
            .filter_map(|(a, b)| Some(records.get(a)?.accuracy? - records.get(b)?.accuracy?));
        let ours = mean(pairs);
        let theirs = hal.paper?.accuracy?.mean - er.paper?.accuracy?.mean;
        let side = |points: f64| match points {
            level if level.abs() < 0.05 => "level with".to_owned(),
            points => format!("{:.1} points {}", points.abs(), if points < 0.0 { "below" } else { "above" }),
        };
        ours.is_finite().then(|| {
            let said = format!("{benchmark}: hal is {} er-ring", side(ours));
            match self.apart {
                Some(_) => said,
                None => format!("{said}, in the paper {}", side(theirs)),
            }
        })
    }
}

/// The settings of a run's method where nothing is set.
fn defaults(run: &RunConfig) -> Settings {
    Settings::defaults(run.method.keys, run.benchmark.family)
}

fn head(first: &[&str]) -> Vec<String> {
    let all = first.iter().chain(&["paper", "ours", "difference", "verdict", "runs"]);
    all.map(|&word| word.to_owned()).collect()
}

/// A row: these cells, then what is compared.
fn cells(mut row: Vec<Cell>, measure: Measure, comparison: &Comparison) -> Vec<Cell> {
    let [theirs, digits] = measure.digits();
    row.push(Cell::number(comparison.paper, theirs));
    row.push(Cell::number(comparison.ours, digits));
    row.push(match comparison.difference() {
        Some(value) => Cell::Difference { value, digits },
        None => Cell::Text("-".to_owned()),
    });
    row.push(Cell::Text(comparison.verdict.to_string()));
    row.push(Cell::Text(comparison.runs()));
    row
}
