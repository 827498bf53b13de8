//! The settings that every run has.

use super::{ConfigError, Key, Kind, Settings, Value};

/// The settings that every run has.
pub static SHARED: &[Key] = &[
    Key::new(
        "tasks",
        Kind::Int(0, 1000),
        Value::Int(20),
        "number of tasks (0, on split benchmarks: all that there are classes for)",
    ),
    Key::new(
        "samples",
        Kind::Int(0, i64::MAX),
        Value::Int(1000),
        "training samples per task (0, on split benchmarks: all that there are)",
    ),
    Key::new("tuning_tasks", Kind::Int(0, 1000), Value::Int(3), "number of tasks held apart for tuning"),
    Key::new(
        "tuning",
        Kind::Bool,
        Value::Bool(false),
        "learn the tasks held apart for tuning in place of the others",
    ),
    Key::new("slots", Kind::Int(0, 100_000), Value::Int(1), "m: memory slots per class per task"),
    Key::new("batch", Kind::Int(1, 100_000), Value::Int(10), "samples in a batch of the stream"),
    Key::new("replay_batch", Kind::Int(1, 100_000), Value::Int(10), "samples in a batch from the memory"),
    Key::new(
        "replay_from",
        Kind::Choice(&["finished", "all"]),
        Value::text("finished"),
        "draw from the memory of finished tasks only, or of the running one too",
    ),
    Key::per_family(
        "network",
        Kind::Choice(&["mlp", "resnet"]),
        [Value::text("mlp"), Value::text("resnet"), Value::text("resnet")],
        "the network: a perceptron, or a residual network of two basic blocks per stage",
    ),
    Key::new(
        "maps",
        Kind::Widths,
        Value::ints(&[20, 40, 80, 160]),
        "maps in each stage of the residual network",
    ),
    Key::per_family(
        "stem_stride",
        Kind::Int(1, 2),
        [Value::Int(1), Value::Int(1), Value::Int(2)],
        "stride of the residual network's first convolution",
    ),
    Key::new("hidden", Kind::Widths, Value::ints(&[256, 256]), "widths of the perceptron's hidden layers"),
    Key::new(
        "evaluate",
        Kind::Choice(&["full", "seen", "final"]),
        Value::text("full"),
        "after each task on all tasks, only on those seen so far, or once in the end",
    ),
    Key::new(
        "evaluate_every",
        Kind::Int(0, i64::MAX),
        Value::Int(0),
        "evaluate the tasks seen so far every so many batches too (0: never)",
    ),
];

/// More parameters would not fit into memory a few times over.
const LIMIT: u128 = 100_000_000;

/// The layers that a user sets must stay within what fits.
pub(crate) fn check_size(shared: &Settings) -> Result<(), ConfigError> {
    for (key, kernel) in [("hidden", 1), ("maps", 9)] {
        let widths = shared.widths(key);
        let pairs = widths.windows(2).map(|pair| kernel * pair[0] as u128 * pair[1] as u128);
        // A stage of the residual network also has convolutions from its own width to its own.
        let own = widths.iter().map(|&w| if kernel > 1 { 3 * kernel * (w * w) as u128 } else { 0 });
        let parameters: u128 = pairs.chain(own).sum();
        if parameters > LIMIT {
            let found = shared.get(key).to_string();
            return Err(ConfigError::TooLarge { key, found, parameters, limit: LIMIT });
        }
    }
    Ok(())
}

/// Where inputs and classes are of the user's own too, so must the perceptron's first and last layer.
pub(crate) fn check_network(shared: &Settings, shape: [usize; 3], classes: usize) -> Result<(), ConfigError> {
    let (key, inputs) = match shared.text("network") {
        "mlp" => ("hidden", shape.iter().product()),
        _ => ("maps", 9 * shape[0]),
    };
    let widths = shared.widths(key);
    let [first, last] = [widths.first(), widths.last()].map(|width| width.copied().unwrap_or(0) as u128);
    let parameters = inputs as u128 * first + last * classes as u128;
    if parameters > LIMIT {
        let found = shared.get(key).to_string();
        return Err(ConfigError::TooLarge { key, found, parameters, limit: LIMIT });
    }
    Ok(())
}
