//! Data sets: what they hold, where they are looked for, how they are fetched.

use std::{
    env,
    ffi::OsString,
    io,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

pub mod atomic_file;
pub mod bounded_read;
pub mod cifar;
pub mod csv;
pub mod custom_stream;
pub mod digits;
pub mod fetch;
pub mod idx;
mod image_cache;
pub mod image_folder;
pub mod mnist;
pub mod npy;
pub mod npz;
pub mod suggest;
pub mod table;

use crate::suggest::nearest;
use image_folder::ImageFolder;

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
    /// What the user should know about it, in lines: what was left out, and why.
    pub notes: Vec<String>,
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
    pub labels: Vec<u16>,
}

/// How a data set is to be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Height and width to which images are resized, where they come in sizes of their own; the data set's
    /// own if there is none. Others are read as they are.
    pub image_size: Option<usize>,
}

/// One line in the table of data sets.
#[derive(Debug)]
pub struct Info {
    /// Name as in `hindsight data list`.
    pub name: &'static str,
    /// What it is, in one line.
    pub summary: &'static str,
    /// Where it comes from.
    pub origin: Origin,
    /// Reads it from a data directory.
    load: fn(&Path, &Options) -> Result<Dataset, DataError>,
}

/// Where a data set comes from.
#[derive(Debug, Clone, Copy)]
pub enum Origin {
    /// It is drawn by hindsight itself.
    BuiltIn,
    /// It is published, and can be fetched.
    Published(&'static Published),
    /// It is a folder of images that the user has.
    Own {
        /// Folders of a data directory in which it may be, besides the directory itself.
        folders: &'static [&'static str],
        /// Why it cannot be fetched.
        reason: &'static str,
    },
}

/// Files that are the same everywhere.
#[derive(Debug)]
pub struct Published {
    /// Name of the data set.
    pub name: &'static str,
    /// Folders of a data directory in which it may be, besides the directory itself; it is fetched into the
    /// first.
    pub folders: &'static [&'static str],
    /// The forms in which it may be found, best first; the last is the one that is fetched.
    pub forms: &'static [&'static [Original]],
    /// Where the files are fetched from, in this order.
    pub sources: &'static [fetch::Source],
}

/// A file as published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Original {
    /// File name.
    pub name: &'static str,
    /// Whether it is fetched, kept and described as it is. Otherwise it comes as `name.gz`, lies plain or
    /// compressed, and is described by its unpacked content.
    pub as_is: bool,
    /// Length in bytes.
    pub bytes: u64,
    /// SHA-256 in lower-case hexadecimal digits.
    pub sha256: &'static str,
}

/// Files and where they are, or belong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The folder.
    pub folder: PathBuf,
    /// The files.
    pub files: &'static [Original],
}

impl Place {
    /// The first file that is not there.
    pub fn missing(&self) -> Option<&'static Original> {
        self.files.iter().find(|file| find(&self.folder, file).is_none())
    }
}

impl Published {
    /// Where the files are, or belong: in one of the folders, or right in `dir`.
    ///
    /// All come from one folder, so two half data sets never make a whole.
    pub fn locate(&self, dir: &Path) -> Place {
        let own = self.folders.iter().map(|name| dir.join(name));
        let folders: Vec<PathBuf> = own.chain([dir.into()]).collect();
        let places: Vec<Place> = (self.forms.iter())
            .filter_map(|&files| {
                let has_any = |folder: &&PathBuf| files.iter().any(|file| find(folder, file).is_some());
                Some(Place { folder: folders.iter().find(has_any)?.clone(), files })
            })
            .collect();
        let whole = places.iter().find(|place| place.missing().is_none());
        whole.or(places.first()).cloned().unwrap_or_else(|| self.target(dir))
    }

    /// Where the files are fetched to.
    fn target(&self, dir: &Path) -> Place {
        let folder = self.folders.first().map_or(dir.into(), |name| dir.join(name));
        Place { folder, files: self.forms.last().copied().unwrap_or_default() }
    }

    /// The path of one of the files.
    fn require(&self, folder: &Path, file: &Original) -> Result<PathBuf, DataError> {
        find(folder, file).ok_or_else(|| DataError::Missing {
            name: self.name.into(),
            file: file.name.into(),
            folder: folder.into(),
        })
    }
}

/// Every data set.
pub static DATASETS: [Info; 5] = [
    Info {
        name: "digits",
        summary: "28x28 digits drawn by hindsight itself, 10,000 for training and 2,000 for test",
        origin: Origin::BuiltIn,
        load: |_, _| Ok(digits::digits(10_000, 2_000, 0)),
    },
    Info {
        name: "mnist",
        summary: "28x28 handwritten digits, 60,000 for training and 10,000 for test",
        origin: Origin::Published(&mnist::PUBLISHED),
        load: |dir, _| mnist::load(dir),
    },
    Info {
        name: "cifar100",
        summary: "32x32 colour photographs of 100 classes, 50,000 for training and 10,000 for test",
        origin: Origin::Published(&cifar::PUBLISHED),
        load: |dir, _| cifar::load(dir),
    },
    Info {
        name: "miniimagenet",
        summary: "84x84 colour photographs of 100 classes, 600 of each, from a folder of images",
        origin: Origin::Own {
            folders: &MINI_IMAGENET,
            reason: "the photographs of ImageNet may not be passed on, and come from image-net.org alone",
        },
        load: |dir, options| own("miniimagenet", &MINI_IMAGENET, dir, options),
    },
    Info {
        name: "folder",
        summary: "images of your own: a folder of JPEG or PNG files per class, right in the data directory",
        origin: Origin::Own { folders: &[], reason: "these are images of your own" },
        load: |dir, options| own("folder", &[], dir, options),
    },
];

