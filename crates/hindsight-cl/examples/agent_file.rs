//! An agent that learns from a file of numbers and is saved: the Rust side of a test of the Python module,
//! which must write the same bytes.
//!
//! `agent_file METHOD FEATURES CLASSES DATA MODEL`: DATA has a row of FEATURES values and a class for each
//! sample, all as little-endian `f32`.

use std::error::Error;

use hindsight::Agent;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [method, features, classes, data, model] = args.as_slice() else {
        return Err("expected METHOD FEATURES CLASSES DATA MODEL".into());
    };
    let features: usize = features.parse()?;
    let builder = Agent::builder(features, classes.parse()?).method(method);
    let mut agent = builder.set("hidden", vec![16]).seed(5).build()?;
    let bytes = std::fs::read(data)?;
    let numbers: Vec<f32> = bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
    // Two tasks, in batches of 10.
    let samples: Vec<&[f32]> = numbers.chunks_exact(features + 1).collect();
    for (task, samples) in samples.chunks(samples.len().div_ceil(2)).enumerate() {
        for batch in samples.chunks(10) {
            let x: Vec<f32> = batch.iter().flat_map(|row| &row[..features]).copied().collect();
            let labels: Vec<u32> = batch.iter().map(|row| row[features] as u32).collect();
            agent.observe(&x, &labels, task as u32)?;
        }
        agent.end_task();
    }
    agent.save(model)?;
    Ok(())
}
