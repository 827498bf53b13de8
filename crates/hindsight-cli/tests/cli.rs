//! The binary as a user meets it: what it prints where, what it leaves on the disk, and its exit codes.
//!
//! Most runs are on a stand-in for MNIST, small images written by the test, so that each takes a moment.

mod common;

use std::{fs, path::Path, process::Stdio};

use common::{FILES, SIDE, TEST, TRAIN, TestDir, idx, labels, stand_in, without_timings};
use serde_json::Value;

/// The stand-in's benchmark and the smallest settings that still learn something.
const SMALL: &str = "run -b permuted-mnist -s tasks=2 -s samples=40 -s hidden=16";

fn methods(records: &[Value]) -> Vec<(&str, u64)> {
    records.iter().map(|r| (r["method"].as_str().unwrap(), r["seed"].as_u64().unwrap())).collect()
}

#[test]
fn a_run_without_data_or_settings_compares_three_methods() {
    let place = TestDir::new();
    let done = place.hindsight("run --tasks 2 -s samples=20 -s hidden=16");
    assert_eq!(done.code, Some(0), "{}", done.err);
    let lines: Vec<&str> = done.out.lines().collect();
    assert!(lines[0].starts_with("method") && lines[0].contains("accuracy %"), "{}", done.out);
    for (line, method) in lines[2..].iter().zip(["finetune", "er-ring", "hal"]) {
        assert!(line.starts_with(method), "{line}");
    }
    assert!(lines[5].is_empty() && lines[6].contains("has the highest mean accuracy, "), "{}", done.out);
    assert_eq!(lines.len(), 7);
}

#[test]
fn settings_and_the_place_of_the_records_are_on_standard_error() {
    let place = TestDir::new();
    let done = place.hindsight(&format!("{SMALL} --seeds 2 -j 1"));
    let lines: Vec<&str> = done.err.lines().collect();
    assert_eq!(
        lines[0],
        "permuted-mnist (domain-incremental): finetune, er-ring, hal, 2 seeds, 1 run at a time"
    );
    for setting in ["  tasks = 2", "  samples = 40", "  hidden = [16]"] {
        assert!(lines.contains(&setting), "{setting}: {}", done.err);
    }
    assert!(!done.err.contains("hal.lambda"), "a default: {}", done.err);
    let records = Path::new("runs").join("0001-permuted-mnist").join("records.jsonl");
    assert!(lines.contains(&&*format!("records: {}", records.display())), "{}", done.err);
    // Tables of intermediate results are for terminals.
    assert!(!done.err.contains("method "), "{}", done.err);
    assert!(done.out.contains("± ") && done.out.contains(", 2 seeds)"), "{}", done.out);

    let verbose = place.hindsight(&format!("{SMALL} --verbose"));
    assert!(verbose.err.contains("\n  hal.lambda = 0.1\n"), "{}", verbose.err);
    let quiet = place.hindsight(&format!("{SMALL} -q"));
    assert_eq!((quiet.code, quiet.err.as_str()), (Some(0), ""));
    assert!(quiet.out.starts_with("method "), "{}", quiet.out);
}

#[test]
fn folders_are_numbered_and_a_chosen_one_is_added_to() {
    let place = TestDir::new();
    place.records(&format!("{SMALL} -m finetune"));
    place.records("run -b rotated-mnist --tasks 2 -s samples=40 -s hidden=16 -m finetune");
    for folder in ["0001-permuted-mnist", "0002-rotated-mnist"] {
        assert_eq!(place.lines(&format!("runs/{folder}/records.jsonl")).len(), 1);
    }
    for (seeds, count) in [(1, 1), (3, 3), (2, 3)] {
        let shown = place.records(&format!("{SMALL} -m finetune -o a/b --seeds {seeds}"));
        let kept = place.lines("a/b/records.jsonl");
        assert_eq!((shown.len(), kept.len()), (seeds, count));
        assert!(shown.iter().all(|record| kept.contains(record)), "what is there is shown as it is");
    }
    assert_eq!(fs::read_dir(place.path("runs")).unwrap().count(), 2);
}

