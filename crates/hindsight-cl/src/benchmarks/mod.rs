//! The benchmarks: streams made of a data set, a seed and a few settings. One file each, one table.

pub(crate) mod custom;
mod permuted;
mod rotated;
mod split;

use std::sync::Arc;

use hindsight_nn::Rng;

use crate::{
    config::ConfigError,
    settings::{Family, Key, Settings, Value},
    stream::{Source, Stream},
};

/// A way to make a stream.
#[derive(Debug)]
pub struct Benchmark {
    /// Name on the command line.
    pub name: &'static str,
    /// One line about it.
    pub summary: &'static str,
    /// The data set it is made of.
    pub dataset: &'static str,
    /// Which of the paper's defaults apply.
    pub family: Family,
    /// Settings that it has beside the shared ones.
    pub keys: &'static [Key],
    /// Settings whose default differs here: shared ones, or `method.key`.
    pub defaults: &'static [(&'static str, Value)],
    /// Makes the stream of a seed.
    pub build: fn(&Arc<Source>, &Settings, u64) -> Result<Stream, ConfigError>,
}

/// All benchmarks.
pub static BENCHMARKS: &[Benchmark] = &[
    permuted::DIGITS,
    permuted::MNIST,
    rotated::DIGITS,
    rotated::MNIST,
    split::DIGITS,
    split::CIFAR100,
    split::MINI_IMAGENET,
    split::FOLDER,
];

/// How many tasks are learned, and the generators of what they are and of the order of their samples. Tuning
/// tasks have generators of their own, so they tell nothing about the evaluated ones.
fn phase(settings: &Settings, seed: u64) -> Result<(usize, [Rng; 2]), ConfigError> {
    let (key, names) = match settings.flag("tuning") {
        false => ("tasks", ["tasks", "order"]),
        true => ("tuning_tasks", ["tuning tasks", "tuning order"]),
    };
    match settings.int(key) {
        0 => {
            let (found, expected) = ("0".to_owned(), "a whole number of at least 1".to_owned());
            Err(ConfigError::Value { key: key.to_owned(), found, expected })
        }
        count => Ok((count, names.map(|name| Rng::named(seed, name)))),
    }
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
