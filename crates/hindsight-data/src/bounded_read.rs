//! Reading files whose size is bounded: configuration written by hand, and files of a declared length.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

/// Bytes of the longest file that somebody may have written by hand.
const LONGEST: u64 = 1 << 24;

/// Reads a file that somebody wrote by hand; one without an end is not read to it.
pub fn read_small(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(LONGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST {
        return Err(io::Error::other(format!("it has more than {LONGEST} bytes")));
    }
    Ok(bytes)
}

/// Opens a file that the program or an image viewer wrote. A pipe in its place, which would be waited for
/// without end, a device and a folder are refused.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let kind = path.metadata()?;
    if !kind.is_file() {
        return Err(io::Error::other(if kind.is_dir() { "is a directory" } else { "is not a regular file" }));
    }
    File::open(path)
}

/// Reads a regular file, if there is memory for it.
pub fn read_whole(path: &Path) -> io::Result<Vec<u8>> {
    let file = open_regular(path)?;
    let (length, mut bytes) = (file.metadata()?.len(), Vec::new());
    bytes.try_reserve_exact(usize::try_from(length).unwrap_or(usize::MAX))?;
    file.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[cfg(unix)]
    #[test]
    fn what_has_no_end_and_what_is_too_large_is_not_read_whole() {
        assert_eq!(read_whole(Path::new("/dev/zero")).unwrap_err().to_string(), "is not a regular file");
        assert_eq!(read_whole(Path::new("/dev")).unwrap_err().to_string(), "is a directory");
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "all of it").unwrap();
        assert_eq!(read_whole(file.path()).unwrap(), b"all of it");
        // A hole, larger than any memory, takes no room on the disk; some file systems have none of that
        // size.
        if file.as_file().set_len(1 << 50).is_ok() {
            assert_eq!(read_whole(file.path()).unwrap_err().kind(), io::ErrorKind::OutOfMemory);
        }
    }
}
