//! Figures: one file each, one table. A figure is a pure function of the groups of one benchmark.

mod accuracy;
mod anchors;
mod canvas;
mod differences;
mod embedding;
mod forgetting;
mod matrix;
mod memory;
mod palette;
mod plot;
mod raster;
mod sensitivity;
mod stream;
mod time;
mod tsne;

use canvas::Canvas;
use palette::Style;

pub(super) use palette::dark_css;

use super::{Group, Spread, file_name, group::principal};
use hindsight::{run_folder::Records, snapshot::Snapshot};

/// A drawn figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Name of its files, without the ending.
    pub name: String,
    /// Its heading.
    pub title: String,
    /// What is to be seen in it.
    pub caption: String,
    canvas: Canvas,
}

impl Figure {
    /// As SVG, complete in itself.
    pub fn svg(&self) -> String {
        self.canvas.svg(&self.title)
    }

    /// As PNG, at twice the size of the SVG.
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
    /// What it would need.
    pub why: &'static str,
}

/// A kind of figure.
struct Kind {
    /// Part of the names of files.
    name: &'static str,
    title: &'static str,
    /// What it needs; said where it cannot be drawn.
    needs: &'static str,
    /// Any number of drawings, each with what tells it from the others, if anything, and a caption.
    draw: fn(&View<'_>) -> Vec<Drawing>,
}

impl Kind {
    fn figures(&self, benchmark: &str, view: &View<'_>) -> Vec<Figure> {
        let figure = |Drawing { suffix, caption, canvas }| {
            let (name, title) = match suffix.as_str() {
                "" => (self.name.to_owned(), self.title.to_owned()),
                suffix => (format!("{}-{suffix}", self.name), format!("{}: {suffix}", self.title)),
            };
            let name = format!("{}-{}", file_name(benchmark), file_name(&name));
            Figure { name, title, caption, canvas }
        };
        (self.draw)(view).into_iter().map(figure).collect()
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

/// What a figure is made of.
struct View<'v> {
    groups: &'v [Group<'v>],
    snapshots: &'v [&'v Snapshot],
}

impl<'v> View<'v> {
    /// The groups that methods are compared by, see [`principal`].
    fn compared(&self) -> Vec<(Group<'v>, Style)> {
        let groups = principal(self.groups);
        let styles = palette::styles(&groups);
        groups.into_iter().zip(styles).collect()
    }

    /// What [`View::compared`] left out, as a sentence to end a caption with.
    fn omission(&self) -> String {
        match self.groups.len() - self.compared().len() {
            0 => String::new(),
            n => format!(" Of each method the settings nearest to its defaults; {n} variants are left out."),
        }
    }
}

static KINDS: &[Kind] = &[
    accuracy::KIND,
    stream::KIND,
    differences::KIND,
    forgetting::KIND,
    time::KIND,
    matrix::KIND,
    memory::KIND,
    sensitivity::KIND,
    anchors::KIND,
    embedding::KIND,
];

/// All figures on the groups of one benchmark, and those that it has no data for.
pub(super) fn draw(
    benchmark: &str,
    groups: &[Group<'_>],
    snapshots: &[&Snapshot],
) -> (Vec<Figure>, Vec<Absent>) {
    let view = View { groups, snapshots };
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

/// The figures of one kind, `memory` or `accuracy`, on records that are all of one benchmark.
pub fn figure(kind: &str, records: &Records) -> Vec<Figure> {
    let groups = super::ordered(Group::all(&records.records));
    let snapshots: Vec<&Snapshot> = records.snapshots.iter().collect();
    let view = View { groups: &groups, snapshots: &snapshots };
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
