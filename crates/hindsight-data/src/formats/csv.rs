//! CSV: one line per sample with its label, its features and perhaps its task; plain or gzip.
//!
//! The delimiter and whether there is a header are taken from the first line unless [`Columns`] sets them.

use std::{
    cell::Cell as Shared,
    collections::{BTreeMap, BTreeSet},
    io::{self, Read},
    rc::Rc,
};

use csv::{ByteRecord, ReaderBuilder, Terminator};

use super::{
    idx::unpack,
    table::{Categorical, SampleTable},
};
use crate::{
    cells::{Cell, Hazards, MAX_CATEGORIES, Missing, push_one_hot},
    samples::Values,
};

/// The role of each column, and the dialect of the file.
#[derive(Debug, Clone, Copy, Default)]
pub struct Columns<'a> {
    /// The column of labels.
    pub label: &'a str,
    /// The column of tasks.
    pub task: Option<&'a str>,
    /// Columns of which the one that is not zero names the task, in place of a column of tasks.
    pub task_columns: &'a [String],
    /// The columns of features in this order; by default all others.
    pub features: Option<&'a [String]>,
    /// Columns that are skipped.
    pub ignore: &'a [String],
    /// The delimiter; by default whichever of `,`, `;` and tab is most frequent in the first line.
    pub delimiter: Option<u8>,
    /// Whether the first line is a header; by default unless it is all numbers. Without a header the columns
    /// are named `1`, `2` and so on.
    pub header: Option<bool>,
    /// What becomes of a line with a missing value. The mean is not known yet: the value is NaN.
    pub missing: Missing,
    /// The categories of columns of text, each of which becomes a feature; all others hold numbers.
    pub categories: Option<&'a Categories>,
}

/// The categories of columns of text by the name of the column.
pub type Categories = BTreeMap<String, Vec<String>>;

/// What is wrong with a CSV file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
// The message of a variant says what its fields are.
#[allow(missing_docs)]
pub enum CsvError {
    /// Reading or decompressing failed.
    #[error("cannot be read: {0}")]
    Read(#[from] io::Error),
    /// A compressed file that expands too much.
    #[error(
        "found more than {most} bytes after decompressing, expected at most {MAX_RATIO} for each of the {packed}"
    )]
    Expands { packed: u64, most: u64 },
    /// Bytes that are not UTF-8.
    #[error("line {line}: found bytes that are not text in UTF-8")]
    Text { line: u64 },
    /// A record without an end, most likely of a file that is not text.
    #[error("line {line}: found more than {MAX_RECORD} bytes, expected a line of values")]
    Long { line: u64 },
    /// A quote that is not closed.
    #[error("line {line}: found a quote that is not closed, expected quotes around whole values")]
    Quote { line: u64 },
    /// Not even a header.
    #[error("the file is empty, expected a header and a line per sample")]
    Empty,
    /// A header and nothing below it.
    #[error("found a header and no samples, expected a line per sample")]
    NoSamples,
    /// Two columns with one name.
    #[error("line {line}: found the column `{column}` twice, expected each name once")]
    Twice { line: u64, column: String },
    /// A column without a name, such as the index that pandas writes.
    #[error("line {line}: column {number} has no name, expected one for each")]
    Unnamed { line: u64, number: usize },
    /// A column that was asked for does not exist.
    #[error("line {line}: no column `{column}`, found {}", super::few(found))]
    NoColumn { line: u64, column: String, found: Vec<String>, header: bool },
    /// No column is left for features.
    #[error("line {line}: found no column of features, expected at least one beside {}", super::few(found))]
    NoFeatures { line: u64, found: Vec<String> },
    /// A line with another number of values than the first.
    #[error("line {line}: found {found} values, expected {expected} as in the first line")]
    Length { line: u64, found: usize, expected: usize },
    /// An empty value.
    #[error("line {line}: no value in column `{column}`, expected one in every line")]
    Missing { line: u64, column: String, feature: bool },
    /// A feature that is not a number.
    #[error("line {line}: `{found}` in column `{column}`, expected a number")]
    Number { line: u64, column: String, found: String },
    /// A feature that is NaN, infinite, or does not fit 32 bits.
    #[error("line {line}: `{found}` in column `{column}`, expected a finite number below 3.4e38")]
    NotFinite { line: u64, column: String, found: String },
    /// None or several of the columns that name tasks are not zero.
    #[error(
        "line {line}: {found} of the columns {} are not zero, expected one: the task",
        super::few(columns)
    )]
    OneHot { line: u64, found: usize, columns: Vec<String> },
    /// A column of text that is not one of categories.
    #[error("column `{column}` has more than {most} different texts, expected categories")]
    Categories { column: String, most: usize },
}

