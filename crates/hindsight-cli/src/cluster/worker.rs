//! A worker: claims runs of a shared folder, one after the other, and executes them.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    io,
    path::Path,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use anyhow::Context;
use hindsight::{
    checkpoint::Checkpoints,
    config::RunConfig,
    run::{RunError, RunEvent, run_all},
    run_folder::summaries,
    stream::Source,
    sweep::Shard,
};
use hindsight_report::plural;

use super::{
    claims::{Claim, Claimant, Claims, End, HEARTBEAT, Listing, OwnerFile},
    owner::{Liveness, Owner, liveness},
    plan::read_plan,
    slurm::STOPPED,
};
use crate::{
    failure::{LaunchError, fail},
    messages::{inform, tell},
    run_folder::{RunFolder, cannot_write},
    signals::on_interrupt,
};

/// So long must the owner of a claim be silent before another takes over what the scheduler says has ended.
const PATIENCE: Duration = Duration::from_secs(3 * HEARTBEAT.as_secs());

/// Silent for so long by any two clocks: there is no need to watch.
const LONG_SILENT: Duration = Duration::from_secs(600);

/// How often a worker that has nothing else to do looks again.
const LOOK: Duration = Duration::from_secs(2);

/// Which of the runs of a folder a worker begins with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    pub(crate) shard: Shard,
    /// Take over from an owner that nobody can be asked about once it has been silent for so long.
    pub(crate) stale_after: Option<Duration>,
}

/// What a worker needs to execute runs of a shared folder.
pub(crate) struct Worker<'w> {
    /// The shared folder.
    pub(crate) root: &'w Path,
    /// The folder in it that records of these runs belong into.
    pub(crate) folder: &'w Path,
    pub(crate) runs: &'w [RunConfig],
    pub(crate) source: &'w Arc<Source>,
    pub(crate) share: Share,
    pub(crate) jobs: usize,
    /// With tasks and snapshots.
    pub(crate) details: bool,
    pub(crate) checkpoints: Checkpoints,
    /// Keep the checkpoints of finished runs.
    pub(crate) keep: bool,
}

/// What a worker did.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Worked {
    pub(crate) done: usize,
    pub(crate) failed: usize,
    pub(crate) stopped: bool,
}

impl Worked {
    /// What the process is to end with.
    pub(crate) fn code(self) -> u8 {
        if self.stopped { STOPPED } else { u8::from(self.failed > 0) }
    }

    pub(crate) fn add(&mut self, other: Worked) {
        self.done += other.done;
        self.failed += other.failed;
        self.stopped |= other.stopped;
    }
}

