//! Accuracy as tasks are learned: the mean over the tasks seen so far, after each.

use super::{
    Drawing, FigureData, FigureKind, Switchable, labelled, matrix_rows,
    palette::Style,
    plot::{Chart, PlotLine, Point},
    shown,
};
use crate::group::{Group, Spread};
use hindsight::{Record, metrics::mean, protocol::Status};

pub(super) const KIND: FigureKind = FigureKind {
    name: "accuracy",
    title: "Accuracy as tasks are learned",
    needs: "runs of several tasks that were evaluated after each (`evaluate = \"full\"` or `\"seen\"`)",
    draw,
};

fn draw(view: &FigureData<'_>) -> Vec<Drawing> {
    let Some((chart, lines)) = chart(view) else { return Vec::new() };
    let mut caption =
        "Mean over seeds; the band is one population standard deviation to either side.".to_owned();
    if lines.iter().any(|line| line.points.iter().any(|point| point.hollow)) {
        caption += " Hollow points: some runs had diverged, the others are averaged.";
    }
    if view.compared().iter().any(|(group, _)| joint(group)) {
        caption += " A level line is a method that learns all tasks at once.";
    }
    Drawing::one(chart.draw(&lines), caption + &view.omission())
}

/// The same chart for a page, and the names and colours of its lines: the leading methods are switched on.
pub(super) fn switchable(view: &FigureData<'_>) -> Option<Switchable> {
    let (chart, lines) = chart(view)?;
    let leading: Vec<String> = view.leading().iter().map(|(group, _)| labelled(group)).collect();
    let on: Vec<bool> = lines.iter().map(|line| leading.contains(&line.label)).collect();
    let canvas = chart.draw_switchable(&lines, &on);
    let names = lines.into_iter().zip(on).map(|(line, on)| (line.label, line.style.ink, on)).collect();
    Some(Switchable { canvas, names })
}

fn chart(view: &FigureData<'_>) -> Option<(Chart<'static>, Vec<PlotLine>)> {
    let groups = view.compared();
    let stages =
        groups.iter().flat_map(|(group, _)| &group.records).map(|r| r.matrix.len()).max().unwrap_or(0);
    let line = |(group, style): &(Group<'_>, Style)| PlotLine {
        label: labelled(group),
        style: *style,
        points: curve(group, stages),
    };
    let mut lines: Vec<PlotLine> = groups.iter().map(line).collect();
    lines.retain(|line| !line.points.is_empty());
    // Runs evaluated once, in the end, have nothing to follow.
    if lines.iter().all(|line| line.points.len() < 2) {
        return None;
    }
    let each = (stages / 20 + 1).max(1);
    let ticks = (1..=stages).filter(|task| *task == 1 || task % each == 0 || *task == stages);
    let chart = Chart {
        x_title: "tasks learned",
        y_title: "mean accuracy on the tasks seen so far, %",
        ticks: ticks.map(|task| (task as f64, task.to_string())).collect(),
        ..Chart::PLAIN
    };
    Some((chart, lines))
}

pub(super) fn joint(group: &Group<'_>) -> bool {
    // A run that diverged early has one row too.
    let joint = |r: &&Record| r.status == Status::Done && r.matrix.len() == 1 && r.matrix[0].len() > 1;
    group.records.iter().all(joint)
}

/// Mean and deviation after each task, over the runs that came so far.
fn curve(group: &Group<'_>, tasks: usize) -> Vec<Point> {
    if joint(group) {
        let last = |record: &Record| {
            matrix_rows(record).last().map(|row| 100.0 * mean(row)).filter(|a| a.is_finite())
        };
        let Some(spread) = group.spread(last) else { return Vec::new() };
        let tip = format!("{}: {}", group.label(), shown(&spread, 1));
        let at = |x: usize| Point {
            x: x as f64,
            y: Some((spread.mean, spread.deviation)),
            hollow: false,
            tip: tip.clone(),
        };
        return if tasks > 1 { vec![at(1), at(tasks)] } else { Vec::new() };
    }
    let curves: Vec<Vec<f64>> = group.records.iter().map(|record| seen(record)).collect();
    let point = |i: usize| {
        let values: Vec<f64> =
            curves.iter().filter_map(|c| c.get(i).copied()).filter(|a| a.is_finite()).collect();
        let spread = Spread::of(&values)?;
        let number = shown(&spread, 1);
        let tip = format!("{}, {} tasks: {number}", group.label(), i + 1);
        Some(Point {
            x: (i + 1) as f64,
            y: Some((spread.mean, spread.deviation)),
            hollow: values.len() < curves.len(),
            tip,
        })
    };
    let each = tasks.div_ceil(MOST_POINTS).max(1);
    (0..tasks).filter(|i| (i + 1) % each == 0 || *i == 0 || i + 1 == tasks).filter_map(point).collect()
}

/// Points of a line, about.
const MOST_POINTS: usize = 100;

/// After each task, the mean accuracy on it and those before, in percent.
fn seen(record: &Record) -> Vec<f64> {
    matrix_rows(record).enumerate().map(|(i, row)| 100.0 * mean(row.iter().take(i + 1).copied())).collect()
}
