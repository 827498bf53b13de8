//! Every error that there is: each variant is made to happen, and what it says and advises stands in
//! `errors.txt`.
//!
//! `HINDSIGHT_BLESS=1 cargo test -p hindsight-cli --test errors` writes that file anew; read what changed.
// What a system says of its files is in some of them.
#![cfg(unix)]

use std::{
    collections::BTreeSet,
    fs,
    io::Write as _,
    path::Path,
    sync::{Arc, atomic::AtomicBool},
};

use flate2::{Compression, write::GzEncoder};
use hindsight::{
    Agent, Shape,
    benchmarks::BENCHMARKS,
    checkpoint::{Checkpoint, CheckpointError, Checkpoints, Header},
    config::{ConfigError, Experiment, Override},
    custom_stream::StreamFile,
    data::{
        DataError, Dataset, DownloadSource, Options, Original, RowError, cifar100 as cifar,
        fetch::{fetch, fetch_from},
        formats::{csv::CsvError, npy::NpyError, series::SeriesError},
        image_folder::ImageFolder,
        info, load,
        rows::{ReadOptions, Row, RowReader, Selection},
        schema::{Hazards, Schema, TextColumns},
    },
    methods::{METHODS, Method},
    run::{self, RunError},
    run_folder,
    sweep::{Search, Shard, Sweep, SweepError},
};
use hindsight_report::reproduce::{ReproduceError, Reproduction, Request};
use tempfile::TempDir;

/// Errors as text: type, variant, message and hint.
#[derive(Default)]
struct Said {
    text: String,
    /// `Type::Variant` of each.
    seen: BTreeSet<String>,
}

impl Said {
    fn add(&mut self, kind: &str, debug: String, message: String, hint: Option<String>) {
        let variant: String = debug.chars().take_while(|c| c.is_alphanumeric()).collect();
        self.seen.insert(format!("{kind}::{variant}"));
        let hint = hint.map_or(String::new(), |hint| format!("    hint: {hint}\n"));
        self.text += &format!("{kind}::{variant}\n    {message}\n{hint}");
    }
}

/// Adds errors that have hints of their own.
macro_rules! add {
    ($said:expr, $kind:literal, $($result:expr),+ $(,)?) => {$({
        let error = $result.map(drop).expect_err(stringify!($result));
        $said.add($kind, format!("{error:?}"), error.to_string(), error.hint());
    })+};
}

/// Adds errors that are told, and advised upon, as part of others.
macro_rules! add_flaws {
    ($said:expr, $kind:literal, $($result:expr),+ $(,)?) => {$({
        let error = $result.map(drop).expect_err(stringify!($result));
        let (flaw, hint) = match &error {
            DataError::Idx { flaw, .. } => (format!("{flaw:?}"), error.hint()),
            DataError::Cifar { flaw, .. } => (format!("{flaw:?}"), error.hint()),
            DataError::Csv { flaw, .. } => (format!("{flaw:?}"), error.hint()),
            DataError::Npy { flaw, .. } => (format!("{flaw:?}"), error.hint()),
            DataError::Npz { flaw, .. } => (format!("{flaw:?}"), error.hint()),
            DataError::Series { flaw: SeriesError::Pickle(flaw), .. } if $kind == "PickleError" => {
                (format!("{flaw:?}"), error.hint())
            }
            DataError::Series { flaw, .. } => (format!("{flaw:?}"), error.hint()),
            DataError::CustomStream { flaw, .. } => (format!("{flaw:?}"), error.hint()),
            DataError::Row { flaw, .. } => (format!("{flaw:?}"), error.hint()),
            other => panic!("{other}"),
        };
        $said.add($kind, flaw, error.to_string(), hint);
    })+};
}

const ARCHIVE: &[u8] = include_bytes!("readers/small.npz");
const RECORDINGS: &[u8] = include_bytes!("readers/series.npy");
const PIXEL: &[u8] = include_bytes!("readers/pixel.png");
const MNIST: [&str; 4] = [
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
];

