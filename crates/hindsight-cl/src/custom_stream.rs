//! Custom streams: a stream file as one more benchmark, with the stream's name.

use std::sync::Arc;

pub use hindsight_data::{
    CustomStreamError,
    custom_stream::{Part, Samples, Scale, StreamFile},
};

use crate::{
    benchmarks::{Benchmark, custom},
    data::DataError,
    settings::{Family, Key, Kind, Value},
    stream::Source,
};

/// The stream as a table of one benchmark, for [`Experiment::resolve`](crate::config::Experiment::resolve).
///
/// Tables live as long as the program, so what this returns is never freed.
pub fn benchmarks(file: &StreamFile) -> &'static [Benchmark] {
    let all = Value::Int(0);
    let mut defaults = vec![("tasks", all.clone()), ("samples", all.clone()), ("tuning_tasks", all)];
    // Nobody has tuned anything for this data.
    defaults.push(("hal.preset", Value::text("robust")));
    if !file.has_images() {
        defaults.push(("network", Value::text("mlp")));
    }
    if !file.ends() {
        // A task that never is finished would never be replayed.
        defaults.push(("replay_from", Value::text("all")));
    }
    let (name, sha256): (&str, &str) = (file.name.clone().leak(), file.sha256().to_owned().leak());
    // With the checksum of the data, which a record has anyway, all that makes the stream what it is. Settings
    // that were made for another description are refused.
    let kind = Kind::Choice(vec![sha256].leak());
    let doc = "SHA-256 of the stream file";
    vec![Benchmark {
        name,
        summary: "a stream of your own",
        dataset: name,
        // Inputs around zero, as its images are.
        family: Family::Cifar,
        keys: vec![Key::new("description", kind, Value::text(sha256), doc)].leak(),
        defaults: defaults.leak(),
        build: custom::build,
    }]
    .leak()
}

/// Reads the data of a stream.
pub fn load(file: &StreamFile) -> Result<Arc<Source>, DataError> {
    let (dataset, samples) = file.load()?;
    Ok(Arc::new(Source::own(dataset, samples)))
}
