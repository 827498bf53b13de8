//! `hindsight sweep` as a user meets it: stopped, continued, split, and asked for what cannot be.

mod common;

use std::{
    fs::{self, File},
    io::Write,
    process::Stdio,
    thread::sleep,
    time::{Duration, Instant},
};

use common::{TestDir, json_lines, without_timings};
use serde_json::Value;

/// Two points of ER-Ring and six of HAL, with two seeds: 16 runs.
const SWEEP: &str = "sweep -b permuted-mnist -s tuning_tasks=2 -s samples=40 -s hidden=16 -m er-ring,hal --seeds 2 \
                     --grid hal.lambda=0.01,0.1,1 --grid hal.beta=0.5,0.75 --grid er-ring.rate=0.03,0.1";
const RUNS: usize = 16;

/// The records of a sweep and of its parts, in an order of their own.
fn records(place: &TestDir, folder: &str) -> Vec<Value> {
    let mut files = vec![format!("{folder}/records.jsonl")];
    for entry in fs::read_dir(place.path(folder)).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.starts_with("shard-") {
            files.push(format!("{folder}/{name}/records.jsonl"));
        }
    }
    let files = files.iter().filter(|file| place.path(file).exists());
    let mut records = without_timings(files.flat_map(|file| place.lines(file)).collect());
    records.sort_by_key(Value::to_string);
    records
}

