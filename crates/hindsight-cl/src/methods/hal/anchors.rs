//! The anchors of a task: which inputs would be forgotten first, judged in hindsight.
//!
//! At a task's end theta_t is fine-tuned on the memory of past tasks to theta_M, which stands for the
//! future. An anchor of class y is an input e that maximises
//! l(f_theta_M(e), y) - l(f_theta_t(e), y) - gamma D(phi(e), phi_y): badly answered then, well answered now,
//! and near the class's mean embedding.

use hindsight_nn::{Rng, Tape, optim::Adam};

use super::settings::{
    AnchorScale, AnchorStart, Anchors, Distance, FirstAnchors, HalSettings, Hindsight, Optimiser, Phi,
};
use crate::{
    Batch, Stream,
    memory::Memory,
    methods::{Model, Setup},
    state::{ByClass, State, StateDict, StateError, Tensors},
};

/// Running means over the current task, by class: embeddings and inputs, and the last input.
pub(super) struct Means {
    phi_of: Phi,
    beta: f32,
    start_decay: f32,
    classes: usize,
    /// phi_y, `[classes, features]`.
    phi: ByClass,
    inputs: TaskInputs,
    /// The least and the greatest value of all inputs so far.
    range: [f32; 2],
    scratch: Vec<f32>,
}

impl Means {
    /// What they take.
    pub(super) fn bytes(&self) -> u64 {
        let TaskInputs { latest, means, .. } = &self.inputs;
        [&self.phi.0, &latest.x, &means.x].map(|values| size_of_val(values.as_slice()) as u64).iter().sum()
    }

    pub(super) fn new(setup: &Setup<'_>, settings: &HalSettings) -> Means {
        let classes = setup.net.classes();
        Means {
            phi_of: settings.phi,
            beta: settings.beta,
            start_decay: settings.start_decay,
            classes,
            phi: ByClass(vec![0.0; classes * setup.net.features()]),
            inputs: TaskInputs { seen: vec![None; classes], ..TaskInputs::default() },
            range: [f32::INFINITY, f32::NEG_INFINITY],
            scratch: Vec::new(),
        }
    }

    pub(super) fn state(&mut self) -> StateDict<'_> {
        vec![("phi", &mut self.phi), ("inputs", &mut self.inputs), ("range", &mut self.range)]
    }

    /// Takes in a stream batch and the features of the joined batch that begins with it.
    pub(super) fn follow(&mut self, batch: &Batch, joined: &Batch, features: &[f32]) {
        let width = features.len() / joined.len();
        match self.phi_of {
            Phi::Class => {
                follow_class_means(&mut self.phi.0, features, &joined.labels, self.beta, &mut self.scratch);
            }
            Phi::Task => {
                // One mean for the task, kept as every class's.
                let one = vec![0; batch.len()];
                let stream = &features[..batch.len() * width];
                follow_class_means(&mut self.phi.0[..width], stream, &one, self.beta, &mut self.scratch);
                for class in 1..self.classes {
                    self.phi.0.copy_within(..width, class * width);
                }
            }
        }
        let [low, high] = self.range;
        self.range = batch.x.iter().fold([low, high], |[low, high], &x| [low.min(x), high.max(x)]);
        batch.iter().for_each(|sample| self.inputs.follow(sample, self.start_decay));
    }

    /// Forgets the task.
    pub(super) fn end_task(&mut self) {
        self.inputs.seen.fill(None);
        if self.phi_of == Phi::Task {
            self.phi.0.fill(0.0);
        }
    }

    fn phi(&self, class: u32) -> &[f32] {
        let width = self.phi.0.len() / self.classes;
        &self.phi.0[class as usize * width..][..width]
    }
}

/// The last input and the running mean of the inputs of each class of the current task. They have a row for
/// each class of the largest task so far, not of all: a row is free again when its task has ended.
#[derive(Default)]
struct TaskInputs {
    /// The task that each class was last seen in, if that is the current one.
    seen: Vec<Option<u32>>,
    /// Row by row the same classes.
    latest: Batch,
    means: Batch,
}

