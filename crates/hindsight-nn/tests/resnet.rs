//! Derivatives of the residual network, batch-norm included, against central differences in f64, and its
//! running statistics.

use hindsight_nn::{BatchNormMode, Gradient, Inputs, Layer, Net, Pixels, ResNet, Rng, Tape, params};

const H: f64 = 1e-5;

struct Case {
    net: ResNet,
    mode: BatchNormMode,
    theta: Vec<f64>,
    x: Vec<f64>,
    labels: Vec<u32>,
    mask: Vec<bool>,
}

/// Stages with and without a change of shape, odd image sizes, both modes of batch-norm.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (seed, (shape, maps, stem)) in
        [([2, 5, 6], [3, 5].as_slice(), 1), ([1, 7, 5], &[4, 4], 2), ([3, 4, 4], &[9], 1)]
            .into_iter()
            .enumerate()
    {
        for mode in [BatchNormMode::Batch, BatchNormMode::Running] {
            let (classes, batch) = (4, 3);
            let net = ResNet::new(shape, maps, stem, classes).unwrap();
            let mut rng = Rng::named(seed as u64, "case");
            let mut theta: Vec<f64> = net.init(&mut rng);
            theta.iter_mut().for_each(|t| *t += 0.2 * rng.uniform());
            let x = (0..batch * shape.iter().product::<usize>()).map(|_| rng.normal()).collect();
            let labels: Vec<u32> = (0..batch).map(|_| rng.below(classes) as u32).collect();
            let allowed = |i: usize| i % classes == labels[i / classes] as usize || i.is_multiple_of(3);
            let mask = (0..batch * classes).map(allowed).collect();
            cases.push(Case { net, mode, theta, x, labels, mask });
        }
    }
    cases
}

impl Case {
    fn tape(&self) -> Tape<f64> {
        Tape::new().with_batch_norm(self.mode)
    }

    fn trainable(&self) -> usize {
        Net::<f64>::trainable(&self.net)
    }

    fn loss(&self, theta: &[f64], x: &[f64], tape: &mut Tape<f64>) -> f64 {
        self.net.forward(theta, x, tape);
        tape.cross_entropy(&self.labels, Some(&self.mask))
    }

    fn gradient(&self, theta: &[f64], tape: &mut Tape<f64>) -> Vec<f64> {
        self.loss(theta, &self.x, tape);
        self.net.backward(theta, tape);
        let mut gradient = vec![0.0; theta.len()];
        self.net.accumulate(tape, 1.0, &mut gradient);
        gradient
    }
}

/// The derivative of `f` at `at` in its first `count` coordinates.
fn differences(at: &[f64], count: usize, mut f: impl FnMut(&[f64]) -> f64) -> Vec<f64> {
    let mut point = at.to_vec();
    (0..count)
        .map(|i| {
            point[i] = at[i] + H;
            let up = f(&point);
            point[i] = at[i] - H;
            let down = f(&point);
            point[i] = at[i];
            (up - down) / (2.0 * H)
        })
        .collect()
}

#[track_caller]
fn assert_close(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    let scale = expected.iter().fold(1e-3, |top: f64, x| top.max(x.abs()));
    for (i, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!((a - b).abs() <= 1e-6 * scale, "entry {i}: found {a}, expected {b}");
    }
}

