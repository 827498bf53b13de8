//! `--on local`: this process executes the runs. In a folder that jobs work on as well it is one more worker.

use std::fs;

use super::{
    Job, Launched, Launcher,
    claims::plain,
    owner::{Liveness, Owner},
};

pub(super) struct Local;

impl Launcher for Local {
    fn script(&self, job: &Job) -> anyhow::Result<String> {
        Ok(job.command(1) + "\n")
    }

    fn launch(&self, _: &Job, _: &str) -> anyhow::Result<Launched> {
        Ok(Launched::Here)
    }
}

/// This process.
pub(super) fn current() -> Owner {
    let text =
        |path: &str| fs::read_to_string(path).map_or_else(|_| String::new(), |text| text.trim().to_owned());
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let pid = std::process::id();
    Owner::Process {
        host: host(),
        space: format!("{} {}", text("/proc/sys/kernel/random/boot_id"), namespace.display()),
        pid,
        start: start(pid).unwrap_or(0),
    }
}

/// The name of this machine.
pub(super) fn host() -> String {
    let name =
        fs::read_to_string("/proc/sys/kernel/hostname").ok().or_else(|| std::env::var("HOSTNAME").ok());
    plain(name.as_deref().map_or("localhost", str::trim).as_ref())
}

/// Whether a process lives, as far as `me`, another, can tell.
pub(super) fn liveness(owner: &Owner, me: &Owner) -> Liveness {
    let Owner::Process { space, pid, start: began, .. } = owner else { return Liveness::Unknown };
    let mine = match me {
        Owner::Process { space, .. } => space.clone(),
        Owner::Slurm { .. } => match current() {
            Owner::Process { space, .. } => space,
            Owner::Slurm { .. } => return Liveness::Unknown,
        },
    };
    // Only on Linux is it known what a process id refers to.
    if *space != mine || start(std::process::id()).is_none() {
        return Liveness::Unknown;
    }
    if start(*pid) == Some(*began) { Liveness::Running } else { Liveness::Gone }
}

/// When a process began, in ticks since the system was booted; none if there is no such process.
fn start(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may have spaces; state is the third field, the start the twenty-second.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    if *fields.first()? == "Z" {
        return None;
    }
    fields.get(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_that_ended_is_gone_and_one_of_another_machine_is_unknown() {
        let me = current();
        assert_eq!(liveness(&me, &me), Liveness::Running);
        let Owner::Process { host, space, pid, start } = me.clone() else { panic!("{me:?}") };
        let other = |pid, start, space: &str| Owner::Process {
            host: host.clone(),
            space: space.to_owned(),
            pid,
            start,
        };
        assert_eq!(liveness(&other(pid, start + 1, &space), &me), Liveness::Gone, "the same id, used again");
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let began = super::start(child.id()).unwrap();
        assert_eq!(liveness(&other(child.id(), began, &space), &me), Liveness::Running);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(liveness(&other(child.id(), began, &space), &me), Liveness::Gone);
        assert_eq!(liveness(&other(pid, start, "elsewhere"), &me), Liveness::Unknown);
    }
}
