//! One file: written whole or not at all, and checked before anything of it is used.

use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, File},
    io,
    path::Path,
};

use safetensors::{Dtype, SafeTensorError, SafeTensors, tensor::TensorView};
use serde::{Deserialize, Serialize};

use super::{CheckpointError, Header, VERSION};
use crate::{
    Learner,
    state::{Kind, Tensor, Tensors},
};

/// The metadata's one entry: the header, and what the tensors have to come to.
const ENTRY: &str = "hindsight";

/// Longer than any header of a run; the size of the whole file is bounded by the learner's.
const LONGEST: u64 = 16 << 30;

#[derive(Serialize, Deserialize)]
struct Metadata {
    #[serde(flatten)]
    header: Header,
    crc32: u32,
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
        let mut tensors = Tensors::new(header.shape.clone());
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
        let unwritable = |reason: String| CheckpointError::Unwritable { path: path.to_owned(), reason };
        let io = |error: io::Error| unwritable(reason(&error));
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut builder = tempfile::Builder::new();
        // As any other file of the user's, not hidden from others as temporary ones are.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let file = builder.prefix(".new-").tempfile_in(folder).map_err(io)?;
        let (views, metadata) = self.contents();
        safetensors::serialize_to_file(views, Some(metadata), file.path()).map_err(|error| match error {
            SafeTensorError::IoError(error) => io(error),
            other => unwritable(other.to_string()),
        })?;
        file.as_file().sync_data().map_err(io)?;
        file.persist(path).map_err(|error| io(error.error))?;
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
        let (views, metadata) = self.contents();
        safetensors::serialize(views, Some(metadata))
            .expect("tensors that fit into memory fit into the format")
    }

    fn contents(&self) -> (impl Iterator<Item = (&str, TensorView<'_>)>, HashMap<String, String>) {
        let all = || self.tensors.all.iter().map(|(name, tensor)| (name.as_str(), tensor));
        let crc32 = checksum(all().map(|(name, tensor)| (name, &tensor.shape[..], &tensor.bytes[..])));
        let metadata = Metadata { header: self.header.clone(), crc32 };
        let metadata = serde_json::to_string(&metadata).expect("keys of a header are texts");
        let views = all().map(|(name, tensor)| {
            let dtype = match tensor.kind {
                Kind::Floats => Dtype::F32,
                Kind::Numbers => Dtype::U64,
            };
            let view = TensorView::new(dtype, tensor.shape.clone(), &tensor.bytes);
            (name, view.expect("as many bytes as the shape says"))
        });
        (views, HashMap::from([(ENTRY.to_owned(), metadata)]))
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
        let Metadata { header, crc32 } =
            serde_json::from_value(json).map_err(|error| malformed(format!("its header: {error}")))?;

        let views = SafeTensors::deserialize(bytes).map_err(|error| malformed(error.to_string()))?;
        let views: BTreeMap<&str, TensorView<'_>> = views.iter().collect();
        let found = checksum(views.iter().map(|(name, view)| (*name, view.shape(), view.data())));
        if found != crc32 {
            return Err(CheckpointError::Damaged { path: path.to_owned(), found, expected: crc32 });
        }
        let mut tensors = Tensors::new(header.shape.clone());
        for (name, view) in views {
            let kind = match view.dtype() {
                Dtype::F32 => Kind::Floats,
                Dtype::U64 => Kind::Numbers,
                other => return Err(malformed(format!("`{name}` has values of type {other:?}"))),
            };
            let (shape, bytes) = (view.shape().to_vec(), view.data().to_vec());
            tensors.all.insert(name.to_owned(), Tensor { kind, shape, bytes });
        }
        Ok(Checkpoint { header, tensors })
    }

    /// A part of the state that is real values, such as `theta`.
    pub fn values(&self, part: &str) -> Option<Vec<f32>> {
        self.tensors.all.get(part)?.floats()
    }

    /// Number of real values in all parts.
    pub fn values_held(&self) -> usize {
        let floats = self.tensors.all.values().filter(|tensor| tensor.kind == Kind::Floats);
        floats.map(|tensor| tensor.bytes.len() / size_of::<f32>()).sum()
    }

    /// Whether both have the same state to the last bit, whatever their headers say.
    pub fn same_state(&self, other: &Checkpoint) -> bool {
        self.tensors.all == other.tensors.all
    }
}

/// What the system said, or what it comes to where a library has added the name of a temporary file.
fn reason(error: &io::Error) -> String {
    error.raw_os_error().map_or_else(|| error.kind().to_string(), |_| error.to_string())
}

/// CRC-32 of all names, shapes and values, in the order of the names. It is there to find damage, not malice.
fn checksum<'t>(tensors: impl Iterator<Item = (&'t str, &'t [usize], &'t [u8])>) -> u32 {
    let mut hash = crc32fast::Hasher::new();
    for (name, shape, bytes) in tensors {
        hash.update(format!("{name} {shape:?}\n").as_bytes());
        hash.update(bytes);
    }
    hash.finalize()
}
