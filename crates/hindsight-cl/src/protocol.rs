//! The life of a learner: one pass over a stream of tasks, with an evaluation after each.

use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    panic::resume_unwind,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Instant,
};

use serde::{Deserialize, Serialize};

pub use crate::settings::Evaluate;

use crate::{
    Batch, Learner, Stream,
    detail::{self, Detail},
    metrics::Matrix,
    prequential::Prequential,
    thread_budget,
};

/// All parameters are looked at every so many batches, for less than a hundredth of the time.
pub(crate) const CHECK_EVERY: usize = 32;

/// Batch size and evaluation of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protocol {
    /// Samples in a batch of the stream.
    pub batch: usize,
    /// When to evaluate.
    pub evaluate: Evaluate,
    /// Examine on the tasks seen so far every so many batches too; 0 for never.
    pub every: usize,
    /// Samples in the window of a prequential evaluation; 0 for none.
    pub prequential: usize,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// All tasks were learned.
    Done,
    /// The loss or a parameter stopped being finite; the run ended there.
    Diverged,
}

/// Mean accuracy over the tasks seen so far at one moment of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Batches observed until then.
    pub batches: usize,
    /// Mean accuracy, as a fraction.
    pub accuracy: f64,
}

/// What a run leaves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// How it ended.
    pub status: Status,
    /// Accuracies after each finished task.
    pub matrix: Matrix,
    /// The continual curve, if asked for.
    pub curve: Vec<CurvePoint>,
    /// Answers to the stream itself before it is learned from, if asked for.
    #[serde(default)]
    pub prequential: Option<Prequential>,
    /// The last evaluation by class.
    #[serde(default)]
    pub detail: Option<Detail>,
    /// Batches observed.
    pub batches: usize,
    /// Samples observed.
    pub samples: usize,
    /// Seconds in `observe` and `end_task`.
    pub train_seconds: f64,
    /// Seconds in `predict`.
    pub eval_seconds: f64,
}

impl Default for Outcome {
    fn default() -> Outcome {
        Outcome {
            status: Status::Done,
            matrix: Matrix::default(),
            curve: Vec::new(),
            prequential: None,
            detail: None,
            batches: 0,
            samples: 0,
            train_seconds: 0.0,
            eval_seconds: 0.0,
        }
    }
}

/// How far a run has come: with the learner, all that it needs to go on.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RunState {
    /// Stages that are over.
    pub stage: usize,
    /// Samples of the next one that have been observed.
    pub start: usize,
    /// What the run would leave if it ended here.
    pub outcome: Outcome,
}

impl RunState {
    /// Whether this is a place that a run over `stream` can be at.
    pub fn check(&self, stream: &Stream, protocol: &Protocol) -> Result<(), String> {
        let (stages, Outcome { matrix, .. }) = (stream.stages(), &self.outcome);
        if self.stage > stages {
            return Err(format!("{} stages are over, of {stages}", self.stage));
        }
        let samples = if self.stage < stages { stream.samples(self.stage) } else { 0 };
        if self.start > samples || (self.start < samples && !self.start.is_multiple_of(protocol.batch)) {
            return Err(format!("{} samples observed, of {samples} by {}", self.start, protocol.batch));
        }
        let before = (0..self.stage).map(|stage| stream.samples(stage));
        let batches: usize = before.clone().chain([self.start]).map(|n| n.div_ceil(protocol.batch)).sum();
        if (self.outcome.batches, self.outcome.samples) != (batches, before.sum::<usize>() + self.start) {
            return Err(format!("{} batches observed, expected {batches}", self.outcome.batches));
        }
        let row = |row: &Vec<f64>| row.len() == stream.len();
        let initial = if protocol.evaluate == Evaluate::Full { stream.len() } else { 0 };
        if matrix.rows.len() != self.stage || !matrix.rows.iter().all(row) || matrix.initial.len() != initial
        {
            return Err(format!(
                "a matrix of {} rows, expected {} of {}",
                matrix.rows.len(),
                self.stage,
                stream.len()
            ));
        }
        Ok(())
    }
}

/// What is reported while a run goes on.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// A part of the work is done: batches and evaluations, of `total`.
    Progress {
        /// Units of work done.
        done: usize,
        /// Units of work in all.
        total: usize,
    },
    /// Something to know.
    Note {
        /// What.
        text: &'a str,
    },
    /// Something is lost that was asked for.
    Warning {
        /// What.
        text: &'a str,
    },
    /// A task (of a joined stream: all of them) was learned and, where the protocol says so, evaluated.
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
    let mut run_state = RunState::default();
    let _ = resume(stream, learner, protocol, &mut run_state, watch, &mut |_, _| ControlFlow::Continue(()));
    run_state.outcome
}

