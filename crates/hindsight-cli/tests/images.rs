//! Split benchmarks from end to end, on folders of images and CIFAR files that the tests write.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
};

use image::{Rgb, RgbImage};
use serde_json::Value;
use tempfile::TempDir;

/// Settings under which a residual network learns within a second.
const SMALL: &str = "-s classes_per_task=2 -s maps=[4,4] -s image_size=16 -s stem_stride=1 -s batch=5";

struct TestDir(TempDir);

struct Done {
    code: Option<i32>,
    out: String,
    err: String,
}

impl TestDir {
    fn new() -> TestDir {
        TestDir(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), bytes).unwrap();
    }

    /// Photographs of `classes` classes in `folder`, each class a colour of its own.
    fn photograph(&self, folder: &str, classes: usize) {
        for class in 0..classes {
            for i in 0..12 {
                let shade = |x: u32, y: u32| ((7 * x + 11 * y + 5 * i) % 60) as u8;
                let picture = RgbImage::from_fn(20 + i % 3, 18, |x, y| {
                    let mut pixel = [shade(x, y); 3];
                    pixel[class % 3] += 60 + 60 * (class / 3) as u8;
                    Rgb(pixel)
                });
                let kind = if i % 2 == 0 { "png" } else { "jpg" };
                let path = self.path(&format!("{folder}/class-{class}/{i:02}.{kind}"));
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                picture.save(path).unwrap();
            }
        }
    }

    /// Runs `hindsight run` with arguments parted by spaces, on data in `data`.
    fn run(&self, args: &str) -> Done {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hindsight"));
        command.arg("run").args(args.split(' ')).current_dir(self.0.path()).stdin(Stdio::null());
        command.env("HINDSIGHT_DATA", self.path("data")).env("HOME", self.0.path());
        let output = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Done { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Asserts that a run is refused with an error and a hint that say this.
    fn refuses(&self, args: &str, error: &str, hint: &str) {
        let done = self.run(args);
        assert_eq!(done.code, Some(2), "{args}: {}", done.err);
        let found = done.err.lines().find(|line| line.starts_with("error: ")).unwrap_or_default();
        assert!(found.contains(error), "{args}: {}", done.err);
        let found = done.err.lines().find(|line| line.starts_with("hint: ")).unwrap_or_default();
        assert!(found.contains(hint), "{args}: {}", done.err);
    }
}

fn records(done: &Done) -> Vec<Value> {
    assert_eq!(done.code, Some(0), "{}", done.err);
    done.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn miniimagenet_from_a_folder_to_a_record() {
    let place = TestDir::new();
    place.photograph("data/miniimagenet", 6);
    place.write("data/miniimagenet/class-0/broken.jpg", "not an image");
    let all = "finetune,er-ring,hal,icarl,a-gem,mer,mir,ewc,clone-and-finetune,multitask";
    let args = format!(
        "-b split-miniimagenet -m {all} {SMALL} -s tasks=2 -s tuning_tasks=1 -s samples=20 \
         -s hal.anchor_steps=5 --json"
    );
    let first = place.run(&args);
    let found = records(&first);
    assert_eq!(found.len(), 10);
    assert!(first.err.contains("class-0/broken.jpg"), "{}", first.err);
    assert_eq!(found[0]["matrix"].as_array().unwrap().len(), 2);
    // What was decoded is kept, and gives the same runs.
    assert!(place.path("data/miniimagenet/.hindsight-16x16.cache").is_file());
    let accuracy = |records: &[Value]| records.iter().map(|r| r["accuracy"].clone()).collect::<Vec<_>>();
    assert_eq!(accuracy(&records(&place.run(&args))), accuracy(&found));
}

#[test]
fn a_folder_of_ones_own_is_split_into_as_many_tasks_as_it_has_classes_for() {
    let place = TestDir::new();
    place.photograph("photos", 5);
    let args = format!(
        "-b split-folder --data-dir photos -m multitask {SMALL} -s multitask.epochs=8 -s multitask.rate=0.1 --json"
    );
    let [record] = &records(&place.run(&args))[..] else { panic!("one run") };
    assert_eq!(record["config"]["tasks"], 0, "as asked for");
    assert_eq!(record["matrix"][0].as_array().unwrap().len(), 2, "two tasks of two of five classes");
    assert!(record["accuracy"].as_f64().unwrap() > 80.0, "colours are told apart: {record}");
}

#[test]
fn folders_that_make_no_stream_are_refused() {
    let place = TestDir::new();
    let run = "-b split-folder --data-dir photos";
    place.refuses(run, "photos", "--data-dir");
    place.photograph("photos", 1);
    place.refuses(run, "class", "");
    place.photograph("photos", 3);
    place.refuses(
        &format!("{run} -s classes_per_task=4"),
        "1 tasks of 4 classes need 4, but `folder` has 3",
        "tasks",
    );
    place.refuses(&format!("{run} -s classes_per_task=2 -s samples=50"), "25 of a class", "lower");
    place.refuses(&format!("{run} -s image_size=3"), "`image_size` is `3`", "benchmarks");
    place.refuses("-b split-miniimagenet", "miniimagenet", "");
    place.refuses(
        "-b permuted-digits -s tasks=0",
        "`tasks` is `0`, expected a whole number of at least 1",
        "",
    );
    place.refuses("-b split-digits -s maps=[20000,20000]", "`maps` is `[20000, 20000]`", "narrower");
}

#[test]
fn cifar_files_that_are_not_are_refused() {
    let place = TestDir::new();
    let record = |label: u8| [vec![0, label], vec![7; 3072]].concat();
    let run = "-b split-cifar100 -s tasks=1";
    place.refuses(run, "cifar100", "data fetch cifar100");
    place.write("data/cifar-100-binary/train.bin", record(3));
    place.refuses(run, "test.bin", "");
    place.write("data/cifar-100-binary/test.bin", [record(3), vec![1; 10]].concat());
    place.refuses(run, "test.bin", "");
    place.write("data/cifar-100-binary/test.bin", record(255));
    place.refuses(run, "`255`, expected less than 100", "");
    place.write("data/cifar-100-binary/test.bin", record(4));
    place.refuses(run, "500 of a class", "lower");
}

#[test]
fn a_residual_network_learns_the_built_in_digits() {
    let place = TestDir::new();
    let args = "-b split-digits -m multitask -s network=resnet -s maps=[8,16] -s stem_stride=2 -s samples=200 \
                -s multitask.rate=0.3 -s multitask.epochs=2 --json";
    let [record] = &records(&place.run(args))[..] else { panic!("one run") };
    assert!(record["accuracy"].as_f64().unwrap() > 85.0, "{record}");
    assert_eq!(record["config"]["network"], "resnet");
}
