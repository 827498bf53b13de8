//! Time of an agent's two verbs, for `benches/python_overhead.py`: prints microseconds of the fastest
//! `observe` of 10 samples of 784 values, of 2,000, and milliseconds of the fastest `predict` of 10,000, of
//! 10.
//!
//! `agent_speed METHOD`

use std::{error::Error, time::Instant};

use hindsight::{Agent, Rng};

fn main() -> Result<(), Box<dyn Error>> {
    let method = std::env::args().nth(1).unwrap_or("er-ring".to_owned());
    let mut agent = Agent::builder(784, 10).method(&method).set("replay_from", "all").build()?;
    // Four fifths are zero, as in images of digits.
    let mut rng = Rng::named(0, "speed");
    let mut value = || if rng.below(5) == 0 { rng.below(256) as f32 / 255.0 } else { 0.0 };
    let x: Vec<f32> = (0..10_000 * 784).map(|_| value()).collect();
    let labels: Vec<u32> = (0..10_000).map(|i| i % 10).collect();
    let (mut observe, mut predict) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..10 {
        for (x, labels) in x.chunks(7840).zip(labels.chunks(10)).take(200) {
            let clock = Instant::now();
            agent.observe(x, labels, 0)?;
            observe = observe.min(clock.elapsed().as_secs_f64());
        }
        let clock = Instant::now();
        let answers = agent.predict(&x, 0)?;
        predict = predict.min(clock.elapsed().as_secs_f64());
        assert_eq!(answers.len(), 10_000);
    }
    println!("{} {}", observe * 1e6, predict * 1e3);
    Ok(())
}
