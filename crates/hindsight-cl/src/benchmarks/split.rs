//! Split data sets: each task has classes of its own.
//!
//! Whether its id says which ones to choose from is the scenario's choice. In the domain-incremental one the
//! k-th class of every task has the same label.
//!
//! The classes are shuffled per seed. The first tasks are held apart for tuning, the next ones are learned.

use std::sync::Arc;

use hindsight_nn::Rng;

use super::{Benchmark, UNTUNED_GRADIENT, UNTUNED_PRESET, UNTUNED_TRUST};
use crate::{
    settings::{ConfigError, Family, Key, Kind, Scenario, Settings, SharedSettings, Value},
    stream::{Source, Stream, Task, View},
};

static KEYS: &[Key] =
    &[Key::new("classes_per_task", Kind::Int(1, 65_536), Value::Int(5), "classes in a task")];

static FOLDER_KEYS: &[Key] = &[
    Key::new("classes_per_task", Kind::Int(1, 65_536), Value::Int(5), "classes in a task"),
    Key::new(
        "image_size",
        Kind::Int(8, 512),
        Value::Int(84),
        "height and width that all images are brought to",
    ),
];

/// Defaults of the paper's split benchmarks.
static PAPER: &[(&str, Value)] = &[
    ("scenario", Value::text("task")),
    ("tasks", Value::Int(17)),
    // 500 of a class: what the paper's numbers say, against the 250 of its text.
    ("samples", Value::Int(2500)),
    // With a head per task, answers to tasks that never were learned are chance.
    ("evaluate", Value::text("seen")),
];

/// As many tasks as there are classes for, with all samples.
static ALL: &[(&str, Value)] = &[
    ("scenario", Value::text("task")),
    ("tasks", Value::Int(0)),
    ("samples", Value::Int(0)),
    ("tuning_tasks", Value::Int(0)),
    ("evaluate", Value::text("seen")),
];

/// Four tasks and one for tuning.
static TEN_CLASSES: &[(&str, Value)] = &[
    ("scenario", Value::text("task")),
    ("classes_per_task", Value::Int(2)),
    ("tuning_tasks", Value::Int(1)),
    ("tasks", Value::Int(4)),
    ("evaluate", Value::text("seen")),
];

/// Five tasks of two classes, which accumulate.
static ACCUMULATING: &[(&str, Value)] = &[
    ("scenario", Value::text("class")),
    ("classes_per_task", Value::Int(2)),
    ("tuning_tasks", Value::Int(0)),
    ("tasks", Value::Int(5)),
    ("evaluate", Value::text("seen")),
    UNTUNED_PRESET,
    UNTUNED_GRADIENT,
    UNTUNED_TRUST,
];

/// The same with all samples there are.
static SPLIT_CIFAR10: &[(&str, Value)] = &[
    ("scenario", Value::text("class")),
    ("classes_per_task", Value::Int(2)),
    ("tuning_tasks", Value::Int(0)),
    ("tasks", Value::Int(5)),
    ("samples", Value::Int(0)),
    ("evaluate", Value::text("seen")),
    UNTUNED_PRESET,
    UNTUNED_GRADIENT,
    UNTUNED_TRUST,
];

/// On CIFAR-10, class-incremental, with all 10,000 images of a task.
pub(super) const CIFAR10: Benchmark = Benchmark::new(
    [
        "split-cifar10",
        "two classes of CIFAR-10 per task, which are told from all others (Split CIFAR-10)",
        "cifar10",
    ],
    Family::Cifar,
    KEYS,
    SPLIT_CIFAR10,
    build,
);

/// On CIFAR-100, as in the paper.
pub(super) const CIFAR100: Benchmark = Benchmark::new(
    ["split-cifar100", "five classes of CIFAR-100 per task (the paper's Split CIFAR)", "cifar100"],
    Family::Cifar,
    KEYS,
    PAPER,
    build,
);

/// On miniImageNet, as in the paper.
pub(super) const MINI_IMAGENET: Benchmark = Benchmark::new(
    [
        "split-miniimagenet",
        "five classes of miniImageNet per task (the paper's Split miniImageNet)",
        "miniimagenet",
    ],
    Family::MiniImageNet,
    FOLDER_KEYS,
    PAPER,
    build,
);

/// On anybody's images.
pub(super) const FOLDER: Benchmark = Benchmark::new(
    ["split-folder", "classes per task of your own images: a folder of class folders", "folder"],
    Family::MiniImageNet,
    FOLDER_KEYS,
    ALL,
    build,
);

