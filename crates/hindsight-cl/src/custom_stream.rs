//! Custom streams: a stream file as one more benchmark, with the stream's name.

use std::{borrow::Cow, path::Path, sync::Arc};

pub use hindsight_data::{
    CustomStreamError,
    custom_stream::{CustomTasks, Part, Scale, StreamFile},
};

use crate::{
    benchmarks::{BENCHMARKS, Benchmark, UNTUNED, custom},
    data::DataError,
    settings::{Family, Value},
    stream::Source,
};

/// Reads a stream file. Its name must not be a benchmark's: records could not be told apart.
pub fn read(path: &Path) -> Result<StreamFile, DataError> {
    let file = StreamFile::read(path)?;
    if BENCHMARKS.iter().any(|benchmark| benchmark.name == file.name) {
        let (found, expected) = (file.name, "a name that no benchmark has".to_owned());
        let flaw = CustomStreamError::Value { key: "name", found, expected };
        return Err(DataError::CustomStream { path: path.into(), flaw });
    }
    Ok(file)
}

/// The stream as a benchmark, for [`Experiment::resolve`](crate::config::Experiment::resolve).
pub fn benchmark(file: &StreamFile) -> Benchmark {
    let all = Value::Int(0);
    let mut defaults = vec![("tasks", all.clone()), ("samples", all.clone()), ("tuning_tasks", all)];
    defaults.extend(UNTUNED);
    defaults.push(("scenario", Value::text(file.scenario())));
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
    let (dataset, tasks) = file.load()?;
    Ok(Arc::new(Source::custom(dataset, tasks)))
}
