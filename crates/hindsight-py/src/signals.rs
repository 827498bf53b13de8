//! Ctrl-C during long calls.

use std::time::{Duration, Instant};

use pyo3::prelude::*;

/// Python's signal handlers are looked at this often.
const EVERY: Duration = Duration::from_millis(50);

/// Looks at Python's signals every now and then while the interpreter is released.
pub(crate) struct Signals(Instant);

impl Signals {
    pub(crate) fn new() -> Signals {
        Signals(Instant::now())
    }

    /// The exception of a handler, such as `KeyboardInterrupt`, if one was raised.
    pub(crate) fn check(&mut self) -> PyResult<()> {
        if self.0.elapsed() < EVERY {
            return Ok(());
        }
        self.0 = Instant::now();
        Python::attach(|py| py.check_signals())
    }
}
