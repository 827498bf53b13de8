//! Runs that are killed and resumed: records and learners are bit-identical to those of uninterrupted runs.
//!
//! `HINDSIGHT_KILLS=100` kills every method a hundred times in place of twice.

mod common;

use std::{
    fs,
    process::Stdio,
    thread::sleep,
    time::{Duration, Instant},
};

use common::{TestDir, checkpoints, without_timings};
use hindsight::{Rng, checkpoint::Checkpoint, methods::METHODS};

/// 2 tasks of 6 batches.
const RUN: &str = "run -b permuted-mnist -s tasks=2 -s samples=60 -s hidden=16 -s slots=2 -s evaluate_every=5 \
                   -s vcl.samples=2 -s vcl-random.samples=2 -s vcl-random.epochs=2 -s hal.anchor_steps=5 \
                   -s slda.from=features -s ranpac.units=20 -s gdumb.epochs=2 \
                   --checkpoint-every 1";
const BATCHES: usize = 12;

#[test]
fn every_method_killed_and_resumed_is_bit_identical() {
    let kills: usize = std::env::var("HINDSIGHT_KILLS").map_or(2, |kills| kills.parse().unwrap());
    let place = TestDir::new();
    let mut rng = Rng::named(1, "kills");
    let mut killed = 0;
    for method in METHODS.iter().map(|method| method.name) {
        let command = |folder: &str| format!("{RUN} -m {method} --out {folder}");
        let (calm, rough) = (format!("{method}-calm"), format!("{method}-rough"));
        assert_eq!(place.hindsight(&command(&calm)).code, Some(0), "{method}");
        let mut round = 0;
        let mut left = kills;
        while left > 0 {
            round += 1;
            let folder = format!("{rough}-{round}");
            let mut first = true;
            // Until it is through: wait for a random checkpoint that is not there yet, then a little, then
            // kill.
            loop {
                let at = checkpoints(&place.path(&folder)).last().map_or(0, |last| last.0);
                let args = if first { command(&folder) } else { format!("resume {folder}") };
                first = false;
                let mut child =
                    place.command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
                if left == 0 || at >= BATCHES {
                    assert!(child.wait().unwrap().success(), "{method}");
                    break;
                }
                let goal = at + 1 + rng.below(BATCHES - at);
                let give_up = Instant::now() + Duration::from_secs(60);
                while child.try_wait().unwrap().is_none()
                    && checkpoints(&place.path(&folder)).last().is_none_or(|last| last.0 < goal)
                {
                    assert!(Instant::now() < give_up, "{method} does not get to batch {goal}");
                }
                sleep(Duration::from_micros(rng.below(2_000) as u64));
                let over = child.try_wait().unwrap();
                if let Some(status) = over {
                    assert!(status.success(), "{method}");
                    break;
                }
                child.kill().unwrap();
                child.wait().unwrap();
                left -= 1;
                killed += 1;
            }
            let records = |folder: &str| without_timings(place.lines(&format!("{folder}/records.jsonl")));
            assert_eq!(records(&folder), records(&calm), "{method}");
            let last = |folder: &str| {
                let all = checkpoints(&place.path(folder));
                Checkpoint::read(&all.last().unwrap().1).unwrap()
            };
            assert!(last(&folder).same_state(&last(&calm)), "{method}: the learner differs");
            fs::remove_dir_all(place.path(&folder)).unwrap();
        }
    }
    println!("{killed} kills, no difference");
    assert!(killed >= kills * METHODS.len());
}

#[test]
fn resume_needs_a_folder_that_a_run_wrote_to() {
    let place = TestDir::new();
    place.refuses(
        "resume nowhere",
        "cannot read `nowhere/resume.json`",
        "the folder that `hindsight run` wrote to",
    );
    fs::create_dir(place.path("other")).unwrap();
    place.write("other/resume.json", "{\"version\": 9");
    place.refuses("resume other", "cannot read `other/resume.json`", "wrote to");
    place.write(
        "other/resume.json",
        "{\"version\": 9, \"settings\": [], \"data_dir\": \"\", \"checkpoint_every\": 0, \"checkpoint_keep\": 1}",
    );
    place.refuses("resume other", "it has version 9, expected 1", "wrote to");
}

#[cfg(unix)]
#[test]
fn a_plan_that_stands_is_not_written_again() {
    use std::os::unix::fs::{MetadataExt, symlink};
    let place = TestDir::new();
    let run = format!("{RUN} -m finetune --out out");
    place.records(&run);
    let plan = place.path("out/resume.json");
    let file = || fs::metadata(&plan).unwrap().ino();
    let first = file();
    place.records(&run);
    place.records("resume out");
    assert_eq!(file(), first);
    place.records(&format!("{run} --checkpoint-keep 3"));
    assert_ne!(file(), first, "another plan takes its place, whole");
    assert!(fs::read_to_string(&plan).unwrap().contains("\"checkpoint_keep\": 3"));

    fs::remove_file(&plan).unwrap();
    symlink("/dev/zero", &plan).unwrap();
    place.refuses("resume out", "it has more than 16777216 bytes", "wrote to");
}

