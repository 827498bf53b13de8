//! The records of a CSV file, within limits: `csv` itself reads a record of any length.

use std::{
    cell::Cell as Shared,
    io::{self, Read},
    rc::Rc,
};

use csv::{ByteRecord, ReaderBuilder, Terminator};

use super::error::{CsvError, MAX_RATIO, MAX_RECORD};

/// How much may be read.
pub(super) struct CsvLimits {
    /// Size of a compressed file, and how much it may expand to.
    pub(super) packed: Option<(u64, u64)>,
    pub(super) total: Shared<u64>,
    record: Shared<u64>,
    /// Whether the end of the file was reached.
    ended: Shared<bool>,
}

impl CsvLimits {
    pub(super) fn new(packed: Option<u64>) -> CsvLimits {
        let packed = packed.map(|len| (len, len.saturating_mul(MAX_RATIO).max(1 << 28)));
        let total = Shared::new(packed.map_or(u64::MAX, |(_, most)| most));
        CsvLimits { packed, total, record: Shared::new(MAX_RECORD), ended: Shared::new(false) }
    }
}

struct Limited<R> {
    source: R,
    limits: Rc<CsvLimits>,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let CsvLimits { total, record, ended, .. } = &*self.limits;
        let most = total.get().min(record.get()).min(buffer.len() as u64) as usize;
        if most == 0 {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let read = self.source.read(&mut buffer[..most])?;
        ended.set(read == 0);
        total.set(total.get() - read as u64);
        record.set(record.get() - read as u64);
        Ok(read)
    }
}

/// The records of a file and the lines at which they begin.
pub(super) struct CsvRecords<R> {
    reader: csv::Reader<Limited<io::Chain<R, &'static [u8]>>>,
    limits: Rc<CsvLimits>,
    pub(super) record: ByteRecord,
}

impl<R: Read> CsvRecords<R> {
    pub(super) fn new(source: R, delimiter: u8, limits: CsvLimits) -> Self {
        let limits = Rc::new(limits);
        // The last line also ends, so the end of the file is reached within a record only if a quote is open.
        let source = Limited { source: source.chain(&b"\n"[..]), limits: limits.clone() };
        // Lines end at `\n` alone, so lines can be counted; a `\r` before it is trimmed with other
        // whitespace.
        let reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(delimiter)
            .terminator(Terminator::Any(b'\n'))
            .buffer_capacity(1 << 16)
            .from_reader(source);
        CsvRecords { reader, limits, record: ByteRecord::new() }
    }

    /// Reads the next record that is not blank and returns its line.
    pub(super) fn next(&mut self) -> Result<Option<u64>, CsvError> {
        loop {
            self.limits.record.set(MAX_RECORD);
            let start = self.reader.position().line();
            if !self.reader.read_byte_record(&mut self.record).map_err(|error| self.flaw(error, start))? {
                return Ok(None);
            }
            let inside = self.record.as_slice().iter().filter(|byte| **byte == b'\n').count() as u64;
            let end = self.reader.position().line();
            if self.limits.ended.get() {
                return Err(CsvError::Quote { line: end - inside });
            }
            // `Position` of the record itself is before the empty lines that `csv` skips.
            if self.record.len() > 1 || !self.record.as_slice().trim_ascii().is_empty() {
                return Ok(Some(end - 1 - inside));
            }
        }
    }

    fn flaw(&self, error: csv::Error, line: u64) -> CsvError {
        match &*self.limits {
            CsvLimits { packed: Some((packed, most)), total, .. } if total.get() == 0 => {
                CsvError::Expands { packed: *packed, most: *most }
            }
            CsvLimits { record, .. } if record.get() == 0 => CsvError::Long { line },
            _ => match error.into_kind() {
                csv::ErrorKind::Io(error) => CsvError::Read(error),
                other => CsvError::Read(io::Error::other(format!("{other:?}"))),
            },
        }
    }

    /// A value without the whitespace around it.
    pub(super) fn field(&self, i: usize, line: u64) -> Result<&str, CsvError> {
        str::from_utf8(&self.record[i]).map(str::trim).map_err(|_| CsvError::Text { line })
    }
}
