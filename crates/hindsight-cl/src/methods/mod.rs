//! The methods: one file each, one table. The command line, the help, the documentation, the benchmarks and
//! the contract tests all work from the table.

mod a_gem;
mod average;
mod clone_and_finetune;
mod closed_form;
mod cls_er;
mod compact_der;
mod der;
mod er_ace;
mod er_reservoir;
mod er_ring;
mod ewc;
mod finetune;
mod gdumb;
mod gem;
#[cfg(test)]
mod golden;
mod hal;
mod icarl;
mod lwf;
mod mas;
mod mer;
mod mir;
mod model;
mod multitask;
mod optimised;
mod penalty;
mod ranpac;
mod recalibrated;
mod replay;
mod si;
mod slda;
mod vcl;

use std::sync::Arc;

use hindsight_nn::{Net, Rng};

pub use model::Model;
pub(crate) use model::softmax;

pub use crate::heads::Heads;

use crate::{
    Learner, Stream,
    memory::{Memory, Reservoir, Ring},
    settings::{Choice, Key, Kind, ReplayFrom, Scenario, Settings, SharedSettings, Value, choices},
};

/// A way to learn.
///
/// A table of methods may be the caller's:
///
/// ```
/// use hindsight::{benchmarks::BENCHMARKS, config::{Experiment, Override}, methods::{METHODS, Method, RATE}};
///
/// // Finetune, under another name.
/// const MINE: Method = Method { name: "mine", title: "Mine", keys: &[RATE], ..Method::DEFAULT };
/// let table: Vec<Method> = METHODS.iter().copied().chain([MINE]).collect();
/// let set = [Override::parse("method=mine")?, Override::parse("rate=0.3")?];
/// let experiment = Experiment::resolve(&set, BENCHMARKS, &table)?;
/// assert_eq!(experiment.methods[0].settings.float("rate"), 0.3);
/// # Ok::<(), hindsight::config::ConfigError>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Method {
    /// Name on the command line.
    pub name: &'static str,
    /// Name in tables.
    pub title: &'static str,
    /// One line about it.
    pub summary: &'static str,
    /// Where it comes from.
    pub paper: &'static str,
    /// Its settings.
    pub keys: &'static [Key],
    /// Named groups of settings, for methods with a key `preset`.
    pub presets: &'static [(&'static str, &'static [(&'static str, Value)])],
    /// Trained on all tasks shuffled together, for as many passes as its key `epochs` says, instead of on one
    /// after the other.
    pub joint: bool,
    /// Knows more than a continual learner may: an upper bound, not a competitor.
    pub oracle: bool,
    /// Must be told the task at test time. Where the scenario does not tell it, only an oracle may run.
    pub needs_task: bool,
    /// Its update is a gradient step at its key `rate`, and [`Learner::theta_mut`] gives theta: the setting
    /// `optimiser` applies.
    pub gradient_step: bool,
    /// How long training takes, roughly, where finetune takes 1: of several runs the longest start first.
    pub cost: f64,
    /// Bytes that it holds in the end beyond the parameters that it answers with, an average of these apart.
    pub bytes: fn(&Setup<'_>) -> u64,
    /// What a user should know before running it with these settings.
    pub caution: fn(&Settings) -> Option<&'static str>,
    /// What becomes of it on a stream that never tells when a task ends, if it makes a difference.
    pub without_task_ends: Option<&'static str>,
    /// Makes a learner.
    pub build: fn(&Setup<'_>) -> Box<dyn Learner>,
}

impl Method {
    /// A method to start from: only its name and `build` must be given.
    pub const DEFAULT: Method = Method {
        name: "",
        title: "",
        summary: "",
        paper: "",
        keys: &[],
        presets: &[],
        joint: false,
        oracle: false,
        needs_task: false,
        gradient_step: false,
        cost: 1.0,
        bytes: |_| 0,
        caution: |_| None,
        without_task_ends: None,
        build: finetune::METHOD.build,
    };

    /// Bytes that a learner holds in the end beyond the parameters that it answers with.
    pub fn bytes(&self, setup: &Setup<'_>) -> u64 {
        let average = setup
            .method_settings
            .iter()
            .any(|(key, value)| key == AVERAGE.name && *value != Value::Float(0.0));
        (self.bytes)(setup) + if average { setup.theta_bytes() } else { 0 }
    }

    /// A learner as `setup` says: that of `build`, with the optimiser that is set, or one that answers with
    /// an average of its theta, or with other running statistics.
    pub fn learner(&self, setup: &Setup<'_>) -> Box<dyn Learner> {
        let learner = optimised::optimised((self.build)(setup), self, setup);
        let has = |key: &Key| setup.method_settings.iter().any(|(name, _)| name == key.name);
        let learner = if has(&AVERAGE) { average::averaged(learner, setup) } else { learner };
        if has(&STATISTICS) { recalibrated::recalibrated(learner, setup) } else { learner }
    }
}

/// What a learner is made of.
#[derive(Clone)]
#[non_exhaustive]
pub struct Setup<'a> {
    /// The network to train.
    pub net: Arc<dyn Net>,
    /// Which classes each task may answer with.
    pub heads: Heads,
    /// What it is told and asked at test time. Where it is not told the task, [`Learner::predict`] gets 0.
    pub scenario: Scenario,
    /// Seed of the learner's generators.
    pub seed: u64,
    /// Number of tasks of the stream, for memories of a fixed size.
    pub tasks: usize,
    /// Classes of each task, summed over the tasks: cells of a ring memory.
    pub task_class_pairs: usize,
    /// Training samples of a task.
    pub samples_per_task: usize,
    /// All that will come, for oracles alone: a continual learner must not look.
    pub future: Option<&'a Stream>,
    /// The theta to start from, where it is not the network's own.
    pub initial: Option<&'a [f32]>,
    /// Settings of every run.
    pub shared: SharedSettings,
    /// Settings of the method.
    pub method_settings: &'a Settings,
}

