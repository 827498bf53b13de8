//! NumPy's `.npz` format: a ZIP archive of arrays, as `numpy.savez` and `numpy.savez_compressed` write it.
//!
//! Of ZIP, what those two make: stored or deflated members up to 4 GB, found through the directory at the end. A
//! member may not unpack beyond what the array's own header announces.

use std::io::Read;

use flate2::{CrcReader, read::DeflateDecoder};

use super::{
    idx::MAX_RATIO,
    npy::{self, Array, NpyError},
};

/// What is wrong with an archive.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NpzError {
    /// Another kind of file, or one that was cut off.
    #[error("found no directory at the end, expected a ZIP archive of arrays")]
    NotZip,
    /// A directory that does not fit the file.
    #[error("the archive is damaged: {what}")]
    Damaged {
        /// In which way.
        what: &'static str,
    },
    /// A member that is packed in another way.
    #[error("array `{name}`: found {found}, expected it stored or deflated, and below 4 GB")]
    Packed {
        /// The array.
        name: String,
        /// How it is packed.
        found: String,
    },
    /// An array that was asked for and is not there.
    #[error("no array `{name}`, found {}", super::few(found))]
    NoArray {
        /// The name.
        name: String,
        /// The arrays there are.
        found: Vec<String>,
    },
    /// An array with a flaw of its own.
    #[error("array `{name}`: {flaw}")]
    Array {
        /// The array.
        name: String,
        /// The flaw.
        flaw: NpyError,
    },
    /// Content that is not what was packed.
    #[error("array `{name}` is damaged: found the check sum `{found:08x}`, expected `{expected:08x}`")]
    Checksum {
        /// The array.
        name: String,
        /// CRC-32 of the content.
        found: u32,
        /// That of the directory.
        expected: u32,
    },
}

impl NpzError {
    pub(crate) fn hint(&self) -> String {
        match self {
            NpzError::NoArray { .. } => {
                "the stream file's `features`, `label` and `task` name arrays".to_owned()
            }
            NpzError::Array { flaw, .. } => flaw.hint(),
            NpzError::NotZip => {
                "write it with `numpy.savez`; `format` in the stream file says what the files are".to_owned()
            }
            _ => "write the file again with `numpy.savez`".to_owned(),
        }
    }
}

/// An archive, whose arrays are unpacked when asked for.
#[derive(Debug)]
pub struct Npz<'b> {
    bytes: &'b [u8],
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    name: String,
    encrypted: bool,
    method: u16,
    crc: u32,
    packed: u32,
    unpacked: u32,
    offset: u32,
}

/// `N` bytes at `at`, if they are there.
fn bytes<const N: usize>(file: &[u8], at: usize) -> Option<[u8; N]> {
    file.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn short(file: &[u8], at: usize) -> Option<u16> {
    bytes(file, at).map(u16::from_le_bytes)
}

fn long(file: &[u8], at: usize) -> Option<u32> {
    bytes(file, at).map(u32::from_le_bytes)
}

/// Reads the directory of an archive.
pub fn read(file: &[u8]) -> Result<Npz<'_>, NpzError> {
    // The end of the directory has 22 bytes, and a comment of at most 65,535 after it.
    let (last, first) = (file.len().saturating_sub(22), file.len().saturating_sub(22 + 65_535));
    let end =
        (first..=last).rev().find(|&at| bytes(file, at) == Some(*b"PK\x05\x06")).ok_or(NpzError::NotZip)?;
    directory(file, end).ok_or(NpzError::Damaged { what: "its directory does not fit the file" })
}

fn directory(file: &[u8], end: usize) -> Option<Npz<'_>> {
    let (count, mut at) = (short(file, end + 10)?, long(file, end + 16)? as usize);
    let mut members = Vec::new();
    for _ in 0..count {
        if bytes(file, at)? != *b"PK\x01\x02" {
            return None;
        }
        let [name, extra, comment] = [28, 30, 32].map(|field| short(file, at + field).map(usize::from));
        let text = file.get(at + 46..at + 46 + name?)?;
        members.push(Member {
            name: String::from_utf8_lossy(text).trim_end_matches(".npy").to_owned(),
            encrypted: short(file, at + 8)? & 1 == 1,
            method: short(file, at + 10)?,
            crc: long(file, at + 16)?,
            packed: long(file, at + 20)?,
            unpacked: long(file, at + 24)?,
            offset: long(file, at + 42)?,
        });
        at += 46 + name? + extra? + comment?;
    }
    Some(Npz { bytes: file, members })
}

