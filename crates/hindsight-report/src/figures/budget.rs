//! Accuracy against what it costs: bytes that a learner holds, and seconds of training.

use super::{
    Drawing, FigureData, FigureKind, MOST_COMPARED, palette,
    plot::{Chart, PlotLine},
    sensitivity::{families, point, rest},
};
use crate::group::{Group, without_shared_defaults};

pub(super) const KIND: FigureKind = FigureKind {
    name: "budget",
    title: "Accuracy against budget",
    needs: "at least three methods or sizes of memory",
    draw,
};

/// What a run costs, on an axis.
struct Cost {
    name: &'static str,
    title: &'static str,
    of: fn(&Group<'_>) -> Option<f64>,
    label: fn(f64) -> String,
    /// How runs of several seeds give one number.
    caption: &'static str,
}

const COSTS: [Cost; 2] = [
    Cost {
        name: "bytes",
        title: "bytes held beyond the parameters",
        of: |group| Some(group.spread(|record| Some(record.memory_bytes as f64))?.mean),
        label: |bytes| match bytes {
            ..1e3 => format!("{bytes} B"),
            ..1e6 => format!("{} kB", bytes / 1e3),
            _ => format!("{} MB", bytes / 1e6),
        },
        caption: "",
    },
    Cost {
        name: "seconds",
        title: "seconds of training",
        // Other work on a machine makes a run slower, never faster.
        of: |group| group.records.iter().map(|record| record.train_seconds).min_by(f64::total_cmp),
        label: |seconds| format!("{seconds}"),
        caption: " Time is that of the fastest seed.",
    },
];

fn draw(view: &FigureData<'_>) -> Vec<Drawing> {
    COSTS.iter().filter_map(|cost| drawing(view, cost)).collect()
}

fn drawing(view: &FigureData<'_>, cost: &Cost) -> Option<Drawing> {
    let known = |group: &&Group<'_>| group.spread(|record| record.accuracy).is_some();
    let (paid, free): (Vec<&Group<'_>>, Vec<_>) =
        view.groups.iter().filter(known).partition(|group| of(group, cost) > 0.0);
    let mut families = families(paid, "slots");
    families.truncate(MOST_COMPARED);
    let all: Vec<&Group<'_>> = families.iter().flatten().copied().collect();
    if all.len() < 3 {
        return None;
    }
    let stems: Vec<Group<'_>> = families
        .iter()
        .map(|family| Group { settings: rest(family[0], "slots"), ..family[0].clone() })
        .collect();
    let (styles, stems) = (palette::styles(&stems), without_shared_defaults(stems));
    let mut lines = Vec::new();
    for ((mut family, stem), style) in families.into_iter().zip(&stems).zip(styles) {
        family.sort_by(|a, b| of(a, cost).total_cmp(&of(b, cost)));
        let points = family.into_iter().map(|group| point(of(group, cost), group)).collect();
        lines.push(PlotLine { label: stem.label(), style, points });
    }
    let values = all.iter().map(|group| of(group, cost));
    let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(l, h), x| (l.min(x), h.max(x)));
    let span = [low / 1.06, high * 1.06];
    let chart = Chart {
        x_title: cost.title,
        y_title: "accuracy after the last task, %",
        ticks: log_ticks(span).into_iter().map(|tick| (tick, (cost.label)(tick))).collect(),
        log: true,
        markers: true,
        span: Some(span),
        height: if lines.len() > 6 { 540.0 } else { 390.0 },
        ..Chart::PLAIN
    };
    let mut caption =
        "Mean over seeds. A line joins the sizes of memory of a method. The broad grey steps are \
                       the front: what is reached at that price or below, oracles apart."
            .to_owned()
            + cost.caption;
    if !free.is_empty() {
        caption += " What holds nothing has no place on this axis and is left out.";
    }
    Some(Drawing {
        suffix: cost.name.to_owned(),
        caption,
        canvas: chart.draw_over(&lines, &front(&all, cost, span[1])),
    })
}

fn of(group: &Group<'_>, cost: &Cost) -> f64 {
    (cost.of)(group).unwrap_or(0.0)
}

/// The steps of the best accuracy at a price or below, oracles apart, up to the price `last`.
fn front(groups: &[&Group<'_>], cost: &Cost, last: f64) -> Vec<[f64; 2]> {
    let known = groups.iter().filter(|group| !group.oracle());
    let mut points: Vec<[f64; 2]> = known
        .filter_map(|group| Some([of(group, cost), group.spread(|record| record.accuracy)?.mean]))
        .collect();
    points.sort_by(|a, b| a[0].total_cmp(&b[0]).then(b[1].total_cmp(&a[1])));
    let mut steps: Vec<[f64; 2]> = Vec::new();
    for [price, accuracy] in points {
        match steps.last() {
            Some([_, best]) if accuracy <= *best => {}
            Some([_, best]) => steps.extend([[price, *best], [price, accuracy]]),
            None => steps.push([price, accuracy]),
        }
    }
    steps.extend(steps.last().map(|[_, best]| [last, *best]));
    steps
}

/// 1, 2 and 5 times powers of ten in a span, or its ends where there are fewer than two.
fn log_ticks([low, high]: [f64; 2]) -> Vec<f64> {
    let first = low.log10().floor() as i32;
    let all = (0..60).flat_map(|i| [1.0, 2.0, 5.0].map(|m| m * 10f64.powi(first + i)));
    let within: Vec<f64> = all.filter(|tick| (low..=high).contains(tick)).collect();
    if within.len() < 2 { [low, high].map(two_digits).to_vec() } else { within }
}

fn two_digits(value: f64) -> f64 {
    let unit = 10f64.powf(value.log10().floor() - 1.0);
    (value / unit).round() * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_in_the_span() {
        assert_eq!(log_ticks([160.0, 1100.0]), [200.0, 500.0, 1000.0]);
        assert_eq!(log_ticks([94.0, 106.0]), [94.0, 110.0]);
        assert_eq!(log_ticks([0.19, 1.6]), [0.2, 0.5, 1.0]);
    }
}
