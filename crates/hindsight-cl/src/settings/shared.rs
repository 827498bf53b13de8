//! The settings that every run has.

use super::{Choice, ConfigError, Key, Kind, Settings, Value, choices};

/// The settings that every run has.
pub static SHARED: &[Key] = &[
    Key::new(
        "scenario",
        Kind::Choice(Scenario::WORDS),
        Value::text("domain"),
        "what a learner is told and asked: the task, to choose among its classes; or not the task, with classes that all tasks share, or with classes that accumulate",
    ),
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
    Key::new(
        "blur",
        Kind::Float(0.0, 1.0),
        Value::Float(0.0),
        "share of a task's training samples that is exchanged for samples of the tasks before and after it",
    ),
    Key::new(
        "visits",
        Kind::Int(1, 1000),
        Value::Int(1),
        "how often all tasks come, in their order; each visit brings another part of a task's samples",
    ),
    Key::new("slots", Kind::Int(0, 100_000), Value::Int(1), "m: memory slots per class per task"),
    Key::new(
        "memory_precision",
        Kind::Choice(Precision::WORDS),
        Value::text("f32"),
        "values of samples in replay memories: as they are, or in 8 bits, a quarter of the bytes",
    ),
    Key::new("batch", Kind::Int(1, 100_000), Value::Int(10), "samples in a batch of the stream"),
    Key::new("replay_batch", Kind::Int(1, 100_000), Value::Int(10), "samples in a batch from the memory"),
    Key::new(
        "replay_from",
        Kind::Choice(ReplayFrom::WORDS),
        Value::text("finished"),
        "draw from the memory of finished tasks only, or of the running one too",
    ),
    Key::per_family(
        "network",
        Kind::Choice(NetworkKind::WORDS),
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
        "optimiser",
        Kind::Choice(Optimiser::WORDS),
        Value::text("sgd"),
        "plain gradient steps, momentum (0.9) or Adam, which wants a smaller rate such as 0.001; for methods whose \
         update is a gradient step",
    ),
    Key::new(
        "epochs",
        Kind::Int(1, 10_000),
        Value::Int(1),
        "passes over the data of a task, each in another order",
    ),
    Key::new(
        "evaluate",
        Kind::Choice(Evaluate::WORDS),
        Value::text("full"),
        "after each task on all tasks, only on those seen so far, or once in the end",
    ),
    Key::new(
        "evaluate_every",
        Kind::Int(0, i64::MAX),
        Value::Int(0),
        "evaluate the tasks seen so far every so many batches too (0: never)",
    ),
    Key::new(
        "prequential",
        Kind::Int(0, 1_000_000),
        Value::Int(0),
        "answer every batch of the stream before learning from it; the accuracy is over a window of so many samples (0: do not)",
    ),
];

choices! {
    /// How a memory keeps the values of a sample.
    pub enum Precision {
        /// As they are.
        F32 = "f32",
        /// In 8 bits each, in equal steps from the sample's least to its greatest value.
        U8 = "u8",
    }
}

choices! {
    /// What a learner is told at test time, and which classes it chooses from.
    pub enum Scenario {
        /// Task-incremental: the task is given, and its classes are chosen from.
        Task = "task",
        /// Domain-incremental: all tasks have the same classes, and the task is not given.
        Domain = "domain",
        /// Class-incremental: each task brings new classes, all are chosen from, and the task is not given.
        Class = "class",
    }
}

choices! {
    /// Which remembered samples are replayed.
    pub enum ReplayFrom {
        /// Those of finished tasks.
        Finished = "finished",
        /// Those of the running task too.
        All = "all",
    }
}

choices! {
    /// The network that learns.
    pub enum NetworkKind {
        /// A perceptron with hidden layers.
        Mlp = "mlp",
        /// A residual network of two basic blocks per stage.
        ResNet = "resnet",
    }
}

choices! {
    /// How a gradient becomes a step.
    pub enum Optimiser {
        /// The rate times the gradient.
        Sgd = "sgd",
        /// The rate times a decaying sum of gradients.
        Momentum = "momentum",
        /// Adam.
        Adam = "adam",
    }
}

