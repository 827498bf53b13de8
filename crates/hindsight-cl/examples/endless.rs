//! A stream that never ends, predicting between batches: ten sensors on a machine whose state drifts.
//!
//! `cargo run --release -p hindsight-cl --example endless [BATCHES]`. The learner is saved as it goes, and a
//! second call goes on where the first stopped.

use std::{env, error::Error};

use hindsight::{Agent, Rng};

const SENSORS: usize = 10;

fn main() -> Result<(), Box<dyn Error>> {
    let batches: usize = env::args().nth(1).map_or(Ok(2_000), |text| text.parse())?;
    let file = env::temp_dir().join("hindsight-endless.safetensors");
    let mut agent = match file.exists() {
        true => Agent::load(&file)?,
        // Boundaries are never told, so replay has to draw from what is running.
        false => Agent::new(SENSORS, 3, &["method=er-ring", "hidden=[64]", "slots=50", "replay_from=all"])?,
    };
    let mut rng = Rng::named(0, "sensors");
    let mut right = 0;
    for number in 1..=batches {
        let (x, states) = readings(&mut rng, number);
        // First what it thinks, then what turned out to be so.
        let guessed = agent.predict(&x, 0)?;
        right += guessed.iter().zip(&states).filter(|(guess, state)| guess == state).count();
        agent.observe(&x, &states, 0)?;
        if number % 500 == 0 {
            println!("batch {number}: {:.1} % right of the last 500", right as f64 / 50.0);
            right = 0;
            agent.save(&file)?;
        }
    }
    println!("saved as {}", file.display());
    Ok(())
}

/// Ten readings of every sensor; what a state looks like drifts with time.
fn readings(rng: &mut Rng, number: usize) -> (Vec<f32>, Vec<u32>) {
    let drift = number as f32 / 400.0;
    let (mut x, mut states) = (Vec::new(), Vec::new());
    for _ in 0..10 {
        let state = rng.below(3) as u32;
        let level = |sensor: usize| (state as f32 + 0.5 * sensor as f32 + drift).sin();
        x.extend((0..SENSORS).map(|sensor| level(sensor) + 0.3 * rng.normal() as f32));
        states.push(state);
    }
    (x, states)
}
