//! Sweeps and reproductions by several workers that share a folder: claims, takeovers, scripts, status. Slurm
//! is played by `sbatch` and `squeue` in a folder of the test's own; `.ci/slurm` does the same on a real one.
#![cfg(target_os = "linux")]

mod common;

use std::{
    fs::{self, File},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant, SystemTime},
};

use common::{Done, TestDir, without_timings};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

/// 8 runs.
const SWEEP: &str = "sweep -b permuted-mnist -s tuning_tasks=2 -s samples=40 -s hidden=16 -m er-ring,hal --seeds 2 \
                     --grid hal.lambda=0.01,1 --grid er-ring.rate=0.03,0.1";
/// 2 runs that are under way for long enough to see a claim.
const LONG: &str =
    "sweep -m finetune -s tuning_tasks=2 -s samples=6000 -s hidden=128 --seeds 2 --grid finetune.rate=0.1";
/// 2 runs of several seconds, of which a worker saves checkpoints.
const LONGER: &str =
    "sweep -m finetune -s tuning_tasks=2 -s samples=6000 -s epochs=10 --seeds 2 --grid finetune.rate=0.1";

/// All records below a folder, in an order of their own.
fn records(folder: &Path) -> Vec<Value> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(records(&path));
        } else if path.ends_with("records.jsonl") {
            found.extend(common::json_lines(&fs::read_to_string(path).unwrap()));
        }
    }
    found.sort_by_key(|record| record["config"].to_string() + &record["seed"].to_string());
    found
}

fn same_records(place: &TestDir, shared: &str, local: &str) {
    let [shared, local] = [shared, local].map(|folder| without_timings(records(&place.path(folder))));
    assert_eq!(shared.len(), local.len(), "each exactly once");
    assert!(shared == local, "the same bits");
}

/// Waits for a file whose name fits.
fn wait_for(folder: &Path, fits: impl Fn(&str) -> bool) -> String {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(60) {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if fits(&name) {
                return name;
            }
        }
        sleep(Duration::from_millis(2));
    }
    panic!("nothing like that in {}", folder.display());
}

fn is_claim(name: &str) -> bool {
    name.ends_with("-0") && name.len() == 18
}

