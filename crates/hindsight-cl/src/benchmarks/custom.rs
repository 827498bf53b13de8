//! From samples and a seed to a stream: which rows are for test, how all are scaled, in which order they
//! come.

use std::{collections::BTreeSet, sync::Arc};

use hindsight_data::custom_stream::Scale;
use hindsight_nn::Rng;

use crate::{
    settings::{ConfigError, Scenario, Settings, SharedSettings, check_network},
    stream::{ScaledTestSet, Source, Stream, Task, View},
};

/// The stream of a seed.
pub(crate) fn build(source: &Arc<Source>, settings: &Settings, seed: u64) -> Result<Stream, ConfigError> {
    let (data, custom) = (&source.dataset, source.custom_tasks());
    let custom = custom.expect("such a benchmark is made together with its source");
    let settings = SharedSettings::new(settings);
    if custom.heads.is_some() && settings.scenario == Scenario::Domain {
        let expected = "`task` or `class`, as `heads` in the stream file gives each task its own".to_owned();
        let (key, found) = ("scenario".to_owned(), "domain".to_owned());
        return Err(ConfigError::Value { key, found, expected });
    }
    check_network(&settings, data.shape, data.classes)?;
    let all = custom.tasks.len();
    // As in the split benchmarks, the first tasks are those held apart for tuning.
    let held = settings.tuning_tasks;
    let tasks = match settings.tasks {
        0 => all.saturating_sub(held),
        tasks => tasks,
    };
    let learned = if settings.tuning { 0..held } else { held..held + tasks };
    if held + tasks > all || learned.is_empty() {
        let (key, found) = match settings.tuning || held > all {
            true => ("tuning_tasks", held),
            false => ("tasks", tasks),
        };
        let expected = format!("1 to {all} tasks with those for tuning, as `{}` has", data.name);
        return Err(ConfigError::Value { key: key.to_owned(), found: found.to_string(), expected });
    }

    let (mut held_out, mut orders) = (Rng::named(seed, "hold out"), Rng::named(seed, "order"));
    // All tasks are split, so that tuning and evaluation are parts of one stream.
    let splits: Vec<_> = (0..all).map(|task| custom.split(data, task, &mut held_out)).collect();
    let rows = splits[learned.clone()].iter().flat_map(|(train, _)| train);
    let scale = match custom.standardise {
        true => Arc::new(Scale::of(&data.train, data.width(), rows)),
        false => Arc::default(),
    };
    let mut tasks = Vec::new();
    for (part, (mut order, test)) in custom.tasks.iter().zip(splits).skip(learned.start).take(learned.len()) {
        if custom.shuffled {
            orders.shuffle(&mut order);
        }
        let (found, pool) = (settings.samples, order.len());
        if found > pool {
            let dataset = format!("{}, task {}", data.name, part.name);
            return Err(ConfigError::PoolTooSmall { found, dataset, pool });
        }
        if found > 0 {
            order.truncate(found);
        }
        let (mut x, mut row) = (Vec::with_capacity(test.len() * data.width()), Vec::new());
        for &i in &test {
            data.train.read(i as usize, data.width(), &mut row);
            scale.push(&row, &mut x);
        }
        let labels = test.iter().map(|&i| data.train.labels[i as usize]).collect();
        let rows = part.train.iter().chain(&part.test);
        let classes: BTreeSet<u32> = rows.map(|&row| data.train.labels[row as usize]).collect();
        tasks.push(Task {
            name: part.name.clone(),
            classes: classes.into_iter().map(|class| (class, class)).collect(),
            view: View::Scaled(Arc::new(ScaledTestSet { scale: scale.clone(), x, labels })),
            order,
        });
    }
    let stream = Stream::new(source.clone(), tasks, settings.scenario, data.classes);
    Ok(if custom.ends { stream } else { stream.without_task_ends() })
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;
    use crate::{
        Batch,
        config::{Experiment, Override},
        custom_stream,
        methods::METHODS,
        run,
    };

    fn stream(folder: &Path, toml: &str, set: &[&str]) -> Stream {
        let file = custom_stream::StreamFile::parse(toml.as_bytes(), &folder.join("s.toml")).unwrap();
        let set = ["benchmark=s"].iter().chain(set).map(|text| Override::parse(text).unwrap());
        let experiment =
            Experiment::resolve(&set.collect::<Vec<_>>(), &[custom_stream::benchmark(&file)], METHODS)
                .unwrap();
        run::stream(&experiment.first_run(), &custom_stream::load(&file).unwrap()).unwrap()
    }

    const TOML: &str = "format = \"csv\"\nlabel = \"y\"\norder = \"file\"\n\
                        [[files]]\ntrain = \"a.csv\"\ntest = \"t.csv\"\n[[files]]\ntrain = \"b.csv\"\ntest = \"t.csv\"\n";

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("a.csv", "x,same,y\n1,0.1,p\n2,0.1,q\n"),
            ("b.csv", "x,same,y\n3,0.1,q\n6,0.1,p\n"),
            ("t.csv", "y,same,x\nq,5,1\np,0.1,30\n"),
        ] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    #[test]
    fn features_are_standardised_by_the_training_rows_of_all_tasks() {
        let folder = folder();
        let stream = stream(folder.path(), TOML, &[]);
        let mut batch = Batch::default();
        let mut x = Vec::new();
        for task in 0..2 {
            stream.batch(task, 0..2, &mut batch);
            assert_eq!(batch.tasks, [task as u32; 2]);
            x.extend(batch.x.iter().copied());
        }
        // 1, 2, 3 and 6 have the mean 3 and the variance 3.5; what never changes becomes zero, also in the
        // test.
        let z = |x: f64| ((x - 3.0) / 3.5_f64.sqrt()) as f32;
        assert_eq!(x, [z(1.0), 0.0, z(2.0), 0.0, z(3.0), 0.0, z(6.0), 0.0]);
        let mut test = Vec::new();
        stream.test_inputs(1).materialise(0..2, &mut test);
        assert_eq!(test, [z(1.0), 0.0, z(30.0), 0.0]);
        assert_eq!(stream.test_labels(1), [1, 0]);
    }

    #[test]
    fn features_are_left_as_they_are_where_asked_for() {
        let folder = folder();
        let stream = stream(folder.path(), &format!("standardise = false\n{TOML}"), &[]);
        let mut batch = Batch::default();
        stream.batch(1, 0..2, &mut batch);
        assert_eq!((batch.x, batch.labels), (vec![3.0, 0.1, 6.0, 0.1], vec![1, 0]));
    }

    #[test]
    fn tuning_tasks_are_the_first_and_the_others_follow() {
        let folder = folder();
        let raw = format!("standardise = false\nheads = \"per-task\"\n{TOML}");
        let first = |set: &[&str]| {
            let stream = stream(folder.path(), &raw, set);
            let mut batch = Batch::default();
            stream.batch(0, 0..1, &mut batch);
            let head: Vec<bool> = (0..4).map(|class| stream.heads().allows(0, class)).collect();
            (stream.len(), batch.x[0], head)
        };
        assert_eq!(first(&[]), (2, 1.0, vec![true, true, false, false]));
        assert_eq!(first(&["tuning_tasks=1"]), (1, 3.0, vec![false, false, true, true]));
        assert_eq!(first(&["tuning_tasks=1", "tuning=true"]), (1, 1.0, vec![true, true, false, false]));
        assert_eq!(first(&["tasks=1"]).0, 1);
    }
}
