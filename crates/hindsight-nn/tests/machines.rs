//! What a machine can do decides how long the residual network takes, not what it computes.

use std::process::Command;

use hindsight_nn::{Inputs, Layer, Net, ResNet, Rng, Tape};

/// Prints the bits of some steps, a Hessian product, an input gradient and an evaluation; run by the test
/// below.
#[test]
#[ignore = "half of avx512_and_avx2_give_the_same_bits"]
fn bits() {
    for (shape, batch) in [([3, 32, 32], 5), ([3, 21, 18], 3), ([1, 84, 84], 2)] {
        let net = ResNet::reduced18(shape, 10).unwrap();
        let mut rng = Rng::named(1, "machines");
        let mut theta: Vec<f32> = net.init(&mut rng);
        let x: Vec<f32> = (0..batch * shape.iter().product::<usize>()).map(|_| rng.normal() as f32).collect();
        let labels: Vec<u32> = (0..batch as u32).collect();
        let mut tape = Tape::new();
        for _ in 0..2 {
            net.forward(&theta, &x, &mut tape);
            tape.cross_entropy(&labels, None);
            net.backward(&theta, &mut tape);
            net.accumulate(&mut tape, -0.01, &mut theta);
            net.update_running_stats(&tape, &mut theta);
        }
        let (v, mut product, mut dx) = (theta.clone(), vec![0.0; theta.len()], vec![0.0; x.len()]);
        net.input_gradient(&theta, &mut tape, &mut dx);
        net.hvp(&theta, &v, &mut tape, 1.0, &mut product);
        let logits = net.infer(&theta, &Inputs::dense(&x, x.len() / batch), Layer::Logits);
        for values in [&theta, &product, &dx, &logits] {
            assert!(values.iter().all(|x| x.is_finite()));
            let digest = values.iter().fold(0u64, |sum, x| {
                sum.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(u64::from(x.to_bits()))
            });
            println!("bits {digest:016x}");
        }
    }
}

/// Where a machine has no AVX-512, both are the same.
#[test]
fn avx512_and_avx2_give_the_same_bits() {
    let [always, wide, narrow] = ["always", "on", "off"].map(|avx512| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["bits", "--exact", "--ignored", "--nocapture"]).env("HINDSIGHT_AVX512", avx512);
        let out = String::from_utf8(command.output().unwrap().stdout).unwrap();
        out.lines()
            .filter_map(|line| line.find("bits ").map(|at| line[at..].to_owned()))
            .filter(|line| line.len() == "bits ".len() + 16)
            .collect::<Vec<_>>()
    });
    assert_eq!(wide.len(), 12);
    assert_eq!(always, narrow);
    assert_eq!(wide, narrow);
}
