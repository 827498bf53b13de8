//! The library as others use it: a learner of their own, a stream of their own, records that come back.

use std::sync::Arc;

use hindsight::{
    Batch, Inputs, Learner, Record, Stream,
    benchmarks::BENCHMARKS,
    config::{Experiment, Override},
    data::digits::digits,
    methods::METHODS,
    protocol::{self, Evaluate, Event, Protocol, Status},
    run,
    settings::Scenario,
    stream::{Source, Task, View},
};
use hindsight_nn::LinearMap;

/// Answers with the class that it has seen most, of the task that it is asked for.
#[derive(Default)]
struct MostFrequent {
    counts: Vec<[usize; 10]>,
    tasks_ended: usize,
}

impl Learner for MostFrequent {
    fn observe(&mut self, batch: &Batch) -> f32 {
        for (&label, &task) in batch.labels.iter().zip(&batch.tasks) {
            assert_eq!(task as usize, self.tasks_ended, "a sample of another task");
            self.counts.resize(task as usize + 1, [0; 10]);
            self.counts[task as usize][label as usize] += 1;
        }
        0.0
    }

    fn end_task(&mut self) {
        self.tasks_ended += 1;
    }

    fn predict(&self, inputs: &Inputs<'_>, task: usize) -> Vec<u32> {
        let counts = self.counts.get(task).copied().unwrap_or_default();
        let best = (0..10).max_by_key(|&class| counts[class]).unwrap_or(0);
        vec![best as u32; inputs.len()]
    }

    fn theta(&self) -> &[f32] {
        &[]
    }
}

/// Two tasks, the first with fives only and the second with threes only.
fn stream() -> Stream {
    let source = Arc::new(Source::new(digits(200, 100, 0)));
    let width = source.dataset.width() as u32;
    let task = |class: u32| {
        let labels = source.dataset.train.labels.iter().zip(0..);
        let order = labels.filter(|(label, _)| **label == class).map(|(_, i)| i).collect();
        Task {
            name: format!("all {class}"),
            classes: (0..10).map(|class| (class, class)).collect(),
            view: View::Map(LinearMap::permutation(&(0..width).collect::<Vec<_>>())),
            order,
        }
    };
    let tasks = vec![task(5), task(3)];
    Stream::new(source, tasks, Scenario::Domain, 10)
}

#[test]
fn a_learner_of_ones_own_lives_by_the_same_protocol() {
    let (stream, mut learner) = (stream(), MostFrequent::default());
    let protocol = Protocol { batch: 7, evaluate: Evaluate::Full, every: 0, prequential: 0 };
    let mut rows = Vec::new();
    let outcome = protocol::run(&stream, &mut learner, &protocol, &mut |event| {
        if let Event::Task { row, .. } = event {
            rows.push(row.to_vec());
        }
    });
    assert_eq!(outcome.status, Status::Done);
    assert_eq!(rows, outcome.matrix.rows, "rows are told as they come");
    // Every class is a tenth of the test images, whatever the one answer is.
    assert_eq!(outcome.matrix.rows, [[0.1, 0.1], [0.1, 0.1]]);
    let counts: Vec<usize> = learner.counts.iter().map(|counts| counts.iter().sum()).collect();
    assert_eq!(counts, [stream.samples(0), stream.samples(1)], "every sample came once");
    assert_eq!((learner.counts[0][5], learner.counts[1][3]), (20, 20));
}

#[test]
fn progress_never_goes_back_and_ends_complete() {
    for evaluate in [Evaluate::Full, Evaluate::Seen, Evaluate::Final] {
        let protocol = Protocol { batch: 7, evaluate, every: 2, prequential: 0 };
        let mut steps = Vec::new();
        protocol::run(&stream(), &mut MostFrequent::default(), &protocol, &mut |event| {
            if let Event::Progress { done, total } = event {
                steps.push((done, total));
            }
        });
        assert!(steps.is_sorted(), "{evaluate:?}: {steps:?}");
        let (done, total) = steps[steps.len() - 1];
        assert_eq!(done, total, "{evaluate:?}");
    }
}

/// Fails after a few batches, as a learner does whose loss is no longer a number.
struct Failing(usize);

impl Learner for Failing {
    fn observe(&mut self, _: &Batch) -> f32 {
        self.0 -= 1;
        if self.0 == 0 { f32::NAN } else { 1.0 }
    }

    fn end_task(&mut self) {}

    fn predict(&self, inputs: &Inputs<'_>, _: usize) -> Vec<u32> {
        vec![0; inputs.len()]
    }

    fn theta(&self) -> &[f32] {
        &[]
    }
}

#[test]
fn a_run_ends_where_the_loss_is_no_number() {
    // Three batches per task: the fifth is in the second task.
    let protocol = Protocol { batch: 7, evaluate: Evaluate::Full, every: 0, prequential: 0 };
    let outcome = protocol::run(&stream(), &mut Failing(5), &protocol, &mut |_| {});
    assert_eq!((outcome.status, outcome.matrix.rows.len()), (Status::Diverged, 1));
}

#[test]
fn a_configuration_becomes_a_record_and_a_record_survives_json() {
    let set = ["method=hal", "tasks=2", "samples=40", "hidden=16", "evaluate=seen", "evaluate_every=3"];
    let overrides = set.map(|text| Override::parse(text).unwrap());
    let experiment = Experiment::resolve(&overrides, BENCHMARKS, METHODS).unwrap();
    let source = Arc::new(Source::new(digits(240, 50, 0)));
    let record = run::run(&experiment.first_run(), &source, &mut |_| {}).unwrap();
    assert_eq!((record.method.as_str(), record.status), ("hal", Status::Done));
    assert_eq!((record.matrix.len(), record.matrix[0][1]), (2, None));
    assert_eq!(record.curve.iter().map(|point| point.batches).collect::<Vec<_>>(), [3, 6]);
    let json = serde_json::to_string(&record).unwrap();
    assert_eq!(serde_json::from_str::<Record>(&json).unwrap(), record);
}
