//! Permuted digits: task t sees all images under one random permutation of the pixels, the first task too.

use std::sync::Arc;

use hindsight_nn::LinearMap;

use super::{Benchmark, draw_order, phase, shared_classes, sharing_stream};
use crate::{
    settings::{ConfigError, Family, Settings, SharedSettings},
    stream::{Source, Stream, Task, View},
};

/// On the digits that hindsight draws itself.
pub(super) const DIGITS: Benchmark = Benchmark::new(
    [
        "permuted-digits",
        "a random pixel permutation per task, of built-in digits; needs no download",
        "digits",
    ],
    Family::Mnist,
    &[],
    &[],
    build,
);

/// On MNIST, as in the paper.
pub(super) const MNIST: Benchmark = Benchmark::new(
    ["permuted-mnist", "a random pixel permutation per task, of MNIST (the paper's Permuted MNIST)", "mnist"],
    Family::Mnist,
    &[],
    &[],
    build,
);

fn build(source: &Arc<Source>, settings: &Settings, seed: u64) -> Result<Stream, ConfigError> {
    let settings = SharedSettings::new(settings);
    let (count, [mut maps, mut orders]) = phase(&settings, seed)?;
    let width = source.dataset.width() as u32;
    let tasks = (0..count)
        .map(|task| {
            let mut sources: Vec<u32> = (0..width).collect();
            maps.shuffle(&mut sources);
            let order = draw_order(source, settings.samples, &mut orders)?;
            let classes = shared_classes(source, settings.scenario, task);
            let name = format!("permutation {}", task + 1);
            Ok(Task { name, classes, view: View::Map(LinearMap::permutation(&sources)), order })
        })
        .collect::<Result<_, ConfigError>>()?;
    Ok(sharing_stream(source, tasks, settings.scenario))
}
