//! The one record that leaves a run. Tables, figures and reports are pure functions of records.
//!
//! The format is described in `docs/records.md`.

mod host;

pub use host::Machine;
pub(crate) use host::available_memory;

use std::{collections::BTreeMap, time::SystemTime};

use serde::{Deserialize, Serialize};

use crate::{
    config::{RunConfig, id, identity},
    detail::Detail,
    metrics::{METRICS, Matrix},
    prequential::Prequential,
    protocol::{CurvePoint, Outcome, Status},
    settings::Value,
};

/// The version that this program writes. It reads all from 1 on.
pub const VERSION: u32 = 2;

/// What this program calls itself in records.
pub const PROGRAM: &str = concat!("hindsight ", env!("CARGO_PKG_VERSION"));

/// The commit that this program was built from, if from a repository.
pub const COMMIT: Option<&str> = option_env!("HINDSIGHT_COMMIT");

/// The file of a folder that records are in.
pub const RECORDS: &str = "records.jsonl";

/// The file beside it with a line per finished task.
pub const TASKS: &str = "tasks.jsonl";

/// A finished run: one line of JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Version of the format.
    pub version: u32,
    /// The program that wrote it.
    pub program: String,
    /// The commit that it was built from, if from a repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// When the run began: RFC 3339, UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// Where it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
    /// The data it was made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Data>,
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
    /// Bytes held beyond the parameters when the run ended: samples, anchors, logits, copies of theta.
    pub memory_bytes: u64,
    /// Most memory that the process had in use until the run ended, in bytes; of all runs in it together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_memory_bytes: Option<u64>,
    /// Batches observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batches: Option<usize>,
    /// Samples observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<usize>,
    /// All settings.
    pub config: BTreeMap<String, Value>,
    /// `matrix[i][j]`: accuracy on task j after task i, as a fraction; null where not evaluated.
    pub matrix: Vec<Vec<Option<f64>>>,
    /// Accuracy on each task before any training; empty if not evaluated.
    pub initial: Vec<Option<f64>>,
    /// Mean accuracy on the tasks seen so far along the stream, if asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curve: Vec<CurvePoint>,
    /// Accuracy on the stream itself, each batch answered before it was learned from, if asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prequential: Option<Prequential>,
    /// The last evaluation by class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Detail>,
    /// The names of the tasks, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub task_names: Vec<String>,
    /// The names of the classes, by their numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub class_names: Vec<String>,
}

/// The data of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Data {
    /// Name of the data set.
    pub name: String,
    /// [`Dataset::checksum`](crate::data::Dataset::checksum) of what was read.
    pub sha256: String,
}

impl Record {
    /// The record of a run that began at `started` and has just ended.
    pub fn new(
        config: &RunConfig,
        outcome: &Outcome,
        data: Data,
        started: SystemTime,
        memory_bytes: u64,
    ) -> Record {
        let known = |x: f64| x.is_finite().then_some(x);
        let finished = outcome.status == Status::Done;
        // A run that ended early has no final accuracy; its matrix tells how far it came.
        let measure = |of: fn(&Matrix) -> f64| if finished { known(of(&outcome.matrix)) } else { None };
        let mut metrics: BTreeMap<String, Option<f64>> =
            METRICS.iter().map(|metric| (metric.name.to_owned(), measure(metric.of))).collect();
        let mut take = |name: &str| metrics.remove(name).flatten();
        Record {
            version: VERSION,
            program: PROGRAM.to_owned(),
            commit: COMMIT.map(str::to_owned),
            started: Some(host::timestamp(started)),
            machine: Some(Machine::current()),
            data: Some(data),
            method: config.method.name.to_owned(),
            benchmark: config.benchmark.name.to_string(),
            seed: config.seed,
            status: outcome.status,
            accuracy: take("accuracy"),
            forgetting: take("forgetting"),
            learning_accuracy: take("learning_accuracy"),
            metrics,
            train_seconds: outcome.train_seconds,
            eval_seconds: outcome.eval_seconds,
            memory_bytes,
            peak_memory_bytes: host::peak_memory(),
            batches: Some(outcome.batches),
            samples: Some(outcome.samples),
            config: config.effective(),
            matrix: outcome.matrix.rows.iter().map(|row| row.iter().map(|&a| known(a)).collect()).collect(),
            initial: outcome.matrix.initial.iter().map(|&a| known(a)).collect(),
            curve: outcome.curve.clone(),
            // What a run needs to go on says nothing about its result.
            prequential: outcome.prequential.clone().map(|curve| Prequential { recent: [].into(), ..curve }),
            detail: outcome.detail.clone(),
            task_names: Vec::new(),
            class_names: Vec::new(),
        }
    }

    /// What makes two runs the same: of two records with one identity the later counts.
    pub fn identity(&self) -> String {
        identity(&self.benchmark, &self.method, self.seed, &self.config)
    }

    /// A short name of its identity: 16 hexadecimal digits.
    pub fn id(&self) -> String {
        id(&self.identity())
    }

    /// The same record without what differs from one execution to the next.
    pub fn without_timings(&self) -> Record {
        Record {
            started: None,
            train_seconds: 0.0,
            eval_seconds: 0.0,
            peak_memory_bytes: None,
            ..self.clone()
        }
    }

    /// Whether what was read hangs together, so that no figure has to ask again.
    pub(crate) fn check(&self) -> Result<(), String> {
        let tasks = self.matrix.first().map_or(0, Vec::len);
        if let Some((i, row)) = self.matrix.iter().enumerate().find(|(_, row)| row.len() != tasks) {
            return Err(format!("row {i} of the matrix has {} entries, expected {tasks}", row.len()));
        }
        let visits = match self.config.get("visits") {
            Some(Value::Int(visits)) => usize::try_from(*visits).unwrap_or(1),
            _ => 1,
        };
        if self.matrix.len() > tasks.saturating_mul(visits) {
            return Err(format!("the matrix has {} rows of {tasks} tasks", self.matrix.len()));
        }
        if !self.initial.is_empty() && tasks > 0 && self.initial.len() != tasks {
            return Err(format!("`initial` has {} entries, expected {tasks}", self.initial.len()));
        }
        if !self.task_names.is_empty() && tasks > 0 && self.task_names.len() != tasks {
            return Err(format!("`task_names` has {} entries, expected {tasks}", self.task_names.len()));
        }
        self.detail.as_ref().map_or(Ok(()), |detail| detail.check(self.class_names.len()))
    }
}
