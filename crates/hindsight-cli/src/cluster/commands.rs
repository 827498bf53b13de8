//! `--on commands`: prints one self-contained command per worker, for any other scheduler.

use std::io::{Write, stdout};

use super::{Job, Launched, Launcher};

pub(super) struct Commands;

impl Launcher for Commands {
    fn script(&self, job: &Job) -> anyhow::Result<String> {
        Ok((1..=job.workers).map(|index| job.command(index) + "\n").collect())
    }

    fn launch(&self, _: &Job, script: &str) -> anyhow::Result<Launched> {
        write!(stdout(), "{script}")?;
        Ok(Launched::Printed)
    }
}