#[test]
fn json_is_one_record_per_run_in_the_order_of_the_configuration() {
    let place = TestDir::new();
    let mut records = place.records(&format!("{SMALL} --seeds 2 -o out"));
    let expected = [("finetune", 0), ("finetune", 1), ("er-ring", 0), ("er-ring", 1), ("hal", 0), ("hal", 1)];
    assert_eq!(methods(&records), expected);
    for record in &records {
        assert_eq!((&record["benchmark"], &record["status"]), (&"permuted-mnist".into(), &"done".into()));
        let fraction = |value: &Value| {
            let x = value.as_f64().unwrap();
            assert!((0.0..=1.0).contains(&x), "{x}");
            x
        };
        let rows = record["matrix"].as_array().unwrap().iter();
        let matrix: Vec<Vec<f64>> =
            rows.map(|row| row.as_array().unwrap().iter().map(fraction).collect()).collect();
        assert!(matrix.len() == 2 && matrix.iter().all(|row| row.len() == 2), "{matrix:?}");
        let near = |key: &str, x: f64| (record[key].as_f64().unwrap() - x).abs() < 1e-9;
        assert!(near("accuracy", 50.0 * (matrix[1][0] + matrix[1][1])), "{record}");
        assert!(near("forgetting", matrix[0][0] - matrix[1][0]), "{record}");
        assert!(near("learning_accuracy", (matrix[0][0] + matrix[1][1]) / 2.0), "{record}");
        assert!(record["train_seconds"].is_f64() && record["eval_seconds"].is_f64());
    }

    // The file has the same lines, in the order in which the runs ended.
    let mut written = place.lines("out/records.jsonl");
    let key = |record: &Value| (record["method"].to_string(), record["seed"].as_u64());
    records.sort_by_key(key);
    written.sort_by_key(key);
    assert_eq!(records, written);

    // And every row of every matrix is a line of its own.
    let tasks = place.lines("out/tasks.jsonl");
    assert_eq!(tasks.len(), 2 * records.len());
    for line in &tasks {
        let run = records.iter().find(|r| key(r) == key(line)).unwrap();
        assert_eq!(line["row"], run["matrix"][line["task"].as_u64().unwrap() as usize]);
    }
}

#[test]
fn neither_jobs_nor_repetition_change_a_record() {
    let place = TestDir::new();
    let records = |jobs: &str| without_timings(place.records(&format!("{SMALL} --seeds 2 {jobs}")));
    let first = records("-j 1");
    assert_eq!(first, records("-j 2"));
    assert_eq!(first, records("-j 1"));
    assert_ne!(first[0]["matrix"], first[1]["matrix"], "seeds differ");
}

#[test]
fn all_is_every_method_of_the_table() {
    let place = TestDir::new();
    let table = place.hindsight("methods").out;
    let listed: Vec<&str> = table.lines().map_while(|line| line.split("  ").next()).collect();
    let listed = listed.split(|name| name.is_empty()).next().unwrap();
    let records = place.records(&format!("{SMALL} -m all"));
    assert_eq!(methods(&records).iter().map(|(name, _)| *name).collect::<Vec<_>>(), listed);
    assert!(records.iter().all(|record| record["status"] == "done"));
}

