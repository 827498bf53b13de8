//! DER and DER++: dark experience replay.
//!
//! - *Paper*: Buzzega et al., "Dark Experience for General Continual Learning: a Strong, Simple Baseline",
//!   2020.
//! - *Idea*: keep with each remembered sample the logits that it was answered with when it came, and hold the
//!   network to them: more is remembered than a label.
//! - *Update rule*: theta <- theta - alpha_rate grad [l(B) + alpha mean (f(x') - z')^2 + beta l(x'', y'')]
//!   with x' and x'' drawn from the memory independently, and z' the logits of x' when it was written. DER
//!   has no last term.
//! - *Hyper-parameters*: the rate, alpha, beta; a reservoir as large as the ring of the other methods.
//! - *Deviations*: one pass over B u x'' u x', so batch-norm sees them together, where the release takes
//!   three. The mean of squares is over the classes that a sample's task may answer with.

use hindsight_nn::Rng;

use super::{
    AVERAGE, MEMORY_RESERVOIR, Method, RATE, STATISTICS, Setup, UPDATES,
    replay::{ReplayCore, Replayed, Update},
};
use crate::{
    Batch,
    memory::Payload,
    settings::{Key, Kind},
    state::StateDict,
};

const ALPHA: Key = Key::tuned(
    "alpha",
    Kind::Float(0.0, 1e6),
    [1.0, 0.3, 0.3],
    &[0.1, 0.2, 0.3, 0.5, 1.0],
    "weight of the distance from the stored logits",
);

pub(super) const BETA: Key = Key::tuned(
    "beta",
    Kind::Float(0.0, 1e6),
    [1.0, 0.5, 0.5],
    &[0.3, 0.5, 0.8, 1.0],
    "weight of the loss of replayed samples",
);

pub(super) const DER: Method = Method {
    name: "der",
    title: "DER",
    summary: "replays samples with the logits that they had when they came",
    paper: "Buzzega et al., 2020 (dark experience)",
    keys: &[RATE, ALPHA, MEMORY_RESERVOIR, AVERAGE, STATISTICS, UPDATES],
    gradient_step: true,
    cost: 1.9,
    bytes: |setup| setup.memory_bytes() + 4 * (setup.capacity() * setup.net.classes()) as u64,
    build: |setup| Box::new(Replayed::new(setup, Der::new(setup, 0.0))),
    ..Method::DEFAULT
};

pub(super) const DER_PP: Method = Method {
    name: "der++",
    title: "DER++",
    summary: "DER, and replay of samples with their labels",
    keys: &[RATE, ALPHA, BETA, MEMORY_RESERVOIR, AVERAGE, STATISTICS, UPDATES],
    gradient_step: true,
    cost: 2.6,
    build: |setup| Box::new(Replayed::new(setup, Der::new(setup, setup.method_settings.float("beta")))),
    ..DER
};

struct Der {
    rate: f32,
    alpha: f32,
    beta: f32,
    /// The logits of each remembered sample when it came.
    logits: Payload,
    /// Draws x'.
    rng: Rng,
    /// B u x'' u x', the logits of B, and z'.
    joined: Batch,
    fresh: Vec<f32>,
    stored: Vec<f32>,
    pull: Vec<f32>,
}

impl Der {
    fn new(setup: &Setup<'_>, beta: f32) -> Der {
        Der {
            rate: setup.method_settings.float("rate"),
            alpha: setup.method_settings.float("alpha"),
            beta,
            logits: Payload::new(setup.net.classes()),
            rng: Rng::named(setup.seed, "logits"),
            joined: Batch::default(),
            fresh: Vec::new(),
            stored: Vec::new(),
            pull: Vec::new(),
        }
    }

    /// The gradient in the logits of alpha mean (f - z)^2 over the last rows of the pass, one per row of z.
    fn pull(&mut self, logits: &[f32], allowed: impl Fn(u32, usize) -> bool, classes: usize) {
        let first = logits.len() - self.stored.len();
        let tasks = &self.joined.tasks[first / classes..];
        self.pull.clear();
        self.pull.resize(first, 0.0);
        let rows = logits[first..].chunks_exact(classes).zip(self.stored.chunks_exact(classes));
        for ((now, then), &task) in rows.zip(tasks) {
            let count = tasks.len() * (0..classes).filter(|&class| allowed(task, class)).count();
            let scale = 2.0 * self.alpha / count as f32;
            let of = |(class, (f, z))| if allowed(task, class) { scale * (f - z) } else { 0.0 };
            self.pull.extend(now.iter().zip(then).enumerate().map(of));
        }
    }
}

impl Update for Der {
    fn observe(&mut self, ReplayCore { model, theta, replay }: &mut ReplayCore, batch: &Batch) -> f32 {
        let parts = replay.join_apart(batch, self.beta, &mut self.joined);
        self.stored.clear();
        if self.alpha > 0.0 {
            let drawn = replay.ring.draw(replay.count, &mut self.rng, &mut self.joined);
            self.logits.read(drawn, &mut self.stored);
        }
        let loss = model.loss_of_parts(theta, &self.joined, &parts, None);
        let classes = model.net().classes();
        self.fresh.clear();
        self.fresh.extend_from_slice(&model.tape().logits()[..batch.len() * classes]);
        if !self.stored.is_empty() {
            let heads = model.heads().clone();
            self.pull(model.tape().logits(), |task, class| heads.allows(task as usize, class), classes);
            model.tape().add_logits_seed(&self.pull);
        }
        model.step_seeded(theta, self.rate);
        loss
    }

    fn written(&mut self, slots: &[Option<usize>]) {
        self.logits.write(slots, &self.fresh);
    }

    fn state(&mut self) -> StateDict<'_> {
        vec![("logits", &mut self.logits), ("logit_draws", &mut self.rng)]
    }

    fn bytes(&self) -> u64 {
        self.logits.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        methods::{
            golden::{Golden, batch, numbers, setup},
            replay::core_with,
        },
        settings::Value,
    };

    #[test]
    fn three_updates_agree_with_pytorch() {
        let golden = Golden::read(include_str!("../../tests/reference/der.json"));
        let float = |key: &str| golden.float(key);
        for (case, alpha, beta) in [
            ("er_reservoir", Value::Float(0.0), Value::Float(1.0)),
            ("der", float("alpha"), Value::Float(0.0)),
            ("der_pp", float("alpha"), float("beta")),
        ] {
            let set = [("rate", float("rate")), ("alpha", alpha), ("beta", beta)];
            let mut theta = numbers(&golden["theta"]);
            for (data, step) in golden.pairs("batches", case) {
                theta = setup(&DER_PP, &set, |setup| {
                    let mut der = Der::new(setup, setup.method_settings.float("beta"));
                    let replayed = batch(&data["replay"]);
                    let slots: Vec<_> = (0..replayed.len()).map(Some).collect();
                    der.logits.write(&slots, &numbers(&data["logits"]));
                    let mut core = core_with(setup, theta.clone(), &replayed);
                    let stream = batch(&data["stream"]);
                    let loss = der.observe(&mut core, &stream);
                    golden.assert_close(&[loss], &step["cross_entropy"]);
                    golden.assert_close(&der.fresh, &step["logits"]);
                    core.theta
                });
                golden.assert_close(&theta, &step["theta"]);
            }
        }
    }
}
