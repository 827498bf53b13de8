//! Data sets: what they hold, where they are looked for, how they are fetched.

use std::{
    env,
    ffi::OsString,
    io,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

pub mod digits;
pub mod fetch;
pub mod idx;
pub mod mnist;

/// A data set of 8-bit images with a training and a test part.
#[derive(Debug, Clone)]
pub struct Dataset {
    /// Name as in `hindsight data list`.
    pub name: String,
    /// Channels, height, width of one image.
    pub shape: [usize; 3],
    /// Labels are `0..classes`.
    pub classes: usize,
    /// Training part.
    pub train: Split,
    /// Test part.
    pub test: Split,
}

impl Dataset {
    /// Values in one image.
    pub fn width(&self) -> usize {
        self.shape.iter().product()
    }

    /// SHA-256 of what was read, whatever files it came from: shape, classes, and of the training and the test
    /// part the number, labels (32 bits each) and pixels; numbers as 64 bits, all little-endian.
    pub fn checksum(&self) -> String {
        let mut hash = Sha256::new();
        let number = |n: usize| (n as u64).to_le_bytes();
        self.shape.iter().chain([&self.classes]).for_each(|&n| hash.update(number(n)));
        for split in [&self.train, &self.test] {
            hash.update(number(split.labels.len()));
            let labels: Vec<u8> =
                split.labels.iter().flat_map(|&label| u32::from(label).to_le_bytes()).collect();
            hash.update(labels);
            hash.update(&split.pixels);
        }
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Images and their labels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Split {
    /// Pixels, one image after the other: `[n, channels * height * width]`.
    pub pixels: Vec<u8>,
    /// Labels, `[n]`.
    pub labels: Vec<u8>,
}

/// One line in the table of data sets.
#[derive(Debug)]
pub struct Info {
    /// Name as in `hindsight data list`.
    pub name: &'static str,
    /// What it is, in one line.
    pub summary: &'static str,
    /// Its files as published; none if it is built in.
    pub files: &'static [Original],
    /// Where the files are fetched from, in this order.
    pub sources: &'static [fetch::Source],
    /// Reads it from a data directory.
    load: fn(&Path) -> Result<Dataset, DataError>,
}

/// A file as published, described by its unpacked content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Original {
    /// File name without `.gz`.
    pub name: &'static str,
    /// Length in bytes.
    pub bytes: u64,
    /// SHA-256 in lower-case hexadecimal digits.
    pub sha256: &'static str,
}

/// Every data set.
pub static DATASETS: [Info; 2] = [
    Info {
        name: "digits",
        summary: "28x28 digits drawn by hindsight itself, 10,000 for training and 2,000 for test",
        files: &[],
        sources: &[],
        load: |_| Ok(digits::digits(10_000, 2_000, 0)),
    },
    Info {
        name: "mnist",
        summary: "28x28 handwritten digits, 60,000 for training and 10,000 for test",
        files: &mnist::FILES,
        sources: &mnist::SOURCES,
        load: mnist::load,
    },
];

/// The table's line for `name`.
pub fn info(name: &str) -> Result<&'static Info, DataError> {
    let found = DATASETS.iter().find(|info| info.name == name);
    found.ok_or_else(|| DataError::Unknown { name: name.into() })
}

/// Reads the data set `name` from the data directory `dir`.
pub fn load(name: &str, dir: &Path) -> Result<Dataset, DataError> {
    (info(name)?.load)(dir)
}

/// The data directory: `flag` (`--data-dir`), or `HINDSIGHT_DATA`, or the user's cache directory.
pub fn data_dir(flag: Option<&Path>) -> PathBuf {
    data_dir_in(flag, |key| env::var_os(key))
}

fn data_dir_in(flag: Option<&Path>, env: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    let path = |key| env(key).map(PathBuf::from).filter(|path| !path.as_os_str().is_empty());
    let home = || path("HOME").or_else(env::home_dir).unwrap_or_default();
    let cache = || {
        if cfg!(windows) {
            path("LOCALAPPDATA").unwrap_or_else(|| home().join("AppData").join("Local"))
        } else if cfg!(target_os = "macos") {
            home().join("Library").join("Caches")
        } else {
            // A relative `XDG_CACHE_HOME` is to be ignored, says its specification.
            let xdg = path("XDG_CACHE_HOME").filter(|path| path.is_absolute());
            xdg.unwrap_or_else(|| home().join(".cache"))
        }
    };
    flag.map(Path::to_path_buf)
        .or_else(|| path("HINDSIGHT_DATA"))
        .unwrap_or_else(|| cache().join("hindsight"))
}

/// Where the files of a data set are, or belong: `dir/name`, or `dir` if they are right there.
///
/// All come from one folder, so two half data sets never make a whole.
pub fn folder(dir: &Path, name: &str, files: &[Original]) -> PathBuf {
    let own = dir.join(name);
    let has_any = |folder: &Path| files.iter().any(|file| find(folder, file).is_some());
    if !has_any(&own) && has_any(dir) { dir.into() } else { own }
}

/// The path of a file in its folder: plain or `.gz`, with `-` or `.` before `idx`.
pub fn find(folder: &Path, file: &Original) -> Option<PathBuf> {
    let dotted = file.name.replacen("-idx", ".idx", 1);
    let stems = [file.name, &dotted];
    let mut paths = stems.iter().flat_map(|stem| ["", ".gz"].map(|end| format!("{stem}{end}")));
    paths.find_map(|name| Some(folder.join(name)).filter(|path| path.is_file()))
}

/// Why a data set cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// No data set has this name.
    #[error("unknown data set `{name}`, expected {}", known())]
    Unknown {
        /// The name.
        name: String,
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
    #[error("cannot fetch {} from any source{}", list(files), lines(failures))]
    Fetch {
        /// Names of the files that are still missing.
        files: Vec<String>,
        /// Where they belong.
        folder: PathBuf,
        /// What went wrong with each source, in the order of trial.
        failures: Vec<fetch::Failure>,
    },
}

impl DataError {
    /// What to do about it, in one line.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Unknown { name } => {
                let distance = |info: &&Info| strsim::damerau_levenshtein(info.name, name);
                let nearest = DATASETS.iter().min_by_key(distance);
                let nearest = nearest.filter(|info| distance(info) <= 2)?;
                format!("did you mean `{}`?", nearest.name)
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
            Self::Occupied { .. } => "files of yours are used as they are; to have the original, \
                move this one away or choose another `--data-dir`"
                .into(),
            Self::Fetch { files, folder, .. } => format!(
                "put {}, plain or `.gz`, into `{}`, or say where they are with `--data-dir` or \
                 `HINDSIGHT_DATA`",
                list(files),
                folder.display()
            ),
            Self::Count { .. } | Self::Label { .. } | Self::ImageSize { .. } => {
                "`hindsight data verify` tells which files are not the originals".into()
            }
            Self::Io { .. } => "choose another folder with `--data-dir`".into(),
        })
    }
}