impl Worker<'_> {
    /// A flag that SIGTERM sets: save, and stop.
    pub(crate) fn stop_flag() -> anyhow::Result<Arc<AtomicBool>> {
        // A scheduler may send the signal to the script and to the worker.
        on_interrupt(false)
    }

    /// Executes runs until none is left that another worker does not do.
    pub(crate) fn work(&self) -> anyhow::Result<Worked> {
        let owner = Owner::current();
        let queue = self.queue(&owner)?;
        let records = self.root.join(queue.claimant.records());
        let folder: Mutex<Option<RunFolder>> = Mutex::new(None);
        let (done, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let over = Over::default();
        std::thread::scope(|scope| {
            scope.spawn(|| over.every(HEARTBEAT, || queue.claimant.touch()));
            let threads: Vec<_> = (0..self.jobs)
                .map(|_| {
                    scope.spawn(|| -> anyhow::Result<()> {
                        while let Some((index, claim)) = queue.next(&self.checkpoints)? {
                            let result = self.execute(index, &claim, &queue, &records, &folder)?;
                            match result {
                                Ended::Done => drop(done.fetch_add(1, Ordering::Relaxed)),
                                Ended::Failed => drop(failed.fetch_add(1, Ordering::Relaxed)),
                                Ended::Stopped | Ended::Lost => {}
                            }
                        }
                        Ok(())
                    })
                })
                .collect();
            let results: Vec<_> = threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
            over.set();
            for result in results {
                result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            }
            anyhow::Ok(())
        })?;
        let (done, failed) = (done.into_inner(), failed.into_inner());
        let stopped = self.checkpoints.stopped();
        let note = if stopped { ", told to stop" } else { "" };
        inform(format_args!("{}: {} done, {failed} failed{note}", owner.describe(), plural(done, "run")));
        Ok(Worked { done, failed, stopped })
    }

    /// The runs to begin, this worker's share first.
    fn queue(&self, owner: &Owner) -> anyhow::Result<Queue<'_>> {
        let ids: Vec<String> = self.runs.iter().map(RunConfig::id).collect();
        let index_of: HashMap<&str, usize> = ids.iter().map(String::as_str).zip(0..).collect();
        let plan = read_plan(self.root)?;
        let planned: HashSet<&str> = plan.iter().map(|run| run.id.as_str()).collect();
        if let Some(index) = ids.iter().position(|id| !planned.contains(id.as_str())) {
            let run = format!("{} seed {}", self.runs[index].method.name, self.runs[index].seed);
            return Err(LaunchError::Changed { folder: self.root.to_owned(), run }.into());
        }
        let (mut own, mut others) = (VecDeque::new(), VecDeque::new());
        let (mut labels, mut retries) = (vec![String::new(); ids.len()], vec![0; ids.len()]);
        let todo = plan.iter().filter(|run| !run.done);
        for (place, run) in todo.enumerate() {
            // Of a reproduction on several data sets this is one.
            let Some(&index) = index_of.get(run.id.as_str()) else { continue };
            let to = if self.share.shard.has(place) { &mut own } else { &mut others };
            to.push_back(index);
            labels[index].clone_from(&run.label);
            retries[index] = run.retry;
        }
        // Workers without runs of their own do not all begin with the same.
        if !others.is_empty() {
            let first = self.share.shard.index * others.len() / self.share.shard.count % others.len();
            others.rotate_left(first);
        }
        let claims = Claims::of(self.root);
        let parent = self.folder.strip_prefix(self.root).unwrap_or(Path::new(""));
        let claimant = Claimant::new(&claims, owner, parent)?;
        let state = State { own, others, held: Vec::new(), listed: false, silent: BTreeMap::new() };
        let data = [self.source.checksum().to_owned()];
        let (stale_after, root) = (self.share.stale_after, self.root);
        Ok(Queue {
            root,
            ids,
            labels,
            retries,
            data,
            claims,
            claimant,
            stale_after,
            state: Mutex::new(state),
        })
    }

    /// Executes a run that is claimed.
    fn execute(
        &self,
        index: usize,
        claim: &Claim,
        queue: &Queue<'_>,
        records: &Path,
        folder: &Mutex<Option<RunFolder>>,
    ) -> anyhow::Result<Ended> {
        let (run, label, claimant) = (&self.runs[index], &queue.labels[index], &queue.claimant);
        inform(format_args!("{label}: begins"));
        let mut ended = Ended::Lost;
        let with_folder = |act: &mut dyn FnMut(&mut RunFolder) -> anyhow::Result<()>| {
            let mut folder = folder.lock().unwrap_or_else(PoisonError::into_inner);
            if folder.is_none() {
                *folder = Some(RunFolder::open(records)?);
            }
            folder.as_mut().map_or(Ok(()), act)
        };
        let checkpoints = Some(&self.checkpoints);
        run_all(self.runs, &[index], self.source, 1, checkpoints, &mut |event| -> anyhow::Result<()> {
            match event {
                RunEvent::Started { .. } | RunEvent::Progress { .. } => {}
                RunEvent::Note { text, .. } => inform(format_args!("note: {label}: {text}")),
                RunEvent::Warning { text, .. } => tell(format_args!("warning: {label}: {text}")),
                RunEvent::Task { task, row, .. } if self.details => {
                    with_folder(&mut |folder| folder.task(run, task, &row))?;
                }
                RunEvent::Task { .. } => {}
                RunEvent::Finished { record, snapshot, .. } => match *record {
                    Ok(record) => {
                        // Somebody took this worker for dead, and does the run.
                        if !claimant.holds(claim).with_context(|| cannot_write(records))? {
                            tell(format_args!(
                                "warning: {label}: taken over by another worker; not recorded"
                            ));
                            return Ok(());
                        }
                        with_folder(&mut |folder| {
                            if let Some(snapshot) = snapshot.as_ref().filter(|_| self.details) {
                                folder.snapshot(snapshot)?;
                            }
                            folder.record(&record)
                        })?;
                        claimant.end(claim, End::Done)?;
                        if !self.keep {
                            // They do no harm.
                            let _ = self.checkpoints.remove(run);
                        }
                        let result = record.accuracy.map_or("diverged".to_owned(), |a| format!("{a:.1} %"));
                        inform(format_args!("{label}: {result}"));
                        ended = Ended::Done;
                    }
                    Err(RunError::Stopped { batches }) => {
                        inform(format_args!("{label}: saved after {batches} batches"));
                        claimant.end(claim, End::Free)?;
                        ended = Ended::Stopped;
                    }
                    Err(error) => {
                        tell(format_args!("{label} failed: {error}"));
                        // The error is reported in any case, and may be that nothing can be written.
                        let _ = with_folder(&mut |folder| folder.failure(run, &error));
                        claimant.end(claim, End::Failed)?;
                        ended = Ended::Failed;
                    }
                },
            }
            Ok(())
        })
        .inspect_err(|error| {
            // Do not wait for other runs: what is finished is on the disk, and the claims are given up with
            // this process.
            std::process::exit(fail(error).into())
        })?;
        // A flag that was set before the first batch leaves a run that was claimed and never began.
        if ended == Ended::Lost && self.checkpoints.stopped() {
            claimant.end(claim, End::Free)?;
            ended = Ended::Stopped;
        }
        Ok(ended)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    Done,
    Failed,
    Stopped,
    /// Another worker does it.
    Lost,
}

