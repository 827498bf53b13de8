//! Derivatives against central differences in f64, on the same code that learners run in f32.

use hindsight_nn::{
    Correction, Gradient, Inputs, Layer, LinearMap, LocalNet, LocalPass, Mlp, Net, Rng, SparseRows,
    StepAhead, Tape, params,
};

const H: f64 = 1e-6;

struct Case {
    net: Mlp,
    theta: Vec<f64>,
    x: Vec<f64>,
    labels: Vec<u32>,
    mask: Option<Vec<bool>>,
}

/// Perceptrons of several depths, with dense and sparse inputs, with and without a mask.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (seed, widths) in [[5, 7, 3].as_slice(), &[6, 9, 8, 4], &[70, 65, 6, 5, 3]].iter().enumerate() {
        for (share, masked) in [(1.0, false), (0.2, false), (0.2, true), (1.0, true)] {
            let net = Mlp::new(widths).unwrap();
            let mut rng = Rng::named(seed as u64, "case");
            let theta: Vec<f64> = (0..Net::<f64>::parameters(&net)).map(|_| 0.5 * rng.normal()).collect();
            let batch = 4;
            let x = (0..batch * widths[0])
                .map(|_| if rng.uniform() < share { rng.normal() } else { 0.0 })
                .collect();
            let classes = *widths.last().unwrap();
            let labels: Vec<u32> = (0..batch).map(|_| rng.below(classes) as u32).collect();
            let mask = masked.then(|| {
                (0..batch * classes)
                    .map(|i| i % classes == labels[i / classes] as usize || rng.uniform() < 0.5)
                    .collect()
            });
            cases.push(Case { net, theta, x, labels, mask });
        }
    }
    cases
}

impl Case {
    fn loss(&self, theta: &[f64], x: &[f64], tape: &mut Tape<f64>) -> f64 {
        self.net.forward(theta, x, tape);
        tape.cross_entropy(&self.labels, self.mask.as_deref())
    }

    fn gradient(&self, theta: &[f64], tape: &mut Tape<f64>) -> Vec<f64> {
        self.loss(theta, &self.x, tape);
        self.net.backward(theta, tape);
        let mut gradient = vec![0.0; theta.len()];
        self.net.accumulate(tape, 1.0, &mut gradient);
        gradient
    }
}

