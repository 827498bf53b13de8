//! Accuracy on the stream itself, each sample answered before it is learned from.

use hindsight::Record;

use super::{Drawing, FigureData, FigureKind, curve::Curves};

pub(super) const KIND: FigureKind = FigureKind {
    name: "prequential",
    title: "Prequential accuracy: tested, then learned",
    needs: "runs with `prequential` above 0",
    draw,
};

fn draw(view: &FigureData<'_>) -> Vec<Drawing> {
    let records = view.groups.iter().flat_map(|group| &group.records);
    let window = records.filter_map(|record| record.prequential.as_ref()).map(|curve| curve.window).max();
    let caption = format!(
        "Each batch is answered before it is learned from. Share of right answers among the last {} samples; mean over \
         seeds, the band is one population standard deviation to either side.",
        window.unwrap_or(0)
    );
    let y_title = "accuracy on the last samples of the stream, %";
    Curves { unit: "samples", y_title, points, caption }.draw(view)
}

fn points(record: &Record) -> Vec<(usize, f64)> {
    let points = record.prequential.iter().flat_map(|curve| &curve.points);
    points.map(|point| (point.samples, point.accuracy)).collect()
}
