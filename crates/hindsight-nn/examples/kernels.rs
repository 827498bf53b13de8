//! Times the kernels, the training steps and the evaluation of the 784-256-256-10 perceptron, on one thread.
//!
//! `cargo run --release --example kernels -p hindsight-nn [IDX file of images]`

use std::{hint::black_box, time::Instant};

use hindsight_nn::{
    CacheAligned, Correction, Gradient, Inputs, Layer, Mlp, Net, QuantizedRows, Rng, SparseRows, StepAhead,
    Tape,
    kernels::{
        PackedMatrix, Start, matmul, matmul_nt, matmul_tn_accumulate, sddmm, spmm, spmm_accumulate,
        spmm_packed,
    },
    optim::Adam,
    params,
};

#[global_allocator]
static ALLOCATOR: CacheAligned = CacheAligned;

/// Seconds per call of `f` in the fastest of many rounds: the least disturbed by other processes.
fn best(mut f: impl FnMut()) -> f64 {
    let mut round = |calls: usize| {
        let start = Instant::now();
        (0..calls).for_each(|_| f());
        start.elapsed().as_secs_f64() / calls as f64
    };
    let calls = (5e-4 / round(1)) as usize + 1;
    (0..100).map(|_| round(calls)).fold(f64::INFINITY, f64::min)
}

fn draw(len: usize, share: f64) -> Vec<f32> {
    let mut rng = Rng::named(1, "bench");
    (0..len).map(|_| if rng.uniform() < share { rng.normal() as f32 } else { 0.0 }).collect()
}

fn main() {
    let (a, b, bias) = (draw(240 * 256, 1.0), draw(256 * 256, 1.0), draw(256, 1.0));
    let mut out = vec![0.0; 240 * 256];
    let work = |m: usize, k: usize, n: usize| 2e-9 * (m * k * n) as f64;
    let mut large = || best(|| matmul(&a, &b, 256, Start::Bias(&bias), false, &mut out));
    let peak = work(240, 256, 256) / (0..10).map(|_| large()).fold(f64::INFINITY, f64::min);
    println!("peak, from matmul 240 x 256 x 256: {peak:.1} GFLOP/s\n");

    let report = |name: &str, gflop: f64, seconds: f64| {
        let rate = gflop / seconds;
        println!("{name:<34}{:9.1} us {rate:7.1} GFLOP/s {:4.0} %", seconds * 1e6, 100.0 * rate / peak);
    };
    for m in [10, 20, 240] {
        for (k, n) in [(784, 256), (256, 256), (256, 10)] {
            let (x, dz, w, bias) = (draw(m * k, 1.0), draw(m * n, 1.0), draw(k * n, 1.0), draw(n, 1.0));
            let (mut z, mut dx, mut dw) = (vec![0.0; m * n], vec![0.0; m * k], vec![0.0; k * n]);
            let (shape, gflop) = (format!("{m} x {k} x {n}"), work(m, k, n));
            let seconds = best(|| matmul(&x, &w, n, Start::Bias(&bias), true, &mut z));
            report(&format!("z = relu(x W + b)   {shape}"), gflop, seconds);
            let seconds = best(|| matmul_nt(&dz, &w, n, false, &mut dx));
            report(&format!("dx = dz W^T         {shape}"), gflop, seconds);
            let seconds = best(|| matmul_tn_accumulate(&[(&x, &dz)], n, 1e-9, &mut dw));
            report(&format!("W += s x^T dz       {shape}"), gflop, seconds);
        }
        let (x, w, dz, bias) =
            (draw(m * 784, 0.19), draw(784 * 256, 1.0), draw(m * 256, 1.0), draw(256, 1.0));
        let (mut rows, mut z, mut dw) = (SparseRows::new(784), vec![0.0; m * 256], w.clone());
        x.chunks_exact(784).for_each(|row| rows.push_slice(row));
        let gflop = work(rows.nonzeros(), 1, 256);
        let seconds = best(|| spmm(&rows, 0..m, &w, &bias, true, &mut z));
        report(&format!("z, x 19% sparse     {m} x 784 x 256"), gflop, seconds);
        let packed = PackedMatrix::new(&w, 256);
        let seconds = best(|| spmm_packed(&rows, 0..m, &packed, &bias, true, &mut z));
        report(&format!("z, W packed         {m} x 784 x 256"), gflop, seconds);
        let columns = rows.transposed();
        let seconds = best(|| spmm_accumulate(&[(&columns, &dz)], 0, 256, 1e-9, &mut dw));
        report(&format!("W, x 19% sparse     {m} x 784 x 256"), gflop, seconds);
    }
    for m in [1, 10, 20] {
        // A hidden layer: ReLU leaves about two fifths of the entries.
        let (h, w, dz, bias) = (draw(m * 256, 0.4), draw(256 * 256, 1.0), draw(m * 256, 1.0), draw(256, 1.0));
        let (mut rows, mut z, mut dx, mut dw) = (SparseRows::new(256), dz.clone(), dz.clone(), w.clone());
        h.chunks_exact(256).for_each(|row| rows.push_slice(row));
        let columns = rows.transposed();
        let gflop = work(rows.nonzeros(), 1, 256);
        let seconds = best(|| spmm(&rows, 0..m, &w, &bias, true, &mut z));
        report(&format!("z, x 40% sparse     {m} x 256 x 256"), gflop, seconds);
        let seconds = best(|| sddmm(&dz, &w, 256, &columns, false, &mut dx));
        report(&format!("dx, 40% wanted      {m} x 256 x 256"), gflop, seconds);
        let seconds = best(|| spmm_accumulate(&[(&columns, &dz)], 0, 256, 1e-9, &mut dw));
        report(&format!("W, x 40% sparse     {m} x 256 x 256"), gflop, seconds);
        let seconds = best(|| {
            rows.clear(256);
            h.chunks_exact(256).for_each(|row| rows.push_slice(row));
        });
        report(&format!("compress            {m} x 256"), gflop, seconds);
        let seconds = best(|| drop(black_box(rows.transposed())));
        report(&format!("transpose           {m} x 256"), gflop, seconds);
    }
    println!();
    steps();
}

