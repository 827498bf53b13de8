//! Experiments: methods of the library and of Python on a benchmark or a custom stream.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, atomic::AtomicBool, atomic::Ordering},
    time::{Duration, Instant, SystemTime},
};

use hindsight::{
    Record,
    benchmarks::BENCHMARKS,
    checkpoint::Checkpoints,
    config::{Experiment, Override, RunConfig},
    custom_stream,
    data::data_dir,
    methods::{METHODS, Method},
    protocol::{self, Event},
    record::Data,
    run::{RunEvent, costs, load, longest_first, matched, run_all, stream},
    settings::Value,
    stream::Source,
};
use pyo3::{
    exceptions::{PyOSError, PyValueError},
    prelude::*,
    types::PyDict,
};

use crate::{error::exception, python_method::PythonLearner, value};

/// A method written in Python: its name, what makes an object of it, and the settings that it was given.
type PythonMethod = (String, Py<PyAny>, Py<PyDict>);

/// Progress of a Python method's run is reported at most this often.
const PAUSE: Duration = Duration::from_millis(50);

/// Does all runs that have no record among `known` and returns the new records and snapshots as lines of
/// JSON.
///
/// `report(run, label, done, total, record)` is called now and then; with a record and at the end of a run.
#[pyfunction]
#[pyo3(signature = (settings, stream_file, methods, data_dir_flag, jobs, known, report))]
#[expect(clippy::too_many_arguments, reason = "Python calls it once")]
pub(crate) fn run(
    py: Python<'_>,
    settings: &Bound<'_, PyDict>,
    stream_file: Option<PathBuf>,
    methods: Vec<PythonMethod>,
    data_dir_flag: Option<PathBuf>,
    jobs: usize,
    known: Vec<String>,
    report: Py<PyAny>,
) -> PyResult<(Vec<String>, Vec<String>)> {
    let mut overrides = value::overrides(settings)?;
    let mut table = METHODS.to_vec();
    for (name, ..) in &methods {
        if METHODS.iter().any(|method| method.name == name) {
            return Err(PyValueError::new_err(format!(
                "`{name}` is the name of a method that there is already"
            )));
        }
        table.push(described(name));
    }
    let mut benchmarks = BENCHMARKS.to_vec();
    let file = stream_file.map(|path| custom_stream::read(&path)).transpose().map_err(exception)?;
    if let Some(file) = &file {
        benchmarks.push(custom_stream::benchmark(file));
        overrides.push(Override { key: "benchmark".to_owned(), value: file.name.as_str().into() });
    }
    let experiment = Experiment::resolve(&overrides, &benchmarks, &table).map_err(exception)?;
    let runs = experiment.runs();
    let known = crate::report::parse::<Record>(&known)?;
    let mut done: BTreeMap<usize, Record> = matched(&runs, known);
    let todo: Vec<usize> = (0..runs.len()).filter(|i| !done.contains_key(i)).collect();
    let mut snapshots = Vec::new();
    if !todo.is_empty() {
        let source = py.detach(|| match &file {
            Some(file) => custom_stream::load(file).map_err(exception),
            None => load(&runs[0], &data_dir(data_dir_flag.as_deref())).map_err(exception),
        })?;
        let ours = |i: &usize| methods.iter().find(|(name, ..)| name == runs[*i].method.name);
        let (native, python): (Vec<usize>, Vec<usize>) = todo.into_iter().partition(|i| ours(i).is_none());
        let watch = Watch { runs: &runs, report: &report };
        py.detach(|| all_native(&runs, native, &source, jobs.max(1), &watch, &mut done, &mut snapshots))?;
        for index in python {
            let (_, make, own) = ours(&index).expect("it is one of Python's");
            let record = one_of_python(py, index, &source, make, own, &watch)?;
            done.insert(index, record);
        }
    }
    let lines = done.values().map(|record| serde_json::to_string(record).expect("a record is JSON"));
    Ok((lines.collect(), snapshots))
}

/// Where reports go.
struct Watch<'w> {
    runs: &'w [RunConfig],
    report: &'w Py<PyAny>,
}

impl Watch<'_> {
    /// Also raises what a signal handler, such as that of Ctrl-C, has raised.
    fn tell(&self, index: usize, done: usize, total: usize, record: Option<String>) -> PyResult<()> {
        let RunConfig { method, seed, .. } = &self.runs[index];
        let label = format!("{}, seed {seed}", method.name);
        Python::attach(|py| {
            self.report.call1(py, (index, self.runs.len(), label, done, total, record))?;
            py.check_signals()
        })
    }
}

