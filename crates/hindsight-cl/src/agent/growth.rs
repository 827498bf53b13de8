//! An open agent: classes and tasks that nobody announced.
//!
//! A learner that knows more classes is a new one of the same configuration that takes over the state of the
//! old ([`Growth`]): what the old one did not have is as in a fresh learner. The output weights of a class
//! are drawn by a generator of its own, so that they are the same whenever the class comes.

use std::sync::RwLock;

use hindsight_nn::{Net, Rng};

use super::{Agent, AgentError};
use crate::{Shape, run::network, state::Growth};

/// More would hardly be classes.
const MOST_CLASSES: usize = 1 << 16;

impl Agent {
    /// From now on it takes classes and tasks that were not announced.
    pub fn open(&mut self) {
        let interface = &mut self.interface;
        interface.application.known.get_or_insert(interface.shape.classes);
    }

    /// The number of the class called `name`; an open agent gets a new one where there is none.
    pub fn class_id(&mut self, name: &str) -> Result<u32, AgentError> {
        let names = self.interface.shape.names.as_deref();
        if let Some(known) = names.and_then(|names| names.iter().position(|known| known == name)) {
            return Ok(known as u32);
        }
        let named = names.is_some() || self.interface.classes() == 0;
        if self.interface.application.known.is_none() || !named {
            let numbers = || format!("the numbers below {}", self.interface.classes());
            let known = names.map_or_else(numbers, |names| names.join(", "));
            return Err(AgentError::UnknownName { name: name.to_owned(), known });
        }
        let mut names = names.unwrap_or_default().to_vec();
        names.push(name.to_owned());
        let class = names.len() - 1;
        self.learn_of_classes(class as u32, Some(names))?;
        Ok(class as u32)
    }

    /// The number of the task called `name`, which may be a new one.
    pub fn task_id(&mut self, name: &str) -> Result<u32, AgentError> {
        let tasks = &mut self.interface.application.tasks;
        if let Some(known) = tasks.iter().position(|known| known == name) {
            return Ok(known as u32);
        }
        let known = self.interface.shape.heads.per_task().map_or(usize::MAX, <[_]>::len);
        if self.interface.application.known.is_none() && tasks.len() >= known {
            return Err(AgentError::Unknown { what: "task", found: tasks.len() as u32, end: known });
        }
        tasks.push(name.to_owned());
        Ok(tasks.len() as u32 - 1)
    }

    /// Makes room for the classes of a batch, and for its task.
    pub(super) fn make_room(&mut self, labels: &[u32], task: u32) -> Result<(), AgentError> {
        let Some(known) = self.interface.application.known else { return Ok(()) };
        let Some(&last) = labels.iter().max() else { return Ok(()) };
        if last as usize >= known {
            if self.interface.shape.names.as_ref().is_some_and(|names| names.len() == known) {
                // A class without a name among named ones is a mistake.
                return Err(AgentError::Unknown { what: "class", found: last, end: known });
            }
            self.learn_of_classes(last, None)?;
        }
        let Some(heads) = self.interface.shape.heads.per_task() else { return Ok(()) };
        let of_task = heads.get(task as usize).map_or(&[][..], Vec::as_slice);
        if labels.iter().all(|&label| of_task.contains(&(label as usize))) {
            return Ok(());
        }
        let (mut shape, mut heads) = (self.interface.shape.clone(), heads.to_vec());
        if (task as usize).saturating_mul(shape.classes) > 1 << 26 {
            return Err(AgentError::Unknown { what: "task", found: task, end: (1 << 26) / shape.classes });
        }
        heads.resize(heads.len().max(task as usize + 1), Vec::new());
        let of_task = &mut heads[task as usize];
        of_task.extend(labels.iter().map(|&label| label as usize));
        of_task.sort_unstable();
        of_task.dedup();
        shape.heads = Some(heads).into();
        self.grow(shape)
    }

    fn learn_of_classes(&mut self, last: u32, names: Option<Vec<String>>) -> Result<(), AgentError> {
        let classes = last as usize + 1;
        if classes > MOST_CLASSES {
            return Err(AgentError::Unknown { what: "class", found: last, end: MOST_CLASSES });
        }
        let mut shape = Shape { classes, ..self.interface.shape.clone() };
        shape.names = names.or(shape.names);
        self.grow(shape)
    }

    /// Replaces the learner by one of another shape that knows all that it knew.
    fn grow(&mut self, shape: Shape) -> Result<(), AgentError> {
        let [old, new] = [&self.interface.shape, &shape].map(|shape| network(&self.config, shape));
        let growth =
            Growth { body: body(&*old), features: old.features(), classes: [old.classes(), new.classes()] };
        let mut interface = self.interface.clone();
        interface.application.known = Some(shape.classes);
        interface.shape = shape;
        super::check(&self.config, &interface, super::LARGEST)?;
        let theta = initial_theta(&*new, self.config.seed);
        let mut learner = super::build(&self.config, &interface, Some(&theta));
        let tensors = self.tensors().growing(growth);
        tensors.restore(learner.state()).map_err(super::misfit)?;
        self.interface = interface;
        self.learner = RwLock::new(learner);
        Ok(())
    }
}

/// Where in theta the output layer begins: it is the last that is trained, weights `[features, classes]` and
/// biases.
fn body(net: &dyn Net) -> usize {
    net.trainable() - (net.features() + 1) * net.classes()
}

/// The theta that an open agent starts from: each class's output weights from a generator of its own.
pub(super) fn initial_theta(net: &dyn Net, seed: u64) -> Vec<f32> {
    let mut theta = net.init(&mut Rng::named(seed, "init"));
    let (start, classes) = (body(net), net.classes());
    for class in 0..classes {
        let weights = net.init_class(&mut Rng::named(seed, &format!("class {class}")));
        weights.into_iter().enumerate().for_each(|(row, w)| theta[start + row * classes + class] = w);
    }
    theta
}
