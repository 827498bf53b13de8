//! NumPy's `.npy` format: a magic number, a header with type and dimensions, then the elements.
//!
//! Written by hand: docs/adr/0012 says why. Elements are converted while they are read, and memory is
//! reserved only after the header has been checked against the size of the source.

use std::io::{self, Read};

use half::f16;

use super::table::Categorical;

/// Bytes of the longest header.
const MAX_HEADER: usize = 1 << 16;

/// Bytes that are read at once.
const BLOCK: usize = 1 << 18;

/// What is wrong with an array.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
// The message of a variant says what its fields are.
#[allow(missing_docs)]
pub enum NpyError {
    /// Reading or decompressing failed.
    #[error("cannot be read: {0}")]
    Read(#[from] io::Error),
    /// Another kind of file.
    #[error("begins with `{found}`, expected `\\x93NUMPY` and version 1, 2 or 3")]
    Magic { found: String },
    /// A header without the three entries.
    #[error("found the header `{found}`, expected `descr`, `fortran_order` and `shape`")]
    Header { found: String },
    /// Elements of an unsupported type.
    #[error("found elements of type `{found}`, expected {expected}")]
    Type { found: String, expected: &'static str },
    /// Unsupported dimensions.
    #[error("found the dimensions `{found:?}`, expected {expected}")]
    Dimensions { found: Vec<usize>, expected: &'static str },
    /// More values than fit in memory.
    #[error("found {found} values, expected no more than memory can hold")]
    Memory { found: usize },
    /// Fewer bytes than the header declares.
    #[error("ends after {found} bytes, expected {expected}")]
    Short { found: u64, expected: u64 },
    /// More bytes than the header declares.
    #[error("goes on after the {expected} bytes that its header declares")]
    Trailing { expected: u64 },
    /// A value that is NaN, infinite, or does not fit 32 bits.
    #[error("row {row}: found `{found}`, expected a finite number below 3.4e38")]
    NotFinite { row: usize, found: f64 },
    /// A label that is empty or not text.
    #[error("row {row}: found no text, expected a word")]
    Text { row: usize },
}

impl NpyError {
    pub(crate) fn hint(&self) -> String {
        match self {
            NpyError::Read(_) => "is it a file, and may it be read?",
            NpyError::Magic { .. } => {
                "write the array with `numpy.save`; `format` in the stream file says what the files are"
            }
            NpyError::Text { .. } => "leave the row out, or fill in a word",
            NpyError::Type { .. } => "convert it, as in `x.astype(\"float32\")` or `y.astype(str)`",
            NpyError::NotFinite { .. } => "leave the row out or fill in a number, as `numpy.nan_to_num` does",
            NpyError::Dimensions { .. } => {
                "an array of features is `[samples, features]`, one of labels `[samples]`"
            }
            NpyError::Memory { .. } => "use fewer samples or features",
            NpyError::Header { .. } | NpyError::Short { .. } | NpyError::Trailing { .. } => {
                "write the file again with `numpy.save` or `numpy.savez`"
            }
        }
        .to_owned()
    }
}

/// Channels, height and width of a sample, and all values, the last dimension fastest.
pub type NpyFeatures = ([usize; 3], Vec<f32>);

/// Reads an array of features from a source of `len` bytes.
pub fn features(source: impl Read, len: u64) -> Result<NpyFeatures, NpyError> {
    Array::open(source, len)?.features()
}

/// Reads an array of labels from a source of `len` bytes.
pub fn labels(source: impl Read, len: u64) -> Result<Categorical, NpyError> {
    Array::open(source, len)?.labels()
}

/// An array whose header has been read and whose elements follow in `source`.
#[derive(Debug)]
pub(super) struct Array<R> {
    source: R,
    header: NpyHeader,
    /// Number of elements.
    pub(super) count: usize,
    /// Bytes of the header with what precedes it.
    start: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct NpyHeader {
    kind: ElementKind,
    /// Bytes of an element.
    size: usize,
    big_endian: bool,
    fortran: bool,
    /// At least one.
    dims: Vec<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ElementKind {
    Bool,
    Int,
    Unsigned,
    Float,
    /// Four bytes a character.
    Unicode,
    /// One byte a character.
    Bytes,
}

impl NpyHeader {
    /// Parses a header such as `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }`.
    fn parse(text: &str) -> Result<NpyHeader, NpyError> {
        let flaw =
            || NpyError::Header { found: text.chars().take(100).collect::<String>().trim().to_owned() };
        let after = |key: &str| -> Result<&str, NpyError> {
            let (_, rest) = text.split_once(&format!("'{key}'")).ok_or_else(flaw)?;
            Ok(rest.trim_start().strip_prefix(':').ok_or_else(flaw)?.trim_start())
        };
        let expected = "numbers, text or truth values";
        let descr = after("descr")?;
        // Structured arrays have a list here.
        let descr = descr
            .strip_prefix('\'')
            .and_then(|rest| Some(rest.split_once('\'')?.0))
            .ok_or_else(|| NpyError::Type { found: descr.chars().take(20).collect(), expected })?;
        let unknown = || NpyError::Type { found: descr.to_owned(), expected };
        let number = descr.get(2..).and_then(|size| size.parse::<usize>().ok()).ok_or_else(unknown)?;
        let (kind, size) = match (descr.as_bytes()[1], number) {
            (b'b', 1) => (ElementKind::Bool, 1),
            (b'i', 1 | 2 | 4 | 8) => (ElementKind::Int, number),
            (b'u', 1 | 2 | 4 | 8) => (ElementKind::Unsigned, number),
            (b'f', 2 | 4 | 8) => (ElementKind::Float, number),
            (b'S', 1..=65_536) => (ElementKind::Bytes, number),
            (b'U', 1..=65_536) => (ElementKind::Unicode, 4 * number),
            _ => return Err(unknown()),
        };
        let fortran = match after("fortran_order")? {
            rest if rest.starts_with("True") => true,
            rest if rest.starts_with("False") => false,
            _ => return Err(flaw()),
        };
        let shape = after("shape")?.strip_prefix('(').and_then(|rest| Some(rest.split_once(')')?.0));
        let dims = shape.ok_or_else(flaw)?.split(',').map(str::trim).filter(|text| !text.is_empty());
        let dims = dims.map(str::parse).collect::<Result<Vec<usize>, _>>().map_err(|_| flaw())?;
        if dims.is_empty() || dims.len() > 32 {
            return Err(NpyError::Dimensions { found: dims, expected: "1 to 32 of them" });
        }
        Ok(NpyHeader { kind, size, big_endian: descr.starts_with('>'), fortran, dims })
    }

    /// An integer of any type, from little-endian bytes.
    fn integer(&self, element: &[u8]) -> i128 {
        let word = element.iter().rev().fold(0_u64, |word, &byte| word << 8 | u64::from(byte));
        let unused = 64 - 8 * element.len();
        match self.kind {
            ElementKind::Int => i128::from((word << unused) as i64 >> unused),
            _ => i128::from(word),
        }
    }

    /// A number of any type, from little-endian bytes.
    fn number(&self, element: &[u8]) -> f64 {
        match (self.kind, element) {
            (ElementKind::Float, &[a, b]) => f16::from_le_bytes([a, b]).to_f64(),
            (ElementKind::Float, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]).into(),
            (ElementKind::Float, &[a, b, c, d, e, f, g, h]) => f64::from_le_bytes([a, b, c, d, e, f, g, h]),
            _ => self.integer(element) as f64,
        }
    }
}

impl<R: Read> Array<R> {
    /// Reads the header of an array in a source of `len` bytes.
    pub(super) fn open(mut source: R, len: u64) -> Result<Array<R>, NpyError> {
        let mut take = |count: usize| -> Result<Vec<u8>, NpyError> {
            let mut bytes = Vec::new();
            source.by_ref().take(count as u64).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let magic = take(8)?;
        // The length of the header has two bytes in version 1, four in versions 2 and 3.
        let width = match magic[..] {
            [0x93, b'N', b'U', b'M', b'P', b'Y', version @ 1..=3, _] => {
                if version > 1 {
                    4
                } else {
                    2
                }
            }
            _ => return Err(NpyError::Magic { found: magic.escape_ascii().to_string() }),
        };
        let header_len = take(width)?.iter().rev().fold(0, |len, &byte| len << 8 | usize::from(byte));
        let text = take(header_len.min(MAX_HEADER))?;
        if header_len > MAX_HEADER {
            return Err(NpyError::Header { found: format!("{header_len} bytes") });
        }
        let header = NpyHeader::parse(&String::from_utf8_lossy(&text))?;
        let count = header.dims.iter().try_fold(1_usize, |product, &d| product.checked_mul(d));
        let count = count.filter(|&count| count > 0 && count.checked_mul(header.size).is_some());
        let expected = "none of zero and no more than fit the file";
        let count = count.ok_or_else(|| NpyError::Dimensions { found: header.dims.clone(), expected })?;
        let array = Array { source, header, count, start: (8 + width + header_len) as u64 };
        match array.len() {
            expected if len < expected => Err(NpyError::Short { found: len, expected }),
            _ => Ok(array),
        }
    }

    /// Bytes of header and elements.
    fn len(&self) -> u64 {
        self.start.saturating_add((self.count * self.header.size) as u64)
    }

    /// The first dimension is that of samples, the others are `[width]`, `[height, width]` or
    /// `[channels, height, width]`.
    fn shape(&self) -> Result<[usize; 3], NpyError> {
        Ok(match self.header.dims[1..] {
            [] => [1, 1, 1],
            [width] => [1, 1, width],
            [height, width] => [1, height, width],
            [channels, height, width] => [channels, height, width],
            _ => {
                let expected = "at most 4: samples, channels, height, width";
                return Err(NpyError::Dimensions { found: self.header.dims.clone(), expected });
            }
        })
    }

    pub(super) fn features(&mut self) -> Result<NpyFeatures, NpyError> {
        let Array { header, count, .. } = self;
        if let ElementKind::Unicode | ElementKind::Bytes = header.kind {
            return Err(NpyError::Type { found: "text".to_owned(), expected: "numbers" });
        }
        let (header, count, shape) = (header.clone(), *count, self.shape()?);
        let mut values = Vec::new();
        values.try_reserve_exact(count).map_err(|_| NpyError::Memory { found: count })?;
        if header.fortran {
            values.resize(count, 0.0);
        }
        let width = count / header.dims[0];
        self.for_each(|i, element| {
            let found = header.number(element);
            let value = found as f32;
            let at = if header.fortran { from_fortran(i, &header.dims) } else { i };
            if !value.is_finite() {
                return Err(NpyError::NotFinite { row: at / width, found });
            }
            if header.fortran {
                values[at] = value
            } else {
                values.push(value)
            }
            Ok(())
        })?;
        Ok((shape, values))
    }

    /// The elements of an array of one dimension as text: integers without a point, strings without padding.
    pub(super) fn labels(&mut self) -> Result<Categorical, NpyError> {
        let header = self.header.clone();
        if header.dims.iter().skip(1).any(|&d| d != 1) {
            return Err(NpyError::Dimensions { found: header.dims, expected: "one: the samples" });
        }
        let mut labels = Categorical::default();
        self.for_each(|row, element| {
            let label = match header.kind {
                ElementKind::Bool | ElementKind::Int | ElementKind::Unsigned => {
                    header.integer(element).to_string()
                }
                ElementKind::Float => match header.number(element) {
                    found if found.is_finite() => found.to_string(),
                    found => return Err(NpyError::NotFinite { row, found }),
                },
                ElementKind::Bytes => {
                    String::from_utf8(element.to_vec()).map_err(|_| NpyError::Text { row })?
                }
                ElementKind::Unicode => {
                    let letters = element.chunks_exact(4).map(|c| char::from_u32(header.integer(c) as u32));
                    letters.collect::<Option<String>>().ok_or(NpyError::Text { row })?
                }
            };
            match label.trim_end_matches('\0').trim() {
                "" => return Err(NpyError::Text { row }),
                label => labels.push(label),
            }
            Ok(())
        })?;
        Ok(labels)
    }

    /// Visits the elements in the order of the file, in little-endian bytes, and checks that nothing follows.
    fn for_each(
        &mut self,
        mut visit: impl FnMut(usize, &[u8]) -> Result<(), NpyError>,
    ) -> Result<(), NpyError> {
        let (expected, size) = (self.len(), self.header.size);
        let (mut done, mut block) = (0, Vec::new());
        while done < self.count {
            let bytes = size * (BLOCK / size).clamp(1, self.count - done);
            block.clear();
            self.source.by_ref().take(bytes as u64).read_to_end(&mut block)?;
            if block.len() < bytes {
                let found = self.start + (done * size + block.len()) as u64;
                return Err(NpyError::Short { found, expected });
            }
            if self.header.big_endian {
                let unit = match self.header.kind {
                    ElementKind::Unicode => 4,
                    ElementKind::Bytes => 1,
                    _ => size,
                };
                block.chunks_exact_mut(unit).for_each(<[u8]>::reverse);
            }
            for element in block.chunks_exact(size) {
                visit(done, element)?;
                done += 1;
            }
        }
        match self.source.by_ref().take(1).read_to_end(&mut block)? {
            0 => Ok(()),
            _ => Err(NpyError::Trailing { expected }),
        }
    }
}

/// The index in C order, last dimension fastest, of the `i`-th element in Fortran order, first dimension
/// fastest.
fn from_fortran(mut i: usize, dims: &[usize]) -> usize {
    let (mut at, mut stride) = (0, dims.iter().product::<usize>());
    for &d in dims {
        stride /= d;
        at += i % d * stride;
        i /= d;
    }
    at
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A file as NumPy writes it.
    pub(crate) fn npy(descr: &str, fortran: bool, shape: &str, body: &[u8]) -> Vec<u8> {
        let fortran = if fortran { "True" } else { "False" };
        let header = format!("{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}");
        // Padded so that the elements begin at a multiple of 64.
        let header = format!("{header:<width$}\n", width = (header.len() + 11).next_multiple_of(64) - 11);
        [b"\x93NUMPY\x01\0", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), body].concat()
    }

    fn array(bytes: &[u8]) -> Result<NpyFeatures, NpyError> {
        features(bytes, bytes.len() as u64)
    }

    fn words(bytes: &[u8]) -> Result<Categorical, NpyError> {
        labels(bytes, bytes.len() as u64)
    }

    fn bytes<const N: usize, T>(values: &[T], of: impl Fn(&T) -> [u8; N]) -> Vec<u8> {
        values.iter().flat_map(of).collect()
    }

    #[test]
    fn numbers_of_all_types_are_read() {
        let floats = |descr: &str, body: &[u8]| array(&npy(descr, false, "(2,)", body)).unwrap().1;
        assert_eq!(floats("'<f4'", &bytes(&[0.5_f32, -3.0], |x| x.to_le_bytes())), [0.5, -3.0]);
        assert_eq!(floats("'>f8'", &bytes(&[0.5_f64, -3.0], |x| x.to_be_bytes())), [0.5, -3.0]);
        assert_eq!(floats("'<f2'", &[0x00, 0x38, 0x00, 0xc2]), [0.5, -3.0]);
        assert_eq!(floats("'>f2'", &[0x7b, 0xff, 0x00, 0x01]), [65504.0, 5.9604645e-8]);
        assert_eq!(floats("'|i1'", &[5, 0xfe]), [5.0, -2.0]);
        assert_eq!(floats("'|u1'", &[5, 0xfe]), [5.0, 254.0]);
        assert_eq!(floats("'|b1'", &[0, 1]), [0.0, 1.0]);
        assert_eq!(floats("'<i8'", &bytes(&[-7_i64, 9], |x| x.to_le_bytes())), [-7.0, 9.0]);
        assert_eq!(floats("'>u2'", &[1, 0, 0, 3]), [256.0, 3.0]);
    }

    #[test]
    fn labels_are_integers_without_a_point_and_text_without_padding() {
        let words = |descr: &str, body: &[u8]| -> Vec<String> {
            let labels = words(&npy(descr, false, "(2,)", body)).unwrap();
            (0..2).map(|i| labels.get(i).to_owned()).collect()
        };
        assert_eq!(words("'<i4'", &bytes(&[-1_i32, 12], |x| x.to_le_bytes())), ["-1", "12"]);
        assert_eq!(words("'<f8'", &bytes(&[3.0_f64, 0.5], |x| x.to_le_bytes())), ["3", "0.5"]);
        assert_eq!(words("'<f4'", &bytes(&[-0.0_f32, 0.0], |x| x.to_le_bytes())), ["0", "0"]);
        assert_eq!(
            words("'<u8'", &bytes(&[u64::MAX, 1], |x| x.to_le_bytes())),
            ["18446744073709551615", "1"]
        );
        assert_eq!(words("'|S3'", b"ab\0cde"), ["ab", "cde"]);
        let letters = ['k', 'ä', '\0', 'z', '\0', '\0'];
        assert_eq!(words("'<U3'", &bytes(&letters, |&c| u32::from(c).to_le_bytes())), ["kä", "z"]);
        assert_eq!(words("'>U3'", &bytes(&letters, |&c| u32::from(c).to_be_bytes())), ["kä", "z"]);
    }

    #[test]
    fn fortran_order_is_turned_into_rows() {
        // [[0, 1, 2], [3, 4, 5]], column by column.
        let found = array(&npy("'|u1'", true, "(2, 3)", &[0, 3, 1, 4, 2, 5])).unwrap();
        assert_eq!(found.1, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        let deep: Vec<u8> = (0..24).map(|k| (k % 2 * 12 + k / 2 % 3 * 4 + k / 6) as u8).collect();
        let found = array(&npy("'|u1'", true, "(2, 3, 4)", &deep)).unwrap();
        assert_eq!(found, ([1, 3, 4], (0..24).map(|i| i as f32).collect()));
    }

    #[test]
    fn the_first_dimension_is_that_of_samples() {
        let shape = |text: &str| array(&npy("'|u1'", false, text, &[0; 24])).map(|(shape, _)| shape);
        assert_eq!(shape("(24,)").unwrap(), [1, 1, 1]);
        assert_eq!(shape("(4, 6)").unwrap(), [1, 1, 6]);
        assert_eq!(shape("(2, 3, 2, 2)").unwrap(), [3, 2, 2]);
        assert!(matches!(shape("(1, 2, 3, 2, 2)"), Err(NpyError::Dimensions { .. })));
        let table = words(&npy("'|u1'", false, "(2, 2)", &[0; 4]));
        assert!(matches!(table, Err(NpyError::Dimensions { .. })));
        assert_eq!(words(&npy("'|u1'", false, "(2, 1)", &[7, 8])).unwrap().categories, ["7", "8"]);
    }

    #[test]
    fn every_truncation_is_found() {
        let whole = npy("'<f4'", false, "(2, 2)", &[0; 16]);
        assert!(array(&whole).is_ok());
        for cut in 0..whole.len() {
            assert!(array(&whole[..cut]).is_err(), "{cut}");
            // Also where the length is not known beforehand.
            assert!(features(&whole[..cut], u64::MAX).is_err(), "{cut}");
        }
        let long = [whole.clone(), vec![0]].concat();
        assert!(
            matches!(array(&long), Err(NpyError::Trailing { expected }) if expected == whole.len() as u64)
        );
    }

    #[test]
    fn other_files_and_headers_are_refused() {
        assert!(matches!(array(b"a,b,kind\n1,2,x\n"), Err(NpyError::Magic { .. })));
        assert!(matches!(array(b"\x93NUMPY\x09\0aa"), Err(NpyError::Magic { .. })));
        let flaw = |descr: &str, shape: &str| array(&npy(descr, false, shape, &[0; 4])).unwrap_err();
        for descr in ["'|O'", "'<f16'", "'<c8'", "[('a', '<f4')]", "''", "'<'", "'<U0'", "'ä4'", "'<M8[ns]'"]
        {
            assert!(matches!(flaw(descr, "(1,)"), NpyError::Type { .. }), "{descr}");
        }
        for shape in ["()", "(0, 4)", "(99999999999, 99999999999)"] {
            assert!(matches!(flaw("'<f4'", shape), NpyError::Dimensions { .. }), "{shape}");
        }
        for shape in ["(-1,)", "(a,)", "4", "(1"] {
            assert!(matches!(flaw("'<f4'", shape), NpyError::Header { .. }), "{shape}");
        }
    }

    #[test]
    fn a_small_file_cannot_ask_for_much_memory() {
        let claim = npy("'<f8'", false, "(1000000, 1000)", &[0; 8]);
        assert!(matches!(array(&claim), Err(NpyError::Short { .. })));
        let claim = npy("'|u1'", false, "(4611686018427387904,)", &[0; 8]);
        assert!(matches!(features(&claim[..], u64::MAX), Err(NpyError::Memory { .. })));
        assert!(matches!(labels(&claim[..], u64::MAX), Err(NpyError::Short { .. })));
    }

    #[test]
    fn what_is_not_finite_is_told_with_its_row() {
        for found in [f64::NAN, f64::INFINITY, 1e39] {
            let file = npy("'<f8'", false, "(2, 2)", &bytes(&[0.0, 1.0, found, 2.0], |x| x.to_le_bytes()));
            let error = array(&file).unwrap_err();
            assert!(matches!(error, NpyError::NotFinite { row: 1, .. }), "{error}");
        }
        let text = npy("'|S1'", false, "(2,)", b"a\0");
        assert!(matches!(words(&text), Err(NpyError::Text { row: 1 })));
        assert!(matches!(array(&text), Err(NpyError::Type { .. })));
        let lone = npy("'<U1'", false, "(1,)", &0xd800_u32.to_le_bytes());
        assert!(matches!(words(&lone), Err(NpyError::Text { row: 0 })));
        let nan = npy("'<f4'", false, "(1,)", &f32::NAN.to_le_bytes());
        assert!(matches!(words(&nan), Err(NpyError::NotFinite { row: 0, .. })));
        // In Fortran order the third element of the file is in the first row.
        let turned = npy("'<f4'", true, "(2, 2)", &bytes(&[0.0, 1.0, f32::NAN, 2.0], |x| x.to_le_bytes()));
        assert!(matches!(array(&turned), Err(NpyError::NotFinite { row: 0, .. })));
    }
}
