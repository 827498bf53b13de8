//! NumPy's `.npz` format: a ZIP archive of arrays, as `numpy.savez` and `numpy.savez_compressed` write it.

use std::io::{self, Read, Seek, SeekFrom};

use flate2::CrcReader;
use zip::{CompressionMethod, ZipArchive, read::ZipReadOptions, result::ZipError};

use super::{
    idx::MAX_RATIO,
    npy::{Array, NpyError, NpyFeatures},
    table::Categorical,
};

/// The values of a compressed array, 32 bits each, may take this much memory whatever its compressed size,
/// and beyond it as much as deflate could make of that size.
const MAX_EXPANDED: u64 = 1 << 29;

/// What is wrong with an archive.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
// The message of a variant says what its fields are.
#[allow(missing_docs)]
pub enum NpzError {
    /// Reading failed.
    #[error("cannot be read: {0}")]
    Read(io::Error),
    /// Another kind of file.
    #[error("begins with `{found}`, expected `PK`, a ZIP archive of arrays")]
    NotZip { found: String },
    /// A directory that does not match the file.
    #[error("the archive is damaged: {reason}")]
    Damaged { reason: String },
    /// A member that is encrypted, or compressed by another method.
    #[error("array `{name}`: found {found}, expected it stored or deflated")]
    Method { name: String, found: String },
    /// A member that expands too much.
    #[error("array `{name}`: found {found} bytes compressed to {packed}, expected at most {most}")]
    Expands { name: String, found: u64, packed: u64, most: u64 },
    /// An array that was asked for does not exist.
    #[error("no array `{name}`, found {}", super::few(found))]
    NoArray { name: String, found: Vec<String> },
    /// A flaw of an array.
    #[error("array `{name}`: {flaw}")]
    Array { name: String, flaw: NpyError },
    /// Content that does not match its checksum.
    #[error("array `{name}` is damaged: found the checksum `{found:08x}`, expected `{expected:08x}`")]
    Checksum { name: String, found: u32, expected: u32 },
}

impl NpzError {
    pub(crate) fn hint(&self) -> String {
        match self {
            NpzError::Read(_) => "is it a file, and may it be read?",
            NpzError::NoArray { .. } => "`features`, `label` and `task` in the stream file name arrays",
            NpzError::Array { flaw, .. } => return flaw.hint(),
            NpzError::NotZip { .. } => {
                "write it with `numpy.savez`; `format` in the stream file says what the files are"
            }
            NpzError::Expands { .. } => "write the file with `numpy.savez`, which does not compress",
            NpzError::Damaged { .. } | NpzError::Method { .. } | NpzError::Checksum { .. } => {
                "write the file again with `numpy.savez`"
            }
        }
        .to_owned()
    }
}

fn from_zip(error: ZipError) -> NpzError {
    match error {
        ZipError::Io(error) if error.kind() != io::ErrorKind::UnexpectedEof => NpzError::Read(error),
        ZipError::InvalidArchive(reason) => NpzError::Damaged { reason: reason.into_owned() },
        other => NpzError::Damaged { reason: other.to_string() },
    }
}

/// An archive whose arrays are read when asked for.
#[derive(Debug)]
pub struct Npz<R> {
    archive: ZipArchive<R>,
    len: u64,
}

impl<R: Read + Seek> Npz<R> {
    /// Reads the directory of an archive of `len` bytes.
    pub fn open(mut source: R, len: u64) -> Result<Npz<R>, NpzError> {
        let mut magic = Vec::new();
        source.by_ref().take(8).read_to_end(&mut magic).map_err(NpzError::Read)?;
        if !magic.starts_with(b"PK") {
            return Err(NpzError::NotZip { found: magic.escape_ascii().to_string() });
        }
        source.seek(SeekFrom::Start(0)).map_err(NpzError::Read)?;
        Ok(Npz { archive: ZipArchive::new(source).map_err(from_zip)?, len })
    }