fn known() -> String {
    list(DATASETS.iter().map(|info| info.name))
}

fn list<T: std::fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    let quoted: Vec<String> = items.into_iter().map(|item| format!("`{item}`")).collect();
    quoted.join(", ")
}

fn lines(failures: &[fetch::Failure]) -> String {
    failures.iter().map(|f| format!("\n  {}: {}", f.source, f.reason)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_comes_before_the_environment_and_that_before_the_cache() {
        let env = |key: &str| match key {
            "HINDSIGHT_DATA" => Some("/data".into()),
            _ => None,
        };
        assert_eq!(data_dir_in(Some(Path::new("/flag")), env), Path::new("/flag"));
        assert_eq!(data_dir_in(None, env), Path::new("/data"));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_cache_follows_xdg_and_empty_variables_count_as_unset() {
        let dir = |data: &str, xdg: &str| {
            data_dir_in(None, |key| {
                Some(OsString::from(match key {
                    "HINDSIGHT_DATA" => data,
                    "XDG_CACHE_HOME" => xdg,
                    _ => "/home/me",
                }))
            })
        };
        assert_eq!(dir("", "/cache"), Path::new("/cache/hindsight"));
        assert_eq!(dir("", ""), Path::new("/home/me/.cache/hindsight"));
        assert_eq!(dir("", "relative"), Path::new("/home/me/.cache/hindsight"));
    }

    #[test]
    fn an_unknown_name_suggests_the_nearest() {
        let error = load("mnits", Path::new(".")).unwrap_err();
        assert_eq!(error.to_string(), "unknown data set `mnits`, expected `digits`, `mnist`");
        assert_eq!(error.hint().unwrap(), "did you mean `mnist`?");
        assert_eq!(info("imagenet").unwrap_err().hint(), None);
    }

    #[test]
    fn digits_need_no_files() {
        let data = load("digits", Path::new("nowhere")).unwrap();
        assert_eq!((data.train.labels.len(), data.test.labels.len()), (10_000, 2_000));
    }

    #[test]
    fn the_checksum_is_of_all_that_was_read() {
        let data = digits::digits(20, 10, 0);
        let mut others = [data.clone(), data.clone(), data.clone(), data.clone()];
        others[0].train.pixels[700] ^= 1;
        others[1].test.labels[3] ^= 1;
        others[2].shape = [1, 56, 14];
        others[3].classes = 11;
        assert_eq!(data.checksum(), data.clone().checksum());
        assert!(others.iter().all(|other| other.checksum() != data.checksum()));
    }

    #[test]
    fn checksums_in_the_table_are_sha256() {
        for file in DATASETS.iter().flat_map(|info| info.files) {
            let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
            assert!(file.sha256.len() == 64 && file.sha256.chars().all(hex), "{}", file.name);
        }
    }
}
