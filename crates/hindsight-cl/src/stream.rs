//! A stream of tasks: views over one copy of the data.

use std::{
    collections::BTreeSet,
    ops::Range,
    sync::{Arc, OnceLock},
};

use hindsight_data::{
    Dataset,
    custom_stream::{CustomTasks, Scale},
};
use hindsight_nn::{Inputs, LinearMap, Pixels, QuantizedRows, Rng, SparseRows};

use crate::{batch::Batch, heads::Heads, settings::Scenario, shape::Shape};

/// A data set ready to make streams of, shared by all runs on it.
#[derive(Debug)]
pub struct Source {
    /// The samples.
    pub dataset: Dataset,
    custom: Option<CustomTasks>,
    /// The test images as networks see them under a linear map, made when first asked for.
    sparse: OnceLock<SparseRows>,
    /// Their int16 copy, made when first asked for.
    quantized: OnceLock<QuantizedRows>,
    /// The mean training image, made when first asked for.
    mean: OnceLock<Vec<f32>>,
    /// As many zeros.
    black: OnceLock<Vec<f32>>,
    checksum: OnceLock<String>,
}

impl Source {
    /// Takes over a data set.
    pub fn new(dataset: Dataset) -> Source {
        Source {
            dataset,
            custom: None,
            sparse: OnceLock::new(),
            quantized: OnceLock::new(),
            mean: OnceLock::new(),
            black: OnceLock::new(),
            checksum: OnceLock::new(),
        }
    }

    #[cfg(feature = "files")]
    /// Takes over the samples of a custom stream and its tasks.
    pub(crate) fn custom(dataset: Dataset, tasks: CustomTasks) -> Source {
        Source { custom: Some(tasks), ..Source::new(dataset) }
    }

    /// The tasks of a custom stream, if it is one.
    pub fn custom_tasks(&self) -> Option<&CustomTasks> {
        self.custom.as_ref()
    }

    fn sparse(&self) -> &SparseRows {
        self.sparse.get_or_init(|| {
            let width = self.dataset.width();
            let mut test = SparseRows::new(width);
            for image in self.dataset.test.pixels().chunks_exact(width) {
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
            for image in self.dataset.train.pixels().chunks_exact(sums.len()) {
                sums.iter_mut().zip(image).for_each(|(sum, &pixel)| *sum += u64::from(pixel));
            }
            let count = self.dataset.train.len().max(1) as f64;
            sums.into_iter().map(|sum| (sum as f64 / count / 255.0) as f32).collect()
        })
    }

    /// What is subtracted from an image: the mean training image, or nothing.
    fn zero(&self, centred: bool) -> &[f32] {
        if centred { self.mean() } else { self.black.get_or_init(|| vec![0.0; self.dataset.width()]) }
    }

    /// [`Dataset::checksum`] or [`CustomTasks::checksum`], computed when first asked for.
    pub fn checksum(&self) -> &str {
        self.checksum.get_or_init(|| match &self.custom {
            Some(tasks) => tasks.checksum(&self.dataset),
            None => self.dataset.checksum(),
        })
    }
}

fn intensity(pixel: u8) -> f32 {
    f32::from(pixel) / 255.0
}

/// One task: which training images, in which order, and how they and the test images are seen.
#[derive(Debug, Clone)]
pub struct Task {
    /// What it is called.
    pub name: String,
    /// Its classes: each as the data numbers it, and as this stream does.
    pub classes: Vec<(u32, u32)>,
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
    /// These test images. Pixels are in [0, 1].
    Subset {
        /// Which.
        images: Vec<u32>,
        /// Whether the mean training image is subtracted.
        centred: bool,
    },
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
/// Training goes by *stages*. Usually a stage is a task; in a joined stream one stage holds them all, and
/// where tasks come back there is a stage for each visit.
#[derive(Debug, Clone)]
pub struct Stream {
    source: Arc<Source>,
    tasks: Vec<Task>,
    scenario: Scenario,
    classes: usize,
    heads: Heads,
    /// Of each task, the class of this stream for each class of the data; of no use for those it has not.
    numbers: Vec<Vec<u32>>,
    /// The classes of each task's test inputs.
    labels: Vec<Vec<u32>>,
    /// The samples of each stage, as (task, position in its order), where a stage is not simply a task.
    stages: Option<Vec<Vec<(u32, u32)>>>,
    /// Passes over the samples of a stage.
    passes: usize,
    announces_task_ends: bool,
    tells_task: bool,
    /// Whether test inputs under a linear map have an int16 copy.
    quantize: bool,
}

/// Number of tasks from which an int16 copy of the test images pays. Making it takes as long as it saves in
/// five evaluations; a run of three tasks makes nine, one of each task after each task.
const QUANTIZE_FROM_TASKS: usize = 3;

impl Stream {
    /// A stream of `tasks` over `source`, with `classes` classes in all.
    ///
    /// # Panics
    /// If a task refers to an image or a class that there is not.
    pub fn new(source: Arc<Source>, tasks: Vec<Task>, scenario: Scenario, classes: usize) -> Stream {
        let (train, test) = (source.dataset.train.len() as u32, &source.dataset.test.labels);
        let (mut labels, mut numbers) = (Vec::new(), Vec::new());
        for task in &tasks {
            assert!(task.order.iter().all(|&i| i < train), "an image outside the training set");
            assert!(task.classes.iter().all(|&(_, c)| (c as usize) < classes), "a class outside the stream");
            let mut number: Vec<u32> = vec![0; source.dataset.classes];
            task.classes.iter().for_each(|&(of_data, class)| number[of_data as usize] = class);
            let numbered =
                |labels: &[u32]| -> Vec<u32> { labels.iter().map(|&label| number[label as usize]).collect() };
            match &task.view {
                View::Map(map) => {
                    assert_eq!(map.width(), source.dataset.width(), "a map of another width than the images");
                    labels.push(numbered(test));
                }
                View::Subset { images, .. } => {
                    assert!(
                        images.iter().all(|&i| (i as usize) < test.len()),
                        "an image outside the test set"
                    );
                    labels.push(images.iter().map(|&i| number[test[i as usize] as usize]).collect());
                }
                View::Scaled(test) => {
                    let width = source.dataset.width();
                    assert_eq!(test.x.len(), test.labels.len() * width, "rows of another width");
                    labels.push(numbered(&test.labels));
                }
            }
            numbers.push(number);
        }
        let heads = match scenario {
            Scenario::Task => {
                let own = |task: &Task| task.classes.iter().map(|&(_, class)| class as usize).collect();
                Some(tasks.iter().map(own).collect::<Vec<Vec<usize>>>()).into()
            }
            Scenario::Domain | Scenario::Class => Heads::Single,
        };
        let quantize = tasks.len() >= QUANTIZE_FROM_TASKS;
        Stream {
            source,
            tasks,
            scenario,
            classes,
            heads,
            numbers,
            labels,
            stages: None,
            passes: 1,
            announces_task_ends: true,
            tells_task: scenario == Scenario::Task,
            quantize,
        }
    }

