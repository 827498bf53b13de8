//! CIFAR-10. Its training images are in five files.

use std::path::Path;

use crate::{
    cifar::Cifar,
    dataset::Dataset,
    error::DataError,
    formats::cifar::CifarLayout,
    published::{DownloadSource, Original, Published},
};

const fn records(name: &'static str, sha256: &'static str) -> Original {
    Original { name, as_is: true, bytes: 30_730_000, sha256 }
}

/// The files of records, that for test last.
pub static FILES: [Original; 6] = [
    records("data_batch_1.bin", "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"),
    records("data_batch_2.bin", "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"),
    records("data_batch_3.bin", "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"),
    records("data_batch_4.bin", "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"),
    records("data_batch_5.bin", "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"),
    records("test_batch.bin", "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"),
];

/// The archive that holds them. Its authors give the MD5 `c32a1d4ab5d03f1284b67883e8d87530`.
pub static ARCHIVE: [Original; 1] = [Original {
    name: "cifar-10-binary.tar.gz",
    as_is: true,
    bytes: 170_052_171,
    sha256: "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
}];

/// All about its files.
pub static PUBLISHED: Published = Published {
    name: "cifar10",
    folders: &["cifar10", FOLDER],
    forms: &[&FILES, &ARCHIVE],
    sources: &[DownloadSource::Mirror("https://www.cs.toronto.edu/~kriz/")],
};

/// Where the files are in the archive.
const FOLDER: &str = "cifar-10-batches-bin";

const CIFAR: Cifar = Cifar {
    layout: CifarLayout::Cifar10,
    published: &PUBLISHED,
    files: &FILES,
    archive: &ARCHIVE[0],
    folder: FOLDER,
    names: "airplane automobile bird cat deer dog frog horse ship truck",
};

/// Reads `data_batch_1.bin` to `data_batch_5.bin` and `test_batch.bin`, or `cifar-10-binary.tar.gz`, in
/// `dir/cifar10`, `dir/cifar-10-batches-bin` or `dir`.
pub fn load(dir: &Path) -> Result<Dataset, DataError> {
    CIFAR.load(dir)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use flate2::{Compression, write::GzEncoder};

    use super::*;
    use crate::formats::cifar::{CifarError, PIXELS};

    /// Records with these labels; the pixels of each are its label, its place and the file's number.
    fn bin(file: u8, labels: &[u8]) -> Vec<u8> {
        let record = |(i, &label): (usize, &u8)| {
            let pixels = std::iter::repeat_n(file, PIXELS - 2);
            [label, label, i as u8].into_iter().chain(pixels).collect::<Vec<u8>>()
        };
        labels.iter().enumerate().flat_map(record).collect()
    }

    fn files() -> Vec<(&'static str, Vec<u8>)> {
        let labels: [&[u8]; 6] = [&[0, 1], &[2], &[3, 9], &[4], &[5], &[6, 7, 8]];
        FILES.iter().zip(labels).zip(0..).map(|((file, labels), i)| (file.name, bin(i, labels))).collect()
    }

    fn assert_good(data: &Dataset) {
        assert_eq!((data.name.as_str(), data.shape, data.classes), ("cifar10", [3, 32, 32], 10));
        assert_eq!((data.class_name(0), data.class_name(9)), ("airplane".to_owned(), "truck".to_owned()));
        assert_eq!(data.train.labels, [0, 1, 2, 3, 9, 4, 5]);
        assert_eq!(data.test.labels, [6, 7, 8]);
        assert_eq!(data.train.pixels().len(), 7 * PIXELS);
        assert_eq!(data.train.pixels()[4 * PIXELS..][..3], [9, 1, 2]);
        assert_eq!(data.test.pixels()[2 * PIXELS..][..3], [8, 2, 5]);
    }

    #[test]
    fn six_files_or_the_archive_are_read_wherever_they_are() {
        for folder in ["", "cifar10", "cifar-10-batches-bin"] {
            let dir = tempfile::tempdir().unwrap();
            fs::create_dir_all(dir.path().join(folder)).unwrap();
            let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
            for (name, bytes) in files().iter().rev() {
                fs::write(dir.path().join(folder).join(name), bytes).unwrap();
                let mut header = tar::Header::new_ustar();
                header.set_size(bytes.len() as u64);
                builder.append_data(&mut header, format!("{FOLDER}/{name}"), &bytes[..]).unwrap();
            }
            assert_good(&load(dir.path()).unwrap());
            fs::remove_file(dir.path().join(folder).join("data_batch_3.bin")).unwrap();
            let error = load(dir.path()).unwrap_err();
            assert!(error.to_string().contains("no `data_batch_3.bin` in"), "{error}");
            let archive = builder.into_inner().unwrap().finish().unwrap();
            fs::write(dir.path().join(folder).join(ARCHIVE[0].name), archive).unwrap();
            assert_good(&load(dir.path()).unwrap());
        }
    }

    #[test]
    fn records_of_cifar_100_and_labels_beyond_ten_are_refused() {
        let with = |train: &[u8]| {
            let dir = tempfile::tempdir().unwrap();
            files().iter().for_each(|(name, bytes)| fs::write(dir.path().join(name), bytes).unwrap());
            fs::write(dir.path().join("data_batch_2.bin"), train).unwrap();
            load(dir.path()).unwrap_err()
        };
        let error = with(&[0; 3074]);
        let size = "data_batch_2.bin`: found 3074 bytes, expected a multiple of 3073: the last 1 are not a whole record";
        assert!(error.to_string().ends_with(size), "{error}");
        assert!(error.hint().unwrap().starts_with("this looks like CIFAR-100,"));
        let error = with(&bin(0, &[1, 10]));
        assert!(error.to_string().ends_with("record 1 has the label `10`, expected less than 10"), "{error}");
        let DataError::Cifar { flaw: CifarError::Empty { .. }, .. } = with(b"") else {
            panic!("no error of its own")
        };
    }
}