/// A fake Slurm: `sbatch` keeps the script, `squeue` prints the file `queue`, or fails if there is none.
fn slurm(place: &TestDir) -> impl Fn(&str, Option<u32>) -> Command {
    for (name, text) in [("sbatch", "cat > script; echo 77"), ("squeue", "cat queue")] {
        let path = place.path("bin").join(name);
        place.write(&format!("bin/{name}"), format!("#!/bin/sh\ncd {}\n{text}\n", place.path(".").display()));
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:{}", place.path("bin").display(), std::env::var("PATH").unwrap());
    move |args, task| {
        let mut command = place.command(args);
        command.env("PATH", &path).env("USER", "somebody");
        if let Some(task) = task {
            command.env("SLURM_JOB_ID", "99").env("SLURM_ARRAY_JOB_ID", "77");
            command
                .env("SLURM_ARRAY_TASK_ID", task.to_string())
                .env("SLURMD_NODENAME", format!("node{task}"));
        }
        command
    }
}

fn run(mut command: Command) -> Done {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Done { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

fn start(mut command: Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn workers_share_a_sweep_and_leave_the_records_of_one_local_run() {
    let place = TestDir::new();
    let local = place.hindsight(&format!("{SWEEP} --out local"));
    assert_eq!(local.code, Some(0), "{}", local.err);
    let printed = place.hindsight(&format!("{SWEEP} --out shared --on commands --workers 3"));
    assert_eq!(printed.code, Some(0), "{}", printed.err);
    assert_eq!(printed.out.lines().count(), 3);
    let status = place.hindsight("status shared");
    assert!(
        status.out.starts_with("8 runs\ndone          0\nrunning       0\nfailed        0\nleft          8"),
        "{}",
        status.out
    );
    // As often as there are commands, and once more, all at the same time.
    let lines: Vec<&str> = printed.out.lines().chain(printed.out.lines().next()).collect();
    let workers: Vec<Child> = lines
        .iter()
        .map(|line| {
            let mut shell = Command::new("sh");
            shell.args(["-c", line]).current_dir("/").stdin(Stdio::null()).stderr(Stdio::null());
            shell.spawn().unwrap()
        })
        .collect();
    for mut worker in workers {
        assert!(worker.wait().unwrap().success());
    }
    same_records(&place, "shared", "local");
    let status = place.hindsight("status shared");
    assert_eq!(status.code, Some(0), "{}", status.err);
    assert!(status.out.contains("done          8\nrunning       0\n"), "{}", status.out);

    // The command without `--on` shows the results, and executes nothing.
    let results = place.hindsight(&format!("{SWEEP} --out shared"));
    assert_eq!(results.code, Some(0), "{}", results.err);
    assert_eq!(results.out.lines().count(), local.out.lines().count());
    assert!(place.path("shared/best-hal.toml").exists());
    assert_eq!(place.hindsight("report shared").code, Some(0));
    same_records(&place, "shared", "local");
}

#[test]
fn a_record_file_of_each_worker_is_merged_and_half_a_line_is_set_aside_and_told() {
    let place = TestDir::new();
    place.hindsight(&format!("{SWEEP} --out local"));
    place.hindsight(&format!("{SWEEP} --out shared --on commands --workers 2"));
    let whole = fs::read_to_string(place.path("local/records.jsonl")).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    // A duplicate, and what a killed node leaves.
    place.write("shared/job-a/records.jsonl", [&lines[4..], &[&lines[1][..99]]].concat().join("\n"));
    place.write("shared/job-b/records.jsonl", lines[..5].join("\n") + "\n");
    let status = place.hindsight("status shared --json");
    let survey: Value = serde_json::from_str(&status.out).unwrap();
    assert_eq!((&survey["runs"], &survey["done"], &survey["left"]), (&8.into(), &8.into(), &0.into()));
    assert!(
        status.err.contains("job-a/records.jsonl:5: ends early, as if its writer had been stopped"),
        "{}",
        status.err
    );
    let results = place.hindsight(&format!("{SWEEP} --out shared --json"));
    assert_eq!(results.out.lines().count(), 4, "points of the grid: {}", results.err);
    assert!(
        results.err.contains("ends early") && results.err.contains("comes again later"),
        "{}",
        results.err
    );
}

#[test]
fn a_killed_worker_leaves_its_run_to_another_and_a_stopped_one_its_checkpoint() {
    let place = TestDir::empty();
    assert_eq!(place.hindsight(&format!("{LONGER} --out local")).code, Some(0));
    place.hindsight(&format!("{LONGER} --out shared --on commands --workers 2 --checkpoint-seconds 1"));
    let claims = place.path("shared/claims");

    let mut killed = start(place.command("worker shared 1/2"));
    wait_for(&claims, is_claim);
    killed.kill().unwrap();
    killed.wait().unwrap();
    let status = place.hindsight("status shared");
    assert!(status.out.contains("stopped       1\n  finetune rate=0.1 seed 0: process "), "{}", status.out);

    let mut stopped = start(place.command("worker shared 2/2"));
    // It is in the middle of its run: nothing had been saved by the other one.
    wait_for(&place.path("shared/checkpoints"), |_| true);
    kill(Pid::from_raw(stopped.id() as i32), Signal::SIGTERM).unwrap();
    // A scheduler may tell it twice.
    kill(Pid::from_raw(stopped.id() as i32), Signal::SIGTERM).unwrap();
    assert_eq!(stopped.wait().unwrap().code(), Some(75));
    wait_for(&claims, |name| name.ends_with("-0-free"));

    let last = place.hindsight("worker shared 2/2");
    assert_eq!(last.code, Some(0), "{}", last.err);
    for words in [" has ended without a result", "goes on after ", "2 runs done, 0 failed"] {
        assert!(last.err.contains(words), "{words}: {}", last.err);
    }
    same_records(&place, "shared", "local");
    assert_eq!(fs::read_dir(place.path("shared/checkpoints")).unwrap().count(), 0);
}

#[test]
fn slurm_gets_an_array_and_is_asked_whether_an_owner_has_ended() {
    let place = TestDir::empty();
    let slurm = slurm(&place);
    assert_eq!(place.hindsight(&format!("{LONG} --out local")).code, Some(0));
    place.write("my.toml", "[slurm]\npartition = \"long\"\nmem = \"2G\"\nnice = 5\nexclusive = true\n");
    let submit =
        format!("{LONG} --out shared --on slurm --slurm-config my.toml --slurm mem=4G --slurm time=1:00:00");
    let submitted = run(slurm(&submit, None));
    assert_eq!(submitted.code, Some(0), "{}", submitted.err);
    assert!(submitted.err.contains("job 77: 2 elements"), "{}", submitted.err);
    let script = fs::read_to_string(place.path("script")).unwrap();
    for line in
        ["array=1-2", "partition=long", "mem=4G", "nice=5", "exclusive", "time=1:00:00", "signal=B:USR1@120"]
    {
        assert!(script.contains(&format!("#SBATCH --{line}\n")), "{line}: {script}");
    }
    assert!(Command::new("bash").arg("-n").arg(place.path("script")).status().unwrap().success());
    place.write("queue", "77|1|PENDING\n77|2|PENDING\n");
    let status = run(slurm("status shared", None));
    assert_eq!(status.code, Some(0), "{}", status.err);
    assert!(status.out.contains("workers       0 running, 2 in the queue"), "{}", status.out);

    // Element 1 vanishes with its node.
    let mut vanished = start(slurm("worker shared 1/2", Some(1)));
    let claim = wait_for(&place.path("shared/claims"), is_claim);
    vanished.kill().unwrap();
    vanished.wait().unwrap();
    place.write("queue", "77|1|RUNNING\n77|2|RUNNING\n");
    let status = run(slurm("status shared", None));
    assert!(
        status.out.contains("running       1\n  finetune rate=0.1 seed 0: job 77_1 on node1\n"),
        "{}",
        status.out
    );
    // As long as Slurm has it running, or does not answer, nobody takes over.
    let second = run(slurm("worker shared 2/2", Some(2)));
    assert!(second.err.contains("job 77_2 on node2: 1 run done"), "{}", second.err);
    fs::remove_file(place.path("queue")).unwrap();
    let third = run(slurm("worker shared 2/2", Some(3)));
    assert!(third.code == Some(0) && third.err.contains("0 runs done"), "{}", third.err);
    // It has ended, and has been silent for long.
    place.write("queue", "77|4|RUNNING\n");
    let owner = File::options().append(true).open(place.path("shared/claims").join(claim)).unwrap();
    owner.set_modified(SystemTime::now() - Duration::from_secs(3600)).unwrap();
    let status = run(slurm("status shared", None));
    assert!(status.out.contains("stopped       1\n"), "{}", status.out);
    let fourth = run(slurm("worker shared 2/2", Some(4)));
    assert!(fourth.err.contains("job 77_1 on node1 has ended without a result"), "{}", fourth.err);
    same_records(&place, "shared", "local");
}

#[test]
fn a_run_that_failed_is_told_and_tried_again_by_the_next_submission() {
    let place = TestDir::empty();
    let submit = format!("{LONG} --out shared --on commands --workers 1");
    place.hindsight(&submit);
    // No checkpoint can be looked for where a file has the folder's name.
    place.write("shared/checkpoints", "");
    assert_eq!(place.hindsight("worker shared 1/1").code, Some(1));
    let status = place.hindsight("status shared");
    assert!(status.code == Some(1) && status.out.contains("failed        2\n"), "{}", status.out);
    fs::remove_file(place.path("shared/checkpoints")).unwrap();
    assert!(
        place.hindsight("worker shared 1/1").err.contains("0 runs done, 0 failed"),
        "they would fail again"
    );
    place.hindsight(&submit);
    let again = place.hindsight("worker shared 1/1");
    assert!(again.err.contains("2 runs done, 0 failed"), "{}", again.err);
    assert_eq!(records(&place.path("shared")).len(), 2);
    // A record that is gone is made again.
    for entry in fs::read_dir(place.path("shared")).unwrap() {
        let path = entry.unwrap().path().join("records.jsonl");
        if path.exists() {
            fs::remove_file(path).unwrap();
        }
    }
    place.hindsight(&submit);
    assert!(place.hindsight("worker shared 1/1").err.contains("2 runs done, 0 failed"));
    assert_eq!(records(&place.path("shared")).len(), 2);
}

#[test]
fn reproductions_and_runs_are_submitted_too_and_taken_part_in() {
    let place = TestDir::new();
    let reproduce = "reproduce t1 -b permuted-mnist -m finetune,er-ring --quick -s samples=40 -s hidden=16";
    let script = place.hindsight(&format!("{reproduce} --on slurm --dry-run --workers 4%2"));
    assert_eq!(script.code, Some(0), "{}", script.err);
    assert!(script.out.contains("#SBATCH --array=1-4%2\n"), "{}", script.out);
    assert!(!place.path("reproduction").exists(), "nothing is written");
    let local = place.hindsight(&format!("{reproduce} --out local"));
    place.hindsight(&format!("{reproduce} --out shared --on commands --workers 2"));
    assert_eq!(place.hindsight("worker shared 2/2").code, Some(0));
    let results = place.hindsight(&format!("{reproduce} --out shared"));
    assert_eq!(results.code, local.code, "{}", results.err);
    assert!(results.out.contains("er-ring"), "{}", results.out);
    same_records(&place, "shared", "local");
    assert_eq!(place.hindsight("status shared").code, Some(0));

    let experiment = "run -b permuted-mnist -m finetune,er-ring --tasks 2 -s samples=40 -s hidden=16";
    let local = place.records(&format!("{experiment} --out one"));
    place.hindsight(&format!("{experiment} --out two --on commands"));
    let nothing = place.hindsight(&format!("{experiment} --out two"));
    assert!(nothing.err.contains("note: 0 of 2 runs finished; the others were submitted"), "{}", nothing.err);
    let here = place.records(&format!("{experiment} --out two --on local"));
    assert_eq!(without_timings(here), without_timings(local));

    let compare =
        "compare -b permuted-mnist -m finetune,er-ring --tasks 2 -s samples=40 -s hidden=16 --bytes 100000";
    place.hindsight(&format!("{compare} --out three"));
    let commands = place.hindsight(&format!("{compare} --out four --on commands"));
    assert_eq!(commands.out.lines().count(), 2, "{}", commands.err);
    assert_eq!(place.hindsight("worker four 1/2").code, Some(0));
    assert!(place.hindsight(&format!("{compare} --out four")).out.contains("er-ring"));
    same_records(&place, "four", "three");
    let timed = place.hindsight(&format!("{compare} --seconds 1 --on commands"));
    assert_eq!(timed.code, Some(2), "the updates that fit would differ from node to node");
}

#[test]
fn what_cannot_be_submitted_is_refused_with_a_hint() {
    let place = TestDir::new();
    let bad = [
        ("--on slurm --slurm Time=1", "`Time=1`: expected a long option of `sbatch`", "[slurm]"),
        ("--on slurm --slurm array=1-5", "`array=1-5`: expected `--workers N`", "--slurm"),
        ("--on slurm --workers 3x", "`workers=3x`: expected a whole number, or `N%M`", "--slurm"),
        ("--on slurm --slurm-config none.toml", "cannot read `none.toml`", "TOML"),
        ("--workers 3", "the following required arguments were not provided: --on", "--help"),
        ("--on pbs", "invalid value `pbs`", "--help"),
    ];
    for (args, error, hint) in bad {
        place.refuses(&format!("{SWEEP} {args} --dry-run"), error, hint);
    }
    let mut absent = place.command(&format!("{SWEEP} --out a --on slurm"));
    let absent = run({
        absent.env("PATH", "/nowhere");
        absent
    });
    assert_eq!(absent.code, Some(2));
    assert!(
        absent.err.contains("error: `sbatch` failed: ") && absent.err.contains("hint: "),
        "{}",
        absent.err
    );
    place.refuses("status nowhere", "cannot read `nowhere/launch.json`", "--on slurm");
    place.refuses("worker nowhere 1/2", "launch.json`", "--on slurm");
    place.write("my.toml", "samples = 40\nmethod = \"finetune\"\nbenchmark = \"permuted-mnist\"\n");
    place.hindsight("run --config my.toml --out b --on commands");
    place.write("my.toml", "samples = 40\nmethod = \"er-ring\"\nbenchmark = \"permuted-mnist\"\n");
    let changed = place.hindsight("worker b 1/1");
    assert!(
        changed.code == Some(2) && changed.err.contains("`er-ring seed 0` is not among them"),
        "{}",
        changed.err
    );
}
