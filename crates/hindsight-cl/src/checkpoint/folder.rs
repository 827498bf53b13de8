//! The checkpoints of runs: a folder each, of which the last few are kept.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use sha2::{Digest, Sha256};

use super::{Checkpoint, CheckpointError, Header};
use hindsight_data::{atomic_file::sync_names, hex::hex};

use crate::{Learner, config::RunConfig, state::Word};

/// How runs are saved, and how they are told to stop.
#[derive(Debug, Clone)]
pub struct Checkpoints {
    /// Each run has a folder in this one.
    pub folder: PathBuf,
    /// Save after every so many batches; 0 for only when told to stop.
    pub every: usize,
    /// Save when so much time has passed since the last one.
    pub interval: Option<Duration>,
    /// How many are kept of a run.
    pub keep: usize,
    /// Once true, runs save themselves and stop.
    pub stop: Arc<AtomicBool>,
    /// The folder in which the final learners of runs are kept, if they are.
    pub models: Option<PathBuf>,
}

impl Checkpoints {
    /// Whether runs are to stop.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The folder of a run.
    pub fn of(&self, run: &RunConfig) -> PathBuf {
        self.folder.join(name(run))
    }

    /// Where the final learner of a run is kept, if it is.
    pub fn model(&self, run: &RunConfig) -> Option<PathBuf> {
        self.models.as_ref().map(|folder| folder.join(format!("{}.safetensors", name(run))))
    }

