//! The accuracy matrix of each method as a map.

use super::{
    Drawing, FigureData, FigureKind,
    accuracy::joint,
    canvas::{Align, Canvas, Font, Pen, fitted},
    matrix_rows,
    palette::{ThemeColor, scale},
    plot::{LABEL, SMALL, WIDTH, ticks},
};
use crate::group::Group;
use hindsight::metrics::mean;

pub(super) const KIND: FigureKind = FigureKind {
    name: "matrix",
    title: "Accuracy on each task after each task",
    needs: "runs of several tasks",
    draw,
};

const GAP: f64 = 34.0;

fn draw(view: &FigureData<'_>) -> Vec<Drawing> {
    let panels: Vec<(String, Vec<Vec<f64>>, bool)> = view
        .compared()
        .into_iter()
        .map(|(group, _)| (super::labelled(&group), average(&group), joint(&group)))
        .filter(|(_, rows, _)| rows.first().is_some_and(|row| row.len() > 1))
        .collect();
    let Some(tasks) = panels.iter().map(|(_, rows, _)| rows[0].len()).max() else { return Vec::new() };
    let known = || panels.iter().flat_map(|(_, rows, _)| rows.iter().flatten()).filter(|a| a.is_finite());
    let (low, high) = (known().fold(f64::INFINITY, |a, b| a.min(*b)), known().fold(0.0f64, |a, b| a.max(*b)));
    if low > high {
        return Vec::new();
    }
    let marks = ticks(low, high, 5);
    let (low, high) = (marks[0], marks[marks.len() - 1]);

    let columns = if panels.len() == 1 {
        1
    } else if panels.len() == 2 || panels.len() == 4 {
        2
    } else {
        3
    };
    let (left, top) = (46.0, 30.0);
    let side = ((WIDTH - left - 14.0) / columns as f64 - GAP).min(260.0);
    let down = panels.len().div_ceil(columns);
    let height = top + down as f64 * (side + GAP + 22.0) + 36.0;
    let mut canvas = Canvas::new(WIDTH, height);
    for (i, (label, rows, joint)) in panels.iter().enumerate() {
        let x = left + (i % columns) as f64 * (side + GAP);
        let y = top + (i / columns) as f64 * (side + GAP + 22.0);
        // A method that learns all tasks at once has one row, at the end.
        let offset = if *joint { tasks - 1 } else { 0 };
        panel(&mut canvas, [x, y], side, label, (rows, offset), tasks, &|value| {
            scale((value - low) / (high - low))
        });
    }

    // The scale, in steps that no one sees.
    let (x, y, length) = (left, height - 40.0, 220.0);
    for i in 0..110 {
        let ink = scale(i as f64 / 109.0);
        canvas.rect([x + length * i as f64 / 110.0, y], [length / 110.0, 10.0], Pen::fill(ink).crisp(), None);
    }
    for mark in &marks {
        let at = x + length * (mark - low) / (high - low);
        canvas.text([at, y + 25.0], format!("{mark:.0}"), SMALL);
    }
    let legend = "accuracy, %;  rows: after task,  columns: on task";
    canvas.text([x + length + 18.0, y + 9.5], legend, Font { align: Align::Start, ..SMALL });
    let caption = "Down: after which task; across: on which task. Mean over seeds. What is below the diagonal shows \
                   what is kept of earlier tasks, what is above it what is known before a task was learned.";
    Drawing::one(canvas, caption.to_owned() + &view.omission())
}

/// The mean matrix in percent; NaN where no run was evaluated.
fn average(group: &Group<'_>) -> Vec<Vec<f64>> {
    let matrices: Vec<Vec<Vec<f64>>> =
        group.records.iter().map(|record| matrix_rows(record).collect()).collect();
    let (down, across) = (
        matrices.iter().map(Vec::len).max().unwrap_or(0),
        matrices.iter().flatten().map(Vec::len).max().unwrap_or(0),
    );
    let entry = |i: usize, j: usize| {
        let values = matrices.iter().filter_map(|m| m.get(i)?.get(j).copied()).filter(|a| a.is_finite());
        100.0 * mean(values)
    };
    (0..down).map(|i| (0..across).map(|j| entry(i, j)).collect()).collect()
}

fn panel(
    canvas: &mut Canvas,
    [x, y]: [f64; 2],
    side: f64,
    label: &str,
    (rows, offset): (&[Vec<f64>], usize),
    tasks: usize,
    ink: &dyn Fn(f64) -> ThemeColor,
) {
    let cell = side / tasks as f64;
    canvas.text([x, y - 8.0], fitted(label, LABEL.size, side + 20.0), LABEL.medium());
    canvas.rect([x, y], [side, side], Pen::fill(ThemeColor::Paper).outlined(ThemeColor::Grid, 1.0), None);

    for (i, row) in rows.iter().enumerate() {
        for (j, &value) in row.iter().enumerate().filter(|(_, value)| value.is_finite()) {
            let at = [x + j as f64 * cell, y + (i + offset) as f64 * cell];
            let tip = format!("{label}: task {} after {}: {value:.1} %", j + 1, i + offset + 1);
            let colour = ink(value);
            canvas.rect(at, [cell, cell], Pen::fill(colour).crisp(), Some(tip));
            if cell >= 24.0 {
                let [r, g, b] = colour.rgb().map(f64::from);
                let dark = 0.3 * r + 0.59 * g + 0.11 * b < 140.0;
                let contrast = ThemeColor::Rgb(if dark { [255; 3] } else { [20; 3] });
                let size = if cell >= 34.0 { 11.5 } else { 10.0 };
                let center = [at[0] + cell / 2.0, at[1] + cell / 2.0 + size * 0.36];
                canvas.text(center, format!("{value:.0}"), Font::new(size, Align::Middle).ink(contrast));
            }
        }
    }
    let each = tasks.div_ceil((side / 22.0) as usize).max(1);
    for task in (0..tasks).filter(|task| task % each == 0) {
        let middle = (task as f64 + 0.5) * cell;
        let font = Font { size: 10.5, ..SMALL };
        canvas.text([x + middle, y + side + 14.0], (task + 1).to_string(), font);
        canvas.text([x - 6.0, y + middle + 3.8], (task + 1).to_string(), Font { align: Align::End, ..font });
    }
}
