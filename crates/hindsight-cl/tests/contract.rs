//! What every method promises, and how one is added from outside. What holds bit for bit is in
//! `degenerate.rs`.

use std::sync::{Arc, OnceLock};

use hindsight::{
    Batch, Inputs, Learner, Record,
    benchmarks::BENCHMARKS,
    config::{ConfigError, Experiment, Override, RunConfig},
    data::digits::digits,
    methods::{METHODS, Method, Model, RATE, Setup},
    protocol::Status,
    run,
    stream::Source,
};

fn source() -> &'static Arc<Source> {
    static SOURCE: OnceLock<Arc<Source>> = OnceLock::new();
    SOURCE.get_or_init(|| Arc::new(Source::new(digits(2_000, 300, 0))))
}

fn record(set: &[&str], methods: &'static [Method]) -> Record {
    let overrides: Vec<Override> = set.iter().map(|text| Override::parse(text).unwrap()).collect();
    let run = Experiment::resolve(&overrides, BENCHMARKS, methods).unwrap().first_run();
    run::run(&run, source(), &mut |_| {}).unwrap()
}

fn config(set: &[&str]) -> RunConfig {
    let overrides: Vec<Override> = set.iter().map(|text| Override::parse(text).unwrap()).collect();
    Experiment::resolve(&overrides, BENCHMARKS, METHODS).unwrap().first_run()
}

/// Settings under which every method sees enough of each task, in little time.
const QUICK: [&str; 12] = [
    "benchmark=permuted-digits",
    "tasks=4",
    "samples=300",
    "slots=2",
    "hidden=64",
    "vcl.samples=2",
    "vcl.rate=0.01",
    "vcl-random.samples=2",
    "vcl-random.rate=0.01",
    "vcl-random.epochs=5",
    "ranpac.units=200",
    "cls-er.stable=0.9",
];

fn quick(method: &'static str, set: &[&str]) -> Record {
    let own = format!("method={method}");
    let all: Vec<&str> = QUICK.iter().chain(set).copied().chain([own.as_str()]).collect();
    record(&all, METHODS)
}

#[test]
fn every_method_builds_from_its_defaults_on_every_benchmark() {
    for benchmark in BENCHMARKS {
        let overrides = [format!("benchmark={}", benchmark.name), "method=all".to_owned()];
        let overrides: Vec<_> = overrides.iter().map(|text| Override::parse(text).unwrap()).collect();
        let experiment = Experiment::resolve(&overrides, BENCHMARKS, METHODS).unwrap();
        assert_eq!(experiment.runs().len(), METHODS.len());
        for run in experiment.runs() {
            // A split of ten classes, whatever the data set of the benchmark has.
            let stream = run::stream(&config(&["benchmark=split-digits", "samples=10"]), source()).unwrap();
            let learner = run::learner(&run, &stream);
            assert!(!learner.theta().is_empty(), "{}", run.method.name);
        }
    }
}

#[test]
fn every_default_is_a_value_that_its_key_takes() {
    let keys = METHODS.iter().flat_map(|m| m.keys).chain(BENCHMARKS.iter().flat_map(|b| b.keys));
    for key in keys.chain(hindsight::config::SHARED) {
        for default in &key.default {
            assert!(key.check(default).is_some(), "{} = {default}", key.name);
        }
        assert!(!key.doc.is_empty(), "{}", key.name);
    }
    for method in METHODS {
        for (key, value) in method.presets.iter().flat_map(|(_, values)| *values) {
            let key = method.keys.iter().find(|k| k.name == *key).unwrap();
            assert!(key.check(value).is_some(), "{} = {value}", key.name);
        }
    }
}

#[test]
fn every_method_names_a_key_that_it_does_not_have() {
    for method in METHODS {
        let nearest = format!("{}.{}", method.name, method.keys[0].name);
        let wrong = format!("{nearest}e");
        let set = Override::parse(&format!("{wrong}=1")).unwrap();
        let error = Experiment::resolve(&[set], BENCHMARKS, METHODS).unwrap_err();
        assert!(
            matches!(&error, ConfigError::Unknown { name, nearest: Some(n), .. }
                if *name == wrong && *n == nearest),
            "{error:?}"
        );
    }
}

#[test]
fn every_method_learns_and_stays_finite() {
    for method in METHODS {
        let record = quick(method.name, &[]);
        assert_eq!(record.status, Status::Done, "{}", method.name);
        let learned = record.learning_accuracy.unwrap();
        assert!(learned > 0.3, "{}: {learned}", method.name);
        assert!(record.metrics.values().all(Option::is_some), "{}: {:?}", method.name, record.metrics);
    }
}

#[test]
fn methods_that_promise_it_forget_less_than_finetune() {
    let set = ["samples=500", "tasks=6", "slots=3"];
    let finetune = quick("finetune", &set).forgetting.unwrap();
    assert!(finetune > 0.05, "{finetune}");
    let of_the_paper = ["a-gem", "mer", "er-ring", "mir", "icarl", "hal", "clone-and-finetune", "multitask"];
    let after_it = ["er-reservoir", "er-ace", "der", "der++", "cls-er", "gem"];
    for method in of_the_paper.into_iter().chain(after_it) {
        let forgetting = quick(method, &set).forgetting.unwrap();
        assert!(forgetting < finetune, "{method} {forgetting}, finetune {finetune}");
    }
}

