//! A stream of tasks: views over one copy of the data.

use std::{
    ops::Range,
    sync::{Arc, OnceLock},
};

use hindsight_engine::{Inputs, LinearMap, Rng, SparseRows};

use crate::{Batch, data::Dataset};

/// A data set ready to make streams of, shared by all runs on it.
#[derive(Debug)]
pub struct Source {
    /// The images.
    pub dataset: Dataset,
    /// The test images as the networks see them, pixels in [0, 1].
    test: SparseRows,
    labels: Vec<u32>,
    checksum: OnceLock<String>,
}

impl Source {
    /// Takes over a data set.
    pub fn new(dataset: Dataset) -> Source {
        let width = dataset.width();
        let mut test = SparseRows::new(width);
        for image in dataset.test.pixels.chunks_exact(width) {
            test.push(image.iter().map(|&pixel| intensity(pixel)));
        }
        let labels = dataset.test.labels.iter().map(|&label| u32::from(label)).collect();
        Source { dataset, test, labels, checksum: OnceLock::new() }
    }

    /// [`Dataset::checksum`], computed when first asked for.
    pub fn checksum(&self) -> &str {
        self.checksum.get_or_init(|| self.dataset.checksum())
    }
}

fn intensity(pixel: u8) -> f32 {
    f32::from(pixel) / 255.0
}

/// One task: which training images, in which order, seen through which map.
#[derive(Debug, Clone)]
pub struct Task {
    /// What becomes of an image, of the training and of the test set alike.
    pub map: LinearMap,
    /// Training images in the order in which they come.
    pub order: Vec<u32>,
}

/// The tasks of one run, in order.
///
/// Training goes by *stages*. Usually a stage is a task; in a joined stream one stage holds them all.
#[derive(Debug, Clone)]
pub struct Stream {
    source: Arc<Source>,
    tasks: Vec<Task>,
    /// All tasks' samples, as (task, position in its order), where they are joined.
    joined: Option<Vec<(u32, u32)>>,
}

impl Stream {
    /// A stream of `tasks` over `source`.
    ///
    /// # Panics
    /// If a task refers to an image that the source does not have.
    pub fn new(source: Arc<Source>, tasks: Vec<Task>) -> Stream {
        let images = source.dataset.train.labels.len() as u32;
        for task in &tasks {
            assert!(task.order.iter().all(|&i| i < images), "an image outside the training set");
            assert_eq!(task.map.width(), source.dataset.width(), "a map of another width than the images");
        }
        Stream { source, tasks, joined: None }
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

    /// Channels, height, width of an image.
    pub fn shape(&self) -> [usize; 3] {
        self.source.dataset.shape
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
            let Task { map, order } = &self.tasks[task as usize];
            let i = order[position as usize] as usize;
            image.clear();
            image.extend(train.pixels[i * width..][..width].iter().map(|&pixel| intensity(pixel)));
            map.apply(&image, &mut batch.x);
            batch.labels.push(u32::from(train.labels[i]));
            batch.tasks.push(task);
        }
    }

    /// What `task` makes of an image.
    pub fn map(&self, task: usize) -> &LinearMap {
        &self.tasks[task].map
    }

    /// The test inputs of `task`.
    pub fn test_inputs(&self, task: usize) -> Inputs<'_> {
        Inputs::sparse(&self.source.test).through(&self.tasks[task].map)
    }

    /// The classes of the test inputs of `task`.
    pub fn test_labels(&self, _task: usize) -> &[u32] {
        &self.source.labels
    }
}
