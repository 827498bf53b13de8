//! One run from its configuration to its record, and many of them over the cores.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::{Duration, Instant, SystemTime},
};

use hindsight_engine::{Mlp, Net, ResNet};
use thiserror::Error;

use crate::{
    Learner, Record, Stream,
    config::{ConfigError, RunConfig},
    data::{self, DataError, Options},
    methods::{Method, Setup},
    protocol::{self, Evaluate, Event, Protocol, Status},
    record::Data,
    settings::Value,
    snapshot::Snapshot,
    stream::Source,
};

/// Why a run cannot start, or has no result.
#[derive(Debug, Error)]
pub enum RunError {
    /// The configuration does not fit the data.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The data cannot be had.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A fault of the program, most likely of a method. It ends this run alone.
    #[error("the run panicked: {reason}")]
    Panicked {
        /// What it said.
        reason: String,
    },
}

impl RunError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            RunError::Config(error) => error.hint(),
            RunError::Data(error) => error.hint(),
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
    Ok(Arc::new(Source::new(data::load(config.benchmark.dataset, dir, &options)?)))
}

/// The stream of a run.
pub fn stream(config: &RunConfig, source: &Arc<Source>) -> Result<Stream, RunError> {
    let stream = (config.benchmark.build)(source, &config.shared, config.seed)?;
    Ok(match config.method.joint {
        true => stream.joined(config.seed, config.own.int("epochs")),
        false => stream,
    })
}

/// The network of a run.
pub fn network(config: &RunConfig, stream: &Stream) -> Arc<dyn Net> {
    let shared = &config.shared;
    let fits = "widths are checked with the configuration, and a data set has some";
    match shared.text("network") {
        "mlp" => {
            let mut widths = vec![stream.width()];
            widths.extend(shared.widths("hidden"));
            widths.push(stream.classes());
            Arc::new(Mlp::new(&widths).expect(fits))
        }
        _ => {
            let (maps, stride) = (shared.widths("maps"), shared.int("stem_stride"));
            Arc::new(ResNet::new(stream.shape(), &maps, stride, stream.classes()).expect(fits))
        }
    }
}

/// The learner of a run, fresh.
pub fn learner(config: &RunConfig, stream: &Stream) -> Box<dyn Learner> {
    let setup = Setup {
        net: network(config, stream),
        heads: stream.heads().clone(),
        seed: config.seed,
        tasks: stream.len(),
        samples_per_task: stream.samples_per_task(),
        future: Some(stream),
        shared: &config.shared,
        own: &config.own,
    };
    (config.method.build)(&setup)
}

