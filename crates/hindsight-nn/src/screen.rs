//! Answers by whole numbers, where they are beyond doubt.
//!
//! An exam asks for the best class of a row, not for its logits. Inputs, weights and activations rounded to whole
//! numbers give the logits to about a thousandth, at twice the speed ([`kernels::pair_product`](crate::kernels)). How far
//! they can be off is known for every row: where the best class leads by more than that, it is the one that exact
//! arithmetic finds, and so does [`Net::infer`](crate::Net::infer); the other rows are left to the latter. So the answers are
//! the same, row by row, on every machine.
//!
//! The bound, layer by layer, with `x` the activations here, `X` those of `infer`, `|x - X| <= d`, and the rounded `x~`, `W~`:
//!
//! ```text
//! x~ W~ - X W = (x~ - X) W + x~ (W~ - W),   hence
//! d'  =  |W| (|x~ - x| + d)  +  |W~ - W| |x~|  +  what floating point loses, n u (|W| |X| + |b|)
//! ```
//!
//! in Euclidean norms; ReLU makes no distance larger. Of matrices that is the spectral norm, or a bound on it. In the last layer
//! classes `a` and `b` differ by at most `|w_a - w_b| d` from what they should, summed over the units that can be active.

use std::{cell::RefCell, ops::Range};

use crate::{
    Scalar, SparseRows,
    kernels::{
        ACTIVATION, PairPanels, PairRows, Start, activate, distance_where, pair_product, product,
        product_transposed, round, round_to, take_in,
    },
    layers::linear::Linear,
};

/// The largest whole number that stands for an input: pixels of 8 bits are exact.
const INPUT: f32 = 255.0;

/// What one rounding of `f32` loses.
const UNIT: f64 = 1.0 / (1 << 24) as f64;

/// More than norms lose that are themselves computed in `f32`.
const SLACK: f64 = 1.001;

/// More than is lost where squares are below the smallest `f32`.
const SMALLEST: f64 = 1e-15;

/// Rows that are worked on at a time.
const BLOCK: usize = 60;

/// Inputs as whole numbers, for exams on the same inputs over and over.
#[derive(Debug, Clone)]
pub struct WholeRows {
    /// Which row is where: similar ones are next to each other.
    order: Vec<usize>,
    rows: PairRows,
    /// Value of one.
    unit: f64,
    about: Vec<About>,
}

/// What is known of a row.
#[derive(Debug, Clone, Copy)]
struct About {
    /// Its norm, and how far the whole numbers are from it.
    norm: f64,
    off: f64,
    /// How many of its entries are not zero, and how many terms a sum over it can have in `infer`.
    count: f64,
    terms: f64,
}

impl WholeRows {
    /// The rows, rounded.
    pub fn new(rows: &SparseRows) -> WholeRows {
        let most = (0..rows.len()).flat_map(|i| rows.row(i).1).fold(0.0f32, |most, x| most.max(x.abs()));
        let unit = if most > 0.0 { f64::from(most / INPUT) } else { 1.0 };
        let mut whole =
            WholeRows { order: order(rows), rows: PairRows::new(rows.width()), unit, about: Vec::new() };
        let [mut one, mut two] = [vec![0i16; rows.width()], vec![0i16; rows.width()]];
        for pair in whole.order.chunks(2) {
            one.fill(0);
            two.fill(0);
            for (&i, dense) in pair.iter().zip([&mut one, &mut two]) {
                let (columns, values) = rows.row(i);
                let (mut norm, mut off) = (0.0, 0.0);
                for (&column, &x) in columns.iter().zip(values) {
                    let number = (x / unit as f32).round();
                    dense[column as usize] = number as i16;
                    norm += f64::from(x).powi(2);
                    off += (f64::from(x) - f64::from(number) * unit).powi(2);
                }
                let (norm, off, count) = (norm.sqrt() * SLACK, off.sqrt() * SLACK, columns.len() as f64);
                whole.about.push(About { norm, off, count, terms: count });
            }
            whole.rows.push([&one, &two]);
        }
        whole
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.about.len()
    }
}

