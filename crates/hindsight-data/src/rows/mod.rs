//! The rows of a table one by one, for learners that go on for as long as data comes.
//!
//! What a file is, its content tells: CSV, JSON lines (both plain or gzip, also from standard input), NPY,
//! NPZ, an image, or a folder of images. CSV and JSON lines are read as they come; nothing is kept.

mod json;

use std::{
    fmt,
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

use hindsight_nn::Rng;
use sha2::{Digest, Sha256};

use crate::{
    dataset::{DEFAULT_IMAGE_SIZE, MAX_IMAGE_SIZE},
    error::{DataError, RowError},
    formats::{csv::CsvRows, idx::unpack, npy, npz::Npz, table::Categorical},
    hex::hex,
    image_folder,
    schema::Cell,
};
use json::JsonRows;
pub use json::{cell, word};

/// The path that stands for standard input.
pub const STANDARD_INPUT: &str = "-";

/// How a file is read.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    /// The delimiter of a CSV file; by default the most frequent one of its first line.
    pub delimiter: Option<u8>,
    /// Whether the first line of a CSV file is a header; by default unless it is all numbers.
    pub header: Option<bool>,
    /// The labels of an NPY file.
    pub labels: Option<PathBuf>,
    /// Height and width that images are brought to.
    pub image_size: Option<usize>,
    /// Whether the images of a folder, which have no order, come in a random one.
    pub shuffle_images: bool,
}

/// Which columns are read, and as what.
#[derive(Debug, Clone, Copy, Default)]
pub struct Selection<'a> {
    /// The column of labels.
    pub label: Option<&'a str>,
    /// The column of tasks.
    pub task: Option<&'a str>,
    /// Whether those must be there.
    pub needed: bool,
    /// Columns that are left out.
    pub ignore: &'a [String],
    /// The columns of features, in this order; all others if none are named.
    pub columns: Option<&'a [String]>,
}

/// One row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Row {
    /// Where it is.
    pub place: Place,
    /// Its features as cells, in the order of [`RowReader::columns`]; empty where the file holds numbers.
    pub cells: Vec<Cell>,
    /// Its features, where the file holds numbers.
    pub numbers: Vec<f32>,
    /// Its label, if it has one.
    pub label: Option<String>,
    /// Its task, if it has one.
    pub task: Option<String>,
}

/// Where a row is in its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A line, from 1.
    Line(u64),
    /// A row of an array, from 0.
    Row(usize),
    /// A file of a folder.
    File(PathBuf),
}

impl Default for Place {
    fn default() -> Place {
        Place::Row(0)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line(line) => write!(f, "line {line}"),
            Place::Row(row) => write!(f, "row {row}"),
            Place::File(path) => write!(f, "`{}`", path.display()),
        }
    }
}

/// A file that is read row by row.
#[derive(Debug)]
pub struct RowReader {
    path: PathBuf,
    source: Source,
    columns: Vec<String>,
    shape: [usize; 3],
    notes: Vec<String>,
}

#[derive(Debug)]
enum Source {
    Csv { rows: CsvRows<'static>, label: Option<usize>, task: Option<usize>, features: Vec<usize> },
    Json(JsonRows),
    Arrays { values: Vec<f32>, labels: Option<Categorical>, tasks: Option<Categorical>, next: usize },
    Images { files: Vec<(PathBuf, Option<String>)>, next: usize, pixels: Vec<u8> },
}

impl RowReader {
    /// Opens a file, a folder of images, or standard input (`-`).
    pub fn open(path: &Path, options: &ReadOptions) -> Result<RowReader, DataError> {
        if path.as_os_str() == STANDARD_INPUT {
            return RowReader::text("standard input".into(), io::stdin(), options);
        }
        let flaw = |error: io::Error| row_error(path, error.into());
        if path.is_dir() {
            let mut files = image_folder::list_files(path)?;
            if options.shuffle_images {
                let count = files.len();
                Rng::named(0, "order of images").shuffle_front(&mut files, count);
            }
            return RowReader::images(path, files, options);
        }
        let mut file = BufReader::new(File::open(path).map_err(flaw)?);
        let head = file.fill_buf().map_err(flaw)?;
        let begins = |magic: &[u8]| head.starts_with(magic);
        if begins(b"\x93NUMPY") || begins(b"PK\x03\x04") || begins(b"PK\x05\x06") {
            let is_npz = begins(b"PK");
            let len = file.get_ref().metadata().map_err(flaw)?.len();
            return if is_npz {
                RowReader::npz(path, file, len)
            } else {
                RowReader::npy(path, file, len, options)
            };
        }
        if begins(b"\x89PNG") || begins(b"\xff\xd8\xff") {
            return RowReader::images(path, vec![(path.to_owned(), None)], options);
        }
        RowReader::text(path.to_owned(), file, options)
    }

