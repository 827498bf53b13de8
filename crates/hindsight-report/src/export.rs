//! Records as two tidy tables in CSV: a row per run, and a row per run, evaluation and task.

use std::collections::{BTreeMap, BTreeSet};

use hindsight::{Record, metrics::METRICS, protocol::Status, settings::Value};

use crate::escape::csv;

/// A row per run: what ran, how it ended, its measures and its settings, each in a column of its own.
///
/// Accuracies are in percent. `run` is the number of the row, by which [`evaluations_csv`] refers to it.
pub fn runs_csv(records: &[Record]) -> String {
    let settings: BTreeSet<&str> = records.iter().flat_map(|r| r.config.keys()).map(String::as_str).collect();
    let mut head: Vec<String> =
        ["run", "benchmark", "scenario", "method", "seed", "status"].map(str::to_owned).to_vec();
    head.extend(METRICS.iter().map(|metric| metric.name.to_owned()));
    head.extend(
        [
            "balanced_accuracy",
            "calibration_error",
            "prequential_accuracy",
            "train_seconds",
            "eval_seconds",
            "memory_bytes",
        ]
        .map(str::to_owned),
    );
    head.extend(settings.iter().filter(|key| **key != "scenario").map(|key| csv(&format!("config.{key}"))));
    let mut text = head.join(",") + "\n";
    for (run, record) in records.iter().enumerate() {
        let metrics: BTreeMap<&str, Option<f64>> =
            METRICS.iter().map(|m| (m.name, measure(record, m.name))).collect();
        let detail = record.detail.as_ref();
        let mut row = vec![
            run.to_string(),
            csv(&record.benchmark),
            record.config.get("scenario").map(word).unwrap_or_default(),
            csv(&record.method),
            record.seed.to_string(),
            if record.status == Status::Done { "done" } else { "diverged" }.to_owned(),
        ];
        row.extend(METRICS.iter().map(|metric| number(metrics[metric.name])));
        row.push(number(detail.and_then(|d| Some(100.0 * d.balanced_accuracy?))));
        row.push(number(detail.and_then(|d| d.calibration_error)));
        row.push(number(record.prequential.as_ref().and_then(|p| Some(100.0 * p.accuracy()?))));
        row.extend([record.train_seconds, record.eval_seconds].map(|seconds| number(Some(seconds))));
        row.push(record.memory_bytes.to_string());
        let others = settings.iter().filter(|key| **key != "scenario");
        row.extend(others.map(|key| record.config.get(*key).map(word).unwrap_or_default()));
        text += &(row.join(",") + "\n");
    }
    text
}

/// A row per run, evaluation and task: the accuracy, in percent, on `task` after `after` stages of the
/// stream, 0 for before any training.
pub fn evaluations_csv(records: &[Record]) -> String {
    let mut text = "run,benchmark,method,seed,after,task,task_name,accuracy\n".to_owned();
    for (run, record) in records.iter().enumerate() {
        let initial = Some(&record.initial).filter(|row| !row.is_empty()).map(|row| (0, row));
        for (after, row) in initial.into_iter().chain((1..).zip(&record.matrix)) {
            for (task, accuracy) in row.iter().enumerate() {
                let Some(accuracy) = accuracy else { continue };
                let name = record.task_names.get(task).map(|name| csv(name)).unwrap_or_default();
                let (benchmark, method) = (csv(&record.benchmark), csv(&record.method));
                let accuracy = number(Some(100.0 * accuracy));
                let line = [run.to_string(), benchmark, method, record.seed.to_string(), after.to_string()];
                text += &format!("{},{},{name},{accuracy}\n", line.join(","), task + 1);
            }
        }
    }
    text
}

/// A measure, accuracies in percent.
pub(crate) fn measure(record: &Record, name: &str) -> Option<f64> {
    match name {
        "accuracy" => record.accuracy,
        "forgetting" => record.forgetting,
        "learning_accuracy" => Some(100.0 * record.learning_accuracy?),
        name => {
            let scale = if name.ends_with("accuracy") { 100.0 } else { 1.0 };
            Some(scale * record.metrics.get(name).copied().flatten()?)
        }
    }
}

fn number(value: Option<f64>) -> String {
    value.filter(|value| value.is_finite()).map(|value| value.to_string()).unwrap_or_default()
}

fn word(value: &Value) -> String {
    csv(&value.to_string())
}
