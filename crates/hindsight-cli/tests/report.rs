//! `hindsight report` as a user meets it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use tempfile::TempDir;

const RECORD: &str = include_str!("record_v1.json");

fn hindsight(place: &Path, args: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hindsight"));
    command.args(args.split(' ')).current_dir(place).stdin(Stdio::null()).output().unwrap()
}

fn place() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Asserts exit code 2 and two lines on standard error with these words; nothing is written.
fn refuses(place: &Path, args: &str, error: &str, hint: &str) {
    let done = hindsight(place, args);
    let said = text(&done.stderr);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!((done.status.code(), done.stdout.len(), lines.len()), (Some(2), 0, 2), "{args}: {said}");
    assert!(lines[0].starts_with("error: ") && lines[0].contains(error), "{said}");
    assert!(lines[1].starts_with("hint: ") && lines[1].contains(hint), "{said}");
    assert!(!place.join("report").exists());
}

#[test]
fn a_run_becomes_a_page_with_tables_and_figures() {
    let place = place();
    let run = "run -m finetune,hal --seeds 2 --tasks 2 -s samples=60 -s hidden=16 -o runs/a";
    assert_eq!(hindsight(place.path(), run).status.code(), Some(0));
    let done = hindsight(place.path(), "report runs --title Two");
    assert_eq!((done.status.code(), text(&done.stderr).as_str()), (Some(0), ""));
    let page = place.path().join("report/index.html");
    let said = text(&done.stdout);
    assert!(said.contains("permuted-digits: ") && said.contains("index.html: 4 runs, "), "{said}");
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("<h1>Two</h1>") && page.contains("SHA-256 "), "{page}");
    assert_eq!(files(&place.path().join("report/tables")).len(), 12);
    for (file, rows) in [("runs.csv", 1 + 4), ("evaluations.csv", 1 + 4 * (2 + 4))] {
        let csv = fs::read_to_string(place.path().join("report").join(file)).unwrap();
        assert_eq!(csv.lines().count(), rows, "{csv}");
    }
    let figures = files(&place.path().join("report/figures"));
    let names: Vec<String> =
        figures.iter().map(|p| p.file_stem().unwrap().to_string_lossy().into()).collect();
    for name in [
        "accuracy",
        "anchors",
        "confusion",
        "differences",
        "embedding",
        "forgetting",
        "matrix",
        "reliability",
        "tasks",
        "time",
    ] {
        let name = format!("permuted-digits-{name}");
        assert_eq!(names.iter().filter(|n| **n == name).count(), 2, "{name}: svg and png");
    }
}

#[test]
fn damaged_lines_are_told_of_and_the_rest_is_reported() {
    let place = place();
    let later = RECORD.replace("\"version\":1", "\"version\":9").replace("\"seed\":0", "\"seed\":1");
    fs::write(place.path().join("records.jsonl"), format!("{RECORD}{later}{}", &RECORD[..80])).unwrap();
    let done = hindsight(place.path(), "report records.jsonl -o out");
    assert_eq!(done.status.code(), Some(0));
    let said = text(&done.stderr);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert!(lines[0].starts_with("warning: records.jsonl:2: version 9, "), "{said}");
    assert!(lines[1].starts_with("warning: records.jsonl:3: ends early"), "{said}");
    let page = fs::read_to_string(place.path().join("out/index.html")).unwrap();
    assert!(page.contains("records.jsonl:2: version 9") && page.contains("2 lines not used"));
}

#[test]
fn nothing_to_report_on_is_refused() {
    let place = place();
    fs::create_dir(place.path().join("empty")).unwrap();
    refuses(place.path(), "report empty", "no `records.jsonl` in `empty`", "hindsight run --out");
    refuses(place.path(), "report nowhere", "cannot read `nowhere`: ", "under `runs`");
    refuses(place.path(), "report", "<RECORDS>...", "--help");
    fs::write(place.path().join("empty/records.jsonl"), "").unwrap();
    refuses(place.path(), "report empty", "no record in `empty", "has one ended yet?");
}

#[test]
fn a_place_that_cannot_be_written_is_refused() {
    let place = place();
    fs::write(place.path().join("records.jsonl"), RECORD).unwrap();
    fs::write(place.path().join("file"), "").unwrap();
    refuses(
        place.path(),
        "report records.jsonl -o file",
        "cannot write `file",
        "another folder with `--out`",
    );
}

