//! Our numbers beside the paper's and those of its authors' program.

use std::collections::{BTreeMap, BTreeSet};

use super::{Entry, Item, Measure, Reproduction};
use crate::{
    figures::{Figure, figure},
    group::Spread,
    paired::Paired,
    plural::plural,
    references::ReferenceRow,
    report::Chapter,
    tables::{Cell, Table},
    verdict::Verdict,
};
use hindsight::{
    Record, config::RunConfig, protocol::Status, run_folder::Records, settings::Settings, snapshot::Snapshot,
};

const SPREAD: &str =
    "mean ± population standard deviation over seeds; runs that diverged are counted, not averaged";
const VERDICT: &str = "verdict: with s = sqrt(published deviation² + ours²), within one std is a difference of at \
                       most s, within two of at most 2 s; a deviation that is not known counts as 0";
const PROGRAM: &str = "authors' program: the program that the authors released, run by us on this benchmark; see \
                       REPRODUCIBILITY.md";
const TIMES: &str = "the paper's figure has no numbers; times are of this machine with all that ran beside, and \
                     `--jobs 1` disturbs them least";

/// One number of ours beside the published ones.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// The paper's number.
    pub paper: Option<Spread>,
    /// The number of the authors' program.
    pub program: Option<Spread>,
    /// Ours, over the runs that did not diverge.
    pub ours: Option<Spread>,
    /// The verdict against the paper.
    pub verdict: Verdict,
    /// The verdict against the authors' program.
    pub program_verdict: Verdict,
    /// Runs that ended, diverged ones included.
    pub ended: usize,
    /// Runs that diverged.
    pub diverged: usize,
    /// Runs in all.
    pub planned: usize,
}

impl Comparison {
    /// Ours minus the paper's.
    pub fn difference(&self) -> Option<f64> {
        Some(self.ours?.mean - self.paper?.mean)
    }

    /// Ours minus that of the authors' program.
    pub fn program_difference(&self) -> Option<f64> {
        Some(self.ours?.mean - self.program?.mean)
    }

    /// Number of runs, with those that are missing or diverged.
    fn runs(&self) -> String {
        let ended = match self.ended == self.planned {
            true => self.planned.to_string(),
            false => format!("{} of {}", self.ended, self.planned),
        };
        if self.diverged > 0 { format!("{ended}, {} diverged", self.diverged) } else { ended }
    }
}

impl Reproduction {
    /// Compares the runs of an entry with the published numbers; `records` has the runs that ended, by index.
    pub fn compare(&self, entry: &Entry, measure: Measure, records: &BTreeMap<usize, Record>) -> Comparison {
        let found: Vec<&Record> = entry.runs.iter().filter_map(|index| records.get(index)).collect();
        let values: Vec<f64> = found.iter().filter_map(|record| measure.ours(record)).collect();
        let published = |row: Option<&ReferenceRow>| row.and_then(|row| measure.published(row));
        let (paper, program) = (published(entry.paper), published(entry.program));
        let ours = Spread::of(&values);
        let verdict = |published: Option<Spread>| match (published, ours) {
            _ if found.is_empty() => Verdict::NotRun,
            (_, None) => Verdict::Diverged,
            (None, _) => Verdict::NoNumber,
            (Some(published), Some(ours)) => {
                self.not_comparable.map_or_else(|| Verdict::of(published, ours), Verdict::NotComparable)
            }
        };
        Comparison {
            paper,
            program,
            ours,
            verdict: verdict(paper),
            program_verdict: verdict(program),
            ended: found.len(),
            diverged: found.iter().filter(|record| record.status == Status::Diverged).count(),
            planned: entry.runs.len(),
        }
    }

    /// The tables of an item, one for each benchmark and measure.
    pub fn tables(&self, item: &Item, records: &BTreeMap<usize, Record>) -> Vec<Table> {
        let mut tables = Vec::new();
        for entries in item.entries.chunk_by(|a, b| a.benchmark.name == b.benchmark.name) {
            for &measure in &item.measures {
                let compared: Vec<_> = entries
                    .iter()
                    .map(|entry| {
                        let label = vec![Cell::Text(entry.label.clone())];
                        (label, measure, self.compare(entry, measure, records))
                    })
                    .collect();
                let (head, rows) = columns(&["method"], &compared);
                let title = format!("{}, {}", entries[0].benchmark.name, measure.title());
                tables.push(Table { name: item.name, title, head, rows, notes: Vec::new() });
            }
        }
        tables
    }