impl CsvError {
    pub(crate) fn hint(&self) -> String {
        match self {
            CsvError::Read(_) => "is it a file, and may it be read?",
            CsvError::Expands { .. } => "decompress the file first",
            CsvError::Long { .. } => "is it a text file, and is every quote closed?",
            CsvError::Text { .. } => "save the file as text in UTF-8",
            CsvError::Quote { .. } => "double the quotes inside a quoted value",
            CsvError::Empty | CsvError::NoSamples => "the first line names the columns, each further line is a sample",
            CsvError::Unnamed { .. } => "name it, or leave it out with `ignore = [\"\"]`",
            CsvError::Twice { .. } => {
                "give each column a name of its own; if the first line is a sample, set `header = false` in the stream file"
            }
            CsvError::NoColumn { header: false, .. } => {
                "without a header, columns are named `1`, `2` and so on; if the first line is a header although it \
                 is all numbers, set `header = true` in the stream file"
            }
            CsvError::NoColumn { .. } | CsvError::NoFeatures { .. } => {
                "`label`, `task`, `features` and `ignore` in the stream file name columns; `delimiter` separates \
                 them; `header = false` names them `1`, `2` and so on"
            }
            CsvError::OneHot { .. } => "`task` in the stream file lists the columns; or name one column of tasks",
            CsvError::Length { .. } => "is a value missing, or a text with the delimiter not in quotes?",
            CsvError::Missing { feature: false, .. } => "fill it in, or leave the line out",
            CsvError::Missing { .. } => {
                "set `missing = \"mean\"` or `missing = \"drop\"` in the stream file, or list the column in `ignore` \
                 if it is not a feature"
            }
            CsvError::NotFinite { found, .. } if Cell::parse(found) == Cell::Missing => {
                "set `missing = \"mean\"` or `missing = \"drop\"` in the stream file"
            }
            CsvError::NotFinite { .. } => {
                "leave the line out, use another unit, or list the column in `ignore` if it is not a feature"
            }
            CsvError::Number { found, .. } if found.contains(',') => "write decimal points instead of commas",
            CsvError::Number { found, .. } if Cell::parse(found) == Cell::Missing => {
                "set `missing = \"mean\"` or `missing = \"drop\"` in the stream file"
            }
            CsvError::Number { .. } => {
                "set `text = \"one-hot\"` in the stream file for columns of text; list columns that are not features \
                 in `ignore`"
            }
            CsvError::Categories { .. } => "list the column in `ignore` in the stream file",
        }
        .to_owned()
    }
}

/// A file that is read line by line.
pub struct CsvRows<'s> {
    records: CsvRecords<Box<dyn Read + 's>>,
    names: Vec<String>,
    /// The line that the names are of.
    first: u64,
    is_header: bool,
    /// Whether the record that was read last is the first sample.
    pending: bool,
    notes: Vec<String>,
}

impl<'s> CsvRows<'s> {
    /// Reads the first line of a file of `len` bytes; of one that is not known to end, `len` is none.
    pub fn open(
        source: impl Read + 's,
        len: Option<u64>,
        delimiter: Option<u8>,
        header: Option<bool>,
    ) -> Result<CsvRows<'s>, CsvError> {
        let (mut source, packed) = unpack(source)?;
        let head = first_line(&mut source)?;
        let separator = delimiter.unwrap_or_else(|| detect_delimiter(&head));
        let limits = CsvLimits::new(len.filter(|_| packed));
        let source: Box<dyn Read + 's> = Box::new(io::Cursor::new(head).chain(source));
        let mut records = CsvRecords::new(source, separator, limits);

        let Some(first) = records.next()? else { return Err(CsvError::Empty) };
        let fields =
            (0..records.record.len()).map(|i| records.field(i, first)).collect::<Result<Vec<_>, _>>()?;
        let is_header = header.unwrap_or_else(|| detect_header(&fields));
        let names: Vec<String> = match is_header {
            true => fields.into_iter().map(str::to_owned).collect(),
            false => (1..=fields.len()).map(|number| number.to_string()).collect(),
        };
        let mut notes = Vec::new();
        if delimiter.is_none() && separator != b',' {
            notes.push(format!("values are separated by `{}`", (separator as char).escape_default()));
        }
        if header.is_none() && !is_header {
            notes.push(format!("no header: columns are named `1` to `{}`", names.len()));
        }
        Ok(CsvRows { records, names, first, is_header, pending: !is_header, notes })
    }

    /// The names of all columns.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// What was assumed about the file and the user should know.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Reads the next line with values and returns its number. After [`CsvError::Length`] the next one can be
    /// read.
    pub fn next_row(&mut self) -> Result<Option<u64>, CsvError> {
        let line = match std::mem::take(&mut self.pending) {
            true => self.first,
            false => match self.records.next()? {
                Some(line) => line,
                None => return Ok(None),
            },
        };
        let (found, expected) = (self.records.record.len(), self.names.len());
        if found != expected {
            return Err(CsvError::Length { line, found, expected });
        }
        Ok(Some(line))
    }

    /// A value of the line that was read last, which has the number `line`.
    pub fn field(&self, i: usize, line: u64) -> Result<&str, CsvError> {
        self.records.field(i, line)
    }
}

