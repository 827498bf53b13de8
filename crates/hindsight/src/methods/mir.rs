//! MIR: maximally interfered retrieval.
//!
//! - *Paper*: Aljundi et al., "Online Continual Learning with Maximally Interfered Retrieval", 2019.
//! - *Idea*: replay those remembered samples whose loss the coming update would raise the most.
//! - *Update rule*: theta' = theta - alpha grad l(B); B_M = the samples of a random candidate set with the
//!   largest l(theta') - l(theta); theta <- theta - alpha grad l(B u B_M).
//! - *Hyper-parameters*: alpha, the number of candidates; m slots per class per task.
//! - *Deviations*: one mean over the joined batch, as all replay methods here, and a ring memory.

use hindsight_engine::{Inputs, Rng};

use super::{Method, Model, RATE, Setup};
use crate::{
    Batch, Holdings, Learner,
    memory::Ring,
    settings::{Key, Kind, Value},
};

pub(super) const METHOD: Method = Method {
    name: "mir",
    title: "MIR",
    summary: "replays the remembered samples that the coming update would harm most",
    paper: "Aljundi et al., 2019 (maximally interfered retrieval)",
    keys: &[
        RATE,
        Key::new("candidates", Kind::Int(1, 1_000_000), Value::Int(50), "remembered samples to choose from"),
    ],
    build: |setup| Box::new(Mir::new(setup)),
    ..Method::DEFAULT
};

struct Mir {
    model: Model,
    theta: Vec<f32>,
    rate: f32,
    ring: Ring,
    count: usize,
    candidates: usize,
    rng: Rng,
    ahead: Vec<f32>,
    pool: Batch,
    joined: Batch,
    before: Vec<f32>,
    after: Vec<f32>,
}

impl Mir {
    fn new(setup: &Setup<'_>) -> Mir {
        Mir {
            model: Model::new(setup),
            theta: setup.initial_theta(),
            rate: setup.own.float("rate"),
            ring: setup.ring(),
            count: setup.shared.int("replay_batch"),
            candidates: setup.own.int("candidates"),
            rng: Rng::named(setup.seed, "replay"),
            ahead: Vec::new(),
            pool: Batch::default(),
            joined: Batch::default(),
            before: Vec::new(),
            after: Vec::new(),
        }
    }

    fn update(&mut self, batch: &Batch, pool: &Batch) -> f32 {
        self.joined.clear();
        self.joined.extend(batch);
        for i in self.most_interfered(batch, pool) {
            let (x, label, task) = pool.sample(i);
            self.joined.push(x, label, task);
        }
        self.model.step(&mut self.theta, &self.joined, self.rate)
    }

    /// The candidates that a step on `batch` would harm most, in the order in which they were drawn.
    fn most_interfered(&mut self, batch: &Batch, pool: &Batch) -> Vec<usize> {
        if pool.len() <= self.count {
            return (0..pool.len()).collect();
        }
        self.ahead.clone_from(&self.theta);
        self.model.step(&mut self.ahead, batch, self.rate);
        self.model.sample_losses(&self.theta, pool, &mut self.before);
        self.model.sample_losses(&self.ahead, pool, &mut self.after);
        let rise: Vec<f32> = self.after.iter().zip(&self.before).map(|(a, b)| a - b).collect();
        top(&rise, self.count)
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

impl Learner for Mir {
    fn observe(&mut self, batch: &Batch) -> f32 {
        let mut pool = std::mem::take(&mut self.pool);
        pool.clear();
        self.ring.draw(self.candidates.max(self.count), &mut self.rng, &mut pool);
        let loss = self.update(batch, &pool);
        self.pool = pool;
        self.ring.write(batch);
        loss
    }

    fn end_task(&mut self) {
        self.ring.end_task();
    }

    fn predict(&self, inputs: &Inputs<'_>, task: usize) -> Vec<u32> {
        self.model.predict(&self.theta, inputs, task)
    }

    fn theta(&self) -> &[f32] {
        &self.theta
    }

    fn holdings(&self) -> Holdings<'_> {
        Holdings { memory: Some(self.ring.samples()), anchors: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::golden::{Golden, batch, labels, numbers, setup};

    #[test]
    fn three_updates_agree_with_pytorch() {
        let golden = Golden::read(include_str!("../../tests/reference/mir.json"));
        let mut learner = setup(&METHOD, &[("rate", golden.float("alpha"))], Mir::new);
        learner.theta = numbers(&golden["theta"]);
        learner.count = golden["k"].as_u64().unwrap() as usize;
        for step in golden["steps"].as_array().unwrap() {
            let (stream, pool) = (batch(&step["stream"]), batch(&step["candidates"]));
            let mut expected: Vec<usize> = labels(&step["chosen"]).iter().map(|&i| i as usize).collect();
            expected.sort_unstable();
            assert_eq!(learner.most_interfered(&stream, &pool), expected);
            golden.assert_close(&learner.before, &step["loss_before"]);
            golden.assert_close(&learner.after, &step["loss_after"]);
            learner.update(&stream, &pool);
            golden.assert_close(&learner.theta, &step["theta"]);
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
