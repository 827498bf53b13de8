//! One run from its configuration to its record, and many of them over the cores.

use std::{
    collections::{BTreeMap, HashMap},
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use hindsight_data::schema::Schema;
use hindsight_nn::{Mlp, Net, ResNet};
use thiserror::Error;

use crate::{
    Learner, Record, Stream,
    checkpoint::{self, Application, CheckpointError, CheckpointWriter, Checkpoints, Header},
    config::{ConfigError, RunConfig, digest},
    data::{self, DataError, Options},
    methods::{Method, Setup},
    protocol::{self, Event, Protocol, RunState, Status},
    record::{Data, available_memory},
    settings::{NetworkKind, Value},
    shape::Shape,
    snapshot::Snapshot,
    stream::Source,
    thread_budget::ThreadBudget,
};

/// Why a run cannot start, or has no result.
#[derive(Debug, Error)]
#[non_exhaustive]
// The message of a variant says what its fields are.
#[allow(missing_docs)]
pub enum RunError {
    /// The configuration does not fit the data.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The data cannot be had.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The run cannot be saved, or not be gone on with.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The run would not fit into memory.
    #[error("the run needs about {needed} MB of memory, {available} MB are available")]
    Memory { needed: u64, available: u64 },
    /// The run was told to stop, and was saved.
    #[error("stopped after {batches} batches")]
    Stopped { batches: usize },
    /// A fault of the program, most likely of a method. It ends this run alone.
    #[error("the run panicked: {reason}")]
    Panicked { reason: String },
}

impl RunError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            RunError::Config(error) => error.hint(),
            RunError::Data(error) => error.hint(),
            RunError::Checkpoint(error) => error.hint(),
            RunError::Memory { .. } => {
                Some("use fewer tasks, epochs, slots or parameters, or fewer runs at a time".to_owned())
            }
            RunError::Stopped { .. } => Some("`hindsight resume` goes on from there".to_owned()),
            RunError::Panicked { .. } => Some(
                "this is a fault of the program; please report it with the settings of the run".to_owned(),
            ),
        }
    }
}

/// Reads the data set of a run, ready for streams.
pub fn load(config: &RunConfig, dir: &Path) -> Result<Arc<Source>, RunError> {
    let sized = config.benchmark.keys.iter().any(|key| key.name == "image_size");
    let options = Options { image_size: sized.then(|| config.shared.int("image_size")) };
    Ok(Arc::new(Source::new(data::load(&config.benchmark.dataset, dir, &options)?)))
}

/// The stream of a run.
pub fn stream(config: &RunConfig, source: &Arc<Source>) -> Result<Stream, RunError> {
    let stream = (config.benchmark.build)(source, &config.shared, config.seed)?;
    let stream = if config.method.needs_task { stream.telling_task() } else { stream };
    let shared = config.shared_settings();
    check_memory(config, &stream, available_memory())?;
    Ok(match config.method.joint {
        true => stream.joined(config.seed, shared.epochs * config.method_settings.int("epochs")),
        false => {
            let stream = stream.repeated(shared.visits).blurred(shared.blur.into(), config.seed);
            stream.with_epochs(shared.epochs, config.seed)
        }
    })
}

/// Refuses a run that would take more than the memory that is available, in bytes, where the system tells it.
///
/// The estimate has what can become large: theta and the vectors beside it, what the method holds, and the
/// order of samples that are learned jointly.
fn check_memory(config: &RunConfig, stream: &Stream, available: Option<u64>) -> Result<(), RunError> {
    let mut setup = setup(config, stream);
    // However many slots there are, a task fills no more than it has samples.
    setup.shared.slots = setup.shared.slots.min(setup.samples_per_task / setup.classes_per_task().max(1) + 1);
    let samples: u64 = (0..stream.stages()).map(|stage| stream.samples(stage) as u64).sum();
    let order =
        if config.method.joint { 8 * samples * config.method_settings.int("epochs") as u64 } else { 0 };
    let held = config.method.bytes(&setup).saturating_add(10 * setup.theta_bytes());
    let needed = order.saturating_add(held);
    match available {
        Some(available) if needed > available => {
            Err(RunError::Memory { needed: needed >> 20, available: available >> 20 })
        }
        _ => Ok(()),
    }
}

