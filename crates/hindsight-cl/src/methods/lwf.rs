//! LwF: learning without forgetting.
//!
//! - *Paper*: Li and Hoiem, "Learning without Forgetting", 2016.
//! - *Idea*: keep nothing of the past but the network of the last task's end, and hold the answers on what
//!   comes now to those that it gives.
//! - *Update rule*: theta <- theta - alpha grad [l(B) + strength * mean over B, sum over the heads of past
//!   tasks, of KL(softmax f_frozen / T || softmax f_theta / T)].
//! - *Hyper-parameters*: alpha, strength, the temperature T.
//! - *Deviations*: none of the paper's warm-up of new heads. With a single head the past has that head.

use hindsight_nn::Inputs;

use super::{AVERAGE, Method, Model, RATE, Setup, model::softmax};
use crate::{
    Batch, Learner,
    settings::{Key, Kind, Value},
    state::StateDict,
};

pub(super) const METHOD: Method = Method {
    name: "lwf",
    title: "LwF",
    summary: "holds the answers on new samples to those of the last task's network",
    paper: "Li and Hoiem, 2016 (learning without forgetting)",
    keys: &[
        RATE,
        AVERAGE,
        Key::tuned(
            "strength",
            Kind::Float(0.0, 1e6),
            [1.0, 1.0, 1.0],
            &[0.1, 0.3, 1.0, 3.0, 10.0],
            "weight of the distillation loss",
        ),
        Key::new("temperature", Kind::Float(1e-3, 1e3), Value::Float(2.0), "T: softens both answers"),
    ],
    cost: 1.7,
    bytes: |setup| setup.theta_bytes(),
    without_task_ends: Some(
        "the network to distil from is kept when a task ends; on a stream without ends it learns as finetune does",
    ),
    build: |setup| Box::new(Lwf::new(setup)),
    ..Method::DEFAULT
};

struct Lwf {
    model: Model,
    theta: Vec<f32>,
    rate: f32,
    strength: f32,
    temperature: f32,
    /// The parameters of the last task's end, and how many tasks there have been by then.
    frozen: Vec<f32>,
    past: usize,
    /// The task of the last batch.
    task: usize,
    pull: Vec<f32>,
}

impl Lwf {
    fn new(setup: &Setup<'_>) -> Lwf {
        Lwf {
            model: Model::new(setup),
            theta: setup.initial_theta(),
            rate: setup.method_settings.float("rate"),
            strength: setup.method_settings.float("strength"),
            temperature: setup.method_settings.float("temperature"),
            frozen: vec![0.0; setup.net.parameters()],
            past: 0,
            task: 0,
            pull: Vec::new(),
        }
    }

    /// Adds the gradient of the distillation loss to what is seeded.
    fn distil(&mut self, batch: &Batch) {
        let Lwf { model, frozen, pull, temperature, .. } = self;
        let (classes, heads) = (model.net().classes(), model.heads().clone());
        let all: Vec<usize> = (0..classes).collect();
        let heads: Vec<&[usize]> = match heads.per_task() {
            None => vec![&all],
            Some(tasks) => tasks.iter().take(self.past).map(Vec::as_slice).collect(),
        };
        // The gradient of KL(p || q) in the logits of q at temperature T is (q - p) / T.
        let scale = self.strength / (batch.len() as f32 * *temperature);
        let soften = |row: &[f32], head: &[usize]| {
            let mut row: Vec<f32> = head.iter().map(|&class| row[class] / *temperature).collect();
            softmax(&mut row, |_| true);
            row
        };
        let then = model.answer_logits(frozen, &batch.x).to_vec();
        pull.clear();
        pull.resize(then.len(), 0.0);
        let rows = model.tape().logits().chunks_exact(classes).zip(then.chunks_exact(classes));
        for ((now, then), pull) in rows.zip(pull.chunks_exact_mut(classes)) {
            for head in &heads {
                let answers = soften(now, head).into_iter().zip(soften(then, head));
                head.iter().zip(answers).for_each(|(&class, (q, p))| pull[class] += scale * (q - p));
            }
        }
        model.tape().add_logits_seed(pull);
    }
}

impl Learner for Lwf {
    fn observe(&mut self, batch: &Batch) -> f32 {
        let loss = self.model.loss(&self.theta, batch);
        if self.past > 0 && self.strength > 0.0 {
            self.distil(batch);
        }
        self.model.step_seeded(&mut self.theta, self.rate);
        self.task = batch.tasks.last().map_or(self.task, |&task| task as usize);
        loss
    }

    fn end_task(&mut self) {
        self.frozen.copy_from_slice(&self.theta);
        self.past = self.task + 1;
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
        vec![
            ("theta", &mut self.theta),
            ("frozen", &mut self.frozen),
            ("past", &mut self.past),
            ("task", &mut self.task),
        ]
    }

    fn retained_bytes(&self) -> u64 {
        size_of_val(self.frozen.as_slice()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::golden::{Golden, batch, numbers, setup, setup_with_heads};

    fn check(golden: &Golden, case: &str, mut learner: Lwf, past: usize) {
        learner.theta = numbers(&golden["theta"]);
        learner.frozen = numbers(&golden["theta_frozen"]);
        learner.past = past;
        for (data, step) in golden.pairs("batches", case) {
            let mut stream = batch(data);
            stream.tasks.fill(if past == 1 { 0 } else { 2 });
            learner.observe(&stream);
            golden.assert_close(&learner.theta, &step["theta"]);
        }
    }

    #[test]
    fn three_updates_agree_with_pytorch() {
        let golden = Golden::read(include_str!("../../tests/reference/lwf.json"));
        let set = ["rate", "strength", "temperature"].map(|key| (key, golden.float(key)));
        check(&golden, "single", setup(&METHOD, &set, Lwf::new), 1);
        // Two past tasks with a head each, and the running one with all classes.
        check(&golden, "heads", setup_with_heads(&METHOD, &set, &[&golden["head_masks"]], Lwf::new), 2);
    }
}
