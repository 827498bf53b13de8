//! Which classes are taken for which, in the end, by the best method.

use super::{
    Drawing, FigureData, FigureKind,
    canvas::{Align, Canvas, Font, Pen, fitted, width_of},
    palette::{ThemeColor, scale},
    plot::{SMALL, WIDTH},
};
use crate::group::{Group, ranked};

pub(super) const KIND: FigureKind = FigureKind {
    name: "confusion",
    title: "Confusion of classes in the end",
    needs: "records of this version, of runs that did not diverge",
    draw,
};

fn draw(view: &FigureData<'_>) -> Vec<Drawing> {
    let groups = view.compared();
    let groups: Vec<Group<'_>> = groups.into_iter().map(|(group, _)| group).collect();
    let ranked = ranked(&groups);
    let best = ranked.iter().map(|(group, _)| *group).find(|group| !counts(group).is_empty());
    let Some(group) = best else { return Vec::new() };
    let counts = counts(group);
    // Classes that are never tested and never answered with.
    let used: Vec<usize> = (0..counts.len())
        .filter(|&c| counts[c].iter().sum::<u64>() + counts.iter().map(|row| row[c]).sum::<u64>() > 0)
        .collect();
    if used.len() < 2 {
        return Vec::new();
    }
    let names: Vec<String> = used.iter().map(|&class| name(group, class)).collect();
    let widest = names.iter().map(|name| width_of(name, 11.0)).fold(10.0, f64::max).min(120.0);
    let (left, top) = (widest + 40.0, 26.0);
    let side = (WIDTH - left - 150.0).min(430.0);
    let cell = side / used.len() as f64;
    let mut canvas = Canvas::new(left + side + 150.0, top + side + 62.0);
    let small = Font { size: 11.0, ..SMALL };
    for (i, &class) in used.iter().enumerate() {
        let all: u64 = counts[class].iter().sum();
        for (j, &answer) in used.iter().enumerate() {
            let share = if all > 0 { counts[class][answer] as f64 / all as f64 } else { 0.0 };
            let at = [left + j as f64 * cell, top + i as f64 * cell];
            let tip = format!("{} taken for {}: {:.1} %", names[i], names[j], 100.0 * share);
            let ink = scale(share);
            canvas.rect(at, [cell, cell], Pen::fill(ink).crisp(), (share > 0.0).then_some(tip));
            if cell >= 26.0 && share >= 0.005 {
                let [r, g, b] = ink.rgb().map(f64::from);
                let dark = 0.3 * r + 0.59 * g + 0.11 * b < 140.0;
                let contrast = ThemeColor::Rgb(if dark { [255; 3] } else { [20; 3] });
                let middle = [at[0] + cell / 2.0, at[1] + cell / 2.0 + 4.0];
                canvas.text(
                    middle,
                    format!("{:.0}", 100.0 * share),
                    Font::new(11.0, Align::Middle).ink(contrast),
                );
            }
        }
        let each = used.len().div_ceil((side / 15.0) as usize).max(1);
        if i % each == 0 {
            let middle = (i as f64 + 0.5) * cell;
            let end = Font { align: Align::End, ..small };
            canvas.text([left - 6.0, top + middle + 4.0], fitted(&names[i], 11.0, widest), end);
            let across = fitted(&names[i], 11.0, (cell * each as f64 - 3.0).max(14.0));
            canvas.text([left + middle, top + side + 15.0], across, small);
        }
    }
    let start = Font { align: Align::Start, ..SMALL };
    canvas.text([left, top - 9.0], format!("{}, % of each row", group.label()), start);
    canvas.text([left + side / 2.0, top + side + 36.0], "answered", SMALL);
    let (x, length) = (left + side + 26.0, side.min(200.0));
    for i in 0..50 {
        let y = top + length * (1.0 - (i + 1) as f64 / 50.0);
        canvas.rect([x, y], [12.0, length / 50.0 + 0.2], Pen::fill(scale(i as f64 / 49.0)).crisp(), None);
    }
    for (share, y) in [("100 %", top + 9.0), ("0 %", top + length)] {
        canvas.text([x + 18.0, y], share, start);
    }
    let caption = "A row per true class, a column per answer, over the test samples of all tasks after the last one, summed \
                   over seeds; the best method.";
    Drawing::one(canvas, caption)
}

fn name(group: &Group<'_>, class: usize) -> String {
    group.records[0].class_names.get(class).cloned().unwrap_or_else(|| class.to_string())
}

/// The confusions of all runs; nothing where classes mean something else in another seed.
fn counts(group: &Group<'_>) -> Vec<Vec<u64>> {
    let mut sum: Vec<Vec<u64>> = Vec::new();
    for record in &group.records {
        let Some(detail) = record.detail.as_ref().filter(|detail| !detail.confusion.is_empty()) else {
            continue;
        };
        if record.class_names != group.records[0].class_names {
            return Vec::new();
        }
        let classes = detail.confusion.len();
        sum.resize(classes, vec![0; classes]);
        if sum.len() != classes {
            return Vec::new();
        }
        for (row, counts) in sum.iter_mut().zip(&detail.confusion) {
            row.resize(classes, 0);
            row.iter_mut().zip(counts).for_each(|(sum, &count)| *sum += u64::from(count));
        }
    }
    sum
}
