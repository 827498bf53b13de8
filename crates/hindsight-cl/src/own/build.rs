//! From samples and a seed to a stream: which rows are for test, how all are scaled, in which order they come.

use std::{collections::BTreeMap, sync::Arc};

use hindsight_nn::Rng;
use serde::{Deserialize, Serialize};

use super::Samples;
use crate::{
    config::{ConfigError, check_network},
    settings::Settings,
    stream::{Heads, Rows, Source, Stream, Task, View},
};

/// The stream of a seed.
pub(super) fn build(source: &Arc<Source>, settings: &Settings, seed: u64) -> Result<Stream, ConfigError> {
    let samples = source.samples().expect("such a benchmark is made together with its source");
    check_network(settings, samples.shape, samples.classes.len())?;
    let all = samples.tasks.len();
    // As in the split benchmarks, the first tasks are those held apart for tuning.
    let held = settings.int("tuning_tasks");
    let tasks = match settings.int("tasks") {
        0 => all.saturating_sub(held),
        tasks => tasks,
    };
    let learned = if settings.flag("tuning") { 0..held } else { held..held + tasks };
    if held + tasks > all || learned.is_empty() {
        let (key, found) = match settings.flag("tuning") || held > all {
            true => ("tuning_tasks", held),
            false => ("tasks", tasks),
        };
        let expected = format!("1 to {all} tasks with those for tuning, as `{}` has", source.dataset.name);
        return Err(ConfigError::Value { key: key.to_owned(), found: found.to_string(), expected });
    }

    let (mut held_out, mut orders) = (Rng::named(seed, "hold out"), Rng::named(seed, "order"));
    // All tasks are split, so that tuning and evaluation are parts of one stream.
    let splits: Vec<_> = (0..all).map(|task| samples.split(task, &mut held_out)).collect();
    let rows = splits[learned.clone()].iter().flat_map(|(train, _)| train);
    let scale = Arc::new(if samples.standardise { Scale::of(samples, rows) } else { Scale::default() });
    let mut tasks = Vec::new();
    for (part, (mut order, test)) in samples.tasks.iter().zip(splits).skip(learned.start).take(learned.len())
    {
        if samples.shuffled {
            orders.shuffle(&mut order);
        }
        let (found, pool) = (settings.int("samples"), order.len());
        if found > pool {
            let dataset = format!("{}, task {}", source.dataset.name, part.name);
            return Err(ConfigError::PoolTooSmall { found, dataset, pool });
        }
        if found > 0 {
            order.truncate(found);
        }
        let (mut x, mut row) = (Vec::with_capacity(test.len() * samples.width()), Vec::new());
        for &i in &test {
            samples.read(i as usize, &mut row);
            scale.push(&row, &mut x);
        }
        let labels = test.iter().map(|&i| samples.label(i as usize)).collect();
        tasks.push(Task { view: View::Rows(Arc::new(Rows { scale: scale.clone(), x, labels })), order });
    }
    let heads = match &samples.heads {
        None => Heads::Single,
        Some(masks) => Heads::PerTask(masks[learned].into()),
    };
    let stream = Stream::new(source.clone(), tasks, heads);
    Ok(if samples.ends { stream } else { stream.without_ends() })
}

/// Some of `rows` for training, the others for test.
///
/// The last ones, or a share of each label at random, of which one at least stays for training.
pub(super) fn hold_out(
    rows: &[u32],
    labels: &[u32],
    share: f64,
    last: bool,
    rng: &mut Rng,
) -> (Vec<u32>, Vec<u32>) {
    let count = |rows: usize| ((share * rows as f64).round() as usize).max(1).min(rows.saturating_sub(1));
    if last {
        let (train, test) = rows.split_at(rows.len() - count(rows.len()));
        return (train.to_vec(), test.to_vec());
    }
    let mut by_label: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    rows.iter().for_each(|&row| by_label.entry(labels[row as usize]).or_default().push(row));
    let (mut train, mut test) = (Vec::new(), Vec::new());
    for mut rows in by_label.into_values() {
        let count = count(rows.len());
        rng.shuffle_front(&mut rows, count);
        test.extend_from_slice(&rows[..count]);
        train.extend_from_slice(&rows[count..]);
    }
    // As in the file: only its order can be wanted.
    train.sort_unstable();
    test.sort_unstable();
    (train, test)
}

/// What is taken from each feature, and what it is then multiplied with; nothing, if there is none of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Scale(Vec<(f64, f64)>);