impl Setup<'_> {
    /// The theta that every method of this seed starts from.
    pub fn initial_theta(&self) -> Vec<f32> {
        let fresh = || self.net.init(&mut Rng::named(self.seed, "init"));
        self.initial.map_or_else(fresh, <[f32]>::to_vec)
    }

    /// An empty ring memory as configured.
    pub fn ring(&self) -> Ring {
        let ring = Ring::new(self.shared.slots, self.shared.replay_from == ReplayFrom::All);
        ring.with_precision(self.shared.memory_precision)
    }

    /// An empty memory, as the method's key [`MEMORY`] says; a ring where it has none.
    pub fn memory(&self) -> Memory {
        let kind = match self.method_settings.iter().any(|(key, _)| key == MEMORY.name) {
            true => self.method_settings.choice(MEMORY.name),
            false => MemoryKind::Ring,
        };
        match kind {
            MemoryKind::Ring => Memory::Ring(self.ring()),
            MemoryKind::Reservoir => self.reservoir(),
        }
    }

    /// An empty reservoir as large as a ring.
    pub fn reservoir(&self) -> Memory {
        let reservoir = Reservoir::new(self.capacity()).with_precision(self.shared.memory_precision);
        Memory::Reservoir(reservoir, Box::new(Rng::named(self.seed, "memory")))
    }

    /// Classes that a task has, on average.
    pub fn classes_per_task(&self) -> usize {
        self.task_class_pairs.div_ceil(self.tasks.max(1))
    }

    /// What a full memory takes.
    pub fn memory_bytes(&self) -> u64 {
        self.capacity() as u64 * self.shared.memory_precision.bytes(self.net.inputs())
    }

    /// What a copy of theta takes.
    pub fn theta_bytes(&self) -> u64 {
        4 * self.net.parameters() as u64
    }

    /// What a value for each trained parameter takes.
    fn trainable_bytes(&self) -> u64 {
        4 * self.net.trainable() as u64
    }

    /// How many samples a ring memory holds in the end: the size of any other memory.
    pub fn capacity(&self) -> usize {
        self.shared.slots * self.task_class_pairs
    }
}