#[test]
fn switches_change_what_a_method_does() {
    for (method, switch) in [
        ("ewc", "ewc.fisher=sample"),
        ("mer", "mer.algorithm=original"),
        ("mir", "mir.candidates=11"),
        ("er-ring", "er-ring.average=0.9"),
        ("hal", "hal.average=0.9"),
        ("der++", "der++.memory=ring"),
        ("compact-der", "compact-der.precision=f32"),
        ("er-ring", "er-ring.updates=2"),
        ("er-ring", "memory_precision=u8"),
        ("lwf", "lwf.temperature=1"),
        ("gem", "gem.margin=0"),
        ("gdumb", "gdumb.epochs=2"),
        ("slda", "slda.from=features"),
        ("ranpac", "ranpac.from=features"),
        ("vcl", "vcl.test_samples=3"),
        ("hal", "hal.gradient=first"),
        ("hal", "hal.gradient=frozen"),
        ("hal", "hal.anchors=real"),
        ("hal", "hal.anchors=oracle"),
        ("hal", "hal.anchors_per_step=0"),
        ("hal", "hal.phi=task"),
        ("hal", "hal.distance=squared"),
        ("hal", "hal.start=uniform"),
        ("hal", "hal.anchor_optimiser=ascent"),
        ("hal", "hal.anchor_scale=none"),
        ("hal", "hal.first_anchors=learned"),
        ("hal", "hal.hindsight=epoch"),
    ] {
        let (plain, switched) = (quick(method, &["tasks=3"]), quick(method, &["tasks=3", switch]));
        assert_ne!(plain.matrix, switched.matrix, "{switch}");
    }
}

/// A method from outside, exactly as CONTRIBUTING describes it: SGD that steps only on hard batches.
struct Lazy {
    model: Model,
    theta: Vec<f32>,
    rate: f32,
    enough: f32,
}

static WITH_LAZY: [Method; 1] = [Method {
    name: "lazy",
    title: "Lazy",
    summary: "finetune that leaves easy batches alone",
    paper: "nowhere",
    keys: LAZY_KEYS,
    build: |setup: &Setup<'_>| {
        Box::new(Lazy {
            model: Model::new(setup),
            theta: setup.initial_theta(),
            rate: setup.method_settings.float("rate"),
            enough: setup.method_settings.float("enough"),
        })
    },
    ..Method::DEFAULT
}];

static LAZY_KEYS: &[hindsight::settings::Key] = &[
    RATE,
    hindsight::settings::Key::new(
        "enough",
        hindsight::settings::Kind::Float(0.0, 100.0),
        hindsight::settings::Value::Float(1.5),
        "loss below which a batch is left alone",
    ),
];

impl Learner for Lazy {
    fn observe(&mut self, batch: &Batch) -> f32 {
        let loss = self.model.gradient(&self.theta, batch);
        if loss > self.enough {
            self.model.accumulate(-self.rate, &mut self.theta);
        }
        loss
    }

    fn end_task(&mut self) {}

    fn predict(&self, inputs: &Inputs<'_>, task: usize) -> Vec<u32> {
        self.model.predict(&self.theta, inputs, task)
    }

    fn theta(&self) -> &[f32] {
        &self.theta
    }
}

#[test]
fn a_method_from_outside_runs_like_those_inside() {
    let base = ["tasks=2", "samples=300", "hidden=64"];
    let of = |set: &[&str]| record(&[&base[..], &["method=lazy"], set].concat(), &WITH_LAZY);
    let lazy = of(&[]);
    assert_eq!((lazy.status, lazy.method.as_str()), (Status::Done, "lazy"));
    assert!(lazy.learning_accuracy.unwrap() > 0.4);
    // Never satisfied, it is finetune.
    let finetune = record(&[&base[..], &["method=finetune"]].concat(), METHODS);
    assert_eq!(of(&["lazy.enough=0"]).matrix, finetune.matrix);
    assert_ne!(lazy.matrix, finetune.matrix);
}

#[test]
fn probabilities_of_every_method_agree_with_its_answers() {
    for method in METHODS {
        for benchmark in ["permuted-digits", "split-digits"] {
            let names = [format!("method={}", method.name), format!("benchmark={benchmark}")];
            let quick =
                QUICK.iter().skip(1).copied().chain(["tasks=2", "samples=60", "hidden=16", "maps=[2]"]);
            let config = config(&quick.chain(names.iter().map(String::as_str)).collect::<Vec<_>>());
            let stream = run::stream(&config, source()).unwrap();
            let mut learner = run::learner(&config, &stream);
            let mut batch = Batch::default();
            // Untaught, and within the second task: one task with exemplars, copies and a prior, one without.
            for samples in [0, 60, 20] {
                for start in (0..samples).step_by(10) {
                    let stage = if samples == 60 { 0 } else { stream.stages() - 1 };
                    stream.batch(stage, start..start + 10, &mut batch);
                    learner.observe(&batch);
                }
                if samples == 60 {
                    learner.end_task();
                }
                for task in 0..2 {
                    let inputs = stream.test_inputs(task);
                    let (answers, rows) =
                        (learner.predict(&inputs, task), learner.predict_proba(&inputs, task));
                    let classes = stream.classes();
                    assert_eq!(rows.len(), answers.len() * classes, "{}", method.name);
                    for (row, answer) in rows.chunks_exact(classes).zip(answers) {
                        let what = format!("{} on {benchmark}: {row:?}", method.name);
                        assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5, "{what}");
                        let best = (0..classes).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap();
                        assert_eq!(best as u32, answer, "{what}");
                        let forbidden = (0..classes).filter(|&class| !stream.heads().allows(task, class));
                        assert!(row.iter().all(|p| *p >= 0.0), "{what}");
                        assert!(forbidden.map(|class| row[class]).all(|p| p == 0.0), "{what}");
                    }
                }
            }
        }
    }
}