/// Does one run.
pub fn run(
    config: &RunConfig,
    source: &Arc<Source>,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<Record, RunError> {
    Ok(run_with_snapshot(config, source, watch)?.0)
}

/// Does one run, and takes a picture of the anchors that the learner has in the end, if it has any.
///
/// One seed is enough to look at, so only seed 0 is taken.
pub fn run_with_snapshot(
    config: &RunConfig,
    source: &Arc<Source>,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<(Record, Option<Snapshot>), RunError> {
    let started = SystemTime::now();
    let stream = stream(config, source)?;
    let mut learner = learner(config, &stream);
    let protocol = Protocol {
        batch: config.shared.int("batch"),
        evaluate: match config.shared.text("evaluate") {
            "full" => Evaluate::Full,
            "seen" => Evaluate::Seen,
            _ => Evaluate::Final,
        },
        every: config.shared.int("evaluate_every"),
    };
    let outcome = protocol::run(&stream, &mut *learner, &protocol, watch);
    let holdings = learner.holdings();
    let floats: usize = [holdings.memory, holdings.anchors].iter().flatten().map(|batch| batch.x.len()).sum();
    let data = Data { name: source.dataset.name.clone(), sha256: source.checksum().to_owned() };
    let record = Record::new(config, &outcome, data, started, 4 * floats as u64);
    let snapshot = (config.seed == 0 && outcome.status == Status::Done)
        .then(|| Snapshot::take(config, &*network(config, &stream), &stream, &*learner));
    Ok((record, snapshot.flatten()))
}

/// Progress of a run is reported at most this often.
const PAUSE: Duration = Duration::from_millis(50);

/// What [`run_all`] reports.
#[derive(Debug)]
pub enum Report {
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
    let places: BTreeMap<String, usize> =
        runs.iter().enumerate().map(|(place, run)| (run.identity(), place)).collect();
    records.into_iter().filter_map(|record| Some((*places.get(&record.identity())?, record))).collect()
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
    let worth: Vec<f64> = runs.iter().filter_map(|run| Some(pace(run.method)? / run.method.cost)).collect();
    let worth = if worth.is_empty() { 1.0 } else { crate::metrics::mean(worth) };
    let cost = |run: &RunConfig| pace(run.method).unwrap_or(run.method.cost * worth) * work(&run.effective());
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
/// thread.
///
/// What a run gives does not depend on `order` or `jobs`: runs share nothing but the data. With the longest
/// first, no long one is left alone in the end. Stops early if `watch` returns an error, which it then returns.
pub fn run_all<E>(
    runs: &[RunConfig],
    order: &[usize],
    source: &Arc<Source>,
    jobs: usize,
    watch: &mut dyn FnMut(Report) -> Result<(), E>,
) -> Result<(), E> {
    let next = AtomicUsize::new(0);
    let (send, receive) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, order.len().max(1)) {
            let (next, send) = (&next, send.clone());
            scope.spawn(move || {
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(&index) = order.get(place) else { return };
                    // The receiver is gone only when the caller has given up.
                    if send.send(Report::Started { index }).is_err() {
                        return;
                    }
                    let mut told = Instant::now();
                    let mut watch = |event: Event<'_>| {
                        let report = match event {
                            // Waking the caller after every batch would cost more than some batches do.
                            Event::Progress { done, total } if done < total && told.elapsed() < PAUSE => {
                                return;
                            }
                            Event::Progress { done, total } => Report::Progress { index, done, total },
                            Event::Task { task, row } => Report::Task { index, task, row: row.to_vec() },
                        };
                        told = Instant::now();
                        let _ = send.send(report);
                    };
                    // Nothing of a run that panicked is used again.
                    let run = AssertUnwindSafe(|| run_with_snapshot(&runs[index], source, &mut watch));
                    let (record, snapshot) = match catch_unwind(run).unwrap_or_else(|panic| {
                        let text = panic.downcast_ref::<&str>().map(ToString::to_string);
                        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
                        Err(RunError::Panicked {
                            reason: text.unwrap_or_else(|| "no reason given".to_owned()),
                        })
                    }) {
                        Ok((record, snapshot)) => (Ok(record), snapshot.map(Box::new)),
                        Err(error) => (Err(error), None),
                    };
                    let record = Box::new(record);
                    if send.send(Report::Finished { index, record, snapshot }).is_err() {
                        return;
                    }
                }
            });
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
        let runs = Experiment::resolve(&set, BENCHMARKS, BROKEN).unwrap().runs;
        let source = load(&runs[0], Path::new("nowhere")).unwrap();
        let mut results = vec![String::new(); 2];
        run_all(&runs, &[0, 1], &source, 1, &mut |report| {
            if let Report::Finished { index, record, .. } = report {
                results[index] = record.map_or_else(|error| error.to_string(), |record| record.method);
            }
            Ok::<(), ()>(())
        })
        .unwrap();
        assert_eq!(results, ["the run panicked: out of luck", "sound"]);
    }

    #[test]
    fn costs_come_from_the_table_until_they_are_measured() {
        let set = ["method=finetune,hal,er-ring", "samples=100"].map(|text| Override::parse(text).unwrap());
        let runs = Experiment::resolve(&set, BENCHMARKS, METHODS).unwrap().runs;
        let rough = costs(&runs, &[]);
        assert_eq!(longest_first(vec![0, 1, 2], &rough), [1, 2, 0]);
        assert_eq!(longest_first(vec![2, 0], &[1.0; 3]), [0, 2]);

        // Half as many samples of finetune took 5 s, of which the table knows nothing.
        let mut record: Record = serde_json::from_str(include_str!("../tests/first.json")).unwrap();
        record.method = "finetune".to_owned();
        record.config = runs[0].effective();
        record.config.insert("samples".to_owned(), Value::Int(50));
        (record.train_seconds, record.eval_seconds) = (2.0, 3.0);
        let measured = costs(&runs, &[record]);
        assert!((measured[0] - 10.0).abs() < 1e-9, "{measured:?}");
        assert!((measured[1] / measured[0] - rough[1] / rough[0]).abs() < 1e-9, "{measured:?}");
    }
}
