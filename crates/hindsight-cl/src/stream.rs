//! A stream of tasks: views over one copy of the data.

use std::{
    ops::Range,
    sync::{Arc, OnceLock},
};

use hindsight_data::{
    Dataset,
    custom_stream::{Samples, Scale},
};
use hindsight_nn::{Inputs, LinearMap, Pixels, QuantizedRows, Rng, SparseRows};

use crate::{batch::Batch, heads::Heads, shape::Shape};

/// A data set ready to make streams of, shared by all runs on it.
#[derive(Debug)]
pub struct Source {
    /// The images; none where the data is a custom stream's.
    pub dataset: Dataset,
    own: Option<Samples>,
    labels: Vec<u32>,
    /// The test images as networks see them under a linear map, made when first asked for.
    sparse: OnceLock<SparseRows>,
    /// Their int16 copy, made when first asked for.
    quantized: OnceLock<QuantizedRows>,
    /// The mean training image, made when first asked for.
    mean: OnceLock<Vec<f32>>,
    checksum: OnceLock<String>,
}

impl Source {
    /// Takes over a data set.
    pub fn new(dataset: Dataset) -> Source {
        let labels = dataset.test.labels.iter().map(|&label| u32::from(label)).collect();
        Source {
            dataset,
            own: None,
            labels,
            sparse: OnceLock::new(),
            quantized: OnceLock::new(),
            mean: OnceLock::new(),
            checksum: OnceLock::new(),
        }
    }

    #[cfg(feature = "files")]
    /// Takes over the samples of a custom stream, and a data set with their name, shape and number of
    /// classes.
    pub(crate) fn own(dataset: Dataset, samples: Samples) -> Source {
        Source { own: Some(samples), ..Source::new(dataset) }
    }

    /// The samples of a custom stream, if it is one.
    pub fn samples(&self) -> Option<&Samples> {
        self.own.as_ref()
    }

    fn sparse(&self) -> &SparseRows {
        self.sparse.get_or_init(|| {
            let width = self.dataset.width();
            let mut test = SparseRows::new(width);
            for image in self.dataset.test.pixels.chunks_exact(width) {
                test.push(image.iter().map(|&pixel| intensity(pixel)));
            }
            test
        })
    }

    fn quantized(&self) -> &QuantizedRows {
        self.quantized.get_or_init(|| QuantizedRows::new(self.sparse()))
    }

    /// The mean training image, pixels in [0, 1].
    pub fn mean(&self) -> &[f32] {
        self.mean.get_or_init(|| {
            let mut sums = vec![0_u64; self.dataset.width()];
            for image in self.dataset.train.pixels.chunks_exact(sums.len()) {
                sums.iter_mut().zip(image).for_each(|(sum, &pixel)| *sum += u64::from(pixel));
            }
            let count = self.dataset.train.labels.len().max(1) as f64;
            sums.into_iter().map(|sum| (sum as f64 / count / 255.0) as f32).collect()
        })
    }

    /// [`Dataset::checksum`] or [`Samples::checksum`], computed when first asked for.
    pub fn checksum(&self) -> &str {
        self.checksum
            .get_or_init(|| self.own.as_ref().map_or_else(|| self.dataset.checksum(), Samples::checksum))
    }
}

fn own(source: &Source) -> &Samples {
    source.samples().expect("a scaled view is over the samples of a custom stream")
}

fn intensity(pixel: u8) -> f32 {
    f32::from(pixel) / 255.0
}

/// One task: which training images, in which order, and how they and the test images are seen.
#[derive(Debug, Clone)]
pub struct Task {
    /// What becomes of an image, of the training and of the test set alike.
    pub view: View,
    /// Training images in the order in which they come.
    pub order: Vec<u32>,
}

/// How a task sees the data.
#[derive(Debug, Clone)]
pub enum View {
    /// All test images. Pixels are in [0, 1], under a linear map.
    Map(LinearMap),
    /// These test images. Pixels are in [0, 1], less the mean training image.
    Subset(Vec<u32>),
    /// Rows of a custom stream.
    Scaled(Arc<ScaledTestSet>),
}

