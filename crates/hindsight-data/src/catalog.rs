//! The table of data sets.

use std::path::Path;

#[cfg(feature = "files")]
use crate::{
    cifar10, cifar100,
    dataset::DEFAULT_IMAGE_SIZE,
    image_folder::ImageFolder,
    mnist,
    published::Published,
    published_streams::{COVERTYPE, ELECTRICITY, PublishedStream, SMARTWATCH, WEATHER},
};
use crate::{
    dataset::{Dataset, Options},
    digits,
    error::DataError,
};

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

impl Info {
    /// Its published files, if it has some.
    #[cfg(feature = "files")]
    pub fn published(&self) -> Option<&'static Published> {
        match self.origin {
            Origin::Published(published) => Some(published),
            Origin::Stream(stream) => Some(&stream.published),
            Origin::BuiltIn | Origin::Local { .. } => None,
        }
    }
}

/// Where a data set comes from.
#[derive(Debug, Clone, Copy)]
pub enum Origin {
    /// It is drawn by hindsight itself.
    BuiltIn,
    /// It is published, and can be fetched.
    #[cfg(feature = "files")]
    Published(&'static Published),
    /// It is a published stream, and can be fetched.
    #[cfg(feature = "files")]
    Stream(&'static PublishedStream),
    /// It is a folder of images that the user has.
    Local {
        /// Folders of a data directory in which it may be, besides the directory itself.
        folders: &'static [&'static str],
        /// Why it cannot be fetched.
        reason: &'static str,
    },
}

/// Every data set.
pub static DATASETS: &[Info] = &[
    Info {
        name: "digits",
        summary: "28x28 digits drawn by hindsight itself, 10,000 for training and 2,000 for test",
        origin: Origin::BuiltIn,
        load: |_, _| Ok(digits::digits(10_000, 2_000, 0)),
    },
    #[cfg(feature = "files")]
    Info {
        name: "mnist",
        summary: "28x28 handwritten digits, 60,000 for training and 10,000 for test",
        origin: Origin::Published(&mnist::PUBLISHED),
        load: |dir, _| mnist::load(dir),
    },
    #[cfg(feature = "files")]
    Info {
        name: "cifar10",
        summary: "32x32 colour photographs of 10 classes, 50,000 for training and 10,000 for test",
        origin: Origin::Published(&cifar10::PUBLISHED),
        load: |dir, _| cifar10::load(dir),
    },
    #[cfg(feature = "files")]
    Info {
        name: "cifar100",
        summary: "32x32 colour photographs of 100 classes, 50,000 for training and 10,000 for test",
        origin: Origin::Published(&cifar100::PUBLISHED),
        load: |dir, _| cifar100::load(dir),
    },
    #[cfg(feature = "files")]
    Info {
        name: "electricity",
        summary: "45,312 half-hours of an electricity market in order of time, a stream (`--stream electricity`)",
        origin: Origin::Stream(&ELECTRICITY),
        load: |dir, _| ELECTRICITY.load(dir),
    },
    #[cfg(feature = "files")]
    Info {
        name: "covertype",
        summary: "581,012 patches of forest in four areas, a stream of tasks (`--stream covertype`)",
        origin: Origin::Stream(&COVERTYPE),
        load: |dir, _| COVERTYPE.load(dir),
    },
    #[cfg(feature = "files")]
    Info {
        name: "weather",
        summary: "18,159 days of weather in order of time, a stream (`--stream weather`)",
        origin: Origin::Stream(&WEATHER),
        load: |dir, _| WEATHER.load(dir),
    },
    #[cfg(feature = "files")]
    Info {
        name: "smartwatch",
        summary: "2,369 windows of ten people's movements, a stream of tasks (`--stream smartwatch`)",
        origin: Origin::Stream(&SMARTWATCH),
        load: |dir, _| SMARTWATCH.load(dir),
    },
    #[cfg(feature = "files")]
    Info {
        name: "miniimagenet",
        summary: "84x84 colour photographs of 100 classes, 600 of each, from a folder of images",
        origin: Origin::Local {
            folders: &MINI_IMAGENET,
            reason: "the photographs of ImageNet may not be passed on, and come from image-net.org alone",
        },
        load: |dir, options| folder("miniimagenet", &MINI_IMAGENET, dir, options),
    },
    #[cfg(feature = "files")]
    Info {
        name: "folder",
        summary: "images of your own: a folder of JPEG or PNG files per class, right in the data directory",
        origin: Origin::Local { folders: &[], reason: "these are images of your own" },
        load: |dir, options| folder("folder", &[], dir, options),
    },
];

#[cfg(feature = "files")]
const MINI_IMAGENET: [&str; 2] = ["miniimagenet", "mini-imagenet"];

#[cfg(feature = "files")]
fn folder(name: &str, folders: &[&str], dir: &Path, options: &Options) -> Result<Dataset, DataError> {
    let size = options.image_size.unwrap_or(DEFAULT_IMAGE_SIZE);
    ImageFolder::find(name, folders, dir)?.load(size)
}

/// The table's line for `name`.
pub fn info(name: &str) -> Result<&'static Info, DataError> {
    let found = DATASETS.iter().find(|info| info.name == name);
    found.ok_or_else(|| {
        let known = DATASETS.iter().map(|info| info.name).collect();
        DataError::Unknown { name: name.into(), known }
    })
}

/// Reads the data set `name` from the data directory `dir`.
pub fn load(name: &str, dir: &Path, options: &Options) -> Result<Dataset, DataError> {
    (info(name)?.load)(dir, options)
}

#[cfg(all(test, feature = "files"))]
mod tests {
    use super::*;
    use crate::samples::Samples;

    #[test]
    fn an_unknown_name_suggests_the_nearest() {
        let error = load("mnits", Path::new("."), &Options::default()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown data set `mnits`, expected `digits`, `mnist`, `cifar10`, `cifar100`, \
             `electricity`, `covertype`, `weather`, `smartwatch`, `miniimagenet`, \
             `folder`"
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
    fn checksums_in_the_table_are_sha256() {
        for file in DATASETS
            .iter()
            .filter_map(Info::published)
            .flat_map(|published| published.forms.iter().copied().flatten())
        {
            let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
            assert!(file.sha256.len() == 64 && file.sha256.chars().all(hex), "{}", file.name);
        }
    }
    #[test]
    fn the_checksum_is_of_all_that_was_read() {
        let data = digits::digits(20, 10, 0);
        let mut others = [data.clone(), data.clone(), data.clone(), data.clone()];
        let mut pixels = data.train.pixels().to_vec();
        pixels[700] ^= 1;
        others[0].train = Samples::images(pixels, data.train.labels.clone());
        others[1].test.labels[3] ^= 1;
        others[2].shape = [1, 56, 14];
        others[3].classes = 11;
        assert_eq!(data.checksum(), data.clone().checksum());
        assert!(others.iter().all(|other| other.checksum() != data.checksum()));
    }
}
