//! An empty folder with a small data set, and the binary run in it.

// Each file of tests uses a part of this.
#![allow(dead_code)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

pub(crate) const TRAIN: usize = 240;
pub(crate) const TEST: usize = 60;
pub(crate) const SIDE: usize = 8;
pub(crate) const FILES: [&str; 4] = [
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
];

/// An empty folder to work in, with the stand-in in `data`.
pub(crate) struct TestDir(TempDir);

/// What a command did.
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl TestDir {
    pub(crate) fn new() -> TestDir {
        let place = TestDir::empty();
        for (name, bytes) in FILES.iter().zip(stand_in()) {
            place.write(&format!("data/{name}"), &bytes);
        }
        place
    }

    /// Without data.
    pub(crate) fn empty() -> TestDir {
        TestDir(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), bytes).unwrap();
    }

    pub(crate) fn lines(&self, name: &str) -> Vec<Value> {
        json_lines(&fs::read_to_string(self.path(name)).unwrap())
    }

    /// The command with space-separated arguments.
    pub(crate) fn command(&self, args: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hindsight"));
        command.args(args.split(' ')).current_dir(self.0.path()).stdin(Stdio::null());
        command
            .env("HINDSIGHT_DATA", self.path("data"))
            .env("HOME", self.0.path())
            .env_remove("XDG_CACHE_HOME");
        command
    }

    pub(crate) fn hindsight(&self, args: &str) -> Done {
        let output = self.command(args).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Done { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// The records of a command that must succeed.
    pub(crate) fn records(&self, args: &str) -> Vec<Value> {
        let done = self.hindsight(&format!("{args} --json"));
        assert_eq!(done.code, Some(0), "{args}: {}", done.err);
        json_lines(&done.out)
    }

    /// Asserts wrong usage: exit code 2, nothing on standard output, no records, and on standard error one
    /// line that begins with `error: ` and one with `hint: `, with these words.
    pub(crate) fn refuses(&self, args: &str, error: &str, hint: &str) {
        let done = self.hindsight(args);
        assert_eq!(done.code, Some(2), "{args}: {}", done.err);
        assert_eq!(done.out, "", "{args}");
        let lines: Vec<&str> = done.err.lines().collect();
        let [first, second] = lines[..] else { panic!("{args}: {}", done.err) };
        assert!(first.starts_with("error: ") && first.contains(error), "{args}: {first}");
        assert!(second.starts_with("hint: ") && second.contains(hint), "{args}: {second}");
        assert!(!self.path("runs").exists(), "{args} leaves a folder");
    }
}

pub(crate) fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub(crate) fn idx(dims: &[usize], body: impl IntoIterator<Item = u8>) -> Vec<u8> {
    let magic = [0, 0, 8, dims.len() as u8];
    let dims = dims.iter().flat_map(|&d| (d as u32).to_be_bytes());
    magic.into_iter().chain(dims).chain(body).collect()
}

/// Images that show their class as a bright row and column among noise.
pub(crate) fn images(count: usize) -> Vec<u8> {
    let pixel = |i: usize| {
        let (class, y, x) = (i / (SIDE * SIDE) % 10, i / SIDE % SIDE, i % SIDE);
        let noise = (i as u32).wrapping_mul(2_654_435_761) >> 25;
        if y == class % SIDE || x == class / 2 { 200 + noise as u8 / 4 } else { noise as u8 }
    };
    idx(&[count, SIDE, SIDE], (0..count * SIDE * SIDE).map(pixel))
}

pub(crate) fn labels(count: usize) -> Vec<u8> {
    idx(&[count], (0..count).map(|i| (i % 10) as u8))
}

pub(crate) fn stand_in() -> [Vec<u8>; 4] {
    [images(TRAIN), labels(TRAIN), images(TEST), labels(TEST)]
}

pub(crate) fn without_timings(mut records: Vec<Value>) -> Vec<Value> {
    for record in &mut records {
        let fields = record.as_object_mut().unwrap();
        assert!(fields.remove("started").unwrap().as_str().unwrap().ends_with('Z'));
        for key in ["train_seconds", "eval_seconds"] {
            assert!(fields.remove(key).unwrap().is_f64());
        }
        // Linux alone tells it.
        assert!(fields.remove("peak_memory_bytes").is_none_or(|bytes| bytes.is_u64()));
    }
    records
}

/// The checkpoints under a folder, oldest first: batches observed, and the file.
pub(crate) fn checkpoints(folder: &Path) -> Vec<(usize, PathBuf)> {
    let Ok(runs) = fs::read_dir(folder.join("checkpoints")) else { return Vec::new() };
    let mut found = Vec::new();
    for run in runs {
        for file in fs::read_dir(run.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            if let Some(number) = path.to_str().unwrap().strip_suffix(".safetensors") {
                found.push((number[number.len() - 12..].parse().unwrap(), path));
            }
        }
    }
    found.sort();
    found
}
