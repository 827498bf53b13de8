//! A reader that goes away, such as `head`, is not an error, and takes nothing along that would have been
//! kept.

mod common;

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    process::Stdio,
};

use common::TestDir;

const SMALL: &str = "-b permuted-mnist -s tasks=2 -s samples=40 -s hidden=16";

/// Every command that writes to standard output, with what else it leaves.
fn commands() -> Vec<(String, Option<&'static str>)> {
    let sweep = format!("sweep {SMALL} -m finetune --grid finetune.rate=0.1,0.2");
    let reproduce = "reproduce t1 -b permuted-mnist -m finetune --quick -s samples=40 -s hidden=16";
    let with_file = [
        (format!("run {SMALL} -m finetune,er-ring -o run"), "run/records.jsonl"),
        (format!("run {SMALL} -m finetune --seeds 3 --json -j 1 -o json"), "json/records.jsonl"),
        (format!("{sweep} -o sweep"), "sweep/best.toml"),
        (format!("{sweep} --json -o sweep-json"), "sweep-json/best-finetune.toml"),
        (reproduce.to_owned(), "reproduction/index.html"),
        ("report run".to_owned(), "report/index.html"),
    ];
    let without = [
        "methods",
        "methods hal",
        "methods --markdown",
        "benchmarks",
        "data list",
        "data verify digits",
        "data fetch digits",
        "completions bash",
        "--help",
        "run --help",
        "--version",
    ];
    let with_file = with_file.into_iter().map(|(args, file)| (args, Some(file)));
    with_file.chain(without.into_iter().map(|args| (args.to_owned(), None))).collect()
}

/// Asserts that a command whose reader takes so many lines ends well.
fn ends_well(place: &TestDir, args: &str, lines: usize, file: Option<&str>) {
    let mut child = place.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    for _ in 0..lines {
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "{args} says nothing");
    }
    drop(out);
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{args}: {said}");
    assert!(!said.contains("panicked") && !said.contains("error"), "{args}: {said}");
    if let Some(file) = file {
        assert!(fs::metadata(place.path(file)).is_ok_and(|meta| meta.len() > 0), "{args} leaves no {file}");
    }
}

#[test]
fn a_reader_that_leaves_at_once_is_not_an_error() {
    let place = TestDir::new();
    for (args, file) in commands() {
        ends_well(&place, &args, 0, file);
    }
}

#[test]
fn a_reader_of_one_line_is_not_an_error() {
    let place = TestDir::new();
    for (args, file) in commands() {
        ends_well(&place, &args, 1, file);
    }
}

#[test]
fn runs_go_on_when_nobody_reads_standard_error() {
    let place = TestDir::new();
    let run = format!("run {SMALL} -m finetune -o out");
    let mut child = place.command(&run).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(place.lines("out/records.jsonl").len(), 1);
}