impl TaskInputs {
    fn follow(&mut self, (x, label, task): (&[f32], u32, u32), decay: f32) {
        let row = self.row(label, x.len());
        self.seen[label as usize] = Some(task);
        for rows in [&mut self.latest, &mut self.means] {
            (rows.labels[row], rows.tasks[row]) = (label, task);
        }
        self.latest.x[row * x.len()..][..x.len()].copy_from_slice(x);
        let mean = self.means.x[row * x.len()..].iter_mut().zip(x);
        mean.for_each(|(m, x)| *m = decay * *m + (1.0 - decay) * x);
    }

    /// The row of a class: its own, a free one, or one more. If it is new to the task, its mean is zero.
    fn row(&mut self, label: u32, width: usize) -> usize {
        let labels = &self.latest.labels;
        let free = || labels.iter().position(|&of| self.seen[of as usize].is_none());
        let row = self.row_of(label).or_else(free).unwrap_or(labels.len());
        if row == labels.len() {
            let zeros = vec![0.0; width];
            self.latest.push(&zeros, label, 0);
            self.means.push(&zeros, label, 0);
        } else if self.seen[label as usize].is_none() {
            self.means.x[row * width..][..width].fill(0.0);
        }
        row
    }

    fn row_of(&self, label: u32) -> Option<usize> {
        self.latest.labels.iter().position(|&of| of == label)
    }

    /// The classes of the task, ascending: their row, class and task.
    fn classes(&self) -> impl Iterator<Item = (usize, u32, u32)> {
        let seen = (0..).zip(&self.seen);
        seen.filter_map(|(class, task)| Some((self.row_of(class)?, class, (*task)?)))
    }
}

impl State for TaskInputs {
    fn save(&self, name: &str, to: &mut Tensors) {
        self.seen.save(&format!("{name}.seen"), to);
        self.latest.save(&format!("{name}.latest"), to);
        self.means.save(&format!("{name}.means"), to);
    }

    fn load(&mut self, name: &str, from: &Tensors) -> Result<(), StateError> {
        if from.get("images").is_some() {
            return self.load_dense(from);
        }
        self.seen.load(&format!("{name}.seen"), from)?;
        self.latest.load(&format!("{name}.latest"), from)?;
        self.means.load(&format!("{name}.means"), from)?;
        let classes = self.seen.iter().flatten().count();
        if self.means.labels != self.latest.labels || self.classes().count() != classes {
            let found = format!("rows of the classes {:?}", self.means.labels);
            let expected = format!("a row for each of the task's {classes} classes, as in the other parts");
            return Err(StateError::new(&format!("{name}.means"), found, expected));
        }
        Ok(())
    }
}

impl TaskInputs {
    /// Models that were saved before there were rows have values for all classes.
    fn load_dense(&mut self, from: &Tensors) -> Result<(), StateError> {
        let mut seen = vec![None; self.seen.len()];
        seen.load("seen", from)?;
        let width = from.shape.inputs();
        let mut dense = [(); 2].map(|()| ByClass(vec![0.0; seen.len() * width]));
        dense[0].load("latest", from)?;
        dense[1].load("images", from)?;
        let rows = |values: &ByClass| {
            let rows = (0..).zip(values.0.chunks_exact(width)).zip(&seen);
            rows.filter_map(|((class, x), task)| Some((x, class, (*task)?))).collect()
        };
        (self.latest, self.means) = (rows(&dense[0]), rows(&dense[1]));
        self.seen = seen;
        Ok(())
    }
}

