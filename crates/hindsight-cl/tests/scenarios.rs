//! What a learner is told and asked: the three scenarios, blurred boundaries, and tasks that come back.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, OnceLock},
};

use hindsight::{
    Batch, Inputs, Learner, Stream,
    benchmarks::BENCHMARKS,
    config::{ConfigError, Experiment, Override, RunConfig},
    data::digits::digits,
    methods::{METHODS, Method},
    protocol::{self, Evaluate, Protocol, Status},
    run,
    stream::Source,
};

fn source() -> &'static Arc<Source> {
    static SOURCE: OnceLock<Arc<Source>> = OnceLock::new();
    SOURCE.get_or_init(|| Arc::new(Source::new(digits(1_000, 200, 0))))
}

const SMALL: [&str; 9] = [
    "tasks=3",
    "samples=60",
    "slots=2",
    "hidden=16",
    "vcl.samples=1",
    "vcl.test_samples=1",
    "vcl-random.samples=1",
    "vcl-random.test_samples=1",
    "vcl-random.epochs=1",
];

fn resolve(set: &[&str], methods: &[Method]) -> Result<RunConfig, ConfigError> {
    let set = SMALL.iter().chain(set).map(|text| Override::parse(text).unwrap());
    Ok(Experiment::resolve(&set.collect::<Vec<_>>(), BENCHMARKS, methods)?.first_run())
}

fn config(method: &str, benchmark: &str, set: &[&str]) -> RunConfig {
    let mine = [format!("method={method}"), format!("benchmark={benchmark}")];
    let mlp = ["network=mlp"];
    let all: Vec<&str> = mine.iter().map(String::as_str).chain(mlp).chain(set.iter().copied()).collect();
    resolve(&all, METHODS).unwrap()
}

fn stream(benchmark: &str, set: &[&str]) -> Stream {
    run::stream(&config("finetune", benchmark, set), source()).unwrap()
}

fn stage(stream: &Stream, stage: usize) -> Batch {
    let mut batch = Batch::default();
    stream.batch(stage, 0..stream.samples(stage), &mut batch);
    batch
}

const BENCHMARK_NAMES: [&str; 3] = ["permuted-digits", "rotated-digits", "split-digits"];

#[test]
fn no_answer_depends_on_a_task_that_must_not_be_known() {
    let protocol = Protocol { batch: 10, evaluate: Evaluate::Final, every: 0, prequential: 0 };
    for method in METHODS.iter().filter(|method| !method.needs_task) {
        for benchmark in ["permuted-digits", "split-digits"] {
            for scenario in ["scenario=domain", "scenario=class"] {
                let config = config(method.name, benchmark, &[scenario]);
                let stream = run::stream(&config, source()).unwrap();
                let mut learner = run::learner(&config, &stream);
                protocol::run(&stream, &mut *learner, &protocol, &mut |_| {});
                for task in 0..3 {
                    let inputs = stream.test_inputs(task);
                    let (answers, rows) = (learner.predict(&inputs, 0), learner.predict_proba(&inputs, 0));
                    for told in [1, 2, 7, usize::MAX] {
                        let what = format!("{} on {benchmark}, {scenario}, told {told}", method.name);
                        assert_eq!(learner.predict(&inputs, told), answers, "{what}");
                        assert_eq!(learner.predict_proba(&inputs, told), rows, "{what}");
                    }
                }
            }
        }
    }
}

/// Notes which tasks it is told.
#[derive(Default)]
struct Told(Mutex<BTreeSet<usize>>);

impl Learner for Told {
    fn observe(&mut self, _: &Batch) -> f32 {
        0.0
    }

    fn end_task(&mut self) {}

    fn predict(&self, inputs: &Inputs<'_>, task: usize) -> Vec<u32> {
        self.0.lock().unwrap().insert(task);
        vec![0; inputs.len()]
    }

    fn theta(&self) -> &[f32] {
        &[]
    }
}

#[test]
fn only_a_task_incremental_evaluation_tells_the_task() {
    let protocol = Protocol { batch: 10, evaluate: Evaluate::Full, every: 3, prequential: 0 };
    let told = |stream: Stream| {
        let mut learner = Told::default();
        protocol::run(&stream, &mut learner, &protocol, &mut |_| {});
        learner.0.into_inner().unwrap().into_iter().collect::<Vec<_>>()
    };
    for benchmark in BENCHMARK_NAMES {
        assert_eq!(told(stream(benchmark, &["scenario=task"])), [0, 1, 2]);
        for scenario in ["scenario=domain", "scenario=class"] {
            assert_eq!(told(stream(benchmark, &[scenario])), [0]);
            assert_eq!(told(stream(benchmark, &[scenario]).telling_task()), [0, 1, 2], "for an oracle");
        }
    }
}

