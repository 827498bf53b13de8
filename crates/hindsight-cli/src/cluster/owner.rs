//! Who does a run: an element of a job array, or a process of some machine; and whether it still does.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{local, slurm};

/// A worker, as others can find out about it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(super) enum Owner {
    /// An element of a job array of Slurm, or a job.
    Slurm {
        /// `123_4`, or `123`.
        job: String,
        /// How often it was requeued before.
        restart: u32,
        user: String,
        host: String,
    },
    /// A process.
    Process {
        host: String,
        /// Within which `pid` means something: the system since it was booted, and the PID namespace.
        space: String,
        pid: u32,
        /// When the process began, by the system's count; another process with the same id has another.
        start: u64,
    },
}

/// What is known about a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Liveness {
    Running,
    /// The scheduler says so, which may be wrong about a node that it has lost.
    Ended,
    /// Certainly.
    Gone,
    /// There is nobody to ask.
    Unknown,
}

impl Owner {
    /// This process.
    pub(super) fn current() -> Owner {
        slurm::current().unwrap_or_else(local::current)
    }

    /// A name that no other worker has, for a file.
    pub(super) fn name(&self) -> String {
        match self {
            Owner::Slurm { job, restart: 0, .. } => job.clone(),
            Owner::Slurm { job, restart, .. } => format!("{job}-{restart}"),
            Owner::Process { host, pid, start, .. } => format!("{host}-{pid}-{start}"),
        }
    }

    /// For people.
    pub(super) fn describe(&self) -> String {
        match self {
            Owner::Slurm { job, host, .. } => format!("job {job} on {host}"),
            Owner::Process { host, pid, .. } => format!("process {pid} on {host}"),
        }
    }
}

/// Finds out about several owners at once.
pub(super) fn liveness(owners: &[Owner]) -> BTreeMap<Owner, Liveness> {
    let me = Owner::current();
    let queue = slurm::queue(owners);
    let of = |owner: &Owner| match (owner, &me) {
        _ if *owner == me => Liveness::Running,
        // An earlier life of this element.
        (Owner::Slurm { job, restart, .. }, Owner::Slurm { job: mine, restart: now, .. })
            if job == mine && restart < now =>
        {
            Liveness::Ended
        }
        (Owner::Slurm { job, .. }, _) => match &queue {
            None => Liveness::Unknown,
            Some(queue) if queue.is_running(job) => Liveness::Running,
            Some(_) => Liveness::Ended,
        },
        (Owner::Process { .. }, _) => local::liveness(owner, &me),
    };
    owners.iter().map(|owner| (owner.clone(), of(owner))).collect()
}