#[test]
fn flags_beat_settings_and_these_beat_the_file() {
    let place = TestDir::new();
    let file = "benchmark = \"permuted-mnist\"\nmethod = [\"er-ring\", \"hal\"]\nseeds = 2\ntasks = 4\n\
                samples = 30\nslots = 2\nhidden = [8]\n[hal]\nlambda = 0.25\nbeta = 0.75\n";
    place.write("small.toml", file);
    let plain = place.records("run -c small.toml");
    assert_eq!(methods(&plain), [("er-ring", 0), ("er-ring", 1), ("hal", 0), ("hal", 1)]);
    let config = &plain[2]["config"];
    assert_eq!(config["tasks"], 4);
    assert_eq!(config["hidden"], serde_json::json!([8]));
    assert_eq!((&config["hal.lambda"], &config["hal.beta"]), (&0.25.into(), &0.75.into()));

    let over = "run --tasks 2 -s tasks=3 -s slots=3 -s seeds=1 -s hal.beta=0.5 -m hal -c small.toml";
    let over = place.records(over);
    assert_eq!(methods(&over), [("hal", 0)]);
    let config = &over[0]["config"];
    assert_eq!((&config["tasks"], &config["slots"], &config["samples"]), (&2.into(), &3.into(), &30.into()));
    assert_eq!((&config["hal.lambda"], &config["hal.beta"]), (&0.25.into(), &0.5.into()));
}

#[test]
fn a_preset_ranks_below_what_is_set() {
    let place = TestDir::new();
    let records = place.records(&format!("{SMALL} -m hal -s hal.penalty=mean -s hal.preset=paper"));
    let config = &records[0]["config"];
    assert_eq!((&config["hal.penalty"], &config["hal.phi"]), (&"mean".into(), &"task".into()));
}

#[test]
fn the_matrix_has_what_was_evaluated() {
    let place = TestDir::new();
    let known = |evaluate: &str| -> Vec<Vec<bool>> {
        let records = place.records(&format!("{SMALL} -m finetune --tasks 3 -s evaluate={evaluate}"));
        let rows = records[0]["matrix"].as_array().unwrap().clone();
        rows.iter().map(|row| row.as_array().unwrap().iter().map(Value::is_f64).collect()).collect()
    };
    assert_eq!(known("full"), [[true; 3]; 3]);
    assert_eq!(known("seen"), [[true, false, false], [true, true, false], [true; 3]]);
    assert_eq!(known("final"), [[false; 3], [false; 3], [true; 3]]);
}

#[test]
fn a_curve_is_recorded_when_asked_for() {
    let place = TestDir::new();
    let run = format!("{SMALL} -m finetune -s batch=10");
    // Two tasks of four batches each.
    let records = place.records(&format!("{run} -s evaluate_every=3"));
    let curve = records[0]["curve"].as_array().unwrap();
    let batches: Vec<u64> = curve.iter().map(|point| point["batches"].as_u64().unwrap()).collect();
    assert_eq!(batches, [3, 6]);
    assert!(curve.iter().all(|point| (0.0..=1.0).contains(&point["accuracy"].as_f64().unwrap())));
    let without = place.records(&run);
    assert!(without[0].get("curve").is_none());
    assert_eq!(without[0]["matrix"], records[0]["matrix"], "looking changes nothing");
}

#[test]
fn unknown_names_are_refused_with_the_nearest() {
    let place = TestDir::new();
    place.refuses("run -m hall", "unknown method `hall`", "did you mean `hal`?");
    place.refuses("run -m xyzzy", "unknown method `xyzzy`", "known are finetune, ");
    place.refuses("run -b permuted-minst", "unknown benchmark `permuted-minst`", "`permuted-mnist`?");
    place.refuses("run -s bacth=3", "unknown key `bacth`", "did you mean `batch`?");
    place.refuses("run -s hal.lamda=3", "unknown key `hal.lamda`", "did you mean `hal.lambda`?");
    place.refuses("run -s hall.lambda=3", "unknown method `hall`", "did you mean `hal`?");
    place.refuses("methods hall", "unknown method `hall`", "did you mean `hal`?");
    place.refuses("data verify mnits", "unknown data set `mnits`", "did you mean `mnist`?");
    place.refuses("run --task 3", "unexpected argument `--task`", "`--tasks`");
    place.refuses("rum", "unrecognized subcommand `rum`", "`run`");
}