#[test]
fn the_scenario_numbers_the_classes() {
    let classes = |benchmark: &str, scenario: &str| {
        let stream = stream(benchmark, &[scenario]);
        let of_task: Vec<BTreeSet<u32>> = (0..3)
            .map(|task| {
                let train: BTreeSet<u32> = stage(&stream, task).labels.into_iter().collect();
                let test: BTreeSet<u32> = stream.test_labels(task).iter().copied().collect();
                assert!(train.is_subset(&test), "{benchmark}, {scenario}");
                let head = stream.heads().classes(task, stream.classes());
                let asked = if scenario == "scenario=task" { test.len() } else { stream.classes() };
                assert_eq!(head.len(), asked, "{benchmark}, {scenario}");
                test
            })
            .collect();
        assert_eq!(stream.class_names().len(), stream.classes());
        (stream.classes(), of_task)
    };
    let all: BTreeSet<u32> = (0..10).collect();
    for benchmark in ["permuted-digits", "rotated-digits"] {
        assert_eq!(classes(benchmark, "scenario=domain"), (10, vec![all.clone(); 3]));
        let own = [0, 10, 20].map(|first| (first..first + 10).collect());
        assert_eq!(classes(benchmark, "scenario=task"), (30, own.to_vec()));
        assert_eq!(classes(benchmark, "scenario=class"), (30, own.to_vec()));
    }
    let (count, split) = classes("split-digits", "scenario=class");
    assert_eq!((count, &split), (10, &classes("split-digits", "scenario=task").1));
    assert_eq!(split.iter().flatten().collect::<BTreeSet<_>>().len(), 6, "no class twice");
    let pair: BTreeSet<u32> = [0, 1].into();
    assert_eq!(classes("split-digits", "scenario=domain"), (2, vec![pair; 3]));
}

#[test]
fn every_method_runs_in_every_scenario_with_blurred_and_returning_tasks() {
    for method in METHODS {
        for scenario in ["scenario=task", "scenario=domain", "scenario=class"] {
            let set = [scenario, "blur=0.4", "visits=2", "tasks=2", "evaluate=full"];
            let config = config(method.name, "split-digits", &set);
            let record = run::run(&config, source(), &mut |_| {}).unwrap();
            assert_eq!(record.status, Status::Done, "{} {scenario}", method.name);
            let rows = if method.joint { 1 } else { 4 };
            assert_eq!(record.matrix.len(), rows, "{} {scenario}", method.name);
            assert!(record.metrics.values().all(Option::is_some), "{} {:?}", method.name, record.metrics);
        }
    }
}

#[test]
fn blurring_exchanges_a_share_of_each_task_with_its_neighbours_and_loses_nothing() {
    let plain = stream("split-digits", &["scenario=class"]);
    let blurred = stream("split-digits", &["scenario=class", "blur=0.2"]);
    let own: Vec<BTreeSet<u32>> =
        (0..3).map(|task| plain.test_labels(task).iter().copied().collect()).collect();
    let mut all = Vec::new();
    // Six of sixty over each boundary.
    for (task, strangers) in [(0, 6), (1, 12), (2, 6)] {
        let batch = stage(&blurred, task);
        assert_eq!(batch.len(), 60);
        assert!(batch.tasks.iter().all(|&told| told as usize == task), "whose turn it is, and no more");
        assert_eq!(batch.labels.iter().filter(|&label| !own[task].contains(label)).count(), strangers);
        let before: BTreeSet<u32> = own[if task == 0 { 1 } else { task - 1 }].clone();
        let after = &own[if task == 2 { 1 } else { task + 1 }];
        let near = |label: &u32| own[task].contains(label) || before.contains(label) || after.contains(label);
        assert!(batch.labels.iter().all(near));
        all.extend(
            batch.iter().map(|(x, label, _)| (x.iter().map(|v| v.to_bits()).collect::<Vec<_>>(), label)),
        );
    }
    let mut expected: Vec<_> = (0..3)
        .flat_map(|task| {
            let batch = stage(&plain, task);
            batch
                .iter()
                .map(|(x, label, _)| (x.iter().map(|v| v.to_bits()).collect::<Vec<_>>(), label))
                .collect::<Vec<_>>()
        })
        .collect();
    all.sort();
    expected.sort();
    assert!(all == expected, "the same samples in another order");
    // With a head per task, each sample's own task must be told.
    let told = stage(&stream("split-digits", &["scenario=task", "blur=0.2"]), 1);
    assert_eq!(told.tasks.iter().filter(|&&task| task != 1).count(), 12);
}

