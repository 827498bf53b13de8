//! Decoded images in one file, so that they are decoded once.
//!
//! The file is `MAGIC`, the length of a header, the header in JSON, labels and pixels of the training part,
//! then of the test part, and the SHA-256 of all that. Integers are little-endian. It is used if it was made
//! of the same files and every byte of it is right; otherwise it counts for nothing and is written anew,
//! whatever is wrong with it.

use std::{
    env, fs,
    io::{self, BufReader, Read, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{atomic_file::AtomicFile, bounded_read, data_dir::cache_dir, samples::Samples};

/// Its last byte is the version, which changes with the format and with the way images are decoded.
const MAGIC: [u8; 16] = *b"hindsight img\0\0\x01";

const DIGEST: u64 = 32;

/// What a cache holds.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cached {
    pub(super) train: Samples,
    pub(super) test: Samples,
    /// What was to be told of the images when they were decoded.
    pub(super) notes: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct CacheHeader {
    /// Stands for the files of which the cache was made.
    fingerprint: String,
    /// Channels, height, width.
    shape: [usize; 3],
    /// Names of the classes, in the order of their labels.
    classes: Vec<String>,
    train: usize,
    test: usize,
    notes: Vec<String>,
}

/// The cache of `root`: a file in the user's cache directory, named by a hash of the folder's path. Nothing
/// is written into the folder of images.
pub(super) fn location(root: &Path, size: usize) -> PathBuf {
    let full = fs::canonicalize(root).unwrap_or_else(|_| root.into());
    let digest = Sha256::digest(full.as_os_str().as_encoded_bytes());
    let id: String = digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    cache_dir(|key| env::var_os(key)).join("images").join(format!("{id}-{size}x{size}.cache"))
}

/// Whether a file of this name is a cache that an earlier version left among the images.
pub(super) fn is_cache(name: &str) -> bool {
    name.starts_with(".hindsight-")
}

/// What the file at `path` holds, if it is a good cache of the files with this fingerprint.
pub(super) fn read(path: &Path, size: usize, fingerprint: &str) -> Option<Cached> {
    let file = bounded_read::open_regular(path).ok()?;
    let length = file.metadata().ok()?.len();
    decode(BufReader::with_capacity(1 << 20, file), length, size, fingerprint)
}

fn decode(source: impl Read, length: u64, size: usize, fingerprint: &str) -> Option<Cached> {
    let mut source = Hashed { inner: source, hasher: Sha256::new() };
    if *source.array::<16>()? != MAGIC {
        return None;
    }
    let header_len = u64::from(u32::from_le_bytes(*source.array()?));
    // Nothing is reserved that the file is too short for.
    let body = length.checked_sub(MAGIC.len() as u64 + 4 + DIGEST)?.checked_sub(header_len)?;
    let header: CacheHeader = serde_json::from_slice(&source.bytes(header_len as usize)?).ok()?;
    let width = 3 * size * size;
    if header.fingerprint != fingerprint || header.shape != [3, size, size] {
        return None;
    }
    let images = header.train.checked_add(header.test)?;
    if images.checked_mul(width + 2)? as u64 != body {
        return None;
    }
    let mut split = |images: usize| {
        let labels = source.bytes(2 * images)?;
        let labels = labels.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]]).into());
        let labels: Vec<u32> = labels.collect();
        let known = labels.iter().all(|&label| (label as usize) < header.classes.len());
        known.then_some(Samples::images(source.bytes(images * width)?, labels))
    };
    let (train, test) = (split(header.train)?, split(header.test)?);
    let found = source.hasher.finalize();
    let mut expected = [0; DIGEST as usize];
    source.inner.read_exact(&mut expected).ok()?;
    (found[..] == expected).then_some(Cached { train, test, notes: header.notes })
}

/// Writes a cache, whole or not at all.
pub(super) fn write(
    path: &Path,
    size: usize,
    fingerprint: &str,
    classes: &[&str],
    content: &Cached,
) -> io::Result<()> {
    let header = CacheHeader {
        fingerprint: fingerprint.into(),
        shape: [3, size, size],
        classes: classes.iter().map(|&name| name.into()).collect(),
        train: content.train.labels.len(),
        test: content.test.labels.len(),
        notes: content.notes.clone(),
    };
    let header = serde_json::to_vec(&header)?;
    fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
    let mut file = AtomicFile::new(path)?;
    encode(&mut file, &header, content)?;
    file.keep()
}

