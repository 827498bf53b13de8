//! iCaRL: incremental classifier and representation learning.
//!
//! - *Paper*: Rebuffi et al., "iCaRL: Incremental Classifier and Representation Learning", 2017.
//! - *Idea*: learn features with replay and distillation to the network of the last task's end; answer by
//!   the nearest mean of the exemplars' features.
//! - *Update rule*: theta <- theta - alpha grad [l(B u B_M) + strength * mean over B_M of
//!   KL(softmax f_frozen || softmax f_theta)], over the classes of each exemplar's own task.
//! - *Hyper-parameters*: alpha, strength; m exemplars per class per task.
//! - *Prediction*: among the means of all classes of the scenario; of the asked task's own exemplars alone
//!   where the scenario tells the task.
//! - *Deviations*: exemplars are the ring's latest samples, not herded: with one to five per class and a
//!   single pass there is nothing to herd from. Softmax cross-entropy instead of sigmoids. A task without
//!   exemplars yet is answered by the means over all tasks.

use hindsight_nn::{Inputs, Layer};

use super::{Method, Model, RATE, Setup, model::softmax, replay::Replay};
use crate::{
    Batch, Learner, RetainedSamples,
    settings::{Key, Kind, Scenario, Value},
    state::StateDict,
};

pub(super) const METHOD: Method = Method {
    name: "icarl",
    title: "iCaRL",
    summary: "distils from the last task's network; answers by the nearest mean of exemplars",
    paper: "Rebuffi et al., 2017 (iCaRL)",
    keys: &[
        RATE,
        Key::new("strength", Kind::Float(0.0, 1e6), Value::Float(1.0), "weight of the distillation loss"),
    ],
    cost: 4.0,
    bytes: |setup| setup.memory_bytes() + setup.theta_bytes(),
    without_task_ends: Some(
        "the network to distil from is kept when a task ends; on a stream without ends there is replay alone",
    ),
    build: |setup| Box::new(Icarl::new(setup)),
    ..Method::DEFAULT
};

struct Icarl {
    model: Model,
    scenario: Scenario,
    theta: Vec<f32>,
    replay: Replay,
    step: DistillingStep,
}

/// theta <- theta - alpha grad [l + strength * distillation].
struct DistillingStep {
    rate: f32,
    strength: f32,
    /// The parameters of the last task's end, and whether there was one.
    frozen: Vec<f32>,
    distils: bool,
    targets: Vec<f32>,
    pull: Vec<f32>,
}

impl DistillingStep {
    /// A step on a batch whose samples from `exemplars` on are replayed ones.
    fn update(&mut self, model: &mut Model, theta: &mut [f32], joined: &Batch, exemplars: usize) -> f32 {
        let replayed = joined.len() - exemplars;
        let distils = self.distils && replayed > 0;
        if distils {
            model.softmax(&self.frozen, joined, &mut self.targets);
        }
        let loss = model.loss(theta, joined);
        if distils {
            // The gradient of KL(p || q) in the logits of q is q - p.
            let stream = exemplars * model.net().classes();
            let scale = self.strength / replayed as f32;
            let (now, then) = (&model.tape().probabilities()[stream..], &self.targets[stream..]);
            self.pull.clear();
            self.pull.resize(stream, 0.0);
            self.pull.extend(now.iter().zip(then).map(|(q, p)| scale * (q - p)));
            model.tape().add_logits_seed(&self.pull);
        }
        model.backward(theta);
        model.accumulate(-self.rate, theta);
        model.update_running_stats(theta);
        loss
    }
}

impl Icarl {
    fn new(setup: &Setup<'_>) -> Icarl {
        Icarl {
            model: Model::new(setup),
            scenario: setup.scenario,
            theta: setup.initial_theta(),
            replay: Replay::new(setup),
            step: DistillingStep {
                rate: setup.method_settings.float("rate"),
                strength: setup.method_settings.float("strength"),
                frozen: vec![0.0; setup.net.parameters()],
                distils: false,
                targets: Vec::new(),
                pull: Vec::new(),
            },
        }
    }

    /// Mean of the normalised features of each class's exemplars, normalised; none where there is none. Where
    /// the task is told and has exemplars, those of others do not count.
    fn class_means(&self, task: usize) -> Vec<Option<Vec<f32>>> {
        let (samples, net) = (self.replay.ring.samples(), self.model.net());
        let mut means = vec![None; net.classes()];
        if samples.is_empty() {
            return means;
        }
        let told = self.scenario == Scenario::Task;
        let of_task = told && samples.tasks.iter().any(|&t| t as usize == task);
        let features = normalised(
            net.infer(&self.theta, &Inputs::dense(&samples.x, samples.width()), Layer::Features),
            net.features(),
        );
        for (feature, (_, label, of)) in features.chunks_exact(net.features()).zip(&*samples) {
            if !of_task || of as usize == task {
                let mean: &mut Vec<f32> =
                    means[label as usize].get_or_insert_with(|| vec![0.0; feature.len()]);
                mean.iter_mut().zip(feature).for_each(|(m, f)| *m += f);
            }
        }
        means.into_iter().map(|mean| mean.map(|mean| normalised(mean, net.features()))).collect()
    }

