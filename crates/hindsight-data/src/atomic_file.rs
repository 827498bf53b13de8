//! Atomic replacement of files: a reader sees the old content or the new one, never a part.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
};

/// A file that is written beside its target and renamed to it when it is complete and on the disk. Until
/// then, and if it is dropped, what was there stays.
///
/// Temporary files are named `.hindsight-PID-N`, so that those of a killed process can be recognised. The
/// crate `tempfile` would do the same with eight more dependencies.
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
        loop {
            let name = format!(".hindsight-{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
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
        fs::rename(&self.temporary, &self.path)?;
        self.temporary = PathBuf::new();
        // The file is there; whether its name would outlast a loss of power is up to the system now.
        let _ = sync_names(folder(&self.path));
        Ok(())
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
