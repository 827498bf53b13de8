//! Recordings in windows: a dictionary that `numpy.save` pickled, of a list of arrays `[time, channels]` and
//! of arrays that tell the label and the task of each. So the package seglearn keeps its data.

use std::io::{self, Read};

use super::{
    npy::{self, NpyError},
    pickle::{Id, Pickle, PickleError, PickledArray, Value},
    table::{Categorical, SampleTable},
};
use crate::samples::Values;

/// Bytes of the longest file, which is read at once.
const MAX_BYTES: u64 = 1 << 28;

/// The longest window.
pub(crate) const MAX_WINDOW: usize = 1 << 16;

/// What is wrong with a file of recordings.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
// The message of a variant says what its fields are.
#[allow(missing_docs)]
pub enum SeriesError {
    /// Reading failed.
    #[error("cannot be read: {0}")]
    Read(#[from] io::Error),
    /// Too large a file.
    #[error("found more than {most} bytes, expected fewer")]
    Long { most: u64 },
    /// Another kind of file.
    #[error("begins with `{found}`, expected a single object that `numpy.save` wrote")]
    NoObject { found: String },
    /// The object cannot be read.
    #[error("the object: {0}")]
    Pickle(#[from] PickleError),
    /// Something else was pickled.
    #[error("found another object, expected a dictionary with names")]
    NoDict,
    /// An entry that was asked for does not exist.
    #[error("no entry `{name}`, found {}", super::few(found))]
    NoEntry { name: String, found: Vec<String> },
    /// An entry of another kind.
    #[error("`{name}` is something else, expected {expected}")]
    Kind { name: String, expected: &'static str },
    /// A flaw of an array.
    #[error("array `{name}`: {flaw}")]
    Array { name: String, flaw: NpyError },
    /// Recordings and their labels or tasks differ in number.
    #[error("`{name}`: found {found} values, expected {expected}, as many as recordings")]
    Count { name: String, found: usize, expected: usize },
    /// Recordings of different widths.
    #[error("`{name}`: found {found} channels, expected {expected} as in the first recording")]
    Channels { name: String, found: usize, expected: usize },
    /// Arrays that are used again and again.
    #[error("found arrays of more bytes than the {most} of the file, expected each to be used once")]
    Repeated { most: usize },
    /// No recording is as long as a window.
    #[error("found recordings of at most {longest} samples, expected one of {window}, the window")]
    NoWindow { longest: usize, window: usize },
}

impl SeriesError {
    pub(crate) fn hint(&self) -> String {
        match self {
            SeriesError::Read(_) => "is it a file, and may it be read?",
            SeriesError::NoEntry { .. } | SeriesError::Kind { .. } => {
                "`features`, `label` and `task` in the stream file name entries of the dictionary"
            }
            SeriesError::Array { flaw, .. } => return flaw.hint(),
            SeriesError::NoWindow { .. } => "choose a smaller `window`",
            SeriesError::Long { .. }
            | SeriesError::NoObject { .. }
            | SeriesError::Pickle(_)
            | SeriesError::NoDict
            | SeriesError::Count { .. }
            | SeriesError::Channels { .. }
            | SeriesError::Repeated { .. } => {
                "this format is for files such as the package seglearn has; for others write the windows \
                 with `numpy.savez`"
            }
        }
        .to_owned()
    }
}

/// Which entries of the dictionary are what, and how recordings become samples.
#[derive(Debug, Clone, Copy)]
pub struct Entries<'a> {
    /// The list of recordings.
    pub features: &'a str,
    /// The label of each.
    pub label: &'a str,
    /// The task of each, if there are tasks.
    pub task: Option<&'a str>,
    /// Length of a sample. Windows do not overlap; what is left at the end of a recording is dropped.
    pub window: usize,
}

/// Reads a file as windows of recordings: all channels at one time, then those at the next.
pub fn read(source: impl Read, entries: &Entries<'_>) -> Result<SampleTable, SeriesError> {
    let mut bytes = Vec::new();
    source.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(SeriesError::Long { most: MAX_BYTES });
    }
    let object = object(&bytes).ok_or_else(|| {
        let found = bytes.iter().take(24).copied().collect::<Vec<u8>>();
        SeriesError::NoObject { found: found.escape_ascii().to_string() }
    })?;
    let pickle = Pickle::read(object)?;
    let dict = dict(&pickle).ok_or(SeriesError::NoDict)?;
    let mut file = SeriesFile { pickle: &pickle, dict, most: bytes.len(), spent: 0 };
    let recordings = file.list(entries.features)?;
    let labels = file.words(entries.label, recordings.len())?;
    let tasks = entries.task.map(|name| file.words(name, recordings.len())).transpose()?;
    let (mut channels, mut longest, mut values) = (None, 0, Vec::new());
    let (mut label_of, mut task_of) = (Categorical::default(), Categorical::default());
    for (i, &id) in recordings.iter().enumerate() {
        let name = format!("{}[{i}]", entries.features);
        let (found, recording) = file.recording(id, &name)?;
        let expected = *channels.get_or_insert(found);
        if found != expected {
            return Err(SeriesError::Channels { name, found, expected });
        }
        longest = longest.max(recording.len() / found);
        for window in recording.chunks_exact(entries.window * found) {
            values.extend_from_slice(window);
            label_of.push(labels.get(i));
            if let Some(tasks) = &tasks {
                task_of.push(tasks.get(i));
            }
        }
    }
    if values.is_empty() {
        return Err(SeriesError::NoWindow { longest, window: entries.window });
    }
    Ok(SampleTable {
        shape: [1, 1, entries.window * channels.unwrap_or(1)],
        features: Vec::new(),
        values: Values::Floats(values),
        labels: label_of,
        tasks: tasks.map(|_| task_of),
        lines: Vec::new(),
        notes: Vec::new(),
    })
}

/// The pickle in a file of one object, without dimensions.
fn object(bytes: &[u8]) -> Option<&[u8]> {
    let rest = bytes.strip_prefix(b"\x93NUMPY\x01\0")?;
    let (len, rest) = rest.split_first_chunk::<2>()?;
    let (header, rest) = rest.split_at_checked(u16::from_le_bytes(*len).into())?;
    let header = std::str::from_utf8(header).ok()?;
    (header.contains("'descr': '|O'") && header.contains("'shape': ()")).then_some(rest)
}

/// The entries of the one dictionary in a pickled array, by name.
fn dict<'a>(pickle: &'a Pickle<'a>) -> Option<Vec<(&'a str, &'a Value<'a>)>> {
    let Value::Objects(list) = pickle.root() else { return None };
    let Value::List(items) = pickle.get(*list) else { return None };
    let [only] = items[..] else { return None };
    let Value::Dict(entries) = pickle.get(only) else { return None };
    let name = |id| match pickle.get(id) {
        Value::Text(name) => Some(*name),
        _ => None,
    };
    entries.iter().map(|(key, value)| Some((name(*key)?, pickle.get(*value)))).collect()
}