/// How the training rows of a custom stream are scaled, and its test rows, scaled already.
#[derive(Debug, PartialEq)]
pub struct ScaledTestSet {
    /// The scale.
    pub scale: Arc<Scale>,
    /// Test inputs, `[n, width]`.
    pub x: Vec<f32>,
    /// Their classes, `[n]`.
    pub labels: Vec<u32>,
}

/// The tasks of one run, in order.
///
/// Training goes by *stages*. Usually a stage is a task; in a joined stream one stage holds them all.
#[derive(Debug, Clone)]
pub struct Stream {
    source: Arc<Source>,
    tasks: Vec<Task>,
    heads: Heads,
    /// The classes of each task's test images, where it has its own.
    labels: Vec<Vec<u32>>,
    /// All tasks' samples, as (task, position in its order), where they are joined.
    joined: Option<Vec<(u32, u32)>>,
    announces_task_ends: bool,
    /// Whether test inputs under a linear map have an int16 copy.
    quantize: bool,
}

/// Number of tasks from which an int16 copy of the test images pays. Making it takes as long as it saves in
/// five evaluations; a run of three tasks makes nine, one of each task after each task.
const QUANTIZE_FROM_TASKS: usize = 3;

impl Stream {
    /// A stream of `tasks` over `source`.
    ///
    /// # Panics
    /// If a task refers to an image that the source does not have.
    pub fn new(source: Arc<Source>, tasks: Vec<Task>, heads: Heads) -> Stream {
        let images = source.dataset.train.labels.len();
        let train = source.own.as_ref().map_or(images, Samples::len) as u32;
        let test = source.labels.len() as u32;
        let mut labels = Vec::new();
        for task in &tasks {
            assert!(task.order.iter().all(|&i| i < train), "an image outside the training set");
            match &task.view {
                View::Map(map) => {
                    assert_eq!(map.width(), source.dataset.width(), "a map of another width than the images");
                    labels.push(Vec::new());
                }
                View::Subset(images) => {
                    assert!(images.iter().all(|&i| i < test), "an image outside the test set");
                    labels.push(images.iter().map(|&i| source.labels[i as usize]).collect());
                }
                View::Scaled(test) => {
                    assert_eq!(
                        test.x.len(),
                        test.labels.len() * own(&source).width(),
                        "rows of another width"
                    );
                    labels.push(Vec::new());
                }
            }
        }
        let quantize = tasks.len() >= QUANTIZE_FROM_TASKS;
        Stream { source, tasks, heads, labels, joined: None, announces_task_ends: true, quantize }
    }

    /// The same stream, but the learner is never told that a task is over.
    pub fn without_task_ends(mut self) -> Stream {
        self.announces_task_ends = false;
        self
    }

    /// Whether the learner is told when a task is over.
    pub fn announces_task_ends(&self) -> bool {
        self.announces_task_ends
    }

    /// The same samples and tests, but all tasks learned at once, in `epochs` passes, each in random order.
    pub fn joined(mut self, seed: u64, epochs: usize) -> Stream {
        let mut pass = Vec::new();
        for (task, Task { order, .. }) in self.tasks.iter().enumerate() {
            pass.extend((0..order.len() as u32).map(|i| (task as u32, i)));
        }
        let mut rng = Rng::named(seed, "join");
        let mut all = Vec::with_capacity(epochs * pass.len());
        for _ in 0..epochs {
            rng.shuffle(&mut pass);
            all.extend_from_slice(&pass);
        }
        self.joined = Some(all);
        self
    }

    /// Number of tasks.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether there are no tasks.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Values in an input.
    pub fn width(&self) -> usize {
        self.source.dataset.width()
    }