    /// CSV or JSON lines, told by the first character.
    pub fn text(
        path: PathBuf,
        source: impl Read + 'static,
        options: &ReadOptions,
    ) -> Result<RowReader, DataError> {
        let flaw = |error: io::Error| row_error(&path, error.into());
        let mut source = BufReader::with_capacity(1 << 16, unpack(source).map_err(flaw)?.0);
        let head = source.fill_buf().map_err(flaw)?;
        let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
        if head.trim_ascii_start().starts_with(b"{") {
            let rows = JsonRows::open(Box::new(source)).map_err(|flaw| row_error(&path, flaw))?;
            let shape = [1, 1, rows.names().len()];
            let columns = if rows.is_named() { rows.names().to_vec() } else { Vec::new() };
            return Ok(RowReader { path, source: Source::Json(rows), columns, shape, notes: Vec::new() });
        }
        let opened = CsvRows::open(source, None, options.delimiter, options.header);
        let rows = opened.map_err(|flaw| DataError::Csv { path: path.clone(), flaw })?;
        let (columns, notes) = (rows.names().to_vec(), rows.notes().to_vec());
        let features = (0..columns.len()).collect();
        let source = Source::Csv { rows, label: None, task: None, features };
        Ok(RowReader { path, source, shape: [1, 1, columns.len()], columns, notes })
    }

    fn npy(path: &Path, file: impl Read, len: u64, options: &ReadOptions) -> Result<RowReader, DataError> {
        let flaw = |path: &Path, flaw| DataError::Npy { path: path.into(), flaw };
        let (shape, values) = npy::features(file, len).map_err(|error| flaw(path, error))?;
        let labels = options.labels.as_deref().map(|labels| {
            let unreadable = |error: io::Error| row_error(labels, error.into());
            let file = File::open(labels).map_err(unreadable)?;
            let len = file.metadata().map_err(unreadable)?.len();
            npy::labels(BufReader::new(file), len).map_err(|error| flaw(labels, error))
        });
        RowReader::arrays(path, shape, values, labels.transpose()?, None)
    }

    fn npz(path: &Path, file: impl Read + io::Seek, len: u64) -> Result<RowReader, DataError> {
        let flaw = |flaw| DataError::Npz { path: path.into(), flaw };
        let mut archive = Npz::open(file, len).map_err(flaw)?;
        let names = archive.names();
        let (shape, values) = archive.features("x").map_err(flaw)?;
        let mut words = |name: &str| match names.iter().any(|known| known == name) {
            true => archive.labels(name).map(Some).map_err(flaw),
            false => Ok(None),
        };
        let (labels, tasks) = (words("y")?, words("task")?);
        RowReader::arrays(path, shape, values, labels, tasks)
    }

    fn arrays(
        path: &Path,
        shape: [usize; 3],
        values: Vec<f32>,
        labels: Option<Categorical>,
        tasks: Option<Categorical>,
    ) -> Result<RowReader, DataError> {
        let expected = values.len() / shape.iter().product::<usize>();
        let other = [&labels, &tasks].into_iter().flatten().find(|words| words.len() != expected);
        if let Some(words) = other {
            let place = "labels or tasks".to_owned();
            return Err(row_error(path, RowError::Width { place, found: words.len(), expected }));
        }
        let source = Source::Arrays { values, labels, tasks, next: 0 };
        Ok(RowReader { path: path.into(), source, columns: Vec::new(), shape, notes: Vec::new() })
    }

    fn images(
        path: &Path,
        files: Vec<(PathBuf, Option<String>)>,
        options: &ReadOptions,
    ) -> Result<RowReader, DataError> {
        let size = options.image_size.unwrap_or(DEFAULT_IMAGE_SIZE);
        if !(1..=MAX_IMAGE_SIZE).contains(&size) {
            return Err(DataError::Resize { found: size, most: MAX_IMAGE_SIZE });
        }
        let source = Source::Images { files, next: 0, pixels: vec![0; 3 * size * size] };
        let shape = [3, size, size];
        Ok(RowReader { path: path.into(), source, columns: Vec::new(), shape, notes: Vec::new() })
    }