    /// The inner product of each row of features with each class mean, `[rows, classes]`; minus infinity
    /// where the task may not answer with a class or has no exemplars of it. None without any exemplar.
    fn scores(&self, features: &[f32], task: usize) -> Option<Vec<f32>> {
        let (means, net) = (self.class_means(task), self.model.net());
        let allowed = |class| self.model.heads().allows(task, class);
        let known = |class: usize| means[class].as_ref().filter(|_| allowed(class));
        if (0..net.classes()).all(|class| known(class).is_none()) {
            return None;
        }
        let near = |f: &[f32], mean: &[f32]| f.iter().zip(mean).map(|(f, m)| f * m).sum::<f32>();
        let mut scores = Vec::with_capacity(features.len() / net.features() * net.classes());
        for f in features.chunks_exact(net.features()) {
            let classes = (0..net.classes()).map(known);
            scores.extend(classes.map(|mean| mean.map_or(f32::NEG_INFINITY, |mean| near(f, mean))));
        }
        Some(scores)
    }
}

/// Rows of length one; only rows of zeros stay shorter.
fn normalised(mut rows: Vec<f32>, width: usize) -> Vec<f32> {
    for row in rows.chunks_exact_mut(width) {
        let norm = row.iter().map(|x| x * x).sum::<f32>().max(1e-12).sqrt();
        row.iter_mut().for_each(|x| *x /= norm);
    }
    rows
}

impl Learner for Icarl {
    fn observe(&mut self, batch: &Batch) -> f32 {
        let joined = self.replay.join(batch);
        let loss = self.step.update(&mut self.model, &mut self.theta, joined, batch.len());
        self.replay.ring.write(batch);
        loss
    }

    fn end_task(&mut self) {
        self.replay.ring.end_task();
        self.step.frozen.copy_from_slice(&self.theta);
        self.step.distils = true;
    }

    fn predict(&self, inputs: &Inputs<'_>, task: usize) -> Vec<u32> {
        let net = self.model.net();
        // The nearest mean is the one with the largest inner product, whatever the length of the features.
        let Some(scores) = self.scores(&net.infer(&self.theta, inputs, Layer::Features), task) else {
            return self.model.predict(&self.theta, inputs, task);
        };
        let best =
            |row: &[f32]| (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap_or(0) as u32;
        scores.chunks_exact(net.classes()).map(best).collect()
    }

    /// The softmax of the negative squared distances to the class means, which are 2 - 2 <f, m> between
    /// vectors of length one; zero for classes without exemplars.
    fn predict_proba(&self, inputs: &Inputs<'_>, task: usize) -> Vec<f32> {
        let net = self.model.net();
        let features = normalised(net.infer(&self.theta, inputs, Layer::Features), net.features());
        let Some(mut rows) = self.scores(&features, task) else {
            return self.model.predict_proba(&self.theta, inputs, task);
        };
        for row in rows.chunks_exact_mut(net.classes()) {
            row.iter_mut().for_each(|score| *score *= 2.0);
            softmax(row, |_| true);
        }
        rows
    }

    fn theta(&self) -> &[f32] {
        &self.theta
    }

    fn state(&mut self) -> StateDict<'_> {
        let DistillingStep { frozen, distils, .. } = &mut self.step;
        let mut parts: StateDict<'_> =
            vec![("theta", &mut self.theta), ("frozen", frozen), ("distils", distils)];
        parts.extend(self.replay.state());
        parts
    }

    fn retained_samples(&self) -> RetainedSamples<'_> {
        self.replay.ring.retained()
    }

    fn retained_bytes(&self) -> u64 {
        self.retained_samples().bytes() + size_of_val(self.step.frozen.as_slice()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::golden::{Golden, batch, labels, numbers, setup, setup_with_heads};

    fn check(golden: &Golden, case: &str, mut learner: Icarl) {
        learner.theta = numbers(&golden["theta"]);
        learner.step.frozen = numbers(&golden["theta_frozen"]);
        learner.step.distils = true;
        let mut first_task = 0;
        for (data, expected) in golden.pairs("batches", case) {
            let mut joined = batch(&data["stream"]);
            let exemplars = joined.len();
            joined.extend(&batch(&data["exemplars"]));
            joined.tasks = (first_task..).take(joined.len()).collect();
            first_task += joined.len() as u32;
            let Icarl { model, theta, step, .. } = &mut learner;
            let loss = step.update(model, theta, &joined, exemplars);
            golden.assert_close(&[loss], &expected["cross_entropy"]);
            golden.assert_close(theta, &expected["theta"]);
        }
    }

    #[test]
    fn three_updates_agree_with_pytorch() {
        let golden = Golden::read(include_str!("../../tests/reference/icarl.json"));
        let set = [("rate", golden.float("alpha")), ("strength", golden.float("strength"))];
        check(&golden, "unmasked", setup(&METHOD, &set, Icarl::new));
        let masks =
            golden["batches"].as_array().unwrap().iter().flat_map(|b| [&b["stream"], &b["exemplars"]]);
        let masks: Vec<&serde_json::Value> = masks.map(|b| &b["mask"]).collect();
        check(&golden, "masked", setup_with_heads(&METHOD, &set, &masks, Icarl::new));
    }

    #[test]
    fn predictions_by_the_nearest_mean_agree_with_pytorch() {
        let golden = Golden::read(include_str!("../../tests/reference/icarl.json"));
        let prediction = &golden["prediction"];
        // The ring keeps two exemplars per class.
        let mut learner = setup(&METHOD, &[], Icarl::new);
        learner.replay.ring = crate::memory::Memory::Ring(crate::memory::Ring::new(2, false));
        learner.theta = numbers(&golden["theta"]);
        learner.replay.ring.write(&batch(&prediction["exemplars"]));
        let means: Vec<f32> = learner.class_means(0).into_iter().flatten().flatten().collect();
        golden.assert_close(&means, &prediction["class_means"]);
        let queries = numbers(&prediction["queries"]);
        assert_eq!(learner.predict(&Inputs::dense(&queries, 6), 0), labels(&prediction["predicted"]));
    }
}
