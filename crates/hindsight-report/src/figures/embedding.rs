//! Data and anchors of one task in the plane, by pixels and by features.

use super::{
    Drawing, FigureData, FigureKind,
    anchors::chosen,
    canvas::{Align, Canvas, Font, Pen},
    palette::ThemeColor,
    plot::{LABEL, SMALL, WIDTH},
    tsne::tsne,
};
use hindsight::snapshot::{EightBitRows, Pictures};

pub(super) const KIND: FigureKind = FigureKind {
    name: "embedding",
    title: "Data and anchors in the plane",
    needs: "images, and a snapshot of a method with anchors (`snapshots.jsonl` beside the records, of seed 0)",
    draw,
};

const SIDE: f64 = 318.0;
/// Limit of samples and of anchors in a panel: t-SNE compares all pairs 500 times.
const SAMPLES: usize = 600;
const ANCHORS: usize = 100;

fn draw(view: &FigureData<'_>) -> Vec<Drawing> {
    let Some(snapshot) = chosen(view) else { return Vec::new() };
    let Some(&task) = snapshot.samples.tasks.iter().max() else { return Vec::new() };
    let (samples, anchors) = (of(&snapshot.samples, task, SAMPLES), of(&snapshot.anchors, task, ANCHORS));
    if samples.len() < 10 || anchors.is_empty() {
        return Vec::new();
    }
    let labels: Vec<u32> = samples
        .iter()
        .map(|&i| snapshot.samples.labels[i])
        .chain(anchors.iter().map(|&i| snapshot.anchors.labels[i]))
        .collect();
    let mut classes = labels.clone();
    classes.sort_unstable();
    classes.dedup();

    let mut canvas = Canvas::new(WIDTH, SIDE + 84.0);
    type Space = (&'static str, fn(&Pictures) -> &EightBitRows);
    let spaces: [Space; 2] = [("image space", |p| &p.pixels), ("feature space", |p| &p.features)];
    for (panel, (title, space)) in spaces.into_iter().enumerate() {
        let rows = |pictures: &Pictures, chosen: &[usize]| -> Vec<Vec<f32>> {
            let rows = space(pictures).decode().unwrap_or_default();
            chosen.iter().filter_map(|&i| rows.get(i).cloned()).collect()
        };
        let mut points = rows(&snapshot.samples, &samples);
        points.extend(rows(&snapshot.anchors, &anchors));
        if points.len() != labels.len() || points.iter().any(|row| row.len() != points[0].len()) {
            return Vec::new();
        }
        let places = tsne(&points);
        let (x, y) = (12.0 + panel as f64 * (SIDE + 20.0), 34.0);
        canvas.text([x, 20.0], title, LABEL.medium());
        canvas.rect([x, y], [SIDE, SIDE], Pen::fill(ThemeColor::Paper).outlined(ThemeColor::Grid, 1.0), None);
        let range = [0, 1].map(|c| {
            let (low, high) = places.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), place| {
                (low.min(place[c]), high.max(place[c]))
            });
            ((low + high) / 2.0, high - low)
        });
        let scale = (SIDE - 26.0) / range[0].1.max(range[1].1).max(1e-12);
        let at = |[a, b]: [f64; 2]| {
            let middle = SIDE / 2.0;
            [x + middle + (a - range[0].0) * scale, y + middle + (b - range[1].0) * scale]
        };
        let ink =
            |label: u32| ThemeColor::Series(classes.iter().position(|&class| class == label).unwrap_or(0));
        for (i, place) in places.iter().enumerate() {
            let colour = ink(labels[i]);
            if i < samples.len() {
                canvas.dot(at(*place), 2.3, Pen::fill(colour).opacity(0.6), None);
            } else {
                let [x, y] = at(*place);
                let tip = Some(format!("anchor of class {}", labels[i]));
                canvas.dot([x, y], 8.0, Pen::fill(colour).outlined(ThemeColor::Paper, 1.5), tip);
                let font = Font::new(10.0, Align::Middle).ink(ThemeColor::Paper).medium();
                canvas.text([x, y + 3.6], labels[i].to_string(), font);
            }
        }
    }
    let y = SIDE + 66.0;
    canvas.text([12.0, y], "class", Font { align: Align::Start, ..SMALL });
    for (i, class) in classes.iter().take(20).enumerate() {
        let x = 56.0 + 30.0 * i as f64;
        canvas.dot([x, y - 4.2], 4.0, Pen::fill(ThemeColor::Series(i)), None);
        canvas.text([x + 7.0, y], class.to_string(), Font { align: Align::Start, ..SMALL });
    }
    let caption = format!(
        "t-SNE of test samples (points) and anchors (numbered) of task {} of {}, seed {}, by their pixels and by their \
         features phi at the final parameters. Distances between clusters mean little.",
        task + 1,
        snapshot.method,
        snapshot.seed
    );
    Drawing::one(canvas, caption)
}

/// The pictures of a task; of more than `most` every second, or every third, ...
fn of(pictures: &Pictures, task: u32, most: usize) -> Vec<usize> {
    let all: Vec<usize> = (0..pictures.tasks.len()).filter(|&i| pictures.tasks[i] == task).collect();
    let every = all.len().div_ceil(most).max(1);
    all.into_iter().step_by(every).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_never_more_points_than_can_be_compared() {
        for (count, expected) in [(0, 0), (1, 1), (600, 600), (601, 301), (100_000, 599)] {
            let pictures = Pictures { tasks: [vec![1; 7], vec![3; count]].concat(), ..Pictures::default() };
            let chosen = of(&pictures, 3, SAMPLES);
            assert_eq!(chosen.len(), expected, "{count}");
            assert!(chosen.iter().all(|&i| pictures.tasks[i] == 3));
        }
    }
}
