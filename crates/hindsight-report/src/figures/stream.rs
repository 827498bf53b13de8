//! Accuracy along the stream, between the ends of tasks too.

use std::collections::BTreeMap;

use super::{
    Drawing, FigureData, FigureKind, labelled,
    plot::{Chart, PlotLine, Point, ticks},
    shown,
};
use crate::group::{Group, Spread};

pub(super) const KIND: FigureKind = FigureKind {
    name: "stream",
    title: "Accuracy along the stream",
    needs: "runs with `evaluate_every` above 0",
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
        x_title: "batches seen",
        y_title: "mean accuracy on the tasks seen so far, %",
        ticks: ticks(0.0, last, 6).into_iter().map(|tick| (tick, tick.to_string())).collect(),
        log: false,
        markers: false,
        limits: [0.0, 100.0],
    };
    let caption = "Mean over seeds; the band is one population standard deviation to either side. Each new task \
                   first pulls the mean down: it counts before it is learned.";
    Drawing::one(chart.draw(&lines), caption.to_owned() + &view.omission())
}

fn curve(group: &Group<'_>) -> Vec<Point> {
    let mut values: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for point in group.records.iter().flat_map(|record| &record.curve).filter(|p| p.accuracy.is_finite()) {
        values.entry(point.batches).or_default().push(100.0 * point.accuracy);
    }
    let point = |(batches, values): (usize, Vec<f64>)| {
        let spread = Spread::of(&values)?;
        let tip = format!("{}, {batches} batches: {}", group.label(), shown(&spread, 1));
        Some(Point { x: batches as f64, y: Some((spread.mean, spread.deviation)), hollow: false, tip })
    };
    values.into_iter().filter_map(point).collect()
}
