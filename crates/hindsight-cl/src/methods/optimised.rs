//! Momentum and Adam for methods whose update is a gradient step.
//!
//! A method moves theta by -alpha g, where g is the gradient of its loss, joined with replay, projected or
//! anchored as the method has it. Whatever g is, it can be read off the step; the optimiser takes it from
//! there: v <- 0.9 v + g and theta <- theta - alpha v, or Adam with its usual constants. Running statistics
//! stay as the method left them. Plain SGD is the method itself, untouched. What a method does within
//! `observe` at the end of a task that it finds by itself (`consolidate_every`) sees its own step.

use hindsight_nn::{Inputs, optim::Adam};

use super::{Method, Setup};
use crate::{Batch, Learner, RetainedSamples, settings::Optimiser, state::StateDict};

/// `learner` of a method, with the optimiser that is set.
pub(super) fn optimised(learner: Box<dyn Learner>, method: &Method, setup: &Setup<'_>) -> Box<dyn Learner> {
    if !method.gradient_step {
        return learner;
    }
    let (rate, len) = (setup.method_settings.float("rate"), setup.net.trainable());
    let rule = match setup.shared.optimiser {
        Optimiser::Sgd => return learner,
        Optimiser::Momentum => Rule::Momentum(vec![0.0; len]),
        Optimiser::Adam => Rule::Adam(Adam::new(rate, len)),
    };
    Box::new(Optimised { learner, rule, rate, before: Vec::new(), gradient: Vec::new() })
}

/// Of the velocity that stays from one step to the next.
const MOMENTUM: f32 = 0.9;

enum Rule {
    Momentum(Vec<f32>),
    Adam(Adam<f32>),
}

/// A learner whose steps are replaced.
struct Optimised {
    learner: Box<dyn Learner>,
    rule: Rule,
    rate: f32,
    before: Vec<f32>,
    gradient: Vec<f32>,
}

impl Learner for Optimised {
    fn observe(&mut self, batch: &Batch) -> f32 {
        let Optimised { learner, rule, rate, before, gradient } = self;
        before.clear();
        before.extend_from_slice(learner.theta());
        let loss = learner.observe(batch);
        let theta = learner.theta_mut().expect("a method with `gradient_step` gives its theta");
        let trained = match rule {
            Rule::Momentum(velocity) => velocity.len(),
            Rule::Adam(adam) => adam.moments().1[0].len(),
        };
        let theta = &mut theta[..trained];
        gradient.clear();
        gradient.extend(before.iter().zip(&*theta).map(|(before, after)| (before - after) / *rate));
        theta.copy_from_slice(&before[..trained]);
        match rule {
            Rule::Momentum(velocity) => {
                for ((v, g), theta) in velocity.iter_mut().zip(&*gradient).zip(theta) {
                    *v = MOMENTUM * *v + g;
                    *theta -= *rate * *v;
                }
            }
            Rule::Adam(adam) => adam.step(theta, gradient),
        }
        loss
    }

    fn end_task(&mut self) {
        self.learner.end_task();
    }

    fn predict(&self, inputs: &Inputs<'_>, task: usize) -> Vec<u32> {
        self.learner.predict(inputs, task)
    }

    fn predict_proba(&self, inputs: &Inputs<'_>, task: usize) -> Vec<f32> {
        self.learner.predict_proba(inputs, task)
    }

    fn theta(&self) -> &[f32] {
        self.learner.theta()
    }

    fn theta_mut(&mut self) -> Option<&mut [f32]> {
        self.learner.theta_mut()
    }

