//! A picture of what a learner holds in the end: anchors, remembered and real samples, with their features.
//!
//! It is for figures alone and stands in a file of its own beside the records, one line of JSON per run.

use std::collections::{BTreeMap, BTreeSet};

use base64::{Engine, prelude::BASE64_STANDARD};
use hindsight_nn::{Inputs, Layer, LinearMap, Net};
use serde::{Deserialize, Serialize};

use crate::{Batch, Learner, Stream, config::RunConfig, record::VERSION, settings::Value};

/// The file of a folder that snapshots are in.
pub const SNAPSHOTS: &str = "snapshots.jsonl";

/// Anchors of at most so many tasks are kept, spread evenly.
const TASKS: usize = 20;
/// Real samples are kept of at most so many tasks: the first, the last and what lies between.
const SAMPLED_TASKS: usize = 3;
/// Real samples of a class and task, at most, and what all together may take, in bytes.
const SAMPLES: usize = 50;
const BYTES: usize = 2_000_000;
/// No side of an image is longer, so that its size can be computed, and drawn.
const SIDE: usize = 4096;

/// What was held.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Version of the format, the same as that of records.
    pub version: u32,
    /// The method.
    pub method: String,
    /// The benchmark.
    pub benchmark: String,
    /// The seed.
    pub seed: u64,
    /// All settings.
    pub config: BTreeMap<String, Value>,
    /// Channels, height, width of an image.
    pub shape: [usize; 3],
    /// One per class and task.
    pub anchors: Pictures,
    /// The first remembered sample of each class and task.
    pub memory: Pictures,
    /// Test samples of a few tasks.
    pub samples: Pictures,
}

/// Images with their features.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Pictures {
    /// Classes.
    pub labels: Vec<u32>,
    /// Tasks.
    pub tasks: Vec<u32>,
    /// As the network sees them, but with pixels back in place where tasks do nothing but move them.
    pub pixels: EightBitRows,
    /// phi, at the final parameters.
    pub features: EightBitRows,
}

/// EightBitRows of numbers in 8 bits each, between the row's own minimum and maximum.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EightBitRows {
    /// Minimum and maximum of each row.
    pub range: Vec<[f32; 2]>,
    /// One byte per number, row by row, in base 64.
    pub bytes: String,
}

impl Snapshot {
    /// The snapshot of a learner that has anchors, at the end of its stream.
    pub fn take(
        config: &RunConfig,
        net: &dyn Net,
        stream: &Stream,
        learner: &dyn Learner,
    ) -> Option<Snapshot> {
        let retained_samples = learner.retained_samples();
        let anchors = retained_samples.anchors.filter(|anchors| !anchors.is_empty())?;
        let kept = spread(stream.len(), TASKS);
        let pictures = |batch: &Batch| Pictures::take(batch, net, learner.theta(), stream);
        Some(Snapshot {
            version: VERSION,
            method: config.method.name.to_owned(),
            benchmark: config.benchmark.name.to_string(),
            seed: config.seed,
            config: config.effective(),
            shape: stream.shape().input,
            anchors: pictures(&firsts(anchors, &kept)),
            memory: pictures(
                &retained_samples.memory.map(|memory| firsts(&memory, &kept)).unwrap_or_default(),
            ),
            samples: pictures(&samples(stream)),
        })
    }

    /// Whether what was read hangs together and can be drawn, so that no figure has to ask again.
    pub(crate) fn check(&self) -> Result<(), String> {
        if !self.shape.iter().all(|side| (1..=SIDE).contains(side)) {
            return Err(format!("`shape` is {:?}, expected sides from 1 to {SIDE}", self.shape));
        }
        let width: usize = self.shape.iter().product();
        for (name, pictures) in
            [("anchors", &self.anchors), ("memory", &self.memory), ("samples", &self.samples)]
        {
            let count = pictures.labels.len();
            let sizes = [count, pictures.pixels.range.len(), pictures.features.range.len()];
            let images = pictures.pixels.decode();
            let fits = sizes.iter().all(|&size| size == pictures.tasks.len())
                && images.is_some_and(|images| images.iter().all(|image| image.len() == width))
                && pictures.features.decode().is_some();
            if !fits {
                return Err(format!("`{name}` does not hold {count} images of {width} values"));
            }
            let tasks: BTreeSet<u32> = pictures.tasks.iter().copied().collect();
            if tasks.len() > TASKS {
                return Err(format!("`{name}` is of {} tasks, expected at most {TASKS}", tasks.len()));
            }
            // Tasks are shown counted from 1.
            if tasks.contains(&u32::MAX) {
                return Err(format!("`{name}` is of task {}, expected less", u32::MAX));
            }
        }
        Ok(())
    }
}