    /// All tables of an item in one, with columns for the benchmark and the measure.
    pub fn combined_table(&self, item: &Item, records: &BTreeMap<usize, Record>) -> Table {
        let mut compared = Vec::new();
        for entries in item.entries.chunk_by(|a, b| a.benchmark.name == b.benchmark.name) {
            for &measure in &item.measures {
                compared.extend(entries.iter().map(|entry| {
                    let words = [&*entry.benchmark.name, measure.title(), &entry.label];
                    let words = words.map(|word| Cell::Text(word.to_owned())).to_vec();
                    (words, measure, self.compare(entry, measure, records))
                }));
            }
        }
        let (head, rows) = columns(&["benchmark", "measure", "method"], &compared);
        Table { name: item.name, title: item.title.clone(), head, rows, notes: self.notes(item) }
    }

    /// Explanations below the tables of an item.
    pub fn notes(&self, item: &Item) -> Vec<String> {
        let mut notes = Vec::new();
        if !item.measures.is_empty() {
            notes.push(SPREAD.to_owned());
        }
        if item.measures.iter().any(|measure| *measure != Measure::TrainSeconds) {
            notes.push(VERDICT.to_owned());
            let program = item.entries.iter().any(|entry| entry.program.is_some());
            notes.extend(program.then(|| PROGRAM.to_owned()));
        } else if !item.measures.is_empty() {
            notes.push(TIMES.to_owned());
        }
        let changed: Vec<String> =
            self.overrides.iter().map(|o| format!("{} = {}", o.key, o.value)).collect();
        if self.not_comparable.is_some() {
            notes.push(format!("not comparable with published numbers: run with {}", changed.join(", ")));
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
            let indices: BTreeSet<usize> = entries.iter().flat_map(|entry| &entry.runs).copied().collect();
            let found: Vec<Record> = indices.iter().filter_map(|index| records.get(index)).cloned().collect();
            let found = Records::with_snapshots(found, snapshots);
            figures.extend(figure(kind, &found).into_iter().map(|mut figure| {
                figure.name = format!("{}-{}", item.name, entries[0].benchmark.name);
                figure.title = format!("{}: {}", figure.title, entries[0].benchmark.name);
                figure
            }));
        }
        figures
    }

    /// An item as a chapter of a report.
    pub fn chapter(&self, item: &Item, records: &BTreeMap<usize, Record>, snapshots: &[Snapshot]) -> Chapter {
        Chapter {
            name: item.name,
            title: item.title.clone(),
            tables: self.tables(item, records),
            figures: self.figures(item, records, snapshots),
            notes: self.notes(item),
        }
    }

    /// How many numbers agree with the paper and with the authors' program, and HAL's advantage on every
    /// benchmark.
    pub fn summary(&self, records: &BTreeMap<usize, Record>) -> Vec<String> {
        let mut paper = VerdictCount::default();
        let mut program = VerdictCount::default();
        // The same number may stand in several tables.
        let mut seen = BTreeSet::new();
        for item in &self.items {
            for (entry, &measure) in
                item.entries.iter().flat_map(|e| item.measures.iter().map(move |m| (e, m)))
            {
                if seen.insert((&entry.runs, measure)) {
                    let comparison = self.compare(entry, measure, records);
                    paper.add(comparison.paper, comparison.verdict);
                    program.add(comparison.program, comparison.program_verdict);
                }
            }
        }
        let mut lines = Vec::new();
        lines.extend(paper.line("the paper"));
        lines.extend(program.line("the authors' program"));
        let mut benchmarks: Vec<&str> = Vec::new();
        for entry in self.entries() {
            if !benchmarks.contains(&&*entry.benchmark.name) {
                benchmarks.push(&entry.benchmark.name);
                lines.extend(self.claim(&entry.benchmark.name, records));
            }
        }
        lines
    }

