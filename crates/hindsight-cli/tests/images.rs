//! Split benchmarks from end to end, on folders of images and CIFAR files that the tests write.

mod common;

use std::fs;

use common::{Done, TestDir};
use image::{Rgb, RgbImage};
use serde_json::Value;

/// Settings under which a residual network learns within a second.
const SMALL: &str = "-s classes_per_task=2 -s maps=[4,4] -s image_size=16 -s stem_stride=1 -s batch=5";

/// Photographs of `classes` classes in `folder`, each class a colour of its own.
fn photograph(place: &TestDir, folder: &str, classes: usize) {
    for class in 0..classes {
        for i in 0..12 {
            let shade = |x: u32, y: u32| ((7 * x + 11 * y + 5 * i) % 60) as u8;
            let picture = RgbImage::from_fn(20 + i % 3, 18, |x, y| {
                let mut pixel = [shade(x, y); 3];
                pixel[class % 3] += 60 + 60 * (class / 3) as u8;
                Rgb(pixel)
            });
            let kind = if i % 2 == 0 { "png" } else { "jpg" };
            let path = place.path(&format!("{folder}/class-{class}/{i:02}.{kind}"));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            picture.save(path).unwrap();
        }
    }
}

/// Runs `hindsight run` with space-separated arguments, on data in `data`.
fn run(place: &TestDir, args: &str) -> Done {
    place.hindsight(&format!("run {args}"))
}

/// Asserts that a run is refused with this error and this hint, whatever notes come before.
fn refuses(place: &TestDir, args: &str, error: &str, hint: &str) {
    let done = run(place, args);
    assert_eq!(done.code, Some(2), "{args}: {}", done.err);
    for (kind, expected) in [("error: ", error), ("hint: ", hint)] {
        let found = done.err.lines().find(|line| line.starts_with(kind)).unwrap_or_default();
        assert!(found.contains(expected), "{args}: {}", done.err);
    }
}

