//! The perceptron against the results of a PyTorch program: `reference/mlp.py` writes `mlp.json`.

use hindsight_nn::{Mlp, Net, Scalar, Tape, optim::Adam, params};
use serde::Deserialize;

#[derive(Deserialize)]
struct Golden {
    sizes: Vec<usize>,
    theta: Vec<f64>,
    x: Vec<Vec<f64>>,
    labels: Vec<u32>,
    mask: Vec<Vec<bool>>,
    logits: Vec<Vec<f64>>,
    features: Vec<Vec<f64>>,
    loss: f64,
    loss_masked: f64,
    grad: Vec<f64>,
    grad_masked: Vec<f64>,
    c_logits: Vec<Vec<f64>>,
    c_features: Vec<Vec<f64>>,
    vjp_theta: Vec<f64>,
    vjp_x: Vec<Vec<f64>>,
    v: Vec<f64>,
    hvp: Vec<f64>,
    hvp_masked: Vec<f64>,
    jvp_logits: Vec<Vec<f64>>,
    sgd: Steps,
    adam: Steps,
}

#[derive(Deserialize)]
struct Steps {
    lr: f64,
    theta: Vec<Vec<f64>>,
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("reference/mlp.json")).unwrap()
}

fn flat<T: Scalar>(rows: &[Vec<f64>]) -> Vec<T> {
    rows.iter().flatten().map(|&x| T::of(x)).collect()
}

fn of<T: Scalar>(values: &[f64]) -> Vec<T> {
    values.iter().map(|&x| T::of(x)).collect()
}

#[track_caller]
fn assert_close<T: Scalar>(found: &[T], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (i, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!((a.wide() - b).abs() <= tolerance, "entry {i}: found {a:?}, PyTorch has {b}");
    }
}

/// All checks in one number type.
fn check<T: Scalar>(tolerance: f64) {
    let g = golden();
    let net = Mlp::new(&g.sizes).unwrap();
    let (theta, x): (Vec<T>, Vec<T>) = (of(&g.theta), flat(&g.x));
    let mask: Vec<bool> = g.mask.concat();
    let mut tape = Tape::new();
    let zeros = || vec![T::zero(); theta.len()];

    for (mask, loss, grad, hvp) in
        [(None, g.loss, &g.grad, &g.hvp), (Some(&mask[..]), g.loss_masked, &g.grad_masked, &g.hvp_masked)]
    {
        net.forward(&theta, &x, &mut tape);
        assert_close(tape.logits(), &g.logits.concat(), tolerance);
        assert_close(tape.features(), &g.features.concat(), tolerance);
        assert_close(&[tape.cross_entropy(&g.labels, mask)], &[loss], tolerance);
        net.backward(&theta, &mut tape);
        let mut gradient = zeros();
        net.accumulate(&mut tape, T::one(), &mut gradient);
        assert_close(&gradient, grad, tolerance);
        let mut product = zeros();
        net.hvp(&theta, &of::<T>(&g.v), &mut tape, T::one(), &mut product);
        assert_close(&product, hvp, tolerance);
        assert_close(tape.logits_tangent(), &g.jvp_logits.concat(), tolerance);
    }

    tape.seed(&flat::<T>(&g.c_logits), Some(&flat::<T>(&g.c_features)));
    net.backward(&theta, &mut tape);
    let (mut in_theta, mut in_x) = (zeros(), vec![T::zero(); x.len()]);
    net.accumulate(&mut tape, T::one(), &mut in_theta);
    net.input_gradient(&theta, &mut tape, &mut in_x);
    assert_close(&in_theta, &g.vjp_theta, tolerance);
    assert_close(&in_x, &g.vjp_x.concat(), tolerance);

    let gradient = |theta: &[T], tape: &mut Tape<T>| {
        net.forward(theta, &x, tape);
        tape.cross_entropy(&g.labels, None);
        net.backward(theta, tape);
        let mut gradient = zeros();
        net.accumulate(tape, T::one(), &mut gradient);
        gradient
    };
    let mut at = theta.clone();
    for expected in &g.sgd.theta {
        let step = gradient(&at, &mut tape);
        params::axpy(T::of(-g.sgd.lr), &step, &mut at);
        assert_close(&at, expected, tolerance);
    }
    let mut at = theta.clone();
    let mut adam = Adam::new(T::of(g.adam.lr), at.len());
    for expected in &g.adam.theta {
        let step = gradient(&at, &mut tape);
        adam.step(&mut at, &step);
        assert_close(&at, expected, tolerance);
    }
}

#[test]
fn double_precision_agrees_with_pytorch() {
    check::<f64>(1e-10);
}

#[test]
fn single_precision_agrees_with_pytorch() {
    check::<f32>(1e-5);
}