/// Runs of the library's own methods, over the cores.
fn all_native(
    runs: &[RunConfig],
    which: Vec<usize>,
    source: &Arc<Source>,
    jobs: usize,
    watch: &Watch<'_>,
    done: &mut BTreeMap<usize, Record>,
    snapshots: &mut Vec<String>,
) -> PyResult<()> {
    // A run that is told to stop saves itself; nobody goes on with it, so it is thrown away.
    let folder = tempfile::tempdir().map_err(PyOSError::new_err)?;
    let stop = Arc::new(AtomicBool::new(false));
    let checkpoints = Checkpoints {
        folder: folder.path().to_owned(),
        every: 0,
        interval: None,
        keep: 1,
        stop: stop.clone(),
        models: None,
    };
    let order = longest_first(which, &costs(runs, &[]));
    let mut event = |event: RunEvent| -> PyResult<()> {
        match event {
            RunEvent::Started { index } => watch.tell(index, 0, 1, None),
            RunEvent::Progress { index, done, total } => watch.tell(index, done, total, None),
            RunEvent::Note { .. } | RunEvent::Warning { .. } | RunEvent::Task { .. } => Ok(()),
            RunEvent::Finished { index, record, snapshot } => {
                let record = record.map_err(exception)?;
                let line = serde_json::to_string(&record).expect("a record is JSON");
                let snapshot = snapshot.map(|snapshot| serde_json::to_string(&snapshot));
                snapshots.extend(snapshot.map(|line| line.expect("a snapshot is JSON")));
                done.insert(index, record);
                watch.tell(index, 1, 1, Some(line))
            }
        }
    };
    run_all(runs, &order, source, jobs, Some(&checkpoints), &mut |report| {
        event(report).inspect_err(|_| stop.store(true, Ordering::Relaxed))
    })
}

/// A run of a method written in Python, on this thread.
fn one_of_python(
    py: Python<'_>,
    index: usize,
    source: &Arc<Source>,
    make: &Py<PyAny>,
    own: &Py<PyDict>,
    watch: &Watch<'_>,
) -> PyResult<Record> {
    let config = &watch.runs[index];
    let stream = stream(config, source).map_err(exception)?;
    let shape = stream.shape();
    let about = PyDict::new(py);
    about.set_item("features", shape.inputs())?;
    about.set_item("classes", shape.classes)?;
    about.set_item("seed", config.seed)?;
    about.set_item("shape", shape.input)?;
    about.set_item("tasks", stream.len())?;
    about.set_item("heads", shape.heads.per_task().map(<[_]>::to_vec))?;
    let mut learner = PythonLearner::new(make.call1(py, (about,))?, shape.classes);
    let protocol = hindsight::run::protocol(config);
    let started = SystemTime::now();
    let (outcome, told) = py.detach(|| {
        let (mut last, mut told) = (Instant::now(), Ok(()));
        let outcome = protocol::run(&stream, &mut learner, &protocol, &mut |event| {
            if let (Event::Progress { done, total }, true) = (event, last.elapsed() >= PAUSE) {
                last = Instant::now();
                // What a signal raises is seen by the learner too.
                told = std::mem::replace(&mut told, Ok(())).and(watch.tell(index, done, total, None));
            }
        });
        (outcome, told)
    });
    let memory = hindsight::Learner::retained_bytes(&learner);
    learner.raised()?;
    told?;
    let data = Data { name: source.dataset.name.clone(), sha256: source.checksum().to_owned() };
    let mut record = Record::new(config, &outcome, data, started, memory);
    (record.task_names, record.class_names) = (stream.task_names(), stream.class_names());
    for (key, object) in own.bind(py) {
        let key: String = key.extract()?;
        let value = value::value(&key, &object).unwrap_or_else(|_| Value::Text(object.to_string().into()));
        record.config.insert(format!("{}.{key}", config.method.name), value);
    }
    let line = serde_json::to_string(&record).expect("a record is JSON");
    watch.tell(index, 1, 1, Some(line))?;
    Ok(record)
}

/// A method of the table that is written in Python. Its name stays in memory for good, once.
fn described(name: &str) -> Method {
    static NAMES: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let name = names.iter().copied().find(|known| *known == name).unwrap_or_else(|| {
        let name: &'static str = name.to_owned().leak();
        names.push(name);
        name
    });
    Method { name, title: name, ..Method::DEFAULT }
}

/// Tasks, samples and classes of a custom stream, once it is read.
#[pyfunction]
pub(crate) fn check_stream(py: Python<'_>, path: PathBuf) -> PyResult<(String, Vec<String>, Vec<String>)> {
    py.detach(|| {
        let file = custom_stream::read(Path::new(&path)).map_err(exception)?;
        let (data, custom) = file.load().map_err(exception)?;
        let tasks = custom.tasks.iter().map(|task| task.name.clone()).collect();
        Ok((data.name, tasks, data.class_names))
    })
}