#[test]
fn a_finished_folder_has_nothing_to_resume() {
    let place = TestDir::new();
    let records = place.records(&format!("{RUN} -m finetune,er-ring --out runs/a"));
    assert_eq!(place.records("resume runs/a"), records);
    let done = place.hindsight("resume runs/a");
    assert!(done.code == Some(0) && done.err.contains("2 of 2 runs already finished"), "{}", done.err);
    // Where the data has changed, records and checkpoints no longer hold.
    place.write("data/t10k-labels-idx1-ubyte", common::idx(&[common::TEST], [3; common::TEST]));
    let done = place.hindsight("resume runs/a");
    assert_eq!(done.code, Some(2), "{}", done.err);
    assert!(done.err.contains("for data, expected") && done.err.contains("hint: "), "{}", done.err);
}

#[test]
fn a_custom_stream_is_resumed() {
    let place = TestDir::new();
    fs::create_dir(place.path("mine")).unwrap();
    let lines: String = (0..200).map(|i| format!("{},{},{}\n", i % 7, i % 5, i % 2)).collect();
    place.write("mine/a.csv", format!("x,y,kind\n{lines}"));
    let file = "format = \"csv\"\nlabel = \"kind\"\ntasks = \"none\"\nhold_out = 0.2\n[[files]]\ntrain = \"a.csv\"\n";
    place.write("mine/a.toml", file);
    let run = "run --stream mine/a.toml -m er-ring -s hidden=8 --checkpoint-every 3 --out out";
    let calm = place.records(run);
    // As if killed before the record was written, and asked for from elsewhere.
    fs::remove_file(place.path("out/records.jsonl")).unwrap();
    let mut command = place.command("resume ../out --json");
    let done = command.current_dir(place.path("mine")).output().unwrap();
    let err = String::from_utf8(done.stderr).unwrap();
    assert!(done.status.success() && err.contains("er-ring seed 0: goes on after 16 batches"), "{err}");
    let again = common::json_lines(&String::from_utf8(done.stdout).unwrap());
    assert_eq!(without_timings(again), without_timings(calm));
    // The learner of a stream without a name in any table can be taken over.
    let last = checkpoints(&place.path("out")).pop().unwrap();
    let agent = hindsight::Agent::load(&last.1).unwrap();
    assert_eq!(agent.predict(&[0.0, 0.0], 0).unwrap().len(), 1);
}

