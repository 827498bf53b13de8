//! Times the convolutions of the reduced ResNet-18 on one thread, including the packing of weights.
//!
//! `cargo run --release --example conv -p hindsight-nn [-- --json]`; `benches/conv_reference.py` measures
//! the same in PyTorch. GFLOP/s count the arithmetic of the definition, not of the kernel.

use std::{hint::black_box, time::Instant};

use hindsight_nn::{
    CacheAligned, Rng,
    kernels::conv::{
        Conv, Finish, Packed, Part, Workspace, accumulate, backward, forward, pack_backward, pack_forward,
    },
};

#[global_allocator]
static ALLOCATOR: CacheAligned = CacheAligned;

/// Milliseconds per call of `f` in the fastest of many rounds: the least disturbed by other processes.
fn best(mut f: impl FnMut()) -> f64 {
    let mut round = |calls: usize| {
        let start = Instant::now();
        (0..calls).for_each(|_| f());
        start.elapsed().as_secs_f64() / calls as f64
    };
    let calls = (1e-3 / round(1)) as usize + 1;
    let rounds = (0.15 / (round(calls) * calls as f64)) as usize + 3;
    1e3 * (0..rounds).map(|_| round(calls)).fold(f64::INFINITY, f64::min)
}

/// The layers of the network on images of `input` x `input`, with how often each occurs.
fn layers(input: usize) -> Vec<(Conv, usize)> {
    let stride = if input == 32 { 1 } else { 2 };
    let conv =
        |kernel, stride, inputs, outputs, side| Conv { kernel, stride, inputs, outputs, size: [side; 2] };
    let mut layers = vec![(conv(3, stride, 3, 20, input), 1)];
    let mut side = input.div_ceil(stride);
    layers.push((conv(3, 1, 20, 20, side), 4));
    for maps in [40, 80, 160] {
        layers.push((conv(3, 2, maps / 2, maps, side), 1));
        layers.push((conv(1, 2, maps / 2, maps, side), 1));
        side = side.div_ceil(2);
        layers.push((conv(3, 1, maps, maps, side), 3));
    }
    layers
}

fn main() {
    let json = std::env::args().any(|arg| arg == "--json");
    let mut rng = Rng::named(1, "bench");
    let mut draw = |len: usize| {
        let mut x = vec![0.0; len];
        rng.fill_normal(&mut x);
        x
    };
    for (input, batch) in [(32, 10), (32, 20), (32, 100), (84, 20)] {
        let mut totals = [0.0; 3];
        for (conv, times) in layers(input) {
            let Conv { kernel, stride, inputs, outputs, size: [side, _] } = conv;
            let [x, mut y, weights] =
                [batch * conv.in_len(), batch * conv.out_len(), conv.weights()].map(&mut draw);
            let (dy, mut dx, mut into) = (y.clone(), x.clone(), weights.clone());
            let (mut packed, mut sums, mut workspace) = (Packed::default(), Vec::new(), Workspace::default());
            let milliseconds = [
                best(|| {
                    pack_forward(&conv, &weights, None, &mut packed);
                    forward(&conv, &x, &packed, Finish::default(), black_box(&mut y), &mut workspace);
                }),
                best(|| {
                    pack_backward(&conv, &weights, &mut packed);
                    backward(&conv, &dy, &packed, false, black_box(&mut dx), &mut workspace);
                }),
                best(|| {
                    let part = Part { first: true, last: Some((1e-9, black_box(&mut into))) };
                    accumulate(&conv, (&x, &dy), part, &mut sums, &mut workspace);
                }),
            ];
            let pixels: usize = conv.out_size().iter().product();
            let flop = 2.0 * (batch * pixels * conv.weights()) as f64;
            for ((what, ms), total) in
                ["forward", "backward", "accumulate"].iter().zip(milliseconds).zip(&mut totals)
            {
                *total += ms * times as f64;
                let rate = 1e-6 * flop / ms;
                if json {
                    println!(
                        "{{\"input\": {input}, \"batch\": {batch}, \"kernel\": {kernel}, \"stride\": {stride}, \
                         \"inputs\": {inputs}, \"outputs\": {outputs}, \"side\": {side}, \"what\": \"{what}\", \
                         \"ms\": {ms:.4}, \"gflops\": {rate:.1}}}"
                    );
                } else {
                    println!(
                        "{input}x{input} batch {batch:<4} {kernel}x{kernel}/{stride} {inputs:>3} -> {outputs:<3} \
                         {side:>2}x{side:<2} {what:<10} {ms:9.3} ms {rate:7.1} GFLOP/s"
                    );
                }
            }
        }
        if !json {
            let [forward, backward, accumulate] = totals;
            println!(
                "{input}x{input} batch {batch}: all layers {forward:.2} + {backward:.2} + {accumulate:.2} = {:.2} ms\n",
                totals.iter().sum::<f64>()
            );
        }
    }
}
