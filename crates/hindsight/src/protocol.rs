//! The life of a learner: one pass over a stream of tasks, with an exam after each.

use std::time::Instant;

use hindsight_engine::params::finite;

use crate::{Batch, Learner, Stream, metrics::Matrix};

/// When the learner is examined, and on what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evaluate {
    /// On all tasks, before the first and after each.
    Full,
    /// After each task on the tasks seen so far.
    Seen,
    /// On all tasks, once, in the end.
    Final,
}

/// How a run goes about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protocol {
    /// Samples in a batch of the stream.
    pub batch: usize,
    /// When to examine.
    pub evaluate: Evaluate,
    /// Examine on the tasks seen so far every so many batches too; 0 for never.
    pub every: usize,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// All tasks were learned.
    Done,
    /// The loss or a parameter stopped being finite; the run ended there.
    Diverged,
}

/// Mean accuracy over the tasks seen so far at one moment of the stream.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Point {
    /// Batches observed until then.
    pub batches: usize,
    /// Mean accuracy, as a fraction.
    pub accuracy: f64,
}

/// What a run leaves.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// How it ended.
    pub status: Status,
    /// Accuracies after each finished task.
    pub matrix: Matrix,
    /// The continual curve, if asked for.
    pub curve: Vec<Point>,
    /// Batches observed.
    pub batches: usize,
    /// Samples observed.
    pub samples: usize,
    /// Seconds in `observe` and `end_task`.
    pub train_seconds: f64,
    /// Seconds in `predict`.
    pub eval_seconds: f64,
}

/// What is reported while a run goes on.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// A part of the work is done: batches and exams, of `total`.
    Progress {
        /// Units of work done.
        done: usize,
        /// Units of work in all.
        total: usize,
    },
    /// A task (of a joined stream: all of them) was learned and, where the protocol says so, examined.
    Task {
        /// The task.
        task: usize,
        /// Accuracies on all tasks; NaN where not evaluated.
        row: &'a [f64],
    },
}

/// Runs `learner` over `stream`.
pub fn run(
    stream: &Stream,
    learner: &mut dyn Learner,
    protocol: &Protocol,
    watch: &mut dyn FnMut(Event<'_>),
) -> Outcome {
    let (tasks, stages) = (stream.len(), stream.stages());
    let batches: usize = (0..stages).map(|stage| stream.samples(stage).div_ceil(protocol.batch)).sum();
    // An exam on all tasks takes about as long as a task's training; the bar should not jump.
    let total = batches + if protocol.evaluate == Evaluate::Final { 0 } else { batches };
    let mut outcome = Outcome {
        status: Status::Done,
        matrix: Matrix::default(),
        curve: Vec::new(),
        batches: 0,
        samples: 0,
        train_seconds: 0.0,
        eval_seconds: 0.0,
    };
    let (mut seen, mut done) = (0, 0);
    let mut batch = Batch::default();

    if protocol.evaluate == Evaluate::Full {
        outcome.matrix.initial = examine(stream, learner, 0..tasks, &mut outcome.eval_seconds);
    }
    for stage in 0..stages {
        let samples = stream.samples(stage);
        for start in (0..samples).step_by(protocol.batch) {
            let clock = Instant::now();
            stream.batch(stage, start..(start + protocol.batch).min(samples), &mut batch);
            let loss = learner.observe(&batch);
            outcome.batches += 1;
            outcome.samples += batch.len();
            outcome.train_seconds += clock.elapsed().as_secs_f64();
            if !loss.is_finite() {
                outcome.status = Status::Diverged;
                return outcome;
            }
            seen += 1;
            done += 1;
            watch(Event::Progress { done, total });
            if protocol.every > 0 && seen % protocol.every == 0 {
                let row = examine(stream, learner, 0..stream.seen(stage), &mut outcome.eval_seconds);
                let accuracy = crate::metrics::mean(row[..stream.seen(stage)].iter().copied());
                outcome.curve.push(Point { batches: seen, accuracy });
            }
        }
        let clock = Instant::now();
        if stream.ends() {
            learner.end_task();
        }
        outcome.train_seconds += clock.elapsed().as_secs_f64();
        if !finite(learner.theta()) {
            outcome.status = Status::Diverged;
            return outcome;
        }
        let examined = match protocol.evaluate {
            Evaluate::Full => 0..tasks,
            Evaluate::Seen => 0..stream.seen(stage),
            Evaluate::Final if stage + 1 == stages => 0..tasks,
            Evaluate::Final => 0..0,
        };
        let row = examine(stream, learner, examined, &mut outcome.eval_seconds);
        if protocol.evaluate != Evaluate::Final {
            done += samples.div_ceil(protocol.batch);
        }
        watch(Event::Progress { done, total });
        watch(Event::Task { task: stage, row: &row });
        outcome.matrix.rows.push(row);
    }
    outcome
}

/// Test accuracy on each of `tasks`; NaN on the others.
fn examine(
    stream: &Stream,
    learner: &dyn Learner,
    tasks: std::ops::Range<usize>,
    seconds: &mut f64,
) -> Vec<f64> {
    let clock = Instant::now();
    let mut row = vec![f64::NAN; stream.len()];
    for task in tasks {
        let predicted = learner.predict(&stream.test_inputs(task), task);
        let labels = stream.test_labels(task);
        let right = predicted.iter().zip(labels).filter(|(p, l)| p == l).count();
        row[task] = right as f64 / labels.len() as f64;
    }
    *seconds += clock.elapsed().as_secs_f64();
    row
}
