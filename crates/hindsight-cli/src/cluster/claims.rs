//! Claims: which worker of a shared folder does which run (docs/adr/0014).
//!
//! Every worker has one file, `owner-NAME`, that says who it is. A claim of a run is a hard link to that
//! file, `ID-0`. `link` is atomic and exclusive on every file system that has it, NFS among them, needs no
//! lock, and a claim is complete when it appears. A claim is never changed or removed while workers run: who
//! takes over from a dead owner links `ID-1`, and of several who try, one succeeds. How claim N ended is a
//! link too:
//!
//! - `ID-N-done`: the record is on the disk;
//! - `ID-N-failed`: the run has no result;
//! - `ID-N-free`: its owner was told to stop, and has saved a checkpoint.
//!
//! So a listing of the folder tells what is claimed, done and failed, and only claims of runs that are
//! neither done nor failed are read. A worker touches its file as long as it lives.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Mutex,
    time::{Duration, SystemTime},
};

use anyhow::Context;
use hindsight_data::bounded_read::read_small;
use serde::{Deserialize, Serialize};

use super::owner::Owner;
use crate::run_folder::cannot_write;

const FOLDER: &str = "claims";

/// How often a worker touches its file.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(10);

/// What the file of a worker says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct OwnerFile {
    pub(super) version: u32,
    pub(super) owner: Owner,
    /// Where its records are, relative to the shared folder.
    pub(super) records: PathBuf,
}

const VERSION: u32 = 1;

/// How a claim ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The record is on the disk.
    Done,
    /// The run has no result.
    Failed,
    /// The run was saved, and given back.
    Free,
}

impl End {
    const ALL: [End; 3] = [End::Done, End::Failed, End::Free];

    fn name(self) -> &'static str {
        match self {
            End::Done => "done",
            End::Failed => "failed",
            End::Free => "free",
        }
    }
}

/// What a listing tells about a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ClaimState {
    /// Number of claims so far; the last is `claims - 1`.
    pub(super) claims: u32,
    /// How the last claim ended.
    pub(super) end: Option<End>,
}

impl ClaimState {
    /// Whether somebody has claimed it and has not said that it is over.
    pub(super) fn is_under_way(self) -> bool {
        self.claims > 0 && self.end.is_none()
    }

    /// Whether nobody is to do it: it is over, and not only as it was when the first `retry` claims had been
    /// made and a submission found no record of it.
    pub(super) fn is_settled(self, retry: u32) -> bool {
        matches!(self.end, Some(End::Done | End::Failed)) && self.claims > retry
    }
}

/// A listing of the claims of a folder.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// By run.
    pub(super) runs: BTreeMap<String, ClaimState>,
    /// Jobs that were submitted.
    pub(super) submitted: Vec<String>,
}

impl Listing {
    pub(super) fn of(&self, id: &str) -> ClaimState {
        self.runs.get(id).copied().unwrap_or_default()
    }
}

/// The claims of a shared folder, for reading.
#[derive(Debug, Clone)]
pub(super) struct Claims {
    folder: PathBuf,
}

impl Claims {
    pub(super) fn of(root: &Path) -> Claims {
        Claims { folder: root.join(FOLDER) }
    }

    pub(super) fn path(&self, id: &str, number: u32) -> PathBuf {
        self.folder.join(format!("{id}-{number}"))
    }

    /// Makes the folder.
    pub(super) fn create(&self) -> anyhow::Result<()> {
        fs::create_dir_all(&self.folder).with_context(|| cannot_write(&self.folder))
    }

    /// All claims; none if there is no folder.
    pub(super) fn list(&self) -> io::Result<Listing> {
        let mut listing = Listing::default();
        let entries = match self.folder.read_dir() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(listing),
            entries => entries?,
        };
        for entry in entries {
            let name = entry?.file_name();
            let Some(name) = name.to_str() else { continue };
            if let Some(job) = name.strip_prefix("submitted-") {
                listing.submitted.push(job.to_owned());
            } else if let Some((id, what)) = name.split_once('-')
                && is_id(id)
            {
                let (number, end) = what.split_once('-').map_or((what, None), |(number, end)| {
                    (number, Some(End::ALL.into_iter().find(|known| known.name() == end)))
                });
                // A name that is none of ours.
                let (Ok(number), true) = (number.parse::<u32>(), end != Some(None)) else { continue };
                let state = listing.runs.entry(id.to_owned()).or_default();
                if number >= state.claims {
                    *state = ClaimState { claims: number.saturating_add(1), end: None };
                }
                if number + 1 == state.claims {
                    state.end = state.end.or(end.flatten());
                }
            }
        }
        Ok(listing)
    }

    /// What is known about the owner of a claim, and when it was last seen.
    pub(super) fn read(&self, id: &str, number: u32) -> io::Result<(Option<OwnerFile>, SystemTime)> {
        let path = self.path(id, number);
        let seen = fs::metadata(&path)?.modified()?;
        let known = serde_json::from_slice(&read_small(&path)?).ok();
        Ok((known.filter(|file: &OwnerFile| file.version == VERSION), seen))
    }

    /// Whether a claim is there. A name that was never looked up before is not in an NFS client's cache.
    pub(super) fn exists(&self, id: &str, number: u32) -> io::Result<bool> {
        self.path(id, number).try_exists()
    }

    /// Notes that a job was submitted.
    pub(super) fn submitted(&self, job: &str) -> anyhow::Result<()> {
        let path = self.folder.join(format!("submitted-{job}"));
        fs::write(&path, "").with_context(|| cannot_write(&path))
    }
}