    /// What is read, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was assumed about the file and the user should know.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The names of the columns; after [`RowReader::select`] those of the features. Empty where values have
    /// no names.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Channels, height and width of a row; `[1, 1, n]` where it is no image.
    pub fn shape(&self) -> [usize; 3] {
        self.shape
    }

    /// Whether rows are numbers rather than cells.
    pub fn is_numeric(&self) -> bool {
        matches!(self.source, Source::Arrays { .. } | Source::Images { .. })
    }

    /// Number of rows, where it is known beforehand.
    pub fn rows(&self) -> Option<usize> {
        match &self.source {
            Source::Csv { .. } | Source::Json(_) => None,
            Source::Arrays { values, .. } => Some(values.len() / self.shape.iter().product::<usize>()),
            Source::Images { files, .. } => Some(files.len()),
        }
    }

    /// Chooses columns by name, before the first row is read, and returns those that are not chosen and not
    /// among `ignore`. Where values have no names there is nothing to choose.
    pub fn select(&mut self, selection: &Selection<'_>) -> Result<Vec<String>, DataError> {
        let names = std::mem::take(&mut self.columns);
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let fail = |flaw| Err(row_error(&self.path, flaw));
        for (i, name) in names.iter().enumerate() {
            if !name.is_empty() && names[..i].contains(name) {
                return fail(RowError::Twice { column: name.clone() });
            }
        }
        let find = |column: &str| names.iter().position(|name| name == column);
        let missing = |column: &str| RowError::NoColumn { column: column.to_owned(), found: names.clone() };
        let apart = matches!(&self.source, Source::Json(rows) if rows.is_apart());
        for column in [selection.label, selection.task].into_iter().flatten() {
            if selection.needed && !apart && find(column).is_none() {
                return fail(missing(column));
            }
        }
        if let Some(column) =
            selection.ignore.iter().find(|column| selection.columns.is_none() && find(column).is_none())
        {
            return fail(missing(column));
        }
        let (label, task) = (selection.label.and_then(find), selection.task.and_then(find));
        let others = (0..names.len()).filter(|&i| {
            // The index that pandas writes has no name.
            let used = Some(i) == label || Some(i) == task || names[i].is_empty();
            !used && !selection.ignore.contains(&names[i])
        });
        let chosen: Vec<usize> = match selection.columns {
            None => others.clone().collect(),
            Some(columns) => {
                let mut chosen = Vec::new();
                for column in columns {
                    match find(column) {
                        Some(i) => chosen.push(i),
                        None => return fail(missing(column)),
                    }
                }
                chosen
            }
        };
        let left: Vec<String> = others.filter(|i| !chosen.contains(i)).map(|i| names[i].clone()).collect();
        self.columns = chosen.iter().map(|&i| names[i].clone()).collect();
        self.shape = [1, 1, chosen.len()];
        match &mut self.source {
            Source::Csv { rows: _, label: to_label, task: to_task, features } => {
                (*to_label, *to_task, *features) = (label, task, chosen);
            }
            Source::Json(rows) => rows.select(self.columns.clone(), selection.label, selection.task),
            Source::Arrays { .. } | Source::Images { .. } => {}
        }
        Ok(left)
    }

    /// Reads the next row into `row`; false at the end. After an error that
    /// [is of one row](DataError::is_of_one_row) the next one can be read.
    pub fn read(&mut self, row: &mut Row) -> Result<bool, DataError> {
        row.cells.clear();
        row.numbers.clear();
        (row.label, row.task) = (None, None);
        let width = self.shape.iter().product::<usize>();
        match &mut self.source {
            Source::Csv { rows, label, task, features } => {
                let fail = |flaw| DataError::Csv { path: self.path.clone(), flaw };
                let Some(line) = rows.next_row().map_err(fail)? else { return Ok(false) };
                row.place = Place::Line(line);
                for &i in features.iter() {
                    row.cells.push(Cell::parse(rows.field(i, line).map_err(fail)?));
                }
                let word = |i: Option<usize>| match i.map(|i| rows.field(i, line)).transpose() {
                    Ok(word) => Ok(word.filter(|word| !word.is_empty()).map(unsigned_zero)),
                    Err(flaw) => Err(fail(flaw)),
                };
                (row.label, row.task) = (word(*label)?, word(*task)?);
            }
            Source::Json(rows) => match rows.read(row) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(flaw) => return Err(row_error(&self.path, flaw)),
            },
            Source::Arrays { values, labels, tasks, next } => {
                let Some(found) = values.get(*next * width..(*next + 1) * width) else { return Ok(false) };
                row.numbers.extend_from_slice(found);
                let word =
                    |words: &Option<Categorical>| words.as_ref().map(|words| words.get(*next).to_owned());
                (row.label, row.task, row.place) = (word(labels), word(tasks), Place::Row(*next));
                *next += 1;
            }
            Source::Images { files, next, pixels } => {
                let Some((path, label)) = files.get(*next) else { return Ok(false) };
                *next += 1;
                (row.label, row.place) = (label.clone(), Place::File(path.clone()));
                image_folder::decode_file(path, self.shape[1], pixels).map_err(|reason| {
                    row_error(&self.path, RowError::Image { place: row.place.to_string(), reason })
                })?;
                row.numbers.extend(pixels.iter().map(|&byte| f32::from(byte) / 255.0));
            }
        }
        Ok(true)
    }
}

