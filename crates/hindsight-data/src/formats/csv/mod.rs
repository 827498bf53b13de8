//! CSV: one line per sample with its label, its features and perhaps its task; plain or gzip.
//!
//! The delimiter and whether there is a header are taken from the first line unless [`Columns`] sets them.

mod error;
mod records;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Read},
};

use super::{
    idx::unpack,
    table::{Categorical, SampleTable},
};
use crate::{
    cells::{Cell, Hazards, MAX_CATEGORIES, Missing, push_one_hot},
    samples::Values,
};
pub use error::CsvError;
use records::{CsvLimits, CsvRecords};

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
