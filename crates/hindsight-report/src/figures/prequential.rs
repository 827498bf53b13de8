//! Accuracy on the stream itself, each sample answered before it is learned from.

use std::collections::BTreeMap;

use super::{
    Drawing, FigureData, FigureKind, labelled,
    plot::{Chart, PlotLine, Point, ticks},
    shown,
};
use crate::group::{Group, Spread};

pub(super) const KIND: FigureKind = FigureKind {
    name: "prequential",
    title: "Prequential accuracy: tested, then learned",
    needs: "runs with `prequential` above 0",
    draw,
};

fn draw(view: &FigureData<'_>) -> Vec<Drawing> {
    let line = |(group, style)| PlotLine { label: labelled(&group), style, points: curve(&group) };
    let mut lines: Vec<PlotLine> = view.compared().into_iter().map(line).collect();
    lines.retain(|line| line.points.len() > 1);
    if lines.is_empty() {
        return Vec::new();
    }
    let last = lines.iter().flat_map(|line| &line.points).map(|point| point.x).fold(0.0, f64::max);
    let chart = Chart {
        x_title: "samples seen",
        y_title: "accuracy on the last samples of the stream, %",
        ticks: ticks(0.0, last, 6).into_iter().map(|tick| (tick, tick.to_string())).collect(),
        log: false,
        markers: false,
        limits: [0.0, 100.0],
    };
    let windows = view.groups.iter().flat_map(|group| &group.records);
    let window = windows.filter_map(|record| record.prequential.as_ref()).map(|curve| curve.window).max();
    let caption = format!(
        "Each batch is answered before it is learned from. Share of right answers among the last {} samples; mean over \
         seeds, the band is one population standard deviation to either side.",
        window.unwrap_or(0)
    );
    Drawing::one(chart.draw(&lines), caption + &view.omission())
}

fn curve(group: &Group<'_>) -> Vec<Point> {
    let mut values: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    let curves = group.records.iter().filter_map(|record| record.prequential.as_ref());
    for point in curves.flat_map(|curve| &curve.points).filter(|point| point.accuracy.is_finite()) {
        values.entry(point.samples).or_default().push(100.0 * point.accuracy);
    }
    let point = |(samples, values): (usize, Vec<f64>)| {
        let spread = Spread::of(&values)?;
        let tip = format!("{}, {samples} samples: {}", group.label(), shown(&spread, 1));
        Some(Point { x: samples as f64, y: Some((spread.mean, spread.deviation)), hollow: false, tip })
    };
    values.into_iter().filter_map(point).collect()
}
