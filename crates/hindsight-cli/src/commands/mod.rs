//! One file per command.

pub(crate) mod benchmarks;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod data;
mod evaluation;
pub(crate) mod export;
pub(crate) mod inspect;
mod keys;
pub(crate) mod learn;
pub(crate) mod methods;
pub(crate) mod predict;
pub(crate) mod report;
pub(crate) mod reproduce;
pub(crate) mod resume;
mod resume_plan;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod status;
pub(crate) mod sweep;
pub(crate) mod worker;
