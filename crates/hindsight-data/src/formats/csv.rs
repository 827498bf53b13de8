//! Comma-separated values: a header, then a line per sample with its label, its features and perhaps its task.
//!
//! Values may be in quotes, in which quotes are doubled and lines may break. Empty lines are passed over.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    io::{self, BufRead, BufReader, Read},
};

use super::table::{Table, Values, Words};

/// Which columns are what.
#[derive(Debug, Clone, Copy)]
pub struct Columns<'a> {
    /// The column of labels.
    pub label: &'a str,
    /// The column that says which task a sample is of.
    pub task: Option<&'a str>,
    /// The columns of features in this order; all others if not given.
    pub features: Option<&'a [String]>,
    /// Columns that are none of these.
    pub ignore: &'a [String],
    /// What stands between two values of a line.
    pub delimiter: u8,
}

/// What is wrong with a CSV file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CsvError {
    /// Reading failed.
    #[error("cannot be read: {0}")]
    Read(#[from] io::Error),
    /// A line that is not UTF-8.
    #[error("line {line}: found bytes that are not text in UTF-8")]
    Text {
        /// The line.
        line: u64,
    },
    /// A line without an end, most likely of a file that is not text.
    #[error("line {line}: found more than {LONGEST} bytes, expected a line of values")]
    Long {
        /// The line.
        line: u64,
    },
    /// A quote that is not closed, or stands within a value that does not begin with one.
    #[error(
        "line {line}: found a quote that is not closed, or within a value that is not quoted, expected quotes around \
         whole values"
    )]
    Quote {
        /// The line.
        line: u64,
    },
    /// Not even a header.
    #[error("the file is empty, expected a header and a line per sample")]
    Empty,
    /// A header and nothing below it.
    #[error("found a header and no samples, expected a line per sample")]
    NoSamples,
    /// Two columns with one name.
    #[error("line {line}: found the column `{column}` twice, expected each name once")]
    Twice {
        /// The line of the header.
        line: u64,
        /// The name.
        column: String,
    },
    /// A column without a name, as the row numbers of data frames have.
    #[error("line {line}: column {number} has no name, expected one for each")]
    Unnamed {
        /// The line of the header.
        line: u64,
        /// Which one, from 1.
        number: usize,
    },
    /// A column that was asked for and is not there.
    #[error("line {line}: no column `{column}`, found {}", super::few(found))]
    NoColumn {
        /// The line of the header.
        line: u64,
        /// The name.
        column: String,
        /// The columns there are.
        found: Vec<String>,
    },
    /// All columns are something else.
    #[error("line {line}: found no column of features, expected at least one beside {}", super::few(found))]
    NoFeatures {
        /// The line of the header.
        line: u64,
        /// The columns there are.
        found: Vec<String>,
    },
    /// A line with another number of values than the header.
    #[error("line {line}: found {found} values, expected {expected} as in the header")]
    Length {
        /// The line.
        line: u64,
        /// Its values.
        found: usize,
        /// The header's.
        expected: usize,
    },
    /// Nothing where something should be.
    #[error("line {line}: no value in column `{column}`, expected one in every line")]
    Missing {
        /// The line.
        line: u64,
        /// The column.
        column: String,
    },
    /// A feature that is not a number.
    #[error("line {line}: `{found}` in column `{column}`, expected a number")]
    Number {
        /// The line.
        line: u64,
        /// The column.
        column: String,
        /// What stands there.
        found: String,
    },
    /// A feature that is not a number, infinite, or beyond 32 bits.
    #[error("line {line}: `{found}` in column `{column}`, expected a finite number below 3.4e38")]
    NotFinite {
        /// The line.
        line: u64,
        /// The column.
        column: String,
        /// What stands there.
        found: String,
    },
}

impl CsvError {
    pub(crate) fn hint(&self) -> String {
        match self {
            CsvError::Read(_) => "is it a file, and may it be read?",
            CsvError::Long { .. } => "is it a text file, and is every quote closed?",
            CsvError::Text { .. } => "save the file as text in UTF-8",
            CsvError::Quote { .. } => "a value with quotes stands in quotes, and they are doubled in it",
            CsvError::Empty | CsvError::NoSamples => "the first line names the columns, each further line is a sample",
            CsvError::Unnamed { .. } => "name it, or leave it out with `ignore = [\"\"]`",
            CsvError::Twice { .. } => "give each column a name of its own",
            CsvError::NoColumn { .. } | CsvError::NoFeatures { .. } => {
                "the stream file's `label`, `task`, `features` and `ignore` name columns; `delimiter` parts them"
            }
            CsvError::Length { .. } => "is a value missing, or a text with the delimiter not in quotes?",
            CsvError::Missing { .. } | CsvError::NotFinite { .. } => {
                "leave the line out, fill in a value, or name the column in `ignore` if it is no feature"
            }
            CsvError::Number { .. } => "fill in a number or leave the line out; columns that are no features are named in `ignore`",
        }
        .to_owned()
    }
}