#[test]
fn values_that_a_key_does_not_take_are_refused() {
    let place = TestDir::new();
    let benchmarks = "`hindsight benchmarks` lists";
    place.refuses("run --tasks 0", "`tasks` is `0`, expected a whole number of at least 1", benchmarks);
    place.refuses("run --tasks 2.5", "`tasks` is `2.5`, expected a whole number", benchmarks);
    place.refuses("run --slots -1", "`slots` is `-1`, expected a whole number from 0", benchmarks);
    place.refuses("run --seeds -1", "`seeds` is `-1`, expected a whole number from 1", "--seeds 3");
    place.refuses("run -s seeds=0", "`seeds` is `0`", "--seeds 3");
    place.refuses("run -s batch=ten", "`batch` is `ten`, expected a whole number", benchmarks);
    place.refuses("run -s hidden=[8,0]", "`hidden` is `[8, 0]`, expected a list of widths", benchmarks);
    place.refuses("run -s evaluate=often", "expected `full` or `seen` or `final`", benchmarks);
    place.refuses("run -s hal.lambda=-1", "`hal.lambda` is `-1`, expected a number", "methods hal`");
    place.refuses(
        "run -s hal.beta=nan",
        "`hal.beta` is `NaN`, expected a number from 0 to 1",
        "methods hal`",
    );
    // Also of a method that does not run now.
    place.refuses("run -m finetune -s hal.beta=2", "`hal.beta` is `2`", "methods hal`");
    place.refuses("run --jobs 0", "`--jobs <N>`: 0 is not in 1..", "--help");
    place.refuses("run --jobs many", "invalid value `many` for `--jobs <N>`", "--help");
    place.refuses("completions csh", "invalid value `csh` for `<SHELL>` [possible values: bash, ", "");
}

#[test]
fn a_text_in_place_of_a_list_is_refused_by_every_command() {
    let place = TestDir::new();
    place.write("text.toml", "hidden = \"[2]\"\n");
    for command in ["run", "sweep --grid finetune.rate=0.1"] {
        for set in ["-s hidden=\"[2]\"", "-c text.toml"] {
            place.refuses(
                &format!("{command} -b permuted-mnist -m finetune {set}"),
                "`hidden` is `[2]`, expected a list of widths such as [256, 256]",
                "",
            );
        }
    }
}

#[test]
fn malformed_settings_are_refused() {
    let place = TestDir::new();
    for found in ["hal", "hidden=[0.5]", "hal={lambda=1}"] {
        let error = format!("`{found}` is not a setting, expected `key=value`");
        place.refuses(&format!("run -s {found}"), &error, "for example `--set hal.lambda=0.3`");
    }
}

#[test]
fn configuration_files_that_cannot_be_used_are_refused() {
    let place = TestDir::new();
    place.refuses("run -c nowhere.toml", "cannot read `nowhere.toml`", "TOML file");
    place.refuses("run -c data", "cannot read `data`", "TOML file");
    for (text, error) in [
        ("tasks = 2\nsamples = = 3\n", "`bad.toml`, line 2: "),
        ("tasks = 2\n\n= 3\n", "`bad.toml`, line 3: "),
        ("tasks = 2\ntasks = 3\n", "`bad.toml`, line 2: duplicate key"),
        ("tasks = 2\nmethod = [\n", "`bad.toml`, line 2: "),
        ("[hal]\nlamda = 1\n", "unknown key `hal.lamda`"),
        ("[hall]\nlambda = 1\n", "unknown method `hall`"),
        ("[hal.more]\nlambda = 1\n", "`hal.more = { lambda = 1 }` is not a setting"),
        ("tasks = 1979-05-27\n", "`tasks = 1979-05-27` is not a setting"),
    ] {
        place.write("bad.toml", text);
        place.refuses("run -c bad.toml", error, "");
    }
    place.write("bad.toml", [0xff, 0xfe]);
    place.refuses("run -c bad.toml", "cannot read `bad.toml`: ", "TOML file");
}