choices! {
    /// When a learner is evaluated, and on what.
    pub enum Evaluate {
        /// On all tasks, before the first and after each.
        Full = "full",
        /// After each task on the tasks seen so far.
        Seen = "seen",
        /// On all tasks, once, in the end.
        Final = "final",
    }
}

/// The values of [`SHARED`], parsed. The fields are called like the keys, which document them.
#[allow(missing_docs)]
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SharedSettings {
    pub scenario: Scenario,
    pub tasks: usize,
    pub samples: usize,
    pub tuning_tasks: usize,
    pub tuning: bool,
    pub blur: f32,
    pub visits: usize,
    pub slots: usize,
    pub memory_precision: Precision,
    pub batch: usize,
    pub replay_batch: usize,
    pub replay_from: ReplayFrom,
    pub network: NetworkKind,
    pub maps: Vec<usize>,
    pub stem_stride: usize,
    pub hidden: Vec<usize>,
    pub optimiser: Optimiser,
    pub epochs: usize,
    pub evaluate: Evaluate,
    pub evaluate_every: usize,
    pub prequential: usize,
}

impl SharedSettings {
    /// Parses checked settings, which may have other keys too.
    pub fn new(settings: &Settings) -> SharedSettings {
        SharedSettings {
            scenario: settings.choice("scenario"),
            tasks: settings.int("tasks"),
            samples: settings.int("samples"),
            tuning_tasks: settings.int("tuning_tasks"),
            tuning: settings.flag("tuning"),
            blur: settings.float("blur"),
            visits: settings.int("visits"),
            slots: settings.int("slots"),
            memory_precision: settings.choice("memory_precision"),
            batch: settings.int("batch"),
            replay_batch: settings.int("replay_batch"),
            replay_from: settings.choice("replay_from"),
            network: settings.choice("network"),
            maps: settings.widths("maps"),
            stem_stride: settings.int("stem_stride"),
            hidden: settings.widths("hidden"),
            optimiser: settings.choice("optimiser"),
            epochs: settings.int("epochs"),
            evaluate: settings.choice("evaluate"),
            evaluate_every: settings.int("evaluate_every"),
            prequential: settings.int("prequential"),
        }
    }
}

/// More parameters would not fit into memory a few times over.
const LIMIT: u128 = 100_000_000;

/// Refuses hidden layers with too many parameters.
pub(crate) fn check_size(shared: &SharedSettings) -> Result<(), ConfigError> {
    for (key, widths, kernel) in [("hidden", &shared.hidden, 1), ("maps", &shared.maps, 9)] {
        let pairs = widths.windows(2).map(|pair| kernel * pair[0] as u128 * pair[1] as u128);
        // A stage of the residual network also has convolutions from its own width to its own.
        let own = widths.iter().map(|&w| if kernel > 1 { 3 * kernel * (w * w) as u128 } else { 0 });
        limit(key, widths, pairs.chain(own).sum())?;
    }
    Ok(())
}

#[cfg(feature = "files")]
/// Refuses a first and last layer with too many parameters, where inputs and classes come from the user too.
pub(crate) fn check_network(
    shared: &SharedSettings,
    shape: [usize; 3],
    classes: usize,
) -> Result<(), ConfigError> {
    let (key, widths, inputs) = match shared.network {
        NetworkKind::Mlp => ("hidden", &shared.hidden, shape.iter().product()),
        NetworkKind::ResNet => ("maps", &shared.maps, 9 * shape[0]),
    };
    let [first, last] = [widths.first(), widths.last()].map(|width| width.copied().unwrap_or(0) as u128);
    limit(key, widths, inputs as u128 * first + last * classes as u128)
}

fn limit(key: &'static str, widths: &[usize], parameters: u128) -> Result<(), ConfigError> {
    if parameters > LIMIT {
        return Err(ConfigError::TooLarge { key, found: format!("{widths:?}"), parameters, limit: LIMIT });
    }
    Ok(())
}
