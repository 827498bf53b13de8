//! Times the residual network: a training step, an exact Hessian product, an evaluation; best of several.
//!
//! ```text
//! cargo run --release -p hindsight-nn --example resnet [-- --json]
//! ```

use std::{hint::black_box, time::Instant};

use hindsight_nn::{CacheAligned, Inputs, Layer, Net, ResNet, Rng, Tape};

#[global_allocator]
static ALLOCATOR: CacheAligned = CacheAligned;

/// The best of several times, in milliseconds.
fn best(mut work: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..8 {
        let start = Instant::now();
        work();
        best = best.min(start.elapsed().as_secs_f64());
    }
    1e3 * best
}

fn main() {
    let json = std::env::args().any(|arg| arg == "--json");
    let report = |work: &str, side: usize, batch: usize, ms: f64| match json {
        true => println!(r#"{{"work":"{work}","side":{side},"batch":{batch},"ms":{ms:.3}}}"#),
        false => println!("{work:<12} {side}x{side} batch {batch:<4} {ms:9.2} ms"),
    };
    for (side, batches) in [(32, [10, 20]), (84, [10, 20])] {
        let net = ResNet::reduced18([3, side, side], 100).expect("the paper's network");
        let mut rng = Rng::named(1, "time");
        let mut theta: Vec<f32> = net.init(&mut rng);
        let mut image = |count: usize| -> Vec<f32> {
            (0..count * 3 * side * side).map(|_| rng.uniform() as f32 - 0.5).collect()
        };
        for batch in batches {
            let x = image(batch);
            let labels: Vec<u32> = (0..batch as u32).collect();
            let mut tape = Tape::new();
            let step = best(|| {
                net.forward(&theta, &x, &mut tape);
                tape.cross_entropy(&labels, None);
                net.backward(&theta, &mut tape);
                net.accumulate(&mut tape, -1e-4, &mut theta);
                net.update_running_stats(&tape, &mut theta);
            });
            report("step", side, batch, step);
            let forward = best(|| net.forward(&theta, &x, &mut tape));
            report("forward", side, batch, forward);
            tape.cross_entropy(&labels, None);
            report("backward", side, batch, best(|| net.backward(&theta, &mut tape)));
            report("accumulate", side, batch, best(|| net.accumulate(&mut tape, -1e-4, &mut theta)));
            let (v, mut product) = (theta.clone(), theta.clone());
            report("hvp", side, batch, best(|| net.hvp(&theta, &v, &mut tape, 1e-6, &mut product)));
        }
        let x = image(100);
        let inputs = Inputs::dense(&x, 3 * side * side);
        let infer = best(|| {
            black_box(net.infer(&theta, &inputs, Layer::Logits));
        });
        report("inference", side, 100, infer);
    }
}