#[cfg(unix)]
#[test]
fn ctrl_c_saves_and_resume_ends_with_the_final_learner() {
    let place = TestDir::new();
    // Long enough to be interrupted, without a checkpoint of its own accord.
    let run = "run -b permuted-mnist -m er-ring -s tasks=400 -s samples=200 -s hidden=64 -s evaluate=final";
    let calm = place.records(&format!("{run} --out calm"));
    let mut command = place.command(&format!("{run} --out rough"));
    let child = command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let give_up = Instant::now() + Duration::from_secs(60);
    // The plan is there just before the runs start.
    while !place.path("rough/tasks.jsonl").exists() {
        assert!(Instant::now() < give_up);
        sleep(Duration::from_millis(1));
    }
    let sent = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{err}");
    assert!(
        err.contains("stopped: 0 of 1 run finished") && err.contains("`hindsight resume rough`"),
        "{err}"
    );
    assert_eq!(checkpoints(&place.path("rough")).len(), 1);
    assert!(!place.path("rough/failures.jsonl").exists());
    let rough = place.records("resume rough");
    assert_eq!(without_timings(rough), without_timings(calm));
    // 400 tasks of 20 batches: the last checkpoint is of the final learner.
    assert_eq!(checkpoints(&place.path("rough")).last().unwrap().0, 8000);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_leaves_the_last_good_checkpoint() {
    // A tiny file system of its own, where one may be made: else there is nothing to fill.
    let place = TestDir::new();
    fs::create_dir(place.path("small")).unwrap();
    let mount = |args: &[&str]| std::process::Command::new("mount").args(args).stderr(Stdio::null()).status();
    let target = place.path("small").to_str().unwrap().to_owned();
    if !mount(&["-t", "tmpfs", "-o", "size=160k", "none", &target]).is_ok_and(|status| status.success()) {
        println!("no file system can be mounted here: nothing tested");
        return;
    }
    // Each of its tasks adds to the memory, so that checkpoints grow until one no longer fits.
    let run = "run -b permuted-mnist -m er-ring -s tasks=40 -s samples=60 -s hidden=16 -s slots=4 --checkpoint-every 6";
    let done = place.hindsight(&format!("{run} --out small/run"));
    let found = checkpoints(&place.path("small/run"));
    let good = found.last().map(|(batches, path)| (*batches, Checkpoint::read(path)));
    let unmounted = std::process::Command::new("umount").arg(&target).status();
    assert_eq!(done.code, Some(2), "{}", done.err);
    assert_eq!(done.err.matches("error: ").count(), 1, "{}", done.err);
    assert!(done.err.contains("cannot write `small/run/checkpoints/"), "{}", done.err);
    assert!(done.err.contains("hint: "), "{}", done.err);
    let (batches, good) = good.expect("a checkpoint from before the disk was full");
    assert!(batches > 0 && good.is_ok(), "{:?}", good.err());
    assert!(unmounted.unwrap().success());
}

/// A run that is long enough to be stopped.
#[cfg(unix)]
const LONG: &str = "run -b permuted-mnist -s tasks=1000 -s samples=200 -s hidden=[256,256] -s evaluate=final";

/// Starts a command and waits until its first task is finished.
#[cfg(unix)]
fn started(place: &TestDir, mut command: std::process::Command, folder: &str) -> std::process::Child {
    let child = command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let give_up = Instant::now() + Duration::from_secs(60);
    while !place.path(&format!("{folder}/tasks.jsonl")).exists() {
        assert!(Instant::now() < give_up);
        sleep(Duration::from_millis(1));
    }
    child
}

#[cfg(unix)]
fn signal(child: &std::process::Child, name: &str) {
    let sent = std::process::Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

#[cfg(target_os = "linux")]
#[test]
fn a_hangup_stops_a_run_unless_nohup_has_it_ignored() {
    let place = TestDir::new();
    // Tests that are themselves run by `nohup` hand the ignored signal on.
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    if u64::from_str_radix(ignored.trim(), 16).unwrap() & 1 == 0 {
        let child = started(&place, place.command(&format!("{LONG} -m finetune --out plain")), "plain");
        signal(&child, "-HUP");
        assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
    }

    let mut command = std::process::Command::new("nohup");
    command.arg(env!("CARGO_BIN_EXE_hindsight")).args(format!("{LONG} -m finetune --out kept").split(' '));
    command.current_dir(place.path("")).env("HINDSIGHT_DATA", place.path("data")).stdin(Stdio::null());
    let child = started(&place, command, "kept");
    signal(&child, "-HUP");
    let done = child.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(place.lines("kept/records.jsonl").len(), 1);
}

#[cfg(unix)]
#[test]
fn records_that_are_deleted_during_a_run_are_written_again() {
    let place = TestDir::new();
    let run = format!("{LONG} --out out -j 1");
    place.records(&format!("{run} -m finetune -s tasks=2"));
    fs::remove_file(place.path("out/tasks.jsonl")).unwrap();
    let child = started(&place, place.command(&format!("{run} -m er-ring")), "out");
    fs::remove_file(place.path("out/records.jsonl")).unwrap();
    let done = child.wait_with_output().unwrap();
    let err = String::from_utf8(done.stderr).unwrap();
    assert!(done.status.success() && err.contains("was removed while runs were under way"), "{err}");
    let methods: Vec<_> =
        place.lines("out/records.jsonl").iter().map(|record| record["method"].clone()).collect();
    assert_eq!(methods, ["finetune", "er-ring"]);
}

#[cfg(unix)]
#[test]
fn another_method_does_not_replace_the_plan_of_a_stopped_run() {
    let place = TestDir::new();
    let child = started(&place, place.command(&format!("{LONG} -m er-ring --out out")), "out");
    signal(&child, "-INT");
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
    let plan = fs::read_to_string(place.path("out/resume.json")).unwrap();
    place.refuses(
        &format!("{LONG} -m finetune --out out"),
        "`out` has checkpoints of other runs that are not finished: er-ring seed 0",
        "`hindsight resume out`",
    );
    assert_eq!(fs::read_to_string(place.path("out/resume.json")).unwrap(), plan);
    // With that method among others nothing is lost, and once it is finished the folder is free.
    place.records("resume out");
    place.records(&format!("{LONG} -m finetune --out out"));
}

#[cfg(target_os = "linux")]
#[test]
fn paths_that_are_not_utf_8_are_resumed() {
    use std::os::unix::ffi::OsStrExt;
    let place = TestDir::new();
    let data = place.path("").join(std::ffi::OsStr::from_bytes(b"d\xe4ta"));
    fs::rename(place.path("data"), &data).unwrap();
    let mut command = place.command(&format!("{RUN} -m finetune --out out --data-dir"));
    let done = command.arg(&data).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let again = place.hindsight("resume out");
    assert_eq!(again.code, Some(0), "{}", again.err);
}
