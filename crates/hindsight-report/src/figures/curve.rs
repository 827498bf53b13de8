//! Accuracy against what has been seen of the stream: the part that figures of such curves share.

use std::collections::BTreeMap;

use hindsight::Record;

use super::{
    Drawing, FigureData, labelled,
    plot::{Chart, PlotLine, Point, ticks},
    shown,
};
use crate::group::{Group, Spread};

/// Curves of a quantity over the stream, and what a record has of it: how much was seen (`unit`), and the
/// share of right answers then.
pub(super) struct Curves<'a> {
    pub(super) unit: &'a str,
    pub(super) y_title: &'a str,
    pub(super) points: fn(&Record) -> Vec<(usize, f64)>,
    pub(super) caption: String,
}

impl Curves<'_> {
    pub(super) fn draw(self, view: &FigureData<'_>) -> Vec<Drawing> {
        let line = |(group, style)| PlotLine { label: labelled(&group), style, points: self.mean(&group) };
        let mut lines: Vec<PlotLine> = view.compared().into_iter().map(line).collect();
        lines.retain(|line| line.points.len() > 1);
        if lines.is_empty() {
            return Vec::new();
        }
        let last = lines.iter().flat_map(|line| &line.points).map(|point| point.x).fold(0.0, f64::max);
        let chart = Chart {
            x_title: &format!("{} seen", self.unit),
            y_title: self.y_title,
            ticks: ticks(0.0, last, 6).into_iter().map(|tick| (tick, tick.to_string())).collect(),
            ..Chart::PLAIN
        };
        Drawing::one(chart.draw(&lines), self.caption + &view.omission())
    }

    fn mean(&self, group: &Group<'_>) -> Vec<Point> {
        let mut values: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        let points = group.records.iter().flat_map(|record| (self.points)(record));
        for (seen, accuracy) in points.filter(|(_, accuracy)| accuracy.is_finite()) {
            values.entry(seen).or_default().push(100.0 * accuracy);
        }
        let point = |(seen, values): (usize, Vec<f64>)| {
            let spread = Spread::of(&values)?;
            let tip = format!("{}, {seen} {}: {}", group.label(), self.unit, shown(&spread, 1));
            Some(Point { x: seen as f64, y: Some((spread.mean, spread.deviation)), hollow: false, tip })
        };
        values.into_iter().filter_map(point).collect()
    }
}
