//! What the fuzzer found, and what it starts from. A file in `malformed_input/READER` once made that reader
//! panic, hang or ask for much memory; a seed in `fuzz/seeds/READER` must be taken, or the fuzzer would learn
//! nothing from it.

mod readers;

use std::{
    fs,
    panic::catch_unwind,
    path::{Path, PathBuf},
};

use hindsight::{Rng, config::Override, custom_stream::StreamFile, run_folder};
use readers::READERS;

/// The files in the folder of each reader.
fn files(root: &str) -> Vec<(&'static str, readers::Reader, PathBuf)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(root);
    let of = |(name, reader): &(&'static str, readers::Reader)| {
        let paths = fs::read_dir(root.join(name)).into_iter().flatten();
        let mut paths: Vec<PathBuf> = paths.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths.into_iter().map(|path| (*name, *reader, path)).collect::<Vec<_>>()
    };
    READERS.iter().flat_map(of).collect()
}

#[test]
fn nothing_that_was_found_does_harm_again() {
    let files = files("tests/malformed_input");
    assert!(!files.is_empty());
    for (name, reader, path) in files {
        eprintln!("{name}: {}", path.display());
        reader(&fs::read(path).unwrap());
    }
}

/// Files by hand and lines of records have a longest length, so a file without an end does no harm.
#[cfg(unix)]
#[test]
fn a_file_without_an_end_is_not_read_to_it() {
    let zero = Path::new("/dev/zero");
    let longer = |text: String| assert!(text.contains("than 16777216 bytes"), "{text}");
    longer(Override::from_toml(zero).unwrap_err().to_string());
    longer(StreamFile::read(zero).err().unwrap().to_string());
    let error = run_folder::read(&[zero]).unwrap_err().to_string();
    assert!(error.contains("longer than 134217728 bytes"), "{error}");
}

#[test]
fn every_reader_has_seeds_and_takes_them() {
    let seeds = files("../../fuzz/seeds");
    for (name, _) in READERS {
        assert!(seeds.iter().any(|(of, ..)| of == name), "no seed for {name}");
    }
    let bytes: u64 = seeds.iter().map(|(.., path)| fs::metadata(path).unwrap().len()).sum();
    assert!(bytes < 100_000, "all seeds together have {bytes} bytes");
    let refused = seeds.iter().filter(|(_, reader, path)| !reader(&fs::read(path).unwrap()));
    let refused: Vec<_> = refused.map(|(name, _, path)| (name, path)).collect();
    assert!(refused.is_empty(), "refused: {refused:?}");
}

#[test]
fn every_reader_has_a_fuzz_target() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let manifest = fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
    for (name, _) in READERS {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
        assert!(fuzz.join(format!("fuzz_targets/{name}.rs")).is_file(), "{name}");
    }
}

/// Some of what the fuzzer does, on any machine and the same every time: cuts, flipped bits, other numbers,
/// doubled and swapped parts. `HINDSIGHT_MUTATIONS` is how many of each seed.
#[test]
fn damaged_seeds_do_no_harm() {
    let count = std::env::var("HINDSIGHT_MUTATIONS").map_or(3, |count| count.parse().unwrap());
    for (name, reader, path) in files("../../fuzz/seeds") {
        let seed = fs::read(&path).unwrap();
        let mut rng = Rng::named(0, &path.file_name().unwrap().to_string_lossy());
        for i in 0..count {
            let mut bytes = seed.clone();
            for _ in 0..=rng.below(3) {
                damage(&mut bytes, &mut rng);
            }
            let outcome = catch_unwind(|| reader(&bytes));
            if outcome.is_err() {
                let found = std::env::temp_dir().join(format!("hindsight-{name}-{i}"));
                fs::write(&found, &bytes).unwrap();
                panic!("{name} panics at mutation {i} of {}: {}", path.display(), found.display());
            }
        }
    }
}

fn damage(bytes: &mut Vec<u8>, rng: &mut Rng) {
    if bytes.is_empty() {
        return;
    }
    let (a, b) = (rng.below(bytes.len()), rng.below(bytes.len()));
    let (start, end) = (a.min(b), a.max(b));
    match rng.below(8) {
        0 => bytes[a] ^= 1 << rng.below(8),
        1 => bytes[a] = [0, 1, 0x7f, 0x80, 0xff, b'0', b'9', b'-'][rng.below(8)],
        2 => bytes.truncate(a),
        3 => drop(bytes.drain(start..end)),
        4 => bytes.extend_from_within(start..end),
        5 => {
            let to = rng.below(bytes.len() - (end - start) + 1);
            bytes.copy_within(start..end, to);
        }
        // Another number in text, and in the middle of one.
        6 => {
            let numbers =
                ["-1", "1e308", "99999999999999999999", "null", "0.0", "[]", "4294967295", "1e-320"];
            bytes.splice(start..start, numbers[rng.below(8)].bytes());
        }
        _ => {
            let digits: Vec<usize> = (0..bytes.len()).filter(|&i| bytes[i].is_ascii_digit()).collect();
            if !digits.is_empty() {
                bytes[digits[rng.below(digits.len())]] = b'0' + rng.below(10) as u8;
            }
        }
    }
}