/// Reads a file.
pub fn read(source: impl Read, columns: &Columns<'_>) -> Result<Table, CsvError> {
    let mut records =
        Records { source: BufReader::new(source), line: 0, delimiter: columns.delimiter.into() };
    let mut text = Vec::new();
    let Some((line, header)) = records.next(&mut text)? else { return Err(CsvError::Empty) };
    let header: Vec<String> = header.into_iter().map(Cow::into_owned).collect();
    let mut places = BTreeMap::new();
    for (place, column) in header.iter().enumerate() {
        if places.insert(column.as_str(), place).is_some() {
            return Err(CsvError::Twice { line, column: column.clone() });
        }
    }
    let find = |column: &str| {
        let place = places.get(column).copied();
        place.ok_or_else(|| CsvError::NoColumn { line, column: column.to_owned(), found: header.clone() })
    };
    let label = find(columns.label)?;
    let task = columns.task.map(find).transpose()?;
    let ignore = columns.ignore.iter().map(|column| find(column)).collect::<Result<Vec<_>, _>>()?;
    let unnamed = header.iter().position(String::is_empty).filter(|place| !ignore.contains(place));
    if let Some(place) = unnamed {
        return Err(CsvError::Unnamed { line, number: place + 1 });
    }
    let features = match columns.features {
        Some(features) => features.iter().map(|column| find(column)).collect::<Result<Vec<_>, _>>()?,
        None => {
            (0..header.len()).filter(|i| *i != label && Some(*i) != task && !ignore.contains(i)).collect()
        }
    };
    if features.is_empty() {
        return Err(CsvError::NoFeatures { line, found: header });
    }

    let (mut values, mut labels, mut tasks, mut lines) =
        (Vec::new(), Words::default(), Words::default(), Vec::new());
    while let Some((line, record)) = records.next(&mut text)? {
        if record.len() != header.len() {
            return Err(CsvError::Length { line, found: record.len(), expected: header.len() });
        }
        let word = |place: usize| match &*record[place] {
            "" => Err(CsvError::Missing { line, column: header[place].clone() }),
            word => Ok(word),
        };
        for &place in &features {
            let found = word(place)?;
            let (column, owned) = (|| header[place].clone(), || found.to_owned());
            match found.parse::<f32>() {
                Err(_) => return Err(CsvError::Number { line, column: column(), found: owned() }),
                Ok(value) if !value.is_finite() => {
                    return Err(CsvError::NotFinite { line, column: column(), found: owned() });
                }
                Ok(value) => values.push(value),
            }
        }
        labels.push(word(label)?);
        if let Some(task) = task {
            tasks.push(word(task)?);
        }
        lines.push(line);
    }
    if lines.is_empty() {
        return Err(CsvError::NoSamples);
    }
    Ok(Table {
        shape: [1, 1, features.len()],
        features: features.into_iter().map(|place| header[place].clone()).collect(),
        values: Values::Floats(values),
        labels,
        tasks: task.map(|_| tasks),
        lines,
    })
}

/// Bytes of the longest line, with those that its quotes go on in.
const LONGEST: usize = 1 << 27;

/// The line at which a record begins, and its values.
type Record<'t> = (u64, Vec<Cow<'t, str>>);

/// The lines of a file, some of which belong together.
struct Records<R> {
    source: BufReader<R>,
    line: u64,
    delimiter: char,
}

impl<R: Read> Records<R> {
    /// The next line that is not empty, with those that its quotes go on in: its number and its values.
    fn next<'t>(&mut self, text: &'t mut Vec<u8>) -> Result<Option<Record<'t>>, CsvError> {
        text.clear();
        let (mut first, mut open) = (self.line + 1, false);
        loop {
            let start = text.len();
            let left = (LONGEST + 1 - start) as u64;
            let length = self.source.by_ref().take(left).read_until(b'\n', text)?;
            if text.len() > LONGEST {
                return Err(CsvError::Long { line: first });
            }
            if length == 0 {
                if open {
                    return Err(CsvError::Quote { line: first });
                }
                return Ok(None);
            }
            self.line += 1;
            if self.line == 1 && text.starts_with("\u{feff}".as_bytes()) {
                text.drain(.."\u{feff}".len());
            }
            open ^= text[start..].iter().filter(|&&byte| byte == b'"').count() % 2 == 1;
            match open {
                true => {}
                false if text.iter().all(u8::is_ascii_whitespace) => {
                    text.clear();
                    first = self.line + 1;
                }
                false => break,
            }
        }
        let text =
            str::from_utf8(text).map_err(|_| CsvError::Text { line: first })?.trim_end_matches(['\r', '\n']);
        let values = match text.contains('"') {
            true => self.quoted(text).ok_or(CsvError::Quote { line: first })?,
            false => text.split(self.delimiter).map(|value| value.trim().into()).collect(),
        };
        Ok(Some((first, values)))
    }

    /// The values of a text with quotes; none if these are not in their place.
    fn quoted(&self, text: &str) -> Option<Vec<Cow<'static, str>>> {
        #[derive(PartialEq)]
        enum State {
            Plain,
            Quoted,
            Closed,
        }
        let (mut values, mut value, mut state) = (Vec::new(), String::new(), State::Plain);
        let mut letters = text.chars().peekable();
        while let Some(letter) = letters.next() {
            match (&state, letter) {
                (State::Quoted, '"') if letters.next_if_eq(&'"').is_some() => value.push('"'),
                (State::Quoted, '"') => state = State::Closed,
                (State::Quoted, _) => value.push(letter),
                (_, _) if letter == self.delimiter => {
                    values.push(finished(&mut value, state == State::Plain));
                    state = State::Plain;
                }
                (State::Closed, _) if letter.is_whitespace() => {}
                (State::Plain, '"') if value.trim().is_empty() => {
                    value.clear();
                    state = State::Quoted;
                }
                (State::Closed, _) | (State::Plain, '"') => return None,
                (State::Plain, _) => value.push(letter),
            }
        }
        values.push(finished(&mut value, state == State::Plain));
        Some(values)
    }
}

