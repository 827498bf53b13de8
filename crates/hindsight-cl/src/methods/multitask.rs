//! Multitask: all tasks at once.
//!
//! - *Paper*: an oracle baseline of Chaudhry et al., "Using Hindsight to Anchor Past Knowledge in Continual
//!   Learning", 2021.
//! - *Idea*: what one pass could reach if the tasks did not come one after the other.
//! - *Update rule*: finetune, on one shuffled pass over the samples of all tasks together.
//! - *Hyper-parameters*: alpha; `epochs` for more than one pass.
//! - *Deviations*: none. It is evaluated once, so it has no forgetting.

use super::{AVERAGE, Method, RATE, finetune};
use crate::settings::{Key, Kind, Value};

pub(super) const METHOD: Method = Method {
    name: "multitask",
    title: "Multitask",
    summary: "finetune on all tasks shuffled together (oracle)",
    paper: "Chaudhry et al., 2021 (a baseline)",
    keys: &[
        RATE,
        AVERAGE,
        Key::new("epochs", Kind::Int(1, 10_000), Value::Int(1), "passes over the joined samples"),
    ],
    joint: true,
    oracle: true,
    ..finetune::METHOD
};