impl Scale {
    /// The mean of each feature over `rows`, and the inverse of its standard deviation.
    ///
    /// A feature that never changes tells nothing, and no network learns what to make of it when it does, so it
    /// is multiplied with zero.
    fn of<'r>(samples: &Samples, rows: impl Iterator<Item = &'r u32> + Clone) -> Scale {
        let (mut row, width) = (Vec::new(), samples.width());
        let mut ranges = vec![(f32::INFINITY, f32::NEG_INFINITY); width];
        let (mut sums, mut count) = (vec![0.0; width], 0.0);
        for &i in rows.clone() {
            samples.read(i as usize, &mut row);
            count += 1.0;
            for ((x, sum), (low, high)) in row.iter().zip(&mut sums).zip(&mut ranges) {
                *sum += f64::from(*x);
                (*low, *high) = (low.min(*x), high.max(*x));
            }
        }
        let means: Vec<f64> = sums.into_iter().map(|sum| sum / count).collect();
        let mut squares = vec![0.0; width];
        for &i in rows {
            samples.read(i as usize, &mut row);
            for ((x, mean), square) in row.iter().zip(&means).zip(&mut squares) {
                *square += (f64::from(*x) - mean).powi(2);
            }
        }
        let inverse = |(square, (low, high)): (f64, &(f32, f32))| {
            if low < high { 1.0 / (square / count).sqrt() } else { 0.0 }
        };
        Scale(means.into_iter().zip(squares.into_iter().zip(&ranges).map(inverse)).collect())
    }

    /// Whether it scales rows of `width` features, and leaves them finite.
    pub(crate) fn fits(&self, width: usize) -> bool {
        let finite = |(mean, inverse): &(f64, f64)| mean.is_finite() && inverse.is_finite();
        self.0.is_empty() || (self.0.len() == width && self.0.iter().all(finite))
    }

    /// Whether it leaves rows as they are.
    pub(crate) fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends rows, scaled.
    pub(crate) fn push(&self, rows: &[f32], to: &mut Vec<f32>) {
        if self.is_none() {
            return to.extend_from_slice(rows);
        }
        for row in rows.chunks_exact(self.0.len()) {
            // A value far from all that were seen in training stays a number.
            let scaled = |(&x, (mean, inverse)): (&f32, &(f64, f64))| {
                ((f64::from(x) - mean) * inverse).clamp(f32::MIN.into(), f32::MAX.into()) as f32
            };
            to.extend(row.iter().zip(&self.0).map(scaled));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;
    use crate::{
        Batch,
        config::{Experiment, Override},
        methods::METHODS,
        own::StreamFile,
        run,
    };

    #[test]
    fn of_each_label_a_share_is_held_out_and_one_sample_stays() {
        // Ten of label 0, four of label 1, one of label 2.
        let labels: Vec<u32> = [vec![0; 10], vec![1; 4], vec![2]].concat();
        let rows: Vec<u32> = (0..15).collect();
        let split = |seed| hold_out(&rows, &labels, 0.3, false, &mut Rng::named(seed, "hold out"));
        let (train, test) = split(0);
        let count = |rows: &[u32], label| rows.iter().filter(|&&row| labels[row as usize] == label).count();
        assert_eq!(
            [0, 1, 2].map(|label| (count(&train, label), count(&test, label))),
            [(7, 3), (3, 1), (1, 0)]
        );
        let mut all = [train.clone(), test.clone()].concat();
        all.sort_unstable();
        assert_eq!(all, rows);
        assert!(train.is_sorted() && test.is_sorted());
        assert_eq!(split(0), (train, test));
        assert_ne!(split(0), split(1));
        // Half of two would leave none of a pair to learn from if it were rounded up.
        let pair = hold_out(&[0, 1], &labels, 0.9, false, &mut Rng::named(0, "hold out"));
        assert_eq!((pair.0.len(), pair.1.len()), (1, 1));
    }

    #[test]
    fn the_last_rows_are_held_out_where_asked_for() {
        let split =
            |rows: &[u32], share| hold_out(rows, &[0; 9], share, true, &mut Rng::named(0, "hold out"));
        assert_eq!(split(&[1, 3, 5, 7, 8], 0.4), (vec![1, 3, 5], vec![7, 8]));
        assert_eq!(split(&[1, 3], 0.01), (vec![1], vec![3]), "at least one");
        assert_eq!(split(&[1, 3], 0.99), (vec![1], vec![3]), "but not all");
        assert_eq!(split(&[1], 0.5), (vec![1], vec![]));
    }

    fn stream(folder: &Path, toml: &str, set: &[&str]) -> Stream {
        let file = StreamFile::parse(toml.as_bytes(), &folder.join("s.toml")).unwrap();
        let set = ["benchmark=s"].iter().chain(set).map(|text| Override::parse(text).unwrap());
        let experiment = Experiment::resolve(&set.collect::<Vec<_>>(), file.benchmarks(), METHODS).unwrap();
        run::stream(&experiment.runs[0], &file.load().unwrap()).unwrap()
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
        // 1, 2, 3 and 6 have the mean 3 and the variance 3.5; what never changes becomes zero, also in the test.
        let z = |x: f64| ((x - 3.0) / 3.5_f64.sqrt()) as f32;
        assert_eq!(x, [z(1.0), 0.0, z(2.0), 0.0, z(3.0), 0.0, z(6.0), 0.0]);
        let mut test = Vec::new();
        stream.test_inputs(1).materialise(0..2, &mut test);
        assert_eq!(test, [z(1.0), 0.0, z(30.0), 0.0]);
        assert_eq!(stream.test_labels(1), [1, 0]);
    }

    #[test]
    fn values_far_from_all_in_training_stay_finite() {
        let scale = Scale(vec![(1.0, 1e30), (0.0, 0.0)]);
        let mut scaled = Vec::new();
        scale.push(&[3e20, 7.0, -3e20, f32::MAX], &mut scaled);
        assert_eq!(scaled, [f32::MAX, 0.0, f32::MIN, 0.0]);
        assert!(scale.fits(2) && !scale.fits(3) && Scale::default().fits(3));
        assert!(!Scale(vec![(f64::NAN, 1.0)]).fits(1) && !Scale(vec![(0.0, f64::INFINITY)]).fits(1));
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
