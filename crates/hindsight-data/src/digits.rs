//! Digits drawn by our own code, so that everything runs before anything is downloaded.
//!
//! A digit is a few pen strokes, each a smooth curve through control points. An image moves the
//! points a little (the hand), sends them through a random affine map (slant, size and place) and
//! inks every pixel by its distance to the nearest stroke (the pen). As in MNIST the background is
//! exactly zero, which the engine's first layer exploits.
//!
//! Only `+ - * /`, `sqrt` and rounding are used, which IEEE 754 fixes to the bit: every machine
//! draws the same bytes.

use hindsight_nn::rng::Rng;

use crate::{dataset::Dataset, samples::Samples};

const SIDE: usize = 28;
const CLASSES: usize = 10;

/// Control points of a stroke in tenths: x to the right, y down; a point written twice is a corner.
type Stroke = &'static [(i8, i8)];

/// The ways to write each digit; each way is equally likely.
#[rustfmt::skip]
const GLYPHS: [&[&[Stroke]]; CLASSES] = [
    &[&[&[(1, -10), (-5, -6), (-6, 1), (-3, 8), (1, 10), (5, 6), (6, -1), (4, -8), (0, -10)]]],
    &[
        &[&[(0, -10), (0, 10)]],
        &[&[(-4, -6), (1, -10), (1, -10), (1, 10)]],
        &[&[(-4, -6), (1, -10), (1, -10), (1, 10)], &[(-4, 10), (5, 10)]],
    ],
    &[
        &[&[(-6, -6), (-1, -10), (5, -6), (2, 1), (-6, 9), (-6, 9), (6, 9)]],
        &[&[(-5, -6), (0, -10), (5, -6), (2, 2), (-3, 9), (-6, 7), (-3, 5), (1, 8), (7, 9)]],
    ],
    &[
        &[&[(-5, -8), (0, -10), (5, -6), (-1, -1), (-1, -1), (5, 4), (1, 10), (-6, 7)]],
        &[&[(-5, -10), (5, -10), (5, -10), (-1, -2), (-1, -2), (5, 3), (1, 10), (-6, 7)]],
    ],
    &[
        &[&[(-4, -9), (-6, 1), (-6, 1), (6, 1)], &[(3, -9), (3, 10)]],
        &[&[(3, 10), (3, -10), (3, -10), (-6, 3), (-6, 3), (6, 3)]],
    ],
    &[&[&[(5, -10), (-3, -10), (-3, -10), (-4, -1), (-4, -1), (1, -3), (5, 3), (1, 10), (-6, 7)]]],
    &[&[&[(3, -10), (-3, -4), (-5, 4), (0, 10), (5, 5), (1, 1), (-5, 5)]]],
    &[
        &[&[(-5, -9), (5, -9), (5, -9), (-1, 10)]],
        &[&[(-5, -9), (5, -9), (5, -9), (-1, 10)], &[(-3, 0), (5, 0)]],
    ],
    &[&[&[(4, -7), (0, -10), (-4, -6), (0, -1), (5, 5), (0, 10), (-5, 5), (0, -1), (4, -7)]]],
    &[
        &[&[(4, -6), (0, -10), (-5, -5), (0, -1), (4, -6), (4, -6), (3, 10)]],
        &[&[(4, -6), (0, -10), (-5, -5), (0, -1), (4, -6), (5, 2), (1, 10), (-4, 8)]],
    ],
];

/// A data set of `train` and `test` drawn digits, 28 x 28, 10 classes, a function of `seed`.
///
/// The images of a smaller set are the first images of a larger one with the same seed; the test
/// images come from a generator of their own. Labels are shuffled, and every hundred images hold
/// ten of each class.
pub fn digits(train: usize, test: usize, seed: u64) -> Dataset {
    Dataset {
        name: "digits".into(),
        shape: [1, SIDE, SIDE],
        classes: CLASSES,
        class_names: Vec::new(),
        train: split(train, &mut Rng::named(seed, "digits train")),
        test: split(test, &mut Rng::named(seed, "digits test")),
        notes: Vec::new(),
    }
}

/// `n` images, one after the other from one generator, hence the same for every larger `n`.
fn split(n: usize, rng: &mut Rng) -> Samples {
    let mut pixels = vec![0; n * SIDE * SIDE];
    let mut labels = Vec::with_capacity(n);
    let mut deck = Vec::new();
    for image in pixels.chunks_exact_mut(SIDE * SIDE) {
        if deck.is_empty() {
            deck = (0..100).map(|i| (i % CLASSES) as u32).collect();
        }
        let label = deck.swap_remove(rng.below(deck.len()));
        draw(label, rng, image);
        labels.push(label);
    }
    Samples::images(pixels, labels)
}

/// Draws one digit with a random hand and pen into `image`, which is zero.
fn draw(label: u32, rng: &mut Rng, image: &mut [u8]) {
    let ways = GLYPHS[label as usize];
    let way = ways[rng.below(ways.len())];
    let to_pixels = affine(rng);
    let reach = 1.85 + vary(rng, 0.6); // from the middle of a stroke to where its ink ends

    let mut distance2 = [f32::INFINITY; SIDE * SIDE];
    for stroke in way {
        let mut points: Vec<[f32; 2]> = Vec::with_capacity(stroke.len());
        for (i, &point) in stroke.iter().enumerate() {
            points.push(if i > 0 && point == stroke[i - 1] {
                points[i - 1] // a corner stays one
            } else {
                let [x, y] = [point.0, point.1].map(|v| f32::from(v) / 10.0 + vary(rng, 0.2));
                to_pixels([x, y])
            });
        }
        ink_curve(&points, reach, &mut distance2);
    }
    for (pixel, d2) in image.iter_mut().zip(distance2) {
        // Full under the pen, fading over one pixel at its edge; uneven, but never on the paper.
        let ink = (reach - d2.sqrt()).clamp(0.0, 1.0);
        if ink > 0.0 {
            *pixel = (255.0 * ink * (1.0 - 0.3 * rng.uniform() as f32)) as u8;
        }
    }
}

