//! Atomic replacement of files: a reader sees the old content or the new one, never a part.

use std::{
    collections::BTreeSet,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    process,
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// A file that is written beside its target and renamed to it when it is complete and on the disk. Until
/// then, and if it is dropped, what was there stays.
///
/// Temporary files are named `.hindsight-HOST-PID-N`, so that those of a killed process can be recognised:
/// the first file that a process writes to a folder removes them. The crate `tempfile` would do the rest with
/// eight more dependencies.
#[derive(Debug)]
pub struct AtomicFile {
    path: PathBuf,
    temporary: PathBuf,
    file: File,
}

impl AtomicFile {
    /// An empty file, to become `path`, whose folder must exist.
    pub fn new(path: &Path) -> io::Result<AtomicFile> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        static SEEN: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
        if SEEN.lock().is_ok_and(|mut seen| seen.insert(folder(path).to_owned())) {
            remove_abandoned(folder(path), STALE_AFTER);
        }
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("{PREFIX}{}-{}-{number}", host(), process::id());
            let temporary = folder(path).join(name);
            match OpenOptions::new().write(true).create_new(true).open(&temporary) {
                Ok(file) => return Ok(AtomicFile { path: path.to_owned(), temporary, file }),
                // Left by a killed process that had the same id.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Replaces the target.
    pub fn keep(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        self.rename()?;
        // The file is there; whether its name would outlast a loss of power is up to the system now.
        let _ = sync_names(folder(&self.path));
        Ok(())
    }

    fn rename(&mut self) -> io::Result<()> {
        fs::rename(&self.temporary, &self.path)?;
        self.temporary = PathBuf::new();
        Ok(())
    }

    /// Has `bytes` in `path`, and nothing else; whether a loss of power spares them is up to the system. For
    /// files that can be made again, such as the hundreds of a report: the disk need not be waited for.
    pub fn write_unsynced(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        let mut file = AtomicFile::new(path)?;
        file.write_all(bytes.as_ref())?;
        file.rename()
    }

    /// Has `bytes` in `path`, and nothing else.
    pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        let mut file = AtomicFile::new(path)?;
        file.write_all(bytes.as_ref())?;
        file.keep()
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const PREFIX: &str = ".hindsight-";

/// A file is written in seconds. One that has not been touched for so long, and whose process is gone, is of
/// no use to anybody.
const STALE_AFTER: Duration = Duration::from_secs(600);

/// Removes the temporary files in `folder` whose processes, of this machine, are gone. Where the system does
/// not list its processes, nothing is removed.
fn remove_abandoned(folder: &Path, after: Duration) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    if !Path::new("/proc/self").exists() {
        return;
    }
    for entry in entries.flatten() {
        let (name, host) = (entry.file_name(), format!("{PREFIX}{}-", host()));
        let pid = name.to_str().and_then(|name| name.strip_prefix(&host)?.split_once('-'));
        let gone = pid.is_some_and(|(pid, _)| !Path::new("/proc").join(pid).exists());
        let age = entry.metadata().and_then(|meta| meta.modified()).ok().and_then(|time| time.elapsed().ok());
        if gone && age.is_some_and(|age| age >= after) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Stands for the name of the machine: a shared folder may have files of several.
fn host() -> &'static str {
    static HOST: OnceLock<String> = OnceLock::new();
    HOST.get_or_init(|| {
        let name = fs::read("/proc/sys/kernel/hostname").unwrap_or_default();
        let hash = name
            .iter()
            .fold(0x811c_9dc5_u32, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        format!("{hash:08x}")
    })
}

/// Puts the names in a folder on the disk. Not every system can.
pub fn sync_names(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if !self.temporary.as_os_str().is_empty() {
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_there_stays_until_the_new_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let names = || folder.path().read_dir().unwrap().count();
        AtomicFile::write(&path, "old").unwrap();
        let mut half = AtomicFile::new(&path).unwrap();
        half.write_all(b"ne").unwrap();
        assert_eq!((fs::read(&path).unwrap().as_slice(), names()), (&b"old"[..], 2));
        drop(half);
        assert_eq!((fs::read(&path).unwrap().as_slice(), names()), (&b"old"[..], 1), "given up");
        AtomicFile::write(&path, "new").unwrap();
        assert_eq!((fs::read(&path).unwrap().as_slice(), names()), (&b"new"[..], 1));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn files_of_killed_processes_are_removed_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| fs::write(folder.path().join(name), "").unwrap();
        // No process has this id: it is above the largest of Linux.
        let (dead, alive) = (format!("{PREFIX}{}-4194305-0", host()), format!("{PREFIX}{}-1-0", host()));
        let elsewhere = format!("{PREFIX}0-4194305-0");
        [&dead, &alive, &elsewhere, "records.jsonl"].iter().for_each(|name| file(name));
        remove_abandoned(folder.path(), STALE_AFTER);
        assert!(folder.path().join(&dead).exists(), "it may be in use");
        remove_abandoned(folder.path(), Duration::ZERO);
        let mut left: Vec<_> = folder.path().read_dir().unwrap().map(|e| e.unwrap().file_name()).collect();
        left.sort();
        let mut expected = [elsewhere, alive, "records.jsonl".to_owned()].map(std::ffi::OsString::from);
        expected.sort();
        assert_eq!(left, expected);
    }

    #[test]
    fn errors_do_not_tell_of_temporary_names() {
        let folder = tempfile::tempdir().unwrap();
        let missing = AtomicFile::new(&folder.path().join("no/file")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        assert!(!missing.to_string().contains("hindsight"), "{missing}");
        // A folder cannot be replaced by a file.
        let taken = AtomicFile::write(folder.path(), "").unwrap_err();
        assert!(!taken.to_string().contains("hindsight"), "{taken}");
    }

    #[cfg(unix)]
    #[test]
    fn others_may_read_it_as_they_may_any_file() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let mode = |name: &str| fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
        fs::write(folder.path().join("usual"), "").unwrap();
        AtomicFile::write(&folder.path().join("whole"), "").unwrap();
        assert_eq!(mode("whole"), mode("usual"));
    }
}
