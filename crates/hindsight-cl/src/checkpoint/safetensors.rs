//! The safetensors layout: a length, a JSON object that names each tensor's type, shape and place, the
//! values.
//!
//! The crate `safetensors` would do the reading with five dependencies, and does not write without a second
//! copy (docs/adr/0009). A test compares files with its output, byte for byte.

use std::{collections::BTreeMap, fmt::Write as _};

use serde::Deserialize;

use crate::state::{Dtype, Tensor};

/// What comes before the values is at most as long as other readers of the format take.
pub(super) const LONGEST_HEAD: usize = 100_000_000;

/// The one entry of the metadata.
const ENTRY: &str = "hindsight";

/// A file's head, and where its values begin.
pub(super) struct FileHead {
    /// The metadata's entry.
    pub(super) entry: String,
    /// Type, shape and place of each tensor, by name.
    pub(super) tensors: BTreeMap<String, TensorInfo>,
}

#[derive(Deserialize)]
pub(super) struct TensorInfo {
    dtype: String,
    pub(super) shape: Vec<usize>,
    data_offsets: (usize, usize),
}

#[derive(Deserialize)]
struct Layout {
    #[serde(default, rename = "__metadata__")]
    metadata: BTreeMap<String, String>,
    #[serde(flatten)]
    tensors: BTreeMap<String, TensorInfo>,
}

/// The bytes before the values of `tensors`, which follow in this order.
pub(super) fn head(entry: &str, tensors: &[(&str, Tensor<'_>)]) -> Result<Vec<u8>, String> {
    let quoted = |text: &str| serde_json::Value::from(text);
    let mut json = format!("{{\"__metadata__\":{{\"{ENTRY}\":{}}}", quoted(entry));
    let mut end = 0;
    for (name, Tensor { dtype, shape, bytes }) in tensors {
        let start = end;
        end += bytes.len();
        let shape: Vec<String> = shape.iter().map(ToString::to_string).collect();
        let _ = write!(
            json,
            ",{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{start},{end}]}}",
            quoted(name),
            word(*dtype),
            shape.join(",")
        );
    }
    json.push('}');
    // Spaces to the next multiple of eight, so that values are aligned.
    json.extend(std::iter::repeat_n(' ', json.len().next_multiple_of(8) - json.len()));
    // A run of very many tasks could come to this.
    if json.len() > LONGEST_HEAD {
        return Err(format!("{} bytes before the values, at most {LONGEST_HEAD}", json.len()));
    }
    let mut head = (json.len() as u64).to_le_bytes().to_vec();
    head.extend(json.into_bytes());
    Ok(head)
}

/// The head of a file and its values, which the tensors cover without a gap.
pub(super) fn parse(bytes: &[u8]) -> Result<(FileHead, &[u8]), String> {
    let (length, rest) = bytes.split_first_chunk().ok_or("too short for a safetensors file")?;
    let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
    if length > LONGEST_HEAD.min(rest.len()) {
        return Err(format!("a head of {length} bytes, expected at most {}", LONGEST_HEAD.min(rest.len())));
    }
    let (json, values) = rest.split_at(length);
    let Layout { mut metadata, tensors } =
        serde_json::from_slice(json).map_err(|error| format!("its head: {error}"))?;
    let entry = metadata.remove(ENTRY).ok_or_else(|| format!("its metadata has no `{ENTRY}`"))?;
    let mut places: Vec<_> = tensors.iter().map(|(name, info)| (info.data_offsets, name, info)).collect();
    places.sort_by_key(|(place, ..)| *place);
    let mut covered = 0;
    for ((start, end), name, info) in places {
        let count = info.shape.iter().try_fold(1, |count: usize, &side| count.checked_mul(side));
        let size = count.and_then(|count| count.checked_mul(info.dtype()?.size()));
        if size.is_none() || start != covered || end.checked_sub(start) != size {
            return Err(format!("`{name}` has {} of shape {:?} at {start} to {end}", info.dtype, info.shape));
        }
        covered = end;
    }
    if covered != values.len() {
        return Err(format!("{} bytes of values, expected {covered}", values.len()));
    }
    Ok((FileHead { entry, tensors }, values))
}

impl TensorInfo {
    /// The type, if it is one that checkpoints have.
    pub(super) fn dtype(&self) -> Option<Dtype> {
        [Dtype::Numbers, Dtype::Floats].into_iter().find(|&dtype| word(dtype) == self.dtype)
    }

    /// Its part of all values.
    pub(super) fn bytes<'v>(&self, values: &'v [u8]) -> &'v [u8] {
        &values[self.data_offsets.0..self.data_offsets.1]
    }
}

fn word(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::Numbers => "U64",
        Dtype::Floats => "F32",
    }
}