/// SHA-256 of rows, to know them again.
#[derive(Debug, Clone, Default)]
pub struct RowHasher(Sha256);

impl RowHasher {
    /// Takes in a row; one that could not be read is none.
    pub fn update(&mut self, row: Option<&Row>) {
        let Some(row) = row else { return self.0.update([4]) };
        for cell in &row.cells {
            match cell {
                Cell::Missing => self.0.update([0]),
                Cell::Number(number) => self.0.update(number.to_le_bytes()),
                Cell::Bool(truth) => self.0.update([1 + u8::from(*truth)]),
                Cell::Text(text) => self.text(text),
            }
        }
        row.numbers.iter().for_each(|number| self.0.update(number.to_le_bytes()));
        [&row.label, &row.task].into_iter().for_each(|word| self.text(word.as_deref().unwrap_or("")));
    }

    fn text(&mut self, text: &str) {
        self.0.update((text.len() as u64).to_le_bytes());
        self.0.update(text);
    }

    /// The checksum so far.
    pub fn hex(&self) -> String {
        hex(&self.0.clone().finalize())
    }
}

/// A label or task; the sign of a zero is dropped, as in custom streams.
fn unsigned_zero(word: &str) -> String {
    let rest = word.strip_prefix('-').filter(|rest| rest.parse() == Ok(0.0));
    rest.unwrap_or(word).to_owned()
}