/// A random map from glyph coordinates to pixels: stretch, shear, rotate, shift.
fn affine(rng: &mut Rng) -> impl Fn([f32; 2]) -> [f32; 2] + use<> {
    let [width, height] = [8.5 + vary(rng, 2.5), 8.5 + vary(rng, 2.0)];
    let shear = vary(rng, 0.4);
    // cos and sin from the tangent of half the angle: libm's differ between machines.
    let t = vary(rng, 0.2);
    let [cos, sin] = [(1.0 - t * t) / (1.0 + t * t), 2.0 * t / (1.0 + t * t)];
    let centre = (SIDE - 1) as f32 / 2.0;
    let [dx, dy] = [centre + vary(rng, 2.0), centre + vary(rng, 2.0)];
    move |[x, y]| {
        let [x, y] = [width * (x - shear * y), height * y];
        [cos * x - sin * y + dx, sin * x + cos * y + dy]
    }
}

/// Inks the Catmull-Rom spline through `points`, broken where a point repeats.
fn ink_curve(points: &[[f32; 2]], reach: f32, distance2: &mut [f32]) {
    const PIECES: usize = 6;
    let at = |i: usize| points[i.min(points.len() - 1)];
    for i in 0..points.len() - 1 {
        let [a, b, c, d] = [at(i.saturating_sub(1)), at(i), at(i + 1), at(i + 2)];
        if b == c {
            continue;
        }
        let mut from = b;
        for piece in 1..=PIECES {
            let t = piece as f32 / PIECES as f32;
            let to = [0, 1].map(|k| {
                let [start, end] = [(c[k] - a[k]) / 2.0, (d[k] - b[k]) / 2.0];
                let [rise, bend] = [c[k] - b[k], start + end];
                b[k] + t * (start + t * (3.0 * rise - start - bend + t * (bend - 2.0 * rise)))
            });
            ink_line(from, to, reach, distance2);
            from = to;
        }
    }
}

/// Lowers the squared distance of every pixel within `reach` of the line from `a` to `b`.
fn ink_line(a: [f32; 2], b: [f32; 2], reach: f32, distance2: &mut [f32]) {
    let span = |k: usize| {
        let [low, high] = [a[k].min(b[k]) - reach, a[k].max(b[k]) + reach];
        // `as` turns what lies off the left or upper edge into 0.
        low.ceil() as usize..(high.floor() as usize + 1).min(SIDE)
    };
    let line = [b[0] - a[0], b[1] - a[1]];
    let length2 = (line[0] * line[0] + line[1] * line[1]).max(1e-12);
    for y in span(1) {
        for x in span(0) {
            let p = [x as f32 - a[0], y as f32 - a[1]];
            let t = ((p[0] * line[0] + p[1] * line[1]) / length2).clamp(0.0, 1.0);
            let [ex, ey] = [p[0] - t * line[0], p[1] - t * line[1]];
            let nearest = &mut distance2[y * SIDE + x];
            *nearest = nearest.min(ex * ex + ey * ey);
        }
    }
}

/// In `-most..most`, small values likelier.
fn vary(rng: &mut Rng, most: f32) -> f32 {
    most * (rng.uniform() + rng.uniform() - 1.0) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_draws_the_same_bytes_and_another_seed_others() {
        let [first, again, other] = [7, 7, 8].map(|seed| digits(50, 20, seed));
        assert_eq!((&first.train, &first.test), (&again.train, &again.test));
        assert_ne!(first.train.pixels(), other.train.pixels());
        assert_ne!(first.test.pixels(), other.test.pixels());
    }

    #[test]
    fn a_smaller_set_is_a_prefix_of_a_larger() {
        let [small, large] = [digits(130, 10, 3), digits(250, 120, 3)];
        for (small, large) in [(small.train, large.train), (small.test, large.test)] {
            assert!(large.pixels().starts_with(small.pixels()));
            assert!(large.labels.starts_with(&small.labels));
        }
    }

    #[test]
    fn every_hundred_images_hold_ten_of_each_class_out_of_order() {
        let labels = digits(300, 0, 0).train.labels;
        for hundred in labels.chunks_exact(100) {
            for class in 0..CLASSES as u32 {
                assert_eq!(hundred.iter().filter(|&&l| l == class).count(), 10);
            }
            assert!(!hundred.is_sorted());
        }
        assert_ne!(labels[..100], labels[100..200]);
    }

    #[test]
    fn train_and_test_images_differ() {
        let data = digits(100, 100, 5);
        let images = |split: &Samples| -> Vec<Vec<u8>> {
            split.pixels().chunks_exact(SIDE * SIDE).map(<[u8]>::to_vec).collect()
        };
        let train = images(&data.train);
        assert!(images(&data.test).iter().all(|image| !train.contains(image)));
    }

    #[test]
    fn the_paper_is_blank_and_the_ink_is_sparse() {
        let data = digits(1000, 0, 1);
        let inked = data.train.pixels().iter().filter(|&&p| p > 0).count();
        let share = inked as f64 / data.train.pixels().len() as f64;
        assert!((0.10..0.30).contains(&share), "{share}");
        for image in data.train.pixels().chunks_exact(SIDE * SIDE) {
            for corner in [0, SIDE - 1, SIDE * (SIDE - 1), SIDE * SIDE - 1] {
                assert_eq!(image[corner], 0);
            }
            assert!(image.iter().any(|&p| p > 170), "no pixel has full ink");
        }
    }
}
