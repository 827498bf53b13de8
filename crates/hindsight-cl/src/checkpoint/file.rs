//! One file: written whole or not at all, and checked before anything of it is used.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
};

use hindsight_data::{atomic_file::AtomicFile, bounded_read::read_whole};

use super::{CheckpointError, Header, OLDEST_VERSION, VERSION, safetensors};
use crate::{
    Learner,
    state::{Dtype, Tensor, Tensors, Word},
};

/// The last field of the header: the checksum of all the rest.
const CHECKSUM: &str = ",\"crc32\":";

/// A learner's state as it was at one moment.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    /// What it is of.
    pub header: Header,
    tensors: Tensors,
}

/// Writes `learner` to `path`; `header` says what it is.
pub fn save(path: &Path, header: Header, learner: &mut dyn Learner) -> Result<(), CheckpointError> {
    Checkpoint::take(header, learner)?.write(path)
}

impl Checkpoint {
    /// A copy of the state of `learner`.
    pub fn take(header: Header, learner: &mut dyn Learner) -> Result<Checkpoint, CheckpointError> {
        Checkpoint::take_into(Vec::new(), header, learner)
    }

    /// The same in memory that an earlier one had.
    pub(super) fn take_into(
        memory: Vec<Word>,
        header: Header,
        learner: &mut dyn Learner,
    ) -> Result<Checkpoint, CheckpointError> {
        let parts = learner.state();
        if parts.is_empty() {
            return Err(CheckpointError::NoParts { method: header.method });
        }
        let mut tensors = Tensors::reusing(memory, header.shape.clone());
        tensors.put_all(parts);
        Ok(Checkpoint { header, tensors })
    }

    /// Its memory, for another one.
    pub(super) fn into_memory(self) -> Vec<Word> {
        self.tensors.into_memory()
    }

    /// Brings `learner`, which must be of the same configuration, into this state. On an error it is in none
    /// and must not be used.
    pub fn restore(&self, learner: &mut dyn Learner, path: &Path) -> Result<(), CheckpointError> {
        let parts = learner.state();
        if parts.is_empty() {
            return Err(CheckpointError::NoParts { method: self.header.method.clone() });
        }
        let misfit = |part| CheckpointError::Part { path: path.to_owned(), part };
        self.tensors.restore(parts).map_err(misfit)?;
        if !learner.is_finite() {
            let reason = "a parameter is not a finite number".to_owned();
            return Err(CheckpointError::Malformed { path: path.to_owned(), reason });
        }
        Ok(())
    }

    /// Writes to `path`. Until all of it is on the disk, what was there stays.
    pub fn write(&self, path: &Path) -> Result<(), CheckpointError> {
        let write = || {
            let file = AtomicFile::new(path)?;
            self.fill(file.file())?;
            file.keep()
        };
        write().map_err(|error: io::Error| CheckpointError::Unwritable {
            path: path.to_owned(),
            reason: error.to_string(),
        })
    }

    /// Makes `file` hold this and nothing else.
    pub(super) fn fill(&self, file: &File) -> io::Result<()> {
        let mut to = BufWriter::new(file);
        let size = self.write_to(&mut to)?;
        to.flush()?;
        file.set_len(size)
    }

    /// Reads `path`.
    pub fn read(path: &Path) -> Result<Checkpoint, CheckpointError> {
        let bytes = read_whole(path).map_err(|error| CheckpointError::Unreadable {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
        Checkpoint::parse(&bytes, path)
    }

    /// Writes the bytes of a file, and says how many they are.
    pub fn write_to(&self, to: &mut impl Write) -> io::Result<u64> {
        let header = serde_json::to_string(&self.header)?;
        let crc32 = checksum(&header, self.tensors.iter());
        let metadata = format!("{}{CHECKSUM}{crc32}}}", header.strip_suffix('}').unwrap_or(&header));
        // Those of eight bytes first, as the format's own writer has it: so that each value is aligned.
        let mut tensors: Vec<_> = self.tensors.iter().collect();
        tensors.sort_by_key(|(_, tensor)| tensor.dtype);
        let head = safetensors::head(&metadata, &tensors).map_err(io::Error::other)?;
        to.write_all(&head)?;
        tensors.iter().try_for_each(|(_, tensor)| to.write_all(tensor.bytes))?;
        Ok((head.len() + tensors.iter().map(|(_, tensor)| tensor.bytes.len()).sum::<usize>()) as u64)
    }

    /// The checkpoint in the bytes of a file, which `path` only names.
    pub fn parse(bytes: &[u8], path: &Path) -> Result<Checkpoint, CheckpointError> {
        let malformed = |reason: String| CheckpointError::Malformed { path: path.to_owned(), reason };
        let (head, values) = safetensors::parse(bytes).map_err(malformed)?;
        let entry = &head.entry;
        // The version first: of another one, the rest may be anything.
        let json: serde_json::Value =
            serde_json::from_str(entry).map_err(|error| malformed(format!("its header: {error}")))?;
        match json.get("version").and_then(serde_json::Value::as_u64) {
            Some(found) if !(OLDEST_VERSION.into()..=VERSION.into()).contains(&found) => {
                return Err(CheckpointError::Version { path: path.to_owned(), found });
            }
            _ => {}
        }
        let header: Header =
            serde_json::from_value(json).map_err(|error| malformed(format!("its header: {error}")))?;
        let parts = entry.strip_suffix('}').and_then(|entry| entry.rsplit_once(CHECKSUM));
        let parts = parts.and_then(|(header, crc32)| Some((header, crc32.parse::<u32>().ok()?)));
        let (text, crc32) =
            parts.ok_or_else(|| malformed("its header does not end with `crc32`".to_owned()))?;

        let mut tensors = Tensors::new(header.shape.clone());
        for (name, info) in &head.tensors {
            let Some(dtype) = info.dtype() else { continue };
            let words = info.bytes(values).as_chunks().0.iter().copied();
            tensors.put(name, dtype, info.shape.clone(), words);
        }
        let found = checksum(&format!("{text}}}"), tensors.iter());
        if found != crc32 {
            return Err(CheckpointError::Damaged { path: path.to_owned(), found, expected: crc32 });
        }
        Ok(Checkpoint { header, tensors })
    }

    /// A part of the state that is real values, such as `theta`.
    pub fn values(&self, part: &str) -> Option<Vec<f32>> {
        self.tensors.get(part)?.floats()
    }

    /// Number of real values in all parts.
    pub fn values_held(&self) -> usize {
        let floats = self.tensors.iter().filter(|(_, tensor)| tensor.dtype == Dtype::Floats);
        floats.map(|(_, tensor)| tensor.bytes.len() / size_of::<f32>()).sum()
    }

    /// Whether both have the same state to the last bit, whatever their headers say.
    pub fn same_state(&self, other: &Checkpoint) -> bool {
        self.tensors.iter().eq(other.tensors.iter())
    }
}

/// CRC-32 of the header and of all names, shapes and values, in the order of the names. It is there to find
/// damage, not malice.
fn checksum<'t>(header: &str, tensors: impl Iterator<Item = (&'t str, Tensor<'t>)>) -> u32 {
    let mut hash = crc32fast::Hasher::new();
    hash.update(header.as_bytes());
    for (name, Tensor { shape, bytes, .. }) in tensors {
        hash.update(format!("{name} {shape:?}\n").as_bytes());
        hash.update(bytes);
    }
    hash.finalize()
}