const MINI_IMAGENET: [&str; 2] = ["miniimagenet", "mini-imagenet"];

fn own(name: &str, folders: &[&str], dir: &Path, options: &Options) -> Result<Dataset, DataError> {
    let size = options.image_size.unwrap_or(image_folder::DEFAULT_SIZE);
    ImageFolder::find(name, folders, dir)?.load(size)
}

/// The table's line for `name`.
pub fn info(name: &str) -> Result<&'static Info, DataError> {
    let found = DATASETS.iter().find(|info| info.name == name);
    found.ok_or_else(|| DataError::Unknown { name: name.into() })
}

/// Reads the data set `name` from the data directory `dir`.
pub fn load(name: &str, dir: &Path, options: &Options) -> Result<Dataset, DataError> {
    (info(name)?.load)(dir, options)
}

/// The data directory: `flag` (`--data-dir`), or `HINDSIGHT_DATA`, or the user's cache directory.
pub fn data_dir(flag: Option<&Path>) -> PathBuf {
    data_dir_in(flag, |key| env::var_os(key))
}

fn data_dir_in(flag: Option<&Path>, env: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    let from_env = || env("HINDSIGHT_DATA").map(PathBuf::from).filter(|path| !path.as_os_str().is_empty());
    flag.map(Path::to_path_buf).or_else(from_env).unwrap_or_else(|| cache_dir(&env))
}

/// Our folder in the user's cache directory.
fn cache_dir(env: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    let path = |key| env(key).map(PathBuf::from).filter(|path| !path.as_os_str().is_empty());
    let home = || path("HOME").or_else(env::home_dir).unwrap_or_default();
    let cache = if cfg!(windows) {
        path("LOCALAPPDATA").unwrap_or_else(|| home().join("AppData").join("Local"))
    } else if cfg!(target_os = "macos") {
        home().join("Library").join("Caches")
    } else {
        // A relative `XDG_CACHE_HOME` is to be ignored, says its specification.
        let xdg = path("XDG_CACHE_HOME").filter(|path| path.is_absolute());
        xdg.unwrap_or_else(|| home().join(".cache"))
    };
    cache.join("hindsight")
}

/// The path of a file in its folder: as it is, or else plain or `.gz`, with `-` or `.` before `idx`.
pub fn find(folder: &Path, file: &Original) -> Option<PathBuf> {
    let dotted = file.name.replacen("-idx", ".idx", 1);
    let ends: &[&str] = if file.as_is { &[""] } else { &["", ".gz"] };
    let stems = [file.name, &dotted];
    let mut paths = stems.iter().flat_map(|stem| ends.iter().map(move |end| format!("{stem}{end}")));
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
    /// A stream of one's own is not as it should be.
    #[error("`{path}`: {flaw}")]
    Own {
        /// Its description, or one of its files.
        path: PathBuf,
        /// What is wrong with it.
        flaw: crate::custom_stream::CustomStreamError,
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
    StateDict {
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
        image_folder::some(bad).map(|bad| format!("; {bad}")).unwrap_or_default()
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
    /// Whether there is no such data, rather than something wrong with it.
    pub fn absent(&self) -> bool {
        matches!(self, Self::Missing { .. } | Self::NoFolder { .. } | Self::NoImages { .. })
    }

    /// What to do about it, in one line.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Unknown { name } => {
                format!("did you mean `{}`?", nearest(name, DATASETS.iter().map(|info| info.name))?)
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
            Self::Own { flaw, .. } => flaw.hint(),
            Self::Occupied { .. } => "files of yours are used as they are; to have the original, \
                move this one away or choose another `--data-dir`"
                .into(),
            Self::Fetch { files, folder, .. } => format!(
                "put {} into `{}`, or say where they are with `--data-dir` or \
                 `HINDSIGHT_DATA`",
                list(files),
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
            Self::StateDict { .. } => "rename or move the folder of that class".into(),
            Self::EmptyClass { .. } => {
                "a class that is not divided needs two good images, a divided one needs one in each part"
                    .into()
            }
            Self::Resize { .. } => format!("{} is usual", image_folder::DEFAULT_SIZE),
            Self::Memory { .. } => "choose a smaller image size or fewer images".into(),
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

/// The first of many names.
fn few(names: &[String]) -> String {
    const SHOWN: usize = 20;
    if names.is_empty() {
        return "none".to_owned();
    }
    let more = names.len().saturating_sub(SHOWN);
    let shown = list(&names[..names.len() - more]);
    if more > 0 { format!("{shown} and {more} more") } else { shown }
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
        let error = load("mnits", Path::new("."), &Options::default()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown data set `mnits`, expected `digits`, `mnist`, `cifar100`, `miniimagenet`, `folder`"
        );
        assert_eq!(error.hint().unwrap(), "did you mean `mnist`?");
        assert_eq!(info("imagenet").unwrap_err().hint(), None);
    }

    #[test]
    fn digits_need_no_files() {
        let data = load("digits", Path::new("nowhere"), &Options::default()).unwrap();
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
        let published = DATASETS.iter().filter_map(|info| match info.origin {
            Origin::Published(published) => Some(published),
            _ => None,
        });
        for file in published.flat_map(|published| published.forms.iter().copied().flatten()) {
            let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
            assert!(file.sha256.len() == 64 && file.sha256.chars().all(hex), "{}", file.name);
        }
    }
}