fn encode(out: impl Write, header: &[u8], content: &Cached) -> io::Result<()> {
    let mut out = Hashed { inner: out, hasher: Sha256::new() };
    out.write_all(&MAGIC)?;
    out.write_all(&u32::try_from(header.len()).map_err(io::Error::other)?.to_le_bytes())?;
    out.write_all(header)?;
    for split in [&content.train, &content.test] {
        // A folder has at most 65,536 classes.
        let labels: Vec<u8> = split.labels.iter().flat_map(|&label| (label as u16).to_le_bytes()).collect();
        out.write_all(&labels)?;
        out.write_all(split.pixels())?;
    }
    out.inner.write_all(&out.hasher.finalize())
}

/// Computes the checksum of what passes through.
struct Hashed<T> {
    inner: T,
    hasher: Sha256,
}

impl<T: Read> Hashed<T> {
    fn bytes(&mut self, count: usize) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(count).ok()?;
        self.inner.by_ref().take(count as u64).read_to_end(&mut bytes).ok()?;
        self.hasher.update(&bytes);
        (bytes.len() == count).then_some(bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<Box<[u8; N]>> {
        self.bytes(N)?.into_boxed_slice().try_into().ok()
    }
}

impl<T: Write> Write for Hashed<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.inner.write(bytes)?;
        self.hasher.update(&bytes[..n]);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 2;

    fn content() -> Cached {
        let split = |labels: &[u32]| {
            let pixels = (0..labels.len() * 3 * SIZE * SIZE).map(|i| i as u8).collect();
            Samples::images(pixels, labels.into())
        };
        let notes = vec!["left out one".into()];
        Cached { train: split(&[0, 0, 1]), test: split(&[0, 1]), notes }
    }

    fn bytes() -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new").join("cache");
        write(&path, SIZE, "files", &["cat", "dog"], &content()).unwrap();
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "a temporary file is left");
        assert_eq!(read(&path, SIZE, "files"), Some(content()));
        fs::read(path).unwrap()
    }

    fn decode_all(bytes: &[u8]) -> Option<Cached> {
        decode(bytes, bytes.len() as u64, SIZE, "files")
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(decode_all(&bytes()), Some(content()));
    }

    #[test]
    fn a_cache_of_other_files_or_another_size_counts_for_nothing() {
        let bytes = bytes();
        assert_eq!(decode(&bytes[..], bytes.len() as u64, SIZE, "other"), None);
        assert_eq!(decode(&bytes[..], bytes.len() as u64, SIZE + 1, "files"), None);
    }

    #[test]
    fn no_cut_and_no_flipped_bit_goes_unseen() {
        let good = bytes();
        for at in 0..good.len() {
            assert_eq!(decode_all(&good[..at]), None, "cut to {at} bytes");
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                assert_eq!(decode_all(&bad), None, "bit {bit} of byte {at}");
            }
        }
        assert_eq!(decode_all(&[&good[..], b"\0"].concat()), None);
    }

    #[test]
    fn a_label_without_a_class_counts_for_nothing_even_if_the_checksum_holds() {
        let mut content = content();
        content.test.labels[1] = 2;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cache");
        write(&path, SIZE, "files", &["cat", "dog"], &content).unwrap();
        assert_eq!(read(&path, SIZE, "files"), None);
    }

    #[test]
    fn absurd_counts_are_refused_before_memory_is_taken() {
        for (train, test) in
            [(usize::MAX, 1), (usize::MAX / 2, usize::MAX / 2), (1 << 60, 0), (1 << 30, 1 << 30)]
        {
            let header = CacheHeader {
                fingerprint: "files".into(),
                shape: [3, SIZE, SIZE],
                classes: vec!["cat".into()],
                train,
                test,
                notes: Vec::new(),
            };
            let mut bytes = Vec::new();
            encode(&mut bytes, &serde_json::to_vec(&header).unwrap(), &content()).unwrap();
            assert_eq!(decode_all(&bytes), None);
        }
        let mut bytes = bytes();
        bytes[16..20].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(decode_all(&bytes), None);
    }
}