impl std::fmt::Debug for CsvRows<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CsvRows").field("names", &self.names).finish_non_exhaustive()
    }
}

/// The beginning of a file as far as its first line that is not empty, or a little farther. Does not wait for
/// more.
fn first_line(source: &mut impl Read) -> io::Result<Vec<u8>> {
    let (mut head, mut block) = (Vec::new(), [0; 1 << 12]);
    loop {
        let read = source.read(&mut block)?;
        head.extend_from_slice(&block[..read]);
        let line = head.iter().skip_while(|byte| b"\r\n".contains(byte)).any(|byte| *byte == b'\n');
        if read == 0 || line || head.len() >= 1 << 16 {
            return Ok(head);
        }
    }
}

/// Reads a file of `len` bytes.
pub fn read(source: impl Read, len: u64, columns: &Columns<'_>) -> Result<SampleTable, CsvError> {
    let mut rows = CsvRows::open(source, Some(len), columns.delimiter, columns.header)?;
    let names = rows.names.clone();
    let Roles { label, task, task_columns, features } =
        Roles::new(columns, &names, rows.is_header, rows.first)?;

    let (mut values, mut lines) = (Vec::new(), Vec::new());
    let (mut labels, mut tasks) = (Categorical::default(), Categorical::default());
    let texts: Vec<Option<&[String]>> = features
        .iter()
        .map(|&i| columns.categories.and_then(|all| all.get(&names[i])).map(Vec::as_slice))
        .collect();
    let mut hazards = Hazards::default();
    'rows: while let Some(line) = rows.next_row()? {
        let start = values.len();
        for (&i, texts) in features.iter().zip(&texts) {
            let found = rows.field(i, line)?;
            let kept = match texts {
                None => push_number(found, columns.missing, &names[i], line, &mut hazards, &mut values)?,
                Some(texts) => {
                    let cell = Cell::parse(found);
                    let kept = keeps(&cell, columns.missing, &mut hazards);
                    if kept.is_none() {
                        return Err(CsvError::Missing { line, column: names[i].clone(), feature: true });
                    }
                    push_one_hot(&cell, texts, &names[i], &mut hazards, &mut values);
                    kept == Some(true)
                }
            };
            if !kept {
                values.truncate(start);
                continue 'rows;
            }
        }
        let value = |i: usize| match rows.field(i, line)? {
            "" => Err(CsvError::Missing { line, column: names[i].clone(), feature: false }),
            value => Ok(value),
        };
        labels.push(value(label)?);
        if let Some(task) = task {
            tasks.push(value(task)?);
        } else if !task_columns.is_empty() {
            let mut named = Vec::new();
            for &i in &task_columns {
                if value(i)?.parse() != Ok(0.0) {
                    named.push(i);
                }
            }
            let [one] = named[..] else {
                let columns = task_columns.iter().map(|&i| names[i].clone()).collect();
                return Err(CsvError::OneHot { line, found: named.len(), columns });
            };
            tasks.push(&names[one]);
        }
        lines.push(line);
    }
    if lines.is_empty() {
        return Err(CsvError::NoSamples);
    }
    rows.notes.extend(hazards.notes(|column| format!("list `{column}` in `ignore`")));
    Ok(SampleTable {
        shape: [1, 1, values.len() / lines.len()],
        features: features.into_iter().map(|i| names[i].clone()).collect(),
        values: Values::Floats(values),
        labels,
        tasks: (task.is_some() || !task_columns.is_empty()).then_some(tasks),
        lines,
        notes: rows.notes,
    })
}

/// Whether a line with this value is kept; none if it is refused.
fn keeps(cell: &Cell, missing: Missing, hazards: &mut Hazards) -> Option<bool> {
    if *cell != Cell::Missing {
        return Some(true);
    }
    hazards.missing += 1;
    match missing {
        Missing::Refuse => None,
        Missing::Mean => Some(true),
        Missing::Drop => {
            hazards.dropped += 1;
            Some(false)
        }
    }
}

