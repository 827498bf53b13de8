//! Accuracy against a setting that was varied.

use std::collections::BTreeMap;

use super::{
    Drawing, FigureData, FigureKind, MOST_COMPARED,
    canvas::Canvas,
    palette,
    plot::{Chart, PlotLine, Point, short},
    shown,
};
use crate::group::{Group, number, without_shared_defaults};
use hindsight::settings::Value;

pub(super) const KIND: FigureKind = FigureKind {
    name: "sensitivity",
    title: "Sensitivity",
    needs: "runs of a method that differ in a numeric setting",
    draw,
};

fn draw(view: &FigureData<'_>) -> Vec<Drawing> {
    let mut keys: Vec<&str> =
        view.groups.iter().flat_map(|g| g.settings.iter().map(|(key, _)| *key)).collect();
    keys.sort_unstable();
    keys.dedup();
    let drawing = |key: &str| {
        let lines = over(view, key);
        let mut caption =
            "Mean over seeds; the band is one population standard deviation to either side.".to_owned();
        if lines.iter().flat_map(|line| &line.points).any(|point| point.y.is_none() || point.hollow) {
            caption += " Hollow: some runs diverged; a cross: all did.";
        }
        (!lines.is_empty()).then(|| Drawing { suffix: key.to_owned(), caption, canvas: chart(&lines, key) })
    };
    keys.into_iter().filter(|key| *key != "slots").filter_map(drawing).collect()
}

/// Lines over the values of `key`: groups that differ in nothing else, where there are several.
pub(super) fn over(view: &FigureData<'_>, key: &str) -> Vec<PlotLine> {
    let value =
        |group: &Group<'_>| group.settings.iter().find(|(k, _)| *k == key).and_then(|(_, v)| number(v));
    let varied = view.groups.iter().filter(|group| value(group).is_some());
    let mut families = families(varied, key);
    families.retain(|family| family.len() > 1);
    families.truncate(MOST_COMPARED);
    let stems: Vec<Group<'_>> =
        families.iter().map(|family| Group { settings: rest(family[0], key), ..family[0].clone() }).collect();
    let (styles, stems) = (palette::styles(&stems), without_shared_defaults(stems));
    let mut lines = Vec::new();
    for ((family, stem), style) in families.into_iter().zip(&stems).zip(styles) {
        let points = family.into_iter().filter_map(|group| Some(point(value(group)?, group))).collect();
        lines.push(PlotLine { label: stem.label(), style, points });
    }
    lines
}

/// Groups by what they have in common: the method, and all settings but `key`.
pub(super) fn families<'g, 'r: 'g>(
    groups: impl IntoIterator<Item = &'g Group<'r>>,
    key: &str,
) -> Vec<Vec<&'g Group<'r>>> {
    let (mut families, mut places) = (Vec::new(), BTreeMap::new());
    for group in groups {
        let place =
            *places.entry(format!("{} {:?}", group.method, rest(group, key))).or_insert(families.len());
        if place == families.len() {
            families.push(Vec::new());
        }
        families[place].push(group);
    }
    families
}

/// The settings of a group but one.
pub(super) fn rest<'r>(group: &Group<'r>, key: &str) -> Vec<(&'r str, Value)> {
    group.settings.iter().filter(|(k, _)| *k != key).cloned().collect()
}

pub(super) fn point(x: f64, group: &Group<'_>) -> Point {
    let spread = group.spread(|record| record.accuracy);
    let mut words: Vec<String> = spread.iter().map(|s| shown(s, 1)).collect();
    words.extend(group.divergence());
    Point {
        x,
        y: spread.map(|s| (s.mean, s.deviation)),
        hollow: group.diverged() > 0,
        tip: format!("{}: {}", group.label(), words.join(", ")),
    }
}

/// The lines on an axis whose ticks are the values that were tried.
pub(super) fn chart(lines: &[PlotLine], title: &str) -> Canvas {
    let mut values: Vec<f64> = lines.iter().flat_map(|line| &line.points).map(|point| point.x).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let (first, last) = (values[0], values[values.len() - 1]);
    let chart = Chart {
        x_title: title,
        y_title: "accuracy after the last task, %",
        log: first > 0.0 && last / first >= 8.0,
        ticks: values.into_iter().map(|value| (value, short(value))).collect(),
        markers: true,
        ..Chart::PLAIN
    };
    chart.draw(lines)
}
