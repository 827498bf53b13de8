//! Continual learning you can trust, and that is fast.

pub mod benchmarks;
pub mod config;
pub mod data;
pub mod learner;
pub mod memory;
pub mod methods;
pub mod metrics;
pub mod protocol;
pub mod record;
pub mod report;
pub mod run;
pub mod settings;
pub mod stream;

pub use hindsight_engine::{Inputs, Rng};
pub use learner::{Batch, Holdings, Learner};
pub use record::Record;
pub use stream::Stream;