    fn state(&mut self) -> StateDict<'_> {
        let mut state = self.learner.state();
        state.push((
            "optimiser",
            match &mut self.rule {
                Rule::Momentum(velocity) => velocity,
                Rule::Adam(adam) => adam,
            },
        ));
        state
    }

    fn retained_samples(&self) -> RetainedSamples<'_> {
        self.learner.retained_samples()
    }

    fn retained_bytes(&self) -> u64 {
        self.learner.retained_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Agent,
        methods::{
            METHODS, finetune,
            golden::{Golden, batch as golden_batch, numbers, setup},
        },
        settings::Value,
    };

    #[test]
    fn steps_are_those_of_the_definitions() {
        let golden = Golden::read(include_str!("../../tests/reference/finetune_er.json"));
        let rate = 0.05;
        for optimiser in [Optimiser::Momentum, Optimiser::Adam] {
            let (mut sgd, mut optimised) =
                setup(&finetune::METHOD, &[("rate", Value::Float(rate))], |setup| {
                    let mut with = setup.clone();
                    with.shared.optimiser = optimiser;
                    (finetune::METHOD.learner(setup), finetune::METHOD.learner(&with))
                });
            let mut theta = numbers(&golden["theta"]);
            let (mut m, mut v) = (vec![0.0; theta.len()], vec![0.0; theta.len()]);
            for (t, (data, _)) in (1..).zip(golden.pairs("stream", "finetune")) {
                let batch = golden_batch(data);
                // The gradient, by a step of plain SGD from the same place.
                for learner in [&mut sgd, &mut optimised] {
                    learner.theta_mut().unwrap().copy_from_slice(&theta);
                    learner.observe(&batch);
                }
                for i in 0..theta.len() {
                    let g = f64::from(theta[i] - sgd.theta()[i]) / rate;
                    let expected = if optimiser == Optimiser::Momentum {
                        m[i] = 0.9 * m[i] + g;
                        rate * m[i]
                    } else {
                        m[i] = 0.9 * m[i] + 0.1 * g;
                        v[i] = 0.999 * v[i] + 0.001 * g * g;
                        let (mean, square) =
                            (m[i] / (1.0 - 0.9_f64.powi(t)), v[i] / (1.0 - 0.999_f64.powi(t)));
                        rate * mean / (square.sqrt() + 1e-8)
                    };
                    let found = f64::from(theta[i] - optimised.theta()[i]);
                    // A gradient of zero that rounding has given a sign is no step of Adam's.
                    let tiny = g.abs() < 1e-5 && optimiser == Optimiser::Adam;
                    assert!(
                        tiny || (found - expected).abs() < 1e-5,
                        "step {t}, {i}: {found}, expected {expected}"
                    );
                }
                theta.copy_from_slice(optimised.theta());
            }
        }
    }

    fn batch(step: usize) -> ([f32; 8], [u32; 4]) {
        let x = std::array::from_fn(|i| ((step * 8 + i) * 37 % 19) as f32 / 9.0 - 1.0);
        (x, std::array::from_fn(|i| ((step + i) % 3) as u32))
    }

    #[test]
    fn every_gradient_method_is_saved_and_loaded_with_it_and_others_refuse_it() {
        let folder = tempfile::tempdir().unwrap();
        for method in METHODS.iter().filter(|method| !method.joint) {
            let builder =
                Agent::builder(2, 3).method(method.name).set("hidden", vec![4]).set("optimiser", "adam");
            let built = builder.build();
            if !method.gradient_step {
                let error = built.unwrap_err().to_string();
                assert!(error.contains("`optimiser`") && error.contains(method.name), "{error}");
                continue;
            }
            let (mut agent, path) = (built.unwrap(), folder.path().join(method.name));
            for step in 0..6 {
                let (x, labels) = batch(step);
                agent.observe(&x, &labels, 0).unwrap();
                if step == 2 {
                    agent.end_task();
                    agent.save(&path).unwrap();
                }
            }
            let mut again = Agent::load(&path).unwrap();
            for step in 3..6 {
                let (x, labels) = batch(step);
                again.observe(&x, &labels, 0).unwrap();
            }
            assert_eq!(agent.learner().theta(), again.learner().theta(), "{}", method.name);
        }
    }
}
