//! Rotated digits: task t sees all images turned by one angle.
//!
//! By default the half circle is cut into one band per task, and a task's angle is uniform in its band, in
//! ascending order; this is the reading of the paper that gives its numbers. Angles drawn independently in
//! [0, 180) are an option.

use std::{f64::consts::PI, sync::Arc};

use hindsight_nn::LinearMap;

use super::{Benchmark, draw_order, phase, shared_classes, sharing_stream};
use crate::{
    settings::{Choice, ConfigError, Family, Key, Kind, Settings, SharedSettings, Value, choices},
    stream::{Source, Stream, Task, View},
};

choices! {
    /// How the angles of the tasks are drawn.
    enum Angles {
        Banded = "banded",
        Independent = "iid",
    }
}

choices! {
    /// The value of a pixel between pixels.
    enum Interpolation {
        Nearest = "nearest",
        Bilinear = "bilinear",
    }
}

static KEYS: &[Key] = &[
    Key::new(
        "angles",
        Kind::Choice(Angles::WORDS),
        Value::text("banded"),
        "one angle per band of 180/tasks degrees in ascending order, or each uniform in [0, 180)",
    ),
    Key::new(
        "interpolation",
        Kind::Choice(Interpolation::WORDS),
        Value::text("nearest"),
        "a rotated pixel is its nearest source, as in the authors' programs, or a mean of four",
    ),
];

/// On the digits that hindsight draws itself.
pub(super) const DIGITS: Benchmark = Benchmark::new(
    ["rotated-digits", "an angle per task, of built-in digits; needs no download", "digits"],
    Family::Mnist,
    KEYS,
    &[],
    build,
);

/// On MNIST, as in the paper.
pub(super) const MNIST: Benchmark = Benchmark::new(
    ["rotated-mnist", "an angle per task, of MNIST (the paper's Rotated MNIST)", "mnist"],
    Family::Mnist,
    KEYS,
    &[],
    build,
);

fn build(source: &Arc<Source>, settings: &Settings, seed: u64) -> Result<Stream, ConfigError> {
    let (spacing, interpolation): (Angles, Interpolation) =
        (settings.choice("angles"), settings.choice("interpolation"));
    let settings = SharedSettings::new(settings);
    let (count, [mut angles, mut orders]) = phase(&settings, seed)?;
    let [_, height, width] = source.dataset.shape;
    let tasks = (0..count)
        .map(|task| {
            let u = angles.uniform();
            let half_turns = match spacing {
                Angles::Banded => (task as f64 + u) / count as f64,
                Angles::Independent => u,
            };
            let order = draw_order(source, settings.samples, &mut orders)?;
            let classes = shared_classes(source, settings.scenario, task);
            let view = View::Map(rotation(height, width, half_turns * PI, interpolation));
            Ok(Task { name: format!("{:.0} degrees", half_turns * 180.0), classes, view, order })
        })
        .collect::<Result<_, ConfigError>>()?;
    Ok(sharing_stream(source, tasks, settings.scenario))
}

/// Rotation about the centre; what comes from outside is zero. Being linear in the pixels, it can be folded
/// into the first layer of a network.
fn rotation(height: usize, width: usize, angle: f64, interpolation: Interpolation) -> LinearMap {
    let (sin, cos) = angle.sin_cos();
    let (middle_y, middle_x) = ((height - 1) as f64 / 2.0, (width - 1) as f64 / 2.0);
    LinearMap::new((0..height * width).map(|i| {
        let (dy, dx) = ((i / width) as f64 - middle_y, (i % width) as f64 - middle_x);
        let (y, x) = (middle_y + dy * cos - dx * sin, middle_x + dy * sin + dx * cos);
        let (y, x) = match interpolation {
            Interpolation::Nearest => (y.round(), x.round()),
            Interpolation::Bilinear => (y, x),
        };
        let (top, left) = (y.floor(), x.floor());
        let mut taps = Vec::with_capacity(4);
        for (py, wy) in [(top, 1.0 - (y - top)), (top + 1.0, y - top)] {
            for (px, wx) in [(left, 1.0 - (x - left)), (left + 1.0, x - left)] {
                let inside = (0.0..height as f64).contains(&py) && (0.0..width as f64).contains(&px);
                let weight = (wy * wx) as f32;
                if inside && weight > 1e-6 {
                    taps.push((py as u32 * width as u32 + px as u32, weight));
                }
            }
        }
        taps
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rotated(image: &[f32], degrees: f64, interpolation: Interpolation) -> Vec<f32> {
        let mut out = Vec::new();
        rotation(3, 3, degrees.to_radians(), interpolation).apply(image, &mut out);
        out
    }

    #[test]
    fn rotations_by_right_angles_move_pixels_whole() {
        let image = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];
        let mut back = image.to_vec();
        back.reverse();
        for interpolation in [Interpolation::Nearest, Interpolation::Bilinear] {
            assert_eq!(rotated(&image, 0.0, interpolation), image);
            assert_eq!(rotated(&image, 180.0, interpolation), back);
            let quarter = rotated(&image, 90.0, interpolation);
            assert!(quarter[4] == 5.0 && (quarter[0] == 3.0 || quarter[0] == 7.0), "{quarter:?}");
            assert_eq!(rotated(&quarter, 90.0, interpolation), back);
        }
    }

    #[test]
    fn rotations_keep_the_middle_and_lose_only_the_corners() {
        for interpolation in [Interpolation::Nearest, Interpolation::Bilinear] {
            let turned = rotated(&[1.0; 9], 45.0, interpolation);
            assert!((turned[4] - 1.0).abs() < 1e-6);
            assert!(turned.iter().all(|&v| (0.0..=1.0 + 1e-6).contains(&v)));
        }
        assert!(rotated(&[1.0; 9], 45.0, Interpolation::Bilinear)[0] < 0.9);
    }
}
