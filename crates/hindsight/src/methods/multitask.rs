//! Multitask: all tasks at once.
//!
//! - *Paper*: an oracle baseline of Chaudhry et al., "Using Hindsight to Anchor Past Knowledge in Continual
//!   Learning", 2021.
//! - *Idea*: what one pass could reach if the tasks did not come one after the other.
//! - *Update rule*: finetune, on one shuffled pass over the samples of all tasks together.
//! - *Hyper-parameters*: alpha.
//! - *Deviations*: none. It is examined once, so it has no forgetting.

use super::{Method, finetune};

pub(super) const METHOD: Method = Method {
    name: "multitask",
    title: "Multitask",
    summary: "finetune on all tasks shuffled together (oracle)",
    paper: "baseline of Chaudhry et al., 2021",
    joint: true,
    oracle: true,
    ..finetune::METHOD
};
