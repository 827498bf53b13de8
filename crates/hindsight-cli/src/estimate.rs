//! How long runs will take on this machine.

use std::{sync::Arc, time::Duration};

use hindsight::{
    Record,
    benchmarks::BENCHMARKS,
    config::{Experiment, Override, RunConfig},
    methods::METHODS,
    protocol::Status,
    run::{costs, run},
    settings::Value,
    stream::Source,
};

/// Samples of the trial run per task: enough to measure, at most some seconds.
const TRIAL_SAMPLES: [(&str, usize); 2] = [("mlp", 500), ("resnet", 100)];
const TRIAL_TASKS: usize = 2;

/// The time that the runs `todo` need with `jobs` at a time: from `measured` records of other seeds or
/// settings, or else from a short trial run of the same network. None if the trial fails; the runs then
/// report why.
pub(crate) fn estimate(
    runs: &[RunConfig],
    todo: &[usize],
    measured: &[Record],
    source: &Arc<Source>,
    jobs: usize,
) -> Option<Duration> {
    let Some(&first) = todo.first() else { return Some(Duration::ZERO) };
    let seconds = if measured.iter().any(|record| record.status == Status::Done) {
        let costs = costs(runs, measured);
        todo.iter().map(|&index| costs[index]).sum()
    } else {
        let pace = Pace::measure(&runs[first], source)?;
        todo.iter().map(|&index| pace.seconds(&runs[index])).sum::<f64>()
    };
    Duration::try_from_secs_f64(seconds / jobs as f64).ok()
}

/// What the parts of a run take.
struct Pace {
    /// Seconds of finetune's training per sample.
    sample: f64,
    /// Seconds of evaluation per task.
    evaluation: f64,
}

impl Pace {
    fn measure(like: &RunConfig, source: &Arc<Source>) -> Option<Pace> {
        let network = like.shared.text("network");
        let (_, most) = TRIAL_SAMPLES.iter().find(|(name, _)| *name == network)?;
        let samples = match like.shared.int("samples") {
            0 => *most,
            samples => samples.min(*most),
        };
        let text = |key: &str, word: &str| (key.to_owned(), Value::Text(word.to_owned().into()));
        let int = |key: &str, number: usize| (key.to_owned(), Value::Int(number as i64));
        let shared = like.shared.iter().map(|(key, value)| (key.to_owned(), value.clone()));
        let settings = shared.chain([
            text("benchmark", &like.benchmark.name),
            text("method", "finetune"),
            text("evaluate", "seen"),
            int("tasks", TRIAL_TASKS),
            int("samples", samples),
        ]);
        let overrides: Vec<Override> = settings.map(|(key, value)| Override { key, value }).collect();
        let trial = Experiment::resolve(&overrides, BENCHMARKS, METHODS).ok()?;
        let record = run(&trial.first_run(), source, &mut |_| {}).ok()?;
        Some(Pace {
            sample: record.train_seconds / (TRIAL_TASKS * samples) as f64,
            evaluation: record.eval_seconds / evaluations(TRIAL_TASKS) as f64,
        })
    }

    fn seconds(&self, run: &RunConfig) -> f64 {
        let (tasks, samples) = (run.shared.int("tasks"), run.shared.int("samples"));
        self.sample * run.method.cost * (tasks * samples) as f64 + self.evaluation * evaluations(tasks) as f64
    }
}

/// Evaluations of a task in a run that evaluates the tasks seen so far after each task.
fn evaluations(tasks: usize) -> usize {
    tasks * (tasks + 1) / 2
}
