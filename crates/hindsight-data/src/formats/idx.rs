//! The IDX format of MNIST: a magic number, big-endian `u32` dimensions, then one byte per element.
//!
//! Files come from outside, so nothing in them is believed: memory is taken only after the header
//! has been held against the length of the file, and a compressed file may not unpack beyond what
//! its header announces.

use std::io::{self, Read};

use flate2::read::MultiGzDecoder;

/// No file may unpack to more than this (MNIST has 47 MB).
pub const MAX_BYTES: u64 = 1 << 30;

/// The most that deflate can make of one byte.
pub(crate) const MAX_RATIO: u64 = 1032;

/// The magic number of a `u8` array ends in its number of dimensions.
const MAGIC: u32 = 0x0800;

/// What is wrong with an IDX file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
// The message of a variant says what its fields are.
#[allow(missing_docs)]
pub enum IdxError {
    /// Reading or unpacking failed.
    #[error("cannot be read: {0}")]
    Read(io::Error),
    /// Another kind of file.
    #[error(
        "found the magic number `{found:#010x}`, expected `{expected:#010x}` ({})",
        kind(*expected).unwrap_or("bytes")
    )]
    Magic { found: u32, expected: u32 },
    /// Fewer bytes than the header announces, or not even a header.
    #[error("ends after {found} bytes, expected {expected}")]
    Short { found: u64, expected: u64 },
    /// More bytes than the header announces.
    #[error("goes on after the {expected} bytes that its header announces")]
    Trailing { expected: u64 },
    /// A dimension is zero, or the product is more than such a file can hold.
    #[error("found the dimensions `{found:?}`, expected none of zero and no more than fit the file")]
    Dimensions { found: Vec<u32> },
}

impl From<io::Error> for IdxError {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

/// What a file with this magic number holds.
pub(crate) fn kind(magic: u32) -> Option<&'static str> {
    match magic {
        0x0801 => Some("labels"),
        0x0803 => Some("images"),
        _ => None,
    }
}

/// Images of one size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Images {
    /// Height and width.
    pub size: [usize; 2],
    /// Pixels, `[n, height * width]`.
    pub pixels: Vec<u8>,
}

/// Reads an image file, plain or gzip, of which `stored` bytes are on the disk.
pub fn images(source: impl Read, stored: u64) -> Result<Images, IdxError> {
    let ([_, height, width], pixels) = array(source, stored)?;
    Ok(Images { size: [height, width], pixels })
}

/// Reads a label file, plain or gzip, of which `stored` bytes are on the disk.
pub fn labels(source: impl Read, stored: u64) -> Result<Vec<u8>, IdxError> {
    let ([_], labels) = array(source, stored)?;
    Ok(labels)
}

/// The content of a file, and whether it was compressed: told by its first two bytes, as names lie.
pub(crate) fn unpack<'a>(mut source: impl Read + 'a) -> io::Result<(Box<dyn Read + 'a>, bool)> {
    let mut head = Vec::new();
    source.by_ref().take(2).read_to_end(&mut head)?;
    let packed = head == [0x1f, 0x8b];
    let whole = io::Cursor::new(head).chain(source);
    Ok(if packed { (Box::new(MultiGzDecoder::new(whole)), true) } else { (Box::new(whole), false) })
}

fn array<const D: usize>(source: impl Read, stored: u64) -> Result<([usize; D], Vec<u8>), IdxError> {
    let (mut source, packed) = unpack(source)?;
    let mut header = Vec::new();
    let header_len = 4 + 4 * D as u64;
    source.by_ref().take(header_len).read_to_end(&mut header)?;

    let mut words = header.chunks_exact(4).map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]));
    let expected = MAGIC + D as u32;
    // A wrong kind of file says more than a short one, so it is told first.
    match words.next() {
        Some(found) if found != expected => return Err(IdxError::Magic { found, expected }),
        _ => fits(header.len() as u64, header_len)?,
    }
    let dims: Vec<u32> = words.collect();
    let body_len = dims
        .iter()
        .try_fold(1_u64, |product, &d| product.checked_mul(u64::from(d)))
        .filter(|&n| 0 < n && n <= MAX_BYTES && (!packed || n <= stored.saturating_mul(MAX_RATIO)))
        .ok_or_else(|| IdxError::Dimensions { found: dims.clone() })?;
    let len = header_len + body_len;
    let mut body = Vec::new();
    if !packed {
        fits(stored, len)?;
        body.reserve_exact(body_len as usize + 1);
    }
    source.take(body_len + 1).read_to_end(&mut body)?;
    fits(header_len + body.len() as u64, len)?;
    Ok((std::array::from_fn(|i| dims[i] as usize), body))
}

