//! Custom streams: a stream file as one more benchmark, with the stream's name.

use std::{borrow::Cow, sync::Arc};

pub use hindsight_data::{
    CustomStreamError,
    custom_stream::{Part, Samples, Scale, StreamFile},
};

use crate::{
    benchmarks::{Benchmark, UNTUNED, custom},
    data::DataError,
    settings::{Family, Value},
    stream::Source,
};

/// The stream as a benchmark, for [`Experiment::resolve`](crate::config::Experiment::resolve).
pub fn benchmark(file: &StreamFile) -> Benchmark {
    let all = Value::Int(0);
    let mut defaults = vec![("tasks", all.clone()), ("samples", all.clone()), ("tuning_tasks", all)];
    defaults.extend(UNTUNED);
    if !file.has_images() {
        defaults.push(("network", Value::text("mlp")));
    }
    if !file.ends() {
        // A task that never is finished would never be replayed.
        defaults.push(("replay_from", Value::text("all")));
    }
    let name: Cow<'static, str> = file.name.clone().into();
    Benchmark {
        name: name.clone(),
        summary: "a custom stream",
        dataset: name,
        // Inputs around zero, as its images are.
        family: Family::Cifar,
        keys: &[],
        defaults: defaults.into(),
        // With the checksum of the data, which a record has anyway, all that makes the stream what it is.
        description: Some(file.sha256().to_owned()),
        build: custom::build,
    }
}

/// Reads the data of a stream.
pub fn load(file: &StreamFile) -> Result<Arc<Source>, DataError> {
    let (dataset, samples) = file.load()?;
    Ok(Arc::new(Source::own(dataset, samples)))
}
