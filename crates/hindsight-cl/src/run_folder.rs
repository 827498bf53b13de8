//! Reads the records and snapshots of finished runs. A line that cannot be used is reported and left out.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    fs::{self, File},
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

use hindsight_data::bounded_read::read_whole;
use serde::{Deserialize, de::DeserializeOwned};
use thiserror::Error;

use crate::{
    config::{complete, digest, id, identity},
    metrics::mean,
    protocol::Status,
    record::{Data, PROGRAM, RECORDS, Record, TASKS, VERSION},
    settings::Value,
    snapshot::{SNAPSHOTS, Snapshot},
};

/// What was found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Records {
    /// One per run, in the order in which they were found.
    pub records: Vec<Record>,
    /// Pictures of what learners held, from the files beside.
    pub snapshots: Vec<Snapshot>,
    /// Lines that are not used, and why.
    pub notes: Vec<Note>,
}

impl Records {
    /// Some records, with those of `snapshots` that are of their runs.
    pub fn with_snapshots(records: Vec<Record>, snapshots: &[Snapshot]) -> Records {
        let of = |snapshot: &&Snapshot| {
            records.iter().any(|record| {
                (&record.benchmark, &record.method, record.seed, &record.config)
                    == (&snapshot.benchmark, &snapshot.method, snapshot.seed, &snapshot.config)
            })
        };
        let snapshots = snapshots.iter().filter(of).cloned().collect();
        Records { records, snapshots, notes: Vec::new() }
    }
}

impl From<Vec<Record>> for Records {
    fn from(records: Vec<Record>) -> Records {
        Records { records, ..Records::default() }
    }
}

/// A line that is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// Why.
    pub reason: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path.display(), self.line, self.reason)
    }
}

/// Why there is nothing to report on.
#[derive(Debug, Error)]
#[non_exhaustive]
// The message of a variant says what its fields are.
#[allow(missing_docs)]
pub enum RecordError {
    /// A file or folder cannot be read.
    #[error("cannot read `{}`: {error}", path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    /// A folder without records.
    #[error("no `{RECORDS}` in `{}` or the folders below", path.display())]
    NoFile { path: PathBuf },
    /// Files without a single usable line.
    #[error("no record in {}{}", quoted(paths), lines(notes))]
    Nothing { paths: Vec<PathBuf>, notes: Vec<Note> },
}

impl RecordError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            RecordError::Unreadable { error, .. } if error.kind() == io::ErrorKind::NotFound => {
                "`hindsight run` leaves its records in a folder under `runs`".to_owned()
            }
            RecordError::Unreadable { .. } => format!("give a `{RECORDS}`, or a folder with some"),
            RecordError::NoFile { .. } => "`hindsight run --out` writes records there".to_owned(),
            RecordError::Nothing { notes, .. } if notes.is_empty() => {
                "a run writes its record when it ends; has one ended yet?".to_owned()
            }
            RecordError::Nothing { .. } => "records are lines of JSON, as in docs/records.md".to_owned(),
        })
    }
}

/// Reads records from files and folders. A folder stands for the `records.jsonl` in it and in the folders
/// below, down to three levels.
///
/// Of runs that are there twice (same method, benchmark, settings and seed) the last counts.
pub fn read<P: AsRef<Path>>(paths: &[P]) -> Result<Records, RecordError> {
    read_with(paths, |_| ())
}

/// As [`read`], with every record changed before it is kept: matrices of 100,000 runs that nobody looks at
/// would take a gigabyte.
pub fn read_with<P: AsRef<Path>>(paths: &[P], change: impl Fn(&mut Record)) -> Result<Records, RecordError> {
    let all = distinct_files(paths)?;
    let mut found: Vec<(Record, u32, usize)> = Vec::new();
    // Digests, since identities of 100,000 runs take as much memory as their records.
    let mut last: HashMap<[u8; 16], usize> = HashMap::new();
    let mut identities = Vec::new();
    let (mut snapshots, mut notes) = (Vec::<Snapshot>::new(), Vec::new());
    for (file, path) in all.iter().enumerate() {
        lines_of(path, &mut notes, Record::check, |mut record, line| {
            complete(&mut record.config, &record.benchmark, &record.method);
            let identity = digest(&record.identity());
            last.insert(identity, found.len());
            identities.push(identity);
            change(&mut record);
            found.push((record, file as u32, line));
        })?;
        let beside = path.with_file_name(SNAPSHOTS);
        if beside.is_file() {
            lines_of(&beside, &mut notes, Snapshot::check, |mut snapshot, _| {
                complete(&mut snapshot.config, &snapshot.benchmark, &snapshot.method);
                snapshots.push(snapshot);
            })?;
        }
    }

    let mut records = Vec::with_capacity(last.len());
    for (i, (record, file, line)) in found.into_iter().enumerate() {
        if last[&identities[i]] == i {
            records.push(record);
        } else {
            let reason = format!(
                "{} on {}, seed {}, comes again later; the last counts",
                record.method, record.benchmark, record.seed
            );
            notes.push(Note { path: all[file as usize].clone(), line, reason });
        }
    }
    notes.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    let mut last: BTreeMap<String, Snapshot> = BTreeMap::new();
    for snapshot in snapshots {
        last.insert(
            identity(&snapshot.benchmark, &snapshot.method, snapshot.seed, &snapshot.config),
            snapshot,
        );
    }
    if records.is_empty() {
        return Err(RecordError::Nothing { paths: all, notes });
    }
    Ok(Records { records, snapshots: last.into_values().collect(), notes })
}