impl Pictures {
    fn take(batch: &Batch, net: &dyn Net, theta: &[f32], stream: &Stream) -> Pictures {
        if batch.is_empty() {
            return Pictures::default();
        }
        let features = net.infer(theta, &Inputs::dense(&batch.x, batch.width()), Layer::Features);
        let mut upright = Batch::default();
        // Put back in all tasks or in none: a quarter turn among other angles must not stand out.
        let places: Option<Vec<Vec<usize>>> =
            (0..stream.len()).map(|task| stream.map(task).and_then(moved)).collect();
        for (x, label, task) in batch {
            let mut image = x.to_vec();
            if let Some(places) = &places {
                places[task as usize].iter().zip(x).for_each(|(&place, &value)| image[place] = value);
            }
            upright.push(&image, label, task);
        }
        Pictures {
            pixels: EightBitRows::encode(&upright.x, upright.width()),
            features: EightBitRows::encode(&features, net.features()),
            labels: upright.labels,
            tasks: upright.tasks,
        }
    }
}

impl EightBitRows {
    fn encode(values: &[f32], width: usize) -> EightBitRows {
        let (mut range, mut bytes) = (Vec::new(), Vec::with_capacity(values.len()));
        for row in values.chunks_exact(width) {
            let low = row.iter().copied().fold(f32::INFINITY, f32::min);
            let high = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let step = if high > low { 255.0 / (high - low) } else { 0.0 };
            bytes.extend(row.iter().map(|&value| ((value - low) * step).round() as u8));
            range.push([low, high]);
        }
        EightBitRows { range, bytes: BASE64_STANDARD.encode(bytes) }
    }

    /// The rows, all of one length; none if the text is damaged.
    pub fn decode(&self) -> Option<Vec<Vec<f32>>> {
        let bytes = BASE64_STANDARD.decode(&self.bytes).ok()?;
        if self.range.is_empty() {
            return bytes.is_empty().then(Vec::new);
        }
        let width = bytes.len() / self.range.len();
        if width == 0 || width * self.range.len() != bytes.len() {
            return None;
        }
        let row = |(bytes, [low, high]): (&[u8], &[f32; 2])| {
            bytes.iter().map(|&byte| low + (high - low) * f32::from(byte) / 255.0).collect()
        };
        Some(bytes.chunks_exact(width).zip(&self.range).map(row).collect())
    }
}

/// At most `most` of `0..count`, spread evenly, ends included.
fn spread(count: usize, most: usize) -> Vec<usize> {
    if count <= most {
        return (0..count).collect();
    }
    (0..most).map(|i| i * (count - 1) / (most - 1)).collect()
}

/// The first sample of each class of `tasks`.
fn firsts(batch: &Batch, tasks: &[usize]) -> Batch {
    let mut found = Batch::default();
    let mut seen = BTreeSet::new();
    for (x, label, task) in batch {
        if tasks.contains(&(task as usize)) && seen.insert((task, label)) {
            found.push(x, label, task);
        }
    }
    found
}

/// Test samples of a few tasks, as many of each class.
fn samples(stream: &Stream) -> Batch {
    let tasks = spread(stream.len(), SAMPLED_TASKS);
    let all = BYTES / (stream.width() * stream.classes() * tasks.len()).max(1);
    let each = all.clamp(SAMPLES / 5, SAMPLES);
    let (mut batch, mut image) = (Batch::default(), Vec::new());
    for task in tasks {
        let inputs = stream.test_inputs(task);
        let mut counts = BTreeMap::<u32, usize>::new();
        for (i, &label) in stream.test_labels(task).iter().enumerate() {
            let count = counts.entry(label).or_default();
            if *count < each {
                *count += 1;
                inputs.materialise(i..i + 1, &mut image);
                batch.push(&image, label, task as u32);
            }
        }
    }
    batch
}