    /// The same stream for an oracle, which is told the task in a test whatever the scenario is.
    pub fn telling_task(mut self) -> Stream {
        self.tells_task = true;
        self
    }

    /// What a learner is told of the task of test inputs: its number, or 0 for all where it must not know.
    pub fn told(&self, task: usize) -> usize {
        if self.tells_task { task } else { 0 }
    }

    /// What a learner is told and asked.
    pub fn scenario(&self) -> Scenario {
        self.scenario
    }

    /// The same stream, in which the tasks come `visits` times. A visit has its part of a task's samples.
    pub fn repeated(mut self, visits: usize) -> Stream {
        if visits > 1 {
            let mut stages = Vec::with_capacity(visits * self.len());
            for visit in 0..visits {
                for (task, Task { order, .. }) in (0..).zip(&self.tasks) {
                    let part = |visit| (visit * order.len() / visits) as u32;
                    stages.push((part(visit)..part(visit + 1)).map(|i| (task, i)).collect());
                }
            }
            self.stages = Some(stages);
        }
        self
    }

    /// The same stream with blurred boundaries: of each stage's samples, at most half the share `blur` is
    /// exchanged for as many of the next, chosen at random.
    pub fn blurred(mut self, blur: f64, seed: u64) -> Stream {
        if blur > 0.0 {
            let mut stages = self.stages.take().unwrap_or_else(|| self.whole_tasks());
            let mut rng = Rng::named(seed, "blur");
            // Before anything moves, so that a sample moves once.
            let mut free: Vec<Vec<usize>> = stages.iter().map(|stage| (0..stage.len()).collect()).collect();
            free.iter_mut().for_each(|places| rng.shuffle(places));
            for stage in 1..stages.len() {
                let shorter = stages[stage - 1].len().min(stages[stage].len());
                for _ in 0..(0.5 * blur * shorter as f64).round() as usize {
                    let [Some(before), Some(after)] = [free[stage - 1].pop(), free[stage].pop()] else {
                        break;
                    };
                    let moved = stages[stage - 1][before];
                    stages[stage - 1][before] = std::mem::replace(&mut stages[stage][after], moved);
                }
            }
            self.stages = Some(stages);
        }
        self
    }

    /// The same stream, with `epochs` passes over the samples of each stage: the first in its own order, each
    /// further one in a random order.
    pub fn with_epochs(mut self, epochs: usize, seed: u64) -> Stream {
        if epochs > 1 {
            let mut stages = self.stages.take().unwrap_or_else(|| self.whole_tasks());
            let mut rng = Rng::named(seed, "epochs");
            for stage in &mut stages {
                let mut pass = stage.clone();
                for _ in 1..epochs {
                    rng.shuffle(&mut pass);
                    stage.extend_from_slice(&pass);
                }
            }
            (self.stages, self.passes) = (Some(stages), epochs);
        }
        self
    }

