//! The benchmarks: streams made of a data set, a seed and a few settings. One file each, one table.

#[cfg(feature = "files")]
pub(crate) mod custom;
mod permuted;
mod rotated;
mod split;

use std::{borrow::Cow, sync::Arc};

use hindsight_nn::Rng;

use crate::{
    settings::{ConfigError, Family, Key, Scenario, Settings, SharedSettings, Value},
    stream::{Source, Stream, Task},
};

/// A way to make a stream.
#[derive(Debug, Clone)]
pub struct Benchmark {
    /// Name on the command line.
    pub name: Cow<'static, str>,
    /// One line about it.
    pub summary: &'static str,
    /// The data set it is made of.
    pub dataset: Cow<'static, str>,
    /// Which of the paper's defaults apply.
    pub family: Family,
    /// Settings that it has beside the shared ones.
    pub keys: &'static [Key],
    /// Settings whose default differs here: shared ones, or `method.key`. Those of a method go with the
    /// preset among them, if there is one.
    pub defaults: Cow<'static, [(&'static str, Value)]>,
    /// SHA-256 of the file that describes it, where there is one. It is part of a run's identity, as
    /// `description`.
    pub description: Option<String>,
    /// Makes the stream of a seed.
    pub build: BuildStream,
}

/// Makes the stream of a seed from data and settings.
pub type BuildStream = fn(&Arc<Source>, &Settings, u64) -> Result<Stream, ConfigError>;

impl Benchmark {
    /// A benchmark of a table.
    pub const fn new(
        [name, summary, dataset]: [&'static str; 3],
        family: Family,
        keys: &'static [Key],
        defaults: &'static [(&'static str, Value)],
        build: BuildStream,
    ) -> Benchmark {
        Benchmark {
            name: Cow::Borrowed(name),
            summary,
            dataset: Cow::Borrowed(dataset),
            family,
            keys,
            defaults: Cow::Borrowed(defaults),
            description: None,
            build,
        }
    }
}

/// [`Benchmark::defaults`] for data that nobody has tuned anything for: a HAL that is bounded tightly. On
/// class-incremental streams a longer anchored part costs more than it gives (`benches/divergence.py`).
#[cfg(feature = "files")]
pub(crate) const UNTUNED: [(&str, Value); 3] = [UNTUNED_PRESET, UNTUNED_GRADIENT, UNTUNED_TRUST];
pub(crate) const UNTUNED_PRESET: (&str, Value) = ("hal.preset", Value::text("robust"));
pub(crate) const UNTUNED_GRADIENT: (&str, Value) = ("hal.gradient", Value::text("first"));
pub(crate) const UNTUNED_TRUST: (&str, Value) = ("hal.trust", Value::Float(0.1));

/// All benchmarks.
pub static BENCHMARKS: &[Benchmark] = &[
    permuted::DIGITS,
    permuted::MNIST,
    rotated::DIGITS,
    rotated::MNIST,
    split::DIGITS,
    split::MNIST,
    split::CIFAR10,
    split::CIFAR100,
    split::MINI_IMAGENET,
    split::FOLDER,
];

/// How many tasks are learned, and the generators of what they are and of the order of their samples. Tuning
/// tasks have generators of their own, so they tell nothing about the evaluated ones.
fn phase(settings: &SharedSettings, seed: u64) -> Result<(usize, [Rng; 2]), ConfigError> {
    let (key, count, names) = match settings.tuning {
        false => ("tasks", settings.tasks, ["tasks", "order"]),
        true => ("tuning_tasks", settings.tuning_tasks, ["tuning tasks", "tuning order"]),
    };
    match count {
        0 => {
            let (found, expected) = ("0".to_owned(), "a whole number of at least 1".to_owned());
            Err(ConfigError::Value { key: key.to_owned(), found, expected })
        }
        count => Ok((count, names.map(|name| Rng::named(seed, name)))),
    }
}

/// The classes of a task, as numbered by the data and by the stream, where all tasks have all classes. Unless
/// they are the same ones, each task has its own numbers for them.
fn shared_classes(source: &Source, scenario: Scenario, task: usize) -> Vec<(u32, u32)> {
    let classes = source.dataset.classes as u32;
    let first = match scenario {
        Scenario::Domain => 0,
        Scenario::Task | Scenario::Class => task as u32 * classes,
    };
    (0..classes).map(|class| (class, first + class)).collect()
}

/// A stream of tasks with [`shared_classes`].
fn sharing_stream(source: &Arc<Source>, tasks: Vec<Task>, scenario: Scenario) -> Stream {
    let classes = tasks.iter().flat_map(|task| &task.classes).map(|&(_, class)| class as usize + 1).max();
    Stream::new(source.clone(), tasks, scenario, classes.unwrap_or(0))
}

/// The training images that tasks draw from. The first twelfth is a validation set, as in the authors'
/// split of MNIST: 5,000 and 55,000.
fn pool(source: &Source) -> std::ops::Range<u32> {
    let images = source.dataset.train.labels.len() as u32;
    images / 12..images
}

/// `samples` images of the pool, drawn without replacement, in random order.
fn draw_order(source: &Source, samples: usize, rng: &mut Rng) -> Result<Vec<u32>, ConfigError> {
    let mut order: Vec<u32> = pool(source).collect();
    if samples > order.len() {
        let (dataset, pool) = (source.dataset.name.clone(), order.len());
        return Err(ConfigError::PoolTooSmall { found: samples, dataset, pool });
    }
    rng.shuffle_front(&mut order, samples);
    order.truncate(samples);
    Ok(order)
}