/// Where each value of an image comes from, if `map` does nothing but move them.
fn moved(map: &LinearMap) -> Option<Vec<usize>> {
    // The places themselves as an image: whole numbers this small are exact in `f32`. From 1, since any
    // weight leaves a 0 in place.
    let (places, mut seen) = ((1..=map.width()).map(|i| i as f32).collect::<Vec<_>>(), Vec::new());
    map.apply(&places, &mut seen);
    let mut sorted = seen.clone();
    sorted.sort_unstable_by(f32::total_cmp);
    (sorted == places).then(|| seen.iter().map(|&place| place as usize - 1).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_within_half_a_step() {
        let values = [0.0, 0.25, 1.0, -3.0, 7.0, 2.0, 5.0, 5.0, 5.0];
        let back = EightBitRows::encode(&values, 3).decode().unwrap().concat();
        for (value, back) in values.iter().zip(back) {
            assert!((value - back).abs() <= 10.0 / 255.0 / 2.0 + 1e-6, "{value} became {back}");
        }
        assert_eq!(EightBitRows::default().decode(), Some(vec![]));
        assert_eq!(EightBitRows { range: vec![[0.0, 1.0]; 2], bytes: "AAAA".into() }.decode(), None);
    }

    #[test]
    fn a_permutation_is_told_from_other_maps() {
        assert_eq!(moved(&LinearMap::permutation(&[2, 0, 1])), Some(vec![2, 0, 1]));
        assert_eq!(moved(&LinearMap::new([vec![(0, 0.5), (1, 0.5)], vec![(1, 1.0)]])), None);
        assert_eq!(moved(&LinearMap::new([vec![(0, 2.0)], vec![(1, 1.0)]])), None);
    }

    /// A snapshot with one anchor for each of `tasks`, all images zero.
    fn snapshot(shape: [usize; 3], tasks: &[u32]) -> Snapshot {
        let pictures = |tasks: &[u32]| Pictures {
            labels: vec![0; tasks.len()],
            tasks: tasks.to_vec(),
            pixels: EightBitRows::encode(&vec![0.0; 2 * tasks.len()], 2),
            features: EightBitRows::encode(&vec![0.0; tasks.len()], 1),
        };
        let (method, benchmark) = ("hal".to_owned(), "permuted-digits".to_owned());
        let [memory, samples] = [pictures(&[]), pictures(&[])];
        let config = BTreeMap::new();
        let anchors = pictures(tasks);
        Snapshot { version: VERSION, method, benchmark, seed: 0, config, shape, anchors, memory, samples }
    }

    #[test]
    fn what_cannot_be_drawn_is_refused() {
        let many: Vec<u32> = (0..=TASKS as u32).collect();
        assert_eq!(snapshot([1, 2, 1], &many[1..]).check(), Ok(()));
        assert_eq!(snapshot([1, 1, 2], &[u32::MAX - 1]).check(), Ok(()));
        let huge = usize::MAX;
        for shape in [[0, 1, 2], [1, 4097, 2], [huge, huge, huge], [1 << 32, 1 << 32, 1], [2, 1, 0]] {
            let reason = snapshot(shape, &[0]).check().unwrap_err();
            assert_eq!(reason, format!("`shape` is {shape:?}, expected sides from 1 to 4096"));
        }
        for (snapshot, expected) in [
            (snapshot([1, 3, 1], &[0]), "`anchors` does not hold 1 images of 3 values"),
            (snapshot([1, 2, 1], &many), "`anchors` is of 21 tasks, expected at most 20"),
            (snapshot([1, 2, 1], &[0, u32::MAX]), "`anchors` is of task 4294967295, expected less"),
        ] {
            assert_eq!(snapshot.check().unwrap_err(), expected);
        }
    }

    #[test]
    fn tasks_are_spread_evenly() {
        assert_eq!(spread(2, 3), [0, 1]);
        assert_eq!(spread(20, 3), [0, 9, 19]);
    }
}
