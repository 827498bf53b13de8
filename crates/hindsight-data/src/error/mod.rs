//! Why a data set cannot be had.

#[cfg(feature = "files")]
mod custom_stream;
mod rows;

use std::{io, path::PathBuf};

#[cfg(feature = "files")]
pub use custom_stream::CustomStreamError;
pub use rows::RowError;

#[cfg(feature = "files")]
use crate::formats::{cifar, csv, idx, npy, npz, series};
use crate::{dataset::DEFAULT_IMAGE_SIZE, formats::quoted_list, suggest::nearest};

/// Why a data set cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
// The message of a variant says what its fields are.
#[allow(missing_docs)]
pub enum DataError {
    /// No data set has this name.
    #[error("unknown data set `{name}`, expected {}", quoted_list(known))]
    Unknown { name: String, known: Vec<&'static str> },
    /// A file is not there.
    #[error("`{name}` not found: no `{file}` in `{folder}`")]
    Missing { name: String, file: String, folder: PathBuf },
    /// A file or folder cannot be read or written.
    #[error("`{path}`: {error}")]
    Io { path: PathBuf, error: io::Error },
    #[cfg(feature = "files")]
    /// A file is not a good IDX file.
    #[error("`{path}`: {flaw}")]
    Idx { path: PathBuf, flaw: idx::IdxError },
    #[cfg(feature = "files")]
    /// A file is not a good CIFAR-100 file.
    #[error("`{path}`: {flaw}")]
    Cifar { path: PathBuf, flaw: cifar::CifarError },
    #[cfg(feature = "files")]
    /// A file is not a good CSV file.
    #[error("`{path}`: {flaw}")]
    Csv { path: PathBuf, flaw: csv::CsvError },
    #[cfg(feature = "files")]
    /// A file is not a good NumPy array.
    #[error("`{path}`: {flaw}")]
    Npy { path: PathBuf, flaw: npy::NpyError },
    #[cfg(feature = "files")]
    /// A file is not a good archive of NumPy arrays.
    #[error("`{path}`: {flaw}")]
    Npz { path: PathBuf, flaw: npz::NpzError },
    #[cfg(feature = "files")]
    /// A file is not a good dictionary of recordings.
    #[error("`{path}`: {flaw}")]
    Series { path: PathBuf, flaw: series::SeriesError },
    #[cfg(feature = "files")]
    /// A custom stream is not as it should be.
    #[error("`{path}`: {flaw}")]
    CustomStream { path: PathBuf, flaw: CustomStreamError },
    /// The rows of a table are not as they should be, or one of them is not.
    #[error("`{path}`: {flaw}")]
    Row { path: PathBuf, flaw: RowError },
    /// Images and labels differ in number.
    #[error("`{path}`: found {found} labels, expected {expected}, as many as images in `{images}`")]
    Count { path: PathBuf, found: usize, images: PathBuf, expected: usize },
    /// A label is not one of the classes.
    #[error("`{path}`: label {index} is `{found}`, expected less than {classes}")]
    Label { path: PathBuf, index: usize, found: u8, classes: usize },
    /// Test images have another size than training images.
    #[error(
        "`{path}`: found test images of {}x{}, expected {}x{} like the training images",
        found[0], found[1], expected[0], expected[1]
    )]
    ImageSize { path: PathBuf, found: [usize; 2], expected: [usize; 2] },
    /// There is no such folder of images.
    #[error("`{path}` not found, expected a folder with a folder of images per class")]
    NoFolder { path: PathBuf },
    /// A folder has no images where they should be.
    #[error("`{path}`: found no images, expected a folder of JPEG or PNG files per class")]
    NoImages { path: PathBuf },
    /// One class leaves nothing to tell apart, and labels have 16 bits.
    #[error("`{path}`: found {found} class folders with images, expected 2 to {most}")]
    Classes { path: PathBuf, found: usize, most: usize },
    /// The parts of a divided folder share some classes, but not all.
    #[error(
        "`{path}`: found the class `{class}` in `{with}` but not in `{without}`, expected the same classes in \
         all parts, or none in two"
    )]
    UnevenParts { path: PathBuf, class: String, with: &'static str, without: &'static str },
    /// A class has no image to learn from, or none to be tested on.
    #[error(
        "`{path}`: found no good {part} image of the class `{class}`, expected at least one{}",
        first_few(bad).map(|bad| format!("; {bad}")).unwrap_or_default()
    )]
    EmptyClass { path: PathBuf, class: String, part: &'static str, bad: Vec<String> },
    /// Images cannot be resized to this.
    #[error("found the image size `{found}`, expected 1 to {most}")]
    Resize { found: usize, most: usize },
    /// The images do not fit in memory.
    #[error("found {images} images of {each} bytes, expected no more than memory can hold")]
    Memory { images: usize, each: usize },
    /// The images have to come from the user.
    #[error("`{name}` cannot be fetched: {reason}")]
    NotFetched { name: String, reason: &'static str, folder: PathBuf },
    /// A file that is there is not the one to be fetched, and is not overwritten.
    #[error("`{path}` is not the original: found SHA-256 `{found}`, expected `{expected}`")]
    Occupied { path: PathBuf, found: String, expected: String },
    /// No source had what is missing.
    #[error("cannot fetch {} from any source{}", quoted_list(files), lines(failures))]
    Fetch { files: Vec<String>, folder: PathBuf, failures: Vec<FetchFailure> },
}

impl DataError {
    /// Whether there is no such data, rather than something wrong with it.
    pub fn absent(&self) -> bool {
        matches!(self, Self::Missing { .. } | Self::NoFolder { .. } | Self::NoImages { .. })
    }

    /// Whether it concerns one row of a table, and those after it can be read.
    pub fn is_of_one_row(&self) -> bool {
        match self {
            Self::Row { flaw, .. } => flaw.is_of_one_row(),
            #[cfg(feature = "files")]
            Self::Csv { flaw, .. } => {
                matches!(flaw, csv::CsvError::Length { .. } | csv::CsvError::Text { .. })
            }
            _ => false,
        }
    }

    /// What to do about it, in one line.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Unknown { name, known } => {
                format!("did you mean `{}`?", nearest(name, known.iter().copied())?)
            }
            Self::Missing { name, .. } => format!(
                "run `hindsight data fetch {name}`, or say where the files are with `--data-dir` \
                 or `HINDSIGHT_DATA`"
            ),
            #[cfg(feature = "files")]
            Self::Idx { flaw, .. } => {
                let kind = match flaw {
                    idx::IdxError::Magic { found, .. } => idx::kind(*found),
                    _ => None,
                };
                match kind {
                    Some(kind) => format!("this file holds {kind}; is it named as another?"),
                    None => "replace the file, or remove it and run `hindsight data fetch mnist`".into(),
                }
            }
            #[cfg(feature = "files")]
            Self::Cifar { flaw, .. } => flaw.hint(),
            #[cfg(feature = "files")]
            Self::Csv { flaw, .. } => flaw.hint(),
            #[cfg(feature = "files")]
            Self::Npy { flaw, .. } => flaw.hint(),
            #[cfg(feature = "files")]
            Self::Npz { flaw, .. } => flaw.hint(),
            #[cfg(feature = "files")]
            Self::Series { flaw, .. } => flaw.hint(),
            #[cfg(feature = "files")]
            Self::CustomStream { flaw, .. } => flaw.hint(),
            Self::Row { flaw, .. } => flaw.hint(),
            Self::Occupied { .. } => "files of yours are used as they are; to have the original, \
                move this one away or choose another `--data-dir`"
                .into(),
            Self::Fetch { files, folder, .. } => format!(
                "put {} into `{}`, or say where they are with `--data-dir` or \
                 `HINDSIGHT_DATA`",
                quoted_list(files),
                folder.display()
            ),
            Self::Count { .. } | Self::Label { .. } | Self::ImageSize { .. } => {
                "`hindsight data verify` tells which files are not the originals".into()
            }
            Self::NoFolder { path } | Self::NoImages { path } | Self::NotFetched { folder: path, .. } => {
                format!(
                    "put the images of every class into a folder of their own: `{0}/CLASS/NAME.jpg`, or \
                 `{0}/train/CLASS/NAME.jpg` and `{0}/test/CLASS/NAME.jpg`; another place can be given with \
                 `--data-dir` or `HINDSIGHT_DATA`",
                    path.display()
                )
            }
            Self::Classes { .. } => "a class is a folder with images right in it".into(),
            Self::UnevenParts { .. } => "rename or move the folder of that class".into(),
            Self::EmptyClass { .. } => {
                "a class that is not divided needs two good images, a divided one needs one in each part"
                    .into()
            }
            Self::Resize { .. } => format!("{} is usual", DEFAULT_IMAGE_SIZE),
            Self::Memory { .. } => "choose a smaller image size or fewer images".into(),
            Self::Io { .. } => "choose another folder with `--data-dir`".into(),
        })
    }
}

/// Reasons, of which the first few are named.
pub(crate) fn first_few(bad: &[String]) -> Option<String> {
    const NAMED: usize = 5;
    let more = match bad.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    (!bad.is_empty()).then(|| bad[..bad.len().min(NAMED)].join("; ") + &more)
}

fn lines(failures: &[FetchFailure]) -> String {
    failures.iter().map(|f| format!("\n  {}: {}", f.source, f.reason)).collect()
}

/// Why a source was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchFailure {
    /// The source.
    pub source: String,
    /// The file and what was wrong with it.
    pub reason: String,
}
