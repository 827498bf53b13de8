//! HAL: Hindsight Anchor Learning.
//!
//! - *Paper*: Chaudhry et al., "Using Hindsight to Anchor Past Knowledge in Continual Learning", 2021.
//! - *Idea*: experience replay, plus one anchor per class per past task: an input chosen, at its task's end,
//!   to be the most easily forgotten one. Every update is held back from moving the answers on anchors.
//! - *Update rule* (Eq. 4), with theta~ = theta - alpha grad l(theta) on B u B_M and R the squared change of
//!   the anchors' logits between theta and theta~:
//!   theta <- theta - alpha grad [l + lambda R]. Anchors: [`anchors`].
//! - *Hyper-parameters*: alpha, lambda, gamma, beta, k; the rest are the points on which the paper's text and
//!   the authors' released program differ.
//! - *Deviations*: the preset `authors` (default) follows the released program, `paper` the text, which
//!   diverges as written; `frozen` treats theta~ as a constant in the gradient of R; `stable` leaves out the
//!   Hessian, whose feedback makes the exact gradient run away on some seeds; `robust` bounds every step
//!   ([`limits`]) and is the default outside the paper's benchmarks.

mod anchors;
mod consolidation;
#[cfg(test)]
mod golden;
mod limits;
mod settings;

use hindsight_nn::{Correction, Inputs, Rng, StepAhead, Tape};

use self::{
    anchors::{AnchorSearch, Means},
    consolidation::Consolidation,
    limits::Limits,
    settings::{
        AnchorScale, AnchorStart, AnchorStatistics, Anchors, Distance, FirstAnchors, HalSettings, Hindsight,
        Optimiser, Penalty, PenaltyGradient, Phi, Preset,
    },
};
use super::{AVERAGE, CONSOLIDATE_EVERY, MEMORY, Method, Model, RATE, STATISTICS, Setup, replay::Replay};
use crate::{
    Batch, Learner, RetainedSamples,
    memory::draw,
    settings::{Choice, Key, Kind, Value},
    state::StateDict,
};

pub(super) const METHOD: Method = Method {
    name: "hal",
    title: "HAL",
    summary: "experience replay, with answers held fixed on anchors learned in hindsight",
    paper: "Chaudhry et al., 2021 (using hindsight to anchor past knowledge)",
    keys: KEYS,
    presets: &[
        ("authors", &[]),
        (
            "paper",
            &[
                ("gradient", Value::text("exact")),
                ("anchors_per_step", Value::Int(0)),
                ("penalty", Value::text("sum")),
                ("phi", Value::text("task")),
                ("distance", Value::text("squared")),
                ("start", Value::text("normal")),
                ("anchor_optimiser", Value::text("ascent")),
                ("anchor_scale", Value::text("none")),
                ("first_anchors", Value::text("learned")),
                ("hindsight", Value::text("epoch")),
            ],
        ),
        ("frozen", &[("gradient", Value::text("frozen"))]),
        ("stable", &[("gradient", Value::text("first")), ("lambda", Value::Float(0.3))]),
        ("robust", &[("trust", Value::Float(5.0)), ("clip", Value::Float(5.0))]),
    ],
    caution: |own| {
        (own.choice::<Preset>("preset") == Preset::Paper).then_some(
            "`hal.preset = \"paper\"` takes the paper's text literally; with its sum over all anchors the \
             updates usually diverge, which is then the result",
        )
    },
    gradient_step: true,
    cost: 12.0,
    bytes: |setup| {
        let (inputs, classes) = (setup.net.inputs(), setup.classes_per_task());
        let anchors = classes * setup.tasks * inputs;
        let means = setup.net.classes() * setup.net.features() + 2 * classes * inputs;
        setup.memory_bytes() + 4 * (anchors + means) as u64
    },
    without_task_ends: Some(
        "anchors are found when a task ends; on a stream without ends it learns as er-ring does, unless \
         `consolidate_every` is set, best with `memory=reservoir`",
    ),
    build: |setup| Box::new(Hal::new(setup)),
    ..Method::DEFAULT
};

