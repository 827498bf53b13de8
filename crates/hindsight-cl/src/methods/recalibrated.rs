//! Statistics of the memory in answers, for methods that keep samples and answer with their theta.
//!
//! Running averages keep a tenth of each batch, so that they describe the latest batches: mostly the running
//! task. At any time the samples in memory are of all tasks. One pass over them at theta, in batches as large
//! as those of training, gives the statistics that the answers take: the mean over these batches, as after
//! averaging weights (Izmailov et al., 2018, "Averaging Weights Leads to Wider Optima and Better
//! Generalization"). The method itself learns as it does without. A network without batch-norm has none.

use std::sync::OnceLock;

use hindsight_nn::{BatchNormMode, Inputs};

use super::{AnswerStatistics, Model, STATISTICS, Setup};
use crate::{Batch, Learner, RetainedSamples, state::StateDict};

struct Recalibrated {
    learner: Box<dyn Learner>,
    model: Model,
    /// Samples in a batch of the pass.
    batch: usize,
    /// Theta with the statistics of the memory, once an answer was asked for.
    answering: OnceLock<Vec<f32>>,
}

/// `learner`, answering with statistics of its memory where the settings ask for it and the network has any.
pub(super) fn recalibrated(learner: Box<dyn Learner>, setup: &Setup<'_>) -> Box<dyn Learner> {
    let has_statistics = setup.net.parameters() > setup.net.trainable();
    match setup.method_settings.choice(STATISTICS.name) {
        AnswerStatistics::Memory if has_statistics => Box::new(Recalibrated {
            learner,
            model: Model::new(setup),
            batch: setup.shared.batch + setup.shared.replay_batch,
            answering: OnceLock::new(),
        }),
        AnswerStatistics::Memory | AnswerStatistics::Running => learner,
    }
}

impl Recalibrated {
    fn answering(&self) -> &[f32] {
        self.answering.get_or_init(|| {
            let theta = self.learner.theta();
            let mut answering = theta.to_vec();
            let retained = self.learner.retained_samples();
            let Some(memory) = retained.memory.as_deref() else { return answering };
            let mut model = self.model.fork(BatchNormMode::Batch);
            let batches = memory.len().div_ceil(self.batch);
            for first in 0..batches {
                // Every so many samples, since a ring has those of a task side by side.
                let samples: Batch =
                    (first..memory.len()).step_by(batches).map(|i| memory.sample(i)).collect();
                model.forward(theta, &samples.x);
                model.blend_running_stats(1.0 / (first + 1) as f32, &mut answering);
            }
            answering
        })
    }
}

impl Learner for Recalibrated {
    fn observe(&mut self, batch: &Batch) -> f32 {
        self.answering.take();
        self.learner.observe(batch)
    }

    fn end_task(&mut self) {
        self.answering.take();
        self.learner.end_task();
    }

    fn predict(&self, inputs: &Inputs<'_>, task: usize) -> Vec<u32> {
        self.model.predict(self.answering(), inputs, task)
    }

    fn predict_proba(&self, inputs: &Inputs<'_>, task: usize) -> Vec<f32> {
        self.model.predict_proba(self.answering(), inputs, task)
    }

    fn theta(&self) -> &[f32] {
        self.answering()
    }

    /// Looked at while it learns: a pass over the memory would take longer than the look.
    fn is_finite(&self) -> bool {
        self.learner.is_finite()
    }

    fn state(&mut self) -> StateDict<'_> {
        self.answering.take();
        self.learner.state()
    }

    fn retained_samples(&self) -> RetainedSamples<'_> {
        self.learner.retained_samples()
    }

    fn retained_bytes(&self) -> u64 {
        self.learner.retained_bytes()
    }
}
