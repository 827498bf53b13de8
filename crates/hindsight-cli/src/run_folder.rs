//! A folder of runs: its lock, the files that records are appended to, and the records that it already has.

use std::{
    collections::{BTreeMap, HashSet},
    error::Error,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use anyhow::Context;
use hindsight::{
    Record,
    config::RunConfig,
    record::{COMMIT, PROGRAM, RECORDS, TASKS},
    run::matched,
    run_folder::{self, RecordError},
    snapshot::{SNAPSHOTS, Snapshot},
    stream::Source,
};

use hindsight_report::plural;

use crate::{
    failure::{CannotWrite, FolderError},
    messages::inform,
};

const LOCK: &str = ".lock";
const FAILURES: &str = "failures.jsonl";

/// A folder that this process alone writes to: records of finished runs, and beside them tasks, snapshots and
/// failures.
pub(crate) struct RunFolder {
    folder: PathBuf,
    records: File,
    /// Released by the system when the process ends, however it ends.
    _lock: File,
}

impl RunFolder {
    /// Opens a folder and creates it if need be.
    pub(crate) fn open(folder: &Path) -> anyhow::Result<RunFolder> {
        fs::create_dir_all(folder).with_context(|| cannot_write(folder))?;
        let path = folder.join(LOCK);
        let lock = OpenOptions::new().create(true).append(true).open(&path);
        let lock = lock.with_context(|| cannot_write(&path))?;
        // A file system without locks is used without one.
        if let Err(TryLockError::WouldBlock) = lock.try_lock() {
            return Err(FolderError::InUse(folder.to_owned()).into());
        }
        Ok(RunFolder { records: append(folder, RECORDS)?, folder: folder.to_owned(), _lock: lock })
    }

    /// Creates the next numbered folder under `parent`. Two processes never get the same.
    pub(crate) fn create_numbered(parent: &Path, benchmark: &str) -> anyhow::Result<PathBuf> {
        fs::create_dir_all(parent).with_context(|| cannot_write(parent))?;
        for number in 1.. {
            let folder = parent.join(format!("{number:04}-{benchmark}"));
            let taken = parent
                .read_dir()
                .with_context(|| cannot_write(parent))?
                .flatten()
                .any(|entry| entry.file_name().to_string_lossy().starts_with(&format!("{number:04}-")));
            if taken {
                continue;
            }
            match fs::create_dir(&folder) {
                Ok(()) => return Ok(folder),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error).with_context(|| cannot_write(&folder)),
            }
        }
        unreachable!("there is always another number")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Appends a record with one write, so that a killed process leaves at most one incomplete line, and
    /// syncs it, so that it survives a power failure.
    pub(crate) fn record(&mut self, record: &Record) -> anyhow::Result<()> {
        let line = serde_json::to_string(record)? + "\n";
        let written = self.records.write_all(line.as_bytes()).and_then(|()| match self.records.sync_data() {
            // A pipe or device cannot be synced.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            synced => synced,
        });
        written.and_then(|()| self.restore()).with_context(|| cannot_write(&self.folder.join(RECORDS)))
    }

    /// Writes the file of records again if it was deleted or replaced since it was opened; while it is open
    /// its content is still there.
    pub(crate) fn restore(&mut self) -> io::Result<()> {
        let path = self.folder.join(RECORDS);
        if same_file(&self.records, &path)? {
            return Ok(());
        }
        inform(format_args!(
            "note: `{}` was removed while runs were under way; written again",
            path.display()
        ));
        let mut kept = String::new();
        self.records.rewind()?;
        self.records.read_to_string(&mut kept)?;
        let mut new = OpenOptions::new().create(true).read(true).append(true).open(&path)?;
        let mut there = String::new();
        new.read_to_string(&mut there)?;
        let there: HashSet<&str> = there.lines().collect();
        let missing: String =
            kept.lines().filter(|line| !there.contains(line)).flat_map(|line| [line, "\n"]).collect();
        new.write_all(missing.as_bytes())?;
        new.sync_all()?;
        self.records = new;
        Ok(())
    }

    pub(crate) fn snapshot(&self, snapshot: &Snapshot) -> anyhow::Result<()> {
        self.add(SNAPSHOTS, serde_json::to_string(snapshot)?)
    }

    /// Appends the accuracies after a task: what a killed run leaves of its finished tasks.
    pub(crate) fn task(&self, run: &RunConfig, task: usize, row: &[f64]) -> anyhow::Result<()> {
        let line = serde_json::json!({
            "method": run.method.name, "benchmark": run.benchmark.name, "seed": run.seed, "task": task, "row": row,
        });
        self.add(TASKS, line.to_string())
    }

    /// Appends a failed run. It is no record, so the same command tries it again.
    pub(crate) fn failure(&self, run: &RunConfig, error: &dyn Error) -> anyhow::Result<()> {
        let line = serde_json::json!({
            "method": run.method.name, "benchmark": run.benchmark.name, "seed": run.seed,
            "config": run.effective(), "error": error.to_string(),
        });
        self.add(FAILURES, line.to_string())
    }

    fn add(&self, name: &str, line: String) -> anyhow::Result<()> {
        let mut file = append(&self.folder, name)?;
        file.write_all((line + "\n").as_bytes()).with_context(|| cannot_write(&self.folder.join(name)))
    }
}

/// Whether another process has the lock of a folder.
pub(crate) fn is_locked(folder: &Path) -> bool {
    let lock = OpenOptions::new().append(true).open(folder.join(LOCK));
    lock.is_ok_and(|lock| matches!(lock.try_lock(), Err(TryLockError::WouldBlock)))
}

/// The records that a folder and its subfolders have of `runs`, by index, made by this version from this
/// data.
pub(crate) fn finished(
    folder: &Path,
    runs: &[RunConfig],
    source: &Source,
) -> anyhow::Result<BTreeMap<usize, Record>> {
    finished_with(folder, runs, Some(source), |_| ())
}

/// As [`finished`], whatever the data.
pub(crate) fn finished_on_any_data(
    folder: &Path,
    runs: &[RunConfig],
) -> anyhow::Result<BTreeMap<usize, Record>> {
    finished_with(folder, runs, None, |_| ())
}

/// As [`finished`], without the parts of records that a ranking does not need.
pub(crate) fn finished_slim(
    folder: &Path,
    runs: &[RunConfig],
    source: &Source,
) -> anyhow::Result<BTreeMap<usize, Record>> {
    finished_with(folder, runs, Some(source), |record| {
        (record.matrix, record.initial, record.curve) = Default::default();
    })
}

fn finished_with(
    folder: &Path,
    runs: &[RunConfig],
    source: Option<&Source>,
    change: impl Fn(&mut Record),
) -> anyhow::Result<BTreeMap<usize, Record>> {
    if !folder.exists() {
        return Ok(BTreeMap::new());
    }
    let (records, notes) = match run_folder::read_with(&[folder], change) {
        Ok(found) => (found.records, found.notes),
        Err(RecordError::NoFile { .. }) => (Vec::new(), Vec::new()),
        Err(RecordError::Nothing { notes, .. }) => (Vec::new(), notes),
        Err(error) => return Err(error.into()),
    };
    notes.iter().for_each(|note| inform(format_args!("note: {note}")));
    let (found, mut known) = (records.len(), matched(runs, records));
    let folder = folder.display();
    let others = found - known.len();
    if others > 0 {
        inform(format_args!("note: `{folder}` also has {} of other runs", plural(others, "record")));
    }
    let matching = known.len();
    known.retain(|_, record| {
        let same =
            |source: &Source| record.data.as_ref().is_some_and(|data| data.sha256 == source.checksum());
        record.program == PROGRAM && source.is_none_or(same)
    });
    let stale = matching - known.len();
    if stale > 0 {
        let stale = plural(stale, "record");
        inform(format_args!(
            "note: {stale} in `{folder}` by another version or of other data: these runs are repeated"
        ));
    }
    // Most commits do not change results, so these records are kept.
    let other = |record: &&Record| record.commit.as_deref().zip(COMMIT).is_some_and(|(was, now)| was != now);
    let older = known.values().filter(other).count();
    if older > 0 {
        inform(format_args!(
            "note: {} in `{folder}` by another commit of this version",
            plural(older, "record")
        ));
    }
    Ok(known)
}

/// Opens a file of lines to append to.
fn append(folder: &Path, name: &str) -> anyhow::Result<File> {
    let path = folder.join(name);
    let open = || -> io::Result<File> {
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(&path)?;
        let mut last = [b'\n'];
        if file.metadata()?.len() > 0 {
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
        }
        if last != [b'\n'] {
            end_last_line(&mut file, &path)?;
        }
        Ok(file)
    };
    open().with_context(|| cannot_write(&path))
}

/// Whether `path` still leads to an open file.
#[cfg(unix)]
fn same_file(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let id = |meta: fs::Metadata| (meta.dev(), meta.ino());
    match fs::metadata(path) {
        Ok(found) => Ok(id(found) == id(file.metadata()?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Elsewhere an open file cannot be deleted.
#[cfg(not(unix))]
fn same_file(_: &File, path: &Path) -> io::Result<bool> {
    path.try_exists()
}

/// Completes or drops the last line, which a killed process may have left without its end.
fn end_last_line(file: &mut File, path: &Path) -> io::Result<()> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    let start = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
    if serde_json::from_slice::<serde_json::Value>(&bytes[start..]).is_ok() {
        return file.write_all(b"\n");
    }
    inform(format_args!("note: the last line of `{}` is incomplete and is dropped", path.display()));
    // Not every system truncates a file that is opened for appending.
    OpenOptions::new().write(true).open(path)?.set_len(start as u64)
}

pub(crate) fn cannot_write(path: &Path) -> CannotWrite {
    CannotWrite(path.to_owned())
}
