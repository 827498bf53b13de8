//! Figures: one file each, one table. A figure is a pure function of the groups of one benchmark.

mod accuracy;
mod anchors;
mod budget;
mod canvas;

mod confusion;
mod curve;
mod differences;
mod embedding;
mod forgetting;
mod matrix;
mod memory;
mod palette;
mod plot;
mod prequential;
mod raster;
mod reliability;
mod sensitivity;
mod stream;
mod tasks;
mod time;
mod tsne;

use std::collections::BTreeSet;

use canvas::{Canvas, Pen};
use palette::{Style, ThemeColor};

pub(crate) use palette::dark_css;

use hindsight::{Record, run_folder::Records, snapshot::Snapshot};

use crate::{
    escape::{file_name, slug},
    group::{Group, Spread, in_method_order, principal, ranked},
};

/// A drawn figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Its kind, such as `accuracy`.
    pub kind: &'static str,
    /// File name without the extension.
    pub name: String,
    /// Its heading.
    pub title: String,
    /// What it shows.
    pub caption: String,
    canvas: Canvas,
}

impl Figure {
    /// The figure as a self-contained SVG.
    pub fn svg(&self) -> String {
        self.canvas.svg(&self.title)
    }

    /// The figure as a PNG of twice the size of the SVG.
    pub fn png(&self) -> Vec<u8> {
        raster::png(&self.canvas)
    }

    /// Width and height of the SVG.
    pub fn size(&self) -> [f64; 2] {
        [self.canvas.width, self.canvas.height]
    }
}

/// A figure that there is no data for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Absent {
    /// Its heading.
    pub title: &'static str,
    /// The data that it needs.
    pub why: &'static str,
}

/// A kind of figure.
struct FigureKind {
    /// Part of the names of files.
    name: &'static str,
    title: &'static str,
    /// What it needs, for the message where it cannot be drawn.
    needs: &'static str,
    draw: fn(&FigureData<'_>) -> Vec<Drawing>,
}

impl FigureKind {
    fn figures(&self, benchmark: &str, view: &FigureData<'_>) -> Vec<Figure> {
        let figure = |Drawing { suffix, caption, canvas }| {
            let (name, title) = match suffix.as_str() {
                "" => (self.name.to_owned(), self.title.to_owned()),
                suffix => (format!("{}-{suffix}", self.name), format!("{}: {suffix}", self.title)),
            };
            let name = format!("{}-{}", file_name(benchmark), slug(&name));
            Figure { kind: self.name, name, title, caption, canvas }
        };
        (self.draw)(view).into_iter().map(figure).collect()
    }
}

/// A chart of a page whose lines can be switched on and off.
struct Switchable {
    canvas: Canvas,
    /// Name and colour of each line, and whether it is switched on at first.
    names: Vec<(String, ThemeColor, bool)>,
}

/// What a page shows of a benchmark first.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Lead {
    /// Accuracy as tasks are learned, as SVG.
    pub(crate) curve: Option<String>,
    /// Name of each line of it, a small sample of its colour as SVG, and whether it is drawn at first.
    pub(crate) legend: Vec<(String, String, bool)>,
    /// The matrix of the best method, as SVG.
    pub(crate) matrix: Option<String>,
}

/// The figures that a page begins a benchmark with.
pub(crate) fn lead(groups: &[Group<'_>]) -> Lead {
    let view = FigureData { groups, snapshots: &[] };
    let curve = accuracy::switchable(&view);
    let sample = |(label, ink, on): &(String, ThemeColor, bool)| {
        let mut canvas = Canvas::new(12.0, 12.0);
        canvas.rect([0.0, 0.0], [12.0, 12.0], Pen::fill(*ink), None);
        (label.clone(), canvas.svg(label), *on)
    };
    Lead {
        curve: curve.as_ref().map(|curve| curve.canvas.svg("Accuracy as tasks are learned")),
        legend: curve.iter().flat_map(|curve| &curve.names).map(sample).collect(),
        matrix: matrix::best(&view).map(|canvas| canvas.svg("Accuracy on each task after each task")),
    }
}

struct Drawing {
    suffix: String,
    caption: String,
    canvas: Canvas,
}

impl Drawing {
    fn one(canvas: Canvas, caption: impl Into<String>) -> Vec<Drawing> {
        vec![Drawing { suffix: String::new(), caption: caption.into(), canvas }]
    }
}

/// Groups in a figure, at most: nobody tells more lines apart, and pages would grow without limit.
const MOST_COMPARED: usize = 40;

/// The groups of highest accuracy, as many as a figure can show.
fn highest(mut groups: Vec<Group<'_>>) -> Vec<Group<'_>> {
    if groups.len() > MOST_COMPARED {
        let best: BTreeSet<String> =
            ranked(&groups).iter().take(MOST_COMPARED).map(|(group, _)| group.label()).collect();
        groups.retain(|group| best.contains(&group.label()));
        groups.truncate(MOST_COMPARED);
    }
    groups
}

/// The input of a figure.
struct FigureData<'v> {
    groups: &'v [Group<'v>],
    snapshots: &'v [&'v Snapshot],
}

