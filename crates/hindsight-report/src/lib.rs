//! What records say: tables, figures, a page, and the summary of them. Pure functions of records.

pub mod figures;
mod group;
mod html;
mod methods_page;
mod paired;
pub(crate) mod paper;
pub mod reproduce;
mod summary;
mod tables;

pub use figures::{Absent, Figure, figure};
pub use group::{Group, Spread};
pub use html::html;
pub use methods_page::reference;
pub use paired::{Paired, paired};
pub use paper::{Paper, PaperRow, Published, published};
pub use summary::{summary, table};
pub use tables::{Cell, Table};

use hindsight::{Record, methods::METHODS, run_folder::Records, snapshot::Snapshot};

/// All that a report shows.
#[derive(Debug, Clone)]
pub struct Report<'r> {
    /// The heading.
    pub title: String,
    /// What it is made of.
    pub records: &'r Records,
    /// What comes before the benchmarks, if anything.
    pub chapters: Vec<Chapter>,
    /// One part per benchmark, in the order in which these first appear.
    pub sections: Vec<Section<'r>>,
}

/// A part of a report that is not about one benchmark alone.
#[derive(Debug, Clone, PartialEq)]
pub struct Chapter {
    /// Short name: the chapter's own place on the page.
    pub name: &'static str,
    /// Its heading.
    pub title: String,
    /// Tables.
    pub tables: Vec<Table>,
    /// Figures.
    pub figures: Vec<Figure>,
    /// What must be known to read it.
    pub notes: Vec<String>,
}

/// What is known about one benchmark.
#[derive(Debug, Clone)]
pub struct Section<'r> {
    /// The benchmark.
    pub benchmark: &'r str,
    /// Its runs.
    pub groups: Vec<Group<'r>>,
    /// Sentences that sum it up, one for each part that can be compared.
    pub summaries: Vec<String>,
    /// Tables; the first is the headline.
    pub tables: Vec<Table>,
    /// Figures.
    pub figures: Vec<Figure>,
    /// Figures that these records have no data for.
    pub absent: Vec<Absent>,
}

impl<'r> Report<'r> {
    /// The report on `records`, with the paper's numbers beside where there are some.
    pub fn new(title: &str, records: &'r Records, paper: Option<&Paper>) -> Report<'r> {
        let mut benchmarks: Vec<&str> = Vec::new();
        for record in &records.records {
            if !benchmarks.contains(&record.benchmark.as_str()) {
                benchmarks.push(&record.benchmark);
            }
        }
        let all = ordered(Group::all(&records.records));
        let section = |benchmark: &&'r str| {
            let groups: Vec<Group<'r>> =
                all.iter().filter(|group| group.benchmark == *benchmark).cloned().collect();
            let snapshots: Vec<&Snapshot> =
                records.snapshots.iter().filter(|snapshot| snapshot.benchmark == *benchmark).collect();
            let (figures, absent) = figures::draw(benchmark, &groups, &snapshots);
            let summaries = summary::summaries(&groups);
            Section { benchmark, tables: tables::all(&groups, paper), summaries, figures, absent, groups }
        };
        let sections = benchmarks.iter().map(section).collect();
        Report { title: title.to_owned(), records, chapters: Vec::new(), sections }
    }
}

/// Methods in the order of the table, whichever folder came first; those of others behind.
fn ordered(mut groups: Vec<Group<'_>>) -> Vec<Group<'_>> {
    let place = |group: &Group<'_>| METHODS.iter().position(|method| method.name == group.method);
    groups.sort_by_key(|group| place(group).unwrap_or(METHODS.len()));
    groups
}

/// A name of a file, made of a name out of a record.
pub fn file_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c.to_ascii_lowercase() } else { '-' };
    let words: String = name.chars().map(plain).collect();
    let words = words.split('-').filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-");
    if words.is_empty() { "unnamed".to_owned() } else { words.chars().take(60).collect() }
}

/// The entries of a record's matrix that were evaluated, as numbers; NaN elsewhere.
fn rows(record: &Record) -> impl Iterator<Item = Vec<f64>> {
    record.matrix.iter().map(|row| row.iter().map(|entry| entry.unwrap_or(f64::NAN)).collect())
}
