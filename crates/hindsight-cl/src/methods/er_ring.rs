//! ER-Ring: experience replay from a ring memory.
//!
//! - *Paper*: Chaudhry et al., "On Tiny Episodic Memories in Continual Learning", 2019.
//! - *Idea*: mix every batch of the stream with a few remembered samples of past tasks.
//! - *Update rule*: theta <- theta - alpha grad l(B u B_M), one mean over the joined batch.
//! - *Hyper-parameters*: alpha; m slots per class per task.
//! - *Deviations*: none; `replay_from = "all"` also replays the running task.

use super::{
    AVERAGE, MEMORY, Method, RATE, STATISTICS, Setup, UPDATES,
    replay::{ReplayCore, Replayed, Update},
};
use crate::Batch;

pub(super) const METHOD: Method = Method {
    name: "er-ring",
    title: "ER-Ring",
    summary: "replays the latest m samples of each class of each past task",
    paper: "Chaudhry et al., 2019 (tiny episodic memories)",
    keys: &[RATE, MEMORY, AVERAGE, STATISTICS, UPDATES],
    gradient_step: true,
    cost: 1.7,
    bytes: |setup| setup.memory_bytes(),
    without_task_ends: Some(super::RING_WITHOUT_TASK_ENDS),
    build: |setup| Box::new(Replayed::new(setup, ErRing::new(setup))),
    ..Method::DEFAULT
};

struct ErRing {
    rate: f32,
}

impl ErRing {
    fn new(setup: &Setup<'_>) -> ErRing {
        ErRing { rate: setup.method_settings.float("rate") }
    }
}

impl Update for ErRing {
    fn observe(&mut self, ReplayCore { model, theta, replay }: &mut ReplayCore, batch: &Batch) -> f32 {
        model.step(theta, replay.join(batch), self.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::{
        Model,
        golden::{Golden, batch, numbers, setup, setup_with_heads},
    };

    #[test]
    fn three_updates_agree_with_pytorch() {
        let golden = Golden::read(include_str!("../../tests/reference/finetune_er.json"));
        let rate = [("rate", golden.float("alpha"))];
        let lists = ["stream", "replay"].map(|list| golden[list].as_array().unwrap());
        let masks: Vec<_> =
            lists[0].iter().zip(lists[1]).flat_map(|(s, r)| [&s["mask"], &r["mask"]]).collect();
        let build = |setup: &Setup<'_>| (Model::new(setup), ErRing::new(setup));
        for (case, (mut model, ErRing { rate })) in [
            ("er", setup(&METHOD, &rate, build)),
            ("er_masked", setup_with_heads(&METHOD, &rate, &masks, build)),
        ] {
            let mut theta = numbers(&golden["theta"]);
            let mut first_task = 0;
            for ((stream, step), replay) in golden.pairs("stream", case).zip(lists[1]) {
                let mut joined = batch(stream);
                joined.extend(&batch(replay));
                joined.tasks = (first_task..).take(joined.len()).collect();
                first_task += joined.len() as u32;
                let loss = model.step(&mut theta, &joined, rate);
                golden.assert_close(&[loss], &step["loss"]);
                golden.assert_close(&theta, &step["theta"]);
            }
        }
    }
}
