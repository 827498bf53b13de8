//! JSON lines: an object per line, either flat, `{"a": 1, "b": 2, "label": "x"}`, or with the features apart,
//! `{"x": [1, 2], "y": "x", "task": "t"}`, where `x` may be an object too.

use std::{
    fmt,
    io::{BufRead, Read},
};

use serde_json::{Map, Value};

use super::{Place, Row, unsigned_zero};
use crate::{cells::Cell, error::RowError};

/// Bytes of the longest line.
const MAX_LINE: u64 = 1 << 24;

/// The names of features, label and task where they are apart.
const APART: [&str; 3] = ["x", "y", "task"];

pub(super) struct JsonRows {
    source: Box<dyn BufRead>,
    line: u64,
    text: Vec<u8>,
    /// The first object, until it is read as a row.
    first: Option<Map<String, Value>>,
    /// Whether the features of all rows are apart from the label.
    apart: bool,
    /// Whether features have names.
    named: bool,
    names: Vec<String>,
    label: Option<String>,
    task: Option<String>,
}

impl JsonRows {
    pub(super) fn open(source: Box<dyn BufRead>) -> Result<JsonRows, RowError> {
        let mut rows = JsonRows {
            source,
            line: 0,
            text: Vec::new(),
            first: None,
            apart: false,
            named: true,
            names: Vec::new(),
            label: None,
            task: None,
        };
        let first = rows.next_object()?.ok_or(RowError::Empty)?;
        rows.apart = matches!(first.get(APART[0]), Some(Value::Array(_) | Value::Object(_)));
        rows.names = match first.get(APART[0]) {
            Some(Value::Array(values)) => (1..=values.len()).map(|number| number.to_string()).collect(),
            Some(Value::Object(values)) => values.keys().cloned().collect(),
            _ => first.keys().cloned().collect(),
        };
        rows.named = !matches!(first.get(APART[0]), Some(Value::Array(_)));
        if rows.apart {
            let key = |name: &str| first.contains_key(name).then(|| name.to_owned());
            (rows.label, rows.task) = (key(APART[1]), key(APART[2]));
        }
        rows.first = Some(first);
        Ok(rows)
    }

    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// Whether label and task stand apart from the features, under names of their own.
    pub(super) fn is_apart(&self) -> bool {
        self.apart
    }

    pub(super) fn is_named(&self) -> bool {
        self.named
    }

    pub(super) fn select(&mut self, names: Vec<String>, label: Option<&str>, task: Option<&str>) {
        self.names = names;
        if !self.apart {
            (self.label, self.task) = (label.map(str::to_owned), task.map(str::to_owned));
        }
    }

    pub(super) fn read(&mut self, row: &mut Row) -> Result<bool, RowError> {
        let object = match self.first.take() {
            Some(object) => object,
            None => match self.next_object()? {
                Some(object) => object,
                None => return Ok(false),
            },
        };
        row.place = Place::Line(self.line);
        let place = row.place.to_string();
        let flaw = |reason: &str| RowError::Json { place: place.clone(), reason: reason.to_owned() };
        let features = if self.apart { object.get(APART[0]) } else { None };
        match (self.apart, features) {
            (true, Some(Value::Array(values))) if !self.named => {
                row.cells.extend(values.iter().map(cell));
                if values.len() != self.names.len() {
                    let (found, expected) = (values.len(), self.names.len());
                    return Err(RowError::Width { place: row.place.to_string(), found, expected });
                }
            }
            (true, Some(Value::Object(values))) if self.named => self.cells(values, row),
            (false, _) => self.cells(&object, row),
            _ => return Err(flaw("no `x` as in the first line")),
        }
        let word_of = |key: &Option<String>| match key.as_ref().and_then(|key| object.get(key)) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Array(_) | Value::Object(_)) => Err(flaw("a list or an object as label or task")),
            Some(value) => Ok(word(value)),
        };
        (row.label, row.task) = (word_of(&self.label)?, word_of(&self.task)?);
        Ok(true)
    }

    fn cells(&self, values: &Map<String, Value>, row: &mut Row) {
        row.cells.extend(self.names.iter().map(|name| values.get(name).map_or(Cell::Missing, cell)));
    }

    /// The next line that is not blank.
    fn next_object(&mut self) -> Result<Option<Map<String, Value>>, RowError> {
        loop {
            self.text.clear();
            let read = self.source.by_ref().take(MAX_LINE).read_until(b'\n', &mut self.text)?;
            if read == 0 {
                return Ok(None);
            }
            self.line += 1;
            if read as u64 == MAX_LINE {
                return Err(RowError::Unreadable(std::io::Error::other(format!(
                    "line {} has more than {MAX_LINE} bytes",
                    self.line
                ))));
            }
            let text = self.text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&self.text);
            if !text.trim_ascii().is_empty() {
                let place = format!("line {}", self.line);
                return serde_json::from_slice(text)
                    .map(Some)
                    .map_err(|error| RowError::Json { place, reason: error.to_string() });
            }
        }
    }
}

/// A label or a task: text as it is, a number as it is written in CSV.
pub fn word(value: &Value) -> Option<String> {
    let word = match value {
        Value::String(text) => unsigned_zero(text.trim()),
        other => unsigned_zero(&cell(other).to_string()),
    };
    Some(word).filter(|word| !word.is_empty())
}

/// A value as a cell. Text is read as in CSV; a list or an object is no number.
pub fn cell(value: &Value) -> Cell {
    match value {
        Value::Null => Cell::Missing,
        Value::Bool(truth) => Cell::Bool(*truth),
        Value::Number(number) => Cell::Number(number.as_f64().unwrap_or(f64::INFINITY)),
        Value::String(text) => Cell::parse(text.trim()),
        Value::Array(_) | Value::Object(_) => Cell::Text(value.to_string()),
    }
}

impl fmt::Debug for JsonRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonRows")
            .field("line", &self.line)
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}
