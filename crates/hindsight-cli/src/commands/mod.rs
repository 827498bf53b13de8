//! One file per command.

pub(crate) mod benchmarks;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod data;
mod keys;
pub(crate) mod methods;
pub(crate) mod report;
pub(crate) mod reproduce;
pub(crate) mod resume;
mod resume_plan;
pub(crate) mod run;
pub(crate) mod status;
pub(crate) mod sweep;
pub(crate) mod worker;