/// A run that has finished tasks, and has no record yet.
#[derive(Debug, Clone, PartialEq)]
pub struct RunningRun {
    /// The benchmark.
    pub benchmark: String,
    /// The method.
    pub method: String,
    /// The seed.
    pub seed: u64,
    /// Tasks finished.
    pub finished: usize,
    /// Mean accuracy on the tasks seen so far after the last of them, as a fraction; none if not evaluated.
    pub accuracy: Option<f64>,
}

/// The runs under way in some folders: those with lines in `tasks.jsonl` and without one of `records`.
pub fn running(paths: &[impl AsRef<Path>], records: &[Record]) -> Vec<RunningRun> {
    #[derive(Deserialize)]
    struct TaskLine {
        benchmark: String,
        method: String,
        seed: u64,
        task: usize,
        row: Vec<Option<f64>>,
    }
    let found = paths.iter().filter_map(|path| files(path.as_ref()).ok()).flatten();
    let tasks: Vec<PathBuf> = found.map(|file| file.with_file_name(TASKS)).collect();
    let mut found: BTreeMap<(String, String, u64), RunningRun> = BTreeMap::new();
    for text in tasks.iter().filter_map(|file| read_whole(file).ok()) {
        for line in text.split(|&byte| byte == b'\n') {
            // The last line may be half written.
            let Ok(TaskLine { benchmark, method, seed, task, row }) = serde_json::from_slice(line) else {
                continue;
            };
            let seen: Vec<f64> = row.into_iter().take(task.saturating_add(1)).flatten().collect();
            let accuracy = mean(seen.iter().copied());
            let key = (benchmark.clone(), method.clone(), seed);
            let (finished, accuracy) = (task.saturating_add(1), accuracy.is_finite().then_some(accuracy));
            found.insert(key, RunningRun { benchmark, method, seed, finished, accuracy });
        }
    }
    for record in records {
        found.remove(&(record.benchmark.clone(), record.method.clone(), record.seed));
    }
    found.into_values().collect()
}

/// What tells whether a run is finished, without its results.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// [`Record::id`].
    pub id: String,
    /// The program that wrote the record.
    pub program: String,
    /// The data it was made of.
    pub data: Option<Data>,
    /// How the run ended.
    pub status: Status,
    /// Seconds of training and evaluation.
    pub seconds: f64,
}

impl Summary {
    /// Whether the record was made by this version from one of these data sets, named by their SHA-256.
    pub fn counts(&self, data: &[String]) -> bool {
        self.program == PROGRAM && self.data.as_ref().is_some_and(|found| data.contains(&found.sha256))
    }
}

/// Reads what tells which runs are finished, of records as [`read`] finds them: faster, in less memory. Runs
/// that are there twice come twice. No record at all is no error.
pub fn summaries<P: AsRef<Path>>(paths: &[P]) -> Result<(Vec<Summary>, Vec<Note>), RecordError> {
    #[derive(Deserialize)]
    struct Line {
        program: String,
        data: Option<Data>,
        method: String,
        benchmark: String,
        seed: u64,
        status: Status,
        train_seconds: f64,
        eval_seconds: f64,
        config: BTreeMap<String, Value>,
    }
    let files = match distinct_files(paths) {
        Err(RecordError::NoFile { .. }) => Vec::new(),
        files => files?,
    };
    let (mut summaries, mut notes) = (Vec::new(), Vec::new());
    for path in files {
        lines_of(
            &path,
            &mut notes,
            |_: &Line| Ok(()),
            |mut line, _| {
                complete(&mut line.config, &line.benchmark, &line.method);
                summaries.push(Summary {
                    id: id(&identity(&line.benchmark, &line.method, line.seed, &line.config)),
                    program: line.program,
                    data: line.data,
                    status: line.status,
                    seconds: line.train_seconds + line.eval_seconds,
                });
            },
        )?;
    }
    Ok((summaries, notes))
}

