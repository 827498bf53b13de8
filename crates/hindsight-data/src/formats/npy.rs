//! NumPy's `.npy` format: a magic number, a header that tells type and dimensions, then the elements.
//!
//! As with all files from outside, memory is taken only after the header has been held against the length.

use std::io::{self, Read};

use super::table::Words;

/// Headers are shorter than this, also of arrays with many fields.
const MAX_HEADER: usize = 1 << 16;

/// What is wrong with an array.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NpyError {
    /// Reading or unpacking failed.
    #[error("cannot be read: {0}")]
    Read(#[from] io::Error),
    /// Another kind of file.
    #[error("begins with `{found}`, expected `\\x93NUMPY` and version 1, 2 or 3")]
    Magic {
        /// The first bytes.
        found: String,
    },
    /// A header that does not tell what it should.
    #[error("found the header `{found}`, expected `descr`, `fortran_order` and `shape`")]
    Header {
        /// The header, or its beginning.
        found: String,
    },
    /// Elements of a kind that has no meaning here.
    #[error("found elements of type `{found}`, expected {expected}")]
    Type {
        /// NumPy's name of it.
        found: String,
        /// What would do.
        expected: &'static str,
    },
    /// Dimensions that cannot be.
    #[error("found the dimensions `{found:?}`, expected {expected}")]
    Dimensions {
        /// Those of the header.
        found: Vec<usize>,
        /// What would do.
        expected: &'static str,
    },
    /// Fewer bytes than the header announces, or not even a header.
    #[error("ends after {found} bytes, expected {expected}")]
    Short {
        /// Length.
        found: u64,
        /// Length of the header and what it announces.
        expected: u64,
    },
    /// More bytes than the header announces.
    #[error("goes on after the {expected} bytes that its header announces")]
    Trailing {
        /// Length of the header and what it announces.
        expected: u64,
    },
    /// A feature that is not a number, infinite, or beyond 32 bits.
    #[error("row {row}: found `{found}`, expected a finite number below 3.4e38")]
    NotFinite {
        /// The row, from 0.
        row: usize,
        /// What stands there.
        found: f64,
    },
    /// A word that is no text, or is empty.
    #[error("row {row}: found no text, expected a word")]
    Text {
        /// The row, from 0.
        row: usize,
    },
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
            _ => "write the file again with `numpy.save` or `numpy.savez`",
        }
        .to_owned()
    }
}

/// An array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Array {
    /// Its dimensions, at least one, none of them zero.
    pub dims: Vec<usize>,
    kind: Kind,
    big_endian: bool,
    fortran: bool,
    /// Bytes of an element.
    size: usize,
    bytes: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Bool,
    Int,
    Unsigned,
    Float,
    /// Four bytes a character.
    Unicode,
    /// One byte a character.
    Bytes,
}

