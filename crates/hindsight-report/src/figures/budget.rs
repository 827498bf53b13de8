//! Accuracy against what it costs: bytes that a learner holds, and seconds of training.

use hindsight::Record;

use super::{
    Drawing, FigureData, FigureKind, MOST_COMPARED, palette,
    palette::{Style, ThemeColor},
    plot::{Chart, PlotLine, Point},
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
    of: fn(&Record) -> f64,
    label: fn(f64) -> String,
}

const COSTS: [Cost; 2] = [
    Cost {
        name: "bytes",
        title: "bytes held beyond the parameters",
        of: |record| record.memory_bytes as f64,
        label: |bytes| match bytes {
            ..1e3 => format!("{bytes} B"),
            ..1e6 => format!("{} kB", bytes / 1e3),
            _ => format!("{} MB", bytes / 1e6),
        },
    },
    Cost {
        name: "seconds",
        title: "seconds of training",
        of: |record| record.train_seconds,
        label: |seconds| format!("{seconds}"),
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
    let mut lines = vec![front(&all, cost)];
    for ((mut family, stem), style) in families.into_iter().zip(&stems).zip(styles) {
        family.sort_by(|a, b| of(a, cost).total_cmp(&of(b, cost)));
        let points = family.into_iter().map(|group| point(of(group, cost), group)).collect();
        lines.push(PlotLine { label: stem.label(), style, points });
    }
    let values = all.iter().map(|group| of(group, cost));
    let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(l, h), x| (l.min(x), h.max(x)));
    let chart = Chart {
        x_title: cost.title,
        y_title: "accuracy after the last task, %",
        ticks: log_ticks(low, high).into_iter().map(|tick| (tick, (cost.label)(tick))).collect(),
        log: true,
        markers: true,
        limits: [0.0, 100.0],
    };
    let mut caption =
        "Mean over seeds. Dashed: the front of what no cheaper one surpasses, oracles apart; a line joins \
                       the sizes of memory of a method."
            .to_owned();
    if !free.is_empty() {
        caption += " What holds nothing has no place on this axis and is left out.";
    }
    Some(Drawing { suffix: cost.name.to_owned(), caption, canvas: chart.draw(&lines) })
}

fn of(group: &Group<'_>, cost: &Cost) -> f64 {
    group.spread(|record| Some((cost.of)(record))).map_or(0.0, |spread| spread.mean)
}

/// The groups that no cheaper one surpasses, oracles apart.
fn front(groups: &[&Group<'_>], cost: &Cost) -> PlotLine {
    let mut points: Vec<Point> =
        groups.iter().filter(|group| !group.oracle()).map(|group| point(of(group, cost), group)).collect();
    let height = |point: &Point| point.y.map_or(f64::NEG_INFINITY, |(mean, _)| mean);
    points.sort_by(|a, b| a.x.total_cmp(&b.x).then(height(b).total_cmp(&height(a))));
    let mut best = f64::NEG_INFINITY;
    points.retain(|point| {
        let better = height(point) > best;
        best = best.max(height(point));
        better
    });
    points.iter_mut().for_each(|point| point.y = point.y.map(|(mean, _)| (mean, 0.0)));
    let style = Style { ink: ThemeColor::Muted, dash: &[6.0, 3.0] };
    PlotLine { label: "front".to_owned(), style, points }
}

/// 1, 2 and 5 times powers of ten that cover `low..high`.
fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let first = low.log10().floor() as i32;
    let all = (0..60).flat_map(|i| [1.0, 2.0, 5.0].map(|m| m * 10f64.powi(first + i)));
    let all: Vec<f64> = all.collect();
    let start = all.iter().rposition(|&tick| tick <= low * 1.000_001).unwrap_or(0);
    let end = all.iter().position(|&tick| tick >= high * 0.999_999).unwrap_or(all.len() - 1);
    all[start..=end.max(start + 1)].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_cover_the_range() {
        assert_eq!(log_ticks(160.0, 900.0), [100.0, 200.0, 500.0, 1000.0]);
        assert_eq!(log_ticks(100.0, 100.0), [100.0, 200.0]);
        assert!(log_ticks(0.19, 1.6).first().is_some_and(|&tick| tick <= 0.19));
    }
}