    /// HAL's advantage over ER-Ring, the replay that it extends, where both ran as in the first table.
    fn claim(&self, benchmark: &str, records: &BTreeMap<usize, Record>) -> Option<String> {
        let entries = self.entries();
        let plain = |method: &str| {
            let mut own = entries.iter().filter(|e| e.benchmark.name == benchmark && e.method.name == method);
            // Other rows have another memory, other anchors or another strength of the penalty.
            own.find(|entry| {
                let run = &self.runs[entry.runs[0]];
                let first = run.shared.int("slots") == 1 && run.method_settings == defaults(run);
                first && entry.paper.is_some()
            })
        };
        let (hal, er) = (plain("hal")?, plain("er-ring")?);
        let pairs = hal.runs.iter().zip(&er.runs);
        let pairs = pairs.filter_map(|(a, b)| Some(records.get(a)?.accuracy? - records.get(b)?.accuracy?));
        let paired = Paired::of(pairs.collect())?;
        let theirs = hal.paper?.accuracy?.mean - er.paper?.accuracy?.mean;
        let side = |points: f64| match points {
            level if level.abs() < 0.05 => "level with".to_owned(),
            points => format!("{:.1} points {}", points.abs(), if points < 0.0 { "below" } else { "above" }),
        };
        let interval = paired.interval().map_or(String::new(), |interval| format!(" ({interval})"));
        let ours = format!("{benchmark}: hal is {} er-ring{interval}", side(paired.mean));
        Some(match self.not_comparable {
            Some(_) => ours,
            None => format!("{ours}, in the paper {}", side(theirs)),
        })
    }
}

/// Verdicts on different numbers.
#[derive(Default)]
struct VerdictCount(BTreeMap<Verdict, usize>);

impl VerdictCount {
    fn add(&mut self, published: Option<Spread>, verdict: Verdict) {
        if published.is_some() {
            *self.0.entry(verdict).or_default() += 1;
        }
    }

    fn line(&self, source: &str) -> Option<String> {
        let all: usize = self.0.values().sum();
        let parts: Vec<String> = self.0.iter().map(|(verdict, count)| format!("{count} {verdict}")).collect();
        (all > 0).then(|| format!("of {} of {source}: {}", plural(all, "number"), parts.join(", ")))
    }
}

/// The default settings of a run's method.
fn defaults(run: &RunConfig) -> Settings {
    Settings::defaults(run.method.keys, run.benchmark.family)
}

/// Headings and rows: the cells given, then the comparisons. The authors' program has columns if it has a
/// number.
fn columns(first: &[&str], compared: &[(Vec<Cell>, Measure, Comparison)]) -> (Vec<String>, Vec<Vec<Cell>>) {
    let program = compared.iter().any(|(_, _, comparison)| comparison.program.is_some());
    let mut head = first.to_vec();
    head.push("paper");
    head.extend(program.then_some("authors' program"));
    head.extend(["ours", "difference", "verdict"]);
    head.extend(program.then_some(["difference to program", "verdict on program"]).into_iter().flatten());
    head.push("runs");
    let row = |(cells, measure, comparison): &(Vec<Cell>, Measure, Comparison)| {
        let [theirs, digits] = measure.digits();
        let difference = |value: Option<f64>| match value {
            Some(value) => Cell::Difference { value, digits },
            None => Cell::Text("-".to_owned()),
        };
        let mut row = cells.clone();
        row.push(Cell::number(comparison.paper, theirs));
        row.extend(program.then(|| Cell::number(comparison.program, digits)));
        row.push(Cell::number(comparison.ours, digits));
        row.push(difference(comparison.difference()));
        row.push(Cell::Text(comparison.verdict.to_string()));
        if program {
            row.push(difference(comparison.program_difference()));
            row.push(Cell::Text(comparison.program_verdict.to_string()));
        }
        row.push(Cell::Text(comparison.runs()));
        row
    };
    (head.into_iter().map(str::to_owned).collect(), compared.iter().map(row).collect())
}