/// Appends the number that `found` is, NaN for a missing one. False if the line is to be left out.
fn push_number(
    found: &str,
    missing: Missing,
    column: &str,
    line: u64,
    hazards: &mut Hazards,
    values: &mut Vec<f32>,
) -> Result<bool, CsvError> {
    let parsed = found.parse::<f32>();
    if let Ok(number) = parsed
        && number.is_finite()
    {
        // From 2^24 on there are integers between neighbouring floats. What has a point or an exponent is a
        // measure.
        if number.abs() >= 16_777_216.0
            && found.bytes().all(|byte| byte.is_ascii_digit() || b"+-".contains(&byte))
            && let Ok(exact) = found.parse::<f64>()
            && exact != f64::from(number)
        {
            hazards.note_inexact(exact, column);
        }
        values.push(number);
        return Ok(true);
    }
    let (owned, cell) = (|| (column.to_owned(), found.to_owned()), Cell::parse(found));
    match (keeps(&cell, missing, hazards), cell) {
        (_, Cell::Bool(truth)) => values.push(f32::from(u8::from(truth))),
        (Some(false), Cell::Missing) => return Ok(false),
        (Some(true), Cell::Missing) => values.push(f32::NAN),
        (None, _) if found.is_empty() => {
            return Err(CsvError::Missing { line, column: column.to_owned(), feature: true });
        }
        _ if parsed.is_ok() => {
            let (column, found) = owned();
            return Err(CsvError::NotFinite { line, column, found });
        }
        _ => {
            let (column, found) = owned();
            return Err(CsvError::Number { line, column, found });
        }
    }
    Ok(true)
}

/// What the columns of features hold: looks for columns of text, over several files.
#[derive(Debug, Default)]
pub struct TextColumnFinder {
    /// Whether there is a text, and the different values as long as they may be categories.
    columns: BTreeMap<String, (bool, BTreeSet<String>)>,
}

impl TextColumnFinder {
    /// Looks at a file of `len` bytes.
    pub fn scan(&mut self, source: impl Read, len: u64, columns: &Columns<'_>) -> Result<(), CsvError> {
        let mut rows = CsvRows::open(source, Some(len), columns.delimiter, columns.header)?;
        let names = rows.names.clone();
        let roles = Roles::new(columns, &names, rows.is_header, rows.first)?;
        while let Some(line) = rows.next_row()? {
            for &i in &roles.features {
                let found = rows.field(i, line)?;
                if !self.columns.contains_key(&names[i]) {
                    self.columns.insert(names[i].clone(), Default::default());
                }
                let (has_text, texts) = self.columns.get_mut(&names[i]).expect("it is there now");
                if texts.len() > MAX_CATEGORIES && found.parse::<f32>().is_ok() {
                    continue;
                }
                let cell = Cell::parse(found);
                *has_text |= matches!(cell, Cell::Text(_));
                if cell != Cell::Missing {
                    texts.insert(cell.to_string());
                }
                if *has_text && texts.len() > MAX_CATEGORIES {
                    let (column, most) = (names[i].clone(), MAX_CATEGORIES);
                    return Err(CsvError::Categories { column, most });
                }
            }
        }
        Ok(())
    }

    /// The columns of text that were found.
    pub fn categories(self) -> Categories {
        let text = self.columns.into_iter().filter(|(_, (has_text, _))| *has_text);
        text.map(|(name, (_, texts))| (name, texts.into_iter().collect())).collect()
    }
}

/// The most frequent delimiter of the first line that is not empty, quoted values left out.
fn detect_delimiter(head: &[u8]) -> u8 {
    let (mut counts, mut quoted) = ([(0, b','), (0, b'\t'), (0, b';')], false);
    for &byte in head.iter().skip_while(|byte| b"\r\n".contains(byte)) {
        match byte {
            b'"' => quoted ^= true,
            b'\n' if !quoted => break,
            _ if quoted => {}
            _ => counts.iter_mut().filter(|(_, of)| *of == byte).for_each(|(count, _)| *count += 1),
        }
    }
    counts.into_iter().filter(|(count, _)| *count > 0).max().map_or(b',', |(_, delimiter)| delimiter)
}

/// A line of numbers is a sample, except `0,1,2,...`, the header that pandas writes for unnamed columns.
fn detect_header(fields: &[&str]) -> bool {
    let numbers = fields.iter().all(|field| field.parse::<f64>().is_ok());
    !numbers || fields.iter().enumerate().all(|(i, field)| *field == i.to_string())
}

/// Indices of the columns of labels, tasks and features.
struct Roles {
    label: usize,
    task: Option<usize>,
    task_columns: Vec<usize>,
    features: Vec<usize>,
}