/// What is left to claim.
struct Queue<'q> {
    root: &'q Path,
    /// By run.
    ids: Vec<String>,
    labels: Vec<String>,
    /// [`PlannedRun::retry`](super::PlannedRun::retry).
    retries: Vec<u32>,
    /// SHA-256 of the data.
    data: [String; 1],
    claims: Claims,
    claimant: Claimant,
    stale_after: Option<Duration>,
    state: Mutex<State>,
}

struct State {
    /// Runs of this worker's share.
    own: VecDeque<usize>,
    /// Runs of others, which may never come to them.
    others: VecDeque<usize>,
    /// Runs that others have claimed.
    held: Vec<usize>,
    /// The claims were listed after this worker's share was done.
    listed: bool,
    /// Owners that seem to have ended: when they touched their file, and since when that is watched.
    silent: BTreeMap<Owner, (SystemTime, Instant)>,
}

impl Queue<'_> {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims the next run. None if there is none, or if this worker is to stop.
    fn next(&self, checkpoints: &Checkpoints) -> anyhow::Result<Option<(usize, Claim)>> {
        while !checkpoints.stopped() {
            let state = &mut *self.lock();
            if let Some(index) = state.own.pop_front() {
                match self.claimant.claim(&self.ids[index], 0)? {
                    Some(claim) => return Ok(Some((index, claim))),
                    None => state.others.push_back(index),
                }
            } else if !state.listed {
                // One listing instead of an attempt at each.
                let listing = self.list()?;
                let mut free = VecDeque::new();
                for index in std::mem::take(&mut state.others) {
                    let known = listing.of(&self.ids[index]);
                    if known.is_settled(self.retries[index]) {
                        continue;
                    }
                    match known.claims {
                        0 => free.push_back(index),
                        _ => state.held.push(index),
                    }
                }
                (state.others, state.listed) = (free, true);
            } else if let Some(index) = state.others.pop_front() {
                if let Some(claim) = self.claimant.claim(&self.ids[index], 0)? {
                    return Ok(Some((index, claim)));
                }
                state.held.push(index);
            } else if state.held.is_empty() {
                return Ok(None);
            } else if let Some(taken) = self.take_over(state)? {
                return Ok(Some(taken));
            } else if !state.held.is_empty() {
                std::thread::sleep(LOOK);
            }
        }
        Ok(None)
    }

    fn list(&self) -> anyhow::Result<Listing> {
        self.claims.list().with_context(|| cannot_write(self.root))
    }

    /// Claims a run whose owner has ended without doing it. Leaves in `held` those that may come to that.
    fn take_over(&self, state: &mut State) -> anyhow::Result<Option<(usize, Claim)>> {
        let listing = self.list()?;
        let mut files: HashMap<usize, (Option<OwnerFile>, SystemTime)> = HashMap::new();
        for &index in &state.held {
            let (id, known) = (&self.ids[index], listing.of(&self.ids[index]));
            if !known.is_under_way() {
                continue;
            }
            match self.claims.read(id, known.claims - 1) {
                Ok(file) => drop(files.insert(index, file)),
                // A new submission has cleared it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    return Err(error).with_context(|| cannot_write(&self.claims.path(id, known.claims - 1)));
                }
            }
        }
        let owners: Vec<Owner> =
            files.values().filter_map(|(file, _)| Some(file.as_ref()?.owner.clone())).collect();
        let alive = if owners.is_empty() { BTreeMap::new() } else { liveness(&owners) };
        let mut pending = std::mem::take(&mut state.held);
        while let Some(index) = pending.pop() {
            let (id, known) = (&self.ids[index], listing.of(&self.ids[index]));
            let fate = match files.get(&index) {
                _ if known.is_settled(self.retries[index]) => Fate::Settled,
                _ if !known.is_under_way() => Fate::Abandoned,
                None => Fate::Later,
                Some((None, seen)) if silence(*seen) > LONG_SILENT => Fate::Abandoned,
                Some((None, _)) => Fate::Settled,
                Some((Some(file), seen)) => self.judge(state, file, *seen, alive[&file.owner], id)?,
            };
            match fate {
                Fate::Settled => {}
                Fate::Later => state.held.push(index),
                Fate::Abandoned => match self.claimant.claim(id, known.claims)? {
                    Some(claim) => {
                        state.held.append(&mut pending);
                        return Ok(Some((index, claim)));
                    }
                    // Another was faster, and may end as well.
                    None => state.held.push(index),
                },
            }
        }
        Ok(None)
    }

    /// What is to become of a run that somebody has claimed.
    fn judge(
        &self,
        state: &mut State,
        file: &OwnerFile,
        seen: SystemTime,
        alive: Liveness,
        id: &str,
    ) -> anyhow::Result<Fate> {
        let abandoned = match alive {
            Liveness::Running => return Ok(Fate::Settled),
            Liveness::Gone => true,
            Liveness::Ended => silence(seen) > LONG_SILENT || is_silent(state, &file.owner, seen),
            Liveness::Unknown => match self.stale_after {
                None => return Ok(Fate::Settled),
                Some(limit) => silence(seen) > limit && is_silent(state, &file.owner, seen),
            },
        };
        if !abandoned {
            return Ok(Fate::Later);
        }
        if self.has_record(&file.records, id)? {
            return Ok(Fate::Settled);
        }
        inform(format_args!("{id}: {} has ended without a result", file.owner.describe()));
        Ok(Fate::Abandoned)
    }

    /// Whether a worker that ended has left the record of a run, and only the mark is missing.
    fn has_record(&self, records: &Path, id: &str) -> anyhow::Result<bool> {
        let path = self.root.join(records);
        if !path.is_dir() {
            return Ok(false);
        }
        let (found, _) = summaries(&[path])?;
        Ok(found.iter().any(|run| run.id == id && run.counts(&self.data)))
    }
}