fn put(dir: &Path, name: &str, bytes: impl AsRef<[u8]>) {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

fn array(dims: &[u8], body: &[u8]) -> Vec<u8> {
    let dims = dims.iter().flat_map(|&d| [0, 0, 0, d]);
    [0, 0, 8, dims.clone().count() as u8 / 4].into_iter().chain(dims).chain(body.iter().copied()).collect()
}

/// MNIST with two training and one test image of 2 x 2 pixels, and one file replaced.
fn mnist(dir: &Path, file: usize, bytes: &[u8]) -> Result<Dataset, DataError> {
    let mut files =
        [array(&[2, 2, 2], &[0; 8]), array(&[2], &[1, 2]), array(&[1, 2, 2], &[0; 4]), array(&[1], &[1])];
    files[file] = bytes.to_vec();
    let place = TempDir::new_in(dir).unwrap();
    MNIST.iter().zip(files).for_each(|(name, bytes)| put(place.path(), name, bytes));
    load("mnist", place.path(), &Options::default())
}

fn record(label: u8) -> Vec<u8> {
    [&[0, label], [7; 3072].as_slice()].concat()
}

fn cifar(dir: &Path, train: &[u8]) -> Result<Dataset, DataError> {
    let place = TempDir::new_in(dir).unwrap();
    put(place.path(), "train.bin", train);
    put(place.path(), "test.bin", record(1));
    load("cifar100", place.path(), &Options::default())
}

/// CIFAR-100 in an archive of `train.bin`, which is said to have `size` bytes.
fn archive(dir: &Path, size: u64, content: &[u8]) -> Result<Dataset, DataError> {
    let mut header = tar::Header::new_ustar();
    header.set_path("cifar-100-binary/train.bin").unwrap();
    header.set_size(size);
    header.set_cksum();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::none());
    gzip.write_all(header.as_bytes()).unwrap();
    gzip.write_all(content).unwrap();
    packed(dir, &gzip.finish().unwrap())
}

fn packed(dir: &Path, archive: &[u8]) -> Result<Dataset, DataError> {
    let place = TempDir::new_in(dir).unwrap();
    put(place.path(), cifar::ARCHIVE[0].name, archive);
    load("cifar100", place.path(), &Options::default())
}

fn images(dir: &Path, names: &[&str]) -> Result<ImageFolder, DataError> {
    let place = TempDir::new_in(dir).unwrap().keep();
    names.iter().for_each(|name| put(&place, name, PIXEL));
    ImageFolder::open("folder", &place)
}

fn set(texts: &[&str]) -> Vec<Override> {
    texts.iter().map(|text| Override::parse(text).unwrap()).collect()
}

fn resolve(texts: &[&str]) -> Result<Experiment, ConfigError> {
    Experiment::resolve(&set(texts), BENCHMARKS, METHODS)
}

/// The stream of a run on the built-in digits.
fn stream(texts: &[&str]) -> Result<(), ConfigError> {
    let run = &resolve(texts).unwrap().first_run();
    let source = run::load(run, Path::new("nowhere")).unwrap();
    match run::stream(run, &source) {
        Err(RunError::Config(error)) => Err(error),
        other => other.map(drop).map_err(|error| panic!("{error}")),
    }
}

fn sweep(settings: &[&str], grid: &[&str]) -> Result<Sweep, SweepError> {
    let mut search = Search { overrides: set(settings), ..Search::default() };
    grid.iter().try_for_each(|text| search.grid.add(text))?;
    Sweep::resolve(&search, BENCHMARKS, METHODS)
}

fn reproduce(item: &str, benchmark: &str, settings: &[&str]) -> Result<Reproduction, ReproduceError> {
    let (items, benchmarks) = (vec![item.to_owned()], vec![benchmark.to_owned()]);
    let overrides = settings.iter().map(|text| Override::parse(text)).collect::<Result<_, _>>()?;
    let methods = Vec::new();
    Reproduction::resolve(&Request { items, benchmarks, methods, seeds: None, quick: false, overrides })
}

fn data_errors(said: &mut Said, dir: &Path) {
    let original = Original { name: "a-idx1-ubyte", as_is: false, bytes: 3, sha256: "00" };
    put(dir, "file", "");
    put(dir, "own/a-idx1-ubyte", "own");
    let fetched = |sources: &[DownloadSource], folder: &str| {
        fetch_from(sources, &[original], &dir.join(folder), &mut |_| ())
    };
    let options = Options::default();
    add!(
        said,
        "DataError",
        info("mnits"),
        load("mnist", &dir.join("empty"), &options),
        load("cifar100", &dir.join("empty"), &options),
        fetched(&[], "file/below"),
        mnist(dir, 1, &array(&[3], &[1, 2, 3])),
        mnist(dir, 1, &array(&[2], &[1, 10])),
        mnist(dir, 2, &array(&[1, 1, 4], &[0; 4])),
        mnist(dir, 0, b"<html>"),
        cifar(dir, b"<html>"),
        ImageFolder::open("folder", &dir.join("nowhere")),
        images(dir, &["loose.png"]),
        images(dir, &["cat/x.png", "cat/y.png"]),
        images(dir, &["train/cat/x.png", "train/dog/x.png", "test/cat/x.png"]),
        images(dir, &["cat/x.png", "cat/y.png", "dog/x.png"]).unwrap().decode(8),
        images(dir, &["cat/x.png", "cat/y.png", "dog/x.png", "dog/y.png"]).unwrap().decode(0),
        // Made to happen beside the reader: nobody has that many files.
        Err::<(), _>(DataError::Memory { images: usize::MAX, each: 3072 }),
        fetch("folder", dir, &mut |_| ()),
        fetched(&[], "own"),
        fetched(&[], "empty"),
    );
    add_flaws!(
        said,
        "IdxError",
        mnist(dir, 0, b"\x1f\x8bnot gzip at all"),
        mnist(dir, 0, &array(&[2], &[1, 2])),
        mnist(dir, 0, &array(&[2, 2, 2], &[0; 7])),
        mnist(dir, 0, &array(&[2, 2, 2], &[0; 9])),
        mnist(dir, 0, &array(&[2, 0, 2], &[])),
    );
    add_flaws!(
        said,
        "CifarError",
        packed(dir, b"\x1f\x8bnot gzip at all"),
        cifar(dir, b""),
        cifar(dir, &record(1)[1..]),
        cifar(dir, &record(1)[..3000]),
        archive(dir, 3074 << 20, &[]),
        archive(dir, 3074, &[0; 100]),
        cifar(dir, &record(100)),
        packed(dir, &[0; 1024]),
    );
}