impl Roles {
    fn new(columns: &Columns<'_>, names: &[String], header: bool, line: u64) -> Result<Roles, CsvError> {
        let mut index = BTreeMap::new();
        for (i, column) in names.iter().enumerate() {
            if index.insert(column.as_str(), i).is_some() {
                return Err(CsvError::Twice { line, column: column.clone() });
            }
        }
        let find = |column: &str| {
            let (column, found) = (column.to_owned(), || names.to_vec());
            let i = index.get(&*column).copied();
            i.ok_or_else(|| CsvError::NoColumn { line, column, found: found(), header })
        };
        let all =
            |columns: &[String]| columns.iter().map(|column| find(column)).collect::<Result<Vec<_>, _>>();
        let (label, task) = (find(columns.label)?, columns.task.map(find).transpose()?);
        let (ignore, task_columns) = (all(columns.ignore)?, all(columns.task_columns)?);
        if let Some(i) = (0..names.len()).find(|i| names[*i].is_empty() && !ignore.contains(i)) {
            return Err(CsvError::Unnamed { line, number: i + 1 });
        }
        let is_feature =
            |i: &usize| *i != label && Some(*i) != task && !ignore.contains(i) && !task_columns.contains(i);
        let others = || Ok((0..names.len()).filter(is_feature).collect());
        let features: Vec<usize> = columns.features.map_or_else(others, all)?;
        match features.is_empty() {
            true => Err(CsvError::NoFeatures { line, found: names.to_vec() }),
            false => Ok(Roles { label, task, task_columns, features }),
        }
    }
}

/// Bytes of the longest record.
const MAX_RECORD: u64 = 1 << 24;

/// A compressed file may expand to 256 MB, or to this many times its size if that is more.
const MAX_RATIO: u64 = 200;

/// How much may be read. `csv` itself reads a record of any length.
struct CsvLimits {
    /// Size of a compressed file, and how much it may expand to.
    packed: Option<(u64, u64)>,
    total: Shared<u64>,
    record: Shared<u64>,
    /// Whether the end of the file was reached.
    ended: Shared<bool>,
}

impl CsvLimits {
    fn new(packed: Option<u64>) -> CsvLimits {
        let packed = packed.map(|len| (len, len.saturating_mul(MAX_RATIO).max(1 << 28)));
        let total = Shared::new(packed.map_or(u64::MAX, |(_, most)| most));
        CsvLimits { packed, total, record: Shared::new(MAX_RECORD), ended: Shared::new(false) }
    }
}

struct Limited<R> {
    source: R,
    limits: Rc<CsvLimits>,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let CsvLimits { total, record, ended, .. } = &*self.limits;
        let most = total.get().min(record.get()).min(buffer.len() as u64) as usize;
        if most == 0 {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let read = self.source.read(&mut buffer[..most])?;
        ended.set(read == 0);
        total.set(total.get() - read as u64);
        record.set(record.get() - read as u64);
        Ok(read)
    }
}

/// The records of a file and the lines at which they begin.
struct CsvRecords<R> {
    reader: csv::Reader<Limited<io::Chain<R, &'static [u8]>>>,
    limits: Rc<CsvLimits>,
    record: ByteRecord,
}

impl<R: Read> CsvRecords<R> {
    fn new(source: R, delimiter: u8, limits: CsvLimits) -> Self {
        let limits = Rc::new(limits);
        // The last line also ends, so the end of the file is reached within a record only if a quote is open.
        let source = Limited { source: source.chain(&b"\n"[..]), limits: limits.clone() };
        // Lines end at `\n` alone, so lines can be counted; a `\r` before it is trimmed with other
        // whitespace.
        let reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(delimiter)
            .terminator(Terminator::Any(b'\n'))
            .buffer_capacity(1 << 16)
            .from_reader(source);
        CsvRecords { reader, limits, record: ByteRecord::new() }
    }

    /// Reads the next record that is not blank and returns its line.
    fn next(&mut self) -> Result<Option<u64>, CsvError> {
        loop {
            self.limits.record.set(MAX_RECORD);
            let start = self.reader.position().line();
            if !self.reader.read_byte_record(&mut self.record).map_err(|error| self.flaw(error, start))? {
                return Ok(None);
            }
            let inside = self.record.as_slice().iter().filter(|byte| **byte == b'\n').count() as u64;
            let end = self.reader.position().line();
            if self.limits.ended.get() {
                return Err(CsvError::Quote { line: end - inside });
            }
            // `Position` of the record itself is before the empty lines that `csv` skips.
            if self.record.len() > 1 || !self.record.as_slice().trim_ascii().is_empty() {
                return Ok(Some(end - 1 - inside));
            }
        }
    }

    fn flaw(&self, error: csv::Error, line: u64) -> CsvError {
        match &*self.limits {
            CsvLimits { packed: Some((packed, most)), total, .. } if total.get() == 0 => {
                CsvError::Expands { packed: *packed, most: *most }
            }
            CsvLimits { record, .. } if record.get() == 0 => CsvError::Long { line },
            _ => match error.into_kind() {
                csv::ErrorKind::Io(error) => CsvError::Read(error),
                other => CsvError::Read(io::Error::other(format!("{other:?}"))),
            },
        }
    }

