//! The residual network against the results of a PyTorch program: `reference/resnet.py` writes `resnet.json`.

use hindsight_nn::{BatchNormMode, Inputs, Layer, Net, ResNet, Scalar, Tape};
use serde::Deserialize;

#[derive(Deserialize)]
struct Golden {
    /// Small networks, with all expected values.
    small: Vec<Small>,
    /// The network of the paper, at a theta given by a formula.
    paper: Paper,
}

#[derive(Deserialize)]
struct Small {
    shape: [usize; 3],
    maps: Vec<usize>,
    stem_stride: usize,
    classes: usize,
    trained: usize,
    theta: Vec<f64>,
    x: Vec<f64>,
    labels: Vec<u32>,
    mask: Vec<Vec<bool>>,
    logits: Vec<f64>,
    features: Vec<f64>,
    loss: f64,
    loss_masked: f64,
    grad: Vec<f64>,
    grad_masked: Vec<f64>,
    c_logits: Vec<f64>,
    c_features: Vec<f64>,
    vjp_theta: Vec<f64>,
    vjp_x: Vec<f64>,
    v: Vec<f64>,
    hvp_masked: Vec<f64>,
    jvp_logits: Vec<f64>,
    running: Running,
    followed: Vec<f64>,
    sgd: Steps,
    inferred_logits: Vec<f64>,
    inferred_features: Vec<f64>,
}

/// Under running statistics.
#[derive(Deserialize)]
struct Running {
    loss: f64,
    grad: Vec<f64>,
    hvp: Vec<f64>,
}

/// theta after some of the steps, running statistics included.
#[derive(Deserialize)]
struct Steps {
    lr: f64,
    kept: Vec<usize>,
    theta: Vec<Vec<f64>>,
}

#[derive(Deserialize)]
struct Paper {
    shape: [usize; 3],
    classes: usize,
    offset: u64,
    /// Ranges in which theta is around 1 instead of 0.
    ones: Vec<[usize; 2]>,
    labels: Vec<u32>,
    logits: Vec<f64>,
    features: Vec<f64>,
    inferred_logits: Vec<f64>,
    loss: f64,
    grad: Vec<Sampled>,
    hvp: Vec<Sampled>,
}

/// Expected values of one tensor of a gradient.
#[derive(Deserialize)]
struct Sampled {
    len: usize,
    norm: f64,
    samples: Vec<f64>,
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("reference/resnet.json")).unwrap()
}

fn of<T: Scalar>(values: &[f64]) -> Vec<T> {
    values.iter().map(|&x| T::of(x)).collect()
}

/// Within `tolerance` of the largest entry.
#[track_caller]
fn assert_close<T: Scalar>(found: &[T], expected: &[f64], tolerance: f64) {
    let largest = expected.iter().fold(0.0, |largest: f64, x| largest.max(x.abs()));
    assert_near(found, expected, tolerance * largest);
}

#[track_caller]
fn assert_near<T: Scalar>(found: &[T], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (i, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!(
            (a.wide() - b).abs() <= tolerance,
            "entry {i}: found {a:?}, PyTorch has {b} +- {tolerance:e}"
        );
    }
}

/// The gradient of the seeded cotangents.
fn gradient<T: Scalar>(net: &ResNet, theta: &[T], tape: &mut Tape<T>) -> Vec<T> {
    net.backward(theta, tape);
    let mut gradient = vec![T::zero(); theta.len()];
    net.accumulate(tape, T::one(), &mut gradient);
    gradient
}

fn hvp<T: Scalar>(net: &ResNet, theta: &[T], v: &[T], tape: &mut Tape<T>) -> Vec<T> {
    let mut product = vec![T::zero(); theta.len()];
    net.hvp(theta, v, tape, T::one(), &mut product);
    product
}

