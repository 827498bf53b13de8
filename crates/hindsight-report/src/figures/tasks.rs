//! Accuracy on each task in the end, method by method.

use super::{
    Drawing, FigureData, FigureKind,
    canvas::{Align, Canvas, Font, Pen, fitted, width_of},
    matrix_rows,
    palette::ThemeColor,
    plot::{AxisScale, Frame, LABEL, SMALL, WIDTH, ticks},
    shown,
};
use crate::group::{Group, Spread};

pub(super) const KIND: FigureKind = FigureKind {
    name: "tasks",
    title: "Accuracy on each task in the end",
    needs: "runs of several tasks that did not diverge",
    draw,
};

fn draw(view: &FigureData<'_>) -> Vec<Drawing> {
    let chosen: Vec<_> = view.leading().into_iter().filter(|(group, _)| !last(group).is_empty()).collect();
    let Some(tasks) = chosen.iter().map(|(group, _)| last(group).len()).max().filter(|&tasks| tasks > 1)
    else {
        return Vec::new();
    };
    let height = 330.0;
    let mut canvas = Canvas::new(WIDTH, height);
    let frame = Frame { left: 48.0, top: 58.0, right: WIDTH - 12.0, bottom: height - 52.0 };
    let marks = ticks(0.0, 100.0, 5);
    let y = AxisScale::linear([0.0, 100.0], [frame.bottom, frame.top]);
    frame.vertical(&mut canvas, &y, &marks, "accuracy after the last task, %");
    let names =
        chosen.iter().flat_map(|(group, _)| &group.records).map(|r| &r.task_names).find(|n| n.len() == tasks);
    // Another seed may have other tasks.
    let same = |group: &Group<'_>| group.records.iter().all(|record| Some(&record.task_names) == names);
    let names = names.filter(|_| chosen.iter().all(|(group, _)| same(group)));
    let wide = (frame.right - frame.left) / tasks as f64;
    let bar = (wide * 0.82 / chosen.len() as f64).min(26.0);
    let each = tasks.div_ceil(((frame.right - frame.left) / 26.0) as usize).max(1);
    for task in 0..tasks {
        let middle = frame.left + (task as f64 + 0.5) * wide;
        let name = names.map_or_else(|| format!("task {}", task + 1), |names| names[task].clone());
        for (i, (group, style)) in chosen.iter().enumerate() {
            let Some(spread) = last(group).get(task).copied().flatten() else { continue };
            let left = middle + (i as f64 - chosen.len() as f64 / 2.0) * bar;
            let top = y.at(spread.mean);
            let tip = format!("{}, {name}: {} %", group.label(), shown(&spread, 1));
            canvas.rect(
                [left, top],
                [(bar - 1.0).max(0.5), frame.bottom - top],
                Pen::fill(style.ink),
                Some(tip),
            );
        }
        let room = wide - 4.0;
        let label = names.map(|names| names[task].as_str()).filter(|name| width_of(name, SMALL.size) <= room);
        match label {
            Some(label) => canvas.text([middle, frame.bottom + 18.0], label, SMALL),
            None if task % each == 0 => {
                canvas.text([middle, frame.bottom + 18.0], (task + 1).to_string(), SMALL);
            }
            None => {}
        }
    }
    canvas.line([frame.left, frame.bottom], [frame.right, frame.bottom], Pen::stroke(ThemeColor::Muted, 1.0));
    canvas.text([(frame.left + frame.right) / 2.0, frame.bottom + 38.0], "task", SMALL);
    legend(&mut canvas, chosen.iter().map(|(group, style)| (group.label(), style.ink)));
    let caption = "Mean over seeds of the accuracy on each task after the last one; the three best methods and finetune.";
    Drawing::one(canvas, caption)
}

/// Names beside their colours, along the top.
pub(super) fn legend(canvas: &mut Canvas, entries: impl IntoIterator<Item = (String, ThemeColor)>) {
    let mut x = 48.0;
    for (label, ink) in entries {
        let label = fitted(&label, LABEL.size, 190.0);
        canvas.rect([x, 8.0], [11.0, 11.0], Pen::fill(ink), None);
        canvas.text([x + 16.0, 18.0], label.clone(), Font { align: Align::Start, ..LABEL });
        x += 34.0 + width_of(&label, LABEL.size);
    }
}

/// Accuracy on each task after the last one, in percent.
fn last(group: &Group<'_>) -> Vec<Option<Spread>> {
    let done = group.records.iter().filter(|record| record.accuracy.is_some());
    let rows: Vec<Vec<f64>> = done.filter_map(|record| matrix_rows(record).last()).collect();
    let tasks = rows.iter().map(Vec::len).max().unwrap_or(0);
    let of = |task: usize| {
        let values = rows.iter().filter_map(|row| row.get(task).copied()).filter(|a| a.is_finite());
        Spread::of(&values.map(|a| 100.0 * a).collect::<Vec<_>>())
    };
    (0..tasks).map(of).collect()
}