struct SeriesFile<'a> {
    pickle: &'a Pickle<'a>,
    dict: Vec<(&'a str, &'a Value<'a>)>,
    /// Bytes of the file, and those of the arrays that were read: not more, or a few would be read many
    /// times.
    most: usize,
    spent: usize,
}

impl<'a> SeriesFile<'a> {
    fn entry(&self, name: &str) -> Result<&'a Value<'a>, SeriesError> {
        let found = self.dict.iter().find(|(key, _)| *key == name);
        let names = || self.dict.iter().map(|(key, _)| (*key).to_owned()).collect();
        let missing = || SeriesError::NoEntry { name: name.to_owned(), found: names() };
        found.map(|(_, value)| *value).ok_or_else(missing)
    }

    /// The places of the recordings.
    fn list(&self, name: &str) -> Result<&'a [Id], SeriesError> {
        match self.entry(name)? {
            Value::List(items) => Ok(items),
            _ => {
                let expected = "a list of arrays `[time, channels]`";
                Err(SeriesError::Kind { name: name.to_owned(), expected })
            }
        }
    }

    /// The number of channels, at least one, and the values of a recording.
    fn recording(&mut self, id: Id, name: &str) -> Result<(usize, Vec<f32>), SeriesError> {
        let array = match self.pickle.get(id) {
            Value::Array(array) if array.dims.len() == 2 => array,
            _ => {
                let expected = "an array `[time, channels]`";
                return Err(SeriesError::Kind { name: name.to_owned(), expected });
            }
        };
        let bytes = self.as_npy(array)?;
        let read = npy::features(&bytes[..], bytes.len() as u64);
        let ([.., channels], values) =
            read.map_err(|flaw| SeriesError::Array { name: name.to_owned(), flaw })?;
        Ok((channels, values))
    }

    /// A word for each recording.
    fn words(&mut self, name: &str, expected: usize) -> Result<Categorical, SeriesError> {
        let Value::Array(array) = self.entry(name)? else {
            let expected = "an array with a number per recording";
            return Err(SeriesError::Kind { name: name.to_owned(), expected });
        };
        let bytes = self.as_npy(array)?;
        let words = npy::labels(&bytes[..], bytes.len() as u64);
        let words = words.map_err(|flaw| SeriesError::Array { name: name.to_owned(), flaw })?;
        match words.len() {
            found if found != expected => Err(SeriesError::Count { name: name.to_owned(), found, expected }),
            _ => Ok(words),
        }
    }

    /// An array as a file of its own, whose reader checks the rest.
    fn as_npy(&mut self, array: &PickledArray<'_>) -> Result<Vec<u8>, SeriesError> {
        self.spent = self.spent.saturating_add(array.elements.len());
        if self.spent > self.most {
            return Err(SeriesError::Repeated { most: self.most });
        }
        let PickledArray { descr, fortran, dims, elements } = array;
        let fortran = if *fortran { "True" } else { "False" };
        let dims: String = dims.iter().map(|dim| format!("{dim}, ")).collect();
        let header = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': ({dims}), }}\n");
        let mut bytes = b"\x93NUMPY\x02\0".to_vec();
        bytes.extend_from_slice(&(header.len() as u32).to_le_bytes());
        bytes.extend_from_slice(header.as_bytes());
        // Characters above 255 become another byte: such a file is damaged, but does no harm.
        bytes.extend(elements.chars().map(|c| u32::from(c) as u8));
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::pickle::tests::{Object, saved},
        *,
    };

    const ENTRIES: Entries<'static> = Entries { features: "X", label: "y", task: Some("subject"), window: 2 };

    fn floats(fortran: bool, dims: [u8; 2], values: &[f64]) -> Object {
        Object::Array("f8", fortran, dims.to_vec(), values.iter().flat_map(|v| v.to_le_bytes()).collect())
    }

    fn integers(values: &[i64]) -> Object {
        let elements = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Object::Array("i8", false, vec![values.len() as u8], elements)
    }

    /// A recording of five times two samples, the last of which is left over, and one of two.
    fn file(second: Object, labels: &[i64]) -> Vec<u8> {
        // Column by column, as the published file has them.
        let first = floats(true, [5, 2], &[0.0, 2.0, 4.0, 6.0, 8.0, 1.0, 3.0, 5.0, 7.0, 9.0]);
        saved(&Object::Dict(vec![
            ("X", Object::List(vec![first, second])),
            ("y_labels", Object::List(vec![Object::Text("PEN"), Object::Text("ABD")])),
            ("y", integers(labels)),
            ("subject", integers(&[7, -1])),
        ]))
    }

    fn two() -> Vec<u8> {
        file(floats(false, [2, 2], &[-1.0, 0.5, 1e-3, -255.0]), &[1, 0])
    }

    fn error(bytes: &[u8], entries: &Entries<'_>) -> String {
        read(bytes, entries).unwrap_err().to_string()
    }

    #[test]
    fn recordings_are_cut_into_windows_that_do_not_overlap() {
        let table = read(&two()[..], &ENTRIES).unwrap();
        assert_eq!(table.shape, [1, 1, 4]);
        let expected = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, -1.0, 0.5, 1e-3, -255.0];
        assert_eq!(table.values, Values::Floats(expected.to_vec()));
        assert_eq!((table.labels.categories.concat(), table.labels.codes), ("10".to_owned(), vec![0, 0, 1]));
        let tasks = table.tasks.unwrap();
        assert_eq!((tasks.categories.concat(), tasks.codes), ("7-1".to_owned(), vec![0, 0, 1]));
        let long = read(&two()[..], &Entries { window: 3, task: None, ..ENTRIES }).unwrap();
        assert_eq!((long.shape, long.labels.len(), long.tasks), ([1, 1, 6], 1, None));
    }

    #[test]
    fn entries_that_are_not_there_or_not_arrays_are_told() {
        let bytes = two();
        assert_eq!(
            error(&bytes, &Entries { label: "z", ..ENTRIES }),
            "no entry `z`, found `X`, `y_labels`, `y`, `subject`"
        );
        let kind = error(&bytes, &Entries { label: "X", ..ENTRIES });
        assert_eq!(kind, "`X` is something else, expected an array with a number per recording");
        let kind = error(&bytes, &Entries { features: "y_labels", ..ENTRIES });
        assert_eq!(kind, "`y_labels[0]` is something else, expected an array `[time, channels]`");
        let longest = error(&bytes, &Entries { window: 6, ..ENTRIES });
        assert_eq!(longest, "found recordings of at most 5 samples, expected one of 6, the window");
    }

    #[test]
    fn recordings_that_do_not_belong_together_are_refused() {
        let wide = file(floats(false, [1, 3], &[0.0; 3]), &[1, 0]);
        assert_eq!(error(&wide, &ENTRIES), "`X[1]`: found 3 channels, expected 2 as in the first recording");
        let count = file(floats(false, [1, 2], &[0.0; 2]), &[1, 0, 1]);
        assert_eq!(error(&count, &ENTRIES), "`y`: found 3 values, expected 2, as many as recordings");
        let nan = file(floats(false, [1, 2], &[0.0, f64::NAN]), &[1, 0]);
        assert!(error(&nan, &ENTRIES).starts_with("array `X[1]`: row 0: found `NaN`"));
        let short = file(floats(false, [2, 2], &[0.0; 3]), &[1, 0]);
        assert!(error(&short, &ENTRIES).starts_with("array `X[1]`: ends after"));
        let empty = saved(&Object::Dict(vec![
            ("X", Object::List(vec![])),
            ("y", integers(&[])),
            ("subject", integers(&[])),
        ]));
        assert!(read(&empty[..], &ENTRIES).is_err());
    }

    #[test]
    fn other_files_and_objects_are_refused() {
        assert!(matches!(read(&b"a,b\n1,2\n"[..], &ENTRIES), Err(SeriesError::NoObject { .. })));
        let array = b"\x93NUMPY\x01\0\x3a\0{'descr': '|S1', 'fortran_order': False, 'shape': (4,), }\nabab";
        assert!(matches!(read(&array[..], &ENTRIES), Err(SeriesError::NoObject { .. })));
        let list = saved(&Object::List(vec![]));
        assert!(matches!(read(&list[..], &ENTRIES), Err(SeriesError::NoDict)));
    }

    #[test]
    fn every_truncation_and_every_flipped_byte_is_survived() {
        let whole = two();
        for cut in 0..whole.len() {
            assert!(read(&whole[..cut], &ENTRIES).is_err(), "{cut}");
        }
        for at in 0..whole.len() {
            let mut file = whole.clone();
            file[at] ^= 0xff;
            let _ = read(&file[..], &ENTRIES);
        }
    }

    #[test]
    fn a_small_file_cannot_ask_for_much_memory() {
        // A list that has one array of 800 bytes 200 times: it is kept, and taken from there.
        let recording = floats(false, [50, 2], &[0.0; 100]);
        let labels = [("y", integers(&[0; 200])), ("subject", integers(&[1; 200]))];
        let entries = labels.into_iter().chain([("X", Object::List(vec![recording]))]);
        let mut bytes = saved(&Object::Dict(entries.collect()));
        let end = bytes.len() - b"euatb.".len();
        bytes.splice(end..end, [&b"q\x09"[..], &b"h\x09".repeat(199)].concat());
        let error = read(&bytes[..], &ENTRIES).unwrap_err();
        assert!(matches!(error, SeriesError::Repeated { .. }), "{error}");
    }
}
