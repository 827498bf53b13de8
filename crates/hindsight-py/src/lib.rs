//! `hindsight._core`, the part of the Python module `hindsight` that is in Rust.
//!
//! It passes arrays, settings and errors between Python and the library. What users see (labels of any type,
//! estimators of scikit-learn and river, records as objects) is in `python/hindsight`.

mod agent;
mod error;
mod python_method;
mod report;
mod run;
mod signals;
mod tables;
mod value;

use pyo3::prelude::*;

/// The part of `hindsight` that is in Rust.
#[pymodule]
mod _core {
    #[pymodule_export]
    use crate::agent::Agent;
    #[pymodule_export]
    use crate::report::{figures, page, read_records, table};
    #[pymodule_export]
    use crate::run::{check_stream, run};
    #[pymodule_export]
    use crate::tables::{benchmarks, methods, shared_settings};
}
