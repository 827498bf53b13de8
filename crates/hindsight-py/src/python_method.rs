//! A method written in Python, as a learner.

use std::sync::Mutex;

use hindsight::{Batch, Inputs, Learner};
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1};
use pyo3::{exceptions::PyValueError, prelude::*};

/// An object with `observe(X, y, task)`, `end_task()` and `predict(X, task)`.
///
/// What it raises is kept and ends the run: the loss is then not a number.
pub(crate) struct PythonLearner {
    object: Py<PyAny>,
    classes: u32,
    raised: Mutex<Option<PyErr>>,
}

impl PythonLearner {
    pub(crate) fn new(object: Py<PyAny>, classes: usize) -> PythonLearner {
        PythonLearner { object, classes: classes as u32, raised: Mutex::new(None) }
    }

    /// What it raised first.
    pub(crate) fn raised(self) -> PyResult<()> {
        self.raised.into_inner().ok().flatten().map_or(Ok(()), Err)
    }

    fn keep(&self, error: PyErr) {
        if let Ok(mut raised) = self.raised.lock() {
            raised.get_or_insert(error);
        }
    }

    fn answers(&self, inputs: &Inputs<'_>, task: usize) -> PyResult<Vec<u32>> {
        let mut x = Vec::new();
        inputs.materialise(0..inputs.len(), &mut x);
        Python::attach(|py| {
            let x = matrix(py, x, inputs.len())?;
            let answers = self.object.bind(py).call_method1("predict", (x, task))?;
            // Whatever holds whole numbers: lists, arrays of any integer type.
            let numpy = py.import("numpy")?;
            let answers = numpy.call_method1("asarray", (answers, numpy.getattr("int64")?))?;
            let answers: PyReadonlyArray1<'_, i64> = answers.extract()?;
            let answers = answers.as_array();
            if answers.len() != inputs.len() {
                let (found, expected) = (answers.len(), inputs.len());
                let text =
                    format!("`predict` returned {found} classes, expected {expected}, one for each row");
                return Err(PyValueError::new_err(text));
            }
            let class = |&class: &i64| match u32::try_from(class) {
                Ok(class) if class < self.classes => Ok(class),
                _ => {
                    let text =
                        format!("`predict` returned class {class}, expected one below {}", self.classes);
                    Err(PyValueError::new_err(text))
                }
            };
            answers.iter().map(class).collect()
        })
    }
}

impl Learner for PythonLearner {
    fn observe(&mut self, batch: &Batch) -> f32 {
        let observed = Python::attach(|py| -> PyResult<f32> {
            let x = matrix(py, batch.x.clone(), batch.len())?;
            let labels = PyArray1::from_iter(py, batch.labels.iter().map(|&label| i64::from(label)));
            // Samples of several tasks come only where all tasks are learned at once, and no task is told
            // then.
            let task = batch.tasks.first().copied().unwrap_or(0);
            let loss = self.object.bind(py).call_method1("observe", (x, labels, task))?;
            py.check_signals()?;
            if loss.is_none() { Ok(0.0) } else { loss.extract() }
        });
        observed.unwrap_or_else(|error| {
            self.keep(error);
            f32::NAN
        })
    }

    fn end_task(&mut self) {
        let ended = Python::attach(|py| self.object.bind(py).call_method0("end_task").map(|_| ()));
        if let Err(error) = ended {
            self.keep(error);
        }
    }

    fn predict(&self, inputs: &Inputs<'_>, task: usize) -> Vec<u32> {
        if self.raised.lock().is_ok_and(|raised| raised.is_some()) {
            return vec![0; inputs.len()];
        }
        self.answers(inputs, task).unwrap_or_else(|error| {
            self.keep(error);
            vec![0; inputs.len()]
        })
    }

    fn theta(&self) -> &[f32] {
        // A run looks at this after every task: what was raised is to end it.
        if self.raised.lock().is_ok_and(|raised| raised.is_some()) { &[f32::NAN] } else { &[] }
    }

    fn retained_bytes(&self) -> u64 {
        // Where the object says how many bytes of samples it keeps, as `retained_bytes`.
        Python::attach(|py| self.object.bind(py).getattr("retained_bytes")?.extract::<u64>()).unwrap_or(0)
    }
}

fn matrix<'py>(py: Python<'py>, x: Vec<f32>, rows: usize) -> PyResult<Bound<'py, PyArray2<f32>>> {
    let width = x.len() / rows.max(1);
    PyArray1::from_vec(py, x).reshape([rows, width])
}
