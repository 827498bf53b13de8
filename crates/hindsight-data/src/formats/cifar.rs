//! CIFAR-100's binary records: two labels and 3 x 32 x 32 pixels.

use std::io::{self, Read};

use crate::samples::Samples;

pub(crate) const PIXELS: usize = 3 * 32 * 32;
pub(crate) const RECORD: u64 = 2 + PIXELS as u64;
pub(crate) const CLASSES: usize = 100;

/// What is wrong with a file of CIFAR-100.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
// The message of a variant says what its fields are.
#[allow(missing_docs)]
pub enum CifarError {
    /// Reading or unpacking failed.
    #[error("cannot be read: {0}")]
    Read(io::Error),
    /// There are no records.
    #[error("is empty, expected records of {RECORD} bytes")]
    Empty,
    /// The last record is not whole, or these are no records.
    #[error("found {bytes} bytes, expected a multiple of {RECORD}: the last {} are not a whole record", bytes % RECORD)]
    RecordSize { bytes: u64 },
    /// More than is reasonable, or than such an archive can hold.
    #[error("found {bytes} bytes, expected at most {limit}")]
    TooLong { bytes: u64, limit: u64 },
    /// The file or the archive ends before its time.
    #[error("ends early, in record {record} of {records}")]
    EndsEarly { record: usize, records: usize },
    /// A fine label is not one of the classes.
    #[error("record {record} has the fine label `{found}`, expected less than {CLASSES}")]
    Label { record: usize, found: u8 },
    /// The archive does not have the file.
    #[error("no such file in the archive")]
    NoMember,
}

impl CifarError {
    pub(crate) fn hint(&self) -> String {
        match self {
            // Only the number of label bytes is different.
            Self::RecordSize { bytes } if bytes.is_multiple_of(RECORD - 1) => {
                "this looks like CIFAR-10, whose records have one label; CIFAR-100 is needed".into()
            }
            _ => "replace it by the binary version of CIFAR-100, or remove it and run `hindsight data fetch \
                  cifar100`"
                .into(),
        }
    }
}

impl From<io::Error> for CifarError {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

/// Reads records out of `bytes` bytes, at most `limit`. It holds little beyond the pixels and labels.
pub(crate) fn records(mut source: impl Read, bytes: u64, limit: u64) -> Result<Samples, CifarError> {
    if bytes == 0 {
        return Err(CifarError::Empty);
    }
    if bytes > limit {
        return Err(CifarError::TooLong { bytes, limit });
    }
    if !bytes.is_multiple_of(RECORD) {
        return Err(CifarError::RecordSize { bytes });
    }
    let records = (bytes / RECORD) as usize;
    let (mut pixels, mut labels) = (Vec::with_capacity(records * PIXELS), Vec::with_capacity(records));
    for record in 0..records {
        let early = |error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof => CifarError::EndsEarly { record, records },
            _ => CifarError::Read(error),
        };
        let mut both = [0; 2];
        source.read_exact(&mut both).map_err(early)?;
        let [_coarse, fine] = both;
        if usize::from(fine) >= CLASSES {
            return Err(CifarError::Label { record, found: fine });
        }
        let start = pixels.len();
        pixels.resize(start + PIXELS, 0);
        source.read_exact(&mut pixels[start..]).map_err(early)?;
        labels.push(u32::from(fine));
    }
    Ok(Samples::images(pixels, labels))
}
