//! The inputs and answers of a learner.

use hindsight_data::custom_stream::Scale;
use serde::{Deserialize, Serialize};

use crate::heads::Heads;

/// What a learner's inputs and answers are.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Shape {
    /// Channels, height and width of an input; `[1, 1, n]` for n values without an order.
    pub input: [usize; 3],
    /// Number of classes.
    pub classes: usize,
    /// The classes that each task may answer with.
    #[serde(default, skip_serializing_if = "Heads::is_single")]
    pub heads: Heads,
    /// The names of the classes, where they have some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<Vec<String>>,
    /// How the values of an input are scaled before the learner sees them.
    #[serde(default, skip_serializing_if = "Scale::is_none")]
    pub scale: Scale,
}

impl Shape {
    /// Whether `task` may answer with `class`.
    pub fn allows(&self, task: u32, class: u32) -> bool {
        (class as usize) < self.classes && self.heads.allows(task as usize, class as usize)
    }

    /// Values in an input.
    pub fn inputs(&self) -> usize {
        self.input.iter().fold(1, |product: usize, &side| product.saturating_mul(side))
    }
}
