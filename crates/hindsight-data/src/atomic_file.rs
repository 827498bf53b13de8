//! Files that are whole or not there.

use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
};

use tempfile::NamedTempFile;

/// A file that is written beside its place and gets there when it is whole and on the disk. Until then, and if it is
/// dropped, what was there stays.
#[derive(Debug)]
pub struct AtomicFile {
    path: PathBuf,
    file: NamedTempFile,
}

impl AtomicFile {
    /// An empty one, to be at `path`, whose folder must exist.
    pub fn new(path: &Path) -> io::Result<AtomicFile> {
        let mut builder = tempfile::Builder::new();
        // As any other file of the user's: temporary ones are their owner's alone.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let file = builder.prefix(".hindsight-").tempfile_in(folder(path)).map_err(plain)?;
        Ok(AtomicFile { path: path.to_owned(), file })
    }

    /// The file.
    pub fn file(&self) -> &File {
        self.file.as_file()
    }

    /// Puts it in its place.
    pub fn keep(self) -> io::Result<()> {
        self.file().sync_all()?;
        self.file.persist(&self.path).map_err(|error| plain(error.error))?;
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
        self.file.as_file_mut().write(bytes)
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

/// Without the name of a temporary file, which says nothing to the user.
fn plain(error: io::Error) -> io::Error {
    if error.raw_os_error().is_some() { error } else { error.kind().into() }
}

#[cfg(test)]
mod tests {
    use std::fs;

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