/// `mean_c <- decay * mean_c + (1 - decay) * mean of the rows of class c`, for the classes among `labels`.
pub(super) fn follow_class_means(
    means: &mut [f32],
    rows: &[f32],
    labels: &[u32],
    decay: f32,
    sum: &mut Vec<f32>,
) {
    let width = rows.len() / labels.len();
    for class in 0..(means.len() / width) as u32 {
        let count = labels.iter().filter(|&&label| label == class).count();
        if count == 0 {
            continue;
        }
        sum.clear();
        sum.resize(width, 0.0);
        for (row, _) in rows.chunks_exact(width).zip(labels).filter(|(_, label)| **label == class) {
            sum.iter_mut().zip(row).for_each(|(s, x)| *s += x);
        }
        let weight = (1.0 - decay) / count as f32;
        let mean = &mut means[class as usize * width..][..width];
        mean.iter_mut().zip(sum.iter()).for_each(|(m, s)| *m = decay * *m + weight * s);
    }
}

/// How anchors are looked for.
pub(super) struct AnchorSearch {
    settings: HalSettings,
    /// All tasks, where theta_M is fine-tuned on the future itself instead of on the past.
    oracle: Option<Stream>,
    replay_batch: usize,
    /// The passes over the anchors: kept, since arrays that come and go with every task leave holes in the
    /// process's memory.
    passes: Model,
}

impl AnchorSearch {
    pub(super) fn new(setup: &Setup<'_>, settings: HalSettings) -> AnchorSearch {
        let oracle = setup.future.filter(|_| settings.anchors == Anchors::Oracle).cloned();
        let passes = Model::new(setup).fork(settings.batch_norm());
        AnchorSearch { settings, oracle, replay_batch: setup.shared.replay_batch, passes }
    }

    /// One anchor for each class of the task that has just ended.
    pub(super) fn anchors(
        &mut self,
        model: &mut Model,
        theta: &[f32],
        memory: &mut Memory,
        means: &Means,
        rng: &mut Rng,
    ) -> Batch {
        let first = memory.available() == 0;
        let settings = self.settings;
        let first_real = first && settings.first_anchors == FirstAnchors::Real && self.oracle.is_none();
        let real = settings.anchors == Anchors::Real || first_real;
        let mut anchors = Batch::default();
        let mut phi = Vec::new();
        for (row, class, task) in means.inputs.classes() {
            let (latest, ..) = means.inputs.latest.sample(row);
            let start: Vec<f32> = match settings.start {
                _ if real => latest.to_vec(),
                AnchorStart::Normal => latest.iter().map(|_| rng.normal() as f32).collect(),
                AnchorStart::Uniform => latest.iter().map(|_| rng.uniform() as f32).collect(),
                AnchorStart::Mean => means.inputs.means.sample(row).0.to_vec(),
            };
            anchors.push(&start, class, task);
            phi.extend_from_slice(means.phi(class));
        }
        if !real && !anchors.is_empty() {
            let theta_m = match (&self.oracle, anchors.tasks.iter().max()) {
                (Some(stream), Some(&task)) => self.foresight(model, theta, stream, task as usize),
                _ => self.hindsight(model, theta, memory, rng),
            };
            self.ascend(theta, &theta_m, &phi, &mut anchors);
            if settings.anchor_scale == AnchorScale::Range {
                let [low, high] = means.range;
                anchors.x.iter_mut().for_each(|x| *x = low + (high - low) * *x);
            }
        }
        anchors
    }

    /// The oracle's theta_M: theta fine-tuned on all tasks after `task`, one after the other.
    fn foresight(&self, model: &mut Model, theta: &[f32], stream: &Stream, task: usize) -> Vec<f32> {
        let (mut theta, mut batch) = (theta.to_vec(), Batch::default());
        for later in task + 1..stream.stages() {
            for start in (0..stream.samples(later)).step_by(self.replay_batch) {
                stream.batch(
                    later,
                    start..(start + self.replay_batch).min(stream.samples(later)),
                    &mut batch,
                );
                model.step(&mut theta, &batch, self.settings.rate);
            }
        }
        theta
    }