/// Whether a name is that of a run: [`RunConfig::id`](hindsight::config::RunConfig::id).
fn is_id(name: &str) -> bool {
    name.len() == 16 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A worker's own claims.
pub(super) struct Claimant {
    claims: Claims,
    name: String,
    content: OwnerFile,
    /// The file that claims are links to.
    file: Mutex<PathBuf>,
}

/// A claim of this worker.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) id: String,
    number: u32,
}

impl Claimant {
    /// Writes the file of a worker. Its records are to be in a folder of its own below `parent`, which is
    /// relative to the shared folder.
    pub(super) fn new(claims: &Claims, owner: &Owner, parent: &Path) -> anyhow::Result<Claimant> {
        claims.create()?;
        let name = owner.name();
        let content = OwnerFile { version: VERSION, owner: owner.clone(), records: PathBuf::new() };
        let place = |number: &str| parent.join(format!("job-{name}{number}"));
        let (file, content) = write_owner(&claims.folder, &name, &content, &place)?;
        Ok(Claimant { claims: claims.clone(), name, content, file: Mutex::new(file) })
    }

    /// Where the records of this worker are to be, relative to the shared folder.
    pub(super) fn records(&self) -> &Path {
        &self.content.records
    }

    /// Claims a run after `number` claims before; none if another was faster.
    pub(super) fn claim(&self, id: &str, number: u32) -> anyhow::Result<Option<Claim>> {
        let won = self.link(&format!("{id}-{number}"))?;
        Ok(won.then(|| Claim { id: id.to_owned(), number }))
    }

    /// Whether nobody has taken over a run: then its record may be written.
    pub(super) fn holds(&self, claim: &Claim) -> io::Result<bool> {
        Ok(!self.claims.exists(&claim.id, claim.number + 1)?)
    }

    /// Tells how a claim ended.
    pub(super) fn end(&self, claim: &Claim, end: End) -> anyhow::Result<()> {
        self.link(&format!("{}-{}-{}", claim.id, claim.number, end.name())).map(drop)
    }

    /// Shows that this worker lives.
    pub(super) fn touch(&self) {
        let file = self.file.lock().map(|file| file.clone());
        // The scheduler is asked first; this is the second sign.
        let _ = file.map(|path| {
            File::options().append(true).open(path).and_then(|file| file.set_modified(SystemTime::now()))
        });
    }

    /// Links the worker's file to a name; false if that is taken.
    fn link(&self, name: &str) -> anyhow::Result<bool> {
        let path = self.claims.folder.join(name);
        let mut file = self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        loop {
            let error = match fs::hard_link(&*file, &path) {
                Ok(()) => return Ok(true),
                Err(error) => error,
            };
            match error.kind() {
                // The reply to a request that succeeded may be lost, and the next one finds the name taken.
                io::ErrorKind::AlreadyExists => return Ok(same_file(&file, &path)),
                // Some file systems have at most 65,000 links to a file.
                io::ErrorKind::TooManyLinks => {
                    let place = |_: &str| self.content.records.clone();
                    *file = write_owner(&self.claims.folder, &self.name, &self.content, &place)?.0;
                }
                _ => return Err(error).with_context(|| cannot_write(&path)),
            }
        }
    }
}

/// Writes a file for claims to be links to, under a name that is not taken: a process may have several.
fn write_owner(
    folder: &Path,
    name: &str,
    content: &OwnerFile,
    records: &dyn Fn(&str) -> PathBuf,
) -> anyhow::Result<(PathBuf, OwnerFile)> {
    for number in 0.. {
        let number = if number == 0 { String::new() } else { format!("+{number}") };
        let path = folder.join(format!("owner-{name}{number}"));
        let content = OwnerFile { records: records(&number), ..content.clone() };
        let text = serde_json::to_string(&content)? + "\n";
        let write = || -> io::Result<()> {
            let mut file = File::create_new(&path)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()
        };
        match write() {
            Ok(()) => return Ok((path, content)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).with_context(|| cannot_write(&path)),
        }
    }
    unreachable!("there is always another number")
}