/// Rows in an order in which each is followed by the one, out of the next so many, that has the most columns with it in
/// common: the product loads those once for both.
fn order(rows: &SparseRows) -> Vec<usize> {
    const WINDOW: usize = 100;
    let words = rows.width().div_ceil(64);
    let mut used = vec![0u64; rows.len() * words];
    for i in 0..rows.len() {
        rows.row(i).0.iter().for_each(|&c| used[i * words + c as usize / 64] |= 1 << (c % 64));
    }
    let of = |i: usize| &used[i * words..][..words];
    let apart = |i: usize, j: usize| of(i).iter().zip(of(j)).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>();
    let mut rest = 0..rows.len();
    let (mut window, mut order) = (Vec::new(), Vec::with_capacity(rows.len()));
    window.extend(rest.by_ref().take(WINDOW));
    while !window.is_empty() {
        let nearest = |last: &usize| (0..window.len()).min_by_key(|&k| apart(*last, window[k])).unwrap_or(0);
        let next = order.last().map_or(0, nearest);
        order.push(window.swap_remove(next));
        window.extend(rest.next());
    }
    order
}

/// A hidden layer in whole numbers.
struct Whole {
    matrix: PairPanels,
    /// Value of one in each column of the matrix, zero for those that only fill it.
    units: Vec<f32>,
    bias: Vec<f32>,
    /// A bound on the spectral norm of the weights.
    spectral: f64,
    /// The largest norm of a row: of the weights, and of what rounding changed of them.
    row: f64,
    row_off: f64,
    frobenius: f64,
    bias_norm: f64,
}

impl Whole {
    /// None if the weights are not finite. `most` is the largest number that one of the `inputs` can be.
    fn new<T: Scalar>(weights: &[T], bias: &[T], inputs: usize, most: f32) -> Option<Whole> {
        let n = bias.len();
        let rows = weights.len() / n;
        let (narrow, bias) = (narrow(weights), narrow(bias));
        // Per column: the largest weight must fit into 16 bits, and the sum of all products into 32.
        let [mut largest, mut sums] = [vec![0.0; n], vec![0.0; n]];
        narrow.chunks_exact(n).for_each(|row| take_in(row, &mut largest, &mut sums));
        let room = f64::from(i32::MAX) / f64::from(most) - rows as f64;
        // A sum is not finite if one of its terms is not.
        if room <= 0.0 || !sums.iter().chain(&bias).all(|sum| sum.is_finite()) {
            return None;
        }
        let unit = |(&largest, &sum): (&f32, &f32)| {
            let unit = (f64::from(largest) / f64::from(i16::MAX)).max(f64::from(sum) / room);
            (unit * SLACK) as f32 + f32::MIN_POSITIVE
        };
        let mut units: Vec<f32> = largest.iter().zip(&sums).map(unit).collect();
        let (mut square, mut row, mut row_off) = (0.0, 0.0f64, 0.0f64);
        let matrix = PairPanels::new(inputs, n, |i, to| match narrow.get(i * n..(i + 1) * n) {
            Some(values) => {
                let mut norms = [0.0; 2];
                round_to(values, &units, to, &mut norms);
                let [norm, off] = norms.map(|square| f64::from(square).sqrt() * SLACK);
                square += norm * norm;
                row = row.max(norm);
                // The distance itself is rounded.
                row_off = row_off.max(off + 4.0 * UNIT * norm);
            }
            // The layer before has columns that only fill its last panel.
            None => to.fill(0),
        });
        units.resize(matrix.padded(), 0.0);
        let bias_norm = bias.iter().map(|&b| f64::from(b).powi(2)).sum::<f64>().sqrt() * SLACK;
        let mut padded = bias;
        padded.resize(matrix.padded(), 0.0);
        let frobenius = square.sqrt();
        // Inputs are hardly rounded, so that the first layer's norm hardly counts.
        let spectral = if most == INPUT { frobenius } else { spectral_again(weights, narrow, n, frobenius) };
        Some(Whole { matrix, units, bias: padded, spectral, row, row_off, frobenius, bias_norm })
    }