static KEYS: &[Key] = &[
    Key::new(
        "preset",
        Kind::Choice(Preset::WORDS),
        Value::text("authors"),
        "follow the released program, the paper's text, a re-implementation that freezes theta~, leave out the \
         Hessian, or bound every step",
    ),
    RATE,
    AVERAGE,
    STATISTICS,
    Key::tuned(
        "lambda",
        Kind::Float(0.0, 1e6),
        [0.1, 1.0, 0.3],
        &[0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0],
        "strength of the anchoring penalty R",
    ),
    Key::tuned(
        "gamma",
        Kind::Float(0.0, 1e6),
        [0.1, 0.1, 0.1],
        &[0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0],
        "strength of the mean embedding loss in the anchor search",
    ),
    Key::new("beta", Kind::Float(0.0, 1.0), Value::Float(0.5), "decay of the mean embedding phi"),
    Key::new("anchor_steps", Kind::Int(0, 1_000_000), Value::Int(100), "k: steps of the anchor search"),
    Key::per_family(
        "gradient",
        Kind::Choice(PenaltyGradient::WORDS),
        // On images the Hessian term costs half as much time again and gains nothing (REPRODUCIBILITY.md).
        [Value::text("exact"), Value::text("first"), Value::text("first")],
        "gradient of R: exact, without the Hessian term, or with theta~ as a constant",
    ),
    Key::new(
        "anchors",
        Kind::Choice(Anchors::WORDS),
        Value::text("learned"),
        "learn the anchors, take the last real sample of each class, or learn them with a look at all future tasks",
    ),
    Key::new(
        "anchors_per_step",
        Kind::Int(0, 1_000_000),
        Value::Int(10),
        "anchors drawn, without replacement, for each update (0: all)",
    ),
    Key::new(
        "penalty",
        Kind::Choice(Penalty::WORDS),
        Value::text("mean"),
        "R is the mean or the sum over anchors (of the sum over logits)",
    ),
    Key::new(
        "phi",
        Kind::Choice(Phi::WORDS),
        Value::text("class"),
        "one mean embedding per class over stream and replay, or one per task over the stream",
    ),
    Key::new(
        "distance",
        Kind::Choice(Distance::WORDS),
        Value::text("cosine"),
        "distance of an anchor's embedding to phi",
    ),
    Key::new(
        "start",
        Kind::Choice(AnchorStart::WORDS),
        Value::text("mean"),
        "start of an anchor: running mean of its class's inputs, or noise",
    ),
    Key::new("start_decay", Kind::Float(0.0, 1.0), Value::Float(0.9), "decay of the running mean of inputs"),
    Key::new(
        "anchor_optimiser",
        Kind::Choice(Optimiser::WORDS),
        Value::text("adam"),
        "optimiser of the anchor search: Adam at `anchor_rate`, or plain ascent at alpha",
    ),
    Key::new(
        "anchor_rate",
        Kind::Float(0.0, 100.0),
        Value::Float(0.001),
        "rate of Adam in the anchor search",
    ),
    Key::per_family(
        "anchor_scale",
        Kind::Choice(AnchorScale::WORDS),
        [Value::text("minmax"), Value::text("range"), Value::text("range")],
        "scale each found anchor by its minimum and maximum: to [0, 1], to the range of the inputs so far, or not",
    ),
    Key::new(
        "anchor_statistics",
        Kind::Choice(AnchorStatistics::WORDS),
        Value::text("batch"),
        "statistics that batch-norm takes for anchors: those of the anchors in the pass, or the running averages",
    ),
    Key::new(
        "first_anchors",
        Kind::Choice(FirstAnchors::WORDS),
        Value::text("real"),
        "anchors of the first task, before which there is no past to fine-tune on",
    ),
    Key::new(
        "hindsight",
        Kind::Choice(Hindsight::WORDS),
        Value::text("steps"),
        "theta_M: `hindsight_steps` SGD steps on the memory of past tasks, or one epoch over it",
    ),
    Key::new("hindsight_steps", Kind::Int(0, 1_000_000), Value::Int(50), "SGD steps from theta to theta_M"),
    MEMORY,
    CONSOLIDATE_EVERY,
    Key::new(
        "trust",
        Kind::Float(0.0, 1e6),
        Value::Float(0.0),
        "longest anchored part of a step, as a multiple of its replay part (0: no limit)",
    ),
    Key::new(
        "clip",
        Kind::Float(0.0, 1e6),
        Value::Float(0.0),
        "longest gradient of stream and replay; longer ones are scaled down (0: no limit)",
    ),
];

