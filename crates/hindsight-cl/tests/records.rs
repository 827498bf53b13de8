//! Records on the disk: every version is read, and what is damaged is told of and left out.

use std::{fs, path::Path};

use hindsight::{
    Record,
    run_folder::{self, RecordError},
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A line of version 1, as its program wrote it.
const FIRST: &str = include_str!("record_v1.json").trim_ascii_end();

fn line(seed: u64, accuracy: f64) -> Value {
    let mut value: Value = serde_json::from_str(FIRST).unwrap();
    value["version"] = json!(2);
    value["seed"] = json!(seed);
    value["accuracy"] = json!(accuracy);
    value
}

fn folder(text: impl AsRef<[u8]>) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("records.jsonl"), text).unwrap();
    folder
}

fn seeds(records: &[Record]) -> Vec<u64> {
    records.iter().map(|record| record.seed).collect()
}

/// `line: reason` of every note.
fn notes(found: &run_folder::Records, folder: &Path) -> Vec<String> {
    let place = format!("{}:", folder.join("records.jsonl").display());
    found.notes.iter().map(|note| note.to_string().strip_prefix(&place).unwrap().to_owned()).collect()
}

#[test]
fn the_first_version_is_read_and_what_it_lacks_is_absent() {
    let folder = folder(format!("{FIRST}\n"));
    let found = run_folder::read(&[folder.path()]).unwrap();
    let [record] = &found.records[..] else { panic!("{found:?}") };
    assert_eq!((record.version, record.accuracy), (1, Some(63.5)));
    assert_eq!((&record.commit, &record.machine, record.peak_memory_bytes), (&None, &None, None));
    assert!(found.notes.is_empty());
}

#[test]
fn damaged_lines_are_told_of_by_number_and_the_rest_is_used() {
    let mut future = line(7, 1.0);
    future["version"] = json!(3);
    let mut crooked = line(8, 1.0);
    crooked["matrix"] = json!([[0.5, 0.5], [0.5]]);
    let text = format!(
        "{}\n{{\"version\": 2, oops}}\n\n{FIRST}\n{future}\n{crooked}\n[1]\n{{\"version\":2}}\n{}",
        line(1, 60.0),
        &line(2, 61.0).to_string()[..200]
    );
    let folder = folder(text);
    let found = run_folder::read(&[folder.path().join("records.jsonl")]).unwrap();
    assert_eq!(seeds(&found.records), [1, 0]);
    let notes = notes(&found, folder.path());
    let expected = [
        "2: key must be a string, column 16",
        "5: version 3, this program reads 1 to 2",
        "6: row 1 of the matrix has 1 entries, expected 2",
        "7: invalid length 1",
        "8: missing field `program`, column 13",
        "9: ends early, as if its writer had been stopped",
    ];
    assert_eq!(notes.len(), expected.len(), "{notes:?}");
    for (note, expected) in notes.iter().zip(expected) {
        assert!(note.starts_with(expected), "{note}, expected {expected}");
    }
}

#[test]
fn a_line_that_is_cut_anywhere_ends_early() {
    let mut record = line(2, 61.25e-9);
    record["accuracy"] = json!(-1.5e-7);
    let whole = record.to_string();
    for length in 1..whole.len() {
        let folder = folder(format!("{}\n{}", line(1, 60.0), &whole[..length]));
        let found = run_folder::read(&[folder.path()]).unwrap();
        let notes = notes(&found, folder.path());
        assert!(notes.len() == 1 && notes[0].contains("ends early"), "{}: {notes:?}", &whole[..length]);
    }
}

#[test]
fn bytes_that_are_no_text_are_a_damaged_line_too() {
    let mut text = line(1, 60.0).to_string().into_bytes();
    text.extend(b"\n{\"version\":2,\"program\":\"\xff\xfe\"}\n\0\0\0\n");
    let folder = folder(text);
    let found = run_folder::read(&[folder.path()]).unwrap();
    assert_eq!((seeds(&found.records), found.notes.len()), (vec![1], 2));
}

#[test]
fn of_a_run_that_was_repeated_the_last_counts() {
    let mut other = line(1, 50.0);
    other["config"]["tasks"] = json!(3);
    let folder = folder(format!("{}\n{other}\n{}\n", line(1, 60.0), line(1, 62.0)));
    let found = run_folder::read(&[folder.path()]).unwrap();
    let accuracies: Vec<_> = found.records.iter().map(|record| record.accuracy.unwrap()).collect();
    assert_eq!(accuracies, [50.0, 62.0], "another setting is another run");
    assert_eq!(
        notes(&found, folder.path()),
        ["1: finetune on permuted-digits, seed 1, comes again later; the last counts"]
    );
}

#[test]
fn a_folder_stands_for_the_files_in_it_and_below_and_none_is_read_twice() {
    let parent = folder(line(0, 1.0).to_string());
    for (name, seed) in [("b", 2), ("a", 1)] {
        fs::create_dir(parent.path().join(name)).unwrap();
        fs::write(parent.path().join(name).join("records.jsonl"), line(seed, 1.0).to_string()).unwrap();
    }
    let paths = [parent.path().to_owned(), parent.path().join("a"), parent.path().join("b/../b")];
    let found = run_folder::read(&paths).unwrap();
    assert_eq!((seeds(&found.records), found.notes.len()), (vec![0, 1, 2], 0));
}

#[test]
fn nothing_to_read_is_an_error_with_a_hint() {
    let empty = tempfile::tempdir().unwrap();
    let refused = |path: &Path| run_folder::read(&[path]).unwrap_err();
    let error = refused(empty.path());
    assert!(matches!(error, RecordError::NoFile { .. }) && error.hint().unwrap().contains("--out"));
    let error = refused(&empty.path().join("nowhere"));
    assert!(matches!(error, RecordError::Unreadable { .. }) && error.hint().unwrap().contains("runs"));
    let error = refused(folder("\n").path());
    assert!(matches!(error, RecordError::Nothing { .. }) && error.hint().unwrap().contains("ended"));
    let error = refused(folder("{}\n").path());
    assert!(error.to_string().contains("records.jsonl:1: missing field `version`"), "{error}");
}

#[test]
fn summaries_say_of_all_files_of_a_folder_which_runs_are_finished() {
    let folder = folder(format!("{}\n{}\n", line(1, 60.0), line(2, 61.0)));
    let inner = folder.path().join("job-7_1");
    fs::create_dir(&inner).unwrap();
    let torn = &line(4, 62.0).to_string()[..99];
    fs::write(inner.join("records.jsonl"), format!("{}\n{}\n{torn}", line(3, 62.0), line(1, 60.0))).unwrap();
    let (summaries, notes) = run_folder::summaries(&[folder.path()]).unwrap();
    let found = run_folder::read(&[folder.path()]).unwrap();
    let mut ids: Vec<&str> = summaries.iter().map(|run| run.id.as_str()).collect();
    assert_eq!((ids.len(), notes.len()), (4, 1), "one run comes twice, one is torn");
    ids.sort_unstable();
    ids.dedup();
    let mut read: Vec<String> = found.records.iter().map(Record::id).collect();
    read.sort();
    assert_eq!(ids, read);
    assert!(ids.iter().all(|id| id.len() == 16), "{ids:?}");
    assert!(!summaries[0].counts(&[]), "of no known data");

    let empty = tempfile::tempdir().unwrap();
    assert_eq!(run_folder::summaries(&[empty.path()]).unwrap(), (Vec::new(), Vec::new()));
}