#[test]
fn a_run_added_to_half_a_line_is_not_lost() {
    let place = place();
    let file = place.path().join("records.jsonl");
    fs::write(&file, &RECORD[..80]).unwrap();
    let run = "run -m finetune --tasks 2 -s samples=20 -s hidden=16 -o .";
    let done = hindsight(place.path(), run);
    assert_eq!(done.status.code(), Some(0));
    assert!(text(&done.stderr).contains("is incomplete and is dropped"), "{}", text(&done.stderr));
    let done = hindsight(place.path(), "report . -o out");
    assert!(text(&done.stdout).contains("index.html: 1 run, "), "{}", text(&done.stdout));
}

#[test]
fn the_folder_of_a_reproduction_has_its_records_two_levels_below() {
    let place = place();
    fs::create_dir_all(place.path().join("reproduction/runs/mnist")).unwrap();
    fs::write(place.path().join("reproduction/runs/mnist/records.jsonl"), RECORD).unwrap();
    let done = hindsight(place.path(), "report reproduction");
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    assert!(text(&done.stdout).contains("1 run, "), "{}", text(&done.stdout));
}

#[test]
fn streams_with_similar_names_have_different_files() {
    let place = place();
    let record: serde_json::Value = serde_json::from_str(RECORD).unwrap();
    let long = "a".repeat(60);
    let names = ["iris.v1", "iris-v1", "Iris-V1", &format!("{long}1"), &format!("{long}2")];
    let mut lines = String::new();
    for name in names {
        let mut record = record.clone();
        record["benchmark"] = name.into();
        lines += &format!("{record}\n");
    }
    fs::write(place.path().join("records.jsonl"), lines).unwrap();
    let done = hindsight(place.path(), "report records.jsonl");
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let tables = files(&place.path().join("report/tables"));
    let results = tables.iter().filter(|path| path.to_str().unwrap().ends_with("-results.md")).count();
    assert_eq!(results, names.len(), "{tables:?}");
    assert!(tables.contains(&place.path().join("report/tables/iris-v1-results.md")));
}

/// Waits until `found` is so; a page that never comes is a failure, not a hang.
fn wait_for(what: &str, found: impl Fn() -> bool) {
    let give_up = Instant::now() + Duration::from_secs(60);
    while !found() {
        assert!(Instant::now() < give_up, "{what}");
        sleep(Duration::from_millis(20));
    }
}

#[cfg(unix)]
#[test]
fn a_watched_page_follows_records_and_tasks_and_is_finished_by_an_interrupt() {
    let place = place();
    let (folder, page) = (place.path().join("runs"), place.path().join("report/index.html"));
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("records.jsonl"), "").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hindsight"));
    command.args(["report", "runs", "--watch"]).current_dir(place.path()).stdin(Stdio::null());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let shows = |words: &str| fs::read_to_string(&page).is_ok_and(|page| page.contains(words));
    wait_for("a page before the first record", || shows("0 runs"));
    assert!(shows("data-watch=\"3\""));
    // The last line is only half written.
    let task = r#"{"method":"hal","benchmark":"b","seed":7,"task":0,"row":[0.75,null]}"#;
    fs::write(folder.join("tasks.jsonl"), format!("{task}\n{}", &task[..20])).unwrap();
    wait_for("the finished task", || shows("hal on b, seed 7</th><td>1</td><td>75.0</td>"));
    fs::write(folder.join("records.jsonl"), RECORD).unwrap();
    wait_for("the record", || shows("1 run, "));
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
    let done = child.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    assert!(!shows("data-watch=\"3\"") && shows("1 run, "), "the finished page does not load itself again");
    assert!(place.path().join("report/runs.csv").exists());
}

#[test]
fn a_run_with_a_report_leaves_a_finished_page_beside_its_records() {
    let place = place();
    let run = "run -m finetune,hal --tasks 2 -s samples=40 -s hidden=16 -s prequential=20 -o mine --report";
    let done = hindsight(place.path(), run);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    assert!(text(&done.stderr).contains("page: mine/report/index.html"), "{}", text(&done.stderr));
    let page = fs::read_to_string(place.path().join("mine/report/index.html")).unwrap();
    assert!(page.contains("2 runs, 2 methods") && !page.contains("data-watch=\""));
    assert!(page.contains("domain-incremental") && page.contains("Prequential accuracy"));
}