struct Hal {
    model: Model,
    theta: Vec<f32>,
    replay: Replay,
    step: AnchoredStep,
    means: Means,
    search: AnchorSearch,
    /// One per class per finished task, or a sample of those.
    anchors: Batch,
    consolidation: Consolidation,
    anchors_per_step: usize,
    chosen: Batch,
    candidates: Vec<u32>,
    rng: Rng,
}

impl Hal {
    fn new(setup: &Setup<'_>) -> Hal {
        let settings = HalSettings::new(setup.method_settings);
        Hal {
            model: Model::new(setup),
            theta: setup.initial_theta(),
            replay: Replay::new(setup),
            step: AnchoredStep::new(&settings),
            means: Means::new(setup, &settings),
            search: AnchorSearch::new(setup, settings),
            anchors: Batch::default(),
            consolidation: Consolidation::new(setup, &settings),
            anchors_per_step: settings.anchors_per_step,
            chosen: Batch::default(),
            candidates: Vec::new(),
            rng: Rng::named(setup.seed, "anchors"),
        }
    }

    /// The anchors of this update.
    fn choose(&mut self) {
        let all = self.anchors.len();
        let count = if self.anchors_per_step == 0 { all } else { self.anchors_per_step.min(all) };
        self.chosen.clear();
        let drawn = draw(all, count, &mut self.candidates, &mut self.rng);
        self.chosen.extend(drawn.iter().map(|&i| self.anchors.sample(i as usize)));
    }
}

impl Learner for Hal {
    fn observe(&mut self, batch: &Batch) -> f32 {
        let joined = self.replay.join(batch);
        let loss = self.model.gradient(&self.theta, joined);
        self.means.follow(batch, joined, self.model.tape().features());
        if self.anchors.is_empty() {
            self.step.replay(&mut self.model, &mut self.theta);
        } else {
            self.choose();
            self.step.update(&mut self.model, &mut self.theta, &self.chosen);
        }
        self.model.update_running_stats(&mut self.theta);
        self.replay.ring.write(batch);
        if self.consolidation.is_due() {
            self.end_task();
        }
        loss
    }

    fn end_task(&mut self) {
        let found = self.search.anchors(
            &mut self.model,
            &self.theta,
            &mut self.replay.ring,
            &self.means,
            &mut self.rng,
        );
        self.consolidation.keep(&found, &mut self.anchors, &mut self.rng);
        self.means.end_task();
        self.replay.ring.end_task();
    }

    fn predict(&self, inputs: &Inputs<'_>, task: usize) -> Vec<u32> {
        self.model.predict(&self.theta, inputs, task)
    }

    fn predict_proba(&self, inputs: &Inputs<'_>, task: usize) -> Vec<f32> {
        self.model.predict_proba(&self.theta, inputs, task)
    }

    fn theta(&self) -> &[f32] {
        &self.theta
    }

    fn theta_mut(&mut self) -> Option<&mut [f32]> {
        Some(&mut self.theta)
    }