/// All methods: those of the paper in the order of its tables, then those after it, then the oracles.
pub static METHODS: &[Method] = &[
    finetune::METHOD,
    ewc::METHOD,
    vcl::VCL,
    vcl::VCL_RANDOM,
    icarl::METHOD,
    a_gem::METHOD,
    mer::METHOD,
    er_ring::METHOD,
    mir::METHOD,
    hal::METHOD,
    er_reservoir::METHOD,
    er_ace::METHOD,
    der::DER,
    der::DER_PP,
    cls_er::METHOD,
    compact_der::METHOD,
    gdumb::METHOD,
    gem::METHOD,
    lwf::METHOD,
    si::METHOD,
    mas::METHOD,
    slda::METHOD,
    ranpac::METHOD,
    clone_and_finetune::METHOD,
    multitask::METHOD,
];

/// [`Method::without_task_ends`] of replay from a ring.
const RING_WITHOUT_TASK_ENDS: &str = "the memory keeps the latest samples of each class; on a stream without ends these \
                                 are of the recent past alone: `memory=reservoir` keeps a sample of all of it";

/// alpha, the learning rate: the same grid and the same best values for most methods of the paper.
pub const RATE: Key = Key::tuned(
    "rate",
    Kind::Float(0.0, 100.0),
    [0.1, 0.03, 0.03],
    &[0.003, 0.01, 0.03, 0.1, 0.3, 1.0],
    "alpha: learning rate",
);

choices! {
    /// Which samples a replay method keeps.
    pub enum MemoryKind {
        /// The latest of each class of each task.
        Ring = "ring",
        /// A uniform sample of all that came, as many as a ring has.
        Reservoir = "reservoir",
    }
}

/// Which samples a replay method keeps: [`Setup::memory`].
pub const MEMORY: Key = Key::new("memory", Kind::Choice(MemoryKind::WORDS), Value::text("ring"), KEPT);

/// The same for methods whose papers have a reservoir.
pub const MEMORY_RESERVOIR: Key =
    Key::new("memory", Kind::Choice(MemoryKind::WORDS), Value::text("reservoir"), KEPT);

const KEPT: &str = "keep the latest samples of each class of each task, or as many in all, drawn uniformly from all that came";

/// Updates of methods with replay.
pub const UPDATES: Key = updates([1, 1, 1]);

const fn updates([mnist, cifar, mini_imagenet]: [i64; 3]) -> Key {
    Key::per_family(
        "updates",
        Kind::Int(1, 1000),
        [Value::Int(mnist), Value::Int(cifar), Value::Int(mini_imagenet)],
        "updates on each batch of the stream, each with a replay batch of its own",
    )
}

/// Averaged weights: [`Method::learner`].
pub const AVERAGE: Key = Key::new(
    "average",
    Kind::Float(0.0, 0.999_999),
    Value::Float(0.0),
    "answer with an exponential average of theta that keeps this share of itself at each batch (0: with theta)",
);

choices! {
    /// What batch-norm answers with, in methods that keep samples.
    enum AnswerStatistics {
        /// Running averages of the passes that learn, most of the latest task.
        Running = "running",
        /// Those of the samples kept, at the theta that answers.
        Memory = "memory",
    }
}

/// Statistics of batch-norm in answers: [`Method::learner`].
const STATISTICS: Key = statistics("running");

const fn statistics(default: &'static str) -> Key {
    Key::new(
        "statistics",
        Kind::Choice(AnswerStatistics::WORDS),
        Value::text(default),
        "statistics that batch-norm answers with: running averages of the passes that learn, or those of a pass over \
         the samples in memory",
    )
}

/// Consolidation without boundaries.
const CONSOLIDATE_EVERY: Key = Key::new(
    "consolidate_every",
    Kind::Int(0, i64::MAX),
    Value::Int(0),
    "act as at the end of a task every so many batches too, where ends are never told (0: never)",
);
