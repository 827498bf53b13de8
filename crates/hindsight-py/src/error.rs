//! Errors of the library as Python exceptions, with the same text and hint.

use hindsight::{AgentError, config::ConfigError, data::DataError, run::RunError, run_folder::RecordError};
use pyo3::{prelude::*, types::PyType};

/// An error that has a hint.
pub(crate) trait Explained: std::fmt::Display {
    /// The class in `hindsight._errors`.
    const CLASS: &'static str = "HindsightError";

    fn class(&self) -> &'static str {
        Self::CLASS
    }

    fn hint(&self) -> Option<String>;
}

impl Explained for AgentError {
    fn class(&self) -> &'static str {
        if *self == AgentError::Diverged { "Diverged" } else { Self::CLASS }
    }

    fn hint(&self) -> Option<String> {
        // What the library says in terms of Rust.
        let hint = match self {
            AgentError::Config(ConfigError::Unknown { nearest: None, .. } | ConfigError::Value { .. }) => {
                "`hindsight.methods()` lists the methods, `hindsight.settings(method)` all keys with their values"
            }
            AgentError::Config(ConfigError::Malformed { .. }) => "for example `rate=0.1` or `hidden=[64]`",
            AgentError::Shape { .. } => {
                "give the number of features, and labels or their number as `classes`"
            }
            AgentError::Values { .. } => "X has a row for each label and a column for each feature",
            AgentError::Foreign { .. } => "give the labels of each task as `heads`",
            AgentError::Unknown { .. } | AgentError::UnknownName { .. } => {
                "give all labels as `classes` in advance, or leave it out so that more may come"
            }
            _ => return self.hint(),
        };
        Some(hint.to_owned())
    }
}

impl Explained for ConfigError {
    fn hint(&self) -> Option<String> {
        self.hint()
    }
}

impl Explained for DataError {
    fn hint(&self) -> Option<String> {
        self.hint()
    }
}

impl Explained for RunError {
    fn hint(&self) -> Option<String> {
        self.hint()
    }
}

impl Explained for RecordError {
    fn hint(&self) -> Option<String> {
        self.hint()
    }
}

/// The exception of an error.
pub(crate) fn exception(error: impl Explained) -> PyErr {
    Python::attach(|py| {
        let make = || -> PyResult<PyErr> {
            let class = py.import("hindsight._errors")?.getattr(error.class())?.cast_into::<PyType>()?;
            Ok(PyErr::from_value(class.call1((error.to_string(), error.hint()))?))
        };
        make().unwrap_or_else(|wrong| wrong)
    })
}