#[cfg(unix)]
fn same_file(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let id = |path| fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
    id(a).is_some() && id(a) == id(b)
}

/// Elsewhere a reply is not lost: these are local file systems.
#[cfg(not(unix))]
fn same_file(_: &Path, _: &Path) -> bool {
    false
}

/// A name in a file name: letters, digits and a few marks.
pub(super) fn plain(text: &OsStr) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || "._".contains(c) { c } else { '_' };
    text.to_string_lossy().chars().map(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef";

    fn claimant(root: &Path, pid: u32) -> Claimant {
        let owner = Owner::Process { host: "a".into(), space: "b".into(), pid, start: 1 };
        Claimant::new(&Claims::of(root), &owner, Path::new("")).unwrap()
    }

    #[test]
    fn of_many_workers_one_gets_a_run() {
        let root = tempfile::tempdir().unwrap();
        let workers: Vec<Claimant> = (0..8).map(|pid| claimant(root.path(), pid)).collect();
        let ids: Vec<String> = (0..50).map(|n| format!("{n:016x}")).collect();
        let won = |worker: &Claimant| ids.iter().filter(|id| worker.claim(id, 0).unwrap().is_some()).count();
        let won: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = workers.iter().map(|worker| scope.spawn(|| won(worker))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(won, 50);
        let listing = Claims::of(root.path()).list().unwrap();
        assert!(listing.runs.len() == 50 && listing.runs.values().all(|state| state.claims == 1));
    }

    #[test]
    fn a_run_is_taken_over_once_and_its_former_owner_sees_it() {
        let root = tempfile::tempdir().unwrap();
        let [first, second, third] = [1, 2, 3].map(|pid| claimant(root.path(), pid));
        let lost = first.claim(ID, 0).unwrap().unwrap();
        assert!(first.holds(&lost).unwrap());
        let held = second.claim(ID, 1).unwrap().unwrap();
        assert_eq!(third.claim(ID, 1).unwrap(), None);
        assert!(!first.holds(&lost).unwrap() && second.holds(&held).unwrap());
        let claims = Claims::of(root.path());
        let owner = claims.read(ID, 1).unwrap().0.unwrap();
        assert_eq!((owner.owner.name().as_str(), owner.records), ("a-2-1", "job-a-2-1".into()));
        assert_eq!(claimant(root.path(), 2).records(), Path::new("job-a-2-1+1"), "the same process again");

        second.end(&held, End::Free).unwrap();
        assert_eq!(claims.list().unwrap().of(ID), ClaimState { claims: 2, end: Some(End::Free) });
        let held = third.claim(ID, 2).unwrap().unwrap();
        assert_eq!(claims.list().unwrap().of(ID), ClaimState { claims: 3, end: None });
        third.end(&held, End::Failed).unwrap();
        let state = claims.list().unwrap().of(ID);
        assert_eq!(state, ClaimState { claims: 3, end: Some(End::Failed) });
        assert!(state.is_settled(0) && state.is_settled(2) && !state.is_settled(3), "submitted again");
    }

    #[test]
    fn a_repeated_request_of_the_same_worker_is_no_loss() {
        let root = tempfile::tempdir().unwrap();
        let worker = claimant(root.path(), 1);
        assert!(worker.claim(ID, 0).unwrap().is_some());
        assert_eq!(worker.claim(ID, 0).unwrap().is_some(), cfg!(unix), "the first reply was lost");
    }

    #[test]
    fn names_that_are_no_claims_and_owners_that_are_no_json_do_no_harm() {
        let root = tempfile::tempdir().unwrap();
        let claims = Claims::of(root.path());
        assert!(claims.list().unwrap().runs.is_empty(), "no folder");
        claims.create().unwrap();
        for name in [
            "x",
            "owner-a",
            "0123-0",
            "0123456789abcdef-",
            "0123456789abcdef-99999999999",
            "0123456789abcdef-0-x",
            ".nfs01",
        ] {
            fs::write(claims.folder.join(name), "{").unwrap();
        }
        assert_eq!(claims.list().unwrap().of(ID).claims, 0);
        fs::write(claims.path(ID, 0), "{\"version\": 1").unwrap();
        assert_eq!(claims.read(ID, 0).unwrap().0, None);
    }
}