    /// A value without the whitespace around it.
    fn field(&self, i: usize, line: u64) -> Result<&str, CsvError> {
        str::from_utf8(&self.record[i]).map(str::trim).map_err(|_| CsvError::Text { line })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    const COLUMNS: Columns<'_> = Columns {
        label: "kind",
        task: None,
        task_columns: &[],
        features: None,
        ignore: &[],
        delimiter: None,
        header: None,
        missing: Missing::Refuse,
        categories: None,
    };

    fn table(text: &str, columns: &Columns<'_>) -> Result<SampleTable, CsvError> {
        read(text.as_bytes(), text.len() as u64, columns)
    }

    fn error(text: &str) -> String {
        table(text, &COLUMNS).unwrap_err().to_string()
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn all_other_columns_are_features() {
        let text = "a,kind,b\n1,x,-2.5\n 3 ,\"y, z\",4e-1\n\n5,x,6";
        let plain = table(text, &COLUMNS).unwrap();
        assert_eq!(plain.shape, [1, 1, 2]);
        assert_eq!(plain.features, ["a", "b"]);
        assert_eq!(plain.values, Values::Floats(vec![1.0, -2.5, 3.0, 0.4, 5.0, 6.0]));
        assert_eq!(plain.labels, ["x", "y, z", "x"].into_iter().collect());
        assert_eq!((&plain.tasks, &plain.lines[..], plain.notes.len()), (&None, &[2, 3, 5][..], 0));
        let packed = gzip(text.as_bytes());
        assert_eq!(read(&packed[..], packed.len() as u64, &COLUMNS).unwrap(), plain);
    }

    #[test]
    fn missing_values_are_refused_left_open_or_end_the_line() {
        let text = "a,b,kind\n1,true,x\n,false,y\n3,NA,x\nnan,0,y\n";
        assert_eq!(error(text), "line 3: no value in column `a`, expected one in every line");
        let mean = table(text, &Columns { missing: Missing::Mean, ..COLUMNS }).unwrap();
        let Values::Floats(values) = mean.values else { panic!("bytes") };
        let values: Vec<_> = values.into_iter().map(|value| (!value.is_nan()).then_some(value)).collect();
        let found = [Some(1.0), Some(1.0), None, Some(0.0), Some(3.0), None, None, Some(0.0)];
        assert_eq!(values, found);
        assert_eq!(mean.notes, ["3 missing values were replaced by the mean of their column"]);
        let dropped = table(text, &Columns { missing: Missing::Drop, ..COLUMNS }).unwrap();
        assert_eq!(dropped.values, Values::Floats(vec![1.0, 1.0]));
        assert_eq!((&dropped.lines[..], dropped.labels.len()), (&[2][..], 1));
        assert_eq!(dropped.notes, ["3 rows with a missing value were left out"]);
        let none = table("a,kind\n,x\n", &Columns { missing: Missing::Drop, ..COLUMNS }).unwrap_err();
        assert!(matches!(none, CsvError::NoSamples), "{none}");
    }

    #[test]
    fn columns_of_text_become_a_feature_for_each_category() {
        let text = "a,colour,kind\n1,red,x\n2,7,y\n3,blue,x\n4,,y\n";
        assert_eq!(error(text), "line 2: `red` in column `colour`, expected a number");
        let mut finder = TextColumnFinder::default();
        finder.scan(text.as_bytes(), text.len() as u64, &COLUMNS).unwrap();
        let categories = finder.categories();
        assert_eq!(
            categories,
            [("colour".to_owned(), ["7", "blue", "red"].map(String::from).to_vec())].into()
        );
        let columns = Columns { categories: Some(&categories), missing: Missing::Mean, ..COLUMNS };
        let found = table(&format!("{text}5,green,x\n"), &columns).unwrap();
        assert_eq!(found.shape, [1, 1, 4]);
        assert_eq!(found.features, ["a", "colour"]);
        let expected: [[f32; 4]; 5] =
            [[1., 0., 0., 1.], [2., 1., 0., 0.], [3., 0., 1., 0.], [4., 0., 0., 0.], [5., 0., 0., 0.]];
        assert_eq!(found.values, Values::Floats(expected.concat()));
        assert_eq!(found.notes.len(), 2, "{:?}", found.notes);
        let refused = table(text, &Columns { missing: Missing::Refuse, ..columns }).unwrap_err();
        assert_eq!(refused.to_string(), "line 5: no value in column `colour`, expected one in every line");
        // Numbers may be as different as they like, texts may not.
        let many = |text: &str| {
            let lines: String = (0..300).map(|i| format!("{text}{i},x\n")).collect();
            let (mut finder, lines) = (TextColumnFinder::default(), format!("a,kind\n{lines}"));
            finder.scan(lines.as_bytes(), lines.len() as u64, &COLUMNS).map(|()| finder.categories())
        };
        assert_eq!(many("").unwrap(), Categories::new());
        assert!(matches!(many("id"), Err(CsvError::Categories { most: 256, .. })));
    }

    #[test]
    fn integers_that_32_bits_cannot_hold_are_told() {
        let note = |text: &str| table(&format!("a,kind\n{text},x\n"), &COLUMNS).unwrap().notes;
        assert_eq!(note("16777216").len() + note("20000000.5").len() + note("1e30").len(), 0);
        let told = note("16777217");
        assert!(
            told[0].starts_with("1 integers are too large to be exact in 32 bits, the first is 16777217 in")
        );
        assert!(told[0].ends_with("if that is an identifier, list `a` in `ignore`"), "{told:?}");
    }

    #[test]
    fn of_several_columns_the_one_that_is_not_zero_names_the_task() {
        let task_columns = ["p".to_owned(), "q".to_owned()];
        let columns = Columns { task_columns: &task_columns, ..COLUMNS };
        let found = table("p,a,q,kind\n0,5,1,x\n1.0,6,0.0,y\n", &columns).unwrap();
        assert_eq!(
            (&*found.features, &found.values),
            (&["a".to_owned()][..], &Values::Floats(vec![5.0, 6.0]))
        );
        assert_eq!(found.tasks, Some(["q", "p"].into_iter().collect()));
        let none = table("p,a,q,kind\n0,5,0,x\n", &columns).unwrap_err();
        assert_eq!(
            none.to_string(),
            "line 2: 0 of the columns `p`, `q` are not zero, expected one: the task"
        );
    }

    #[test]
    fn columns_are_chosen_by_name_and_in_the_order_asked_for() {
        let (features, ignore) = (["b".to_owned(), "a".to_owned()], ["id".to_owned()]);
        let columns = Columns { task: Some("day"), features: Some(&features), ..COLUMNS };
        let text = "\u{feff}id;a;b;kind;day\r\nfirst;1;2;x;mon\r\nsecond;3;4;y;tue\r\n";
        let found = table(text, &columns).unwrap();
        assert_eq!(found.values, Values::Floats(vec![2.0, 1.0, 4.0, 3.0]));
        assert_eq!(found.tasks, Some(["mon", "tue"].into_iter().collect()));
        assert_eq!(found.notes, ["values are separated by `;`"]);
        let columns = Columns { features: None, ignore: &ignore, delimiter: Some(b';'), ..columns };
        let found = table(text, &columns).unwrap();
        assert_eq!((found.features, found.notes.len()), (vec!["a".to_owned(), "b".to_owned()], 0));
    }

    #[test]
    fn delimiter_and_header_are_detected_and_can_be_set() {
        for (text, delimiter) in [
            ("a,b;c,d\n", b','),
            ("\n\r\na;b\n1,2,3,4", b';'),
            ("a\tb,c\td", b'\t'),
            ("\"a,b,c\";d", b';'),
            ("a", b','),
            ("", b','),
        ] {
            assert_eq!(detect_delimiter(text.as_bytes()), delimiter, "{text:?}");
        }
        assert!(
            detect_header(&["1", "2", "x"]) && detect_header(&["", "0"]) && detect_header(&["0", "1", "2"])
        );
        assert!(!detect_header(&["5.1", "3", "-1e3"]) && !detect_header(&["1", "2"]));

        let third = Columns { label: "3", ..COLUMNS };
        let found = table("1;2;0\n3;4;1\n", &third).unwrap();
        assert_eq!(found.values, Values::Floats(vec![1.0, 2.0, 3.0, 4.0]));
        assert_eq!((&found.features[..], &found.lines[..]), (&["1", "2"].map(String::from)[..], &[1, 2][..]));
        assert_eq!(found.notes, ["values are separated by `;`", "no header: columns are named `1` to `3`"]);
        let found = table("1,2,3\n3,4,1\n", &Columns { header: Some(true), ..third }).unwrap();
        assert_eq!((found.values, found.notes.len()), (Values::Floats(vec![3.0, 4.0]), 0));
        let found = table("1,2,x\n3,4,y\n", &Columns { header: Some(false), ..third }).unwrap();
        assert_eq!((found.labels.len(), found.notes.len()), (2, 0));

        let unnamed = table("1,2,0\n", &COLUMNS).unwrap_err();
        assert_eq!(unnamed.to_string(), "line 1: no column `kind`, found `1`, `2`, `3`");
        assert!(unnamed.hint().contains("`header = true`"));
        assert!(table("5.1,3.5,setosa\n", &third).unwrap_err().hint().contains("`header = false`"));
    }

    #[test]
    fn flaws_are_told_with_their_line_and_column() {
        assert_eq!(error(""), "the file is empty, expected a header and a line per sample");
        assert_eq!(error("a,kind\n"), "found a header and no samples, expected a line per sample");
        assert_eq!(error("\na,a,kind\n1,2,x"), "line 2: found the column `a` twice, expected each name once");
        assert_eq!(error(",a,kind\n0,1,x"), "line 1: column 1 has no name, expected one for each");
        assert_eq!(error("a,b\n1,2"), "line 1: no column `kind`, found `a`, `b`");
        assert_eq!(
            error("kind\nx"),
            "line 1: found no column of features, expected at least one beside `kind`"
        );
        assert_eq!(error("a,kind\n1,x\n1,x,2"), "line 3: found 3 values, expected 2 as in the first line");
        assert_eq!(error("a,kind\n1,x\n\r\n1"), "line 4: found 1 values, expected 2 as in the first line");
        assert_eq!(error("a,kind\n,x"), "line 2: no value in column `a`, expected one in every line");
        assert_eq!(error("a,kind\n1,"), "line 2: no value in column `kind`, expected one in every line");
        assert_eq!(error("a,kind\n1,x\nNA,y"), "line 3: `NA` in column `a`, expected a number");
        let comma = table("a;kind\n1,5;x", &COLUMNS).unwrap_err();
        assert_eq!(comma.to_string(), "line 2: `1,5` in column `a`, expected a number");
        assert_eq!(comma.hint(), "write decimal points instead of commas");
        for found in ["nan", "inf", "-inf", "1e39"] {
            let expected = format!("line 2: `{found}` in column `a`, expected a finite number below 3.4e38");
            assert_eq!(error(&format!("a,kind\n{found},x")), expected);
        }
        let many: Vec<String> = (0..30).map(|i| format!("f{i}")).collect();
        assert!(error(&format!("{}\n", many.join(","))).ends_with("`f18`, `f19` and 10 more"));
        let unknown = ["c".to_owned()];
        for columns in [
            Columns { task: Some("c"), ..COLUMNS },
            Columns { features: Some(&unknown), ..COLUMNS },
            Columns { ignore: &unknown, ..COLUMNS },
        ] {
            let error = table("a,kind\n1,x", &columns).unwrap_err();
            assert_eq!(error.to_string(), "line 1: no column `c`, found `a`, `kind`");
        }
    }

    #[test]
    fn quotes_keep_delimiters_quotes_and_lines_together() {
        let text = "a,kind\r\n1,\"x,\r\ny\"\r\n\r\n \n2,\"say \"\"z\"\"\"\r\n\"3\",\" w \"";
        let found = table(text, &COLUMNS).unwrap();
        assert_eq!(found.labels, ["x,\r\ny", "say \"z\"", "w"].into_iter().collect());
        assert_eq!((found.values, found.lines), (Values::Floats(vec![1.0, 2.0, 3.0]), vec![2, 6, 7]));
        for open in ["1,\"x", "1,\"x\n", "1,\"x\n2,y\n\n", "\"1,x", "1,y\"\"\n2,\"z\n"] {
            let error = error(&format!("a,kind\n\n0,z\n{open}"));
            let line = if open.contains("\"\"") { 5 } else { 4 };
            assert!(
                error.starts_with(&format!("line {line}: found a quote that is not closed")),
                "{open}: {error}"
            );
        }
    }

    #[test]
    fn text_that_is_not_utf8_is_refused() {
        // The second would be a good letter if the two values were one.
        for bytes in [&b"a,kind\n1,\xff\xfe"[..], b"a,kind\n1\xc3,\xa4"] {
            let error = read(bytes, 0, &COLUMNS).unwrap_err();
            assert_eq!(error.to_string(), "line 2: found bytes that are not text in UTF-8");
        }
    }

    #[test]
    fn endless_lines_and_compressed_bombs_are_not_read_to_the_end() {
        let zeros = io::repeat(0).take(1 << 40);
        assert!(matches!(read(zeros, 1 << 40, &COLUMNS), Err(CsvError::Long { line: 1 })));
        let text = "a,kind\n1,x\n2,\"".as_bytes().chain(io::repeat(b'\n'));
        assert!(matches!(read(text, u64::MAX, &COLUMNS), Err(CsvError::Long { line: 3 })));
        // What a file of 100 bytes may expand to, and what is left of it when 7 bytes more may be read.
        let limits = CsvLimits::new(Some(100));
        assert_eq!(limits.packed, Some((100, 1 << 28)));
        limits.total.set(7);
        let mut records = CsvRecords::new(io::Cursor::new("1,x\n2,y\n"), b',', limits);
        assert_eq!(records.next().unwrap(), Some(1));
        assert!(matches!(records.next(), Err(CsvError::Expands { packed: 100, .. })));
        assert_eq!(CsvLimits::new(Some(1 << 30)).total.get(), MAX_RATIO << 30);
    }
}
