//! `--on slurm`: a job array, submitted with `sbatch`; `squeue` tells which of its elements run.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write,
    process::{Command, Stdio},
};

use super::{Job, Launched, Launcher, local::host, owner::Owner, quoted};
use crate::failure::LaunchError;

pub(super) struct Slurm;

/// Seconds before the time limit at which a job is told to stop. Slurm may be a minute early.
const NOTICE: u32 = 120;

/// Exit code of a worker that was stopped and leaves runs.
pub(super) const STOPPED: u8 = 75;

impl Launcher for Slurm {
    fn script(&self, job: &Job) -> anyhow::Result<String> {
        let mut options: BTreeMap<String, String> = BTreeMap::new();
        let mut set = |key: &str, value: String| drop(options.insert(key.to_owned(), value));
        // Slurm replaces `%` and a letter.
        let folder = job.folder.display().to_string().replace('%', "%%");
        set("job-name", format!("hindsight-{}", job.name));
        set("array", format!("1-{}", job.workers));
        set("cpus-per-task", job.jobs.to_string());
        set("requeue", String::new());
        set("open-mode", "append".to_owned());
        set("output", format!("{folder}/logs/%A_%a.log"));
        set("signal", NOTICE.to_string());
        for (key, value) in &job.options {
            match (key.as_str(), value.parse::<u32>()) {
                ("array", _) => {
                    return Err(refused(key, value, "`--workers N`, and `--workers N%M` for M at a time"));
                }
                ("cpus-per-task", _) => return Err(refused(key, value, "`--jobs N`")),
                ("signal", Err(_)) => return Err(refused(key, value, "seconds before the time limit")),
                _ => set(key, value.clone()),
            }
        }
        if let Some(most) = job.at_a_time {
            options.insert("array".to_owned(), format!("1-{}%{most}", job.workers));
        }
        let signal = options.insert("signal".to_owned(), String::new()).unwrap_or_default();
        options.insert("signal".to_owned(), format!("B:USR1@{signal}"));
        let mut script = "#!/bin/bash\n".to_owned();
        for (key, value) in &options {
            script += &match value.as_str() {
                "" => format!("#SBATCH --{key}\n"),
                value => format!("#SBATCH --{key}={}\n", directive(value)),
            };
        }
        let command = job.command_of("$SLURM_ARRAY_TASK_ID");
        script += &format!(
            "\n\
             # USR1: the time limit is near; save, and queue again. TERM: cancelled or preempted; save, and end.\n\
             again=no\n\
             trap 'again=yes; kill -TERM \"$worker\" 2>/dev/null' USR1\n\
             trap 'kill -TERM \"$worker\" 2>/dev/null' TERM\n\
             {command} &\n\
             worker=$!\n\
             # A signal ends `wait` before the worker has ended.\n\
             while :; do\n  \
               wait \"$worker\"\n  \
               code=$?\n  \
               kill -0 \"$worker\" 2>/dev/null || break\n\
             done\n\
             if [ \"$again\" = yes ] && [ \"$code\" -eq {STOPPED} ]; then\n  \
               echo \"the time limit is near: queued again\"\n  \
               scontrol requeue \"$SLURM_JOB_ID\"\n\
             fi\n\
             exit \"$code\"\n"
        );
        Ok(script)
    }

    fn launch(&self, job: &Job, script: &str) -> anyhow::Result<Launched> {
        let mut sbatch = Command::new("sbatch");
        sbatch.arg("--parsable").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Options of a job that submits another would be its defaults.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("SLURM_") && name != "SLURM_CONF" {
                sbatch.env_remove(name);
            }
        }
        let failed = |reason: String| LaunchError::Tool { tool: "sbatch", reason };
        let mut child = sbatch.spawn().map_err(|error| failed(error.to_string()))?;
        if let Some(mut to) = child.stdin.take() {
            // If it does not read, it says why.
            let _ = to.write_all(script.as_bytes());
        }
        let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
        if !output.status.success() {
            return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()).into());
        }
        // `123`, or `123;cluster`.
        let text = String::from_utf8_lossy(&output.stdout);
        let id = text.trim().split(';').next().unwrap_or_default().to_owned();
        if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(failed(format!("it printed `{}`, expected a job id", text.trim())).into());
        }
        let lines = vec![
            format!(
                "job {id}: {} elements; log files in `{}`",
                job.workers,
                job.folder.join("logs").display()
            ),
            format!(
                "`hindsight status {}` shows how it goes, `scancel {id}` ends it",
                quoted(&job.folder.display().to_string())
            ),
        ];
        Ok(Launched::Submitted { job: id, lines })
    }
}

