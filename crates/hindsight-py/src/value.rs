//! Settings between Python and Rust.

use hindsight::{config::Override, settings::Value};
use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    types::{PyBool, PyDict, PyString},
};

/// A setting's value: `bool`, `int`, `float`, `str` or a sequence of `int`, or what numpy has for those.
pub(crate) fn value(key: &str, object: &Bound<'_, PyAny>) -> PyResult<Value> {
    // `bool` is an `int` too, and an `int` a `float`: the order matters.
    if let Ok(flag) = object.cast::<PyBool>() {
        return Ok(flag.is_true().into());
    }
    if let Ok(word) = object.cast::<PyString>() {
        return Ok(word.extract::<String>()?.as_str().into());
    }
    if let Ok(number) = object.extract::<i64>() {
        return Ok(number.into());
    }
    if let Ok(number) = object.extract::<f64>() {
        return Ok(number.into());
    }
    if let Ok(numbers) = object.extract::<Vec<i64>>() {
        return Ok(numbers.into());
    }
    let kind = object.get_type().name()?;
    Err(PyTypeError::new_err(format!(
        "`{key}` is of type {kind}, expected a bool, int, float, str or a list of ints"
    )))
}

/// A keyword as the key of a setting: `lambda_` is `lambda`, which Python has for itself, and
/// `er_ring__rate` is `er-ring.rate`.
fn key(keyword: &str) -> String {
    let keyword = keyword.strip_suffix('_').unwrap_or(keyword);
    match keyword.split_once("__") {
        Some((method, key)) => format!("{}.{key}", method.replace('_', "-")),
        None => keyword.to_owned(),
    }
}

/// Keywords as settings, in their order; `None` leaves a default.
pub(crate) fn overrides(settings: &Bound<'_, PyDict>) -> PyResult<Vec<Override>> {
    let mut overrides = Vec::with_capacity(settings.len());
    for (key, object) in settings {
        let key = self::key(&key.extract::<String>()?);
        if !object.is_none() {
            let value = value(&key, &object)?;
            overrides.push(Override { key, value });
        }
    }
    Ok(overrides)
}

/// A value as Python has it.
pub(crate) fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Bool(flag) => PyBool::new(py, *flag).to_owned().into_any(),
        Value::Int(number) => number.into_pyobject(py)?.into_any(),
        Value::Float(number) => number.into_pyobject(py)?.into_any(),
        Value::Text(word) => word.as_ref().into_pyobject(py)?.into_any(),
        Value::Ints(numbers) => numbers.to_vec().into_pyobject(py)?.into_any(),
    })
}
