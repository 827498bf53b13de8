//! ER-Ring: experience replay from a ring memory.
//!
//! - *Paper*: Chaudhry et al., "On Tiny Episodic Memories in Continual Learning", 2019.
//! - *Idea*: mix every batch of the stream with a few remembered samples of past tasks.
//! - *Update rule*: theta <- theta - alpha grad l(B u B_M), one mean over the joined batch.
//! - *Hyper-parameters*: alpha; m slots per class per task.
//! - *Deviations*: none; `replay_from = "all"` also replays the running task.

use hindsight_nn::Inputs;

use super::{MEMORY, Method, Model, RATE, Setup, replay::Replay};
use crate::{Batch, Learner, RetainedSamples, state::StateDict};

pub(super) const METHOD: Method = Method {
    name: "er-ring",
    title: "ER-Ring",
    summary: "replays the latest m samples of each class of each past task",
    paper: "Chaudhry et al., 2019 (tiny episodic memories)",
    keys: &[RATE, MEMORY],
    cost: 1.7,
    without_ends: Some(super::RING_WITHOUT_ENDS),
    build: |setup| Box::new(ErRing::new(setup)),
    ..Method::DEFAULT
};

struct ErRing {
    model: Model,
    theta: Vec<f32>,
    rate: f32,
    replay: Replay,
}

impl ErRing {
    fn new(setup: &Setup<'_>) -> ErRing {
        ErRing {
            model: Model::new(setup),
            theta: setup.initial_theta(),
            rate: setup.method_settings.float("rate"),
            replay: Replay::new(setup),
        }
    }
}

impl Learner for ErRing {
    fn observe(&mut self, batch: &Batch) -> f32 {
        let loss = self.model.step(&mut self.theta, self.replay.join(batch), self.rate);
        self.replay.ring.write(batch);
        loss
    }

    fn end_task(&mut self) {
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

    fn state(&mut self) -> StateDict<'_> {
        let mut parts: StateDict<'_> = vec![("theta", &mut self.theta)];
        parts.extend(self.replay.state());
        parts
    }

    fn retained_samples(&self) -> RetainedSamples<'_> {
        RetainedSamples { memory: Some(self.replay.ring.samples()), anchors: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::golden::{Golden, batch, numbers, setup, setup_with_heads};

    #[test]
    fn three_updates_agree_with_pytorch() {
        let golden = Golden::read(include_str!("../../tests/reference/finetune_er.json"));
        let rate = [("rate", golden.float("alpha"))];
        let lists = ["stream", "replay"].map(|list| golden[list].as_array().unwrap());
        let masks: Vec<_> =
            lists[0].iter().zip(lists[1]).flat_map(|(s, r)| [&s["mask"], &r["mask"]]).collect();
        for (case, learner) in [
            ("er", setup(&METHOD, &rate, ErRing::new)),
            ("er_masked", setup_with_heads(&METHOD, &rate, &masks, ErRing::new)),
        ] {
            let mut learner = ErRing { theta: numbers(&golden["theta"]), ..learner };
            let mut first_task = 0;
            for ((stream, step), replay) in golden.pairs("stream", case).zip(lists[1]) {
                let mut joined = batch(stream);
                joined.extend(&batch(replay));
                joined.tasks = (first_task..).take(joined.len()).collect();
                first_task += joined.len() as u32;
                let loss = learner.model.step(&mut learner.theta, &joined, learner.rate);
                golden.assert_close(&[loss], &step["loss"]);
                golden.assert_close(&learner.theta, &step["theta"]);
            }
        }
    }
}