    /// theta_M: theta fine-tuned on the memory of past tasks.
    fn hindsight(&self, model: &mut Model, theta: &[f32], memory: &mut Memory, rng: &mut Rng) -> Vec<f32> {
        let mut theta = theta.to_vec();
        let mut batch = Batch::default();
        match self.settings.hindsight {
            Hindsight::Steps => {
                for _ in 0..self.settings.hindsight_steps {
                    batch.clear();
                    memory.draw(self.replay_batch, rng, &mut batch);
                    if !batch.is_empty() {
                        model.step(&mut theta, &batch, self.settings.rate);
                    }
                }
            }
            Hindsight::Epoch => {
                let mut all = Batch::default();
                memory.draw(usize::MAX, rng, &mut all);
                for start in (0..all.len()).step_by(self.replay_batch) {
                    batch.clear();
                    batch.extend(all.iter().skip(start).take(self.replay_batch));
                    model.step(&mut theta, &batch, self.settings.rate);
                }
            }
        }
        theta
    }

    /// k steps on all anchors at once; they interact through batch-norm only, if it takes their own
    /// statistics.
    pub(super) fn ascend(&mut self, theta: &[f32], theta_m: &[f32], phi: &[f32], anchors: &mut Batch) {
        let count = anchors.len() as f32;
        let AnchorSearch { settings, passes: model, .. } = self;
        let mut adam = match settings.anchor_optimiser {
            Optimiser::Adam => Some(Adam::new(settings.anchor_rate, anchors.x.len())),
            Optimiser::Ascent => None,
        };
        let (mut now, mut then) = (vec![0.0; anchors.x.len()], vec![0.0; anchors.x.len()]);
        let mut pull = Vec::new();
        for _ in 0..settings.anchor_steps {
            // The loss is a mean over the anchors; times their number, each anchor's gradient is its own.
            model.loss(theta_m, anchors);
            model.input_gradient(theta_m, None, &mut then);
            model.loss(theta, anchors);
            mean_embedding_gradient(settings, model.tape(), phi, count, &mut pull);
            model.input_gradient(theta, Some(&pull), &mut now);
            // The gradient of l(theta_t) - l(theta_M) + gamma D, which is to fall.
            now.iter_mut().zip(&then).for_each(|(now, then)| *now = count * (*now - then));
            match &mut adam {
                Some(adam) => adam.step(&mut anchors.x, &now),
                None => hindsight_nn::params::axpy(-settings.rate, &now, &mut anchors.x),
            }
        }
        if settings.anchor_scale != AnchorScale::None {
            let width = anchors.width();
            anchors.x.chunks_exact_mut(width).for_each(minmax);
        }
    }
}