    /// The inputs and answers of a learner on this stream.
    pub fn shape(&self) -> Shape {
        Shape {
            input: self.source.dataset.shape,
            classes: self.classes(),
            heads: self.heads.clone(),
            names: self.names().map(<[String]>::to_vec),
            scale: self.scale().cloned().unwrap_or_default(),
        }
    }

    /// How the values of a custom stream are scaled before a learner sees them.
    pub fn scale(&self) -> Option<&Scale> {
        match &self.tasks.first()?.view {
            View::Scaled(test) => Some(&test.scale),
            View::Map(_) | View::Subset(_) => None,
        }
    }

    /// The names of the classes of a custom stream.
    pub fn names(&self) -> Option<&[String]> {
        self.source.samples().map(|samples| samples.classes.as_slice())
    }

    /// Which classes each task may answer with.
    pub fn heads(&self) -> &Heads {
        &self.heads
    }

    /// Training samples of the longest task.
    pub fn samples_per_task(&self) -> usize {
        self.tasks.iter().map(|task| task.order.len()).max().unwrap_or(0)
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.source.dataset.classes
    }

    /// Number of stages.
    pub fn stages(&self) -> usize {
        if self.joined.is_some() { 1 } else { self.len() }
    }

    /// Number of training samples of a stage.
    pub fn samples(&self, stage: usize) -> usize {
        self.joined.as_ref().map_or_else(|| self.tasks[stage].order.len(), Vec::len)
    }

    /// How many tasks have been learned, at least in part, in the stages up to and including `stage`.
    pub fn seen(&self, stage: usize) -> usize {
        if self.joined.is_some() { self.len() } else { stage + 1 }
    }

    /// Replaces what is in `batch` by the samples `range` of a stage.
    pub fn batch(&self, stage: usize, range: Range<usize>, batch: &mut Batch) {
        let train = &self.source.dataset.train;
        let width = self.width();
        let mut image = Vec::with_capacity(width);
        batch.clear();
        for position in range {
            let (task, position) = match &self.joined {
                Some(all) => all[position],
                None => (stage as u32, position as u32),
            };
            let Task { view, order } = &self.tasks[task as usize];
            let i = order[position as usize] as usize;
            match view {
                View::Map(map) => {
                    image.clear();
                    image.extend(train.pixels[i * width..][..width].iter().map(|&pixel| intensity(pixel)));
                    map.apply(&image, &mut batch.x);
                }
                View::Subset(_) => {
                    Pixels { pixels: &train.pixels, mean: self.source.mean() }.push(i, &mut batch.x);
                }
                View::Scaled(test) => {
                    own(&self.source).read(i, &mut image);
                    test.scale.push(&image, &mut batch.x);
                }
            }
            batch.labels.push(match &self.source.own {
                Some(samples) => samples.label(i),
                None => u32::from(train.labels[i]),
            });
            batch.tasks.push(task);
        }
    }

    /// The map under which `task` sees images, if it does.
    pub fn map(&self, task: usize) -> Option<&LinearMap> {
        match &self.tasks[task].view {
            View::Map(map) => Some(map),
            View::Subset(_) | View::Scaled(_) => None,
        }
    }

    /// The test inputs of `task`.
    pub fn test_inputs(&self, task: usize) -> Inputs<'_> {
        match &self.tasks[task].view {
            View::Map(map) => {
                let inputs = Inputs::sparse(self.source.sparse());
                let inputs =
                    if self.quantize { inputs.with_quantized(self.source.quantized()) } else { inputs };
                inputs.through(map)
            }
            View::Subset(images) => {
                let test = &self.source.dataset.test;
                Inputs::pixels(Pixels { pixels: &test.pixels, mean: self.source.mean() }, images)
            }
            View::Scaled(test) => Inputs::dense(&test.x, self.width()),
        }
    }

    /// The classes of the test inputs of `task`.
    pub fn test_labels(&self, task: usize) -> &[u32] {
        match &self.tasks[task].view {
            View::Map(_) => &self.source.labels,
            View::Subset(_) => &self.labels[task],
            View::Scaled(test) => &test.labels,
        }
    }
}
