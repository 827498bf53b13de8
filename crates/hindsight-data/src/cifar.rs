//! CIFAR-10 and CIFAR-100 in their binary versions: records of labels and 32x32 pixels of red, then of green,
//! then of blue.
//!
//! The files are read as they are, or out of the archive they are published in, which is never unpacked to
//! the disk.

use std::{
    fs::File,
    io::{self, BufReader, Read},
    path::Path,
};

use crate::{
    dataset::Dataset,
    error::DataError,
    formats::{
        cifar::{CifarError, CifarLayout, records},
        idx::{MAX_BYTES, MAX_RATIO, unpack},
    },
    published::{Original, Published},
    samples::Samples,
};

const SHAPE: [usize; 3] = [3, 32, 32];

/// One of the two.
pub(crate) struct Cifar {
    pub(crate) layout: CifarLayout,
    pub(crate) published: &'static Published,
    /// The files of records, that for test last.
    pub(crate) files: &'static [Original],
    /// The archive that holds them, in a folder of this name.
    pub(crate) archive: &'static Original,
    pub(crate) folder: &'static str,
    /// The names of the classes, with `_` for spaces.
    pub(crate) names: &'static str,
}

impl Cifar {
    /// Reads the files, or the archive, in one of the folders of `dir` or in `dir`.
    pub(crate) fn load(&self, dir: &Path) -> Result<Dataset, DataError> {
        let place = self.published.locate(dir);
        let mut splits = if place.files == std::slice::from_ref(self.archive) {
            self.read_archive(&self.published.require(&place.folder, self.archive)?)?
        } else {
            // All are looked for before one is read.
            let paths = self.files.iter().map(|file| self.published.require(&place.folder, file));
            let paths = paths.collect::<Result<Vec<_>, _>>()?;
            paths.iter().map(|path| self.read_file(path)).collect::<Result<_, _>>()?
        };
        let test = splits.pop().unwrap_or_default();
        let mut parts = splits.into_iter();
        let mut train = parts.next().unwrap_or_default();
        for part in parts {
            train.values.append(part.values);
            train.labels.extend(part.labels);
        }
        Ok(Dataset {
            name: self.published.name.into(),
            shape: SHAPE,
            classes: self.layout.classes(),
            class_names: self.names.split(' ').map(|name| name.replace('_', " ")).collect(),
            train,
            test,
            notes: Vec::new(),
        })
    }

    fn read_file(&self, path: &Path) -> Result<Samples, DataError> {
        let open = || Ok((File::open(path)?, path.metadata()?.len()));
        let buffered = |file| BufReader::with_capacity(1 << 16, file);
        open()
            .map_err(CifarError::Read)
            .and_then(|(file, bytes)| records(buffered(file), bytes, MAX_BYTES, self.layout))
            .map_err(|flaw| DataError::Cifar { path: path.into(), flaw })
    }

    /// Reads all files in one pass over the archive, whichever comes first.
    fn read_archive(&self, path: &Path) -> Result<Vec<Samples>, DataError> {
        let flaw = |flaw| DataError::Cifar { path: path.into(), flaw };
        let broken = |error: io::Error| flaw(CifarError::Read(error));
        let open = || Ok((File::open(path)?, path.metadata()?.len()));
        let (file, stored) = open().map_err(broken)?;
        // No archive may unpack to more than a few times what this one does.
        let (content, _) = unpack(BufReader::with_capacity(1 << 16, file)).map_err(broken)?;
        let mut archive = tar::Archive::new(content.take(MAX_BYTES));
        let mut splits: Vec<Option<Samples>> = self.files.iter().map(|_| None).collect();
        for entry in archive.entries().map_err(broken)? {
            let entry = entry.map_err(broken)?;
            let name = entry.path_bytes().into_owned();
            let member = |file: &Original| format!("{}/{}", self.folder, file.name);
            let wanted = self.files.iter().position(|file| {
                let name = name.strip_prefix(b"./").unwrap_or(&name);
                name == member(file).as_bytes()
            });
            let Some(at) = wanted.filter(|&at| splits[at].is_none()) else { continue };
            let bytes = entry.size();
            let limit = stored.saturating_mul(MAX_RATIO).min(MAX_BYTES);
            let split = records(BufReader::with_capacity(1 << 16, entry), bytes, limit, self.layout);
            let inside = |flaw| DataError::Cifar { path: path.join(member(&self.files[at])), flaw };
            splits[at] = Some(split.map_err(inside)?);
        }
        // The checksum of the compressed content comes at its very end.
        io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(broken)?;
        let member = |(split, file): (Option<Samples>, &Original)| {
            let path = path.join(self.folder).join(file.name);
            split.ok_or(DataError::Cifar { path, flaw: CifarError::NoMember })
        };
        splits.into_iter().zip(self.files).map(member).collect()
    }
}