#[test]
fn tasks_that_come_back_bring_new_samples() {
    let (plain, twice) = (stream("permuted-digits", &[]), stream("permuted-digits", &["visits=2"]));
    assert_eq!((plain.stages(), twice.stages(), twice.len()), (3, 6, 3));
    assert_eq!((0..6).map(|stage| twice.seen(stage)).collect::<Vec<_>>(), [1, 2, 3, 3, 3, 3]);
    for task in 0..3 {
        let (mut visits, last) = (stage(&twice, task), stage(&twice, task + 3));
        assert_eq!((visits.len(), last.len()), (30, 30));
        visits.extend(&last);
        assert_eq!(visits, stage(&plain, task));
    }
}

#[test]
fn a_method_that_needs_the_task_is_an_oracle_or_refused() {
    for method in METHODS.iter().filter(|method| method.needs_task) {
        assert!(method.oracle, "{}", method.name);
    }
    let mine = Method { name: "mine", needs_task: true, ..METHODS[0] };
    let table: Vec<Method> = METHODS.iter().copied().chain([mine]).collect();
    let of = |scenario: &str| resolve(&["method=mine", scenario], &table);
    assert!(of("scenario=task").is_ok());
    for scenario in ["domain", "class"] {
        let error = of(&format!("scenario={scenario}")).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("`mine` must be told the task at test time, but `scenario` is `{scenario}`")
        );
    }
}

#[test]
fn a_prequential_evaluation_answers_every_sample_before_it_is_learned() {
    for scenario in ["scenario=task", "scenario=class"] {
        let config = config("er-ring", "split-digits", &[scenario, "prequential=30", "blur=0.4"]);
        let record = run::run(&config, source(), &mut |_| {}).unwrap();
        let curve = record.prequential.unwrap();
        assert_eq!((curve.window, curve.samples), (30, 180));
        assert_eq!(curve.points.last().unwrap().samples, 180);
        let (first, all) = (curve.points[0].accuracy, curve.accuracy().unwrap());
        assert!(first < 0.9 && all > 0.1, "{scenario}: an untaught learner knows nothing: {first}, {all}");
        let plain = self::config("er-ring", "split-digits", &[scenario, "blur=0.4"]);
        let plain = run::run(&plain, source(), &mut |_| {}).unwrap();
        assert_eq!((plain.matrix, plain.prequential), (record.matrix, None), "answers teach nothing");
    }
}

#[test]
fn records_name_tasks_and_classes_and_tell_the_last_evaluation_by_class() {
    let record = run::run(&config("finetune", "split-digits", &["scenario=class"]), source(), &mut |_| {});
    let record = record.unwrap();
    let stream = stream("split-digits", &["scenario=class"]);
    assert_eq!(record.task_names, stream.task_names());
    assert_eq!(record.task_names[0].split(", ").count(), 2);
    assert_eq!(record.class_names, ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
    let detail = record.detail.unwrap();
    // As many of each row as there are test images, and right answers as the last row of the matrix says.
    let tests: usize = (0..3).map(|task| stream.test_labels(task).len()).sum();
    assert_eq!(detail.confusion.iter().flatten().sum::<u32>() as usize, tests);
    let right: u32 = (0..10).map(|class| detail.confusion[class][class]).sum();
    let expected: f64 = record.matrix[2]
        .iter()
        .enumerate()
        .map(|(task, accuracy)| accuracy.unwrap() * stream.test_labels(task).len() as f64)
        .sum();
    assert!((f64::from(right) - expected).abs() < 1e-6);
    let known = detail.class_accuracy.iter().flatten().count();
    assert_eq!(known, 6, "the classes of three tasks");
    let error = detail.calibration_error.unwrap();
    assert!((0.0..=1.0).contains(&error) && !detail.reliability.is_empty());
}