/// The files that paths stand for, each once: the same file under two names would give every record twice.
fn distinct_files<P: AsRef<Path>>(paths: &[P]) -> Result<Vec<PathBuf>, RecordError> {
    let (mut all, mut seen) = (Vec::new(), BTreeSet::new());
    for path in paths {
        for file in files(path.as_ref())? {
            if seen.insert(fs::canonicalize(&file).unwrap_or_else(|_| file.clone())) {
                all.push(file);
            }
        }
    }
    Ok(all)
}

/// How many levels below a folder records are looked for: a reproduction has them two levels below its own.
const LEVELS: usize = 3;

/// The record files that `path` stands for.
pub fn files(path: &Path) -> Result<Vec<PathBuf>, RecordError> {
    let unreadable = |error| RecordError::Unreadable { path: path.to_owned(), error };
    if !fs::metadata(path).map_err(unreadable)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    find_below(path, LEVELS, &mut files).map_err(unreadable)?;
    if files.is_empty() { Err(RecordError::NoFile { path: path.to_owned() }) } else { Ok(files) }
}

/// The record file of a folder first, then those of the folders in it, by name.
fn find_below(folder: &Path, levels: usize, files: &mut Vec<PathBuf>) -> io::Result<()> {
    files.extend(Some(folder.join(RECORDS)).filter(|file| file.is_file()));
    if levels == 0 {
        return Ok(());
    }
    let mut folders: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // A listing tells what is a folder; to ask for each of 100,000 claims would take minutes on NFS.
        let kind = entry.file_type()?;
        if kind.is_dir() || (kind.is_symlink() && entry.path().is_dir()) {
            folders.push(entry.path());
        }
    }
    folders.sort();
    for inner in folders {
        match find_below(&inner, levels - 1, files) {
            // A folder that may not be read has no records for this user.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            found => found?,
        }
    }
    Ok(())
}

/// Bytes of the longest line: a snapshot has some megabytes.
const LONGEST: u64 = 1 << 27;

/// Hands on the lines of a file that can be used, with their numbers.
fn lines_of<T: DeserializeOwned>(
    path: &Path,
    notes: &mut Vec<Note>,
    check: fn(&T) -> Result<(), String>,
    mut keep: impl FnMut(T, usize),
) -> Result<(), RecordError> {
    let unreadable = |error| RecordError::Unreadable { path: path.to_owned(), error };
    let mut file = BufReader::new(File::open(path).map_err(unreadable)?);
    let mut text = Vec::new();
    for line in 1.. {
        text.clear();
        let length = file.by_ref().take(LONGEST).read_until(b'\n', &mut text).map_err(unreadable)?;
        if length == 0 {
            break;
        }
        if length as u64 == LONGEST {
            let reason = format!("longer than {LONGEST} bytes; what follows it is not read");
            notes.push(Note { path: path.to_owned(), line, reason });
            break;
        }
        let text = text.trim_ascii();
        if text.is_empty() {
            continue;
        }
        match parse(text).and_then(|value| check(&value).map(|()| value)) {
            Ok(value) => keep(value, line),
            Err(reason) => notes.push(Note { path: path.to_owned(), line, reason }),
        }
    }
    Ok(())
}

fn parse<T: DeserializeOwned>(line: &[u8]) -> Result<T, String> {
    #[derive(Deserialize)]
    struct RecordHead {
        version: u32,
    }
    // A number that is cut after its sign, point or exponent is an invalid one to the parser.
    let cut = |error: &serde_json::Error| {
        error.column() >= line.len() && line.last().is_some_and(|last| b"-+.eE".contains(last))
    };
    let reason = |error: serde_json::Error| match error.is_eof() || cut(&error) {
        true => "ends early, as if its writer had been stopped".to_owned(),
        // The position is within the line; serde's own line number would be 1 throughout.
        false => error.to_string().replace(" at line 1 column ", ", column "),
    };
    let head: RecordHead = serde_json::from_slice(line).map_err(reason)?;
    if head.version == 0 || head.version > VERSION {
        return Err(format!("version {}, this program reads 1 to {VERSION}", head.version));
    }
    serde_json::from_slice(line).map_err(reason)
}

fn quoted(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| format!("`{}`", path.display())).collect::<Vec<_>>().join(", ")
}

/// The first few notes, for an error.
fn lines(notes: &[Note]) -> String {
    let shown: String = notes.iter().take(5).map(|note| format!("\n  {note}")).collect();
    let more = notes.len().saturating_sub(5);
    if more == 0 { shown } else { format!("{shown}\n  and {more} more") }
}
