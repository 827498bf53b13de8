//! The rows of a file as a model takes them: columns by name, values as numbers, with label and task.

use std::{collections::VecDeque, path::Path};

use hindsight::{
    Agent,
    data::{
        DataError, RowError,
        rows::{Place, ReadOptions, Row, RowHasher, RowReader, Selection},
        schema::{Column, Hazards, Schema},
    },
};

use crate::messages::inform;

/// What is asked of a row beside its features.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Labels {
    /// Every row has a label, and columns that the model does not know are refused.
    Needed,
    /// Every row has a label; other columns do no harm.
    Wanted,
    /// Only features.
    Unused,
}

/// What was read; values are appended elsewhere.
pub(crate) enum Sample {
    /// A row with its label and task, as far as it has them.
    Good { place: Place, label: Option<String>, task: Option<String> },
    /// A row that is left out, and why.
    LeftOut { place: Place, reason: String },
}

/// Reads a file row by row.
pub(crate) struct SampleReader {
    reader: RowReader,
    schema: Schema,
    width: usize,
    labels: Labels,
    skip_bad: bool,
    /// Rows that were read already.
    buffered: VecDeque<Result<Row, DataError>>,
    row: Row,
    hasher: RowHasher,
    /// Rows that were read, those left out among them.
    pub(crate) rows: u64,
    pub(crate) left_out: u64,
    pub(crate) hazards: Hazards,
}

impl SampleReader {
    /// Opens a file for a model.
    pub(crate) fn open(
        path: &Path,
        agent: &Agent,
        schema: Schema,
        labels: Labels,
        options: &ReadOptions,
        skip_bad: bool,
    ) -> anyhow::Result<SampleReader> {
        let mut options = options.clone();
        let [channels, height, width] = agent.shape().input;
        if channels == 3 && height == width {
            options.image_size = Some(height);
        }
        let mut reader = RowReader::open(path, &options)?;
        let names = schema.names();
        let named = !names.is_empty() && !reader.columns().is_empty();
        let selection = Selection {
            label: Some(&schema.label),
            task: schema.task.as_deref(),
            needed: labels != Labels::Unused,
            ignore: &schema.ignore,
            columns: named.then_some(&names),
        };
        let left = reader.select(&selection)?;
        if labels == Labels::Needed && !left.is_empty() {
            let flaw = RowError::Unexpected { found: left, expected: names };
            return Err(DataError::Row { path: reader.path().to_owned(), flaw }.into());
        }
        if !left.is_empty() && labels != Labels::Needed {
            inform(format_args!("note: columns that the model does not use: {}", left.join(", ")));
        }
        Ok(SampleReader::new(reader, schema, agent.width(), labels, skip_bad, VecDeque::new()))
    }

    /// Of a reader whose columns are chosen, and rows of it that were read already.
    pub(crate) fn new(
        reader: RowReader,
        mut schema: Schema,
        width: usize,
        labels: Labels,
        skip_bad: bool,
        buffered: VecDeque<Result<Row, DataError>>,
    ) -> SampleReader {
        if schema.columns.is_empty() {
            let column = |number: usize| Column { name: number.to_string(), mean: 0.0, categories: None };
            schema.columns = (1..=width).map(column).collect();
        }
        reader.notes().iter().for_each(|note| inform(format_args!("note: {note}")));
        SampleReader {
            reader,
            schema,
            width,
            labels,
            skip_bad,
            buffered,
            row: Row::default(),
            hasher: RowHasher::default(),
            rows: 0,
            left_out: 0,
            hazards: Hazards::default(),
        }
    }

    /// Reads the next row; a good one's values are appended to `x`.
    pub(crate) fn next(&mut self, x: &mut Vec<f32>) -> anyhow::Result<Option<Sample>> {
        let read = match self.buffered.pop_front() {
            Some(Ok(row)) => {
                self.row = row;
                Ok(true)
            }
            Some(Err(error)) => Err(error),
            None => self.reader.read(&mut self.row),
        };
        let flaw = match read {
            Ok(false) => return Ok(None),
            Ok(true) => {
                self.hasher.update(Some(&self.row));
                self.rows += 1;
                match self.encode(x) {
                    Ok(true) => {
                        let (label, task) = (self.row.label.take(), self.row.task.take());
                        return Ok(Some(Sample::Good { place: self.row.place.clone(), label, task }));
                    }
                    Ok(false) => {
                        self.left_out += 1;
                        let reason = "a value is missing".to_owned();
                        return Ok(Some(Sample::LeftOut { place: self.row.place.clone(), reason }));
                    }
                    Err(flaw) => DataError::Row { path: self.reader.path().to_owned(), flaw },
                }
            }
            Err(error) => {
                self.hasher.update(None);
                self.rows += 1;
                error
            }
        };
        if !(self.skip_bad && flaw.is_of_one_row()) {
            return Err(flaw.into());
        }
        self.left_out += 1;
        Ok(Some(Sample::LeftOut { place: self.row.place.clone(), reason: flaw.to_string() }))
    }

    fn encode(&mut self, x: &mut Vec<f32>) -> Result<bool, RowError> {
        let Row { place, cells, numbers, label, .. } = &self.row;
        let place = || place.to_string();
        if self.labels != Labels::Unused && label.is_none() {
            return Err(RowError::NoLabel { place: place() });
        }
        if self.reader.is_numeric() {
            if numbers.len() != self.width {
                return Err(RowError::Width { place: place(), found: numbers.len(), expected: self.width });
            }
            x.extend_from_slice(numbers);
            return Ok(true);
        }
        self.schema.encode(cells, place, &mut self.hazards, x)
    }

    /// The values of the rows that were read already, those of them that can be used.
    pub(crate) fn buffered_values(&self) -> Vec<f32> {
        let (mut all, mut hazards) = (Vec::new(), Hazards::default());
        for row in self.buffered.iter().flatten() {
            if self.reader.is_numeric() {
                all.extend_from_slice(&row.numbers);
            } else {
                // What cannot be used is told when it is its turn.
                let _ = self.schema.encode(&row.cells, String::new, &mut hazards, &mut all);
            }
        }
        all
    }

    /// The checksum of all rows so far.
    pub(crate) fn checksum(&self) -> String {
        self.hasher.hex()
    }

    /// Number of rows, where it is known beforehand.
    pub(crate) fn total(&self) -> Option<usize> {
        self.reader.rows()
    }

    /// Tells what was met that the user should know.
    pub(crate) fn tell_hazards(&self) {
        let ignore = |column: &str| format!("`--ignore {column}` when the model is made");
        self.hazards.notes(ignore).iter().for_each(|note| inform(format_args!("note: {note}")));
        let bad = self.left_out - self.hazards.dropped;
        if bad > 0 {
            inform(format_args!("note: {bad} rows that cannot be used were left out"));
        }
    }
}

/// What the columns of a table are for this model.
pub(crate) fn schema_of(agent: &Agent) -> Schema {
    let application = agent.application();
    let of_names = || {
        let names = application.features.iter().flatten();
        let columns = names.map(|name| Column { name: name.clone(), mean: 0.0, categories: None }).collect();
        Schema { label: DEFAULT_LABEL.to_owned(), columns, ..Schema::default() }
    };
    application.schema.clone().unwrap_or_else(of_names)
}

/// The column of labels if no other is named.
pub(crate) const DEFAULT_LABEL: &str = "label";