fn best(place: &TestDir, path: &str) -> String {
    let text = fs::read_to_string(place.path(path)).unwrap();
    assert!(text.starts_with("# Best of the sweep in "), "{text}");
    text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_sweep_ranks_its_points_and_writes_the_best() {
    let place = TestDir::new();
    let done = place.hindsight(SWEEP);
    assert_eq!(done.code, Some(0), "{}", done.err);
    let lines: Vec<&str> = done.out.lines().collect();
    assert_eq!(lines[0], "er-ring");
    assert!(lines[1].starts_with("rank  rate  accuracy %") && lines[5].is_empty(), "{}", done.out);
    assert_eq!(lines[6], "hal");
    assert!(lines[7].starts_with("rank  lambda  beta  accuracy %  forgetting"), "{}", done.out);
    let ranks: Vec<&str> = lines[9..15].iter().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(ranks, ["1", "2", "3", "4", "5", "6"]);
    assert!(lines[9].ends_with("  2/2"), "{}", done.out);
    for line in ["  grid.hal.lambda = [0.01, 0.1, 1.0]", "16 of 16 runs to do, "] {
        assert!(done.err.contains(line), "{line}: {}", done.err);
    }
    assert_eq!(done.err.matches(", place ").count(), 8, "{}", done.err);

    // The same command finds its folder again, and has nothing to do.
    let again = place.hindsight(&format!("{SWEEP} --json"));
    assert!(again.code == Some(0) && again.err.contains("0 of 16 runs to do"), "{}", again.err);
    let points = json_lines(&again.out);
    assert_eq!(points.len(), 8);
    let folders: Vec<_> = fs::read_dir(place.path("runs")).unwrap().collect();
    assert_eq!(folders.len(), 1);
    let folder = format!("runs/{}", folders[0].as_ref().unwrap().file_name().to_str().unwrap());
    let found = records(&place, &folder);
    assert_eq!(found.len(), RUNS);
    assert!(
        found.iter().all(|r| r["config"]["tuning"] == true && r["matrix"].as_array().unwrap().len() == 2)
    );

    // What is written runs as it is, on the other tasks.
    for (file, methods) in [("best.toml", &["er-ring", "hal"][..]), ("best-hal.toml", &["hal"])] {
        let runs = place.records(&format!("run --tasks 2 -c {folder}/{file}"));
        assert_eq!(runs.len(), 2 * methods.len(), "two seeds");
        let best = points.iter().find(|point| point["method"] == "hal" && point["rank"] == 1).unwrap();
        for run in runs.iter().filter(|run| run["method"] == "hal") {
            let config = &run["config"];
            assert_eq!((&config["tuning"], &config["samples"]), (&false.into(), &40.into()));
            assert_eq!(config["hal.lambda"], best["values"]["hal.lambda"]);
            assert_eq!(config["hal.beta"], best["values"]["hal.beta"]);
        }
    }
}

#[test]
fn a_sweep_killed_and_continued_ends_with_the_same_records() {
    let place = TestDir::new();
    // Runs long enough that some are left when the last kill comes.
    let sweep = format!("{SWEEP} -s samples=200 -s hidden=[64,64]");
    assert_eq!(place.hindsight(&format!("{sweep} -o whole")).code, Some(0));
    let whole = records(&place, "whole");
    assert_eq!(whole.len(), RUNS);

    let file = place.path("killed/records.jsonl");
    let count = || fs::read(&file).map_or(0, |bytes| bytes.iter().filter(|&&byte| byte == b'\n').count());
    // As if it had been killed while it wrote.
    let half_a_line = || {
        let line = fs::read(place.path("whole/records.jsonl")).unwrap();
        fs::OpenOptions::new().append(true).open(&file).unwrap().write_all(&line[..300]).unwrap();
    };
    let mut kills = 0;
    for until in [1, 2, 4, 7] {
        let mut child = place.command(&format!("{sweep} -o killed -j 1"));
        let mut child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let begun = Instant::now();
        while count() < until && begun.elapsed() < Duration::from_secs(60) {
            sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        kills += usize::from(child.wait().unwrap().code().is_none());
        if until == 2 {
            half_a_line();
        }
    }
    assert!(kills > 0 && count() < RUNS, "{kills} kills, {} records", count());
    half_a_line();
    let done = place.hindsight(&format!("{sweep} -o killed"));
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(done.err.contains("records.jsonl` is incomplete and is dropped"), "{}", done.err);
    assert_eq!(records(&place, "killed"), whole);
    for file in ["best-er-ring.toml", "best-hal.toml"] {
        assert_eq!(best(&place, &format!("killed/{file}")), best(&place, &format!("whole/{file}")));
    }
}

#[test]
fn parts_together_are_the_whole() {
    let place = TestDir::new();
    assert_eq!(place.hindsight(&format!("{SWEEP} -o whole")).code, Some(0));
    let whole = records(&place, "whole");

    // One after the other, in folders of their own.
    for (folder, shard) in [("a", "1/2"), ("b", "2/2")] {
        let done = place.hindsight(&format!("{SWEEP} -o {folder} --shard {shard}"));
        assert_eq!(done.code, Some(0), "{}", done.err);
        assert!(done.err.contains(&format!("8 of 16 runs to do in shard {shard}")), "{}", done.err);
        assert!(!place.path(&format!("{folder}/best.toml")).exists());
    }
    let mut both = records(&place, "a");
    both.extend(records(&place, "b"));
    both.sort_by_key(Value::to_string);
    assert_eq!(both, whole);
    let merged = hindsight::run_folder::read(&[place.path("a"), place.path("b")]).unwrap();
    assert_eq!((merged.records.len(), merged.notes), (RUNS, vec![]), "as a report reads them");

    // At once, in one folder, as the jobs of an array.
    let shards = ["1/3", "2/3", "3/3"].map(|shard| {
        let mut command = place.command(&format!("{SWEEP} -o parts -j 1 --shard {shard}"));
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    });
    for mut shard in shards {
        assert_eq!(shard.wait().unwrap().code(), Some(0));
    }
    assert_eq!(records(&place, "parts"), whole);
    assert!(!place.path("parts/records.jsonl").exists());
    // Whoever ended last has seen the others.
    assert_eq!(best(&place, "parts/best-hal.toml"), best(&place, "whole/best-hal.toml"));
    let done = place.hindsight(&format!("{SWEEP} -o parts"));
    assert!(done.code == Some(0) && done.err.contains("0 of 16 runs to do"), "{}", done.err);
    assert_eq!(records(&place, "parts"), whole);
}

#[test]
fn another_sweep_in_the_same_folder_is_refused() {
    let place = TestDir::new();
    let sweep = "sweep -b permuted-mnist -s tuning_tasks=1 -s samples=20 -s hidden=8 -m finetune -o out";
    assert_eq!(place.hindsight(&format!("{sweep} --grid finetune.rate=0.1,0.3")).code, Some(0));
    place.refuses(
        &format!("{sweep} --grid finetune.rate=0.1,1 --seeds 2"),
        "sweep.toml` is of another sweep: `grid.finetune.rate` was `[0.1, 0.3]`, now `[0.1, 1.0]`, `seeds` was `1`, now `2`",
        "`--force`",
    );
    assert_eq!(place.lines("out/records.jsonl").len(), 2);
    let done = place.hindsight(&format!("{sweep} --grid finetune.rate=0.1,1 --force"));
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(done.err.contains("1 of 2 runs to do") && done.err.contains("also has 1 record of other runs"));
    assert_eq!(place.lines("out/records.jsonl").len(), 3);
    // Its definition is a configuration too.
    let done = place.hindsight("sweep -c out/sweep.toml -o out");
    assert!(done.code == Some(0) && done.err.contains("0 of 2 runs to do"), "{}", done.err);

    // Nor can two write to one folder at a time.
    let lock = File::open(place.path("out/.lock")).unwrap();
    lock.lock().unwrap();
    place.refuses("sweep -c out/sweep.toml -o out", "`out` is in use by another `hindsight`", "`--out`");
}

#[test]
fn points_that_diverge_are_kept_and_come_last() {
    let place = TestDir::new();
    let sweep = "sweep -b permuted-mnist -s tuning_tasks=2 -s samples=40 -s hidden=[32,32] -m hal -o out \
                 --grid hal.lambda=1e6,0.1";
    for todo in [2, 0] {
        let done = place.hindsight(sweep);
        assert_eq!(done.code, Some(1), "{}", done.err);
        assert!(done.err.contains(&format!("{todo} of 2 runs to do")), "{}", done.err);
        let lines: Vec<&str> = done.out.lines().collect();
        assert!(lines[2].starts_with("1     0.1 ") && lines[3].ends_with("diverged"), "{}", done.out);
    }
    assert_eq!(place.lines("out/records.jsonl").len(), 2);
    assert!(best(&place, "out/best-hal.toml").contains("lambda = 0.1"));
}

#[test]
fn a_file_holds_a_whole_sweep() {
    let place = TestDir::new();
    let file = "benchmark = \"permuted-mnist\"\nmethod = [\"finetune\"]\ntuning_tasks = 1\nsamples = 20\nhidden = 8\n\
                [grid]\nfinetune.rate = [0.1, 0.2, 0.3, 0.4]\nbatch = [5, 10]\n[sweep]\nrandom = 3\nseed = 5\n";
    place.write("sweep.toml", file);
    let points = |args: &str| json_lines(&place.hindsight(&format!("sweep -c sweep.toml {args} --json")).out);
    assert_eq!(points("-j 1").len(), 3);
    assert_eq!(points("--random 5").len(), 5);
    let evaluated = points("-g finetune.rate=0.1 --evaluated --tasks 2");
    assert_eq!(evaluated.len(), 2, "the flag's list replaces the file's");
    let key = |points: Vec<Value>| points.iter().map(|p| p["values"].to_string()).collect::<Vec<_>>();
    assert_ne!(key(points("-j 1")), key(points("--sweep-seed 6")));
}

#[test]
fn bad_input_is_refused() {
    let place = TestDir::new();
    let sweep = "sweep -b permuted-mnist -m hal -s hidden=8";
    let refuses =
        |args: &str, error: &str, hint: &str| place.refuses(&format!("{sweep} {args}"), error, hint);
    refuses("-g hal.lamda=1,2", "unknown key `hal.lamda`", "did you mean `hal.lambda`?");
    refuses("-g bacth=1,2", "unknown key `bacth`", "did you mean `batch`?");
    refuses("-g hall.lambda=1", "unknown method `hall`", "did you mean `hal`?");
    refuses("-g hal.lambda=", "the grid has no values for `hal.lambda`", "comma-separated");
    refuses("-g hal.lambda=1,,2", "`hal.lambda=1,,2` is not a grid", "for example `--grid hal.lambda=0.1,1`");
    refuses("-g everything", "`everything` is not a grid, expected `paper` or", "for example");
    refuses("-g hal.beta=0.5,2", "`hal.beta` is `2`, expected a number from 0 to 1", "methods hal`");
    refuses("-g samples=10,1000", "`samples` is 1000, but the training pool", "at most 220");
    refuses("-g seeds=1,2", "`seeds` cannot be in a grid", "`--seeds 3`");
    refuses("-g method=hal,mer", "`method` cannot be in a grid", "`--method hal,er-ring`");
    for shard in ["3/2", "0/2", "x/y", "2", "-1/2"] {
        let error = format!("`{shard}` is not a shard, expected `i/n` with i from 1 to n");
        refuses(&format!("--shard {shard}"), &error, "`--shard 1/4` to `--shard 4/4`");
    }
    refuses("-s tuning_tasks=0", "`tuning_tasks` is 0", "`--evaluated`");
    refuses("--random 0", "0 is not in 1..", "--help");
    refuses("-c nowhere.toml", "cannot read `nowhere.toml`", "TOML file");
    for (text, error, hint) in [
        ("[grid]\nhal.lambda = []\n", "the grid has no values for `hal.lambda`", "--grid hal.lambda=1,2"),
        ("[grid]\nhal.lambda = 3\n", "`hal.lambda = 3` is not a grid", "`[grid]`"),
        ("[grid]\nhal.lamda = [3]\n", "unknown key `hal.lamda`", "`hal.lambda`"),
        (
            "[sweep]\nrandom = 0\n",
            "`sweep.random` is `0`, expected a whole number of at least 1",
            "`[sweep]`",
        ),
        ("[sweep]\nrandm = 3\n", "unknown key `sweep.randm`", "`sweep.random`"),
        ("sweep = 3\n", "`sweep = 3` is not a setting", ""),
    ] {
        place.write("bad.toml", text);
        refuses("-c bad.toml", error, hint);
    }
    place.write("file", "");
    refuses("-o file/below -s samples=20", "cannot write `file/below", "choose another folder with `--out`");
}

#[test]
fn force_does_not_replace_the_definition_of_a_sweep_that_runs() {
    let place = TestDir::new();
    let sweep = "sweep -b permuted-mnist -m er-ring -s samples=200 -s hidden=64 -s tuning_tasks=400 -o out";
    let mut command = place.command(&format!("{sweep} --grid slots=1,2"));
    let mut child = command.stderr(std::process::Stdio::null()).spawn().unwrap();
    let give_up = Instant::now() + Duration::from_secs(60);
    while !place.path("out/sweep.toml").exists() {
        assert!(Instant::now() < give_up);
        sleep(Duration::from_millis(1));
    }
    let before = fs::read_to_string(place.path("out/sweep.toml")).unwrap();
    for shard in ["", " --shard 1/2"] {
        let done = place.hindsight(&format!("{sweep} --grid slots=3 --force{shard}"));
        assert_eq!(done.code, Some(2), "{}", done.err);
        assert!(done.err.contains("`out` is in use"), "{}", done.err);
        assert_eq!(fs::read_to_string(place.path("out/sweep.toml")).unwrap(), before);
    }
    child.kill().unwrap();
    child.wait().unwrap();
}