fn records(done: &Done) -> Vec<Value> {
    assert_eq!(done.code, Some(0), "{}", done.err);
    done.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn miniimagenet_from_a_folder_to_a_record() {
    let place = TestDir::empty();
    photograph(&place, "data/miniimagenet", 6);
    place.write("data/miniimagenet/class-0/broken.jpg", "not an image");
    let all = "finetune,er-ring,hal,icarl,a-gem,mer,mir,ewc,clone-and-finetune,multitask";
    let args = format!(
        "-b split-miniimagenet -m {all} {SMALL} -s tasks=2 -s tuning_tasks=1 -s samples=20 \
         -s hal.anchor_steps=5 --json"
    );
    let first = run(&place, &args);
    let found = records(&first);
    assert_eq!(found.len(), 10);
    assert!(first.err.contains("class-0/broken.jpg"), "{}", first.err);
    assert_eq!(found[0]["matrix"].as_array().unwrap().len(), 2);
    // What was decoded is cached, but not among the images, and gives the same runs.
    let folder: Vec<String> = std::fs::read_dir(place.path("data/miniimagenet"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(folder.iter().all(|name| name.starts_with("class-")), "{folder:?}");
    assert_eq!(std::fs::read_dir(place.path(".cache/hindsight/images")).unwrap().count(), 1);
    let accuracy = |records: &[Value]| records.iter().map(|r| r["accuracy"].clone()).collect::<Vec<_>>();
    assert_eq!(accuracy(&records(&run(&place, &args))), accuracy(&found));
}

#[test]
fn a_custom_folder_is_split_into_as_many_tasks_as_it_has_classes_for() {
    let place = TestDir::empty();
    photograph(&place, "photos", 5);
    let args = format!(
        "-b split-folder --data-dir photos -m multitask {SMALL} -s multitask.epochs=8 -s multitask.rate=0.1 --json"
    );
    let [record] = &records(&run(&place, &args))[..] else { panic!("one run") };
    assert_eq!(record["config"]["tasks"], 0, "as asked for");
    assert_eq!(record["matrix"][0].as_array().unwrap().len(), 2, "two tasks of two of five classes");
    assert!(record["accuracy"].as_f64().unwrap() > 80.0, "colours are told apart: {record}");
}

#[test]
fn folders_that_make_no_stream_are_refused() {
    let place = TestDir::empty();
    let run = "-b split-folder --data-dir photos";
    refuses(&place, run, "photos", "--data-dir");
    photograph(&place, "photos", 1);
    refuses(&place, run, "class", "");
    photograph(&place, "photos", 3);
    refuses(
        &place,
        &format!("{run} -s classes_per_task=4"),
        "1 tasks of 4 classes need 4, but `folder` has 3",
        "tasks",
    );
    refuses(&place, &format!("{run} -s classes_per_task=2 -s samples=50"), "25 of a class", "lower");
    refuses(&place, &format!("{run} -s image_size=3"), "`image_size` is `3`", "benchmarks");
    refuses(&place, "-b split-miniimagenet", "miniimagenet", "");
    refuses(
        &place,
        "-b permuted-digits -s tasks=0",
        "`tasks` is `0`, expected a whole number of at least 1",
        "",
    );
    refuses(&place, "-b split-digits -s maps=[20000,20000]", "`maps` is `[20000, 20000]`", "narrower");
}

#[test]
fn cifar_files_that_are_not_are_refused() {
    let place = TestDir::empty();
    let record = |label: u8| [vec![0, label], vec![7; 3072]].concat();
    let run = "-b split-cifar100 -s tasks=1";
    refuses(&place, run, "cifar100", "data fetch cifar100");
    place.write("data/cifar-100-binary/train.bin", record(3));
    refuses(&place, run, "test.bin", "");
    place.write("data/cifar-100-binary/test.bin", [record(3), vec![1; 10]].concat());
    refuses(&place, run, "test.bin", "");
    place.write("data/cifar-100-binary/test.bin", record(255));
    refuses(&place, run, "`255`, expected less than 100", "");
    place.write("data/cifar-100-binary/test.bin", record(4));
    refuses(&place, run, "500 of a class", "lower");
}

#[test]
fn a_residual_network_learns_the_built_in_digits() {
    let place = TestDir::empty();
    let args = "-b split-digits -m multitask -s network=resnet -s maps=[8,16] -s stem_stride=2 -s samples=200 \
                -s multitask.rate=0.3 -s multitask.epochs=2 --json";
    let [record] = &records(&run(&place, args))[..] else { panic!("one run") };
    assert!(record["accuracy"].as_f64().unwrap() > 85.0, "{record}");
    assert_eq!(record["config"]["network"], "resnet");
}

#[test]
fn split_cifar10_is_class_incremental_on_files_of_its_layout() {
    let place = TestDir::empty();
    // Each class is a colour and a brightness.
    let record = |class: u8, i: u8| {
        let shade = |channel: u8| if channel == class % 3 { 60 + 18 * class } else { 20 + i };
        [vec![class], (0..3072_u16).map(|p| shade((p / 1024) as u8) + (p % 7) as u8).collect()].concat()
    };
    let batch = |of: u8| (0..40_u8).flat_map(|i| record(i % 10, i + of)).collect::<Vec<u8>>();
    let run = "-b split-cifar10 -m er-ring,hal -s maps=[4,4] -s batch=5 -s stem_stride=2 --json";
    refuses(&place, run, "cifar10", "data fetch cifar10");
    for (file, number) in (1..=5).map(|i| format!("data_batch_{i}")).chain(["test_batch".to_owned()]).zip(0..)
    {
        place.write(&format!("data/cifar-10-batches-bin/{file}.bin"), batch(number));
    }
    let records = records(&self::run(&place, run));
    for record in &records {
        assert_eq!((&record["status"], &record["config"]["scenario"]), (&"done".into(), &"class".into()));
        assert_eq!((record["samples"].as_u64(), record["matrix"].as_array().unwrap().len()), (Some(200), 5));
        assert_eq!(record["class_names"].as_array().unwrap()[..2], ["airplane", "automobile"]);
        assert!(record["accuracy"].as_f64().unwrap() > 10.0, "{record}");
    }
    let verified = place.hindsight("data verify cifar10");
    assert_eq!(verified.code, Some(1), "the stand-in is not the original");
    assert!(verified.out.contains("200 for training, 20 of each class"), "{}", verified.out);
}
