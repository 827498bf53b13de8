//! Why a data set cannot be had.

mod custom_stream;

use std::{io, path::PathBuf};

pub use custom_stream::CustomStreamError;

use crate::{
    dataset::DEFAULT_IMAGE_SIZE,
    formats::{cifar, csv, idx, npy, npz, quoted_list},
    suggest::nearest,
};

/// Why a data set cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// No data set has this name.
    #[error("unknown data set `{name}`, expected {}", quoted_list(known))]
    Unknown {
        /// The name.
        name: String,
        /// The names that there are.
        known: Vec<&'static str>,
    },
    /// A file is not there.
    #[error("`{name}` not found: no `{file}` in `{folder}`")]
    Missing {
        /// Name of the data set.
        name: String,
        /// Name of its first file that is missing.
        file: String,
        /// Where it should be.
        folder: PathBuf,
    },
    /// A file or folder cannot be read or written.
    #[error("`{path}`: {error}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// A file is not a good IDX file.
    #[error("`{path}`: {flaw}")]
    Idx {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        flaw: idx::IdxError,
    },
    /// A file is not a good CIFAR-100 file.
    #[error("`{path}`: {flaw}")]
    Cifar {
        /// The file, or the member of an archive.
        path: PathBuf,
        /// What is wrong with it.
        flaw: cifar::CifarError,
    },
    /// A file is not a good CSV file.
    #[error("`{path}`: {flaw}")]
    Csv {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        flaw: csv::CsvError,
    },
    /// A file is not a good NumPy array.
    #[error("`{path}`: {flaw}")]
    Npy {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        flaw: npy::NpyError,
    },
    /// A file is not a good archive of NumPy arrays.
    #[error("`{path}`: {flaw}")]
    Npz {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        flaw: npz::NpzError,
    },
    /// A custom stream is not as it should be.
    #[error("`{path}`: {flaw}")]
    CustomStream {
        /// Its description, or one of its files.
        path: PathBuf,
        /// What is wrong with it.
        flaw: CustomStreamError,
    },
    /// Images and labels differ in number.
    #[error("`{path}`: found {found} labels, expected {expected}, as many as images in `{images}`")]
    Count {
        /// The label file.
        path: PathBuf,
        /// Number of labels.
        found: usize,
        /// The image file.
        images: PathBuf,
        /// Number of images.
        expected: usize,
    },
    /// A label is not one of the classes.
    #[error("`{path}`: label {index} is `{found}`, expected less than {classes}")]
    Label {
        /// The label file.
        path: PathBuf,
        /// Position of the first such label, from 0.
        index: usize,
        /// The label.
        found: u8,
        /// Number of classes.
        classes: usize,
    },
    /// Test images have another size than training images.
    #[error(
        "`{path}`: found test images of {}x{}, expected {}x{} like the training images",
        found[0], found[1], expected[0], expected[1]
    )]
    ImageSize {
        /// The file of test images.
        path: PathBuf,
        /// Their height and width.
        found: [usize; 2],
        /// Height and width of the training images.
        expected: [usize; 2],
    },
    /// There is no such folder of images.
    #[error("`{path}` not found, expected a folder with a folder of images per class")]
    NoFolder {
        /// The folder.
        path: PathBuf,
    },
    /// A folder has no images where they should be.
    #[error("`{path}`: found no images, expected a folder of JPEG or PNG files per class")]
    NoImages {
        /// The folder.
        path: PathBuf,
    },
    /// One class leaves nothing to tell apart, and labels have 16 bits.
    #[error("`{path}`: found {found} class folders with images, expected 2 to {most}")]
    Classes {
        /// The folder of class folders.
        path: PathBuf,
        /// How many there are.
        found: usize,
        /// How many there may be.
        most: usize,
    },
    /// The parts of a divided folder share some classes, but not all.
    #[error(
        "`{path}`: found the class `{class}` in `{with}` but not in `{without}`, expected the same classes in \
         all parts, or none in two"
    )]
    UnevenParts {
        /// The folder that is divided.
        path: PathBuf,
        /// The class.
        class: String,
        /// A part that has it.
        with: &'static str,
        /// A part that does not.
        without: &'static str,
    },
    /// A class has no image to learn from, or none to be tested on.
    #[error(
        "`{path}`: found no good {part} image of the class `{class}`, expected at least one{}",
        first_few(bad).map(|bad| format!("; {bad}")).unwrap_or_default()
    )]
    EmptyClass {
        /// The folder of images.
        path: PathBuf,
        /// The class.
        class: String,
        /// `training` or `test`.
        part: &'static str,
        /// Its images of that part that cannot be read, with reasons.
        bad: Vec<String>,
    },
    /// Images cannot be resized to this.
    #[error("found the image size `{found}`, expected 1 to {most}")]
    Resize {
        /// The height and width asked for.
        found: usize,
        /// The largest.
        most: usize,
    },
    /// The images do not fit in memory.
    #[error("found {images} images of {each} bytes, expected no more than memory can hold")]
    Memory {
        /// Number of images.
        images: usize,
        /// Bytes of one.
        each: usize,
    },
    /// The images have to come from the user.
    #[error("`{name}` cannot be fetched: {reason}")]
    NotFetched {
        /// Name of the data set.
        name: String,
        /// Why.
        reason: &'static str,
        /// Where the images belong.
        folder: PathBuf,
    },
    /// A file that is there is not the one to be fetched, and is not overwritten.
    #[error("`{path}` is not the original: found SHA-256 `{found}`, expected `{expected}`")]
    Occupied {
        /// The file.
        path: PathBuf,
        /// Its checksum.
        found: String,
        /// The original's.
        expected: String,
    },
    /// No source had what is missing.
    #[error("cannot fetch {} from any source{}", quoted_list(files), lines(failures))]
    Fetch {
        /// Names of the files that are still missing.
        files: Vec<String>,
        /// Where they belong.
        folder: PathBuf,
        /// What went wrong with each source, in the order of trial.
        failures: Vec<FetchFailure>,
    },
}

impl DataError {
    /// Whether there is no such data, rather than something wrong with it.
    pub fn absent(&self) -> bool {
        matches!(self, Self::Missing { .. } | Self::NoFolder { .. } | Self::NoImages { .. })
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
            Self::Cifar { flaw, .. } => flaw.hint(),
            Self::Csv { flaw, .. } => flaw.hint(),
            Self::Npy { flaw, .. } => flaw.hint(),
            Self::Npz { flaw, .. } => flaw.hint(),
            Self::CustomStream { flaw, .. } => flaw.hint(),
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