#[test]
fn missing_data_is_refused_with_the_way_to_get_it() {
    let place = TestDir::new();
    let error = "`mnist` not found: no `train-images-idx3-ubyte` in `nowhere";
    place.refuses(&format!("{SMALL} --data-dir nowhere"), error, "run `hindsight data fetch mnist`");
    fs::remove_file(place.path("data/t10k-labels-idx1-ubyte")).unwrap();
    place.refuses(SMALL, "no `t10k-labels-idx1-ubyte` in", "`--data-dir` or `HINDSIGHT_DATA`");
}

#[test]
fn data_files_with_flaws_are_refused_with_their_names() {
    let [images, labels, ..] = FILES;
    let [good_images, good_labels, ..] = stand_in();
    let replace = "remove it and run `hindsight data fetch mnist`";
    let mut label = good_labels.clone();
    label[8 + 3] = 10;
    let cases: [(&str, &[u8], &str, &str); 8] = [
        (images, &good_images[..1000], "ends after 1000 bytes, expected 15376", replace),
        (images, &[&good_images[..], &[0]].concat(), "goes on after the 15376 bytes", replace),
        (images, b"", "ends after 0 bytes", replace),
        (images, &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xff, 0xff], "cannot be read: ", replace),
        (images, b"<!DOCTYPE html>", "magic number `0x3c21444f`", replace),
        (images, &good_labels, "magic number `0x00000801`", "this file holds labels"),
        (labels, &label, "label 3 is `10`, expected less than 10", "hindsight data verify"),
        (labels, &self::labels(TRAIN - 1), "found 239 labels, expected 240", "hindsight data verify"),
    ];
    for (name, bytes, error, hint) in cases {
        let place = TestDir::new();
        place.write(&format!("data/{name}"), bytes);
        place.refuses(SMALL, error, hint);
        place.refuses(SMALL, &place.path(&format!("data/{name}")).display().to_string(), hint);
    }
    let place = TestDir::new();
    place.write(&format!("data/{}", FILES[2]), idx(&[TEST, 4, 4], vec![0; TEST * 16]));
    place.refuses(SMALL, "found test images of 4x4, expected 8x8", "hindsight data verify");
}

#[test]
fn more_samples_than_there_are_is_refused() {
    let place = TestDir::new();
    // A twelfth of the training images is set aside for validation.
    let error = "`samples` is 221, but the training pool of `mnist` holds 220";
    place.refuses(&format!("{SMALL} -s samples=221"), error, "set `samples` to at most 220");
    place.records(&format!("{SMALL} -m finetune -s samples=220"));
}

#[test]
fn a_place_that_cannot_be_written_is_refused() {
    let place = TestDir::new();
    place.write("file", "");
    for out in ["file", "file/below"] {
        let error = format!("cannot write `{out}`: ");
        place.refuses(&format!("{SMALL} -o {out}"), &error, "choose another folder with `--out`");
    }
    place.refuses("data fetch mnist --data-dir file", "`file", "choose another folder with `--data-dir`");
    place.write("runs", "");
    let done = place.hindsight(SMALL);
    assert_eq!(done.code, Some(2));
    assert!(done.err.starts_with("error: cannot write `runs`: "), "{}", done.err);
}

#[test]
fn a_run_that_diverges_is_recorded_and_the_others_finish() {
    let place = TestDir::new();
    let run = format!("{SMALL} -m hal,finetune -s hal.lambda=1e6 -s hidden=[32,32] -o out");
    let done = place.hindsight(&run);
    assert_eq!(done.code, Some(1), "{}", done.err);
    let line = |method: &str| done.out.lines().find(|line| line.starts_with(method)).unwrap();
    assert!(line("hal").ends_with("diverged") && !line("finetune").ends_with("diverged"), "{}", done.out);

    let records = place.lines("out/records.jsonl");
    let of = |method: &str| records.iter().find(|record| record["method"] == method).unwrap();
    assert_eq!(of("finetune")["status"], "done");
    let hal = of("hal");
    assert_eq!((&hal["status"], &hal["accuracy"]), (&"diverged".into(), &Value::Null));
    assert_eq!(hal["matrix"].as_array().unwrap().len(), 1, "the first task has no anchors yet");
}