fn refused(key: &str, value: &str, expected: &'static str) -> anyhow::Error {
    LaunchError::Option { found: format!("{key}={value}"), expected }.into()
}

/// A value in a line of `#SBATCH`: quotes keep spaces together.
fn directive(value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "%_-+=:,./@[]".contains(c);
    if value.chars().all(plain) { value.to_owned() } else { format!("\"{value}\"") }
}

/// This process, if it is part of a job.
pub(super) fn current() -> Option<Owner> {
    let get = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let id = get("SLURM_JOB_ID")?;
    // The first element of an array has the array's own id, so an element is named by both.
    let element = get("SLURM_ARRAY_JOB_ID").zip(get("SLURM_ARRAY_TASK_ID"));
    let job = element.map_or(id, |(array, task)| format!("{array}_{task}"));
    let restart = get("SLURM_RESTART_COUNT").and_then(|count| count.parse().ok()).unwrap_or(0);
    let node = get("SLURMD_NODENAME").unwrap_or_else(host);
    let user = get("SLURM_JOB_USER").or_else(|| get("USER")).unwrap_or_default();
    Some(Owner::Slurm { job, restart, user, host: node })
}

/// What is in the queue of Slurm: elements that run, and how many of an array wait.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Queue {
    running: BTreeSet<String>,
    waiting: BTreeMap<String, usize>,
}

impl Queue {
    /// Whether an element runs, be it only to end.
    pub(super) fn is_running(&self, job: &str) -> bool {
        self.running.contains(job)
    }

    /// Elements of a job that have yet to start.
    pub(super) fn waiting(&self, job: &str) -> usize {
        self.waiting.get(job).copied().unwrap_or(0)
    }

    /// Elements of a job that run.
    pub(super) fn running(&self, job: &str) -> usize {
        self.running.iter().filter(|name| name.split('_').next() == Some(job)).count()
    }

    /// Reads lines `ARRAY|TASK|STATE`.
    fn parse(text: &str) -> Queue {
        let mut queue = Queue::default();
        for line in text.lines() {
            let mut fields = line.split('|').map(str::trim);
            let (Some(job), Some(task), Some(state)) = (fields.next(), fields.next(), fields.next()) else {
                continue;
            };
            match state {
                "PENDING" | "REQUEUED" | "REQUEUE_FED" | "REQUEUE_HOLD" | "SPECIAL_EXIT" => {
                    *queue.waiting.entry(job.to_owned()).or_default() += 1;
                }
                // Without `--states`, `squeue` lists nothing that has ended.
                _ if task == "N/A" => drop(queue.running.insert(job.to_owned())),
                _ => drop(queue.running.insert(format!("{job}_{task}"))),
            }
        }
        queue
    }
}

/// The queue of the users of some owners. None if none of them is a job, or if Slurm does not answer: then
/// nobody knows, and a job is taken to be alive.
pub(super) fn queue(owners: &[Owner]) -> Option<Queue> {
    let users: BTreeSet<&str> = owners
        .iter()
        .filter_map(|owner| match owner {
            Owner::Slurm { user, .. } => Some(user.as_str()),
            Owner::Process { .. } => None,
        })
        .collect();
    if users.is_empty() { None } else { queue_of(&users) }
}

/// The queue of this user.
pub(super) fn own_queue() -> Option<Queue> {
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_default();
    queue_of(&BTreeSet::from([user.as_str()]))
}

fn queue_of(users: &BTreeSet<&str>) -> Option<Queue> {
    let mut squeue = Command::new("squeue");
    squeue.args(["--noheader", "--array", "--format=%F|%K|%T"]).stdin(Stdio::null());
    // A name that is not known would be an error, and the whole queue is no wrong answer.
    if users.iter().all(|user| !user.is_empty()) {
        squeue.arg(format!("--user={}", users.iter().copied().collect::<Vec<_>>().join(",")));
    }
    let output = squeue.output().ok()?;
    output.status.success().then(|| Queue::parse(&String::from_utf8_lossy(&output.stdout)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_tells_what_runs_and_what_waits() {
        let queue =
            Queue::parse("7|1|RUNNING\n7|2|COMPLETING\n7|3|PENDING\n7|4|PENDING\n8|N/A|RUNNING\n\nx\n");
        assert!(queue.is_running("7_1") && queue.is_running("7_2") && queue.is_running("8"));
        assert!(!queue.is_running("7_3") && !queue.is_running("7") && !queue.is_running("7_11"));
        assert_eq!([queue.waiting("7"), queue.running("7"), queue.waiting("8")], [2, 2, 0]);
    }
}
