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
    state::{ByClass, StateDict},
};

/// Running means over the current task, by class: embeddings, inputs, and the last input.
pub(super) struct Means {
    phi_of: Phi,
    beta: f32,
    start_decay: f32,
    classes: usize,
    /// phi_y, `[classes, features]`.
    phi: ByClass,
    /// `[classes, inputs]` each.
    images: ByClass,
    latest: ByClass,
    /// The task that each class was last seen in, among the current one's.
    seen: Vec<Option<u32>>,
    /// The least and the greatest value of all inputs so far.
    range: [f32; 2],
    scratch: Vec<f32>,
}

impl Means {
    /// What they take.
    pub(super) fn bytes(&self) -> u64 {
        [&self.phi, &self.images, &self.latest]
            .map(|means| size_of_val(means.0.as_slice()) as u64)
            .iter()
            .sum()
    }

    pub(super) fn new(setup: &Setup<'_>, settings: &HalSettings) -> Means {
        let (classes, inputs) = (setup.net.classes(), setup.net.inputs());
        Means {
            phi_of: settings.phi,
            beta: settings.beta,
            start_decay: settings.start_decay,
            classes,
            phi: ByClass(vec![0.0; classes * setup.net.features()]),
            images: ByClass(vec![0.0; classes * inputs]),
            latest: ByClass(vec![0.0; classes * inputs]),
            seen: vec![None; classes],
            range: [f32::INFINITY, f32::NEG_INFINITY],
            scratch: Vec::new(),
        }
    }

    pub(super) fn state(&mut self) -> StateDict<'_> {
        vec![
            ("phi", &mut self.phi),
            ("images", &mut self.images),
            ("latest", &mut self.latest),
            ("seen", &mut self.seen),
            ("range", &mut self.range),
        ]
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
        for (x, label, task) in batch {
            let at = label as usize * x.len();
            let mean = self.images.0[at..].iter_mut().zip(x);
            mean.for_each(|(m, x)| *m = self.start_decay * *m + (1.0 - self.start_decay) * x);
            self.latest.0[at..][..x.len()].copy_from_slice(x);
            self.seen[label as usize] = Some(task);
        }
    }

    /// Forgets the task.
    pub(super) fn end_task(&mut self) {
        self.images.0.fill(0.0);
        self.seen.fill(None);
        if self.phi_of == Phi::Task {
            self.phi.0.fill(0.0);
        }
    }

    fn of_class<'m>(&self, of: &'m ByClass, class: usize) -> &'m [f32] {
        let width = of.0.len() / self.classes;
        &of.0[class * width..][..width]
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
}

impl AnchorSearch {
    pub(super) fn new(setup: &Setup<'_>, settings: HalSettings) -> AnchorSearch {
        let oracle = setup.future.filter(|_| settings.anchors == Anchors::Oracle).cloned();
        AnchorSearch { settings, oracle, replay_batch: setup.shared.replay_batch }
    }

    /// One anchor for each class of the task that has just ended.
    pub(super) fn anchors(
        &self,
        model: &mut Model,
        theta: &[f32],
        memory: &mut Memory,
        means: &Means,
        rng: &mut Rng,
    ) -> Batch {
        let first = memory.available() == 0;
        let settings = &self.settings;
        let first_real = first && settings.first_anchors == FirstAnchors::Real && self.oracle.is_none();
        let real = settings.anchors == Anchors::Real || first_real;
        let mut anchors = Batch::default();
        let mut phi = Vec::new();
        for (class, task) in means.seen.iter().enumerate() {
            let Some(task) = *task else { continue };
            let width = means.latest.0.len() / means.classes;
            let start: Vec<f32> = match settings.start {
                _ if real => means.of_class(&means.latest, class).to_vec(),
                AnchorStart::Normal => (0..width).map(|_| rng.normal() as f32).collect(),
                AnchorStart::Uniform => (0..width).map(|_| rng.uniform() as f32).collect(),
                AnchorStart::Mean => means.of_class(&means.images, class).to_vec(),
            };
            anchors.push(&start, class as u32, task);
            phi.extend_from_slice(means.of_class(&means.phi, class));
        }
        if !real && !anchors.is_empty() {
            let theta_m = match (&self.oracle, anchors.tasks.iter().max()) {
                (Some(stream), Some(&task)) => self.foresight(model, theta, stream, task as usize),
                _ => self.hindsight(model, theta, memory, rng),
            };
            self.ascend(model, theta, &theta_m, &phi, &mut anchors);
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
    pub(super) fn ascend(
        &self,
        model: &mut Model,
        theta: &[f32],
        theta_m: &[f32],
        phi: &[f32],
        anchors: &mut Batch,
    ) {
        let count = anchors.len() as f32;
        let model = &mut model.fork(self.settings.batch_norm());
        let mut adam = match self.settings.anchor_optimiser {
            Optimiser::Adam => Some(Adam::new(self.settings.anchor_rate, anchors.x.len())),
            Optimiser::Ascent => None,
        };
        let (mut now, mut then) = (vec![0.0; anchors.x.len()], vec![0.0; anchors.x.len()]);
        let mut pull = Vec::new();
        for _ in 0..self.settings.anchor_steps {
            // The loss is a mean over the anchors; times their number, each anchor's gradient is its own.
            model.loss(theta_m, anchors);
            model.input_gradient(theta_m, None, &mut then);
            model.loss(theta, anchors);
            self.pull(model.tape(), phi, count, &mut pull);
            model.input_gradient(theta, Some(&pull), &mut now);
            // The gradient of l(theta_t) - l(theta_M) + gamma D, which is to fall.
            now.iter_mut().zip(&then).for_each(|(now, then)| *now = count * (*now - then));
            match &mut adam {
                Some(adam) => adam.step(&mut anchors.x, &now),
                None => hindsight_nn::params::axpy(-self.settings.rate, &now, &mut anchors.x),
            }
        }
        if self.settings.anchor_scale != AnchorScale::None {
            let width = anchors.width();
            anchors.x.chunks_exact_mut(width).for_each(minmax);
        }
    }

    /// The gradient of gamma D in the features, over the number of anchors.
    fn pull(&self, tape: &Tape, phi: &[f32], count: f32, out: &mut Vec<f32>) {
        let width = phi.len() / tape.batch();
        let gamma = self.settings.gamma / count;
        out.clear();
        for (f, p) in tape.features().chunks_exact(width).zip(phi.chunks_exact(width)) {
            if self.settings.distance == Distance::Cosine {
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
}

/// Scales to [0, 1] by minimum and maximum; a constant becomes zero.
fn minmax(image: &mut [f32]) {
    let (low, high) =
        image.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(l, h), &x| (l.min(x), h.max(x)));
    let range = high - low;
    image.iter_mut().for_each(|x| *x = if range > 0.0 { (*x - low) / range } else { 0.0 });
}
