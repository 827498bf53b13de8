//! The folder of a command: files of lines that are added to, and what is in it already.

use std::{
    collections::BTreeMap,
    error::Error,
    fmt,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use anyhow::Context;
use hindsight::{
    Record,
    config::RunConfig,
    record::{COMMIT, PROGRAM, RECORDS},
    run::matched,
    run_folder::{self, RecordError},
    snapshot::{SNAPSHOTS, Snapshot},
    stream::Source,
};

use super::plural;
use crate::tell;

const TASKS: &str = "tasks.jsonl";
const FAILURES: &str = "failures.jsonl";

/// A folder that this command alone writes to: finished runs in one file, and beside it what else is kept of them.
pub(crate) struct Output {
    pub(crate) folder: PathBuf,
    records: File,
    /// Held until the command ends, however it ends.
    _lock: File,
}

impl Output {
    /// Opens a folder, new or not.
    pub(crate) fn open(folder: &Path) -> anyhow::Result<Output> {
        fs::create_dir_all(folder).with_context(|| cannot_write(folder))?;
        let path = folder.join(".lock");
        let lock = OpenOptions::new().create(true).append(true).open(&path);
        let lock = lock.with_context(|| cannot_write(&path))?;
        // Some file systems have no locks; there it is up to the user.
        if let Err(TryLockError::WouldBlock) = lock.try_lock() {
            return Err(InUse(folder.to_owned()).into());
        }
        Ok(Output { records: append(folder, RECORDS)?, folder: folder.to_owned(), _lock: lock })
    }

    /// The first numbered folder that does not exist yet; two commands at once get two.
    pub(crate) fn fresh(parent: &Path, benchmark: &str) -> anyhow::Result<PathBuf> {
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

    /// One write: a program that is killed leaves the whole line, or the beginning of the last one. What was computed
    /// for minutes or hours is on the disk after it, also for a machine that loses its power.
    pub(crate) fn record(&mut self, record: &Record) -> anyhow::Result<()> {
        let line = serde_json::to_string(record)? + "\n";
        let written = self.records.write_all(line.as_bytes()).and_then(|()| match self.records.sync_data() {
            // Not a file on a disk.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            synced => synced,
        });
        written.with_context(|| cannot_write(&self.folder.join(RECORDS)))
    }

    pub(crate) fn snapshot(&self, snapshot: &Snapshot) -> anyhow::Result<()> {
        self.add(SNAPSHOTS, serde_json::to_string(snapshot)?)
    }

    /// So that a killed run leaves what it had learned about its finished tasks.
    pub(crate) fn task(&self, run: &RunConfig, task: usize, row: &[f64]) -> anyhow::Result<()> {
        let line = serde_json::json!({
            "method": run.method.name, "benchmark": run.benchmark.name, "seed": run.seed, "task": task, "row": row,
        });
        self.add(TASKS, line.to_string())
    }

    /// A run without a result is tried again the next time, so it is no record.
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

/// Which of `runs` have a record in a folder or the folders in it, made by this program of this data.
pub(crate) fn finished(
    folder: &Path,
    runs: &[RunConfig],
    source: &Source,
) -> anyhow::Result<BTreeMap<usize, Record>> {
    let (records, notes) = match run_folder::read(&[folder]) {
        Ok(found) => (found.records, found.notes),
        Err(RecordError::NoFile { .. }) => (Vec::new(), Vec::new()),
        Err(RecordError::Nothing { notes, .. }) => (Vec::new(), notes),
        Err(error) => return Err(error.into()),
    };
    notes.iter().for_each(|note| tell(format_args!("note: {note}")));
    let (found, mut known) = (records.len(), matched(runs, records));
    let folder = folder.display();
    let others = found - known.len();
    if others > 0 {
        tell(format_args!("note: `{folder}` also has {} of other runs", plural(others, "record")));
    }
    let matching = known.len();
    known.retain(|_, record| {
        let data = record.data.as_ref().is_some_and(|data| data.sha256 == source.checksum());
        record.program == PROGRAM && data
    });
    let stale = matching - known.len();
    if stale > 0 {
        let stale = plural(stale, "record");
        tell(format_args!("note: {stale} in `{folder}` by another version or of other data; done again"));
    }
    // A commit need not change results, and a long search should not start again for a comment.
    let other = |record: &&Record| record.commit.as_deref().zip(COMMIT).is_some_and(|(was, now)| was != now);
    let older = known.values().filter(other).count();
    if older > 0 {
        tell(format_args!(
            "note: {} in `{folder}` by another commit of this version",
            plural(older, "record")
        ));
    }
    Ok(known)
}

/// Opens a file of lines to add some.
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
            mend(&mut file, &path)?;
        }
        Ok(file)
    };
    open().with_context(|| cannot_write(&path))
}

/// A program that was killed may have left half a line; the next must not become its end.
fn mend(file: &mut File, path: &Path) -> io::Result<()> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    let start = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
    if serde_json::from_slice::<serde_json::Value>(&bytes[start..]).is_ok() {
        return file.write_all(b"\n");
    }
    tell(format_args!("note: the last line of `{}` was not finished and is dropped", path.display()));
    // A file that is only added to cannot be made shorter on all systems.
    OpenOptions::new().write(true).open(path)?.set_len(start as u64)
}

pub(crate) fn cannot_write(path: &Path) -> CannotWrite {
    CannotWrite(path.to_owned())
}

/// The context of an error: which part of the output could not be written.
#[derive(Debug)]
pub(crate) struct CannotWrite(PathBuf);

impl fmt::Display for CannotWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot write `{}`", self.0.display())
    }
}

/// Another command writes to this folder.
#[derive(Debug)]
pub(crate) struct InUse(PathBuf);

impl fmt::Display for InUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is in use by another `hindsight`", self.0.display())
    }
}

impl Error for InUse {}