#[test]
fn gradients_of_any_cotangent_match_differences() {
    for case in cases() {
        let mut rng = Rng::named(9, "cotangent");
        let mut draw = |len: usize| (0..len).map(|_| rng.normal()).collect::<Vec<f64>>();
        let mut tape = case.tape();
        case.net.forward(&case.theta, &case.x, &mut tape);
        let (logits, features) = (draw(tape.logits().len()), draw(tape.features().len()));
        let value = |theta: &[f64], x: &[f64]| {
            let mut tape = case.tape();
            case.net.forward(theta, x, &mut tape);
            params::dot(tape.logits(), &logits) + params::dot(tape.features(), &features)
        };
        tape.seed(&logits, Some(&features));
        case.net.backward(&case.theta, &mut tape);

        let mut gradient = vec![0.0; case.theta.len()];
        case.net.accumulate(&mut tape, 1.0, &mut gradient);
        let (trained, state) = gradient.split_at(case.trainable());
        assert_close(trained, &differences(&case.theta, trained.len(), |theta| value(theta, &case.x)));
        assert!(state.iter().all(|&g| g == 0.0), "running statistics have no gradient");

        let mut gradient = vec![f64::NAN; case.x.len()];
        case.net.input_gradient(&case.theta, &mut tape, &mut gradient);
        assert_close(&gradient, &differences(&case.x, case.x.len(), |x| value(&case.theta, x)));
    }
}

#[test]
fn hvp_matches_differences_of_the_gradient() {
    for case in cases() {
        let (mut rng, mut tape) = (Rng::named(10, "direction"), case.tape());
        let mut v: Vec<f64> = case.theta.iter().map(|_| rng.normal()).collect();
        v[case.trainable()..].fill(0.0);
        let moved = |step: f64| {
            let mut theta = case.theta.clone();
            params::axpy(step, &v, &mut theta);
            case.gradient(&theta, &mut case.tape())
        };
        let expected: Vec<f64> =
            moved(1e-6).iter().zip(moved(-1e-6)).map(|(up, down)| (up - down) / 2e-6).collect();

        case.gradient(&case.theta, &mut tape);
        let mut product = vec![1.0; case.theta.len()];
        case.net.hvp(&case.theta, &v, &mut tape, 2.0, &mut product);
        product.iter_mut().for_each(|p| *p = (*p - 1.0) / 2.0);
        assert_close(&product, &expected);

        let u: Vec<f64> = case.theta.iter().map(|_| rng.normal()).collect();
        let mut other = vec![0.0; u.len()];
        case.net.hvp(&case.theta, &u, &mut tape, 1.0, &mut other);
        let (uhv, vhu) = (params::dot(&u, &product), params::dot(&v, &other));
        assert!((uhv - vhu).abs() < 1e-9 * (1.0 + uhv.abs()), "not symmetric: {uhv} {vhu}");
    }
}

#[test]
fn gradient_operations_equal_dense_algebra() {
    for case in cases() {
        let theta = &case.theta;
        let (mut tape, mut other, mut expected_tape) = (case.tape(), case.tape(), case.tape());
        let g = case.gradient(theta, &mut tape);
        let x: Vec<f64> = case.x.iter().map(|x| 0.5 - x).collect();
        case.loss(theta, &x, &mut other);
        case.net.backward(theta, &mut other);
        let mut r = vec![0.0; theta.len()];
        case.net.accumulate(&mut other, 1.0, &mut r);
        case.gradient(theta, &mut expected_tape);

        let mut hvp = [vec![1.0; theta.len()], vec![1.0; theta.len()]];
        case.net.hvp(theta, &r, &mut expected_tape, 2.0, &mut hvp[0]);
        Gradient::new(&case.net, &mut other).hvp(theta, &mut expected_tape, 2.0, &mut hvp[1]);
        assert_close(&hvp[1], &hvp[0]);

        let sum: Vec<f64> = g.iter().zip(&r).map(|(g, r)| 1.0 + 0.5 * (g - 2.0 * r)).collect();
        for write_out in [false, true] {
            let (mut a, mut b) = (Gradient::new(&case.net, &mut tape), Gradient::new(&case.net, &mut other));
            if write_out {
                assert_close(&[a.dot(&mut b), b.squared_norm()], &[params::dot(&g, &r), params::dot(&r, &r)]);
            }
            let mut found = vec![1.0; theta.len()];
            a.add_sum_to(-2.0, &mut b, 0.5, &mut found);
            assert_close(&found, &sum);
            a.for_each_block(|range, block| assert_close(block.unwrap_or(&[]), &g[range]));
        }

        let mut tapes = [case.tape(), case.tape()];
        Gradient::new(&case.net, &mut tape).forward_ahead(theta, 0.1, &x, &mut tapes);
        let moved: Vec<f64> = theta.iter().zip(&g).map(|(t, g)| t - 0.1 * g).collect();
        for (at, tape) in [theta, &moved].into_iter().zip(&tapes) {
            case.net.forward(at, &x, &mut expected_tape);
            assert_close(tape.logits(), expected_tape.logits());
        }
    }
}

