//! Clone-and-finetune: one network per task.
//!
//! - *Paper*: an oracle baseline of Chaudhry et al., "Using Hindsight to Anchor Past Knowledge in Continual
//!   Learning", 2021.
//! - *Idea*: keep a copy of the network at the end of each task; a task is answered by its own copy. Nothing
//!   is forgotten, at the price of a network per task and of knowing the task.
//! - *Update rule*: as finetune; each task starts from the last one's copy.
//! - *Hyper-parameters*: alpha.
//! - *Deviations*: none. A task without a copy yet is answered by the running network.

use hindsight_nn::Inputs;

use super::{Method, Model, RATE};
use crate::{
    Batch, Learner,
    state::{State, StateDict, StateError, Tensors},
};

pub(super) const METHOD: Method = Method {
    name: "clone-and-finetune",
    title: "Clone-and-finetune",
    summary: "a copy of the network per task, which answers for it (oracle)",
    paper: "Chaudhry et al., 2021 (a baseline)",
    keys: &[RATE],
    oracle: true,
    bytes: |setup| setup.tasks as u64 * setup.theta_bytes(),
    needs_task: true,
    without_task_ends: Some(
        "a copy is kept when a task ends; on a stream without ends it learns as finetune does",
    ),
    build: |setup| {
        Box::new(CloneAndFinetune {
            model: Model::new(setup),
            theta: setup.initial_theta(),
            rate: setup.method_settings.float("rate"),
            copies: Copies {
                fresh: setup.initial_theta(),
                values: Vec::new(),
                tasks: Vec::new(),
                running: 0,
            },
        })
    },
    ..Method::DEFAULT
};

struct CloneAndFinetune {
    model: Model,
    theta: Vec<f32>,
    rate: f32,
    copies: Copies,
}

/// A theta per finished task, one after the other; a task that comes back replaces its own.
struct Copies {
    /// What a copy has for classes that came after it.
    fresh: Vec<f32>,
    values: Vec<f32>,
    /// The task of each copy.
    tasks: Vec<u64>,
    /// The task that the last batch was of.
    running: u64,
}

impl State for Copies {
    fn save(&self, name: &str, to: &mut Tensors) {
        to.put_rows(name, &self.values, self.fresh.len());
        let running = [self.running];
        to.put_numbers(&format!("{name}.tasks"), self.tasks.iter().chain(&running).copied().collect());
    }

    fn load(&mut self, name: &str, from: &Tensors) -> Result<(), StateError> {
        self.values = from.parameter_rows(name, &self.fresh)?;
        let copies = self.values.len() / self.fresh.len().max(1);
        let part = format!("{name}.tasks");
        // Until tasks could come back, the copies were of all tasks in order.
        self.tasks = match from.get(&part) {
            Some(_) => from.numbers(&part)?,
            None => (0..=copies as u64).collect(),
        };
        if self.tasks.len() != copies + 1 {
            let expected = format!("{} numbers", copies + 1);
            return Err(StateError::new(&part, format!("{} numbers", self.tasks.len()), expected));
        }
        self.running = self.tasks.pop().unwrap_or(0);
        Ok(())
    }
}

impl Copies {
    fn place(&self, task: u64) -> Option<usize> {
        self.tasks.iter().position(|&of| of == task)
    }

    fn keep(&mut self, theta: &[f32]) {
        match self.place(self.running) {
            Some(place) => self.values[place * theta.len()..][..theta.len()].copy_from_slice(theta),
            None => {
                self.values.extend_from_slice(theta);
                self.tasks.push(self.running);
            }
        }
        self.running += 1;
    }
}

impl CloneAndFinetune {
    fn copy(&self, task: usize) -> &[f32] {
        let width = self.theta.len();
        self.copies
            .place(task as u64)
            .map_or(&self.theta, |place| &self.copies.values[place * width..][..width])
    }
}

impl Learner for CloneAndFinetune {
    fn observe(&mut self, batch: &Batch) -> f32 {
        self.copies.running = batch.tasks.last().map_or(self.copies.running, |&task| task.into());
        self.model.step(&mut self.theta, batch, self.rate)
    }

    fn end_task(&mut self) {
        self.copies.keep(&self.theta);
    }

    fn predict(&self, inputs: &Inputs<'_>, task: usize) -> Vec<u32> {
        self.model.predict(self.copy(task), inputs, task)
    }

    fn predict_proba(&self, inputs: &Inputs<'_>, task: usize) -> Vec<f32> {
        self.model.predict_proba(self.copy(task), inputs, task)
    }

    fn theta(&self) -> &[f32] {
        &self.theta
    }

    fn state(&mut self) -> StateDict<'_> {
        vec![("theta", &mut self.theta), ("copies", &mut self.copies)]
    }

    fn retained_bytes(&self) -> u64 {
        size_of_val(self.copies.values.as_slice()) as u64
    }
}