    /// How far the next activations can be off.
    fn distance(&self, row: About, before: f64) -> f64 {
        // Of a matrix only the rows count at which the input is not zero: so many have at most this norm.
        let rows = row.count.sqrt();
        // The sums of `infer`, and the few roundings from whole numbers back.
        let lost = (row.terms + 32.0) * UNIT;
        let lost = lost * (rows * self.row * (row.norm + row.off) + self.frobenius * before + self.bias_norm);
        let rounded = rows * self.row_off * (row.norm + row.off);
        SLACK * (self.spectral * (row.off + before) + rounded + lost) + SMALLEST
    }
}

/// In `f32`, which they are but in tests of derivatives.
fn narrow<T: Scalar>(values: &[T]) -> Vec<f32> {
    values.iter().map(|x| x.wide() as f32).collect()
}

thread_local! {
    /// Weights, their number of columns and their bound: twenty exams in a row ask for the same one.
    static LAST: RefCell<(Vec<f32>, usize, f64)> = const { RefCell::new((Vec::new(), 0, 0.0)) };
}

/// [`spectral`] of `weights`, which are `narrow` in `f32`.
fn spectral_again<T: Scalar>(weights: &[T], narrow: Vec<f32>, n: usize, frobenius: f64) -> f64 {
    LAST.with_borrow_mut(|last| {
        if last.1 != n || last.0 != narrow {
            *last = (narrow, n, spectral(weights, n, frobenius));
        }
        last.2
    })
}

/// A bound on the spectral norm: its eighth power is at most the Frobenius norm of `(W W^T)^4`.
fn spectral<T: Scalar>(weights: &[T], n: usize, frobenius: f64) -> f64 {
    let rows = weights.len() / n;
    let (mut matrix, mut width, mut norm) = (weights.to_vec(), n, frobenius);
    // How far `matrix` can be from what it stands for, in the Frobenius norm.
    let mut lost = 0.0;
    for _ in 0..3 {
        let mut square = vec![T::zero(); rows * rows];
        product_transposed(&matrix, &matrix, width, false, &mut square);
        lost = 2.0 * norm * lost + lost * lost + (width + 1) as f64 * UNIT * norm * norm;
        norm = square.iter().map(|x| x.wide() * x.wide()).sum::<f64>().sqrt();
        (matrix, width) = (square, rows);
    }
    (norm + lost).powf(0.125) * SLACK
}

/// A perceptron in whole numbers.
pub(crate) struct Screen {
    hidden: Vec<Whole>,
    /// The last layer: weights `[units, columns]` and biases, zeros behind those of the classes, and the weights by class.
    weights: Vec<f32>,
    bias: Vec<f32>,
    by_class: Vec<f32>,
    /// `|w_a - w_b|` of classes `a` and `b`, and the largest `|w_a|` and bias.
    apart: Vec<f64>,
    classes: usize,
    largest: f64,
    largest_bias: f64,
}

