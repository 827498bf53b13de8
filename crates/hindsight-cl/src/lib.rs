//! Continual learning you can trust, and that is fast.
//!
//! A [`Learner`] sees a stream of tasks once and is asked about all of them. [`methods`] has those of the
//! paper "Using Hindsight to Anchor Past Knowledge in Continual Learning" (HAL) and of what it is compared
//! with; [`benchmarks`] makes streams, and [`custom_stream`] those of your files; [`protocol`] runs one on the other;
//! a [`Record`] is what remains.
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
//! The verbs of a learner are all that an application needs: [`run::learner`] builds one, then
//! [`Learner::observe`] as data comes and [`Learner::predict`] at any time.

pub mod agent;
pub mod batch;
pub mod benchmarks;
pub mod checkpoint;
pub mod config;
pub mod custom_stream;
pub mod heads;
pub mod learner;
pub mod memory;
pub mod methods;
pub mod metrics;
pub mod protocol;
pub mod record;
pub mod run;
pub mod run_folder;
mod scaling;
pub mod settings;
pub mod shape;
pub mod snapshot;
pub mod state;
pub mod stream;
pub mod sweep;
mod thread_budget;

pub use hindsight_data as data;

pub use agent::{Agent, AgentBuilder, AgentError, Predictor};
pub use batch::Batch;
pub use heads::Heads;
pub use hindsight_nn::{CacheAligned, Inputs, LinearMap, Rng};
pub use learner::{Learner, RetainedSamples};
pub use record::Record;
pub use shape::Shape;
pub use stream::Stream;
