//! The anchors as images: what a learner holds fast to.

use super::{
    Drawing, FigureData, FigureKind,
    canvas::{Align, Canvas, DrawnShape, Font, RasterImage},
    plot::{LABEL, SMALL, WIDTH},
};
use hindsight::snapshot::{Pictures, Snapshot};

pub(super) const KIND: FigureKind = FigureKind {
    name: "anchors",
    title: "Anchors",
    needs: "images, and a snapshot of a method with anchors (`snapshots.jsonl` beside the records, of seed 0)",
    draw,
};

/// Wider and a grid of many classes would leave nothing to see of an image.
const CLASSES: usize = 10;
const GAP: usize = 2;
/// Larger images are subsampled: 200 images of 4096 x 4096 pixels would not fit into memory.
const SHOWN: usize = 256;

fn draw(view: &FigureData<'_>) -> Vec<Drawing> {
    let Some(snapshot) = chosen(view) else { return Vec::new() };
    let mut tasks = snapshot.anchors.tasks.clone();
    tasks.sort_unstable();
    tasks.dedup();
    let columns = |pictures: &Pictures| {
        let count = |task| pictures.tasks.iter().filter(|t| **t == task).count();
        tasks.iter().map(|task| count(*task)).max().unwrap_or(0).min(CLASSES)
    };
    let across = columns(&snapshot.anchors);
    let panels: Vec<(&str, &Pictures)> =
        [("learned anchors", &snapshot.anchors), ("remembered samples", &snapshot.memory)]
            .into_iter()
            .filter(|(_, pictures)| columns(pictures) > 0)
            .collect();
    let (left, top, gap) = (52.0, 52.0, 40.0);
    let cell = ((WIDTH - left - 12.0 - gap) / (2 * across.max(5)) as f64).min(34.0);
    let [_, h, w] = snapshot.shape;
    let tall = cell * h as f64 / w as f64;
    let height = top + tasks.len() as f64 * tall + 16.0;
    let mut canvas = Canvas::new(WIDTH, height);
    for (i, (title, pictures)) in panels.into_iter().enumerate() {
        let x = left + i as f64 * (cell * across as f64 + gap);
        canvas.text([x, 18.0], title, LABEL.medium());
        grid(&mut canvas, [x, top], [cell, tall], snapshot, pictures, &tasks, across);
    }
    let font = Font { size: 10.5, ..SMALL };
    canvas.text([left - 8.0, top - 7.0], "task", Font { align: Align::End, ..font });
    for (row, task) in tasks.iter().enumerate() {
        let at = [left - 8.0, top + (row as f64 + 0.5) * tall + 3.8];
        canvas.text(at, (task + 1).to_string(), Font { align: Align::End, ..font });
    }
    let caption = format!(
        "Of {}, seed {}, after the last task: a row per task, a column per class. Where a task permutes pixels, they are \
         put back into place. Each image is scaled to its own range.",
        snapshot.method, snapshot.seed
    );
    Drawing::one(canvas, caption)
}

/// The snapshot to show: of the first group that has one. A row of features is no image.
pub(super) fn chosen<'v>(view: &FigureData<'v>) -> Option<&'v Snapshot> {
    let of = |group: &super::Group<'_>| {
        let same = |s: &&&'v Snapshot| {
            s.method == group.method && group.records.iter().any(|record| record.config == s.config)
        };
        view.snapshots.iter().find(same).copied()
    };
    let compared = view.compared().into_iter().find_map(|(group, _)| of(&group));
    compared
        .or_else(|| view.snapshots.first().copied())
        .filter(|s| !s.anchors.labels.is_empty() && s.shape[1] > 1)
}

fn grid(
    canvas: &mut Canvas,
    [x, y]: [f64; 2],
    [cell, tall]: [f64; 2],
    snapshot: &Snapshot,
    pictures: &Pictures,
    tasks: &[u32],
    across: usize,
) {
    let [channels, h, w] = snapshot.shape;
    let every = h.max(w).div_ceil(SHOWN);
    let (rows, columns) = (h.div_ceil(every), w.div_ceil(every));
    let (wide, high) = (columns + GAP, rows + GAP);
    let (width, height) = (wide * across, high * tasks.len());
    let mut rgba = vec![0; 4 * width * height];
    let images = pictures.pixels.decode().unwrap_or_default();
    let mut classes = vec![None; across];
    for (row, task) in tasks.iter().enumerate() {
        let mut own: Vec<usize> = (0..images.len()).filter(|&i| pictures.tasks[i] == *task).collect();
        own.sort_by_key(|&i| pictures.labels[i]);
        for (column, &i) in own.iter().take(across).enumerate() {
            let label = pictures.labels[i];
            // A class has a column of its own only where all tasks have the same.
            if row == 0 {
                classes[column] = Some(label);
            } else if classes[column] != Some(label) {
                classes[column] = None;
            }
            let [low, high_value] = pictures.pixels.range[i];
            let step = if high_value > low { 255.0 / (high_value - low) } else { 0.0 };
            let byte = |value: f32| ((value - low) * step).round() as u8;
            for place in 0..rows * columns {
                let (px, py) = (place % columns, place / columns);
                let (at, pixel) = ((row * high + py) * width + column * wide + px, every * (py * w + px));
                let colour = match channels {
                    3 => [0, 1, 2].map(|c| byte(images[i][c * h * w + pixel])),
                    // Strokes dark on light, as on paper.
                    _ => [255 - byte(images[i][pixel]); 3],
                };
                rgba[4 * at..][..3].copy_from_slice(&colour);
                rgba[4 * at + 3] = 255;
            }
        }
    }
    let size = [cell * across as f64, tall * tasks.len() as f64];
    let image = RasterImage { width: width as u32, height: height as u32, rgba };
    canvas.shapes.push(DrawnShape::RasterImage { at: [x, y], size, image });
    for (column, class) in classes.iter().enumerate() {
        let Some(class) = class else { continue };
        let at = [x + (column as f64 + 0.5) * cell - 1.0, y - 7.0];
        canvas.text(at, class.to_string(), Font { size: 10.5, ..SMALL });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hindsight::snapshot::EightBitRows;

    #[test]
    fn large_images_are_thinned_out_and_small_ones_are_not() {
        // `AAAA` is three zeros.
        for (side, shown) in [(3, 3), (255, 255), (258, 129), (1020, 255)] {
            let (shape, count) = ([1, side, 2], 2 * side);
            let pixels = EightBitRows { range: vec![[0.0, 1.0]], bytes: "AAAA".repeat(count / 3) };
            let anchors =
                Pictures { labels: vec![5], tasks: vec![0], pixels, features: EightBitRows::default() };
            let snapshot = Snapshot {
                version: 2,
                method: String::new(),
                benchmark: String::new(),
                seed: 0,
                config: Default::default(),
                shape,
                anchors: anchors.clone(),
                memory: Pictures::default(),
                samples: Pictures::default(),
            };
            let mut canvas = Canvas::new(100.0, 100.0);
            grid(&mut canvas, [0.0; 2], [10.0; 2], &snapshot, &anchors, &[0], 1);
            let DrawnShape::RasterImage { image, .. } = &canvas.shapes[0] else {
                panic!("an image comes first")
            };
            assert_eq!(image.height as usize, shown + GAP, "{side}");
            // A pixel of zero is white paper.
            assert_eq!(image.rgba[..4], [255; 4]);
        }
    }
}