/// Runs `learner` over what is left of `stream` after `run_state`, which must fit it ([`RunState::check`]).
///
/// After every batch, `pause` may save both, or break off.
pub fn resume(
    stream: &Stream,
    learner: &mut dyn Learner,
    protocol: &Protocol,
    run_state: &mut RunState,
    watch: &mut dyn FnMut(Event<'_>),
    pause: &mut dyn FnMut(&RunState, &mut dyn Learner) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let (tasks, stages) = (stream.len(), stream.stages());
    let batches = |stage| stream.samples(stage).div_ceil(protocol.batch);
    // An evaluation on all tasks takes about as long as a task's training; the bar should not jump.
    let weight = if protocol.evaluate == Evaluate::Final { 1 } else { 2 };
    let total = weight * (0..stages).map(batches).sum::<usize>();
    let mut batch = Batch::default();

    if protocol.evaluate == Evaluate::Full && run_state.outcome.matrix.initial.is_empty() {
        let (initial, _) = evaluate(stream, learner, 0..tasks, &mut run_state.outcome.eval_seconds);
        run_state.outcome.matrix.initial = initial;
    }
    while run_state.stage < stages {
        let (stage, samples) = (run_state.stage, stream.samples(run_state.stage));
        let finished = weight * (0..stage).map(batches).sum::<usize>();
        while run_state.start < samples {
            let outcome = &mut run_state.outcome;
            let clock = Instant::now();
            let end = (run_state.start + protocol.batch).min(samples);
            stream.batch(stage, run_state.start..end, &mut batch);
            if protocol.prequential > 0 {
                let tested = Instant::now();
                let new = || Prequential::new(protocol.prequential);
                outcome.prequential.get_or_insert_with(new).test(stream, learner, &batch);
                // Not training.
                outcome.eval_seconds += tested.elapsed().as_secs_f64();
                outcome.train_seconds -= tested.elapsed().as_secs_f64();
            }
            let loss = learner.observe(&batch);
            run_state.start = end;
            outcome.batches += 1;
            outcome.samples += batch.len();
            outcome.train_seconds += clock.elapsed().as_secs_f64();
            // ReLU can hide a parameter that is not a number from the loss.
            let look = outcome.batches.is_multiple_of(CHECK_EVERY);
            if !loss.is_finite() || (look && !learner.is_finite()) {
                outcome.status = Status::Diverged;
                return ControlFlow::Continue(());
            }
            watch(Event::Progress { done: finished + end.div_ceil(protocol.batch), total });
            if protocol.every > 0 && outcome.batches.is_multiple_of(protocol.every) {
                let (row, _) = evaluate(stream, learner, 0..stream.seen(stage), &mut outcome.eval_seconds);
                let accuracy = crate::metrics::mean(row[..stream.seen(stage)].iter().copied());
                outcome.curve.push(CurvePoint { batches: outcome.batches, accuracy });
            }
            pause(run_state, learner)?;
        }
        let outcome = &mut run_state.outcome;
        let clock = Instant::now();
        if stream.announces_task_ends() {
            learner.end_task();
        }
        outcome.train_seconds += clock.elapsed().as_secs_f64();
        if !learner.is_finite() {
            outcome.status = Status::Diverged;
            return ControlFlow::Continue(());
        }
        let evaluated = match protocol.evaluate {
            Evaluate::Full => 0..tasks,
            Evaluate::Seen => 0..stream.seen(stage),
            Evaluate::Final if stage + 1 == stages => 0..tasks,
            Evaluate::Final => 0..0,
        };
        let (row, answers) = evaluate(stream, learner, evaluated, &mut outcome.eval_seconds);
        if stage + 1 == stages {
            let clock = Instant::now();
            let probed = detail::probe(stream, learner);
            let labelled = answers.into_iter().flat_map(|(task, answers)| {
                stream.test_labels(task).iter().copied().zip(answers).collect::<Vec<_>>()
            });
            outcome.detail = Some(Detail::new(stream.classes(), labelled, &probed));
            outcome.eval_seconds += clock.elapsed().as_secs_f64();
        }
        watch(Event::Progress { done: finished + weight * batches(stage), total });
        watch(Event::Task { task: stage, row: &row });
        outcome.matrix.rows.push(row);
        (run_state.stage, run_state.start) = (stage + 1, 0);
    }
    ControlFlow::Continue(())
}

/// Test accuracy on each of `tasks`, NaN on the others; and the answers by task.
fn evaluate(
    stream: &Stream,
    learner: &dyn Learner,
    tasks: std::ops::Range<usize>,
    seconds: &mut f64,
) -> (Vec<f64>, BTreeMap<usize, Vec<u32>>) {
    let clock = Instant::now();
    let next = AtomicUsize::new(tasks.start);
    let answer = || {
        let mut found = Vec::new();
        loop {
            let task = next.fetch_add(1, Ordering::Relaxed);
            if task >= tasks.end {
                return found;
            }
            let predicted = learner.predict(&stream.test_inputs(task), stream.told(task));
            found.push((task, predicted));
        }
    };
    let permit = thread_budget::acquire(tasks.len().saturating_sub(1));
    let answers = thread::scope(|scope| {
        // Where the system has no thread to spare, this one does the work.
        let helpers: Vec<_> =
            (0..permit.0).map_while(|_| thread::Builder::new().spawn_scoped(scope, answer).ok()).collect();
        let own = answer();
        let theirs =
            helpers.into_iter().flat_map(|helper| helper.join().unwrap_or_else(|panic| resume_unwind(panic)));
        own.into_iter().chain(theirs).collect::<BTreeMap<_, _>>()
    });
    let mut row = vec![f64::NAN; stream.len()];
    for (&task, predicted) in &answers {
        let labels = stream.test_labels(task);
        let right = predicted.iter().zip(labels).filter(|(p, l)| p == l).count();
        row[task] = right as f64 / labels.len() as f64;
    }
    *seconds += clock.elapsed().as_secs_f64();
    (row, answers)
}