/// Reads an array from a source of `len` bytes.
pub fn read(mut source: impl Read, len: u64) -> Result<Array, NpyError> {
    let mut take = |count: usize| -> Result<Vec<u8>, NpyError> {
        let mut bytes = Vec::new();
        source.by_ref().take(count as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let start = take(8)?;
    // The length of the header has two bytes in version 1, four in versions 2 and 3.
    let wide = match start[..] {
        [0x93, b'N', b'U', b'M', b'P', b'Y', version @ 1..=3, _] => version > 1,
        _ => return Err(NpyError::Magic { found: start.escape_ascii().to_string() }),
    };
    let size = take(if wide { 4 } else { 2 })?;
    let header_len = size.iter().rev().fold(0, |len, &byte| len << 8 | usize::from(byte));
    let header = take(header_len.min(MAX_HEADER))?;
    let header = String::from_utf8_lossy(&header);
    if header_len > MAX_HEADER {
        return Err(NpyError::Header { found: format!("{header_len} bytes") });
    }
    let (kind, big_endian, size, fortran, dims) = parse(&header)?;

    let expected = "none of zero and no more than fit the file";
    let body = dims.iter().try_fold(size, |product, &d| product.checked_mul(d)).filter(|&n| n > 0);
    let body = body.ok_or_else(|| NpyError::Dimensions { found: dims.clone(), expected })?;
    let before = (8 + if wide { 4 } else { 2 } + header_len) as u64;
    let expected = before.saturating_add(body as u64);
    if len < expected {
        return Err(NpyError::Short { found: len, expected });
    }
    let bytes = take(body.saturating_add(1))?;
    match bytes.len() {
        n if n < body => Err(NpyError::Short { found: before + n as u64, expected }),
        n if n > body => Err(NpyError::Trailing { expected }),
        _ => Ok(Array { dims, kind, big_endian, fortran, size, bytes }),
    }
}

/// Type, byte order, bytes of an element, order of elements and dimensions, from a header such as
/// `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }`.
fn parse(header: &str) -> Result<(Kind, bool, usize, bool, Vec<usize>), NpyError> {
    let flaw = || NpyError::Header { found: header.chars().take(100).collect::<String>().trim().to_owned() };
    let after = |key: &str| -> Result<&str, NpyError> {
        let (_, rest) = header.split_once(&format!("'{key}'")).ok_or_else(flaw)?;
        Ok(rest.trim_start().strip_prefix(':').ok_or_else(flaw)?.trim_start())
    };
    let expected = "numbers, text or truth values";
    let descr = after("descr")?;
    // Arrays of records have a list here.
    let descr = descr
        .strip_prefix('\'')
        .and_then(|rest| Some(rest.split_once('\'')?.0))
        .ok_or_else(|| NpyError::Type { found: descr.chars().take(20).collect(), expected })?;
    let unknown = || NpyError::Type { found: descr.to_owned(), expected };
    let number = descr.get(2..).and_then(|size| size.parse::<usize>().ok()).ok_or_else(unknown)?;
    let (kind, size) = match (descr.as_bytes()[1], number) {
        (b'b', 1) => (Kind::Bool, 1),
        (b'i', 1 | 2 | 4 | 8) => (Kind::Int, number),
        (b'u', 1 | 2 | 4 | 8) => (Kind::Unsigned, number),
        (b'f', 4 | 8) => (Kind::Float, number),
        (b'S', 1..=65_536) => (Kind::Bytes, number),
        (b'U', 1..=65_536) => (Kind::Unicode, 4 * number),
        _ => return Err(unknown()),
    };
    let fortran = match after("fortran_order")? {
        rest if rest.starts_with("True") => true,
        rest if rest.starts_with("False") => false,
        _ => return Err(flaw()),
    };
    let shape =
        after("shape")?.strip_prefix('(').and_then(|rest| Some(rest.split_once(')')?.0)).ok_or_else(flaw)?;
    let dims = shape.split(',').map(str::trim).filter(|text| !text.is_empty());
    let dims = dims.map(str::parse).collect::<Result<Vec<usize>, _>>().map_err(|_| flaw())?;
    if dims.is_empty() || dims.len() > 32 {
        return Err(NpyError::Dimensions { found: dims, expected: "1 to 32 of them" });
    }
    Ok((kind, descr.starts_with('>'), size, fortran, dims))
}

impl Array {
    /// Channels, height and width of a sample, where the first dimension is that of samples: the last three of
    /// four, two of three, or features.
    pub fn shape(&self) -> Result<[usize; 3], NpyError> {
        Ok(match self.dims[1..] {
            [] => [1, 1, 1],
            [width] => [1, 1, width],
            [height, width] => [1, height, width],
            [channels, height, width] => [channels, height, width],
            _ => {
                let expected = "at most 4: samples, channels, height, width";
                return Err(NpyError::Dimensions { found: self.dims.clone(), expected });
            }
        })
    }

    /// The elements as numbers, the last dimension running fastest.
    pub fn floats(&self) -> Result<Vec<f32>, NpyError> {
        let width: usize = self.dims[1..].iter().product();
        self.elements()
            .enumerate()
            .map(|(i, element)| {
                let found = match self.kind {
                    Kind::Float => self.float(element),
                    Kind::Int | Kind::Unsigned | Kind::Bool => self.integer(element) as f64,
                    Kind::Unicode | Kind::Bytes => {
                        return Err(NpyError::Type { found: "text".to_owned(), expected: "numbers" });
                    }
                };
                let value = found as f32;
                if value.is_finite() { Ok(value) } else { Err(NpyError::NotFinite { row: i / width, found }) }
            })
            .collect()
    }

    /// The elements of an array of one dimension as words: whole numbers without a point, text without what
    /// fills it up.
    pub fn words(&self) -> Result<Words, NpyError> {
        if self.dims.iter().skip(1).any(|&d| d != 1) {
            return Err(NpyError::Dimensions { found: self.dims.clone(), expected: "one: the samples" });
        }
        let mut words = Words::default();
        for (row, element) in self.elements().enumerate() {
            let word = match self.kind {
                Kind::Bool | Kind::Int | Kind::Unsigned => self.integer(element).to_string(),
                Kind::Float => match self.float(element) {
                    found if found.is_finite() => found.to_string(),
                    found => return Err(NpyError::NotFinite { row, found }),
                },
                Kind::Bytes => String::from_utf8(element.to_vec()).map_err(|_| NpyError::Text { row })?,
                Kind::Unicode => {
                    let letters =
                        element.chunks_exact(4).map(|letter| char::from_u32(self.word(letter) as u32));
                    letters.collect::<Option<String>>().ok_or(NpyError::Text { row })?
                }
            };
            match word.trim_end_matches('\0').trim() {
                "" => return Err(NpyError::Text { row }),
                word => words.push(word),
            }
        }
        Ok(words)
    }

    /// The bytes of each element, the last dimension running fastest.
    fn elements(&self) -> impl Iterator<Item = &[u8]> {
        let count = self.bytes.len() / self.size;
        (0..count).map(move |i| {
            let mut place = i;
            if self.fortran {
                // There the first dimension runs fastest.
                let (mut rest, mut stride) = (i, count);
                place = 0;
                for &d in self.dims.iter().rev() {
                    stride /= d;
                    place += rest % d * stride;
                    rest /= d;
                }
            }
            &self.bytes[place * self.size..][..self.size]
        })
    }

    /// Up to eight bytes as one number, without sign.
    fn word(&self, bytes: &[u8]) -> u64 {
        let join = |word: u64, &byte: &u8| word << 8 | u64::from(byte);
        if self.big_endian { bytes.iter().fold(0, join) } else { bytes.iter().rev().fold(0, join) }
    }

    fn integer(&self, bytes: &[u8]) -> i128 {
        let (word, unused) = (self.word(bytes), 64 - 8 * bytes.len());
        match self.kind {
            Kind::Int => i128::from((word << unused) as i64 >> unused),
            _ => i128::from(word),
        }
    }

    fn float(&self, bytes: &[u8]) -> f64 {
        match self.word(bytes) {
            word if bytes.len() == 4 => f64::from(f32::from_bits(word as u32)),
            word => f64::from_bits(word),
        }
    }
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

    fn array(bytes: &[u8]) -> Result<Array, NpyError> {
        read(bytes, bytes.len() as u64)
    }

    fn bytes<const N: usize, T>(values: &[T], of: impl Fn(&T) -> [u8; N]) -> Vec<u8> {
        values.iter().flat_map(of).collect()
    }

    #[test]
    fn numbers_of_all_types_are_read() {
        let floats =
            |descr: &str, body: &[u8]| array(&npy(descr, false, "(2,)", body)).unwrap().floats().unwrap();
        assert_eq!(floats("'<f4'", &bytes(&[0.5_f32, -3.0], |x| x.to_le_bytes())), [0.5, -3.0]);
        assert_eq!(floats("'>f8'", &bytes(&[0.5_f64, -3.0], |x| x.to_be_bytes())), [0.5, -3.0]);
        assert_eq!(floats("'|i1'", &[5, 0xfe]), [5.0, -2.0]);
        assert_eq!(floats("'|u1'", &[5, 0xfe]), [5.0, 254.0]);
        assert_eq!(floats("'|b1'", &[0, 1]), [0.0, 1.0]);
        assert_eq!(floats("'<i8'", &bytes(&[-7_i64, 9], |x| x.to_le_bytes())), [-7.0, 9.0]);
        assert_eq!(floats("'>u2'", &[1, 0, 0, 3]), [256.0, 3.0]);
    }

    #[test]
    fn words_are_numbers_without_a_point_and_text_without_filling() {
        let words = |descr: &str, body: &[u8]| -> Vec<String> {
            let words = array(&npy(descr, false, "(2,)", body)).unwrap().words().unwrap();
            (0..2).map(|i| words.get(i).to_owned()).collect()
        };
        assert_eq!(words("'<i4'", &bytes(&[-1_i32, 12], |x| x.to_le_bytes())), ["-1", "12"]);
        assert_eq!(words("'<f8'", &bytes(&[3.0_f64, 0.5], |x| x.to_le_bytes())), ["3", "0.5"]);
        assert_eq!(words("'|S3'", b"ab\0cde"), ["ab", "cde"]);
        let letters = ['k', 'ä', '\0', 'z', '\0', '\0'];
        assert_eq!(words("'<U3'", &bytes(&letters, |&c| u32::from(c).to_le_bytes())), ["kä", "z"]);
        assert_eq!(words("'>U3'", &bytes(&letters, |&c| u32::from(c).to_be_bytes())), ["kä", "z"]);
    }

    #[test]
    fn fortran_order_is_turned_into_rows() {
        // [[0, 1, 2], [3, 4, 5]], column by column.
        let found = array(&npy("'|u1'", true, "(2, 3)", &[0, 3, 1, 4, 2, 5])).unwrap();
        assert_eq!(found.floats().unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        let deep: Vec<u8> = (0..24).map(|k| (k % 2 * 12 + k / 2 % 3 * 4 + k / 6) as u8).collect();
        let found = array(&npy("'|u1'", true, "(2, 3, 4)", &deep)).unwrap();
        assert_eq!(found.floats().unwrap(), (0..24).map(|i| i as f32).collect::<Vec<_>>());
        assert_eq!(found.shape().unwrap(), [1, 3, 4]);
    }

    #[test]
    fn the_first_dimension_is_that_of_samples() {
        let shape = |text: &str| array(&npy("'|u1'", false, text, &[0; 24])).unwrap().shape();
        assert_eq!(shape("(24,)").unwrap(), [1, 1, 1]);
        assert_eq!(shape("(4, 6)").unwrap(), [1, 1, 6]);
        assert_eq!(shape("(2, 3, 2, 2)").unwrap(), [3, 2, 2]);
        assert!(matches!(shape("(1, 2, 3, 2, 2)"), Err(NpyError::Dimensions { .. })));
        let table = array(&npy("'|u1'", false, "(2, 2)", &[0; 4])).unwrap();
        assert!(matches!(table.words(), Err(NpyError::Dimensions { .. })));
        let column = array(&npy("'|u1'", false, "(2, 1)", &[7, 8])).unwrap();
        assert_eq!(column.words().unwrap().known, ["7", "8"]);
    }

    #[test]
    fn every_truncation_is_found() {
        let whole = npy("'<f4'", false, "(2, 2)", &[0; 16]);
        assert!(array(&whole).is_ok());
        for cut in 0..whole.len() {
            assert!(array(&whole[..cut]).is_err(), "{cut}");
            // Also where the length is not known beforehand.
            assert!(read(&whole[..cut], u64::MAX).is_err(), "{cut}");
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
        for descr in ["'|O'", "'<f2'", "'<c8'", "[('a', '<f4')]", "''", "'<'", "'<U0'", "'ä4'", "'<M8[ns]'"]
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
    }

    #[test]
    fn what_is_not_finite_is_told_with_its_row() {
        for found in [f64::NAN, f64::INFINITY, 1e39] {
            let file = npy("'<f8'", false, "(2, 2)", &bytes(&[0.0, 1.0, found, 2.0], |x| x.to_le_bytes()));
            let error = array(&file).unwrap().floats().unwrap_err();
            assert!(matches!(error, NpyError::NotFinite { row: 1, .. }), "{error}");
        }
        let text = array(&npy("'|S1'", false, "(2,)", b"a\0")).unwrap();
        assert!(matches!(text.words(), Err(NpyError::Text { row: 1 })));
        assert!(matches!(text.floats(), Err(NpyError::Type { .. })));
        let lone = array(&npy("'<U1'", false, "(1,)", &0xd800_u32.to_le_bytes())).unwrap();
        assert!(matches!(lone.words(), Err(NpyError::Text { row: 0 })));
        let nan = array(&npy("'<f4'", false, "(1,)", &f32::NAN.to_le_bytes())).unwrap();
        assert!(matches!(nan.words(), Err(NpyError::NotFinite { row: 0, .. })));
    }
}
