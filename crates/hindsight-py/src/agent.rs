//! A learner: `hindsight.Agent` without labels, which Python keeps.

use std::{
    path::PathBuf,
    sync::{
        PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicBool, Ordering},
    },
};

use hindsight::AgentError;
use numpy::{PyArray1, PyArray2, PyReadonlyArray2, ndarray::Array2};
use pyo3::{
    exceptions::PyValueError,
    prelude::*,
    types::{PyBytes, PyDict},
};

use crate::{error::exception, signals::Signals, value};

/// Rows that are answered between two looks at Python's signals.
const ROWS: usize = 4096;

/// Rows of the first data that features are scaled by, as in `hindsight learn`.
const FIRST_ROWS: usize = 1000;

/// A learner. Classes and tasks are numbers here.
///
/// The lock is only ever waited for while the interpreter is released, so any number of Python threads may
/// use one agent.
#[pyclass(frozen, module = "hindsight._core")]
pub(crate) struct Agent {
    agent: RwLock<hindsight::Agent>,
    /// Whether features are scaled by what came first, or need no scale.
    scaled: AtomicBool,
}

impl Agent {
    fn read(&self) -> RwLockReadGuard<'_, hindsight::Agent> {
        // A panic within the library is a fault of it; Python has seen it as an exception.
        self.agent.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, hindsight::Agent> {
        self.agent.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn new(agent: hindsight::Agent) -> Agent {
        let scaled = AtomicBool::new(agent.application().samples > 0);
        Agent { agent: RwLock::new(agent), scaled }
    }

    /// Changes the agent while the interpreter is released.
    fn change<T: Send>(
        &self,
        py: Python<'_>,
        change: impl FnOnce(&mut hindsight::Agent) -> Result<T, AgentError> + Send,
    ) -> PyResult<T> {
        py.detach(|| change(&mut self.write())).map_err(exception)
    }

    /// Looks at the agent while the interpreter is released.
    fn ask<T: Send>(
        &self,
        py: Python<'_>,
        ask: impl FnOnce(&hindsight::Agent) -> Result<T, AgentError> + Send,
    ) -> PyResult<T> {
        py.detach(|| ask(&self.read())).map_err(exception)
    }

    /// Answers to `x`, some rows at a time.
    fn answers<T: Send>(
        &self,
        py: Python<'_>,
        x: &PyReadonlyArray2<'_, f32>,
        answer: impl Fn(&hindsight::Agent, &[f32]) -> Result<Vec<T>, AgentError> + Send + Sync,
    ) -> PyResult<Vec<T>> {
        let x = rows(x)?;
        py.detach(|| {
            let (agent, mut signals) = (self.read(), Signals::new());
            if x.len() <= ROWS * agent.width() {
                return answer(&agent, x).map_err(exception);
            }
            let mut all = Vec::new();
            for rows in x.chunks(ROWS * agent.width()) {
                all.extend(answer(&agent, rows).map_err(exception)?);
                signals.check()?;
            }
            Ok(all)
        })
    }
}

#[pymethods]
impl Agent {
    /// `classes` is their number, or their names; `None` for an open agent, which takes what comes.
    #[new]
    #[pyo3(signature = (features, names, classes, class_names, heads, standardise, seed, settings))]
    #[expect(clippy::too_many_arguments, reason = "Python calls it with keywords")]
    fn make(
        features: usize,
        names: Option<Vec<String>>,
        classes: Option<usize>,
        class_names: Option<Vec<String>>,
        heads: Option<Vec<Vec<usize>>>,
        standardise: bool,
        seed: u64,
        settings: &Bound<'_, PyDict>,
    ) -> PyResult<Agent> {
        let mut builder = hindsight::Agent::builder(features, classes.unwrap_or(0)).seed(seed);
        if classes.is_none() && class_names.is_none() {
            builder = builder.open();
        }
        if let Some(names) = names {
            builder = builder.features(names);
        }
        if let Some(names) = class_names {
            builder = builder.classes(names);
        }
        if let Some(heads) = heads {
            builder = builder.task_heads(heads);
        }
        if standardise {
            builder = builder.standardise();
        }
        for set in value::overrides(settings)? {
            builder = builder.set(&set.key, set.value);
        }
        builder.build().map(Agent::new).map_err(exception)
    }

    /// Learns from rows in batches of `batch`, `epochs` times over; returns the mean loss of the last pass.
    /// They are of the task called `task`: another one that was running ends.
    ///
    /// Labels from the number of known classes on are those of `new` in their order. The agent gets to know a
    /// class with the batch that it is first in, and with the first one if there are several passes, as
    /// `hindsight learn` has it.
    #[expect(clippy::too_many_arguments, reason = "Python calls it once")]
    fn observe(
        &self,
        py: Python<'_>,
        x: PyReadonlyArray2<'_, f32>,
        labels: Vec<u32>,
        new: Vec<String>,
        task: &str,
        batch: usize,
        epochs: usize,
    ) -> PyResult<f32> {
        let x = rows(&x)?;
        py.detach(|| {
            let (mut agent, mut signals) = (self.write(), Signals::new());
            let (width, count) = (agent.width(), labels.len());
            if count.checked_mul(width) != Some(x.len()) {
                return Err(exception(AgentError::Values { found: x.len(), labels: count, width }));
            }
            // Nothing is learned from data that has a flaw.
            if let Some(place) = x.iter().position(|x| !x.is_finite()) {
                return Err(exception(AgentError::NotFinite { place, found: x[place] }));
            }
            if count == 0 {
                return Ok(0.0);
            }
            let task = agent.begin_task(task).map_err(exception)?;
            if !self.scaled.swap(true, Ordering::Relaxed) {
                agent.fit_scaling(&x[..x.len().min(FIRST_ROWS * width)]).map_err(exception)?;
            }
            let (mut loss, known) = (0.0, agent.classes());
            let chunk = if epochs > 1 { count } else { batch };
            for (x, labels) in x.chunks(chunk * width).zip(labels.chunks(chunk)) {
                let classes = labels.iter().max().map_or(0, |&last| last as usize + 1);
                while agent.classes() < classes && agent.classes() - known < new.len() {
                    let name = &new[agent.classes() - known];
                    agent.class_id(name).map_err(exception)?;
                }
                let after_batch = || signals.check().map_err(Stopped);
                let mean = agent.observe_epochs(x, labels, task, batch, epochs, after_batch);
                loss += mean.map_err(|Stopped(error)| error)? * labels.len() as f32 / count as f32;
            }
            Ok(loss)
        })
    }

