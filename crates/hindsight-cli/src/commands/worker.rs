//! `hindsight worker`: what job scripts call; executes runs of a submitted folder.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use hindsight::sweep::Shard;

use crate::{
    cluster::{Launch, Share},
    experiment::MachineArgs,
};

/// Execute runs of a submitted folder, as one of several workers.
///
/// Job scripts call this. Begins with the I-th of N shares, longest runs first, then does what no other
/// worker does. SIGTERM saves checkpoints and ends it with exit code 75: the same command continues.
#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    /// The folder whose runs were submitted with `--on slurm` or `--on commands`
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The share to begin with
    #[arg(value_name = "I/N", allow_hyphen_values = true)]
    share: String,
    /// Take over runs of a worker that nobody can be asked about after so many seconds without a sign of it
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(60..))]
    stale_after: Option<u32>,
    #[command(flatten)]
    machine: MachineArgs,
}

/// What the command that was submitted needs to become a worker.
pub(crate) struct WorkerRole {
    pub(crate) folder: PathBuf,
    pub(crate) share: Share,
    pub(crate) machine: MachineArgs,
}

impl WorkerArgs {
    /// The command that was submitted, and this worker's part. The process is then where that was given.
    pub(crate) fn launch(&self) -> anyhow::Result<(Vec<String>, WorkerRole)> {
        let folder = std::path::absolute(&self.folder)?;
        let shard: Shard = self.share.parse()?;
        let launch = Launch::read(&folder)?;
        let machine = self.machine.clone().with_defaults(1, &launch.data_dir);
        // Elsewhere there may be no such folder; then absolute paths are all that works.
        let _ = std::env::set_current_dir(&launch.directory);
        let stale_after = self.stale_after.map(|seconds| Duration::from_secs(seconds.into()));
        Ok((launch.args, WorkerRole { folder, share: Share { shard, stale_after }, machine }))
    }
}