fn check_small<T: Scalar>(g: &Small, tolerance: f64) {
    let net = ResNet::new(g.shape, &g.maps, g.stem_stride, g.classes).unwrap();
    assert_eq!(Net::<T>::trainable(&net), g.trained);
    let (theta, x, v): (Vec<T>, Vec<T>, Vec<T>) = (of(&g.theta), of(&g.x), of(&g.v));
    let mask = g.mask.concat();
    let mut tape = Tape::new();

    net.forward(&theta, &x, &mut tape);
    assert_close(tape.logits(), &g.logits, tolerance);
    assert_close(tape.features(), &g.features, tolerance);
    assert_close(&[tape.cross_entropy(&g.labels, None)], &[g.loss], tolerance);
    assert_close(&gradient(&net, &theta, &mut tape), &g.grad, tolerance);

    assert_close(&[tape.cross_entropy(&g.labels, Some(&mask))], &[g.loss_masked], tolerance);
    assert_close(&gradient(&net, &theta, &mut tape), &g.grad_masked, tolerance);
    assert_close(&hvp(&net, &theta, &v, &mut tape), &g.hvp_masked, tolerance);
    assert_close(tape.logits_tangent(), &g.jvp_logits, tolerance);

    tape.seed(&of::<T>(&g.c_logits), Some(&of::<T>(&g.c_features)));
    assert_close(&gradient(&net, &theta, &mut tape), &g.vjp_theta, tolerance);
    let mut in_x = vec![T::zero(); x.len()];
    net.input_gradient(&theta, &mut tape, &mut in_x);
    assert_close(&in_x, &g.vjp_x, tolerance);

    let mut followed = theta.clone();
    net.update_running_stats(&tape, &mut followed);
    assert_eq!(followed[..g.trained], theta[..g.trained]);
    assert_close(&followed[g.trained..], &g.followed, tolerance);

    let mut running = Tape::new().with_batch_norm(BatchNormMode::Running);
    net.forward(&theta, &x, &mut running);
    assert_close(&[running.cross_entropy(&g.labels, None)], &[g.running.loss], tolerance);
    assert_close(&gradient(&net, &theta, &mut running), &g.running.grad, tolerance);
    assert_close(&hvp(&net, &theta, &v, &mut running), &g.running.hvp, tolerance);

    // From here on the tapes are used again, as in training.
    let mut at = theta;
    let mut kept = g.sgd.kept.iter().zip(&g.sgd.theta).peekable();
    for step in 1.. {
        net.forward(&at, &x, &mut tape);
        tape.cross_entropy(&g.labels, None);
        net.backward(&at, &mut tape);
        net.update_running_stats(&tape, &mut at);
        net.accumulate(&mut tape, T::of(-g.sgd.lr), &mut at);
        if let Some((_, expected)) = kept.next_if(|(kept, _)| **kept == step) {
            assert_close(&at[..g.trained], &expected[..g.trained], tolerance);
            assert_close(&at[g.trained..], &expected[g.trained..], tolerance);
        }
        if kept.peek().is_none() {
            break;
        }
    }
    let inputs = Inputs::dense(&x, Net::<T>::inputs(&net));
    assert_close(&net.infer(&at, &inputs, Layer::Logits), &g.inferred_logits, tolerance);
    assert_close(&net.infer(&at, &inputs, Layer::Features), &g.inferred_features, tolerance);
}

/// The same numbers as `noise` in the PyTorch program: a hash in [-1, 1), exact in `f32`.
fn noise(start: u64, count: usize) -> impl Iterator<Item = f64> {
    (start..).take(count).map(|i| {
        let h = (i as u32).wrapping_mul(2_654_435_761);
        let h = (h ^ h >> 16).wrapping_mul(73_244_475);
        f64::from((h ^ h >> 16) >> 22) / 512.0 - 1.0
    })
}

#[track_caller]
fn assert_sampled<T: Scalar>(mut found: &[T], expected: &[Sampled], tolerance: f64) {
    for Sampled { len, norm, samples } in expected {
        let (tensor, rest) = found.split_at(*len);
        found = rest;
        let squares: f64 = tensor.iter().map(|x| x.wide() * x.wide()).sum();
        assert_near(&[squares.sqrt()], &[*norm], tolerance * norm);
        let chosen: Vec<T> = (0..samples.len()).map(|i| tensor[len * i / samples.len()]).collect();
        // The root mean square of the tensor's own entries is their scale; layers differ much in theirs.
        assert_near(&chosen, samples, tolerance * norm / (*len as f64).sqrt());
    }
    assert!(found.iter().all(|x| *x == T::zero()), "running statistics have a gradient");
}

fn check_paper<T: Scalar>(g: &Paper, forward: f64, derivatives: f64) {
    let net = ResNet::reduced18(g.shape, g.classes).unwrap();
    let (parameters, width) = (Net::<T>::parameters(&net), Net::<T>::inputs(&net));
    let mut theta: Vec<f64> = noise(g.offset, parameters).map(|x| x / 8.0).collect();
    for &[start, end] in &g.ones {
        theta[start..end].iter_mut().for_each(|x| *x += 1.0);
    }
    let theta: Vec<T> = of(&theta);
    let v: Vec<T> = noise(g.offset + parameters as u64, parameters).map(|x| T::of(x / 8.0)).collect();
    let x: Vec<T> =
        noise(g.offset + 2 * parameters as u64, g.labels.len() * width).map(|x| T::of(x)).collect();

    let mut tape = Tape::new();
    net.forward(&theta, &x, &mut tape);
    assert_close(tape.logits(), &g.logits, forward);
    assert_close(tape.features(), &g.features, forward);
    assert_close(&[tape.cross_entropy(&g.labels, None)], &[g.loss], forward);
    assert_sampled(&gradient(&net, &theta, &mut tape), &g.grad, derivatives);
    assert_sampled(&hvp(&net, &theta, &v, &mut tape), &g.hvp, derivatives);
    let inputs = Inputs::dense(&x, width);
    assert_close(&net.infer(&theta, &inputs, Layer::Logits), &g.inferred_logits, forward);
}

// What f32 was measured to be away is a sixth of its tolerances or less: 1.6e-6 of the largest entry in the
// small networks and in values at the real size, 1.2e-5 of a usual entry in derivatives at the real size.
// Kernels that sum in another order have room within that; a wrong term has not. All ReLUs are further from
// their kink (resnet.py).

#[test]
fn double_precision_agrees_with_pytorch() {
    golden().small.iter().for_each(|small| check_small::<f64>(small, 1e-9));
}

#[test]
fn single_precision_agrees_with_pytorch() {
    golden().small.iter().for_each(|small| check_small::<f32>(small, 1e-5));
}

#[test]
fn the_network_of_the_paper_agrees_with_pytorch_in_double_precision() {
    check_paper::<f64>(&golden().paper, 1e-9, 1e-9);
}

#[test]
fn the_network_of_the_paper_agrees_with_pytorch_in_single_precision() {
    check_paper::<f32>(&golden().paper, 1e-5, 1e-4);
}