/// The network of a run.
pub fn network(config: &RunConfig, shape: &Shape) -> Arc<dyn Net> {
    let shared = config.shared_settings();
    let fits = "widths are checked with the configuration, and a data set has some";
    match shared.network {
        NetworkKind::Mlp => {
            let mut widths = vec![shape.input.iter().product()];
            widths.extend(shared.hidden);
            widths.push(shape.classes);
            Mlp::new(&widths).expect(fits).into_net()
        }
        NetworkKind::ResNet => {
            let net = ResNet::new(shape.input, &shared.maps, shared.stem_stride, shape.classes);
            net.expect(fits).into_net()
        }
    }
}

/// What the learner of a run is made of.
pub fn setup<'r>(config: &'r RunConfig, stream: &'r Stream) -> Setup<'r> {
    Setup {
        net: network(config, &stream.shape()),
        heads: stream.heads().clone(),
        seed: config.seed,
        scenario: stream.scenario(),
        tasks: stream.len(),
        task_class_pairs: stream.task_class_pairs(),
        samples_per_task: stream.samples_per_task(),
        future: Some(stream),
        initial: None,
        shared: config.shared_settings(),
        method_settings: &config.method_settings,
    }
}

/// The learner of a run, fresh.
pub fn learner(config: &RunConfig, stream: &Stream) -> Box<dyn Learner> {
    config.method.learner(&setup(config, stream))
}

/// The protocol of a run.
pub fn protocol(config: &RunConfig) -> Protocol {
    let shared = config.shared_settings();
    Protocol {
        batch: shared.batch,
        evaluate: shared.evaluate,
        every: shared.evaluate_every,
        prequential: shared.prequential,
    }
}