fn steps() {
    let report = |name: &str, seconds: f64| println!("{name:<34}{:9.1} us", seconds * 1e6);
    let net = Mlp::new(&[784, 256, 256, 10]).expect("a shape");
    let mut theta: Vec<f32> = net.init(&mut Rng::named(1, "init"));
    let (x, anchors, r) = (draw(20 * 784, 0.19), draw(10 * 784, 1.0), draw(100, 1.0));
    let labels: Vec<u32> = (0..20).map(|i| i % 10).collect();
    let (mut tape, mut here, mut there) = (Tape::new(), Tape::new(), Tape::new());
    let (v, mut ahead) = (theta.clone(), theta.clone());

    report("forward, 20 sparse", best(|| net.forward(&theta, &x, &mut tape)));
    report("cross-entropy, 20", best(|| assert!(tape.cross_entropy(&labels, None) > 0.0)));
    report("backward, 20", best(|| net.backward(&theta, &mut tape)));
    report("accumulate, 20 sparse", best(|| net.accumulate(&mut tape, 1e-9, &mut ahead)));
    report("hvp, 20 sparse", best(|| net.hvp(&theta, &v, &mut tape, 1e-9, &mut ahead)));
    report("forward, 10 dense", best(|| net.forward(&theta, &anchors, &mut here)));
    here.seed(&r, None);
    report("backward, 10", best(|| net.backward(&theta, &mut here)));
    report("accumulate, 10 dense", best(|| net.accumulate(&mut here, 1e-9, &mut ahead)));
    let (mut gradient, mut found) = (vec![0.0; anchors.len()], anchors.clone());
    report("input gradient, 10", best(|| net.input_gradient(&theta, &mut here, &mut gradient)));
    let mut adam = Adam::new(1e-9, found.len());
    report("Adam, 10 x 784", best(|| adam.step(&mut found, &gradient)));
    report("theta += a v", best(|| params::axpy(1e-9, &v, &mut ahead)));

    let step = best(|| {
        net.forward(&theta, &x, &mut tape);
        tape.cross_entropy(&labels, None);
        net.backward(&theta, &mut tape);
        net.accumulate(&mut tape, -1e-6, &mut theta);
    });
    report("step of er-ring", step);
    let mut step = StepAhead::new(1e-6, false);
    let seconds = best(|| {
        net.forward(&theta, &x, &mut tape);
        tape.cross_entropy(&labels, None);
        net.backward(&theta, &mut tape);
        let mut g = Gradient::new(&net, &mut tape);
        step.begin(&mut g, &theta);
        step.forward(&mut g, &theta, &anchors, [&mut here, &mut there]);
        here.seed(&r, None);
        there.seed(&r, None);
        step.correct(&mut g, &mut theta, [&mut here, &mut there], Correction::WithHessian);
        step.finish(&g, &mut theta);
    });
    report("step of hal, exact", seconds);

    let mut rows = SparseRows::new(784);
    match std::env::args().nth(1) {
        Some(path) => {
            let bytes = std::fs::read(path).expect("a readable file");
            let images = bytes[16..].chunks_exact(784);
            images.for_each(|image| rows.push(image.iter().map(|&pixel| f32::from(pixel) / 255.0)));
        }
        None => draw(10_000 * 784, 0.19).chunks_exact(784).for_each(|row| rows.push(row.iter().copied())),
    }
    let seconds = best(|| drop(black_box(net.infer(&theta, &Inputs::sparse(&rows), Layer::Logits))));
    println!("evaluation, logits {:.0} rows/s", rows.len() as f64 / seconds);
    let (quantized, classes) = (QuantizedRows::new(&rows), (0..10).collect::<Vec<_>>());
    let inputs = Inputs::sparse(&rows).with_quantized(&quantized);
    let seconds = best(|| drop(black_box(net.predict_classes(&theta, &inputs, &classes))));
    println!("evaluation, classes {:.0} rows/s", rows.len() as f64 / seconds);
}
