//! The best method against the others, seed by seed, with confidence intervals.

use super::{
    Drawing, FigureData, FigureKind, MOST_COMPARED,
    canvas::{Align, Canvas, Font, Pen, fitted, width_of},
    highest,
    palette::{ThemeColor, styles},
    plot::{AxisScale, Frame, LABEL, WIDTH, tick_label, ticks, whisker},
};
use crate::{
    group::{ComparableGroups, Group, best, comparable},
    paired::paired,
};

pub(super) const KIND: FigureKind = FigureKind {
    name: "differences",
    title: "Differences, seed by seed",
    needs: "two methods with at least two seeds in common",
    draw,
};

const ROW: f64 = 30.0;

fn draw(view: &FigureData<'_>) -> Vec<Drawing> {
    let drawing =
        |part: ComparableGroups<'_>| Some(Drawing { suffix: part.label, ..compare(&highest(part.groups))? });
    comparable(view.groups).into_iter().filter_map(drawing).take(MOST_COMPARED).collect()
}

/// The best of `groups` against the others.
fn compare(groups: &[Group<'_>]) -> Option<Drawing> {
    let first = best(groups)?;
    let mut rows = Vec::new();
    for (other, style) in groups.iter().zip(styles(groups)).filter(|(other, _)| !std::ptr::eq(first, *other))
    {
        if let Some((paired, half)) = paired(first, other).and_then(|p| p.half_width.map(|half| (p, half))) {
            rows.push((other, style, paired, half));
        }
    }
    if rows.is_empty() {
        return None;
    }
    // Two seeds give intervals many times as wide as what they were seen to differ by; the axis shows the
    // data.
    let values = rows.iter().flat_map(|(.., paired, _)| paired.differences.iter().copied());
    let (low, high) = values.fold((0.0f64, 0.0f64), |(low, high), d| (low.min(d), high.max(d)));
    let reach = |sign: f64| {
        let ends = rows.iter().map(|(.., paired, half)| sign * paired.mean + half);
        ends.fold(0.0, f64::max)
    };
    let room = 0.6 * (high - low).max(0.1);
    let marks = ticks(-reach(-1.0).min(room - low), reach(1.0).min(high + room), 6);

    let labels: Vec<String> = rows.iter().map(|(other, ..)| format!("over {}", other.label())).collect();
    let numbers: Vec<String> = rows
        .iter()
        .map(|(.., p, half)| format!("{:+.1} ± {half:.1}, {} of {}", p.mean, p.wins(), p.differences.len()))
        .map(|number| number.replace('-', "\u{2212}"))
        .collect();
    let widest = |all: &[String]| all.iter().map(|text| width_of(text, LABEL.size)).fold(0.0, f64::max);
    let names = widest(&labels).min(230.0);
    let height = ROW * rows.len() as f64 + 68.0;
    let mut canvas = Canvas::new(WIDTH, height);
    let right = WIDTH - 24.0 - widest(&numbers);
    let frame = Frame { left: names + 22.0, top: 12.0, right, bottom: height - 52.0 };
    let x = AxisScale::linear([marks[0], marks[marks.len() - 1]], [frame.left, frame.right]);
    for &mark in &marks {
        canvas.line([x.at(mark), frame.top], [x.at(mark), frame.bottom], Pen::stroke(ThemeColor::Grid, 1.0));
    }
    canvas.line([x.at(0.0), frame.top], [x.at(0.0), frame.bottom], Pen::stroke(ThemeColor::Muted, 1.4));
    for (i, (other, style, paired, half)) in rows.iter().enumerate() {
        let y = frame.top + ROW * (i as f64 + 0.5);
        let name = Font { align: Align::End, ..LABEL };
        canvas.text([frame.left - 10.0, y + 4.4], fitted(&labels[i], LABEL.size, names), name);
        let (low, high) = (paired.mean - half, paired.mean + half);
        whisker(&mut canvas, [x.at(low), x.at(high)], y, style.ink);
        for (beyond, at, turn) in
            [(low < marks[0], frame.left, 1.0), (high > marks[marks.len() - 1], frame.right, -1.0)]
        {
            if beyond {
                let tip = vec![[at + 6.0 * turn, y - 5.0], [at, y], [at + 6.0 * turn, y + 5.0]];
                canvas.path(tip, true, Pen::fill(style.ink));
            }
        }
        for difference in &paired.differences {
            canvas.dot([x.at(*difference), y + 8.5], 2.2, Pen::fill(ThemeColor::Muted).opacity(0.7), None);
        }
        let tip = format!("{} over {}: {}", first.label(), other.label(), numbers[i]);
        canvas.dot(
            [x.at(paired.mean), y],
            5.0,
            Pen::fill(style.ink).outlined(ThemeColor::Paper, 1.2),
            Some(tip),
        );
        let number = Font { align: Align::Start, ..LABEL.ink(ThemeColor::Muted) };
        canvas.text([frame.right + 12.0, y + 4.4], numbers[i].clone(), number);
    }
    let step = marks[1] - marks[0];
    let marks: Vec<_> = marks.iter().map(|&mark| (mark, tick_label(mark, step))).collect();
    frame.horizontal(&mut canvas, &x, &marks, "difference in accuracy, points");
    let caption = format!(
        "Accuracy of {} minus that of the other. Large points: mean over common seeds; small ones: each seed; \
         whiskers: 95 % confidence interval of the mean (Student's t), with an arrow where it is cut off. Numbers: mean \
         ± half the interval, and in how many seeds it is above.",
        first.label()
    );
    Drawing::one(canvas, caption).pop()
}