/// The gradient of gamma D in the features, over the number of anchors.
fn mean_embedding_gradient(settings: &HalSettings, tape: &Tape, phi: &[f32], count: f32, out: &mut Vec<f32>) {
    let width = phi.len() / tape.batch();
    let gamma = settings.gamma / count;
    out.clear();
    for (f, p) in tape.features().chunks_exact(width).zip(phi.chunks_exact(width)) {
        if settings.distance == Distance::Cosine {
            // D = 1 - <f, p> / (|f| |p|), norms bounded below by 1e-6.
            let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
            let (ff, pp) = (dot(f, f), dot(p, p));
            let (f_norm, p_norm) = (ff.max(1e-12).sqrt(), pp.max(1e-12).sqrt());
            let cosine = dot(f, p) / (f_norm * p_norm);
            // Below the bound the norm is a constant.
            let along = if ff > 1e-12 { cosine / f_norm } else { 0.0 };
            out.extend(f.iter().zip(p).map(|(f, p)| gamma / f_norm * (along * f - p / p_norm)));
        } else {
            out.extend(f.iter().zip(p).map(|(f, p)| 2.0 * gamma * (f - p)));
        }
    }
}
/// Scales to [0, 1] by minimum and maximum; a constant becomes zero.
fn minmax(image: &mut [f32]) {
    let (low, high) =
        image.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(l, h), &x| (l.min(x), h.max(x)));
    let range = high - low;
    image.iter_mut().for_each(|x| *x = if range > 0.0 { (*x - low) / range } else { 0.0 });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Shape;

    const WIDTH: usize = 3;
    const DECAY: f32 = 0.9;

    /// [`TaskInputs`] with a row for every class, as models before 2026-11-19 have them.
    struct Dense {
        seen: Vec<Option<u32>>,
        latest: ByClass,
        images: ByClass,
    }

    impl Dense {
        fn follow(&mut self, (x, label, task): (&[f32], u32, u32)) {
            let at = label as usize * WIDTH;
            self.latest.0[at..][..WIDTH].copy_from_slice(x);
            self.images.0[at..].iter_mut().zip(x).for_each(|(m, x)| *m = DECAY * *m + (1.0 - DECAY) * x);
            self.seen[label as usize] = Some(task);
        }

        fn end_task(&mut self) {
            self.images.0.fill(0.0);
            self.seen.fill(None);
        }

        fn assert_same(&self, rows: &TaskInputs) {
            assert_eq!(self.seen, rows.seen);
            assert_eq!(self.seen.iter().flatten().count(), rows.classes().count());
            for (row, class, task) in rows.classes() {
                let at = class as usize * WIDTH;
                assert_eq!(rows.latest.sample(row), (&self.latest.0[at..][..WIDTH], class, task));
                assert_eq!(rows.means.sample(row), (&self.images.0[at..][..WIDTH], class, task));
            }
        }
    }

    #[test]
    fn rows_are_those_of_the_largest_task_and_say_what_rows_of_all_classes_would() {
        const CLASSES: usize = 8;
        let none = || vec![None; CLASSES];
        let zeros = || ByClass(vec![0.0; CLASSES * WIDTH]);
        let mut rows = TaskInputs { seen: none(), ..TaskInputs::default() };
        let mut dense = Dense { seen: none(), latest: zeros(), images: zeros() };
        let shape = Shape { input: [1, 1, WIDTH], classes: CLASSES, ..Shape::default() };
        let (mut rng, mut largest) = (Rng::named(1, "test"), 0);
        for task in 0..200 {
            for _ in 0..rng.below(5) {
                let x: Vec<f32> = (0..WIDTH).map(|_| rng.normal() as f32).collect();
                let sample = (&x[..], rng.below(CLASSES) as u32, task);
                rows.follow(sample, DECAY);
                dense.follow(sample);
            }
            dense.assert_same(&rows);
            largest = largest.max(rows.classes().count());
            assert_eq!(rows.latest.len(), largest);

            let parts: StateDict<'_> =
                vec![("seen", &mut dense.seen), ("latest", &mut dense.latest), ("images", &mut dense.images)];
            let old = Tensors::of(parts, shape.clone());
            let mut read = TaskInputs { seen: none(), ..TaskInputs::default() };
            read.load("inputs", &old).unwrap();
            dense.assert_same(&read);
            let saved = Tensors::of(vec![("inputs", &mut read)], shape.clone());
            rows.load("inputs", &saved).unwrap();
            largest = rows.latest.len();
            dense.assert_same(&rows);

            dense.end_task();
            rows.seen.fill(None);
        }
    }

    #[test]
    fn a_class_of_the_task_without_a_row_is_refused() {
        let mut rows = TaskInputs { seen: vec![Some(0), None], ..TaskInputs::default() };
        let shape = Shape { input: [1, 1, WIDTH], classes: 2, ..Shape::default() };
        let saved = Tensors::of(vec![("inputs", &mut rows)], shape);
        let error = rows.load("inputs", &saved).unwrap_err();
        assert_eq!(error.part, "inputs.means");
    }
}
