//! Averaged weights, for any method that answers with its theta.
//!
//! After each batch, average <- a average + (1 - a) theta, with a the smaller of the setting and n / (n + 1)
//! for the n-th batch, so that the random start is forgotten at once (Polyak averaging; the weights of a mean
//! teacher: Tarvainen and Valpola, 2017). Running statistics of batch-norm are averaged likewise. The method
//! itself learns as it does without.

use hindsight_nn::{Inputs, params};

use super::{AVERAGE, Model, Setup};
use crate::{Batch, Learner, RetainedSamples, state::StateDict};

struct Averaged {
    learner: Box<dyn Learner>,
    model: Model,
    average: Vec<f32>,
    decay: f32,
    batches: usize,
}

/// `learner`, answering with an average of its theta where the settings ask for one.
pub(super) fn averaged(learner: Box<dyn Learner>, setup: &Setup<'_>) -> Box<dyn Learner> {
    let decay = setup.method_settings.float(AVERAGE.name);
    if decay == 0.0 {
        return learner;
    }
    let average = learner.theta().to_vec();
    Box::new(Averaged { learner, model: Model::new(setup), average, decay, batches: 0 })
}

/// The share that an average keeps at batch `n`, counted from one.
pub(super) fn share(n: usize, decay: f32) -> f32 {
    decay.min(n as f32 / (n + 1) as f32)
}

impl Learner for Averaged {
    fn observe(&mut self, batch: &Batch) -> f32 {
        let loss = self.learner.observe(batch);
        self.batches += 1;
        params::blend(share(self.batches, self.decay), self.learner.theta(), &mut self.average);
        loss
    }

    fn end_task(&mut self) {
        self.learner.end_task();
    }

    fn predict(&self, inputs: &Inputs<'_>, task: usize) -> Vec<u32> {
        self.model.predict(&self.average, inputs, task)
    }

    fn predict_proba(&self, inputs: &Inputs<'_>, task: usize) -> Vec<f32> {
        self.model.predict_proba(&self.average, inputs, task)
    }

    fn theta(&self) -> &[f32] {
        &self.average
    }

    fn state(&mut self) -> StateDict<'_> {
        let mut parts = self.learner.state();
        parts.push(("average", &mut self.average));
        parts.push(("averaged", &mut self.batches));
        parts
    }

    fn retained_samples(&self) -> RetainedSamples<'_> {
        self.learner.retained_samples()
    }

    fn retained_bytes(&self) -> u64 {
        self.learner.retained_bytes() + size_of_val(self.average.as_slice()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::{
        finetune,
        golden::{Golden, batch, numbers, setup},
    };

    #[test]
    fn answers_are_those_of_the_average_and_learning_is_unchanged() {
        let golden = Golden::read(include_str!("../../tests/reference/finetune_er.json"));
        let set = [("rate", golden.float("alpha")), ("average", 0.6.into())];
        let theta = numbers(&golden["theta"]);
        let mut learner = setup(&finetune::METHOD, &set, |setup| {
            finetune::METHOD.learner(&Setup { initial: Some(&theta), ..setup.clone() })
        });
        let mut expected = theta;
        for ((data, step), share) in golden.pairs("stream", "finetune").zip([0.5, 0.6, 0.6]) {
            let loss = learner.observe(&batch(data));
            golden.assert_close(&[loss], &step["loss"]);
            let theta = numbers(&step["theta"]);
            expected.iter_mut().zip(&theta).for_each(|(e, t)| *e = share * *e + (1.0 - share) * t);
            learner.theta().iter().zip(&expected).for_each(|(a, b)| assert!((a - b).abs() < 1e-5));
        }
        assert_eq!(learner.retained_bytes(), 4 * expected.len() as u64);
    }
}