    fn whole_tasks(&self) -> Vec<Vec<(u32, u32)>> {
        let samples = |(task, t): (u32, &Task)| (0..t.order.len() as u32).map(|i| (task, i)).collect();
        (0..).zip(&self.tasks).map(samples).collect()
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
        let mut pass = self.whole_tasks().concat();
        let mut rng = Rng::named(seed, "join");
        let mut all = Vec::with_capacity(epochs * pass.len());
        for _ in 0..epochs {
            rng.shuffle(&mut pass);
            all.extend_from_slice(&pass);
        }
        self.stages = Some(vec![all]);
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
            View::Map(_) | View::Subset { .. } => None,
        }
    }

    /// The names of the classes of a custom stream.
    pub fn names(&self) -> Option<&[String]> {
        self.source.custom.is_some().then_some(&*self.source.dataset.class_names)
    }

    /// Which classes each task may answer with.
    pub fn heads(&self) -> &Heads {
        &self.heads
    }

    /// Training samples of the longest task; of its longest visit where tasks come back.
    pub fn samples_per_task(&self) -> usize {
        match self.stages.as_ref().filter(|stages| stages.len() > 1) {
            Some(stages) => stages.iter().map(|stage| stage.len() / self.passes).max().unwrap_or(0),
            None => self.tasks.iter().map(|task| task.order.len()).max().unwrap_or(0),
        }
    }

    /// Pairs of a task and a class that it has: as many cells has a ring memory in the end.
    pub fn task_class_pairs(&self) -> usize {
        self.tasks.iter().map(|task| task.classes.len()).sum()
    }

    /// The names of the tasks.
    pub fn task_names(&self) -> Vec<String> {
        self.tasks.iter().map(|task| task.name.clone()).collect()
    }

    /// The names of the classes: as in the data, after that of the task where each task has its own of that
    /// name, and by their place in the task where a class is another one in each.
    pub fn class_names(&self) -> Vec<String> {
        let of_data = |class: u32| self.source.dataset.class_name(class as usize);
        let mut names: Vec<Option<String>> = vec![None; self.classes];
        let mut uses = vec![BTreeSet::new(); self.source.dataset.classes];
        let pairs = || self.tasks.iter().flat_map(|task| task.classes.iter().map(move |pair| (task, *pair)));
        pairs().for_each(|(_, (of_data, class))| {
            uses[of_data as usize].insert(class);
        });
        for (task, (class_of_data, class)) in pairs() {
            let word = of_data(class_of_data);
            let word =
                if uses[class_of_data as usize].len() > 1 { format!("{}/{word}", task.name) } else { word };
            match &mut names[class as usize] {
                Some(known) if *known != word => *known = format!("{}. class", class + 1),
                name => *name = Some(word),
            }
        }
        names.into_iter().zip(0..).map(|(name, class)| name.unwrap_or_else(|| of_data(class))).collect()
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Number of stages.
    pub fn stages(&self) -> usize {
        self.stages.as_ref().map_or(self.len(), Vec::len)
    }

    /// Number of training samples of a stage.
    pub fn samples(&self, stage: usize) -> usize {
        self.stages.as_ref().map_or_else(|| self.tasks[stage].order.len(), |stages| stages[stage].len())
    }

    /// How many tasks have been learned, at least in part, in the stages up to and including `stage`.
    pub fn seen(&self, stage: usize) -> usize {
        if self.stages() == 1 { self.len() } else { (stage + 1).min(self.len()) }
    }

    /// Replaces what is in `batch` by the samples `range` of a stage.
    pub fn batch(&self, stage: usize, range: Range<usize>, batch: &mut Batch) {
        let train = &self.source.dataset.train;
        let width = self.width();
        let mut image = Vec::with_capacity(width);
        batch.clear();
        for position in range {
            let (task, position) = match &self.stages {
                Some(stages) => stages[stage][position],
                None => (stage as u32, position as u32),
            };
            let Task { view, order, .. } = &self.tasks[task as usize];
            let i = order[position as usize] as usize;
            match view {
                View::Map(map) => train.read_through(i, map, &mut batch.x),
                View::Subset { centred, .. } => {
                    Pixels { pixels: train.pixels(), mean: self.source.zero(*centred) }.push(i, &mut batch.x);
                }
                View::Scaled(test) => {
                    train.read(i, width, &mut image);
                    test.scale.push(&image, &mut batch.x);
                }
            }
            batch.labels.push(self.numbers[task as usize][train.labels[i] as usize]);
            // Where boundaries are blurred, a learner knows no more than whose turn it is.
            let joined = self.stages() == 1;
            batch.tasks.push(if joined || self.scenario == Scenario::Task {
                task
            } else {
                (stage % self.len()) as u32
            });
        }
    }

    /// The map under which `task` sees images, if it does.
    pub fn map(&self, task: usize) -> Option<&LinearMap> {
        match &self.tasks[task].view {
            View::Map(map) => Some(map),
            View::Subset { .. } | View::Scaled(_) => None,
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
            View::Subset { images, centred } => {
                let test = &self.source.dataset.test;
                Inputs::pixels(Pixels { pixels: test.pixels(), mean: self.source.zero(*centred) }, images)
            }
            View::Scaled(test) => Inputs::dense(&test.x, self.width()),
        }
    }

    /// The classes of the test inputs of `task`.
    pub fn test_labels(&self, task: usize) -> &[u32] {
        &self.labels[task]
    }
}