fn fits(found: u64, expected: u64) -> Result<(), IdxError> {
    match found.cmp(&expected) {
        std::cmp::Ordering::Less => Err(IdxError::Short { found, expected }),
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Greater => Err(IdxError::Trailing { expected }),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn idx(magic: u32, dims: &[u32], body: &[u8]) -> Vec<u8> {
        let words = [&[magic], dims].concat();
        let header = words.iter().flat_map(|w| w.to_be_bytes());
        header.chain(body.iter().copied()).collect()
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        packed.write_all(bytes).unwrap();
        packed.finish().unwrap()
    }

    fn images_of(bytes: &[u8]) -> Result<Images, IdxError> {
        images(bytes, bytes.len() as u64)
    }

    fn labels_of(bytes: &[u8]) -> Result<Vec<u8>, IdxError> {
        labels(bytes, bytes.len() as u64)
    }

    fn two_images() -> Vec<u8> {
        idx(0x803, &[2, 2, 3], &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])
    }

    #[test]
    fn plain_and_compressed_files_read_the_same() {
        let plain = two_images();
        let read = images_of(&plain).unwrap();
        assert_eq!(read.size, [2, 3]);
        assert_eq!(read.pixels, (1..=12).collect::<Vec<u8>>());
        assert_eq!(images_of(&gzip(&plain)).unwrap(), read);
        assert_eq!(labels_of(&gzip(&idx(0x801, &[3], &[7, 0, 9]))).unwrap(), [7, 0, 9]);
    }

    #[test]
    fn a_label_file_is_not_an_image_file() {
        let error = images_of(&idx(0x801, &[3], &[7, 0, 9])).unwrap_err();
        assert_eq!(error.to_string(), "found the magic number `0x00000801`, expected `0x00000803` (images)");
        assert!(matches!(labels_of(&two_images()), Err(IdxError::Magic { found: 0x803, .. })));
    }

    #[test]
    fn a_web_page_is_not_an_idx_file() {
        for page in ["<!DOCTYPE html><html>404</html>", "<ht>"] {
            assert!(matches!(images_of(page.as_bytes()), Err(IdxError::Magic { .. })));
            assert!(matches!(images_of(&gzip(page.as_bytes())), Err(IdxError::Magic { .. })));
        }
    }

    #[test]
    fn every_truncation_is_found() {
        let whole = two_images();
        let packed = gzip(&whole);
        for cut in 0..whole.len() {
            let found = cut as u64;
            match images_of(&whole[..cut]).unwrap_err() {
                IdxError::Short { found: f, expected } => {
                    assert_eq!((f, expected), (found, if cut < 16 { 16 } else { 28 }));
                }
                other => panic!("{other}"),
            }
            assert!(matches!(images_of(&gzip(&whole[..cut])), Err(IdxError::Short { .. })));
        }
        for cut in 0..packed.len() {
            assert!(images_of(&packed[..cut]).is_err(), "{cut} of {} bytes", packed.len());
        }
    }

    #[test]
    fn bytes_after_the_end_are_found() {
        let long = [two_images(), vec![0]].concat();
        assert!(matches!(images_of(&long), Err(IdxError::Trailing { expected: 28 })));
        assert!(matches!(images_of(&gzip(&long)), Err(IdxError::Trailing { expected: 28 })));
        assert!(images_of(&[gzip(&two_images()), vec![0]].concat()).is_err());
    }

    #[test]
    fn corrupt_compressed_bytes_are_found() {
        let packed = gzip(&two_images());
        let middle = packed.len() / 2;
        for flipped in [middle, packed.len() - 6] {
            let mut corrupt = packed.clone();
            corrupt[flipped] ^= 0xff;
            assert!(images_of(&corrupt).is_err(), "byte {flipped}");
        }
    }

    #[test]
    fn zero_and_absurd_dimensions_are_refused() {
        for dims in [[0, 28, 28], [2, 0, 3], [2, 3, 0], [u32::MAX; 3], [u32::MAX, 28, 28], [1 << 16; 3]] {
            for bytes in [idx(0x803, &dims, &[0; 9]), gzip(&idx(0x803, &dims, &[0; 9]))] {
                assert!(matches!(images_of(&bytes), Err(IdxError::Dimensions { .. })), "{dims:?}");
            }
        }
        assert!(matches!(labels_of(&idx(0x801, &[0], &[])), Err(IdxError::Dimensions { .. })));
    }

    #[test]
    fn a_small_file_cannot_ask_for_much_memory() {
        // 784 MB announced, 9 bytes there: refused before any of it is reserved.
        let claim = idx(0x803, &[1_000_000, 28, 28], &[0; 9]);
        assert!(matches!(images_of(&claim), Err(IdxError::Short { found: 25, .. })));
        assert!(matches!(images_of(&gzip(&claim)), Err(IdxError::Dimensions { .. })));
        // A bomb unpacks no further than one byte past what its header announces.
        let bomb = gzip(&idx(0x803, &[1, 2, 2], &vec![0; 1 << 22]));
        assert!(matches!(images_of(&bomb), Err(IdxError::Trailing { expected: 20 })));
    }
}