/// On the digits that hindsight draws itself.
pub(super) const DIGITS: Benchmark = Benchmark::new(
    ["split-digits", "two classes of built-in digits per task; needs no download", "digits"],
    Family::Mnist,
    KEYS,
    TEN_CLASSES,
    build,
);

/// On MNIST, class-incremental.
pub(super) const MNIST: Benchmark = Benchmark::new(
    ["split-mnist", "two classes of MNIST per task, which are told from all others (Split MNIST)", "mnist"],
    Family::Mnist,
    KEYS,
    ACCUMULATING,
    build_uncentred,
);

/// Pixels in [0, 1], mostly zero.
fn build_uncentred(source: &Arc<Source>, settings: &Settings, seed: u64) -> Result<Stream, ConfigError> {
    stream(source, settings, seed, false)
}

fn build(source: &Arc<Source>, settings: &Settings, seed: u64) -> Result<Stream, ConfigError> {
    stream(source, settings, seed, true)
}

fn stream(
    source: &Arc<Source>,
    settings: &Settings,
    seed: u64,
    centred: bool,
) -> Result<Stream, ConfigError> {
    let (mut classes_rng, mut orders) = (Rng::named(seed, "tasks"), Rng::named(seed, "order"));
    let dataset = &source.dataset;
    let per_task = settings.int("classes_per_task");
    let SharedSettings { scenario, tuning_tasks: held, tuning, tasks, samples, .. } =
        SharedSettings::new(settings);
    let tasks = match tasks {
        0 => (dataset.classes / per_task).saturating_sub(held),
        tasks => tasks,
    };
    let all = held + tasks;
    if all * per_task > dataset.classes || if tuning { held == 0 } else { tasks == 0 } {
        let (tasks, dataset, classes) = (all.max(1), dataset.name.clone(), dataset.classes);
        return Err(ConfigError::TooFewClasses { tasks, per_task, dataset, classes });
    }

    let mut classes: Vec<usize> = (0..dataset.classes).collect();
    classes_rng.shuffle(&mut classes);
    let members = |labels: &[u32]| {
        let mut members = vec![Vec::new(); dataset.classes];
        labels.iter().enumerate().for_each(|(i, &label)| members[label as usize].push(i as u32));
        members
    };
    let (mut train, test) = (members(&dataset.train.labels), members(&dataset.test.labels));

    // All tasks are drawn, those held apart too, so that tuning and evaluation are parts of one stream.
    let mut stream = Vec::new();
    for (task, own) in classes.chunks_exact(per_task).take(all).enumerate() {
        let (mut order, mut images) = (Vec::new(), Vec::new());
        let per_class = samples.div_ceil(per_task);
        for &class in own {
            let pool = &mut train[class];
            if per_class > pool.len() {
                let (dataset, has) = (dataset.name.clone(), pool.len());
                return Err(ConfigError::ClassTooSmall { found: samples, per_class, class, dataset, has });
            }
            orders.shuffle(pool);
            order.extend_from_slice(if samples == 0 { pool } else { &pool[..per_class] });
            images.extend_from_slice(&test[class]);
        }
        orders.shuffle(&mut order);
        if samples > 0 {
            order.truncate(samples);
        }
        if (task < held) == tuning {
            let number = |(place, &class): (usize, &usize)| match scenario {
                Scenario::Task | Scenario::Class => (class as u32, class as u32),
                Scenario::Domain => (class as u32, place as u32),
            };
            let names: Vec<String> = own.iter().map(|&class| dataset.class_name(class)).collect();
            stream.push(Task {
                name: names.join(", "),
                classes: own.iter().enumerate().map(number).collect(),
                view: View::Subset { images, centred },
                order,
            });
        }
    }
    let classes = match scenario {
        Scenario::Task | Scenario::Class => dataset.classes,
        Scenario::Domain => per_task,
    };
    Ok(Stream::new(source.clone(), stream, scenario, classes))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{
        Batch,
        benchmarks::BENCHMARKS,
        config::{Experiment, Override},
        data::digits::digits,
        methods::METHODS,
        run::{self, RunError},
    };

    /// The stream of `seed` with these settings, on 200 and 50 images.
    fn stream(seed: usize, set: &[&str]) -> Result<Stream, RunError> {
        let seeds = format!("seeds={}", seed + 1);
        let all = ["benchmark=split-digits", "samples=20", &seeds].into_iter().chain(set.iter().copied());
        let overrides: Vec<Override> = all.map(|text| Override::parse(text).unwrap()).collect();
        let config = Experiment::resolve(&overrides, BENCHMARKS, METHODS).unwrap().runs().remove(seed);
        run::stream(&config, &Arc::new(Source::new(digits(200, 50, 0))))
    }

    fn classes(stream: &Stream, task: usize) -> BTreeSet<u32> {
        let mut batch = Batch::default();
        stream.batch(task, 0..stream.samples(task), &mut batch);
        assert!(batch.tasks.iter().all(|&of| of as usize == task));
        batch.labels.into_iter().collect()
    }

    #[test]
    fn tasks_have_classes_of_their_own_in_training_test_and_head() {
        let stream = stream(0, &[]).unwrap();
        assert_eq!(stream.len(), 4);
        let mut all = BTreeSet::new();
        for task in 0..stream.len() {
            let classes = classes(&stream, task);
            assert_eq!(classes.len(), 2);
            assert_eq!(stream.test_labels(task).iter().copied().collect::<BTreeSet<_>>(), classes);
            let test = &digits(200, 50, 0).test.labels;
            let own = test.iter().filter(|&&label| classes.contains(&label)).count();
            assert_eq!(stream.test_inputs(task).len(), own);
            let allowed =
                (0..10).filter(|&class| stream.heads().allows(task, class)).map(|class| class as u32);
            assert_eq!(allowed.collect::<BTreeSet<_>>(), classes);
            all.extend(classes);
        }
        assert_eq!(all.len(), 8, "no class twice");
    }

    #[test]
    fn a_seed_shuffles_the_classes_and_tuning_tasks_are_other_ones() {
        let of = |seed, set: &[&str]| {
            let stream = stream(seed, set).unwrap();
            (0..stream.len()).map(|task| classes(&stream, task)).collect::<Vec<_>>()
        };
        let (first, second) = (of(0, &[]), of(1, &[]));
        assert_ne!(first, second);
        assert_eq!(first, of(0, &[]));
        let tuning = of(0, &["tuning=true"]);
        assert_eq!(tuning.len(), 1);
        assert!(first.iter().all(|classes| classes.is_disjoint(&tuning[0])));
    }

    #[test]
    fn as_many_samples_of_each_class_come_as_asked_for_and_none_twice() {
        let stream = stream(0, &["samples=12"]).unwrap();
        let mut batch = Batch::default();
        stream.batch(2, 0..12, &mut batch);
        let count = |class: u32| batch.labels.iter().filter(|&&label| label == class).count();
        assert_eq!([count(batch.labels[0]), stream.samples(2)], [6, 12]);
        let images: BTreeSet<Vec<u32>> =
            (0..12).map(|i| batch.sample(i).0.iter().map(|x| x.to_bits()).collect()).collect();
        assert_eq!(images.len(), 12);
        let all = self::stream(0, &["samples=0", "tasks=0"]).unwrap();
        assert_eq!((all.len(), all.samples(0)), (4, 40), "all there are");
    }

    #[test]
    fn inputs_are_pixels_less_the_mean_training_image() {
        let source = Source::new(digits(200, 50, 0));
        let width = source.dataset.width();
        let pixel = 14 * 28 + 14;
        let sum: f64 =
            source.dataset.train.pixels().iter().skip(pixel).step_by(width).map(|&p| f64::from(p)).sum();
        let mean = (sum / 200.0 / 255.0) as f32;
        assert_eq!(source.mean()[pixel], mean);

        let (stream, mut rows) = (stream(0, &[]).unwrap(), Vec::new());
        stream.test_inputs(1).materialise(0..1, &mut rows);
        let test = &source.dataset.test;
        let label = stream.test_labels(1)[0];
        let image = test.labels.iter().position(|&l| l == label).unwrap();
        assert_eq!(rows[pixel], f32::from(test.pixels()[image * width + pixel]) / 255.0 - mean);
    }

    #[test]
    fn more_than_there_is_cannot_be_had() {
        let error = |set: &[&str]| stream(0, set).unwrap_err().to_string();
        assert_eq!(error(&["tasks=5"]), "6 tasks of 2 classes need 12, but `digits` has 10");
        assert_eq!(
            error(&["tasks=0", "tuning_tasks=5"]),
            "5 tasks of 2 classes need 10, but `digits` has 10"
        );
        assert!(error(&["samples=100"]).starts_with("`samples` is 100: 50 of a class, but class "));
        assert!(error(&["tuning=true", "tuning_tasks=0"]).contains("tasks of 2 classes"));
        assert!(stream(0, &["tasks=5"]).unwrap_err().hint().is_some());
    }
}
