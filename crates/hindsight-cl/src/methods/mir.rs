//! MIR: maximally interfered retrieval.
//!
//! - *Paper*: Aljundi et al., "Online Continual Learning with Maximally Interfered Retrieval", 2019.
//! - *Idea*: replay those remembered samples whose loss the coming update would raise the most.
//! - *Update rule*: theta' = theta - alpha grad l(B); B_M = the samples of a random candidate set with the
//!   largest l(theta') - l(theta); theta <- theta - alpha grad l(B u B_M).
//! - *Hyper-parameters*: alpha, the number of candidates; m slots per class per task.
//! - *Deviations*: one mean over the joined batch, as all replay methods here, and a ring memory.

use hindsight_nn::Tape;

use super::{
    AVERAGE, MEMORY, Method, Model, RATE, STATISTICS, Setup, UPDATES,
    replay::{ReplayCore, Replayed, Update},
};
use crate::{
    Batch,
    settings::{Key, Kind, Value},
};

pub(super) const METHOD: Method = Method {
    name: "mir",
    title: "MIR",
    summary: "replays the remembered samples that the coming update would harm most",
    paper: "Aljundi et al., 2019 (maximally interfered retrieval)",
    keys: &[
        RATE,
        MEMORY,
        AVERAGE,
        STATISTICS,
        UPDATES,
        Key::new("candidates", Kind::Int(1, 1_000_000), Value::Int(50), "remembered samples to choose from"),
    ],
    gradient_step: true,
    cost: 6.5,
    bytes: |setup| setup.memory_bytes(),
    without_task_ends: Some(super::RING_WITHOUT_TASK_ENDS),
    build: |setup| Box::new(Replayed::new(setup, Mir::new(setup))),
    ..Method::DEFAULT
};

struct Mir {
    rate: f32,
    candidates: usize,
    retrieval: Retrieval,
}

/// Finds the samples that a step would harm most.
#[derive(Default)]
struct Retrieval {
    tapes: [Tape; 2],
    before: Vec<f32>,
    after: Vec<f32>,
    joined: Batch,
}

impl Mir {
    fn new(setup: &Setup<'_>) -> Mir {
        Mir {
            rate: setup.method_settings.float("rate"),
            candidates: setup.method_settings.int("candidates"),
            retrieval: Retrieval::default(),
        }
    }
}

impl Retrieval {
    /// The stream batch joined with the `count` candidates that a step on it would harm most.
    fn join(
        &mut self,
        model: &mut Model,
        theta: &[f32],
        rate: f32,
        batch: &Batch,
        pool: &Batch,
        count: usize,
    ) -> &Batch {
        let chosen = self.most_interfered(model, theta, rate, batch, pool, count);
        self.joined.clear();
        self.joined.extend(batch);
        self.joined.extend(chosen.into_iter().map(|i| pool.sample(i)));
        &self.joined
    }

    /// Their indices, in the order in which they were drawn.
    fn most_interfered(
        &mut self,
        model: &mut Model,
        theta: &[f32],
        rate: f32,
        batch: &Batch,
        pool: &Batch,
        count: usize,
    ) -> Vec<usize> {
        if pool.len() <= count {
            return (0..pool.len()).collect();
        }
        let losses = [&mut self.before, &mut self.after];
        model.gradient(theta, batch);
        model.sample_losses_ahead(theta, rate, pool, &mut self.tapes, losses);
        let rise: Vec<f32> = self.after.iter().zip(&self.before).map(|(a, b)| a - b).collect();
        top(&rise, count)
    }
}

/// The indices of the `count` largest values, ascending.
fn top(values: &[f32], count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[b].total_cmp(&values[a]));
    order.truncate(count);
    order.sort_unstable();
    order
}

impl Update for Mir {
    fn observe(&mut self, ReplayCore { model, theta, replay }: &mut ReplayCore, batch: &Batch) -> f32 {
        let count = replay.count;
        let pool = replay.draw(self.candidates.max(count));
        let joined = self.retrieval.join(model, theta, self.rate, batch, pool, count);
        model.step(theta, joined, self.rate)
    }
}

#[cfg(test)]
mod tests {
    use hindsight_nn::Rng;

    use super::*;
    use crate::methods::golden::{Golden, batch, labels, numbers, setup};

    #[test]
    fn three_updates_agree_with_pytorch() {
        let golden = Golden::read(include_str!("../../tests/reference/mir.json"));
        let build = |setup: &Setup<'_>| (Model::new(setup), Mir::new(setup));
        let (mut model, Mir { rate, mut retrieval, .. }) =
            setup(&METHOD, &[("rate", golden.float("alpha"))], build);
        let mut theta = numbers(&golden["theta"]);
        let count = golden["k"].as_u64().unwrap() as usize;
        for expected in golden["steps"].as_array().unwrap() {
            let (stream, pool) = (batch(&expected["stream"]), batch(&expected["candidates"]));
            let mut chosen: Vec<usize> = labels(&expected["chosen"]).iter().map(|&i| i as usize).collect();
            chosen.sort_unstable();
            assert_eq!(retrieval.most_interfered(&mut model, &theta, rate, &stream, &pool, count), chosen);
            golden.assert_close(&retrieval.before, &expected["loss_before"]);
            golden.assert_close(&retrieval.after, &expected["loss_after"]);
            let joined = retrieval.join(&mut model, &theta, rate, &stream, &pool, count);
            model.step(&mut theta, joined, rate);
            golden.assert_close(&theta, &expected["theta"]);
        }
    }

    #[test]
    fn the_top_is_the_true_top() {
        let mut rng = Rng::named(1, "test");
        for _ in 0..100 {
            let values: Vec<f32> = (0..20).map(|_| rng.normal() as f32).collect();
            let chosen = top(&values, 7);
            let lowest = chosen.iter().map(|&i| values[i]).fold(f32::INFINITY, f32::min);
            let above = values.iter().filter(|&&v| v > lowest).count();
            assert!(chosen.len() == 7 && above == 6 && chosen.is_sorted());
        }
    }
}
