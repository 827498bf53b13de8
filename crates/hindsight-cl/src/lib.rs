//! Continual learning you can trust, and that is fast.
//!
//! A [`Learner`] sees a stream of tasks once and is evaluated on all of them. [`methods`] has Hindsight
//! Anchor Learning (HAL) and the methods it is compared with; [`benchmarks`] and [`custom_stream`] make
//! streams; [`protocol`] trains and evaluates; a [`Record`] holds the results. [`Agent`] is a learner for an
//! application, without streams and records.
//!
//! ```
//! use hindsight::{benchmarks::BENCHMARKS, config::*, data::data_dir, methods::METHODS, run};
//!
//! // Two tasks of the built-in digits; HAL and the replay that it extends.
//! let set = ["method=er-ring,hal", "tasks=2", "samples=200", "hidden=32"];
//! let set: Vec<Override> = set.iter().map(|s| Override::parse(s)).collect::<Result<_, _>>()?;
//! let experiment = Experiment::resolve(&set, BENCHMARKS, METHODS)?;
//!
//! let source = run::load(&experiment.first_run(), &data_dir(None))?;
//! let mut records = vec![];
//! for config in experiment.runs() {
//!     records.push(run::run(&config, &source, &mut |_| ())?);
//! }
//! assert!(records[1].learning_accuracy > Some(0.3));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! To add a method from outside, implement [`Learner`], describe it as a [`methods::Method`] and pass a table
//! with it to [`Experiment::resolve`](config::Experiment::resolve).

#![forbid(unsafe_code)]

pub mod agent;
mod batch;
pub mod benchmarks;
pub mod budget;
pub mod checkpoint;
pub mod config;
#[cfg(feature = "files")]
pub mod custom_stream;
pub mod detail;
mod heads;
mod learner;
pub mod memory;
pub mod methods;
pub mod metrics;
pub mod prequential;
pub mod protocol;
pub mod record;
pub mod run;
pub mod run_folder;
mod scaling;
pub mod settings;
mod shape;
pub mod snapshot;
pub mod state;
pub mod stream;
pub mod sweep;
mod thread_budget;

pub use hindsight_data as data;

pub use agent::{Agent, AgentBuilder, AgentError, Predictor};
pub use batch::{Batch, BatchIter};
pub use heads::Heads;
pub use hindsight_nn::{
    BatchNormMode, CacheAligned, Gradient, Inputs, Layer, LinearMap, Net, Rng, Tape, optim, params,
};
pub use learner::{Learner, RetainedSamples};
pub use record::Record;
pub use shape::Shape;
pub use stream::Stream;