/// What becomes of a run that somebody has claimed.
enum Fate {
    /// It is done, or its owner does it.
    Settled,
    /// Its owner seems to have ended.
    Later,
    /// Whoever claims it next does it.
    Abandoned,
}

/// How long ago an owner touched its file, by this machine's clock.
fn silence(seen: SystemTime) -> Duration {
    SystemTime::now().duration_since(seen).unwrap_or_default()
}

/// Whether an owner has not touched its file while this worker watched, whatever clocks say.
fn is_silent(state: &mut State, owner: &Owner, seen: SystemTime) -> bool {
    let watched = state.silent.entry(owner.clone()).or_insert((seen, Instant::now()));
    if watched.0 != seen {
        *watched = (seen, Instant::now());
    }
    watched.1.elapsed() >= PATIENCE
}

/// Ends a thread that does something now and then.
#[derive(Default)]
struct Over {
    over: Mutex<bool>,
    changed: Condvar,
}

impl Over {
    fn set(&self) {
        *self.over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    fn every(&self, time: Duration, act: impl Fn()) {
        loop {
            let over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
            let (over, _) = self
                .changed
                .wait_timeout_while(over, time, |over| !*over)
                .unwrap_or_else(PoisonError::into_inner);
            if *over {
                return;
            }
            drop(over);
            act();
        }
    }
}