/// A custom stream: its description and the files beside it.
fn own(dir: &Path, description: &str, files: &[(&str, &[u8])]) -> Result<(), DataError> {
    let place = TempDir::new_in(dir).unwrap();
    files.iter().for_each(|(name, bytes)| put(place.path(), name, bytes));
    put(place.path(), "my.toml", description);
    StreamFile::read(&place.path().join("my.toml"))?.load().map(drop)
}

const CSV: &str = "format = \"csv\"\nlabel = \"kind\"\n";
const HELD_OUT: &str = "hold_out = 0.5\n[[files]]\ntrain = \"a.csv\"\n";
const TESTED: &str = "[[files]]\ntrain = \"a.csv\"\ntest = \"b.csv\"\n";

fn csv(dir: &Path, content: impl AsRef<[u8]>) -> Result<(), DataError> {
    own(dir, &format!("{CSV}{HELD_OUT}"), &[("a.csv", content.as_ref())])
}

fn tested(dir: &Path, keys: &str, train: &str, test: &str) -> Result<(), DataError> {
    let files = [("a.csv", train.as_bytes()), ("b.csv", test.as_bytes())];
    own(dir, &format!("{CSV}{keys}{TESTED}"), &files)
}

fn numpy(descr: &str, shape: &str, body: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
    [b"\x93NUMPY\x01\0", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), body].concat()
}

fn npy(dir: &Path, features: &[u8], labels: &[u8]) -> Result<(), DataError> {
    let files = "hold_out = 0.5\n[[files]]\ntrain = \"x.npy\"\nlabels = \"y.npy\"\n";
    own(dir, &format!("format = \"npy\"\n{files}"), &[("x.npy", features), ("y.npy", labels)])
}

fn npz(dir: &Path, keys: &str, archive: &[u8]) -> Result<(), DataError> {
    let files = "hold_out = 0.5\n[[files]]\ntrain = \"a.npz\"\n";
    own(dir, &format!("format = \"npz\"\n{keys}{files}"), &[("a.npz", archive)])
}

fn series(dir: &Path, keys: &str, recordings: &[u8]) -> Result<(), DataError> {
    let files = "hold_out = 0.5\n[[files]]\ntrain = \"a.npy\"\n";
    let head = if keys.contains("window") { "" } else { "window = 2\n" };
    own(dir, &format!("format = \"series\"\n{head}{keys}{files}"), &[("a.npy", recordings)])
}

/// An object as `numpy.save` writes it, of the operations of a pickle.
fn object(operations: &[u8]) -> Vec<u8> {
    numpy("|O", "()", &[b"\x80\x02", operations].concat())
}

/// The archive with one byte replaced, that far from the first `from` in it.
fn replaced(from: &[u8], by: usize, byte: u8) -> Vec<u8> {
    let at = ARCHIVE.windows(from.len()).position(|window| window == from).unwrap();
    let mut bytes = ARCHIVE.to_vec();
    bytes[at + by] = byte;
    bytes
}

/// The recordings with the last occurrence of bytes replaced by others, one pair after the other.
fn recordings(pairs: &[(&[u8], &[u8])]) -> Vec<u8> {
    pairs.iter().fold(RECORDINGS.to_vec(), |bytes, (from, to)| {
        let at = bytes.windows(from.len()).rposition(|window| window == *from).unwrap();
        [&bytes[..at], to, &bytes[at + from.len()..]].concat()
    })
}