impl<'v> FigureData<'v> {
    /// The groups that methods are compared by, see [`principal`].
    fn compared(&self) -> Vec<(Group<'v>, Style)> {
        let groups = highest(principal(self.groups));
        let styles = palette::styles(&groups);
        groups.into_iter().zip(styles).collect()
    }

    /// Of those, the three with the highest accuracy, and finetune, which all are measured by.
    fn leading(&self) -> Vec<(Group<'v>, Style)> {
        let compared = self.compared();
        let groups: Vec<Group<'v>> = compared.iter().map(|(group, _)| group.clone()).collect();
        let best: Vec<String> = ranked(&groups).iter().take(3).map(|(group, _)| group.label()).collect();
        let leads = |group: &Group<'_>| best.contains(&group.label()) || group.method == "finetune";
        compared.into_iter().filter(|(group, _)| leads(group)).collect()
    }

    /// The last sentence of a caption: what [`FigureData::compared`] left out.
    fn omission(&self) -> String {
        match self.groups.len() - self.compared().len() {
            0 => String::new(),
            n if self.compared().len() == MOST_COMPARED => {
                format!(" The {MOST_COMPARED} of highest accuracy; {n} others are left out.")
            }
            n => format!(" Of each method the settings nearest to its defaults; {n} variants are left out."),
        }
    }
}

static KINDS: &[FigureKind] = &[
    accuracy::KIND,
    stream::KIND,
    prequential::KIND,
    tasks::KIND,
    confusion::KIND,
    differences::KIND,
    forgetting::KIND,
    time::KIND,
    reliability::KIND,
    matrix::KIND,
    memory::KIND,
    budget::KIND,
    sensitivity::KIND,
    anchors::KIND,
    embedding::KIND,
];

/// All figures on the groups of one benchmark, and those that it has no data for.
pub(crate) fn draw(
    benchmark: &str,
    groups: &[Group<'_>],
    snapshots: &[&Snapshot],
) -> (Vec<Figure>, Vec<Absent>) {
    let view = FigureData { groups, snapshots };
    let (mut figures, mut absent) = (Vec::new(), Vec::new());
    for kind in KINDS {
        let drawn = kind.figures(benchmark, &view);
        if drawn.is_empty() {
            absent.push(Absent { title: kind.title, why: kind.needs });
        }
        figures.extend(drawn);
    }
    (figures, absent)
}

/// The names of the kinds of figures.
pub fn figure_kinds() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|kind| kind.name)
}

/// The figures of one kind, `memory` or `accuracy`, on records that are all of one benchmark.
pub fn figure(kind: &str, records: &Records) -> Vec<Figure> {
    let groups = in_method_order(Group::all(&records.records));
    let snapshots: Vec<&Snapshot> = records.snapshots.iter().collect();
    let view = FigureData { groups: &groups, snapshots: &snapshots };
    let (kind, first) = (KINDS.iter().find(|known| known.name == kind), groups.first());
    kind.zip(first).map_or(Vec::new(), |(kind, first)| kind.figures(first.benchmark, &view))
}

/// `mean ± deviation`, or the mean alone of a single run.
fn shown(spread: &Spread, digits: usize) -> String {
    let number = match spread {
        Spread { mean, count: 1, .. } => format!("{mean:.digits$}"),
        Spread { mean, deviation, .. } => format!("{mean:.digits$} ± {deviation:.digits$}"),
    };
    number.replace('-', "\u{2212}")
}

/// The label, with the number of runs that diverged.
fn labelled(group: &Group<'_>) -> String {
    match group.divergence() {
        Some(divergence) => format!("{}, {divergence}", group.label()),
        None => group.label(),
    }
}

/// Rows of the accuracy matrix; NaN where not evaluated.
fn matrix_rows(record: &Record) -> impl Iterator<Item = Vec<f64>> {
    record.matrix.iter().map(|row| row.iter().map(|entry| entry.unwrap_or(f64::NAN)).collect())
}
