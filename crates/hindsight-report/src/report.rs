//! What a report shows, as values: chapters, and a section per benchmark.

use std::collections::BTreeSet;

use hindsight::{run_folder::Records, snapshot::Snapshot};

use crate::{
    benchmark_tables,
    figures::{self, Absent, Figure, Lead},
    group::{Group, in_method_order},
    references::Reference,
    summary,
    tables::Table,
};

/// The content of a report.
#[derive(Debug, Clone)]
pub struct Report<'r> {
    /// Heading of the page.
    pub title: String,
    /// The records that it shows.
    pub records: &'r Records,
    /// Chapters before the sections.
    pub chapters: Vec<Chapter>,
    /// One per benchmark, in the order in which benchmarks first appear.
    pub sections: Vec<Section<'r>>,
    /// The runs under way, where the page is written anew as they go on.
    pub live: Option<Live>,
}

/// What a page that is written anew says about runs without a record yet.
#[derive(Debug, Clone, PartialEq)]
pub struct Live {
    /// After how many seconds the page loads itself again.
    pub seconds: u32,
    /// The runs.
    pub runs: Vec<hindsight::run_folder::RunningRun>,
}

/// A part of a report that is not about one benchmark alone.
#[derive(Debug, Clone, PartialEq)]
pub struct Chapter {
    /// Short name, and its anchor on the page.
    pub name: &'static str,
    /// Heading.
    pub title: String,
    /// Tables.
    pub tables: Vec<Table>,
    /// Figures.
    pub figures: Vec<Figure>,
    /// Explanations below it.
    pub notes: Vec<String>,
}

/// Benchmarks with figures, at most: drawing takes nearly all of the time of a report.
pub(crate) const MOST_DRAWN: usize = 20;

/// The results on one benchmark.
#[derive(Debug, Clone)]
pub struct Section<'r> {
    /// The benchmark.
    pub benchmark: &'r str,
    /// Its runs, by method and settings.
    pub groups: Vec<Group<'r>>,
    /// A sentence for each set of groups that can be compared.
    pub summaries: Vec<String>,
    /// Tables; the first is the headline.
    pub tables: Vec<Table>,
    /// What a page shows first.
    pub(crate) lead: Lead,
    /// Figures.
    pub figures: Vec<Figure>,
    /// Figures that the records have no data for.
    pub absent: Vec<Absent>,
}

impl<'r> Report<'r> {
    /// The report on `records`, with published numbers beside ours where there are some.
    pub fn new(title: &str, records: &'r Records, references: &[&Reference]) -> Report<'r> {
        let mut benchmarks: Vec<&str> = Vec::new();
        for record in &records.records {
            if !benchmarks.contains(&record.benchmark.as_str()) {
                benchmarks.push(&record.benchmark);
            }
        }
        let all = in_method_order(Group::all(&records.records));
        let section = |(number, benchmark): (usize, &&'r str)| {
            let groups: Vec<Group<'r>> =
                all.iter().filter(|group| group.benchmark == *benchmark).cloned().collect();
            let snapshots: Vec<&Snapshot> =
                records.snapshots.iter().filter(|snapshot| snapshot.benchmark == *benchmark).collect();
            let (figures, absent, lead) = match number < MOST_DRAWN {
                true => {
                    let (figures, absent) = figures::draw(benchmark, &groups, &snapshots);
                    (figures, absent, figures::lead(&groups))
                }
                false => Default::default(),
            };
            let summaries = summary::summaries(&groups);
            Section {
                benchmark,
                tables: benchmark_tables::tables(&groups, references),
                summaries,
                lead,
                figures,
                absent,
                groups,
            }
        };
        let mut sections: Vec<Section<'r>> = benchmarks.iter().enumerate().map(section).collect();
        let mut names = BTreeSet::new();
        for figure in sections.iter_mut().flat_map(|section| &mut section.figures) {
            let name = figure.name.clone();
            // Figures of different settings may differ in nothing that a file name can hold.
            for number in 2.. {
                if names.insert(figure.name.clone()) {
                    break;
                }
                figure.name = format!("{name}-{number}");
            }
        }
        Report { title: title.to_owned(), records, chapters: Vec::new(), sections, live: None }
    }
}
