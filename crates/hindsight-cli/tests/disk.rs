//! A disk that is full: one error that says where and what to do, and nothing that was there before is lost.
//!
//! `/dev/full` in place of a file takes nothing at all. A limit on the size of files takes some lines and
//! then half a one, as a disk does that becomes full; the system calls it by another name, but it ends a
//! write in the same way.
#![cfg(target_os = "linux")]

mod common;

use std::{
    fs,
    os::unix::fs::symlink,
    process::{Command, Stdio},
};

use common::{Done, TestDir, checkpoints, json_lines, without_timings};
use hindsight::checkpoint::Checkpoint;

const RUN: &str = "run -b permuted-mnist -s tasks=2 -s samples=40 -s hidden=16 -j 1";

/// Asserts that `name` is what cannot be written, in one error with a hint.
fn assert_full(done: &Done, name: &str) {
    assert_eq!(done.code, Some(2), "{}", done.err);
    let lines: Vec<&str> = done.err.lines().collect();
    let errors: Vec<usize> = (0..lines.len()).filter(|&i| lines[i].starts_with("error: ")).collect();
    let [error] = errors[..] else { panic!("one error: {}", done.err) };
    let expected = format!("error: cannot write {name}: No space left on device");
    assert!(lines[error].starts_with(&expected), "{}", done.err);
    assert!(lines[error + 1].starts_with("hint: free some space"), "{}", done.err);
    assert_eq!(lines.len(), error + 2, "nothing comes after it: {}", done.err);
}

/// Puts a device that is always full where a file would be.
fn fill(place: &TestDir, name: &str) {
    let path = place.path(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    symlink("/dev/full", path).unwrap();
}

#[test]
fn each_file_of_a_run_that_does_not_fit_is_named() {
    for name in ["out/records.jsonl", "out/tasks.jsonl", "out/snapshots.jsonl"] {
        let place = TestDir::new();
        fill(&place, name);
        let done = place.hindsight(&format!("{RUN} -m hal -o out"));
        assert_full(&done, &format!("`{name}`"));
        assert_eq!(done.out, "");
    }
}

#[test]
fn a_report_that_does_not_fit_is_an_error_and_the_records_stay() {
    let place = TestDir::new();
    place.records(&format!("{RUN} -m finetune -o out"));
    let before = fs::read(place.path("out/records.jsonl")).unwrap();
    let err = limited(&place, 8, "report out");
    assert_eq!(err.matches("error: cannot write `report/").count(), 1, "{err}");
    assert!(err.contains(": File too large") && err.contains("hint: free some space"), "{err}");
    assert_eq!(fs::read(place.path("out/records.jsonl")).unwrap(), before);
    assert_eq!(place.hindsight("report out").code, Some(0));
}

#[test]
fn standard_output_that_is_full_is_an_error_of_every_command() {
    let place = TestDir::new();
    place.records(&format!("{RUN} -m finetune -o out"));
    for args in [
        "methods",
        "benchmarks",
        "data list",
        "completions bash",
        "report out",
        "--help",
        &format!("{RUN} -m finetune -o out"),
        &format!("{RUN} -m finetune -o out --json"),
    ] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = place.command(args).stdout(full).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_full(&Done { code: output.status.code(), out: String::new(), err }, "to standard output");
    }
}

/// What a command says that fails where no file may have more than so many blocks of 512 bytes.
fn limited(place: &TestDir, blocks: u64, args: &str) -> String {
    under_limit(place, &format!("-f {blocks}"), args)
}

/// What a command says that fails under a limit of the shell's `ulimit`.
fn under_limit(place: &TestDir, limit: &str, args: &str) -> String {
    let script = format!("ulimit {limit}; exec {} {args}", env!("CARGO_BIN_EXE_hindsight"));
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(place.path("")).stdin(Stdio::null());
    let output = command.env("HINDSIGHT_DATA", place.path("data")).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{err}");
    err
}

#[test]
fn a_checkpoint_that_does_not_fit_leaves_the_one_before_to_go_on_from() {
    let place = TestDir::new();
    // Each of its tasks adds to the memory, so that checkpoints grow.
    let run = "run -b permuted-mnist -m er-ring -s tasks=30 -s samples=60 -s hidden=16 -s slots=4 --checkpoint-every 6";
    let calm = place.records(&format!("{run} -o calm"));
    let last = checkpoints(&place.path("calm")).pop().unwrap().1;
    let limit = fs::metadata(last).unwrap().len() * 9 / 10 / 512;
    let err = limited(&place, limit, &format!("{run} -o rough"));
    assert_eq!(err.matches("error: ").count(), 1, "{err}");
    assert!(err.contains("error: cannot write `rough/checkpoints/er-ring-seed0-"), "{err}");
    assert!(err.contains(": File too large") && err.contains("hint: make room"), "{err}");

    let (batches, good) = checkpoints(&place.path("rough")).pop().expect("one from before");
    assert!((6..180).contains(&batches) && Checkpoint::read(&good).is_ok());
    let rough = place.hindsight("resume rough --json");
    assert!(rough.err.contains(&format!("goes on after {batches} batches")), "{}", rough.err);
    assert_eq!(without_timings(json_lines(&rough.out)), without_timings(calm));
}

#[test]
fn what_was_finished_before_the_disk_was_full_is_kept_and_not_done_again() {
    let place = TestDir::new();
    let run = format!("{RUN} -m finetune --seeds 8 -o out");
    // Some records and a part of another.
    let err = limited(&place, 8, &run);
    assert_eq!(err.matches("error: cannot write `out/records.jsonl`: File too large").count(), 1, "{err}");
    assert!(err.trim_end().lines().last().unwrap().starts_with("hint: "), "{err}");

    let text = fs::read_to_string(place.path("out/records.jsonl")).unwrap();
    let (whole, half) = text.split_at(text.rfind('\n').unwrap() + 1);
    let kept = json_lines(whole);
    assert!((1..8).contains(&kept.len()) && !half.is_empty(), "{text}");
    // The report is on what there is, and tells of the rest.
    let report = place.hindsight("report out");
    assert_eq!(report.code, Some(0), "{}", report.err);
    assert!(report.err.contains("ends early"), "{}", report.err);

    let again = place.hindsight(&run);
    assert_eq!(again.code, Some(0), "{}", again.err);
    assert!(again.err.contains(&format!("note: {} of 8 runs already finished", kept.len())), "{}", again.err);
    let after = fs::read_to_string(place.path("out/records.jsonl")).unwrap();
    assert!(after.starts_with(whole), "earlier records are as they were");
    assert_eq!(json_lines(&after).len(), 8);
}

#[test]
fn a_learner_that_cannot_be_kept_is_told_also_with_quiet() {
    let place = TestDir::new();
    place.write("out/models", "a file where a folder should be");
    let done = place.hindsight(&format!("{RUN} -m finetune -q -o out"));
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(done.err.starts_with("warning: finetune"), "{}", done.err);
    assert!(done.err.contains(": the model is not kept: "), "{}", done.err);
    assert_eq!(place.lines("out/records.jsonl").len(), 1);
}

#[test]
fn too_many_open_files_is_told_with_the_limit_to_raise() {
    let place = TestDir::new();
    let err = under_limit(&place, "-n 5", "run -m finetune --tasks 2 -s samples=20 -o out");
    assert!(err.contains("error: cannot write `out/") && err.contains("Too many open files"), "{err}");
    assert!(err.contains("hint: raise the limit of open files"), "{err}");
}
