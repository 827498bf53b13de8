//! What checkpoints cost: time of training with and without, size, and time to load.
//!
//! `cargo run --release -p hindsight-cl --example checkpoint`, with MNIST in place (`HINDSIGHT_DATA`, or as
//! `hindsight data fetch` leaves it); without, on built-in digits.

use std::{error::Error, path::Path, time::Instant};

use hindsight::{
    Agent, Batch, Stream,
    benchmarks::BENCHMARKS,
    checkpoint::{CheckpointWriter, Header},
    config::{Experiment, Override, RunConfig},
    data::data_dir,
    methods::METHODS,
    run,
};

const EVERY: usize = 100;
/// Seconds for each method: the shorter a training, the more of them it takes to see a percent.
const SECONDS: f64 = 60.0;
const LOADS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let dir = data_dir(None);
    let runs = |benchmark: &str| {
        let set = ["method=finetune,er-ring,hal".to_owned(), format!("benchmark={benchmark}")];
        let set: Result<Vec<_>, _> = set.iter().map(|set| Override::parse(set)).collect();
        Experiment::resolve(&set?, BENCHMARKS, METHODS).map(|experiment| experiment.runs())
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
    println!("{}, every {EVERY} batches; medians", runs[0].benchmark.name);
    println!("method    rounds   plain s   saving s   overhead   size MB   load ms");
    for config in &runs {
        let stream = run::stream(config, &source)?;
        let (folder, mut last) = (tempfile::tempdir()?, 0);
        let (mut plain, mut saved, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        let clock = Instant::now();
        while clock.elapsed().as_secs_f64() < SECONDS {
            // Each goes first in half of the rounds.
            let order = if ratios.len() % 2 == 0 { [false, true] } else { [true, false] };
            let mut seconds = [0.0; 2];
            for saving in order {
                let folder = saving.then_some(folder.path());
                (seconds[usize::from(saving)], last) = train(config, &stream, folder)?;
            }
            plain.push(seconds[0]);
            saved.push(seconds[1]);
            ratios.push(seconds[1] / seconds[0]);
        }
        let path = folder.path().join(format!("{last:012}.safetensors"));
        let size = std::fs::metadata(&path)?.len() as f64 / 1e6;
        let mut load = Vec::new();
        for _ in 0..LOADS {
            let clock = Instant::now();
            Agent::load(&path)?;
            load.push(1e3 * clock.elapsed().as_secs_f64());
        }
        let (name, rounds) = (config.method.name, ratios.len());
        let [plain, saved, ratio, load] = [plain, saved, ratios, load].map(median);
        let overhead = 100.0 * (ratio - 1.0);
        println!(
            "{name:8}  {rounds:6}   {plain:7.3}   {saved:8.3}   {overhead:6.1} %   {size:7.2}   {load:7.1}"
        );
    }
    Ok(())
}

/// Seconds of a training, until its last checkpoint is on the disk if there is a `folder` for them, and its
/// batches.
fn train(config: &RunConfig, stream: &Stream, folder: Option<&Path>) -> Result<(f64, usize), Box<dyn Error>> {
    let (mut learner, mut batch, mut batches) = (run::learner(config, stream), Batch::default(), 0);
    // The last training's would count as later than this one's.
    folder.map_or(Ok(()), std::fs::remove_dir_all)?;
    let clock = Instant::now();
    let mut keeper = folder.map(|folder| CheckpointWriter::new(folder.to_owned(), 2)).transpose()?;
    for task in 0..stream.stages() {
        let (samples, size) = (stream.samples(task), config.shared.int("batch"));
        for start in (0..samples).step_by(size) {
            stream.batch(task, start..(start + size).min(samples), &mut batch);
            learner.observe(&batch);
            batches += 1;
            if let Some(keeper) = keeper.as_mut().filter(|_| batches % EVERY == 0) {
                keeper.save(batches, Header::new(config, stream.shape(), None), &mut *learner)?;
            }
        }
        learner.end_task();
    }
    keeper.map_or(Ok(()), |mut keeper| keeper.finish())?;
    Ok((clock.elapsed().as_secs_f64(), batches))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