#[test]
fn update_running_stats_moves_towards_the_batch() {
    let net = ResNet::new([2, 6, 6], &[5], 1, 3).unwrap();
    let mut rng = Rng::named(3, "follow");
    let mut theta: Vec<f64> = net.init(&mut rng);
    let x: Vec<f64> = (0..4 * 72).map(|_| 2.0 + rng.normal()).collect();
    let mut tape = Tape::new();
    net.forward(&theta, &x, &mut tape);
    let before = theta.clone();
    for _ in 0..300 {
        net.update_running_stats(&tape, &mut theta);
    }
    let trained = Net::<f64>::trainable(&net);
    assert_eq!(theta[..trained], before[..trained]);
    // Followed for long enough, running statistics are the batch's, up to the correction of the variance.
    let mut running = Tape::new().with_batch_norm(BatchNormMode::Running);
    net.forward(&theta, &x, &mut running);
    let far = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(far(tape.logits(), running.logits()) < 0.02, "{:?} {:?}", tape.logits(), running.logits());
    net.forward(&before, &x, &mut running);
    assert!(far(tape.logits(), running.logits()) > 0.05);
    // By a share of one they are the batch's at once.
    let mut at_once = before.clone();
    net.blend_running_stats(&tape, 1.0, &mut at_once);
    assert!(far(&at_once, &theta) < 1e-9 && far(&at_once, &before) > 0.05);
    // A pass under running statistics has nothing to follow.
    let now = theta.clone();
    net.update_running_stats(&running, &mut theta);
    assert_eq!(theta, now);
}

#[test]
fn infer_equals_the_forward_pass_under_running_statistics() {
    for case in cases().into_iter().filter(|case| case.mode == BatchNormMode::Running) {
        let width = Net::<f64>::inputs(&case.net);
        // More rows than a block.
        let x: Vec<f64> = case.x.iter().copied().cycle().take(43 * width).collect();
        let pixels: Vec<u8> = x.iter().map(|x| (100.0 + 40.0 * x) as u8).collect();
        let (mean, chosen): (Vec<f64>, Vec<u32>) = (x[..width].to_vec(), vec![7, 0, 3, 3, 42]);
        let images = Pixels { pixels: &pixels, mean: &mean };
        for inputs in [Inputs::dense(&x, width), Inputs::pixels(images, &chosen)] {
            let (mut seen, mut tape) = (Vec::new(), case.tape());
            inputs.materialise(0..inputs.len(), &mut seen);
            case.net.forward(&case.theta, &seen, &mut tape);
            assert_close(&case.net.infer(&case.theta, &inputs, Layer::Logits), tape.logits());
            assert_close(&case.net.infer(&case.theta, &inputs, Layer::Features), tape.features());
        }
    }
}

#[test]
fn empty_or_zero_shapes_are_refused() {
    for (shape, maps, stem) in
        [([3, 8, 8], &[][..], 1), ([3, 0, 8], &[4], 1), ([3, 8, 8], &[4, 0], 1), ([3, 8, 8], &[4], 3)]
    {
        assert!(ResNet::new(shape, maps, stem, 10).is_err(), "{shape:?} {maps:?} {stem}");
    }
    let paper = ResNet::reduced18([3, 32, 32], 100).unwrap();
    // As PyTorch counts the same network; each of the 2,780 normalised channels has a running mean and
    // variance.
    assert_eq!(Net::<f32>::trainable(&paper), 1_109_240);
}
