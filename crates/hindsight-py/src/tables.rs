//! The tables of methods, benchmarks and settings.

use hindsight::{
    benchmarks::BENCHMARKS,
    config::SHARED,
    methods::METHODS,
    settings::{Family, Key, Kind},
};
use pyo3::{prelude::*, types::PyDict};

use crate::value::to_python;

/// A setting: name, default, values, documentation.
fn setting<'py>(py: Python<'py>, key: &Key, family: Family) -> PyResult<Bound<'py, PyDict>> {
    let about = PyDict::new(py);
    about.set_item("name", key.name)?;
    about.set_item("default", to_python(py, key.default_for(family))?)?;
    about.set_item("values", key.kind.to_string())?;
    if let Kind::Choice(words) = key.kind {
        about.set_item("choices", words.to_vec())?;
    }
    about.set_item("doc", key.doc)?;
    Ok(about)
}

fn settings<'py>(py: Python<'py>, keys: &[Key], family: Family) -> PyResult<Vec<Bound<'py, PyDict>>> {
    keys.iter().map(|key| setting(py, key, family)).collect()
}

/// All methods. Defaults of settings are those for data that is not the paper's.
#[pyfunction]
pub(crate) fn methods(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let about = |method: &hindsight::methods::Method| {
        let about = PyDict::new(py);
        about.set_item("name", method.name)?;
        about.set_item("title", method.title)?;
        about.set_item("summary", method.summary)?;
        about.set_item("paper", method.paper)?;
        about.set_item("oracle", method.oracle)?;
        about.set_item("joint", method.joint)?;
        about.set_item("settings", settings(py, method.keys, Family::Cifar)?)?;
        Ok(about)
    };
    METHODS.iter().map(about).collect()
}

/// All benchmarks.
#[pyfunction]
pub(crate) fn benchmarks(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let about = |benchmark: &hindsight::benchmarks::Benchmark| {
        let about = PyDict::new(py);
        about.set_item("name", &*benchmark.name)?;
        about.set_item("summary", benchmark.summary)?;
        about.set_item("dataset", &*benchmark.dataset)?;
        about.set_item("settings", settings(py, benchmark.keys, benchmark.family)?)?;
        Ok(about)
    };
    BENCHMARKS.iter().map(about).collect()
}

/// The settings that every run has.
#[pyfunction]
pub(crate) fn shared_settings(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    settings(py, SHARED, Family::Cifar)
}
