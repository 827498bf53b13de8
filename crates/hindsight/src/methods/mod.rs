//! The methods: one file each, one table. The command line, the help, the documentation, the benchmarks and
//! the contract tests all work from the table.

mod er_ring;
mod finetune;
mod hal;
mod model;

use std::sync::Arc;

use hindsight_engine::Net;

pub use model::{Heads, Model};

use crate::{
    Learner,
    settings::{Key, Kind, Settings, Value},
};

/// A way to learn.
#[derive(Debug)]
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
    /// What a user should know before running it with these settings.
    pub caution: fn(&Settings) -> Option<&'static str>,
    /// Makes a learner.
    pub build: fn(&Setup<'_>) -> Box<dyn Learner>,
}

/// What a learner is made of.
#[derive(Clone)]
pub struct Setup<'a> {
    /// The network to train.
    pub net: Arc<dyn Net>,
    /// Which classes each task may answer with.
    pub heads: Heads,
    /// Seed of the learner's generators.
    pub seed: u64,
    /// Settings of every run.
    pub shared: &'a Settings,
    /// Settings of the method.
    pub own: &'a Settings,
}

/// All methods.
pub static METHODS: &[Method] = &[finetune::METHOD, er_ring::METHOD, hal::METHOD];

/// alpha, the learning rate: the same grid and the same best values for most methods of the paper.
pub const RATE: Key = Key::tuned(
    "rate",
    Kind::Float(0.0, 100.0),
    [0.1, 0.03, 0.03],
    &[0.003, 0.01, 0.03, 0.1, 0.3, 1.0],
    "alpha: learning rate",
);
