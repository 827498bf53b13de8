//! How often an answer of some probability is right.

use std::collections::BTreeMap;

use super::{
    Drawing, FigureData, FigureKind,
    palette::{Style, ThemeColor},
    plot::{Chart, PlotLine, Point},
};
use crate::group::Group;

pub(super) const KIND: FigureKind = FigureKind {
    name: "reliability",
    title: "Reliability of probabilities in the end",
    needs: "records of this version, of methods with probabilities",
    draw,
};

fn draw(view: &FigureData<'_>) -> Vec<Drawing> {
    let mut lines: Vec<PlotLine> = Vec::new();
    for (group, style) in view.leading() {
        let error = group.spread(|record| record.detail.as_ref()?.calibration_error);
        let Some(error) = error else { continue };
        let label = format!("{}, error {:.3}", group.label(), error.mean);
        lines.push(PlotLine { label, style, points: points(&group) });
    }
    lines.retain(|line| !line.points.is_empty());
    if lines.is_empty() {
        return Vec::new();
    }
    let ideal =
        |x: f64| Point { x, y: Some((x, 0.0)), hollow: false, tip: "as often right as said".to_owned() };
    lines.push(PlotLine {
        label: "ideal".to_owned(),
        style: Style { ink: ThemeColor::Muted, dash: &[2.0, 2.5] },
        points: vec![ideal(0.0), ideal(100.0)],
    });
    let chart = Chart {
        x_title: "probability that the learner gives its answer, %",
        y_title: "answers that are right, %",
        ticks: (0..=5).map(|i| (20.0 * f64::from(i), (20 * i).to_string())).collect(),
        markers: true,
        ..Chart::PLAIN
    };
    let caption = "Up to 2000 test samples over all tasks, after the last one, in 15 bins by the probability of the answer; \
                   all seeds together. Below the dotted line a learner is too sure of itself. The expected calibration \
                   error is the mean distance from it, weighted by the samples in each bin.";
    Drawing::one(chart.draw(&lines), caption)
}

/// Accuracy and confidence by bin, over all seeds.
fn points(group: &Group<'_>) -> Vec<Point> {
    let mut bins: BTreeMap<u32, (f64, f64, f64)> = BTreeMap::new();
    for bin in group.records.iter().filter_map(|r| r.detail.as_ref()).flat_map(|d| &d.reliability) {
        let place = (bin.confidence.clamp(0.0, 1.0) * 15.0).ceil() as u32;
        let (count, confidence, right) = bins.entry(place).or_default();
        let n = f64::from(bin.count);
        (*count, *confidence, *right) =
            (*count + n, *confidence + n * bin.confidence, *right + n * bin.accuracy);
    }
    let point = |&(count, confidence, right): &(f64, f64, f64)| {
        let (x, y) = (100.0 * confidence / count, 100.0 * right / count);
        let tip = format!("{}: {count:.0} answers at {x:.0} %, {y:.1} % right", group.label());
        Point { x, y: Some((y, 0.0)), hollow: false, tip }
    };
    bins.values().filter(|(count, ..)| *count > 0.0).map(point).collect()
}
