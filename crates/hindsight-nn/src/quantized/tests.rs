//! The int16 evaluation against `infer`.

use super::{
    QuantizedMlp, QuantizedRows, WEIGHT_GRID,
    mlp::{BLOCK, ForwardBuffers},
    rows::similarity_order,
};
use crate::{Inputs, Layer, Mlp, Net, Rng, SparseRows, net::argmax_rows};

/// Images in which a fifth of the pixels is not zero.
fn images(count: usize, width: usize, rng: &mut Rng) -> SparseRows {
    let mut rows = SparseRows::new(width);
    let mut pixel = || if rng.below(5) == 0 { rng.below(256) as f32 / 255.0 } else { 0.0 };
    (0..count).for_each(|_| rows.push((0..width).map(|_| pixel()).collect::<Vec<_>>()));
    rows
}

/// A network with perturbed initial weights, multiplied by `scale`.
fn network(widths: &[usize], scale: f32, rng: &mut Rng) -> (Mlp, Vec<f32>) {
    let net = Mlp::new(widths).unwrap();
    let mut theta: Vec<f32> = net.init(rng);
    theta.iter_mut().for_each(|w| *w = (*w + 0.03 * rng.normal() as f32) * scale);
    (net, theta)
}

#[test]
fn predictions_equal_infer_and_few_rows_fall_back() {
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
        let quantized = QuantizedRows::new(&rows);
        let inputs = Inputs::sparse(&rows);
        let classes = widths[widths.len() - 1];
        for allowed in [(0..classes).collect::<Vec<_>>(), (0..classes).step_by(2).collect(), vec![1]] {
            let logits = net.infer(&theta, &inputs, Layer::Logits);
            let expected: Vec<u32> = argmax_rows(&logits, classes, &allowed).collect();
            assert_eq!(
                net.predict_classes(&theta, &inputs.with_quantized(&quantized), &allowed),
                expected,
                "{widths:?}"
            );
            let mlp = QuantizedMlp::new(net.layers(), &theta, net.layers()[0].weights(&theta)).unwrap();
            let found = mlp.predict_classes(&quantized, &allowed);
            let sure = found.iter().filter(|answer| answer.is_some()).count();
            assert!(sure as f64 >= least * 1201.0, "{sure} of 1201 at {widths:?} times {scale}");
            for (found, expected) in found.into_iter().zip(expected) {
                assert!(found.is_none_or(|found| found == expected), "{widths:?} times {scale}");
            }
        }
    }
}

#[test]
fn activations_are_within_the_error_bound() {
    let mut rng = Rng::named(1, "screen");
    for (widths, scale) in [(&[784, 256, 256, 10][..], 1.0), (&[50, 64, 64, 64, 5], 3.0), (&[20, 7, 2], 0.1)]
    {
        let (net, theta) = network(widths, scale, &mut rng);
        let rows = images(BLOCK, widths[0], &mut rng);
        let mlp = QuantizedMlp::new(net.layers(), &theta, net.layers()[0].weights(&theta)).unwrap();
        let mut pass = ForwardBuffers::default();
        mlp.forward(&QuantizedRows::new(&rows), 0..BLOCK, &mut pass);
        let width = widths[widths.len() - 2];
        let features = net.infer(&theta, &Inputs::sparse(&rows), Layer::Features);
        let n = pass.h.len() / BLOCK;
        let order = similarity_order(&rows);
        let mut largest = 0.0f64;
        for (i, &place) in order.iter().enumerate() {
            let exact = &features[place * width..][..width];
            let pairs = exact.iter().zip(&pass.h[i * n..]);
            let off = pairs.map(|(&a, &b)| f64::from(a - b).powi(2)).sum::<f64>().sqrt();
            assert!(off <= pass.errors[i], "{off} above {} at {widths:?}", pass.errors[i]);
            largest = largest.max(pass.errors[i] / f64::from(exact.iter().fold(0.0f32, |m, h| m.max(*h))));
        }
        // A bound that says nothing would pass too.
        assert!(largest < 0.1, "{largest} of the largest activation at {widths:?}");
    }
}

#[test]
fn differences_of_logits_are_within_their_bounds_and_close_on_the_grid() {
    let mut rng = Rng::named(3, "screen");
    let mut mean_bounds = Vec::new();
    for (on_grid, scale) in [(false, 1.0), (true, 1.0), (true, 40.0)] {
        let (net, mut theta) = network(&[784, 256, 256, 10], scale, &mut rng);
        if on_grid {
            theta.iter_mut().for_each(|w| *w = (*w / WEIGHT_GRID).round() * WEIGHT_GRID);
        }
        let rows = images(1000, 784, &mut rng);
        let quantized = QuantizedRows::new(&rows);
        let inputs = Inputs::sparse(&rows);
        assert!(net.infer_bounded(&theta, &inputs).is_none(), "without a quantized copy");
        let exact = net.infer(&theta, &inputs, Layer::Logits);
        let Some(found) = net.infer_bounded(&theta, &inputs.with_quantized(&quantized)) else {
            // Where int16 is not faster, there is nothing to check.
            return;
        };
        for ((exact, found), &bound) in
            exact.chunks_exact(10).zip(found.logits.chunks_exact(10)).zip(&found.bounds)
        {
            for (a, b) in (0..100).map(|i| (i / 10, i % 10)) {
                let off = f64::from(exact[a] - exact[b]) - f64::from(found[a] - found[b]);
                assert!(off.abs() <= f64::from(bound), "{off} above {bound}");
            }
        }
        let spread = exact.iter().fold(0.0f32, |most, x| most.max(x.abs()));
        mean_bounds.push(found.bounds.iter().sum::<f32>() / 1000.0 / spread);
    }
    // Weights above 8 do not fit 16 bits on the grid.
    assert!(3.0 * mean_bounds[1] < mean_bounds[0] && mean_bounds[2] < 0.1, "{mean_bounds:?}");
}

#[test]
fn weights_that_are_not_finite_fall_back_to_infer() {
    let mut rng = Rng::named(2, "screen");
    let (net, theta) = network(&[30, 64, 64, 3], 1.0, &mut rng);
    let rows = images(1000, 30, &mut rng);
    let quantized = QuantizedRows::new(&rows);
    let inputs = Inputs::sparse(&rows);
    let expected = |theta: &[f32]| -> Vec<u32> {
        argmax_rows(&net.infer(theta, &inputs, Layer::Logits), 3, &[0, 1, 2]).collect()
    };
    for (place, value) in
        [(0, f32::NAN), (40, f32::INFINITY), (theta.len() - 1, f32::NAN), (2000, 3e38), (5, -1e30)]
    {
        let mut theta = theta.clone();
        theta[place] = value;
        let predicted = net.predict_classes(&theta, &inputs.with_quantized(&quantized), &[0, 1, 2]);
        assert_eq!(predicted, expected(&theta), "{value} at {place}");
    }
    // All weights zero: every logit is a tie.
    let zero = vec![0.0; theta.len()];
    assert_eq!(net.predict_classes(&zero, &inputs.with_quantized(&quantized), &[0, 1, 2]), expected(&zero));
}