    /// Takes in what features look like; learns nothing.
    fn fit_scaling(&self, py: Python<'_>, x: PyReadonlyArray2<'_, f32>) -> PyResult<()> {
        let x = rows(&x)?;
        self.change(py, |agent| agent.fit_scaling(x))?;
        self.scaled.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn end_task(&self, py: Python<'_>) -> PyResult<()> {
        self.change(py, |agent| {
            agent.end_task();
            Ok(())
        })
    }

    /// The class of each row.
    fn predict<'py>(
        &self,
        py: Python<'py>,
        x: PyReadonlyArray2<'_, f32>,
        task: u32,
    ) -> PyResult<Bound<'py, PyArray1<u32>>> {
        let answers = self.answers(py, &x, |agent, x| agent.predict(x, task))?;
        Ok(PyArray1::from_vec(py, answers))
    }

    /// The probability of each class for each row.
    fn predict_proba<'py>(
        &self,
        py: Python<'py>,
        x: PyReadonlyArray2<'_, f32>,
        task: u32,
    ) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let answers = self.answers(py, &x, |agent, x| agent.predict_proba(x, task))?;
        let rows = x.as_array().nrows();
        let shape = (rows, answers.len() / rows.max(1));
        let answers = Array2::from_shape_vec(shape, answers);
        Ok(PyArray2::from_owned_array(py, answers.expect("a row of probabilities for each row")))
    }

    /// The number of classes that it knows.
    fn classes(&self, py: Python<'_>) -> PyResult<usize> {
        self.ask(py, |agent| Ok(agent.classes()))
    }

    /// The number of the task called `name`, which may be a new one.
    fn task_id(&self, py: Python<'_>, name: &str) -> PyResult<u32> {
        self.change(py, |agent| agent.task_id(name))
    }

    fn set_label_type(&self, py: Python<'_>, label_type: Option<String>) -> PyResult<()> {
        self.change(py, |agent| {
            agent.set_label_type(label_type);
            Ok(())
        })
    }

    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.ask(py, |agent| agent.save(&path))
    }

    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Agent> {
        py.detach(|| hindsight::Agent::load(&path)).map(Agent::new).map_err(exception)
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.ask(py, hindsight::Agent::to_bytes)?))
    }

    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: &[u8]) -> PyResult<Agent> {
        py.detach(|| hindsight::Agent::from_bytes(bytes)).map(Agent::new).map_err(exception)
    }

    fn clone(&self, py: Python<'_>) -> PyResult<Agent> {
        let copy = self.ask(py, |agent| Ok(Agent::new(agent.clone())))?;
        copy.scaled.store(self.scaled.load(Ordering::Relaxed), Ordering::Relaxed);
        Ok(copy)
    }

    /// theta, the parameters that answers are made with.
    fn theta<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let theta = self.ask(py, |agent| Ok(agent.learner().theta().to_vec()))?;
        Ok(PyArray1::from_vec(py, theta))
    }

    /// What it is and what it has seen.
    fn describe<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (config, shape, application, width, classes) = self.ask(py, |agent| {
            let (width, classes) = (agent.width(), agent.classes());
            Ok((agent.config().clone(), agent.shape().clone(), agent.application().clone(), width, classes))
        })?;
        let settings = PyDict::new(py);
        for (key, value) in config.effective() {
            settings.set_item(key, value::to_python(py, &value)?)?;
        }
        let all = PyDict::new(py);
        all.set_item("method", config.method.name)?;
        all.set_item("seed", config.seed)?;
        all.set_item("settings", settings)?;
        all.set_item("features", width)?;
        all.set_item("classes", classes)?;
        all.set_item("feature_names", application.features)?;
        all.set_item("class_names", shape.names)?;
        all.set_item("task_names", application.tasks)?;
        all.set_item("running_task", application.running_task)?;
        all.set_item("heads", shape.heads.per_task().map(<[_]>::to_vec))?;
        all.set_item("open", application.known.is_some())?;
        all.set_item("label_type", application.label_type)?;
        all.set_item("samples", application.samples)?;
        all.set_item("batches", application.batches)?;
        Ok(all)
    }
}

/// Why learning has stopped: an error of the agent, or an exception such as Ctrl-C.
struct Stopped(PyErr);

impl From<AgentError> for Stopped {
    fn from(error: AgentError) -> Stopped {
        Stopped(exception(error))
    }
}

/// The values of an array, which Python has made contiguous.
fn rows<'a>(x: &'a PyReadonlyArray2<'_, f32>) -> PyResult<&'a [f32]> {
    x.as_slice().map_err(|_| PyValueError::new_err("the array is not contiguous"))
}
