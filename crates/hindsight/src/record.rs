//! The one record that leaves a run. Tables, figures and reports are pure functions of records.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    config::RunConfig,
    metrics::{METRICS, Matrix},
    protocol::{Outcome, Point, Status},
    settings::Value,
};

/// The version that this program writes.
pub const VERSION: u32 = 1;

/// A finished run: one line of JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Version of the format.
    pub version: u32,
    /// The program that wrote it.
    pub program: String,
    /// The method.
    pub method: String,
    /// The benchmark.
    pub benchmark: String,
    /// The seed.
    pub seed: u64,
    /// How the run ended.
    pub status: Status,
    /// Mean accuracy over the tasks after the last one, in percent; null if it was not evaluated.
    pub accuracy: Option<f64>,
    /// Mean fall from each task's peak, as a fraction.
    pub forgetting: Option<f64>,
    /// Mean accuracy on each task right after learning it, as a fraction.
    pub learning_accuracy: Option<f64>,
    /// The other measures, by name.
    pub metrics: BTreeMap<String, Option<f64>>,
    /// Seconds of training.
    pub train_seconds: f64,
    /// Seconds of evaluation.
    pub eval_seconds: f64,
    /// Bytes of samples held beyond the parameters when the run ended.
    pub memory_bytes: u64,
    /// All settings.
    pub config: BTreeMap<String, Value>,
    /// `matrix[i][j]`: accuracy on task j after task i, as a fraction; null where not evaluated.
    pub matrix: Vec<Vec<Option<f64>>>,
    /// Accuracy on each task before any training; empty if not evaluated.
    pub initial: Vec<Option<f64>>,
    /// Mean accuracy on the tasks seen so far along the stream, if asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curve: Vec<Point>,
}

impl Record {
    /// The record of a run.
    pub fn new(config: &RunConfig, outcome: &Outcome, memory_bytes: u64) -> Record {
        let known = |x: f64| x.is_finite().then_some(x);
        let finished = outcome.status == Status::Done;
        // A run that ended early has no final accuracy; its matrix tells how far it came.
        let measure = |of: fn(&Matrix) -> f64| if finished { known(of(&outcome.matrix)) } else { None };
        let mut metrics: BTreeMap<String, Option<f64>> =
            METRICS.iter().map(|metric| (metric.name.to_owned(), measure(metric.of))).collect();
        let mut take = |name: &str| metrics.remove(name).flatten();
        Record {
            version: VERSION,
            program: concat!("hindsight ", env!("CARGO_PKG_VERSION")).to_owned(),
            method: config.method.name.to_owned(),
            benchmark: config.benchmark.name.to_owned(),
            seed: config.seed,
            status: outcome.status,
            accuracy: take("accuracy"),
            forgetting: take("forgetting"),
            learning_accuracy: take("learning_accuracy"),
            metrics,
            train_seconds: outcome.train_seconds,
            eval_seconds: outcome.eval_seconds,
            memory_bytes,
            config: config.effective(),
            matrix: outcome.matrix.rows.iter().map(|row| row.iter().map(|&a| known(a)).collect()).collect(),
            initial: outcome.matrix.initial.iter().map(|&a| known(a)).collect(),
            curve: outcome.curve.clone(),
        }
    }

    /// The same record without what differs from one execution to the next.
    pub fn without_timings(&self) -> Record {
        Record { train_seconds: 0.0, eval_seconds: 0.0, ..self.clone() }
    }
}