    fn state(&mut self) -> StateDict<'_> {
        let mut parts: StateDict<'_> =
            vec![("theta", &mut self.theta), ("anchors", &mut self.anchors), ("draws", &mut self.rng)];
        parts.extend(self.replay.state());
        parts.extend(self.means.state());
        parts.extend(self.consolidation.state());
        parts
    }

    fn retained_samples(&self) -> RetainedSamples<'_> {
        RetainedSamples { anchors: Some(&self.anchors), ..self.replay.ring.retained() }
    }

    fn retained_bytes(&self) -> u64 {
        self.retained_samples().bytes() + self.means.bytes()
    }
}

/// theta <- theta - alpha grad [l + lambda R].
struct AnchoredStep {
    lambda: f32,
    correction: Correction,
    penalty: Penalty,
    limits: Limits,
    ahead: StepAhead,
    /// c r.
    r: Vec<f32>,
    /// The passes over the anchors at theta and at theta~.
    here: Tape,
    there: Tape,
    rate: f32,
}

impl AnchoredStep {
    fn new(settings: &HalSettings) -> AnchoredStep {
        let limits = Limits::new(settings);
        AnchoredStep {
            lambda: settings.lambda,
            correction: match settings.gradient {
                PenaltyGradient::Exact => Correction::WithHessian,
                PenaltyGradient::First => Correction::Difference,
                PenaltyGradient::Frozen => Correction::Here,
            },
            penalty: settings.penalty,
            // Limits compare theta and theta~.
            ahead: StepAhead::new(settings.rate, limits.any()),
            limits,
            r: Vec::new(),
            here: Tape::new().with_batch_norm(settings.batch_norm()),
            there: Tape::new().with_batch_norm(settings.batch_norm()),
            rate: settings.rate,
        }
    }

    /// The update without anchors: theta <- theta~.
    fn replay(&mut self, model: &mut Model, theta: &mut Vec<f32>) {
        if !self.limits.clips() {
            return model.accumulate(-self.rate, theta);
        }
        self.look_ahead(model, theta);
        self.ahead.finish(&model.last_gradient(), theta);
    }

    fn look_ahead(&mut self, model: &mut Model, theta: &[f32]) {
        if let Some(ahead) = self.ahead.begin(&mut model.last_gradient(), theta) {
            self.limits.clip(theta, ahead);
            self.limits.remember(ahead);
        }
    }

    /// The update, after a gradient pass of `model` at `theta` over B u B_M.
    ///
    /// With c = 2 lambda / n, u = c J_theta^T r and v = c J_theta~^T r, the new theta is
    /// theta - alpha (g + u - v + alpha H v) = theta~ - alpha u + alpha v - alpha^2 H v,
    /// so that all terms are added to theta~, and g itself is never needed.
    fn update(&mut self, model: &mut Model, theta: &mut Vec<f32>, anchors: &Batch) {
        self.look_ahead(model, theta);
        let passes = [&mut self.here, &mut self.there];
        self.ahead.forward(&mut model.last_gradient(), theta, &anchors.x, passes);
        let c = match self.penalty {
            Penalty::Mean => 2.0 * self.lambda / anchors.len() as f32,
            Penalty::Sum => 2.0 * self.lambda,
        };
        self.r.clear();
        self.r.extend(self.here.logits().iter().zip(self.there.logits()).map(|(a, b)| c * (a - b)));
        let classes = model.net().classes();
        for (row, &task) in self.r.chunks_exact_mut(classes).zip(&anchors.tasks) {
            let heads = model.heads();
            row.iter_mut()
                .enumerate()
                .filter(|(k, _)| !heads.allows(task as usize, *k))
                .for_each(|(_, r)| *r = 0.0);
        }
        self.here.seed(&self.r, None);
        self.there.seed(&self.r, None);
        let (passes, mut g) = ([&mut self.here, &mut self.there], model.last_gradient());
        if let Some(ahead) = self.ahead.correct(&mut g, theta, passes, self.correction) {
            self.limits.hold(theta, ahead);
        }
        self.ahead.finish(&g, theta);
    }
}