#[test]
fn a_reader_that_goes_away_is_not_an_error() {
    let place = TestDir::new();
    let json = format!("{SMALL} -m finetune --seeds 3 --json -j 1");
    for args in [SMALL, &json, "methods", "benchmarks", "data list", "completions bash", "--help"] {
        let mut child = place.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop((child.stdout.take(), child.stderr.take()));
        assert_eq!(child.wait().unwrap().code(), Some(0), "{args}");
    }
    // A table is printed in the end, JSON after each run.
    for (folder, records) in [("0001-permuted-mnist", 3), ("0002-permuted-mnist", 1)] {
        assert_eq!(place.lines(&format!("runs/{folder}/records.jsonl")).len(), records);
    }
}

#[test]
fn what_is_piped_has_no_escape_codes() {
    let place = TestDir::new();
    for args in [SMALL, "--help", "run --nonsense", "data list", "data verify"] {
        let done = place.hindsight(args);
        assert!(!done.out.contains('\x1b') && !done.err.contains('\x1b'), "{args}: {}{}", done.out, done.err);
    }
}

#[test]
fn tables_tell_of_methods_benchmarks_and_their_settings() {
    let place = TestDir::new();
    let shows = |args: &str, words: &[&str]| {
        let done = place.hindsight(args);
        assert_eq!((done.code, done.err.as_str()), (Some(0), ""), "{args}");
        for word in words {
            assert!(done.out.contains(word), "{args}: no {word} in {}", done.out);
        }
    };
    shows("methods", &["finetune  ", "\ner-ring ", "\nhal ", "hindsight methods NAME"]);
    shows(
        "methods hal",
        &["HAL: ", "from Chaudhry", "hal.lambda = 0.1", "a number from 0 to", "preset `paper`"],
    );
    shows(
        "benchmarks",
        &["permuted-digits  ", "rotated-mnist", "tasks = 20", "settings of rotated-digits only"],
    );
    shows("--help", &["hindsight run", "completions"]);
    shows("run --help", &["--benchmark", "[default: finetune,er-ring,hal]"]);
    shows("--version", &[concat!("hindsight ", env!("CARGO_PKG_VERSION"), "\n")]);
    for (shell, word) in
        [("bash", "complete "), ("zsh", "#compdef hindsight"), ("fish", "complete -c hindsight")]
    {
        shows(&format!("completions {shell}"), &[word, "seeds"]);
    }
}

#[test]
fn data_sets_are_listed_and_verified_where_they_are() {
    let place = TestDir::new();
    let data = place.path("data");
    let list = place.hindsight("data list");
    assert_eq!(list.code, Some(0));
    assert!(list.out.contains("built in") && list.out.contains(&format!("in `{}`", data.display())));
    let verify = place.hindsight("data verify mnist");
    assert_eq!(verify.code, Some(1), "the stand-in is not the original");
    assert_eq!(verify.out.matches(" different ").count(), 4, "{}", verify.out);
    let missing = place.hindsight("data verify mnist --data-dir nowhere");
    assert_eq!(missing.code, Some(1));
    assert_eq!(missing.out.matches(" missing").count(), 4, "{}", missing.out);
    let built_in = place.hindsight("data verify digits");
    assert_eq!((built_in.code, built_in.out.as_str()), (Some(0), "digits: built in, nothing to verify\n"));
    assert!(!place.path("nowhere").exists());
}

#[test]
fn fetching_never_touches_files_of_the_user() {
    let place = TestDir::new();
    let before: Vec<_> = FILES.map(|name| fs::read(place.path(&format!("data/{name}"))).unwrap()).into();
    place.refuses("data fetch mnist", "is not the original: found SHA-256", "move this one away");
    let after: Vec<_> = FILES.map(|name| fs::read(place.path(&format!("data/{name}"))).unwrap()).into();
    assert_eq!(before, after);
}