impl Screen {
    /// None if it would be of no use. `first` are the first layer's weights, in which a map may be folded.
    pub(crate) fn new<T: Scalar>(layers: &[Linear], theta: &[T], first: &[T]) -> Option<Screen> {
        let (last, hidden) = layers.split_last()?;
        let mut whole: Vec<Whole> = Vec::new();
        for layer in hidden {
            let bias = layer.bias(theta);
            whole.push(match whole.last() {
                None => Whole::new(first, bias, layer.inputs, INPUT)?,
                Some(below) => Whole::new(layer.weights(theta), bias, below.units.len(), ACTIVATION)?,
            });
        }
        let (classes, units) = (last.outputs, whole.last()?.units.len());
        // Whole tiles are faster than parts of them.
        let columns = classes.next_multiple_of(16);
        let mut weights = vec![0.0; units * columns];
        for (to, from) in
            weights.chunks_exact_mut(columns).zip(narrow(last.weights(theta)).chunks_exact(classes))
        {
            to[..classes].copy_from_slice(from);
        }
        let mut bias = narrow(last.bias(theta));
        bias.resize(columns, 0.0);
        let by_class: Vec<f32> =
            (0..classes * units).map(|i| weights[i % units * columns + i / units]).collect();
        let of = |class: usize| &by_class[class * units..][..units];
        let apart = |i: usize| {
            let pairs = of(i / classes).iter().zip(of(i % classes));
            pairs.map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2)).sum::<f64>().sqrt() * SLACK
        };
        let norm = |class: usize| of(class).iter().map(|&w| f64::from(w).powi(2)).sum::<f64>().sqrt();
        let largest = (0..classes).map(norm).fold(0.0, f64::max);
        let largest_bias = bias.iter().fold(0.0, |most: f64, &b| most.max(f64::from(b).abs()));
        let apart = (0..classes * classes).map(apart).collect();
        Some(Screen { hidden: whole, weights, bias, by_class, apart, classes, largest, largest_bias })
    }

    /// The best of the `allowed` classes for each row, where it is beyond doubt.
    pub(crate) fn answers(&self, inputs: &WholeRows, allowed: &[usize]) -> Vec<Option<u32>> {
        let columns = self.bias.len();
        let (mut answers, mut pass, mut logits) = (vec![None; inputs.len()], Pass::default(), Vec::new());
        for start in (0..inputs.len()).step_by(BLOCK) {
            let range = start..(start + BLOCK).min(inputs.len());
            self.forward(inputs, range.clone(), &mut pass);
            logits.resize(pass.units.len() * columns, 0.0);
            product(&pass.h, &self.weights, columns, Start::Bias(&self.bias), false, &mut logits);
            for (i, (row, &place)) in logits.chunks_exact(columns).zip(&inputs.order[range]).enumerate() {
                answers[place] = self.best(row, allowed, &pass, i);
            }
        }
        answers
    }

    /// Carries rows through the hidden layers.
    fn forward(&self, inputs: &WholeRows, range: Range<usize>, pass: &mut Pass) {
        let Pass { sums, h, numbers, rows, norms, units, about, distances } = pass;
        // Rows go two by two.
        let batch = range.len().next_multiple_of(2);
        about.clear();
        about.extend_from_slice(&inputs.about[range.clone()]);
        distances.clear();
        distances.resize(batch, 0.0);
        units.clear();
        units.resize(batch, inputs.unit as f32);
        norms.resize(batch, [0.0; 3]);
        for (l, layer) in self.hidden.iter().enumerate() {
            let n = layer.units.len();
            sums.resize(batch * n, 0);
            match l {
                0 => pair_product(&inputs.rows, range.start / 2..range.end.div_ceil(2), &layer.matrix, sums),
                _ => pair_product(rows, 0..batch / 2, &layer.matrix, sums),
            }
            h.resize(batch * n, 0.0);
            activate(sums, units, &layer.units, &layer.bias, h, norms);
            if l + 1 < self.hidden.len() {
                numbers.resize(batch * n, 0);
                round(h, norms, units, numbers);
                rows.clear(n);
                numbers.chunks_exact(2 * n).for_each(|two| rows.push(two.split_at(n).into()));
            }
            for ((about, distance), &[square, off, count]) in
                about.iter_mut().zip(&mut *distances).zip(&*norms)
            {
                *distance = layer.distance(*about, *distance);
                // Behind the last layer nothing is rounded, and nobody asks how far it is off.
                let norm = |square: f32| f64::from(square).sqrt() * SLACK;
                *about =
                    About { norm: norm(square), off: norm(off), count: f64::from(count), terms: n as f64 };
            }
        }
    }

    /// The best class of row `i`, if it leads by more than the logits can be off.
    fn best(&self, logits: &[f32], allowed: &[usize], pass: &Pass, i: usize) -> Option<u32> {
        let (row, distance) = (pass.about[i], pass.distances[i]);
        let best = allowed.iter().copied().max_by(|&a, &b| logits[a].total_cmp(&logits[b]))?;
        let lost = (row.terms + 16.0) * UNIT * (self.largest * (row.norm + distance) + self.largest_bias);
        // Both sides' two logits. What is not a number is never larger, so it is in doubt.
        let lead = |class: usize| f64::from(logits[best]) - f64::from(logits[class]) - 4.0 * SLACK * lost;
        let beyond = |class: usize| {
            class == best
                || lead(class) > self.apart[best * self.classes + class] * distance
                || lead(class) > self.apart_where_active(best, class, pass, i) * distance
        };
        allowed.iter().all(|&class| beyond(class)).then_some(best as u32)
    }

    /// `|w_a - w_b|` over the units that can be active in row `i`: one that is further below zero than it can be off is not
    /// active in `infer` either.
    fn apart_where_active(&self, a: usize, b: usize, pass: &Pass, i: usize) -> f64 {
        let Some(Whole { units, bias, .. }) = self.hidden.last() else { return f64::NAN };
        let n = units.len();
        let [a, b] = [a, b].map(|class| &self.by_class[class * n..][..n]);
        let least = -(pass.distances[i] * SLACK) as f32;
        let mut square = 0.0;
        distance_where(a, b, &pass.sums[i * n..][..n], units, bias, [pass.units[i], least], &mut square);
        f64::from(square).sqrt() * SLACK
    }
}

