//! Split data sets: each task has classes of its own, and its id says which ones to choose from.
//!
//! The classes are shuffled per seed. The first tasks are held apart for tuning, the next ones are learned.

use std::sync::Arc;

use hindsight_engine::Rng;

use super::Benchmark;
use crate::{
    config::ConfigError,
    settings::{Family, Key, Kind, Settings, Value},
    stream::{Heads, Source, Stream, Task, View},
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

/// On CIFAR-100, as in the paper.
pub(super) const CIFAR100: Benchmark = Benchmark {
    name: "split-cifar100",
    summary: "five classes of CIFAR-100 per task (the paper's Split CIFAR)",
    dataset: "cifar100",
    family: Family::Cifar,
    keys: KEYS,
    defaults: &[
        ("tasks", Value::Int(17)),
        // 500 of a class: what the paper's numbers say, against the 250 of its text.
        ("samples", Value::Int(2500)),
        // With a head per task, answers to tasks that never were learned are chance.
        ("evaluate", Value::text("seen")),
    ],
    build,
};

/// On miniImageNet, as in the paper.
pub(super) const MINI_IMAGENET: Benchmark = Benchmark {
    name: "split-miniimagenet",
    summary: "five classes of miniImageNet per task (the paper's Split miniImageNet)",
    dataset: "miniimagenet",
    family: Family::MiniImageNet,
    keys: FOLDER_KEYS,
    ..CIFAR100
};

/// On anybody's images.
pub(super) const FOLDER: Benchmark = Benchmark {
    name: "split-folder",
    summary: "classes per task of your own images: a folder of class folders",
    dataset: "folder",
    defaults: &[
        ("tasks", Value::Int(0)),
        ("samples", Value::Int(0)),
        ("tuning_tasks", Value::Int(0)),
        ("evaluate", Value::text("seen")),
    ],
    ..MINI_IMAGENET
};

/// On the digits that hindsight draws itself.
pub(super) const DIGITS: Benchmark = Benchmark {
    name: "split-digits",
    summary: "two classes of built-in digits per task; needs no download",
    dataset: "digits",
    family: Family::Mnist,
    defaults: &[
        ("classes_per_task", Value::Int(2)),
        ("tuning_tasks", Value::Int(1)),
        ("tasks", Value::Int(4)),
        ("evaluate", Value::text("seen")),
    ],
    ..CIFAR100
};

fn build(source: &Arc<Source>, settings: &Settings, seed: u64) -> Result<Stream, ConfigError> {
    let (mut classes_rng, mut orders) = (Rng::named(seed, "tasks"), Rng::named(seed, "order"));
    let dataset = &source.dataset;
    let per_task = settings.int("classes_per_task");
    let held = settings.int("tuning_tasks");
    let tuning = settings.flag("tuning");
    let tasks = match settings.int("tasks") {
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
    let members = |labels: &[u16]| {
        let mut members = vec![Vec::new(); dataset.classes];
        labels.iter().enumerate().for_each(|(i, &label)| members[usize::from(label)].push(i as u32));
        members
    };
    let (mut train, test) = (members(&dataset.train.labels), members(&dataset.test.labels));

    // All tasks are drawn, those held apart too, so that tuning and evaluation are parts of one stream.
    let (mut stream, mut masks) = (Vec::new(), Vec::new());
    for (task, own) in classes.chunks_exact(per_task).take(all).enumerate() {
        let (mut order, mut part, mut mask) = (Vec::new(), Vec::new(), vec![false; dataset.classes]);
        let samples = settings.int("samples");
        let per_class = samples.div_ceil(per_task);
        for &class in own {
            let images = &mut train[class];
            if per_class > images.len() {
                let (dataset, has) = (dataset.name.clone(), images.len());
                return Err(ConfigError::ClassTooSmall { found: samples, per_class, class, dataset, has });
            }
            orders.shuffle(images);
            order.extend_from_slice(if samples == 0 { images } else { &images[..per_class] });
            part.extend_from_slice(&test[class]);
            mask[class] = true;
        }
        orders.shuffle(&mut order);
        if samples > 0 {
            order.truncate(samples);
        }
        if (task < held) == tuning {
            stream.push(Task { view: View::Part(part), order });
            masks.push(mask);
        }
    }
    Ok(Stream::new(source.clone(), stream, Heads::PerTask(masks.into())))
}
