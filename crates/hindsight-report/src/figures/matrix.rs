//! The accuracy matrix of each method as a map.

use super::{
    Drawing, FigureData, FigureKind,
    accuracy::joint,
    canvas::{Align, Canvas, Font, Pen, fitted},
    matrix_rows,
    palette::{ThemeColor, scale},
    plot::{LABEL, SMALL, WIDTH, ticks},
};
use crate::group::{Group, ranked};
use hindsight::metrics::mean;

pub(super) const KIND: FigureKind = FigureKind {
    name: "matrix",
    title: "Accuracy on each task after each task",
    needs: "runs of several tasks",
    draw,
};

const GAP: f64 = 34.0;
/// Cells in a figure, about.
const MOST_CELLS: usize = 4000;

/// A method's name, its matrix, and whether it learns all tasks at once.
type Panel = (String, Vec<Vec<f64>>, bool);

fn draw(view: &FigureData<'_>) -> Vec<Drawing> {
    let panels: Vec<Panel> = view.compared().iter().filter_map(|(group, _)| panel_of(group)).collect();
    let Some(canvas) = sheet(&panels, WIDTH, 260.0) else { return Vec::new() };
    let caption = "Down: after which task; across: on which task. Mean over seeds. What is below the diagonal shows \
                   what is kept of earlier tasks, what is above it what is known before a task was learned.";
    Drawing::one(canvas, caption.to_owned() + &view.omission())
}

/// The matrix of the best method.
pub(super) fn best(view: &FigureData<'_>) -> Option<Canvas> {
    let groups: Vec<Group<'_>> = view.compared().into_iter().map(|(group, _)| group).collect();
    let best = ranked(&groups).into_iter().find_map(|(group, _)| panel_of(group))?;
    sheet(&[best], 460.0, 330.0)
}

fn panel_of(group: &Group<'_>) -> Option<Panel> {
    let rows = average(group);
    let several = rows.first().is_some_and(|row| row.len() > 1);
    several.then(|| (super::labelled(group), rows, joint(group)))
}

fn sheet(panels: &[Panel], width: f64, most: f64) -> Option<Canvas> {
    let tasks = panels.iter().map(|(_, rows, _)| rows[0].len()).max()?;
    // Where tasks come back there are more rows than tasks.
    let stages = panels.iter().map(|(_, rows, _)| rows.len()).max()?.max(tasks);
    let known = || panels.iter().flat_map(|(_, rows, _)| rows.iter().flatten()).filter(|a| a.is_finite());
    let (low, high) = (known().fold(f64::INFINITY, |a, b| a.min(*b)), known().fold(0.0f64, |a, b| a.max(*b)));
    if low > high {
        return None;
    }
    let marks = ticks(low, high, 5);
    let (low, high) = (marks[0], marks[marks.len() - 1]);

    // Cells that are too small to be told apart are drawn as one.
    let cells = ((MOST_CELLS / panels.len()) as f64).sqrt() as usize;
    let block = stages.max(tasks).div_ceil(cells.max(20));

    let columns = match panels.len() {
        1 => 1,
        2 | 4 => 2,
        _ => 3,
    };
    let (left, top) = (46.0, 30.0);
    let side = ((width - left - 14.0) / columns as f64 - GAP).min(most);
    let down = panels.len().div_ceil(columns);
    let height = top + down as f64 * (side + GAP + 22.0) + 36.0;
    let mut canvas = Canvas::new(width, height);
    for (i, (label, rows, joint)) in panels.iter().enumerate() {
        let x = left + (i % columns) as f64 * (side + GAP);
        let y = top + (i / columns) as f64 * (side + GAP + 22.0);
        // A method that learns all tasks at once has one row, at the end.
        let offset = if *joint { stages - 1 } else { 0 };
        panel(&mut canvas, [x, y], side, label, (rows, offset, block), [stages, tasks], &|value| {
            scale((value - low) / (high - low))
        });
    }

    // The scale, in steps that no one sees.
    let (x, y, length) = (left, height - 40.0, (width - 400.0).clamp(120.0, 220.0));
    for i in 0..55 {
        let ink = scale(i as f64 / 54.0);
        canvas.rect([x + length * i as f64 / 55.0, y], [length / 55.0, 10.0], Pen::fill(ink).crisp(), None);
    }
    for mark in &marks {
        let at = x + length * (mark - low) / (high - low);
        canvas.text([at, y + 25.0], format!("{mark:.0}"), SMALL);
    }
    let legend = "accuracy, %;  rows: after task,  columns: on task";
    canvas.text([x + length + 18.0, y + 9.5], legend, Font { align: Align::Start, ..SMALL });
    Some(canvas)
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
    (rows, offset, block): (&[Vec<f64>], usize, usize),
    [stages, tasks]: [usize; 2],
    ink: &dyn Fn(f64) -> ThemeColor,
) {
    let (cell, tall) = (side / tasks as f64, side / stages as f64);
    canvas.text([x, y - 8.0], fitted(label, LABEL.size, side + 20.0), LABEL.medium());
    canvas.rect([x, y], [side, side], Pen::fill(ThemeColor::Paper).outlined(ThemeColor::Grid, 1.0), None);

    let joined = |start: usize, end: usize| match start + 1 == end {
        true => end.to_string(),
        false => format!("{} to {end}", start + 1),
    };
    for (i, rows) in rows.chunks(block).enumerate().map(|(i, rows)| (i * block, rows)) {
        for j in (0..rows[0].len()).step_by(block) {
            let (down, end) = (rows.len(), rows[0].len().min(j + block));
            let value = mean(rows.iter().flat_map(|row| &row[j..end]).copied().filter(|a| a.is_finite()));
            if !value.is_finite() {
                continue;
            }
            let at = [x + j as f64 * cell, y + (i + offset) as f64 * tall];
            let (on, after) = (joined(j, end), joined(i + offset, i + offset + down));
            let tip = format!("{label}: task {on} after {after}: {value:.1} %");
            let colour = ink(value);
            let size = [cell * (end - j) as f64, tall * down as f64];
            canvas.rect(at, size, Pen::fill(colour).crisp(), Some(tip));
            if block == 1 && cell.min(1.4 * tall) >= 24.0 {
                let [r, g, b] = colour.rgb().map(f64::from);
                let dark = 0.3 * r + 0.59 * g + 0.11 * b < 140.0;
                let contrast = ThemeColor::Rgb(if dark { [255; 3] } else { [20; 3] });
                let size = if cell >= 34.0 { 11.5 } else { 10.0 };
                let center = [at[0] + cell / 2.0, at[1] + tall / 2.0 + size * 0.36];
                canvas.text(center, format!("{value:.0}"), Font::new(size, Align::Middle).ink(contrast));
            }
        }
    }
    let font = Font { size: 10.5, ..SMALL };
    let marked = |count: usize| {
        let each = count.div_ceil((side / 22.0) as usize).max(1);
        (0..count).filter(move |i| i % each == 0)
    };
    for task in marked(tasks) {
        canvas.text([x + (task as f64 + 0.5) * cell, y + side + 14.0], (task + 1).to_string(), font);
    }
    for stage in marked(stages) {
        let at = [x - 6.0, y + (stage as f64 + 0.5) * tall + 3.8];
        canvas.text(at, (stage + 1).to_string(), Font { align: Align::End, ..font });
    }
}