/// The derivative of `f` at `at` in each coordinate.
fn differences(at: &[f64], mut f: impl FnMut(&[f64]) -> f64) -> Vec<f64> {
    let mut point = at.to_vec();
    (0..at.len())
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

fn assert_close(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (i, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!((a - b).abs() <= 1e-7 * (1.0 + b.abs()), "entry {i}: found {a}, differences give {b}");
    }
}

#[test]
fn cross_entropy_gradient_matches_differences() {
    let mut tape = Tape::new();
    for case in cases() {
        let gradient = case.gradient(&case.theta, &mut tape);
        let expected = differences(&case.theta, |theta| case.loss(theta, &case.x, &mut Tape::new()));
        assert_close(&gradient, &expected);
    }
}

#[test]
fn gradients_of_any_cotangent_match_differences() {
    let mut tape = Tape::new();
    for case in cases() {
        let mut rng = Rng::named(9, "cotangent");
        let mut draw = |len: usize| (0..len).map(|_| rng.normal()).collect::<Vec<f64>>();
        case.net.forward(&case.theta, &case.x, &mut tape);
        let (logits, features) = (draw(tape.logits().len()), draw(tape.features().len()));
        let value = |theta: &[f64], x: &[f64]| {
            let mut tape = Tape::new();
            case.net.forward(theta, x, &mut tape);
            params::dot(tape.logits(), &logits) + params::dot(tape.features(), &features)
        };
        tape.seed(&logits, Some(&features));
        case.net.backward(&case.theta, &mut tape);

        let mut gradient = vec![0.0; case.theta.len()];
        case.net.accumulate(&mut tape, 1.0, &mut gradient);
        assert_close(&gradient, &differences(&case.theta, |theta| value(theta, &case.x)));

        let mut gradient = vec![f64::NAN; case.x.len()];
        case.net.input_gradient(&case.theta, &mut tape, &mut gradient);
        assert_close(&gradient, &differences(&case.x, |x| value(&case.theta, x)));

        // A later pass without a cotangent of the features must not use this one.
        tape.seed(&logits, None);
        case.net.backward(&case.theta, &mut tape);
        let mut gradient = vec![0.0; case.theta.len()];
        case.net.accumulate(&mut tape, 1.0, &mut gradient);
        let expected = differences(&case.theta, |theta| {
            let mut tape = Tape::new();
            case.net.forward(theta, &case.x, &mut tape);
            params::dot(tape.logits(), &logits)
        });
        assert_close(&gradient, &expected);
    }
}

#[test]
fn hvp_matches_differences_of_the_gradient() {
    let mut tape = Tape::new();
    for case in cases() {
        let mut rng = Rng::named(10, "direction");
        let v: Vec<f64> = case.theta.iter().map(|_| rng.normal()).collect();
        let moved = |step: f64| {
            let mut theta = case.theta.clone();
            params::axpy(step, &v, &mut theta);
            case.gradient(&theta, &mut Tape::new())
        };
        let expected: Vec<f64> =
            moved(H).iter().zip(moved(-H)).map(|(up, down)| (up - down) / (2.0 * H)).collect();

        case.gradient(&case.theta, &mut tape);
        let mut product = vec![1.0; case.theta.len()];
        case.net.hvp(&case.theta, &v, &mut tape, 2.0, &mut product);
        product.iter_mut().for_each(|p| *p = (*p - 1.0) / 2.0);
        assert_close(&product, &expected);
    }
}

#[test]
fn operations_on_factors_equal_those_on_the_dense_gradient() {
    for case in cases() {
        let mut rng = Rng::named(14, "others");
        let (width, classes) = (Net::<f64>::inputs(&case.net), Net::<f64>::classes(&case.net));
        let others: Vec<f64> = (0..3 * width).map(|_| rng.normal()).collect();
        let cotangent: Vec<f64> = (0..3 * classes).map(|_| rng.normal()).collect();
        let ahead: Vec<f64> = case.theta.iter().map(|t| t + 0.1 * rng.normal()).collect();
        let pass = |theta: &[f64], x: &[f64]| {
            let (mut tape, mut gradient) = (Tape::new(), vec![0.0; theta.len()]);
            case.net.forward(theta, x, &mut tape);
            tape.seed(&cotangent, None);
            case.net.backward(theta, &mut tape);
            case.net.accumulate(&mut tape, 1.0, &mut gradient);
            (tape, gradient)
        };
        let (mut plus, v) = pass(&ahead, &others);

        let mut tape = Tape::new();
        case.gradient(&case.theta, &mut tape);
        let (mut expected, mut found) = (vec![1.0; v.len()], vec![1.0; v.len()]);
        case.net.hvp(&case.theta, &v, &mut tape, 2.0, &mut expected);
        Gradient::new(&case.net, &mut plus).hvp(&case.theta, &mut tape, 2.0, &mut found);
        assert_close(&found, &expected);

        // Over the same inputs, which share the product of the first layer, and over others.
        let different: Vec<f64> = others.iter().map(|x| x + 1.0).collect();
        for x in [&others, &different] {
            let (mut minus, u) = pass(&case.theta, x);
            let mut found = vec![1.0; v.len()];
            let (mut plus, mut minus) =
                (Gradient::new(&case.net, &mut plus), Gradient::new(&case.net, &mut minus));
            plus.add_sum_to(-1.0, &mut minus, 0.5, &mut found);
            let expected: Vec<f64> = v.iter().zip(&u).map(|(v, u)| 1.0 + 0.5 * (v - u)).collect();
            assert_close(&found, &expected);
            assert_close(
                &[plus.dot(&mut minus), minus.squared_norm()],
                &[params::dot(&v, &u), params::dot(&u, &u)],
            );
        }
    }
}

#[test]
fn the_hessian_is_symmetric() {
    let mut tape = Tape::new();
    for case in cases() {
        let mut rng = Rng::named(11, "direction");
        let mut draw = || case.theta.iter().map(|_| rng.normal()).collect::<Vec<f64>>();
        let (u, v) = (draw(), draw());
        case.gradient(&case.theta, &mut tape);
        let (mut hu, mut hv) = (vec![0.0; u.len()], vec![0.0; u.len()]);
        case.net.hvp(&case.theta, &u, &mut tape, 1.0, &mut hu);
        case.net.hvp(&case.theta, &v, &mut tape, 1.0, &mut hv);
        let (uhv, vhu) = (params::dot(&u, &hv), params::dot(&v, &hu));
        assert!((uhv - vhu).abs() < 1e-10 * (1.0 + uhv.abs()), "{uhv} {vhu}");
    }
}

#[test]
fn accumulating_into_theta_equals_gradient_then_axpy_bit_for_bit() {
    let net = Mlp::new(&[30, 40, 20, 10]).unwrap();
    for share in [0.2, 1.0] {
        let mut rng = Rng::named(12, "fused");
        let theta: Vec<f32> = net.init(&mut rng);
        let x: Vec<f32> =
            (0..20 * 30).map(|_| if rng.uniform() < share { rng.uniform() as f32 } else { 0.0 }).collect();
        let labels: Vec<u32> = (0..20).map(|_| rng.below(10) as u32).collect();
        let mut tape = Tape::new();
        net.forward(&theta, &x, &mut tape);
        tape.cross_entropy(&labels, None);
        net.backward(&theta, &mut tape);

        let mut fused = theta.clone();
        net.accumulate(&mut tape, -0.1, &mut fused);
        let (mut gradient, mut apart) = (vec![0.0; theta.len()], theta.clone());
        net.accumulate(&mut tape, 1.0, &mut gradient);
        params::axpy(-0.1, &gradient, &mut apart);
        let differing = fused.iter().zip(&apart).filter(|(a, b)| a.to_bits() != b.to_bits()).count();
        assert_eq!(differing, 0, "of {} parameters", theta.len());

        let (mut joined, mut visited) = (vec![f32::NAN; theta.len()], 0);
        Gradient::new(&net, &mut tape).for_each_block(|range, block| {
            visited += range.len();
            match block {
                Some(block) => joined[range].copy_from_slice(block),
                None => joined[range].fill(0.0),
            }
        });
        assert_eq!((joined, visited), (gradient, theta.len()), "each block once");
    }
}

#[test]
fn forward_ahead_equals_forward_after_a_step() {
    for case in cases() {
        let mut rng = Rng::named(14, "ahead");
        let (theta, mut along) = (&case.theta, Tape::new());
        let gradient = case.gradient(theta, &mut along);
        let moved: Vec<f64> = theta.iter().zip(gradient).map(|(t, g)| t - 0.3 * g).collect();
        // Other inputs, and three times as many.
        let x: Vec<f64> = (0..3 * case.x.len()).map(|_| rng.normal().max(0.0)).collect();
        let (mut tapes, mut plain) = ([Tape::new(), Tape::new()], Tape::new());
        Gradient::new(&case.net, &mut along).forward_ahead(theta, 0.3, &x, &mut tapes);
        case.net.forward(theta, &x, &mut plain);
        assert_eq!(tapes[0].logits(), plain.logits());
        case.net.forward(&moved, &x, &mut plain);
        for (a, b) in tapes[1].logits().iter().zip(plain.logits()) {
            assert!((a - b).abs() < 1e-12 * (1.0 + b.abs()), "{a}, expected {b}");
        }
    }
}

#[test]
fn a_step_ahead_without_its_first_layer_equals_the_whole_one() {
    for case in cases() {
        let mut rng = Rng::named(15, "ahead");
        // Dense inputs beside the batch, and half as many.
        let x: Vec<f64> = (0..case.x.len() / 2).map(|_| rng.normal()).collect();
        let seed: Vec<f64> = (0..2 * Net::<f64>::classes(&case.net)).map(|_| rng.normal()).collect();
        for correction in [Correction::Here, Correction::Difference, Correction::WithHessian] {
            let [factored, whole] = [false, true].map(|whole| {
                let [mut tape, mut here, mut there] = [(); 3].map(|()| Tape::new());
                case.gradient(&case.theta, &mut tape);
                let (mut g, mut theta) = (Gradient::new(&case.net, &mut tape), case.theta.clone());
                let mut step = StepAhead::new(0.2, whole);
                assert_eq!(step.begin(&mut g, &theta).is_some(), whole);
                step.forward(&mut g, &theta, &x, [&mut here, &mut there]);
                let logits = [here.logits().to_vec(), there.logits().to_vec()];
                here.seed(&seed, None);
                there.seed(&seed, None);
                step.correct(&mut g, &mut theta, [&mut here, &mut there], correction);
                step.finish(&g, &mut theta);
                [logits.concat(), theta].concat()
            });
            for (a, b) in factored.iter().zip(whole) {
                assert!((a - b).abs() < 1e-12 * (1.0 + b.abs()), "{a}, expected {b}");
            }
        }
    }
}

#[test]
fn the_local_reparameterisation_agrees_with_differences() {
    for case in cases() {
        let mut rng = Rng::named(16, "local");
        let (net, batch, draws) = (&case.net, case.labels.len(), 3);
        let variance: Vec<f64> = case.theta.iter().map(|_| (0.3 * rng.normal() - 2.0).exp()).collect();
        let units = LocalNet::<f64>::units(net);
        let eps: Vec<f64> = (0..draws * batch * units).map(|_| rng.normal()).collect();
        let labels = case.labels.repeat(draws);
        let mask = case.mask.as_ref().map(|mask| mask.repeat(draws));
        let mut pass = LocalPass::default();
        let loss = |q: [&[f64]; 2], pass: &mut LocalPass<f64>| {
            net.forward_local(q, &case.x, &eps, pass);
            pass.tape.cross_entropy(&labels, mask.as_deref())
        };
        loss([&case.theta, &variance], &mut pass);
        let [mut by_mu, mut by_variance] = [(); 2].map(|()| vec![0.0; variance.len()]);
        net.backward_local([&case.theta, &variance], &eps, &mut pass, [&mut by_mu, &mut by_variance]);
        assert_close(&by_mu, &differences(&case.theta, |mu| loss([mu, &variance], &mut pass)));
        assert_close(&by_variance, &differences(&variance, |v| loss([&case.theta, v], &mut pass)));
    }
}

/// The definition, row by row and unit by unit.
#[test]
fn outputs_have_the_mean_and_variance_of_drawn_weights() {
    let net = Mlp::new(&[3, 2, 2]).unwrap();
    let mut rng = Rng::named(17, "local");
    let len = Net::<f64>::parameters(&net);
    let mu: Vec<f64> = (0..len).map(|_| rng.normal()).collect();
    let variance: Vec<f64> = (0..len).map(|_| rng.uniform()).collect();
    let (x, eps) = ([0.5, 0.0, -2.0], [0.7, -0.3, 1.1, 0.4]);
    let mut pass = LocalPass::default();
    net.forward_local([&mu, &variance], &x, &eps, &mut pass);
    let layer = |h: &[f64], first: usize, eps: &[f64]| -> Vec<f64> {
        let sum = |of: &[f64], j: usize, h: &dyn Fn(usize) -> f64| {
            (0..h_len(first)).map(|i| h(i) * of[first + 2 * i + j]).sum::<f64>()
                + of[first + 2 * h_len(first) + j]
        };
        (0..2).map(|j| sum(&mu, j, &|i| h[i]) + sum(&variance, j, &|i| h[i] * h[i]).sqrt() * eps[j]).collect()
    };
    let hidden: Vec<f64> = layer(&x, 0, &eps[..2]).iter().map(|z| z.max(0.0)).collect();
    assert_close(pass.tape.logits(), &layer(&hidden, 8, &eps[2..]));
}

/// Inputs of the layer that begins there.
fn h_len(first: usize) -> usize {
    if first == 0 { 3 } else { 2 }
}

#[test]
fn infer_equals_the_forward_pass() {
    for case in cases() {
        let width = Net::<f64>::inputs(&case.net);
        let mut rng = Rng::named(13, "map");
        // More rows than a block, under a map with several taps per output.
        let x: Vec<f64> = case.x.iter().copied().cycle().take(301 * width).collect();
        let map = LinearMap::new(
            (0..width).map(|_| (0..3).map(|_| (rng.below(width) as u32, rng.normal())).collect::<Vec<_>>()),
        );
        let mut rows = SparseRows::new(width);
        x.chunks_exact(width).for_each(|row| rows.push(row.iter().copied()));

        for inputs in [Inputs::dense(&x, width), Inputs::sparse(&rows), Inputs::sparse(&rows).through(&map)] {
            let (mut seen, mut tape) = (Vec::new(), Tape::new());
            inputs.materialise(0..inputs.len(), &mut seen);
            case.net.forward(&case.theta, &seen, &mut tape);
            assert_close(&case.net.infer(&case.theta, &inputs, Layer::Logits), tape.logits());
            assert_close(&case.net.infer(&case.theta, &inputs, Layer::Features), tape.features());
        }
    }
}

/// Few rows are answered by another kernel than many.
#[test]
fn a_row_is_answered_alike_alone_and_among_others() {
    for case in cases() {
        let width = Net::<f32>::inputs(&case.net);
        let theta: Vec<f32> = case.theta.iter().map(|&t| t as f32).collect();
        let x: Vec<f32> = case.x.iter().map(|&x| x as f32).cycle().take(20 * width).collect();
        let mut rows = SparseRows::new(width);
        x.chunks_exact(width).for_each(|row| rows.push(row.iter().copied()));
        let infer = |inputs: &Inputs<'_>| case.net.infer(&theta, inputs, Layer::Logits);
        let (mut dense, mut sparse) = (Vec::new(), Vec::new());
        for row in x.chunks_exact(width) {
            dense.extend(infer(&Inputs::dense(row, width)));
            let mut rows = SparseRows::new(width);
            rows.push(row.iter().copied());
            sparse.extend(infer(&Inputs::sparse(&rows)));
        }
        assert_eq!(infer(&Inputs::dense(&x, width)), dense);
        assert_eq!(infer(&Inputs::sparse(&rows)), sparse);
    }
}

#[test]
fn empty_or_zero_widths_are_refused() {
    for widths in [&[][..], &[4], &[4, 2], &[4, 0, 2]] {
        assert!(Mlp::new(widths).is_err(), "{widths:?}");
    }
}