/// A block of rows on its way.
#[derive(Debug, Default)]
struct Pass {
    sums: Vec<i32>,
    /// The activations and, as whole numbers, the input of the next layer.
    h: Vec<f32>,
    numbers: Vec<i16>,
    rows: PairRows,
    norms: Vec<[f32; 3]>,
    /// Value of one, row by row.
    units: Vec<f32>,
    about: Vec<About>,
    /// How far the activations can be from those of `infer`.
    distances: Vec<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Inputs, Layer, Mlp, Net, Rng, net::best_classes};

    /// Images with a fifth of their pixels not zero.
    fn images(count: usize, width: usize, rng: &mut Rng) -> SparseRows {
        let mut rows = SparseRows::new(width);
        let mut pixel = || if rng.below(5) == 0 { rng.below(256) as f32 / 255.0 } else { 0.0 };
        (0..count).for_each(|_| rows.push((0..width).map(|_| pixel()).collect::<Vec<_>>()));
        rows
    }

    /// A network some way from where it starts, its weights `scale` times as large.
    fn network(widths: &[usize], scale: f32, rng: &mut Rng) -> (Mlp, Vec<f32>) {
        let net = Mlp::new(widths).unwrap();
        let mut theta: Vec<f32> = net.init(rng);
        theta.iter_mut().for_each(|w| *w = (*w + 0.03 * rng.normal() as f32) * scale);
        (net, theta)
    }

    #[test]
    fn answers_are_those_of_infer_and_most_are_beyond_doubt() {
        let mut rng = Rng::named(0, "screen");
        for (widths, scale, least) in [
            (&[784, 256, 256, 10][..], 1.0, 0.8),
            (&[784, 256, 256, 10], 0.01, 0.0),
            (&[784, 256, 256, 10], 30.0, 0.5),
            (&[101, 70, 3], 1.0, 0.9),
            (&[64, 100, 65, 30, 4], 1.0, 0.5),
            (&[9, 1, 2], 1.0, 0.9),
        ] {
            let (net, theta) = network(widths, scale, &mut rng);
            let rows = images(1201, widths[0], &mut rng);
            let whole = WholeRows::new(&rows);
            let inputs = Inputs::sparse(&rows);
            let classes = widths[widths.len() - 1];
            for allowed in [(0..classes).collect::<Vec<_>>(), (0..classes).step_by(2).collect(), vec![1]] {
                let expected = best_classes(&net.infer(&theta, &inputs, Layer::Logits), classes, &allowed);
                assert_eq!(net.answers(&theta, &inputs.screened(&whole), &allowed), expected, "{widths:?}");
                let screen = Screen::new(net.layers(), &theta, net.layers()[0].weights(&theta)).unwrap();
                let found = screen.answers(&whole, &allowed);
                let sure = found.iter().filter(|answer| answer.is_some()).count();
                assert!(sure as f64 >= least * 1201.0, "{sure} of 1201 at {widths:?} times {scale}");
                for (found, expected) in found.into_iter().zip(expected) {
                    assert!(found.is_none_or(|found| found == expected), "{widths:?} times {scale}");
                }
            }
        }
    }

    #[test]
    fn activations_are_as_near_as_promised() {
        let mut rng = Rng::named(1, "screen");
        for (widths, scale) in
            [(&[784, 256, 256, 10][..], 1.0), (&[50, 64, 64, 64, 5], 3.0), (&[20, 7, 2], 0.1)]
        {
            let (net, theta) = network(widths, scale, &mut rng);
            let rows = images(BLOCK, widths[0], &mut rng);
            let screen = Screen::new(net.layers(), &theta, net.layers()[0].weights(&theta)).unwrap();
            let mut pass = Pass::default();
            screen.forward(&WholeRows::new(&rows), 0..BLOCK, &mut pass);
            let width = widths[widths.len() - 2];
            let features = net.infer(&theta, &Inputs::sparse(&rows), Layer::Features);
            let n = pass.h.len() / BLOCK;
            let order = order(&rows);
            let mut largest = 0.0f64;
            for (i, &place) in order.iter().enumerate() {
                let exact = &features[place * width..][..width];
                let pairs = exact.iter().zip(&pass.h[i * n..]);
                let off = pairs.map(|(&a, &b)| f64::from(a - b).powi(2)).sum::<f64>().sqrt();
                assert!(off <= pass.distances[i], "{off} above {} at {widths:?}", pass.distances[i]);
                largest =
                    largest.max(pass.distances[i] / f64::from(exact.iter().fold(0.0f32, |m, h| m.max(*h))));
            }
            // A bound that says nothing would pass too.
            assert!(largest < 0.1, "{largest} of the largest activation at {widths:?}");
        }
    }

    #[test]
    fn what_is_not_finite_is_left_to_infer() {
        let mut rng = Rng::named(2, "screen");
        let (net, theta) = network(&[30, 64, 64, 3], 1.0, &mut rng);
        let rows = images(1000, 30, &mut rng);
        let whole = WholeRows::new(&rows);
        let inputs = Inputs::sparse(&rows);
        let expected = |theta: &[f32]| best_classes(&net.infer(theta, &inputs, Layer::Logits), 3, &[0, 1, 2]);
        for (place, value) in
            [(0, f32::NAN), (40, f32::INFINITY), (theta.len() - 1, f32::NAN), (2000, 3e38), (5, -1e30)]
        {
            let mut theta = theta.clone();
            theta[place] = value;
            let answers = net.answers(&theta, &inputs.screened(&whole), &[0, 1, 2]);
            assert_eq!(answers, expected(&theta), "{value} at {place}");
        }
        // All weights zero: every logit is a tie.
        let zero = vec![0.0; theta.len()];
        assert_eq!(net.answers(&zero, &inputs.screened(&whole), &[0, 1, 2]), expected(&zero));
    }
}