fn finished(value: &mut String, trim: bool) -> Cow<'static, str> {
    let value = std::mem::take(value);
    Cow::Owned(if trim { value.trim().to_owned() } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: Columns<'_> =
        Columns { label: "kind", task: None, features: None, ignore: &[], delimiter: b',' };

    fn error(text: &str) -> String {
        read(text.as_bytes(), &COLUMNS).unwrap_err().to_string()
    }

    #[test]
    fn all_other_columns_are_features() {
        let table = read("a,kind,b\n1,x,-2.5\n 3 ,\"y, z\",4e-1\n\n5,x,6".as_bytes(), &COLUMNS).unwrap();
        assert_eq!(table.shape, [1, 1, 2]);
        assert_eq!(table.features, ["a", "b"]);
        assert_eq!(table.values, Values::Floats(vec![1.0, -2.5, 3.0, 0.4, 5.0, 6.0]));
        assert_eq!(table.labels, ["x", "y, z", "x"].into_iter().collect());
        assert_eq!((table.tasks, table.lines), (None, vec![2, 3, 5]));
    }

    #[test]
    fn columns_are_chosen_by_name_and_in_the_order_asked_for() {
        let (features, ignore) = (["b".to_owned(), "a".to_owned()], ["id".to_owned()]);
        let columns = Columns { task: Some("day"), features: Some(&features), delimiter: b';', ..COLUMNS };
        let text = "\u{feff}id;a;b;kind;day\r\nfirst;1;2;x;mon\r\nsecond;3;4;y;tue\r\n";
        let table = read(text.as_bytes(), &columns).unwrap();
        assert_eq!(table.values, Values::Floats(vec![2.0, 1.0, 4.0, 3.0]));
        assert_eq!(table.tasks, Some(["mon", "tue"].into_iter().collect()));
        let table = read(text.as_bytes(), &Columns { features: None, ignore: &ignore, ..columns }).unwrap();
        assert_eq!(table.features, ["a", "b"]);
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
        assert_eq!(error("a,kind\n1,x\n1,x,2"), "line 3: found 3 values, expected 2 as in the header");
        assert_eq!(error("a,kind\n1,x\n\n1"), "line 4: found 1 values, expected 2 as in the header");
        assert_eq!(error("a,kind\n,x"), "line 2: no value in column `a`, expected one in every line");
        assert_eq!(error("a,kind\n1,"), "line 2: no value in column `kind`, expected one in every line");
        assert_eq!(error("a,kind\n1,x\nNA,y"), "line 3: `NA` in column `a`, expected a number");
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
            let error = read("a,kind\n1,x".as_bytes(), &columns).unwrap_err();
            assert_eq!(error.to_string(), "line 1: no column `c`, found `a`, `kind`");
        }
    }

    #[test]
    fn quotes_keep_delimiters_quotes_and_lines_together() {
        let text = "a,kind\r\n1,\"x,\r\ny\"\r\n\r\n2, \"say \"\"z\"\"\" \r\n\"3\",\" w \"";
        let table = read(text.as_bytes(), &COLUMNS).unwrap();
        assert_eq!(table.labels, ["x,\r\ny", "say \"z\"", " w "].into_iter().collect());
        assert_eq!((table.values, table.lines), (Values::Floats(vec![1.0, 2.0, 3.0]), vec![2, 5, 6]));
        for broken in ["1,\"x", "1,\"x\"y", "1,x\"", "1,5\" x\n2,6\" y"] {
            let error = error(&format!("a,kind\n0,z\n{broken}\n"));
            assert!(error.starts_with("line 3: found a quote that is not closed"), "{broken}: {error}");
        }
    }

    #[test]
    fn text_that_is_not_utf8_is_refused() {
        let error = read(&b"a,kind\n1,\xff\xfe"[..], &COLUMNS).unwrap_err();
        assert_eq!(error.to_string(), "line 2: found bytes that are not text in UTF-8");
    }
}
