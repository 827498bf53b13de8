//! One run from its configuration to its record, and many of them over the cores.

use std::{
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
    methods::Setup,
    protocol::{self, Evaluate, Event, Protocol, Status},
    record::Data,
    snapshot::Snapshot,
    stream::Source,
};

/// Why a run cannot start.
#[derive(Debug, Error)]
pub enum RunError {
    /// The configuration does not fit the data.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The data cannot be had.
    #[error(transparent)]
    Data(#[from] DataError),
}

impl RunError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            RunError::Config(error) => error.hint(),
            RunError::Data(error) => error.hint(),
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

/// Does all `runs`, `jobs` at a time, each on one thread, and reports to the calling thread.
///
/// What a run gives does not depend on `jobs`: runs share nothing but the data. Stops early if `watch`
/// returns an error, which it then returns.
pub fn run_all<E>(
    runs: &[RunConfig],
    source: &Arc<Source>,
    jobs: usize,
    watch: &mut dyn FnMut(Report) -> Result<(), E>,
) -> Result<(), E> {
    let next = AtomicUsize::new(0);
    let (send, receive) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, runs.len().max(1)) {
            let (next, send) = (&next, send.clone());
            scope.spawn(move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(config) = runs.get(index) else { return };
                    let mut told = Instant::now();
                    let result = run_with_snapshot(config, source, &mut |event| {
                        let report = match event {
                            // Waking the caller after every batch would cost more than some batches do.
                            Event::Progress { done, total } if done < total && told.elapsed() < PAUSE => {
                                return;
                            }
                            Event::Progress { done, total } => Report::Progress { index, done, total },
                            Event::Task { task, row } => Report::Task { index, task, row: row.to_vec() },
                        };
                        told = Instant::now();
                        // The receiver is gone only when the caller has given up.
                        let _ = send.send(report);
                    });
                    let (record, snapshot) = match result {
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
                next.store(runs.len(), Ordering::Relaxed);
                return Err(error);
            }
        }
        Ok(())
    })
}