fn row_error(path: &Path, flaw: RowError) -> DataError {
    DataError::Row { path: path.into(), flaw }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn rows(bytes: &'static [u8], selection: &Selection<'_>) -> Result<(Vec<String>, Vec<Row>), DataError> {
        let mut reader = RowReader::text("t".into(), bytes, &ReadOptions::default())?;
        let left = reader.select(selection)?;
        let (mut all, mut row) = (Vec::new(), Row::default());
        while reader.read(&mut row)? {
            all.push(row.clone());
        }
        Ok((left, all))
    }

    const ROLES: Selection<'_> =
        Selection { label: Some("kind"), task: Some("day"), needed: true, ignore: &[], columns: None };

    #[test]
    fn csv_and_json_lines_give_the_same_rows() {
        let csv = b"a,kind,day,b\n1,x,mon,2.5\n?,-0,tue,no\n";
        let json = b"{\"a\": 1, \"kind\": \"x\", \"day\": \"mon\", \"b\": 2.5}\n\n\
                     {\"kind\": \"-0\", \"day\": \"tue\", \"b\": \"no\"}\n";
        let nested = b"{\"x\": {\"a\": 1, \"b\": 2.5}, \"y\": \"x\", \"task\": \"mon\"}\n\
                       {\"x\": {\"b\": \"no\"}, \"y\": -0.0, \"task\": \"tue\"}";
        for bytes in [&csv[..], json, nested] {
            let (left, rows) = rows(bytes, &ROLES).unwrap();
            assert!(left.is_empty());
            assert_eq!(rows[0].cells, [Cell::Number(1.0), Cell::Number(2.5)]);
            assert_eq!(rows[1].cells, [Cell::Missing, Cell::Text("no".into())]);
            assert_eq!((rows[0].label.as_deref(), rows[0].task.as_deref()), (Some("x"), Some("mon")));
            assert_eq!(rows[1].label.as_deref(), Some("0"));
        }
    }

    #[test]
    fn columns_are_chosen_by_name_whatever_their_order() {
        let columns = ["b", "a"].map(String::from);
        let chosen = Selection { columns: Some(&columns), ..ROLES };
        let (left, found) = rows(b"id,a,kind,day,b\n7,1,x,mon,2\n", &chosen).unwrap();
        assert_eq!((left.as_slice(), found.len()), (&["id".to_owned()][..], 1));
        assert_eq!(found[0].cells, [Cell::Number(2.0), Cell::Number(1.0)]);
        let error = rows(b"a,kind,day\n1,x,mon\n", &chosen).unwrap_err();
        assert_eq!(error.to_string(), "`t`: no column `b`, found `a`, `kind`, `day`");
        let error = rows(b"a,a,kind,day\n1,1,x,mon\n", &ROLES).unwrap_err();
        assert_eq!(error.to_string(), "`t`: found the column `a` twice, expected each name once");
        // The index of a data frame is no feature.
        let (_, found) = rows(b",a,kind,day\n0,1,x,mon\n", &ROLES).unwrap();
        assert_eq!(found[0].cells, [Cell::Number(1.0)]);
    }

    #[test]
    fn a_bad_row_is_named_and_the_next_can_be_read() {
        for (bytes, message) in [
            (&b"a,kind,day\n1,x,mon\n1,2,3,4\n3,y,mon\n"[..], "line 3: found 4 values"),
            (b"{\"a\":1,\"kind\":\"x\",\"day\":\"mon\"}\n{\"a\":1,\n{\"a\":3,\"kind\":\"y\",\"day\":\"mon\"}\n", "line 2: "),
        ] {
            let mut reader = RowReader::text("t".into(), bytes, &ReadOptions::default()).unwrap();
            reader.select(&ROLES).unwrap();
            let mut row = Row::default();
            assert!(reader.read(&mut row).unwrap());
            let error = reader.read(&mut row).unwrap_err();
            assert!(error.is_of_one_row() && error.to_string().contains(message), "{error}");
            assert!(reader.read(&mut row).unwrap());
            assert_eq!((row.label.as_deref(), row.place.to_string().as_str()), (Some("y"), "line 4".replace('4', if message.contains('4') { "4" } else { "3" }).as_str()));
            assert!(!reader.read(&mut row).unwrap());
        }
    }

    #[test]
    fn arrays_of_json_have_no_names() {
        let mut reader =
            RowReader::text("t".into(), &b"{\"x\": [1, null], \"y\": 3}\n"[..], &ReadOptions::default())
                .unwrap();
        reader.select(&ROLES).unwrap();
        assert!(reader.columns().is_empty());
        assert_eq!(reader.shape(), [1, 1, 2]);
        let mut row = Row::default();
        assert!(reader.read(&mut row).unwrap());
        assert_eq!(
            (row.cells.as_slice(), row.label.as_deref()),
            (&[Cell::Number(1.0), Cell::Missing][..], Some("3"))
        );
    }

    #[test]
    fn what_a_file_is_its_content_tells() {
        let folder = tempfile::tempdir().unwrap();
        let npy = |descr: &str, shape: &str, body: &[u8]| {
            let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
            [b"\x93NUMPY\x01\0", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), body].concat()
        };
        let put = |name: &str, bytes: &[u8]| {
            fs::write(folder.path().join(name), bytes).unwrap();
            folder.path().join(name)
        };
        let x = put("x", &npy("|u1", "(2, 3)", &[1, 2, 3, 4, 5, 6]));
        let labels = Some(put("y", &npy("|S1", "(2,)", b"ab")));
        let mut reader = RowReader::open(&x, &ReadOptions { labels, ..ReadOptions::default() }).unwrap();
        assert!(reader.is_numeric() && reader.rows() == Some(2));
        let mut row = Row::default();
        assert!(reader.read(&mut row).unwrap() && reader.read(&mut row).unwrap());
        assert_eq!((row.numbers.as_slice(), row.label.as_deref()), (&[4.0, 5.0, 6.0][..], Some("b")));
        assert!(!reader.read(&mut row).unwrap());
        let labels = Some(put("z", &npy("|S1", "(1,)", b"a")));
        let error = RowReader::open(&x, &ReadOptions { labels, ..ReadOptions::default() }).unwrap_err();
        assert!(error.to_string().ends_with("labels or tasks: found 1 values, expected 2"), "{error}");
        let missing = RowReader::open(&folder.path().join("none"), &ReadOptions::default()).unwrap_err();
        assert!(missing.to_string().contains("cannot be read"), "{missing}");
    }
}