#[test]
fn defaults_of_a_benchmark_that_differ_are_listed() {
    let done = TestDir::new().hindsight("benchmarks");
    let line = |name: &str| {
        let start = format!("other defaults of {name}: ");
        done.out.lines().find_map(|line| line.strip_prefix(&start)).unwrap_or_default().to_owned()
    };
    assert!(line("split-digits").contains("tasks = "), "{}", done.out);
    assert!(line("split-cifar100").contains("network = resnet"), "{}", done.out);
    assert_eq!(line("permuted-mnist"), "", "{}", done.out);
    let own =
        |name: &str| done.out.split(&format!("settings of {name} only:\n")).nth(1).unwrap().trim_start();
    assert!(own("split-digits").starts_with("classes_per_task = 2\n"), "{}", done.out);
    assert!(own("split-cifar100").starts_with("classes_per_task = 5\n"), "{}", done.out);
}

#[test]
fn completions_offer_names() {
    let place = TestDir::new();
    let bash = place.hindsight("completions bash").out;
    for names in ["finetune ewc", "permuted-mnist rotated-digits"] {
        let offered = bash.lines().any(|line| line.contains("compgen -W") && line.contains(names));
        assert!(offered, "{names}");
    }
    assert!(bash.lines().any(|line| line.trim_start().starts_with("opts=") && line.contains("t1 t2 t3")));
    assert!(place.hindsight("completions zsh").out.contains("er-ring"));
    assert!(place.hindsight("completions fish").out.contains("rotated-digits"));
}

#[test]
fn a_line_break_in_a_setting_is_refused() {
    let place = TestDir::new();
    let mut command = place.command("run -m finetune -s");
    let done = command.arg("batch=20\nslots=7").output().unwrap();
    let err = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(2), "{err}");
    assert!(err.contains("is not a setting") && !place.path("runs").exists(), "{err}");
}

#[test]
fn methods_are_compared_within_one_budget_of_bytes() {
    let place = TestDir::new();
    let compare = "compare -b permuted-mnist -s tasks=2 -s samples=40 -s hidden=16 -j 1";
    // Two slots of 2 tasks with 10 classes in f32, and a little.
    let bytes = (2 * 20 * 4 * SIDE * SIDE + 100) as u64;
    let done = place
        .hindsight(&format!("{compare} -m er-ring,ewc,finetune,der++ --bytes {bytes} --updates 2 -o out"));
    assert_eq!(done.code, Some(0), "{}", done.err);
    let records = place.lines("out/records.jsonl");
    assert_eq!(methods(&records).len(), 3, "{}", done.err);
    assert!(done.err.contains("note: ewc is left out: it holds "), "{}", done.err);
    for record in &records {
        assert!(record["memory_bytes"].as_u64().unwrap() <= bytes, "{record}");
        let slots = match record["method"].as_str().unwrap() {
            "er-ring" => 2,
            // Their logits leave room for one slot alone; finetune has no use for any.
            _ => 1,
        };
        assert_eq!(record["config"]["slots"], slots, "{record}");
    }
    let updates = |method: &str| {
        let record = records.iter().find(|record| record["method"] == method).unwrap();
        record["config"].get(format!("{method}.updates")).cloned()
    };
    assert_eq!((updates("er-ring"), updates("finetune")), (Some(2.into()), None));

    let narrow = format!("{compare} -m er-ring --bytes {bytes} -s memory_precision=u8 -o narrow");
    assert_eq!(place.hindsight(&narrow).code, Some(0));
    assert_eq!(place.lines("narrow/records.jsonl")[0]["config"]["slots"], 7);

    place.refuses(
        &format!("{compare} -m ewc,hal --bytes 5"),
        "`bytes` is `5`, expected at least ",
        "allow more bytes",
    );
    place.refuses(&format!("{compare} --seconds 0"), "`0` is not a number of seconds above zero", "");
}