fn stream_errors(said: &mut Said, dir: &Path) {
    let good = "a,kind\n1,x\n2,y\n3,x\n4,y\n";
    let many_texts: String = (0..300).map(|i| format!("id{i},x\n")).collect();
    let many_texts = format!("a,kind\n{many_texts}");
    assert!(csv(dir, good).is_ok() && npz(dir, "", ARCHIVE).is_ok());
    let labels = numpy("|S1", "(4,)", b"abab");
    let features = |body: &[f32]| {
        let body: Vec<u8> = body.iter().flat_map(|value| value.to_le_bytes()).collect();
        numpy("<f4", "(4, 1)", &body)
    };
    let floats = features(&[0.0, 1.0, 2.0, 3.0]);
    assert!(npy(dir, &floats, &labels).is_ok());
    add!(
        said,
        "DataError",
        csv(dir, "a,kind\n1,x\nNA,y\n"),
        npy(dir, b"a,kind\n1,x\n", &labels),
        npz(dir, "label = \"label\"\n", ARCHIVE),
        series(dir, "window = 9\n", RECORDINGS),
        own(dir, "format = \"csv\"\nlables = \"kind\"\n", &[]),
    );
    add_flaws!(
        said,
        "CsvError",
        own(dir, &format!("{CSV}{HELD_OUT}"), &[("a.csv/b.csv", b"")]),
        own(dir, &format!("{CSV}{}", HELD_OUT.replace("a.csv", "/dev/zero")), &[]),
        csv(dir, b"a,kind\n1,\xff\xfe"),
        csv(dir, "a,kind\n1,\"x\n2,y\n"),
        // Made to happen beside the reader: it takes 256 MB.
        Err::<(), _>(DataError::Csv {
            path: "a.csv.gz".into(),
            flaw: CsvError::Expands { packed: 300_000, most: 1 << 28 },
        }),
        csv(dir, ""),
        csv(dir, "a,kind\n"),
        csv(dir, "\na,a,kind\n1,2,x\n"),
        csv(dir, ",a,kind\n0,1,x\n"),
        csv(dir, "a;b\n1;x\n"),
        csv(dir, "1.5,0\n2.5,1\n"),
        csv(dir, "kind\nx\n"),
        csv(dir, "a,kind\n1,x\n2,y,z\n"),
        csv(dir, "a,kind\n1,x\n,y\n"),
        csv(dir, "a,kind\n1,x\n2,\n"),
        csv(dir, "a,kind\n1,x\nNA,y\n"),
        csv(dir, "a;kind\n1;x\n2,5;y\n"),
        csv(dir, "a,kind\n1,x\n1e39,y\n"),
        csv(dir, "a,kind\n1,x\nnan,y\n"),
        csv(dir, "a,kind\nred,x\n1,y\n"),
        own(dir, &format!("text = \"one-hot\"\n{CSV}{HELD_OUT}"), &[("a.csv", many_texts.as_bytes())]),
        own(
            dir,
            &format!("tasks = \"column\"\ntask = [\"p\", \"q\"]\n{CSV}{HELD_OUT}"),
            &[("a.csv", b"a,p,q,kind\n1,1,0,x\n2,1,1,y\n")]
        ),
    );
    let npy_of = |descr: &str, shape: &str, body: &[u8]| npy(dir, &numpy(descr, shape, body), &labels);
    let files = "hold_out = 0.5\n[[files]]\ntrain = \"folder\"\nlabels = \"folder\"\n";
    add_flaws!(
        said,
        "NpyError",
        own(dir, &format!("format = \"npy\"\n{files}"), &[("folder/x.npy", b"")]),
        npy(dir, b"a,kind\n1,x\n", &labels),
        npy(dir, &numpy("<f4", "(four, 1)", &[0; 16]), &labels),
        npy_of("|O", "(4, 1)", &[0; 32]),
        npy(dir, &labels, &labels),
        npy_of("|u1", "(4, 0)", &[]),
        npy_of("|u1", "(4, 1, 1, 1, 1)", &[0; 4]),
        npy(dir, &floats, &numpy("|S1", "(2, 2)", b"abab")),
        // Made to happen beside the reader: the file would have to be as large.
        Err::<(), _>(DataError::Npy { path: "x.npy".into(), flaw: NpyError::Memory { found: 1 << 60 } }),
        npy_of("|u1", "(4, 1)", &[0; 3]),
        npy_of("|u1", "(4, 1)", &[0; 5]),
        npy(dir, &features(&[0.0, 1.0, f32::NAN, 3.0]), &labels),
        npy(dir, &floats, &numpy("|S1", "(4,)", b"ab\0b")),
    );
    add_flaws!(
        said,
        "NpzError",
        own(dir, "format = \"npz\"\nhold_out = 0.5\n[[files]]\ntrain = \"a.npz\"\n", &[("a.npz/b.npz", b"")],),
        npz(dir, "", b"a,kind\n1,x\n"),
        npz(dir, "", &ARCHIVE[..ARCHIVE.len() / 2]),
        npz(dir, "", &replaced(b"PK\x05\x06", 16, 3)),
        npz(dir, "", &replaced(b"PK\x01\x02", 8, 1)),
        npz(dir, "", &replaced(b"PK\x01\x02", 10, 12)),
        npz(dir, "", &replaced(b"PK\x01\x02", 27, 255)),
        npz(dir, "label = \"label\"\n", ARCHIVE),
        npz(dir, "", b"PK\x05\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
        npz(dir, "features = \"t\"\nlabel = \"x\"\n", ARCHIVE),
        npz(dir, "", &replaced(b"PK\x01\x02", 16, 0)),
    );
    let folder = "format = \"series\"\nwindow = 2\nhold_out = 0.5\n[[files]]\ntrain = \"a\"\n";
    let label = "label = \"t\"\n";
    assert!(series(dir, "", RECORDINGS).is_ok() && series(dir, label, RECORDINGS).is_ok());
    add_flaws!(
        said,
        "SeriesError",
        own(dir, folder, &[("a/b", b"")]),
        // Made to happen beside the reader: it takes 256 MB.
        Err::<(), _>(DataError::Series { path: "a.npy".into(), flaw: SeriesError::Long { most: 1 << 28 } }),
        series(dir, "", &labels),
        series(dir, "", &object(b"cos\nsystem\n")),
        series(dir, "", &object(b"N.")),
        series(dir, "label = \"kind\"\n", RECORDINGS),
        series(dir, "features = \"y\"\nlabel = \"t\"\n", RECORDINGS),
        series(dir, label, &recordings(&[(b"K\x04\x85", b"K\x05\x85")])),
        series(
            dir,
            label,
            &recordings(&[(b"K\x04\x85", b"K\x03\x85"), (b"X\x20\0\0\0\x01\0\0\0\0\0\0\0", b"X\x18\0\0\0")])
        ),
        series(dir, "", &recordings(&[(b"K\x04K\x02\x86", b"K\x02K\x04\x86")])),
        // Made to happen beside the reader: it takes hundreds of recordings.
        Err::<(), _>(DataError::Series { path: "a.npy".into(), flaw: SeriesError::Repeated { most: 1288 } }),
        series(dir, "window = 9\n", RECORDINGS),
    );
    add_flaws!(
        said,
        "PickleError",
        series(dir, "", &object(b"N")),
        series(dir, "", &object(b"N.N")),
        series(dir, "", &object(b"\x8c\x01a.")),
        series(dir, "", &object(b"cos\nsystem\nX\x02\0\0\0ls\x85R.")),
        series(dir, "", &object(b"K\x01K\x02a.")),
        series(dir, "", &object(&[b'N'; (1 << 20) + 1])),
    );
    let tasks: String = (0..1001).map(|task| format!("1,x,{task}\n2,y,{task}\n")).collect();
    let column = "tasks = \"column\"\ntask = \"day\"\n";
    let idx = "format = \"idx\"\nhold_out = 0.5\n[[files]]\ntrain = \"x\"\nlabels = \"y\"\n";
    let last = format!("{CSV}hold_out_rows = \"last\"\n{HELD_OUT}");
    let pair = "labels = \"y.npy\"\ntest = \"z.npy\"\ntest_labels = \"y.npy\"\n";
    let wide = numpy("|u1", "(4, 2)", &[0; 8]);
    add_flaws!(
        said,
        "CustomStreamError",
        own(dir, &format!("{CSV}hold_out = = 0.5\n"), &[]),
        own(dir, "format = \"xls\"\n", &[]),
        own(dir, &format!("{CSV}hold_out = 2.0\n[[files]]\ntrain = \"a.csv\"\n"), &[]),
        own(dir, &format!("format = \"csv\"\n{HELD_OUT}"), &[]),
        own(dir, &format!("{CSV}image_size = 32\n{HELD_OUT}"), &[]),
        own(dir, &format!("{CSV}{HELD_OUT}"), &[]),
        StreamFile::read(&dir.join("nowhere.toml")),
        own(dir, idx, &[("x", &array(&[1], &[1])), ("y", &array(&[1], &[1]))]),
        npy(dir, &floats, &numpy("|S1", "(2,)", b"ab")),
        own(
            dir,
            &format!("format = \"npy\"\n[[files]]\ntrain = \"x.npy\"\n{pair}"),
            &[("x.npy", &floats), ("y.npy", &labels), ("z.npy", &wide)],
        ),
        own(dir, &last, &[("a.csv", b"a,kind\n1,x\n2,y\n3,z\n4,y\n")]),
        tested(dir, "heads = \"per-task\"\n", good, "a,kind\n1,z\n"),
        tested(dir, column, "a,kind,day\n1,x,mon\n2,y,mon\n", "a,kind,day\n1,x,tue\n"),
        csv(dir, "a,kind\n1,x\n2,y\n3,z\n"),
        csv(dir, "a,kind\n1,x\n2,x\n"),
        own(
            dir,
            &format!("{CSV}{column}{HELD_OUT}"),
            &[("a.csv", format!("a,kind,day\n{tasks}").as_bytes())],
        ),
    );
}

/// Reads a table to its end, as a model would whose columns are `a` and `b`, and takes it as numbers.
fn rows(dir: &Path, columns: Option<&[&str]>, content: &str) -> Result<(), DataError> {
    put(dir, "rows", content);
    let path = dir.join("rows");
    let mut reader = RowReader::open(&path, &ReadOptions::default())?;
    let columns: Option<Vec<String>> =
        columns.map(|columns| columns.iter().map(|&column| column.to_owned()).collect());
    let selection =
        Selection { label: Some("kind"), needed: true, columns: columns.as_deref(), ..Selection::default() };
    let left = reader.select(&selection)?;
    let fail = |flaw| DataError::Row { path: path.clone(), flaw };
    if !left.is_empty() {
        let expected = columns.unwrap_or_default();
        return Err(fail(RowError::Unexpected { found: left, expected }));
    }
    let (mut row, mut rows) = (Row::default(), Vec::new());
    while reader.read(&mut row)? {
        if row.label.is_none() {
            return Err(fail(RowError::NoLabel { place: row.place.to_string() }));
        }
        rows.push(row.clone());
    }
    let cells: Vec<_> = rows.iter().map(|row| (row.place.to_string(), row.cells.as_slice())).collect();
    let mut schema = Schema::default();
    schema.fit(reader.columns(), &cells, TextColumns::OneHot).map_err(fail)?;
    schema.columns.iter_mut().for_each(|column| column.categories = None);
    let (mut x, mut hazards) = (Vec::new(), Hazards::default());
    for (place, cells) in cells {
        schema.encode(cells, || place.clone(), &mut hazards, &mut x).map_err(fail)?;
    }
    Ok(())
}

fn row_errors(said: &mut Said, dir: &Path) {
    assert!(rows(dir, None, "a,kind\n1,x\n2,y\n").is_ok());
    put(dir, "images/a/x.png", "no image");
    let images = || {
        let mut reader = RowReader::open(&dir.join("images"), &ReadOptions::default())?;
        reader.read(&mut Row::default())
    };
    let many: String = (0..300).map(|i| format!("text{i},x\n")).collect();
    add!(said, "DataError", rows(dir, None, "a,kind\n?,x\n"));
    add_flaws!(
        said,
        "RowError",
        RowReader::open(&dir.join("nowhere.csv"), &ReadOptions::default()),
        rows(dir, None, "{"),
        rows(dir, None, "{\"a\": 1, \"kind\": \"x\"}\n[1, 2]\n"),
        rows(dir, None, "a,kin\n1,x\n"),
        rows(dir, Some(&["far away"]), "a,kind\n1,x\n"),
        rows(dir, None, "a,a,kind\n1,1,x\n"),
        rows(dir, Some(&["a"]), "a,b,kind\n1,2,x\n"),
        rows(dir, None, "{\"x\": [1, 2], \"y\": \"a\"}\n{\"x\": [1], \"y\": \"a\"}\n"),
        rows(dir, None, "a,kind\n1,\n"),
        rows(dir, None, "a,kind\n?,x\n"),
        rows(dir, None, "a,kind\n1,x\ntwo,x\n"),
        rows(dir, None, "a,kind\n1e39,x\n"),
        rows(dir, None, &format!("a,kind\n{many}")),
        images(),
        // Made to happen where all rows were read.
        Err::<(), _>(DataError::Row { path: "a.csv".into(), flaw: RowError::Empty }),
    );
}

fn config_errors(said: &mut Said, dir: &Path) {
    put(dir, "bad.toml", "tasks = 2\nsamples = = 3\n");
    put(dir, "method.toml", "method = []\n");
    let needs_task = Method { name: "mine", needs_task: true, ..Method::DEFAULT };
    add!(
        said,
        "ConfigError",
        resolve(&["method=hall"]),
        resolve(&["benchmark=xyzzy"]),
        resolve(&["bacth=3"]),
        resolve(&["batch=0"]),
        resolve(&["hal.lambda=-1"]),
        resolve(&["seeds=0"]),
        Override::from_toml(&dir.join("method.toml")),
        resolve(&["classes_per_task=2"]),
        resolve(&["hidden=[65536, 65536]"]),
        Override::parse("batch"),
        Override::from_toml(&dir.join("nowhere.toml")),
        Override::from_toml(&dir.join("bad.toml")),
        stream(&["tasks=0"]),
        stream(&["benchmark=split-digits", "tasks=30", "classes_per_task=2"]),
        stream(&[
            "benchmark=split-digits",
            "samples=100000",
            "tasks=2",
            "classes_per_task=2",
            "tuning_tasks=0"
        ]),
        stream(&["samples=100000"]),
        Experiment::resolve(&set(&["method=mine"]), BENCHMARKS, &[needs_task]),
    );
}

fn other_errors(said: &mut Said, dir: &Path) {
    put(dir, "records/broken/records.jsonl", "{\"version\":2}\n");
    put(dir, "records/new/records.jsonl", "");
    fs::create_dir_all(dir.join("records/none")).unwrap();
    add!(
        said,
        "RecordError",
        run_folder::read(&[dir.join("nowhere")]),
        run_folder::read(&[dir.join("records/none")]),
        run_folder::read(&[dir.join("records/new")]),
        run_folder::read(&[dir.join("records/broken")]),
    );
    put(dir, "own.toml", "[sweep]\nrandom = 0\n");
    put(dir, "word.toml", "sweep = 3\n");
    let numbers: Vec<String> = (1..=1001).map(|n| n.to_string()).collect();
    let numbers = numbers.join(",");
    add!(
        said,
        "SweepError",
        sweep(&["method=hall"], &[]),
        Search::from_toml(&dir.join("word.toml")),
        Search::from_toml(&dir.join("own.toml")),
        sweep(&[], &["hal.lambda"]),
        sweep(&[], &["slots="]),
        sweep(&[], &["method=hal,ewc"]),
        sweep(&[], &["seeds=1,2"]),
        sweep(&[], &["tuning=true"]),
        sweep(&[], &["image_size=1,2"]),
        "0/4".parse::<Shard>(),
        sweep(&["method=hal"], &[&format!("samples={numbers}"), &format!("batch={numbers}")]),
        // Made to happen where folders are written: the command line has a test.
        Err::<(), _>(SweepError::Other {
            path: "sweep.toml".into(),
            differences: vec!["`slots` was `3`, now `1`".to_owned()],
        }),
        sweep(&["tuning_tasks=0"], &[]),
    );
    add!(
        said,
        "ReproduceError",
        reproduce("t9", "permuted-mnist", &[]),
        reproduce("t7", "rotated-mnist", &[]),
        reproduce("t2", "permuted-mnist", &["slots=7"]),
        reproduce("t2", "permuted-mnist", &["method=mer"]),
    );
    let missing = resolve(&["benchmark=permuted-mnist"]).unwrap();
    add!(
        said,
        "RunError",
        stream(&["samples=100000"]).map_err(RunError::from),
        run::load(&missing.first_run(), &dir.join("nowhere")),
        // Made to happen beside `run_all`.
        Err::<(), _>(RunError::Panicked { reason: "out of luck".to_owned() }),
        // And these beside the checkpoints.
        Err::<(), _>(RunError::Stopped { batches: 7 }),
        Err::<(), _>(RunError::Memory { needed: 80_000, available: 16_000 }),
        Err::<(), _>(RunError::from(CheckpointError::NoParts { method: "mine".to_owned() })),
    );
}

fn checkpoint_errors(said: &mut Said, dir: &Path) {
    let folder = dir.join("checkpoints");
    fs::create_dir(&folder).unwrap();
    let path = folder.join("a.safetensors");
    let mut agent = Agent::new(2, 2, &["method=er-ring", "hidden=[2]", "slots=1"]).unwrap();
    let shape = Shape {
        input: [1, 1, 2],
        classes: 2,
        heads: Some(vec![vec![0, 1], vec![0]]).into(),
        ..Shape::default()
    };
    let mut heads = Agent::of(shape, &["method=finetune", "hidden=[2]"]).unwrap();
    agent.observe(&[0.0, 1.0], &[1], 0).unwrap();
    agent.save(&path).unwrap();
    let good = fs::read(&path).unwrap();
    let changed = |from: &str, to: &str| {
        let at = good.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
        let mut bytes = good.clone();
        bytes[at..][..to.len()].copy_from_slice(to.as_bytes());
        Checkpoint::parse(&bytes, &path)
    };
    let mut damaged = good.clone();
    *damaged.last_mut().unwrap() ^= 1;
    let restored = Checkpoint::read(&path).unwrap();
    // A run whose folder has the checkpoint of another, of one that is not of a run, and of another place.
    let config = resolve(&["method=finetune", "tasks=1", "samples=20", "hidden=2"]).unwrap().first_run();
    let source = run::load(&config, dir).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let with = Checkpoints { folder, every: 1, interval: None, keep: 1, stop, models: None };
    let go = |header: Option<&dyn Fn(&mut Header)>| {
        let _ = fs::remove_dir_all(with.of(&config));
        run::run_with_snapshot(&config, &source, Some(&with), false, &mut |_| ())
            .map_err(|error| error.to_string())?;
        let (path, mut found) = with.latest(&config).unwrap().0.unwrap();
        if let Some(change) = header {
            change(&mut found.header);
        }
        fs::remove_file(&path).unwrap();
        found.write(&path.with_file_name("000000000001.safetensors")).unwrap();
        run::run_with_snapshot(&config, &source, Some(&with), false, &mut |_| ())
            .map_err(|error| error.to_string())
    };
    assert!(go(None).is_ok());
    let of_run = |change: &dyn Fn(&mut Header)| {
        let message = go(Some(change)).map(drop).unwrap_err();
        match run::run_with_snapshot(&config, &source, Some(&with), false, &mut |_| ()).map(drop) {
            Err(RunError::Checkpoint(error)) if error.to_string() == message => Err::<(), _>(error),
            result => panic!("{result:?}"),
        }
    };
    add!(
        said,
        "CheckpointError",
        Checkpoint::read(&dir.join("nowhere.safetensors")),
        restored.write(&dir.join("nowhere").join("a.safetensors")),
        Checkpoint::parse(&good[..100], &path),
        // What the checksum is depends on the machine's arithmetic.
        match Checkpoint::parse(&damaged, &path) {
            Err(CheckpointError::Damaged { path, .. }) => {
                Err::<(), _>(CheckpointError::Damaged { path, found: 1, expected: 2 })
            }
            result => panic!("{result:?}"),
        },
        changed("version\\\":3", "version\\\":7"),
        of_run(&|header| header.seed = 9),
        of_run(&|header| header.run.as_mut().unwrap().run_state.stage = 9),
        restored.restore(&mut *run::learner(&config, &run::stream(&config, &source).unwrap()), &path),
        Err::<(), _>(CheckpointError::NoParts { method: "mine".to_owned() }),
    );
    let mut diverged = Agent::new(2, 2, &["method=finetune", "hidden=[64]", "finetune.rate=100"]).unwrap();
    (0..4).for_each(|_| drop(diverged.observe(&[1e30, -1e30, 5e29, 2e30], &[0, 1], 0)));
    // It answers by the nearest mean of what it remembers.
    let mut nearest = Agent::new(2, 2, &["method=icarl", "hidden=[2]"]).unwrap();
    nearest.observe(&[0.0, 1.0, 1.0, 0.0], &[0, 1], 0).unwrap();
    nearest.end_task();
    add!(
        said,
        "AgentError",
        Agent::new(2, 2, &["hiden=[2]"]),
        Agent::new(2, 2, &["seeds=3"]),
        Agent::load(dir.join("nowhere.safetensors")),
        Agent::new(0, 2, &[]),
        agent.observe(&[0.0], &[1], 0),
        agent.predict(&[0.0, f32::NAN], 0),
        agent.observe(&[0.0, 1.0], &[2], 0),
        Agent::builder(2, 0).classes(["warm", "cold"]).build().unwrap().class_id("hot"),
        heads.observe(&[0.0, 1.0], &[1], 1),
        Agent::builder(2, 0).open().build().unwrap().predict(&[0.0, 1.0], 0),
        nearest.to_onnx(0),
        diverged.save(&path),
    );
}

/// `Type::Variant` of every public error in a file.
fn declared(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    let mut found = Vec::new();
    for part in text.split("pub enum ").skip(1) {
        let name: String = part.chars().take_while(|c| c.is_alphanumeric()).collect();
        let body = part.split("\n}").next().unwrap();
        if name.ends_with("Error") {
            let variants = body.lines().filter_map(|line| line.strip_prefix("    "));
            let variants = variants.filter(|line| line.starts_with(|c: char| c.is_ascii_uppercase()));
            let word = |line: &str| line.chars().take_while(|c| c.is_alphanumeric()).collect::<String>();
            found.extend(variants.map(|line| format!("{name}::{}", word(line))));
        }
    }
    found
}

fn sources(folder: &Path) -> Vec<String> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { sources(&path) } else { declared(&path) }).collect()
}