    /// The names of the arrays.
    pub fn names(&self) -> Vec<String> {
        let names = self.archive.file_names_raw().map(String::from_utf8_lossy);
        names.map(|name| name.trim_end_matches(".npy").to_owned()).collect()
    }

    /// Reads an array of features.
    pub fn features(&mut self, name: &str) -> Result<NpyFeatures, NpzError> {
        self.array(name, |array| array.features())
    }

    /// Reads an array of labels.
    pub fn labels(&mut self, name: &str) -> Result<Categorical, NpzError> {
        self.array(name, |array| array.labels())
    }

    fn array<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&mut Array<&mut dyn Read>) -> Result<T, NpyError>,
    ) -> Result<T, NpzError> {
        let owned = || name.to_owned();
        let index = self.names().iter().position(|found| found == name);
        let index = index.ok_or_else(|| NpzError::NoArray { name: owned(), found: self.names() })?;
        let member = self.archive.by_index_data(index).map_err(from_zip)?;
        let (size, packed, expected) = (member.size(), member.compressed_size(), member.crc32());
        let most = match member.compression() {
            _ if member.encrypted() => Err("encryption".to_owned()),
            CompressionMethod::Stored => Ok(packed),
            CompressionMethod::Deflated => Ok(packed.saturating_mul(MAX_RATIO)),
            method => Err(format!("the compression method {method}")),
        };
        let most = most.map_err(|found| NpzError::Method { name: owned(), found })?;
        if packed > self.len {
            return Err(NpzError::Damaged { reason: "a member lies outside the file".to_owned() });
        }
        if size > most {
            return Err(NpzError::Expands { name: owned(), found: size, packed, most });
        }
        let most = most.max(MAX_EXPANDED);
        // The checksum is compared here, as `zip` does not tell its value.
        let options = ZipReadOptions::new().ignore_crc32(true);
        let member = self.archive.by_index_with_options(index, options).map_err(from_zip)?;
        // One byte beyond its size is enough to see that there are more.
        let mut source = CrcReader::new(member.take(size.saturating_add(1)));
        let flaw = |flaw| NpzError::Array { name: owned(), flaw };
        let read = match Array::open(&mut source as &mut dyn Read, size) {
            Ok(mut array) => match (array.count as u64).saturating_mul(4) {
                found if found > most && packed < size => {
                    return Err(NpzError::Expands { name: owned(), found, packed, most });
                }
                _ => read(&mut array),
            },
            Err(flaw) => Err(flaw),
        };
        // Damage explains what is wrong with the content.
        io::copy(&mut source, &mut io::sink()).map_err(|error| flaw(NpyError::Read(error)))?;
        match source.crc().sum() {
            found if found != expected => Err(NpzError::Checksum { name: owned(), found, expected }),
            _ => read.map_err(flaw),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write};

    use zip::{ZipWriter, write::SimpleFileOptions};

    use super::{super::npy::tests::npy, *};

    fn zip(members: &[(&str, Vec<u8>)], deflate: bool) -> Vec<u8> {
        let method = if deflate { CompressionMethod::Deflated } else { CompressionMethod::Stored };
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, content) in members {
            let options = SimpleFileOptions::default().compression_method(method);
            writer.start_file(format!("{name}.npy"), options).unwrap();
            writer.write_all(content).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    fn open(file: &[u8]) -> Result<Npz<Cursor<&[u8]>>, NpzError> {
        Npz::open(Cursor::new(file), file.len() as u64)
    }

    /// `x` and `y` of an archive.
    fn arrays(file: &[u8]) -> Result<(NpyFeatures, Categorical), NpzError> {
        let mut archive = open(file)?;
        Ok((archive.features("x")?, archive.labels("y")?))
    }

    fn two(deflate: bool) -> Vec<u8> {
        let x = npy("'|u1'", false, "(2, 3)", &[1, 2, 3, 4, 5, 6]);
        zip(&[("x", x), ("y", npy("'|S1'", false, "(2,)", b"ab"))], deflate)
    }

    #[test]
    fn stored_and_deflated_arrays_are_read_by_name() {
        for deflate in [false, true] {
            let file = two(deflate);
            assert_eq!(open(&file).unwrap().names(), ["x", "y"]);
            let (x, y) = arrays(&file).unwrap();
            assert_eq!(x, ([1, 1, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
            assert_eq!(y.categories, ["a", "b"]);
            let error = open(&file).unwrap().labels("z").unwrap_err();
            assert_eq!(error.to_string(), "no array `z`, found `x`, `y`");
        }
    }

    #[test]
    fn files_that_numpy_wrote_are_read() {
        let stored = include_bytes!("../../tests/stored.npz");
        let deflated = include_bytes!("../../tests/deflated.npz");
        for file in [&stored[..], deflated] {
            let (x, y) = arrays(file).unwrap();
            assert_eq!(x, ([1, 1, 2], vec![0.5, -1.0, 2.0, 3.0, 4.0, 5.25, 6.0, 7.0]));
            assert_eq!(y.categories, ["a", "b", "ä"]);
            assert_eq!(open(file).unwrap().labels("t").unwrap().codes, [0, 0, 1, 1]);
        }
    }

    #[test]
    fn every_truncation_and_every_flipped_byte_is_survived() {
        for deflate in [false, true] {
            let whole = two(deflate);
            for cut in 0..whole.len() {
                assert!(open(&whole[..cut]).is_err(), "{cut}");
            }
            for at in 0..whole.len() {
                let mut file = whole.clone();
                file[at] ^= 0xff;
                // Time, date and version of a member are not looked at; what is must not change unseen.
                if let Ok(found) = arrays(&file) {
                    assert_eq!(found, arrays(&whole).unwrap(), "byte {at}");
                }
            }
        }
    }

    #[test]
    fn other_files_are_refused() {
        assert!(matches!(open(b""), Err(NpzError::NotZip { .. })));
        assert!(matches!(open(&npy("'|u1'", false, "(1,)", &[0])), Err(NpzError::NotZip { .. })));
        assert!(matches!(open(b"PK\x03\x04 and no directory"), Err(NpzError::Damaged { .. })));
        let file = zip(&[("x", b"no array".to_vec())], false);
        assert!(matches!(arrays(&file), Err(NpzError::Array { flaw: NpyError::Magic { .. }, .. })));
    }

    #[test]
    fn damage_is_told_from_the_checksum() {
        let mut file = two(false);
        let body = file.windows(6).position(|w| w == [1, 2, 3, 4, 5, 6]).unwrap();
        file[body] = 9;
        assert!(matches!(arrays(&file), Err(NpzError::Checksum { .. })));
    }

    #[test]
    fn methods_and_sizes_that_cannot_be_are_refused() {
        // Flags, method, and the highest bytes of the compressed and the uncompressed size.
        for (field, value) in [(8, 1), (10, 12), (23, 0x7f), (27, 0x7f)] {
            let mut file = two(true);
            let entry = file.windows(4).position(|w| w == b"PK\x01\x02").unwrap();
            file[entry + field] = value;
            let error = arrays(&file).unwrap_err();
            match field {
                8 | 10 => assert!(matches!(error, NpzError::Method { .. }), "{error}"),
                23 => assert!(matches!(error, NpzError::Damaged { .. }), "{error}"),
                _ => assert!(matches!(error, NpzError::Expands { .. }), "{error}"),
            }
        }
    }

    #[test]
    fn a_small_archive_cannot_ask_for_much_memory() {
        let zeros = |descr, size: usize, count: usize| {
            zip(&[("x", npy(descr, false, &format!("({count},)"), &vec![0; count * size]))], true)
        };
        // 144 KB that are a good array of bytes, and would be 576 MB of values.
        let bytes = zeros("'|u1'", 1, 144 << 20);
        assert!(matches!(open(&bytes).unwrap().features("x"), Err(NpzError::Expands { .. })));
        assert_eq!(open(&zeros("'<f8'", 8, 1 << 20)).unwrap().features("x").unwrap().1.len(), 1 << 20);
    }
}