/// Does one run.
pub fn run(
    config: &RunConfig,
    source: &Arc<Source>,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<Record, RunError> {
    Ok(run_with_snapshot(config, source, None, false, watch)?.0)
}

/// Does one run, or what is left of it after its last checkpoint. With `snapshot`, also returns the anchors
/// that the learner has in the end, if it has any.
pub fn run_with_snapshot(
    config: &RunConfig,
    source: &Arc<Source>,
    checkpoints: Option<&Checkpoints>,
    snapshot: bool,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<(Record, Option<Snapshot>), RunError> {
    let (stream, protocol) = (stream(config, source)?, protocol(config));
    let mut learner = learner(config, &stream);
    let data = Data { name: source.dataset.name.clone(), sha256: source.checksum().to_owned() };
    let mut run_state = RunState::default();
    let mut started = SystemTime::now();
    if let Some(checkpoints) = checkpoints {
        let mut saved = CheckpointedRun { config, stream: &stream, data: &data, started };
        let mut resumed = false;
        if let Some(known) = saved.resume(checkpoints, &protocol, &mut *learner, watch)? {
            (run_state, started) = known;
            (saved.started, resumed) = (started, true);
        }
        saved.continue_run(checkpoints, resumed, &protocol, &mut *learner, &mut run_state, watch)?;
        if run_state.outcome.status == Status::Done {
            saved.keep_model(checkpoints, source, &run_state, &mut *learner, watch);
        }
    } else {
        let never = &mut |_: &RunState, _: &mut dyn Learner| ControlFlow::Continue(());
        let _ = protocol::resume(&stream, &mut *learner, &protocol, &mut run_state, watch, never);
    }
    let mut record = Record::new(config, &run_state.outcome, data, started, learner.retained_bytes());
    (record.task_names, record.class_names) = (stream.task_names(), stream.class_names());
    let snapshot = (snapshot && run_state.outcome.status == Status::Done)
        .then(|| Snapshot::take(config, &*network(config, &stream.shape()), &stream, &*learner));
    Ok((record, snapshot.flatten()))
}

/// A run that is saved as it goes.
struct CheckpointedRun<'r> {
    config: &'r RunConfig,
    stream: &'r Stream,
    data: &'r Data,
    started: SystemTime,
}

impl CheckpointedRun<'_> {
    fn header(&self, run_state: &RunState) -> Header {
        let started = self.started.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let run = checkpoint::Run { data: self.data.clone(), started, run_state: run_state.clone() };
        Header::new(self.config, self.stream.shape(), Some(run))
    }

    /// Brings `learner` to where the last checkpoint was taken, if there is one.
    fn resume(
        &self,
        checkpoints: &Checkpoints,
        protocol: &Protocol,
        learner: &mut dyn Learner,
        watch: &mut dyn FnMut(Event<'_>),
    ) -> Result<Option<(RunState, SystemTime)>, RunError> {
        let (latest, wrong) = checkpoints.latest(self.config)?;
        wrong.iter().for_each(|error| watch(Event::Note { text: &error.to_string() }));
        let Some((path, found)) = latest else { return Ok(None) };
        let expected = self.header(&RunState::default());
        expected.check(&found.header, &path)?;
        let (was, now) = (found.header.build(), expected.build());
        if was != now {
            let text = format!("saved by {was}, this is {now}: it may end with other bits");
            watch(Event::Note { text: &text });
        }
        let Some(checkpoint::Run { run_state, started, .. }) = &found.header.run else {
            let reason = "it is not of a run".to_owned();
            return Err(CheckpointError::Place { path, reason }.into());
        };
        run_state
            .check(self.stream, protocol)
            .map_err(|reason| CheckpointError::Place { path: path.clone(), reason })?;
        found.restore(learner, &path)?;
        watch(Event::Note { text: &format!("goes on after {} batches", run_state.outcome.batches) });
        // A time that no clock has is as good as any other.
        let started = UNIX_EPOCH.checked_add(Duration::from_secs(*started)).unwrap_or(UNIX_EPOCH);
        Ok(Some((run_state.clone(), started)))
    }

    /// Keeps the final learner. It is a by-product: if it cannot be kept, that is told and no more.
    fn keep_model(
        &self,
        checkpoints: &Checkpoints,
        source: &Source,
        run_state: &RunState,
        learner: &mut dyn Learner,
        watch: &mut dyn FnMut(Event<'_>),
    ) {
        let Some(path) = checkpoints.model(self.config) else { return };
        let mut header = self.header(run_state);
        let schema = source.custom_tasks().and_then(|custom| custom.schema.clone());
        header.application = Some(Application {
            features: schema.as_ref().map(Schema::features),
            tasks: source
                .custom_tasks()
                .map_or_else(Vec::new, |custom| custom.tasks.iter().map(|task| task.name.clone()).collect()),
            schema,
            ..header.application()
        });
        let kept = match path.parent().map_or(Ok(()), std::fs::create_dir_all) {
            Ok(()) => checkpoint::save(&path, header, learner).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = kept {
            watch(Event::Warning { text: &format!("the model is not kept: {error}") });
        }
    }

    fn continue_run(
        &self,
        checkpoints: &Checkpoints,
        resumed: bool,
        protocol: &Protocol,
        learner: &mut dyn Learner,
        run_state: &mut RunState,
        watch: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), RunError> {
        let (every, folder) = (checkpoints.every, checkpoints.of(self.config));
        let mut writer = None;
        let mut save = |run_state: &RunState, learner: &mut dyn Learner| -> Result<(), CheckpointError> {
            let writer = match &mut writer {
                Some(writer) => writer,
                None => writer.insert(CheckpointWriter::new(folder.clone(), checkpoints.keep)?),
            };
            writer.save(run_state.outcome.batches, self.header(run_state), learner)
        };
        let (mut failed, mut saved) = (Ok(()), Instant::now());
        let flow =
            protocol::resume(self.stream, learner, protocol, run_state, watch, &mut |run_state, learner| {
                let stop = checkpoints.stopped();
                let due = every > 0 && run_state.outcome.batches.is_multiple_of(every);
                let due = due || checkpoints.interval.is_some_and(|interval| saved.elapsed() >= interval);
                // A learner that has diverged, which may not have been seen yet, could not be loaded again.
                if (stop || due) && learner.is_finite() {
                    failed = save(run_state, learner);
                    saved = Instant::now();
                }
                if stop || failed.is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
        failed?;
        // A run with checkpoints keeps the finished learner, also if only Ctrl-C has ever saved one.
        if flow.is_continue() && (every > 0 || resumed) && run_state.outcome.status == Status::Done {
            save(run_state, learner)?;
        }
        writer.map_or(Ok(()), |mut writer: CheckpointWriter| writer.finish())?;
        match flow {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(RunError::Stopped { batches: run_state.outcome.batches }),
        }
    }
}

/// Progress of a run is reported at most this often.
const PAUSE: Duration = Duration::from_millis(50);

/// What [`run_all`] reports.
#[derive(Debug)]
pub enum RunEvent {
    /// Run `index` begins.
    Started {
        /// Which run.
        index: usize,
    },
    /// Something happened in run `index`: work done of a total.
    Progress {
        /// Which run.
        index: usize,
        /// Units of work done.
        done: usize,
        /// Units of work in all.
        total: usize,
    },
    /// Something to know about run `index`.
    Note {
        /// Which run.
        index: usize,
        /// What.
        text: String,
    },
    /// Something that was asked of run `index` is lost.
    Warning {
        /// Which run.
        index: usize,
        /// What.
        text: String,
    },
    /// Run `index` finished a task.
    Task {
        /// Which run.
        index: usize,
        /// The task.
        task: usize,
        /// Accuracies on all tasks; NaN where not evaluated.
        row: Vec<f64>,
    },
    /// Run `index` is over.
    Finished {
        /// Which run.
        index: usize,
        /// Its record.
        record: Box<Result<Record, RunError>>,
        /// What is to be seen of its learner, if anything.
        snapshot: Option<Box<Snapshot>>,
    },
}

/// The records of `runs`, each at the place of its run; of two for one run the last.
pub fn matched(runs: &[RunConfig], records: Vec<Record>) -> BTreeMap<usize, Record> {
    let places: HashMap<[u8; 16], usize> =
        runs.iter().enumerate().map(|(place, run)| (digest(&run.identity()), place)).collect();
    records
        .into_iter()
        .filter_map(|record| Some((*places.get(&digest(&record.identity()))?, record)))
        .collect()
}

/// How long each of `runs` will take, in seconds if `finished` has any of their methods, else in units that
/// only compare them.
pub fn costs(runs: &[RunConfig], finished: &[Record]) -> Vec<f64> {
    // Of each method: seconds per unit of work, summed, and of how many records.
    let mut measured: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for record in finished.iter().filter(|record| record.status == Status::Done) {
        let pace = (record.train_seconds + record.eval_seconds) / work(&record.config);
        let (sum, count) = measured.entry(&record.method).or_default();
        (*sum, *count) = (*sum + pace, *count + 1.0);
    }
    let pace = |method: &Method| measured.get(method.name).map(|(sum, count)| sum / count);
    // What the table's numbers are worth in seconds, from the methods that have been measured.
    let worth: Vec<f64> = runs.iter().filter_map(|run| Some(pace(&run.method)? / run.method.cost)).collect();
    let worth = if worth.is_empty() { 1.0 } else { crate::metrics::mean(worth) };
    let cost =
        |run: &RunConfig| pace(&run.method).unwrap_or(run.method.cost * worth) * work(&run.effective());
    runs.iter().map(cost).collect()
}

/// Training samples that a run sees: what its time goes with, within a method.
fn work(config: &BTreeMap<String, Value>) -> f64 {
    let int = |key: &str| match config.get(key) {
        Some(Value::Int(n)) => (*n).max(1) as f64,
        _ => 1.0,
    };
    let tuning = config.get("tuning") == Some(&Value::Bool(true));
    int("samples") * int(if tuning { "tuning_tasks" } else { "tasks" })
}

/// Does those of `runs` that `order` names, `jobs` at a time, each on one thread, and reports to the calling
/// thread. Threads that are left over help with evaluations.
///
/// What a run gives does not depend on `order` or `jobs`: runs share nothing but the data. With the longest
/// first, no long one is left alone in the end. Stops early if `watch` returns an error, which it then
/// returns.
pub fn run_all<E>(
    runs: &[RunConfig],
    order: &[usize],
    source: &Arc<Source>,
    jobs: usize,
    checkpoints: Option<&Checkpoints>,
    watch: &mut dyn FnMut(RunEvent) -> Result<(), E>,
) -> Result<(), E> {
    let next = AtomicUsize::new(0);
    let (send, receive) = mpsc::channel();
    // One seed is enough to look at.
    let pictured = runs.iter().map(|run| run.seed).min();
    let workers = jobs.clamp(1, order.len().max(1));
    let budget = ThreadBudget::new(jobs.saturating_sub(workers));
    let work = |send: mpsc::Sender<RunEvent>| {
        let _busy = budget.busy();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(&index) = order.get(place) else { return };
            if checkpoints.is_some_and(Checkpoints::stopped) {
                return;
            }
            // The receiver is gone only when the caller has given up.
            if send.send(RunEvent::Started { index }).is_err() {
                return;
            }
            let mut told = Instant::now();
            let mut watch = |event: Event<'_>| {
                let report = match event {
                    // Waking the caller after every batch would cost more than some batches do.
                    Event::Progress { done, total } if done < total && told.elapsed() < PAUSE => {
                        return;
                    }
                    Event::Progress { done, total } => RunEvent::Progress { index, done, total },
                    Event::Note { text } => RunEvent::Note { index, text: text.to_owned() },
                    Event::Warning { text } => RunEvent::Warning { index, text: text.to_owned() },
                    Event::Task { task, row } => RunEvent::Task { index, task, row: row.to_vec() },
                };
                told = Instant::now();
                let _ = send.send(report);
            };
            // Nothing of a run that panicked is used again.
            let run = AssertUnwindSafe(|| {
                let config = &runs[index];
                let snapshot = Some(config.seed) == pictured;
                run_with_snapshot(config, source, checkpoints, snapshot, &mut watch)
            });
            let (record, snapshot) = match catch_unwind(run).unwrap_or_else(|panic| {
                let text = panic.downcast_ref::<&str>().map(ToString::to_string);
                let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
                Err(RunError::Panicked { reason: text.unwrap_or_else(|| "no reason given".to_owned()) })
            }) {
                Ok((record, snapshot)) => (Ok(record), snapshot.map(Box::new)),
                Err(error) => (Err(error), None),
            };
            let record = Box::new(record);
            if send.send(RunEvent::Finished { index, record, snapshot }).is_err() {
                return;
            }
        }
    };
    thread::scope(|scope| {
        for started in 0..workers {
            let (work, to) = (&work, send.clone());
            let spawned = thread::Builder::new().spawn_scoped(scope, move || work(to));
            // Where the system has no more threads to give, those that there are do all of the work.
            if spawned.is_err() {
                if started == 0 {
                    work(send.clone());
                }
                break;
            }
        }
        drop(send);
        for report in receive {
            if let Err(error) = watch(report) {
                // No new runs start; those under way end by themselves.
                next.store(order.len(), Ordering::Relaxed);
                return Err(error);
            }
        }
        Ok(())
    })
}

/// The runs `which`, longest first; of equal ones those that come first.
pub fn longest_first(mut which: Vec<usize>, costs: &[f64]) -> Vec<usize> {
    which.sort_by(|&a, &b| costs[b].total_cmp(&costs[a]).then(a.cmp(&b)));
    which
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        benchmarks::BENCHMARKS,
        config::{Experiment, Override},
        methods::METHODS,
    };

    #[test]
    fn a_panic_ends_one_run_and_no_other() {
        static BROKEN: &[Method] = &[
            Method { name: "broken", build: |_| panic!("out of luck"), ..Method::DEFAULT },
            Method { name: "sound", keys: METHODS[0].keys, ..Method::DEFAULT },
        ];
        let set =
            ["method=all", "tasks=1", "samples=10", "hidden=4"].map(|text| Override::parse(text).unwrap());
        let runs = Experiment::resolve(&set, BENCHMARKS, BROKEN).unwrap().runs();
        let source = load(&runs[0], Path::new("nowhere")).unwrap();
        let mut results = vec![String::new(); 2];
        run_all(&runs, &[0, 1], &source, 1, None, &mut |report| {
            if let RunEvent::Finished { index, record, .. } = report {
                results[index] = record.map_or_else(|error| error.to_string(), |record| record.method);
            }
            Ok::<(), ()>(())
        })
        .unwrap();
        assert_eq!(results, ["the run panicked: out of luck", "sound"]);
    }

    #[test]
    fn a_run_that_does_not_fit_into_memory_is_refused_with_the_number() {
        let set = |text: &[&str]| {
            let set: Vec<_> = text.iter().map(|text| Override::parse(text).unwrap()).collect();
            let run = Experiment::resolve(&set, BENCHMARKS, METHODS).unwrap().first_run();
            let source = load(&run, Path::new("nowhere")).unwrap();
            let stream = (run.benchmark.build)(&source, &run.shared, 0).unwrap();
            check_memory(&run, &stream, Some(1 << 30)).map_err(|error| error.to_string())
        };
        assert_eq!(set(&["method=multitask", "tasks=20"]), Ok(()));
        let message =
            |needed| Err(format!("the run needs about {needed} MB of memory, 1024 MB are available"));
        assert_eq!(set(&["method=multitask", "multitask.epochs=10000", "tasks=20"]), message(1536));
        assert_eq!(set(&["method=clone-and-finetune", "tasks=1000", "samples=10"]), message(1037));
        assert_eq!(set(&["method=finetune", "tasks=1000", "samples=10"]), Ok(()));
    }

    #[test]
    fn costs_come_from_the_table_until_they_are_measured() {
        let set = ["method=finetune,hal,er-ring", "samples=100"].map(|text| Override::parse(text).unwrap());
        let runs = Experiment::resolve(&set, BENCHMARKS, METHODS).unwrap().runs();
        let rough = costs(&runs, &[]);
        assert_eq!(longest_first(vec![0, 1, 2], &rough), [1, 2, 0]);
        assert_eq!(longest_first(vec![2, 0], &[1.0; 3]), [0, 2]);

        // Half as many samples of finetune took 5 s, of which the table knows nothing.
        let mut record: Record = serde_json::from_str(include_str!("../tests/record_v1.json")).unwrap();
        record.method = "finetune".to_owned();
        record.config = runs[0].effective();
        record.config.insert("samples".to_owned(), Value::Int(50));
        (record.train_seconds, record.eval_seconds) = (2.0, 3.0);
        let measured = costs(&runs, &[record]);
        assert!((measured[0] - 10.0).abs() < 1e-9, "{measured:?}");
        assert!((measured[1] / measured[0] - rough[1] / rough[0]).abs() < 1e-9, "{measured:?}");
    }
}