#[test]
fn every_error_says_what_was_found_what_was_expected_and_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let mut said = Said::default();
    data_errors(&mut said, dir.path());
    stream_errors(&mut said, dir.path());
    row_errors(&mut said, dir.path());
    config_errors(&mut said, dir.path());
    other_errors(&mut said, dir.path());
    checkpoint_errors(&mut said, dir.path());

    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let crates = ["nn", "data", "cl", "report"].map(|name| crates.join(format!("hindsight-{name}/src")));
    let declared: BTreeSet<String> = crates.iter().flat_map(|folder| sources(folder)).collect();
    assert!(declared.len() > 50, "{declared:?}");
    let untested: Vec<&String> = declared.difference(&said.seen).collect();
    assert!(untested.is_empty(), "no test for {untested:?}");

    // Folders have names by chance.
    let root = dir.path().display().to_string();
    let mut text = said.text.replace(&root, "DIR");
    while let Some(at) = text.find("DIR/.tmp") {
        text.replace_range(at..at + "DIR/.tmp".len() + 6, "FOLDER");
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/errors.txt");
    if std::env::var_os("HINDSIGHT_BLESS").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap();
    for (line, (found, expected)) in text.lines().zip(expected.lines()).enumerate() {
        assert_eq!(found, expected, "line {} of {}", line + 1, path.display());
    }
    assert_eq!(text.lines().count(), expected.lines().count());
}