    /// Removes the checkpoints of a run.
    pub fn remove(&self, run: &RunConfig) -> io::Result<()> {
        match fs::remove_dir_all(self.of(run)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// The last good checkpoint of a run, where it is, and what was wrong with later ones.
    #[expect(clippy::type_complexity, reason = "used once")]
    pub fn latest(
        &self,
        run: &RunConfig,
    ) -> Result<(Option<(PathBuf, Checkpoint)>, Vec<CheckpointError>), CheckpointError> {
        let mut wrong = Vec::new();
        for path in saved(&self.of(run))?.into_iter().rev() {
            match Checkpoint::read(&path) {
                Ok(checkpoint) => return Ok((Some((path, checkpoint)), wrong)),
                Err(error @ (CheckpointError::Malformed { .. } | CheckpointError::Damaged { .. })) => {
                    wrong.push(error);
                }
                Err(error) => return Err(error),
            }
        }
        Ok((None, wrong))
    }
}

/// A name that no other run of a folder has.
fn name(run: &RunConfig) -> String {
    let digest = Sha256::digest(run.identity());
    format!("{}-seed{}-{}", run.method.name, run.seed, hex(&digest[..4]))
}

/// The checkpoints in a folder, oldest first; none if it does not exist.
fn saved(folder: &Path) -> Result<Vec<PathBuf>, CheckpointError> {
    let unreadable =
        |error: io::Error| CheckpointError::Unreadable { path: folder.to_owned(), reason: error.to_string() };
    let mut found: Vec<PathBuf> = match folder.read_dir() {
        Ok(entries) => {
            entries.map(|entry| Ok(entry?.path())).collect::<Result<_, _>>().map_err(unreadable)?
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(unreadable(error)),
    };
    found.retain(|path| path.extension().is_some_and(|extension| extension == "safetensors"));
    found.sort();
    Ok(found)
}

/// The file in a run's folder that the next checkpoint is written to before it has its name.
const SPARE: &str = ".spare";

/// Writes the checkpoints of one run beside it, on a thread of its own. Training never waits for the disk:
/// where that is slow, a checkpoint that has not been begun gives way to the next.
pub struct CheckpointWriter {
    folder: PathBuf,
    desk: Arc<WriteQueue>,
    thread: Option<JoinHandle<Result<(), CheckpointError>>>,
}

/// What is to be written next.
#[derive(Default)]
struct WriteQueue {
    next: Mutex<Next>,
    changed: Condvar,
}

#[derive(Default)]
struct Next {
    job: Option<(PathBuf, Checkpoint)>,
    /// Memory of checkpoints that are written.
    memory: Vec<Vec<Word>>,
    /// Nothing more will come, or nothing more can be written.
    over: bool,
}

impl WriteQueue {
    fn lock(&self) -> MutexGuard<'_, Next> {
        // A panic elsewhere leaves a job or none; both are sound.
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has `checkpoint` written next, and not the one that waits, if one does.
    fn put(&self, path: PathBuf, checkpoint: Checkpoint) {
        self.change(|next| {
            let given_up = next.job.replace((path, checkpoint));
            next.memory.extend(given_up.map(|(_, checkpoint)| checkpoint.into_memory()));
        });
    }

    /// The next job; none when there will be no more.
    fn take(&self) -> Option<(PathBuf, Checkpoint)> {
        let waiting = |next: &mut Next| next.job.is_none() && !next.over;
        let next = self.changed.wait_while(self.lock(), waiting);
        next.unwrap_or_else(PoisonError::into_inner).job.take()
    }

    fn change(&self, change: impl FnOnce(&mut Next)) {
        change(&mut self.lock());
        self.changed.notify_one();
    }
}

impl CheckpointWriter {
    /// Makes `folder`, in which the last `keep` will be.
    pub fn new(folder: PathBuf, keep: usize) -> Result<CheckpointWriter, CheckpointError> {
        fs::create_dir_all(&folder).map_err(|error| CheckpointError::Unwritable {
            path: folder.clone(),
            reason: error.to_string(),
        })?;
        let desk = Arc::new(WriteQueue::default());
        let (inside, jobs) = (folder.clone(), desk.clone());
        let thread = std::thread::spawn(move || {
            // The folder's own name, and those of the folders it is in, which may be as new: a run's, and all
            // runs'.
            inside.ancestors().skip(1).take(3).for_each(|parent| drop(sync_names(parent)));
            let spare = inside.join(SPARE);
            let result = write_all(&jobs, &inside, &spare, keep);
            // One too many does no harm.
            let _ = fs::remove_file(spare);
            jobs.change(|next| next.over = true);
            result
        });
        Ok(CheckpointWriter { folder, desk, thread: Some(thread) })
    }

    /// Has the state of `learner` written, in a run after so many batches. An error may be that of an earlier
    /// one.
    pub fn save(
        &mut self,
        batches: usize,
        header: Header,
        learner: &mut dyn Learner,
    ) -> Result<(), CheckpointError> {
        let (over, memory) = {
            let mut next = self.desk.lock();
            (next.over, next.memory.pop().unwrap_or_default())
        };
        // Its thread ends early only with an error.
        if over {
            return self.finish();
        }
        // Names sort as numbers do.
        let path = self.folder.join(format!("{batches:012}.safetensors"));
        self.desk.put(path, Checkpoint::take_into(memory, header, learner)?);
        Ok(())
    }

    /// Waits until the last one is written.
    pub fn finish(&mut self) -> Result<(), CheckpointError> {
        self.desk.change(|next| next.over = true);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(()),
        }
    }
}

impl Drop for CheckpointWriter {
    fn drop(&mut self) {
        // Who has not asked does not want to know; what was handed over is still written.
        let _ = self.finish();
    }
}

fn write_all(desk: &WriteQueue, folder: &Path, spare: &Path, keep: usize) -> Result<(), CheckpointError> {
    while let Some((path, checkpoint)) = desk.take() {
        let io =
            |error: io::Error| CheckpointError::Unwritable { path: path.clone(), reason: error.to_string() };
        let file = File::options().write(true).create(true).truncate(false).open(spare).map_err(io)?;
        checkpoint.fill(&file).and_then(|()| file.sync_data()).map_err(io)?;
        fs::rename(spare, &path).map_err(io)?;
        let all = saved(folder)?;
        for old in &all[..all.len().saturating_sub(keep.max(1))] {
            retire(old, spare);
        }
        // Where names are not known to be on the disk, the spare file may still have that of a checkpoint
        // there.
        if sync_names(folder).is_err() {
            let _ = fs::remove_file(spare);
        }
        desk.lock().memory.push(checkpoint.into_memory());
    }
    Ok(())
}

/// Makes of a checkpoint that is no longer wanted the file that the next one is written to: to write over it
/// is half the work of removing it and making another.
fn retire(old: &Path, spare: &Path) {
    // Under another name too, it is not ours to write over.
    #[cfg(unix)]
    let ours = fs::metadata(old).is_ok_and(|file| std::os::unix::fs::MetadataExt::nlink(&file) == 1);
    #[cfg(not(unix))]
    let ours = false;
    if !ours || fs::rename(old, spare).is_err() {
        let _ = fs::remove_file(old);
    }
}
