//! What checkpoints cost: time of training with and without, size, and time to load.
//!
//! `cargo run --release -p hindsight --example checkpoint`, with MNIST in place (`HINDSIGHT_DATA`, or as `hindsight
//! data fetch` leaves it); without, on built-in digits.

use std::{
    error::Error,
    sync::{Arc, atomic::AtomicBool},
    time::Instant,
};

use hindsight::{
    Agent,
    benchmarks::BENCHMARKS,
    checkpoint::Checkpoints,
    config::{Experiment, Override},
    data::data_dir,
    methods::METHODS,
    run,
};

const ROUNDS: usize = 5;
const EVERY: usize = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let dir = data_dir(None);
    let runs = |benchmark: &str| {
        let set = ["method=finetune,er-ring,hal".to_owned(), format!("benchmark={benchmark}")];
        let set = set.iter().map(String::as_str).chain(["evaluate=final"]);
        let set: Result<Vec<_>, _> = set.map(Override::parse).collect();
        Experiment::resolve(&set?, BENCHMARKS, METHODS).map(|experiment| experiment.runs)
    };
    let mnist = runs("permuted-mnist")?;
    let (runs, source) = match run::load(&mnist[0], &dir) {
        Ok(source) => (mnist, source),
        Err(_) => {
            let digits = runs("permuted-digits")?;
            let source = run::load(&digits[0], &dir)?;
            (digits, source)
        }
    };
    println!("{}, every {EVERY} batches, best of {ROUNDS}", runs[0].benchmark.name);
    println!("method    plain s   saving s   overhead   size MB   load ms");
    for config in &runs {
        let mut best = [f64::INFINITY; 2];
        let folder = tempfile::tempdir()?;
        let stop = Arc::new(AtomicBool::new(false));
        let saving = Checkpoints { folder: folder.path().to_owned(), every: EVERY, keep: 2, stop };
        for _ in 0..ROUNDS {
            for (with, best) in [None, Some(&saving)].into_iter().zip(&mut best) {
                let _ = std::fs::remove_dir_all(saving.of(config));
                let clock = Instant::now();
                let (record, _) = run::run_with_snapshot(config, &source, with, &mut |_| ())?;
                *best = best.min(clock.elapsed().as_secs_f64() - record.eval_seconds);
            }
        }
        let Some((path, _)) = saving.latest(config)?.0 else { return Err("no checkpoint".into()) };
        let size = std::fs::metadata(&path)?.len() as f64 / 1e6;
        let mut load = f64::INFINITY;
        for _ in 0..ROUNDS {
            let clock = Instant::now();
            Agent::load(&path)?;
            load = load.min(1e3 * clock.elapsed().as_secs_f64());
        }
        let [plain, saved] = best;
        let overhead = 100.0 * (saved / plain - 1.0);
        let name = config.method.name;
        println!("{name:8}  {plain:7.3}   {saved:8.3}   {overhead:6.1} %   {size:7.2}   {load:7.1}");
    }
    Ok(())
}
