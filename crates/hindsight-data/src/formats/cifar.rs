//! The binary records of CIFAR-10 and CIFAR-100: one label or two, and 3 x 32 x 32 pixels.

use std::io::{self, Read};

use crate::samples::Samples;

pub(crate) const PIXELS: usize = 3 * 32 * 32;

/// What the records of a data set hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CifarLayout {
    /// One label of ten.
    Cifar10,
    /// A coarse label, which is not used, and a fine one of a hundred.
    Cifar100,
}

impl CifarLayout {
    /// The number of classes.
    pub const fn classes(self) -> usize {
        match self {
            CifarLayout::Cifar10 => 10,
            CifarLayout::Cifar100 => 100,
        }
    }

    const fn labels(self) -> usize {
        match self {
            CifarLayout::Cifar10 => 1,
            CifarLayout::Cifar100 => 2,
        }
    }

    /// Bytes of a record.
    pub const fn record(self) -> u64 {
        (self.labels() + PIXELS) as u64
    }
}

/// What is wrong with a file of CIFAR-10 or CIFAR-100.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
// The message of a variant says what its fields are.
#[allow(missing_docs)]
pub enum CifarError {
    /// Reading or unpacking failed.
    #[error("cannot be read: {0}")]
    Read(io::Error),
    /// There are no records.
    #[error("is empty, expected records of {} bytes", layout.record())]
    Empty { layout: CifarLayout },
    /// The last record is not whole, or these are no records.
    #[error(
        "found {bytes} bytes, expected a multiple of {}: the last {} are not a whole record",
        layout.record(),
        bytes % layout.record()
    )]
    RecordSize { bytes: u64, layout: CifarLayout },
    /// More than is reasonable, or than such an archive can hold.
    #[error("found {bytes} bytes, expected at most {limit}")]
    TooLong { bytes: u64, limit: u64 },
    /// The file or the archive ends before its time.
    #[error("ends early, in record {record} of {records}")]
    EndsEarly { record: usize, records: usize },
    /// A label is not one of the classes.
    #[error("record {record} has the label `{found}`, expected less than {classes}")]
    Label { record: usize, found: u8, classes: usize },
    /// The archive does not have the file.
    #[error("no such file in the archive")]
    NoMember,
}

impl CifarError {
    pub(crate) fn hint(&self) -> String {
        // Only the number of label bytes is different.
        use CifarLayout::{Cifar10, Cifar100};
        match self {
            Self::RecordSize { bytes, layout: Cifar100 } if bytes.is_multiple_of(Cifar10.record()) => {
                "this looks like CIFAR-10, whose records have one label; CIFAR-100 is needed".into()
            }
            Self::RecordSize { bytes, layout: Cifar10 } if bytes.is_multiple_of(Cifar100.record()) => {
                "this looks like CIFAR-100, whose records have two labels; CIFAR-10 is needed".into()
            }
            _ => "replace it by the original in the binary version, or remove it and run `hindsight data fetch`"
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
pub(crate) fn records(
    mut source: impl Read,
    bytes: u64,
    limit: u64,
    layout: CifarLayout,
) -> Result<Samples, CifarError> {
    if bytes == 0 {
        return Err(CifarError::Empty { layout });
    }
    if bytes > limit {
        return Err(CifarError::TooLong { bytes, limit });
    }
    if !bytes.is_multiple_of(layout.record()) {
        return Err(CifarError::RecordSize { bytes, layout });
    }
    let records = (bytes / layout.record()) as usize;
    let (mut pixels, mut labels) = (Vec::with_capacity(records * PIXELS), Vec::with_capacity(records));
    for record in 0..records {
        let early = |error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof => CifarError::EndsEarly { record, records },
            _ => CifarError::Read(error),
        };
        let mut both = [0; 2];
        source.read_exact(&mut both[2 - layout.labels()..]).map_err(early)?;
        let [_, label] = both;
        if usize::from(label) >= layout.classes() {
            return Err(CifarError::Label { record, found: label, classes: layout.classes() });
        }
        let start = pixels.len();
        pixels.resize(start + PIXELS, 0);
        source.read_exact(&mut pixels[start..]).map_err(early)?;
        labels.push(u32::from(label));
    }
    Ok(Samples::images(pixels, labels))
}