impl Npz<'_> {
    /// The names of the arrays.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|member| member.name.as_str())
    }

    /// Unpacks an array.
    pub fn array(&self, name: &str) -> Result<Array, NpzError> {
        let member = self.members.iter().find(|member| member.name == name).ok_or_else(|| {
            NpzError::NoArray { name: name.to_owned(), found: self.names().map(str::to_owned).collect() }
        })?;
        let packed =
            self.packed(member).ok_or(NpzError::Damaged { what: "a member lies outside the file" })?;
        let len = u64::from(member.unpacked);
        let unpack: Box<dyn Read> = match member.method {
            0 if !member.encrypted && member.packed == member.unpacked => Box::new(packed),
            // Nobody can pack better than this, so a larger promise is a lie.
            8 if !member.encrypted && len <= u64::from(member.packed).saturating_mul(MAX_RATIO) => {
                Box::new(DeflateDecoder::new(packed))
            }
            method => {
                let found = match (member.encrypted, method) {
                    (true, _) => "encryption".to_owned(),
                    (_, 0 | 8) => format!("{} bytes packed into {}", member.unpacked, member.packed),
                    _ => format!("the packing method {method}"),
                };
                return Err(NpzError::Packed { name: name.to_owned(), found });
            }
        };
        let mut unpack = CrcReader::new(unpack);
        let array =
            npy::read(&mut unpack, len).map_err(|flaw| NpzError::Array { name: name.to_owned(), flaw })?;
        match unpack.crc().sum() {
            found if found == member.crc => Ok(array),
            found => Err(NpzError::Checksum { name: name.to_owned(), found, expected: member.crc }),
        }
    }

    fn packed(&self, member: &Member) -> Option<&[u8]> {
        let at = member.offset as usize;
        if bytes(self.bytes, at)? != *b"PK\x03\x04" {
            return None;
        }
        let start =
            at + 30 + usize::from(short(self.bytes, at + 26)?) + usize::from(short(self.bytes, at + 28)?);
        self.bytes.get(start..start.checked_add(member.packed as usize)?)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, Crc, write::DeflateEncoder};

    use super::{super::npy::tests::npy, *};

    /// An archive as `numpy.savez` writes it, or `numpy.savez_compressed` if `deflate`.
    fn zip(members: &[(&str, Vec<u8>)], deflate: bool) -> Vec<u8> {
        let (mut file, mut directory) = (Vec::new(), Vec::new());
        for (name, content) in members {
            let mut crc = Crc::new();
            crc.update(content);
            let mut packed = content.clone();
            if deflate {
                let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
                encoder.write_all(content).unwrap();
                packed = encoder.finish().unwrap();
            }
            let method = if deflate { 8_u16 } else { 0 };
            let name = format!("{name}.npy");
            // Version, flags, method, time, date, check sum, both lengths, length of the name.
            let mut common = [&20_u16.to_le_bytes()[..], &[0; 2], &method.to_le_bytes(), &[0; 4]].concat();
            for number in [crc.sum(), packed.len() as u32, content.len() as u32] {
                common.extend(number.to_le_bytes());
            }
            common.extend((name.len() as u16).to_le_bytes());
            let offset = (file.len() as u32).to_le_bytes();
            // NumPy leaves room for long lengths in the local header, not in the directory.
            let extra = [1, 0, 16, 0].into_iter().chain([0; 16]).collect::<Vec<u8>>();
            file.extend(
                [b"PK\x03\x04", &common[..], &20_u16.to_le_bytes(), name.as_bytes(), &extra, &packed]
                    .concat(),
            );
            directory
                .extend([b"PK\x01\x02", &[20, 0][..], &common, &[0; 12], &offset, name.as_bytes()].concat());
        }
        let count = (members.len() as u16).to_le_bytes();
        let [size, start] = [directory.len() as u32, file.len() as u32].map(u32::to_le_bytes);
        [&file[..], &directory, b"PK\x05\x06", &[0; 4], &count, &count, &size, &start, &[0; 2]].concat()
    }

    fn two(deflate: bool) -> Vec<u8> {
        let x = npy("'|u1'", false, "(2, 3)", &[1, 2, 3, 4, 5, 6]);
        zip(&[("x", x), ("y", npy("'|S1'", false, "(2,)", b"ab"))], deflate)
    }

    #[test]
    fn stored_and_deflated_arrays_are_read_by_name() {
        for deflate in [false, true] {
            let file = two(deflate);
            let archive = read(&file).unwrap();
            assert_eq!(archive.names().collect::<Vec<_>>(), ["x", "y"]);
            assert_eq!(archive.array("x").unwrap().floats().unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
            assert_eq!(archive.array("y").unwrap().words().unwrap().known, ["a", "b"]);
            let error = archive.array("z").unwrap_err();
            assert_eq!(error.to_string(), "no array `z`, found `x`, `y`");
        }
    }

    #[test]
    fn files_that_numpy_wrote_are_read() {
        let stored = include_bytes!("../../tests/stored.npz");
        let deflated = include_bytes!("../../tests/deflated.npz");
        for file in [&stored[..], deflated] {
            let archive = read(file).unwrap();
            let x = archive.array("x").unwrap();
            assert_eq!(
                (x.dims.as_slice(), x.floats().unwrap()),
                (&[4, 2][..], vec![0.5, -1.0, 2.0, 3.0, 4.0, 5.25, 6.0, 7.0])
            );
            assert_eq!(archive.array("y").unwrap().words().unwrap().known, ["a", "b", "ä"]);
            assert_eq!(archive.array("t").unwrap().words().unwrap().of, [0, 0, 1, 1]);
        }
    }

    #[test]
    fn every_truncation_and_every_flipped_byte_is_survived() {
        for deflate in [false, true] {
            let whole = two(deflate);
            for cut in 0..whole.len() {
                assert!(read(&whole[..cut]).is_err(), "{cut}");
            }
            for at in 0..whole.len() {
                let mut file = whole.clone();
                file[at] ^= 0xff;
                let arrays = read(&file).map(|archive| ["x", "y"].map(|name| archive.array(name)));
                // Time, date and version of a member are not looked at; what is must not change unseen.
                if let Ok([Ok(x), Ok(y)]) = arrays {
                    let good = read(&whole).unwrap();
                    assert_eq!((x, y), (good.array("x").unwrap(), good.array("y").unwrap()), "byte {at}");
                }
            }
        }
    }

    #[test]
    fn other_files_are_refused() {
        assert!(matches!(read(b""), Err(NpzError::NotZip)));
        assert!(matches!(read(&npy("'|u1'", false, "(1,)", &[0])), Err(NpzError::NotZip)));
        let file = zip(&[("x", b"no array".to_vec())], false);
        assert!(matches!(
            read(&file).unwrap().array("x"),
            Err(NpzError::Array { flaw: NpyError::Magic { .. }, .. })
        ));
    }

    #[test]
    fn damage_is_told_from_the_check_sum() {
        let mut file = two(false);
        let body = file.windows(6).position(|w| w == [1, 2, 3, 4, 5, 6]).unwrap();
        file[body] = 9;
        assert!(matches!(read(&file).unwrap().array("x"), Err(NpzError::Checksum { .. })));
    }

    #[test]
    fn methods_and_lengths_that_cannot_be_are_refused() {
        for (field, value) in [(8, 1), (10, 12), (24, 0xff)] {
            let mut file = two(true);
            let entry = file.windows(4).position(|w| w == b"PK\x01\x02").unwrap();
            // The highest byte of a length, so that it promises 4 GB.
            file[entry + field + if field == 24 { 3 } else { 0 }] = value;
            assert!(matches!(read(&file).unwrap().array("x"), Err(NpzError::Packed { .. })), "{field}");
        }
    }
}
