//! `hindsight reproduce` as a user meets it, on a stand-in for MNIST: the numbers mean nothing, the way does.

mod common;

use std::fs;

use common::TestDir;

/// Small enough for a test; the stand-in has no more samples.
const SMALL: &str = "--quick --seeds 1 -s samples=40 -s hidden=16 -s tasks=2";

#[test]
fn a_table_is_run_once_and_compared() {
    let place = TestDir::new();
    let command = format!("reproduce t2 t3 f2 --benchmark permuted-mnist {SMALL}");
    let done = place.hindsight(&command);
    assert_eq!(done.code, Some(0), "{}", done.err);
    // ER-Ring with one and two slots, HAL with learned and with oracle anchors.
    for said in [
        "t2, t3, f2 on permuted-mnist: 4 different runs, results in `reproduction`",
        "warning: quick: these numbers are not comparable with published ones",
        "mnist: 4 of 4 runs to do",
        "permuted-mnist er-ring (slots=2): ",
    ] {
        assert!(done.err.contains(said), "{said}: {}", done.err);
    }
    for said in [
        "t2: HAL against ER-Ring with twice the memory\n\npermuted-mnist, accuracy %\nmethod ",
        "not comparable (quick)  1\n",
        "not comparable with published numbers: run with samples = 40, hidden = 16, tasks = 2",
        "of 8 numbers of the paper: 8 not comparable (quick)\n",
        "of 4 numbers of the authors' program: 4 not comparable (quick)\npermuted-mnist: hal is ",
    ] {
        assert!(done.out.contains(said), "{said}: {}", done.out);
    }
    assert!(done.out.ends_with("index.html\n"), "{}", done.out);
    let read = |name: &str| fs::read_to_string(place.path(&format!("reproduction/{name}"))).unwrap();
    assert!(
        read("t2.md").starts_with(
            "# t2: HAL against ER-Ring with twice the memory\n\n## permuted-mnist, accuracy %\n"
        )
    );
    assert!(
        read("t3.csv")
            .starts_with("benchmark,measure,method,paper,paper ±,authors' program,authors' program ±,ours,")
    );
    assert!(read("t3.tex").contains("hal (anchors=oracle) & $73.9 \\pm 0.4$ & "));
    assert!(read("f2-permuted-mnist.svg").contains("feature space"));
    assert!(place.path("reproduction/f2-permuted-mnist.png").exists());
    assert!(
        read("f2.md").contains("](f2-permuted-mnist.svg)") && !place.path("reproduction/f2.csv").exists()
    );
    assert!(read("index.html").contains("<h2 id=\"t3\">"));

    // The same again has nothing to do, and says the same; a table more needs what it alone has.
    let again = place.hindsight(&command);
    assert!(again.code == Some(0) && again.err.contains("mnist: 0 of 4 runs to do"), "{}", again.err);
    assert_eq!(again.out, done.out);
    let none = place.hindsight(&format!("reproduce t4 -b permuted-mnist {SMALL} --no-runs"));
    assert!(none.code == Some(0) && !none.err.contains("to do"), "{}", none.err);
    assert_eq!(place.lines("reproduction/runs/mnist/records.jsonl").len(), 4);
    let csv = read("t4.csv");
    assert!(csv.contains("not run") && csv.contains("not comparable (quick)"), "{csv}");
    // Records are enough: data need not be there, and cannot be for all that is published.
    let tables = place.hindsight(&format!("{command} --no-runs --data-dir nowhere"));
    assert_eq!((tables.code, tables.out), (Some(0), done.out), "{}", tables.err);
    let more = place.hindsight(&format!("reproduce t4 -b permuted-mnist {SMALL}"));
    assert!(more.err.contains("mnist: 1 of 2 runs to do"), "{}", more.err);
    assert_eq!(place.lines("reproduction/runs/mnist/records.jsonl").len(), 5);
}

#[test]
fn benchmarks_without_data_are_not_run_unless_asked_for() {
    let place = TestDir::new();
    let command = format!("reproduce t1 -m finetune {SMALL} -o again");
    let done = place.hindsight(&command);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(done.err.contains("note: `cifar100` not found"), "{}", done.err);
    assert!(done.out.contains("split-cifar100, accuracy %\n"), "{}", done.out);
    let csv = fs::read_to_string(place.path("again/t1.csv")).unwrap();
    // On both image benchmarks, by both measures, against the paper and the program; the program has Permuted
    // MNIST only.
    assert_eq!(csv.matches("not run").count(), 8, "{csv}");
    assert_eq!(csv.matches("not comparable (quick)").count(), 6, "{csv}");

    place.refuses("reproduce t1 -b split-cifar100", "`cifar100` not found", "hindsight data fetch cifar100");
    let nowhere = "reproduce t1 --data-dir nowhere";
    place.refuses(nowhere, "`mnist` not found", "hindsight data fetch mnist");
    assert!(!place.path("reproduction").exists());
}

#[test]
fn bad_input_is_refused() {
    let place = TestDir::new();
    for (args, error, hint) in [
        ("t8", "unknown table or figure `t8`", "did you mean `t1`?"),
        ("tabel1", "unknown table or figure `tabel1`", "known are t1, t2, t3"),
        ("t1 -b rotated-mnits", "unknown benchmark `rotated-mnits`", "did you mean `rotated-mnist`?"),
        ("t7 -b rotated-mnist", "`rotated-mnist` is not in `t7`", "permuted-mnist, split-cifar100"),
        ("t1 -m hall", "unknown method `hall`", "did you mean `hal`?"),
        ("t1 --seeds 0", "`seeds` is `0`", "`--seeds 3`"),
        ("t1 --seeds many", "`seeds` is `many`", "`--seeds 3`"),
        ("t1 -s hal.lamda=1", "unknown key `hal.lamda`", "did you mean `hal.lambda`?"),
        ("--quick", "required arguments were not provided", "--help"),
    ] {
        place.refuses(&format!("reproduce {args}"), error, hint);
    }
    place.write("file", "");
    let below = format!("reproduce t2 -b permuted-mnist {SMALL} -o file/below");
    place.refuses(&below, "cannot write `file/below", "choose another folder with `--out`");
}

#[test]
fn settings_that_rows_are_named_after_are_refused() {
    let place = TestDir::new();
    let refuses = |settings: &str, error: &str, hint: &str| {
        place.refuses(&format!("reproduce t2 -b permuted-mnist {SMALL} {settings}"), error, hint);
        assert!(!place.path("reproduction").exists());
    };
    refuses(
        "-s slots=7",
        "`slots` cannot be set: `t2` has a row `er-ring (slots=",
        "hindsight run --set slots=",
    );
    refuses("-s method=finetune", "`method` cannot be set: `t2` has a row `er-ring", "`--method`");
    refuses("-s benchmark=rotated-mnist", "`benchmark` cannot be set", "`--benchmark`");
    // The rows of the first table are not named after the memory.
    let done = place.hindsight(&format!("reproduce t1 -b permuted-mnist -m er-ring {SMALL} -s slots=7"));
    assert_eq!(done.code, Some(0), "{}", done.err);
}
