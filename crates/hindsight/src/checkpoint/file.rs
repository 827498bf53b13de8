//! One file: written whole or not at all, and checked before anything of it is used.

use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, File},
    io::Write,
    path::Path,
};

use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{CheckpointError, Header, VERSION};
use crate::{
    Learner,
    state::{Tensor, Tensors, Values},
};

/// The metadata's one entry: the header, and what the tensors have to come to.
const ENTRY: &str = "hindsight";

/// Longer than any header of a run; the size of the whole file is bounded by the learner's.
const LONGEST: u64 = 16 << 30;

#[derive(Serialize, Deserialize)]
struct Metadata {
    #[serde(flatten)]
    header: Header,
    sha256: String,
}

/// A learner's state as it was at one moment.
#[derive(Debug, Clone, PartialEq)]
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
        let mut tensors = Tensors::new(header.shape.bounds());
        let parts = learner.parts();
        if parts.is_empty() {
            return Err(CheckpointError::NoParts { method: header.method });
        }
        parts.into_iter().for_each(|(name, part)| part.save(name, &mut tensors));
        Ok(Checkpoint { header, tensors })
    }

    /// Brings `learner`, which must be of the same configuration, into this state. On an error it is in none and
    /// must not be used.
    pub fn restore(&self, learner: &mut dyn Learner, path: &Path) -> Result<(), CheckpointError> {
        let parts = learner.parts();
        if parts.is_empty() {
            return Err(CheckpointError::NoParts { method: self.header.method.clone() });
        }
        for (name, part) in parts {
            part.load(name, &self.tensors)
                .map_err(|part| CheckpointError::Part { path: path.to_owned(), part })?;
        }
        Ok(())
    }

    /// Writes to `path`. Until all of it is on the disk, what was there stays.
    pub fn write(&self, path: &Path) -> Result<(), CheckpointError> {
        let unwritable = |error: std::io::Error| CheckpointError::Unwritable {
            path: path.to_owned(),
            reason: error.to_string(),
        };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let bytes = self.bytes();
        let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(folder).map_err(unwritable)?;
        file.write_all(&bytes).map_err(unwritable)?;
        file.as_file().sync_all().map_err(unwritable)?;
        file.persist(path).map_err(|error| unwritable(error.error))?;
        // The name is on the disk when its folder is. Not every system opens folders.
        if let Ok(folder) = File::open(folder) {
            let _ = folder.sync_all();
        }
        Ok(())
    }

    /// Reads `path`.
    pub fn read(path: &Path) -> Result<Checkpoint, CheckpointError> {
        let unreadable = |reason: String| CheckpointError::Unreadable { path: path.to_owned(), reason };
        let size = fs::metadata(path).map_err(|error| unreadable(error.to_string()))?.len();
        if size > LONGEST {
            return Err(unreadable(format!("{size} bytes, expected at most {LONGEST}")));
        }
        let bytes = fs::read(path).map_err(|error| unreadable(error.to_string()))?;
        Checkpoint::parse(&bytes, path)
    }

    /// The bytes of a file.
    pub fn bytes(&self) -> Vec<u8> {
        let encoded: Vec<_> =
            self.tensors.all.iter().map(|(name, tensor)| (name, tensor, encode(tensor))).collect();
        let contents =
            encoded.iter().map(|(name, tensor, (_, bytes))| (name.as_str(), &tensor.shape[..], &bytes[..]));
        let metadata = Metadata { header: self.header.clone(), sha256: checksum(contents) };
        let metadata = serde_json::to_string(&metadata).expect("keys of a header are texts");
        let views = encoded.iter().map(|(name, tensor, (dtype, bytes))| {
            let view = TensorView::new(*dtype, tensor.shape.clone(), bytes);
            (name.as_str(), view.expect("as many bytes as the shape says"))
        });
        safetensors::serialize(views, Some(HashMap::from([(ENTRY.to_owned(), metadata)])))
            .expect("tensors that fit into memory fit into the format")
    }

    /// The checkpoint in the bytes of a file, which `path` only names.
    pub fn parse(bytes: &[u8], path: &Path) -> Result<Checkpoint, CheckpointError> {
        let malformed = |reason: String| CheckpointError::Malformed { path: path.to_owned(), reason };
        let (_, all) = SafeTensors::read_metadata(bytes).map_err(|error| malformed(error.to_string()))?;
        let entry = all.metadata().as_ref().and_then(|entries| entries.get(ENTRY));
        let entry = entry.ok_or_else(|| malformed(format!("its metadata has no `{ENTRY}`")))?;
        // The version first: of another one, the rest may be anything.
        let json: serde_json::Value =
            serde_json::from_str(entry).map_err(|error| malformed(format!("its header: {error}")))?;
        match json.get("version").and_then(serde_json::Value::as_u64) {
            Some(found) if found != u64::from(VERSION) => {
                return Err(CheckpointError::Version { path: path.to_owned(), found });
            }
            _ => {}
        }
        let Metadata { header, sha256 } =
            serde_json::from_value(json).map_err(|error| malformed(format!("its header: {error}")))?;

        let views = SafeTensors::deserialize(bytes).map_err(|error| malformed(error.to_string()))?;
        let views: BTreeMap<&str, TensorView<'_>> = views.iter().collect();
        let found = checksum(views.iter().map(|(name, view)| (*name, view.shape(), view.data())));
        if found != sha256 {
            return Err(CheckpointError::Damaged { path: path.to_owned(), found, expected: sha256 });
        }
        let mut tensors = Tensors::new(header.shape.bounds());
        for (name, view) in views {
            let values = match view.dtype() {
                Dtype::F32 => Values::Floats(words(view.data(), f32::from_le_bytes)),
                Dtype::U64 => Values::Numbers(words(view.data(), u64::from_le_bytes)),
                other => return Err(malformed(format!("`{name}` has values of type {other:?}"))),
            };
            tensors.all.insert(name.to_owned(), Tensor { shape: view.shape().to_vec(), values });
        }
        Ok(Checkpoint { header, tensors })
    }

    /// A part of the state that is real values, such as `theta`.
    pub fn values(&self, part: &str) -> Option<&[f32]> {
        match &self.tensors.all.get(part)?.values {
            Values::Floats(values) => Some(values),
            Values::Numbers(_) => None,
        }
    }

    /// Number of real values in all parts.
    pub fn values_held(&self) -> usize {
        let of = |tensor: &Tensor| match &tensor.values {
            Values::Floats(values) => values.len(),
            Values::Numbers(_) => 0,
        };
        self.tensors.all.values().map(of).sum()
    }

    /// Whether both have the same state to the last bit, whatever their headers say.
    pub fn same_state(&self, other: &Checkpoint) -> bool {
        let encoded = |of: &Checkpoint| of.tensors.all.values().map(encode).collect::<Vec<_>>();
        self.tensors.all.keys().eq(other.tensors.all.keys()) && encoded(self) == encoded(other)
    }
}

fn encode(tensor: &Tensor) -> (Dtype, Vec<u8>) {
    match &tensor.values {
        Values::Floats(values) => (Dtype::F32, flat(values.iter().map(|x| x.to_le_bytes()))),
        Values::Numbers(values) => (Dtype::U64, flat(values.iter().map(|n| n.to_le_bytes()))),
    }
}

fn flat<const N: usize>(words: impl ExactSizeIterator<Item = [u8; N]>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(N * words.len());
    words.for_each(|word| bytes.extend_from_slice(&word));
    bytes
}

fn words<const N: usize, T>(bytes: &[u8], read: fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks().0.iter().map(|&word| read(word)).collect()
}

/// SHA-256 of all names, shapes and values, in the order of the names.
fn checksum<'t>(tensors: impl Iterator<Item = (&'t str, &'t [usize], &'t [u8])>) -> String {
    let mut hash = Sha256::new();
    for (name, shape, bytes) in tensors {
        hash.update(format!("{name} {shape:?}\n"));
        hash.update(bytes);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
