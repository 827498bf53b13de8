//! Custom streams from end to end: every format, and what is wrong with files and descriptions.

mod common;

use std::fs;

use common::{TestDir, idx, without_timings};
use image::{Rgb, RgbImage};
use serde_json::Value;

/// Settings under which a small stream is learned within a second.
const SMALL: &str = "-s hidden=[8] -s batch=4";

/// Labels, tasks and features of `count` samples: the class moves two of four features, the task turns them
/// round; the last feature never changes.
fn samples(count: usize) -> Vec<(&'static str, &'static str, [f32; 4])> {
    let noise = |i: usize| ((i as u32).wrapping_mul(2_654_435_761) >> 16) as f32 / 65_536.0;
    let sample = |i: usize| {
        let (class, task) = (i % 3, i * 4 / count % 2);
        let (a, b) = (class as f32 + noise(3 * i), 10.0 * (class % 2) as f32 + noise(3 * i + 1));
        let (a, b) = if task == 0 { (a, b) } else { (-b, a) };
        (["low", "high", "mid"][class], ["day", "night"][task], [a, b, 1e4 * noise(3 * i + 2), 0.1])
    };
    (0..count).map(sample).collect()
}

fn csv(samples: &[(&str, &str, [f32; 4])]) -> String {
    let mut text = "a,b,shift,kind,c,d\n".to_owned();
    for (label, task, [a, b, c, d]) in samples {
        text += &format!("{a},{b},{task},{label},{c},{d}\n");
    }
    text
}

/// A `.npy` file.
fn npy(descr: &str, shape: &str, body: Vec<u8>) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
    [b"\x93NUMPY\x01\0", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), &body].concat()
}

fn features(samples: &[(&str, &str, [f32; 4])]) -> Vec<u8> {
    let body = samples.iter().flat_map(|(.., x)| x.iter().flat_map(|x| x.to_le_bytes())).collect();
    npy("<f4", &format!("({}, 4)", samples.len()), body)
}

fn words<'w>(words: impl ExactSizeIterator<Item = &'w str>) -> Vec<u8> {
    let shape = format!("({},)", words.len());
    let letters = |word: &str| {
        let mut letters: Vec<u32> = word.chars().map(u32::from).collect();
        letters.resize(6, 0);
        letters.into_iter().flat_map(u32::to_le_bytes).collect::<Vec<u8>>()
    };
    npy("<U6", &shape, words.flat_map(letters).collect())
}

/// A `.npz` file, whose members are stored.
fn npz(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for (name, content) in members {
        let name = format!("{name}.npy");
        let mut crc = flate2::Crc::new();
        crc.update(content);
        let mut common = vec![20, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        for number in [crc.sum(), content.len() as u32, content.len() as u32] {
            common.extend(number.to_le_bytes());
        }
        common.extend((name.len() as u16).to_le_bytes());
        let offset = (file.len() as u32).to_le_bytes();
        file.extend([b"PK\x03\x04", &common[..], &[0; 2], name.as_bytes(), content].concat());
        directory
            .extend([&b"PK\x01\x02"[..], &[20, 0], &common[..], &[0; 12], &offset, name.as_bytes()].concat());
    }
    let count = (members.len() as u16).to_le_bytes();
    let [size, start] = [directory.len() as u32, file.len() as u32].map(u32::to_le_bytes);
    [&file[..], &directory, b"PK\x05\x06", &[0; 4], &count, &count, &size, &start, &[0; 2]].concat()
}

fn matrices(records: &[Value]) -> Vec<&Value> {
    records.iter().map(|record| &record["matrix"]).collect()
}

const BY_COLUMN: &str = "format = \"csv\"\nlabel = \"kind\"\ntasks = \"column\"\ntask = \"shift\"\nhold_out = 0.25\n\
                         [[files]]\ntrain = \"shifts.csv\"\n";

/// A folder with the description and the data of `BY_COLUMN`.
fn shifts() -> TestDir {
    let place = TestDir::new();
    place.write("shifts.toml", BY_COLUMN);
    place.write("shifts.csv", csv(&samples(240)));
    place
}

#[test]
fn a_csv_file_with_a_column_of_tasks_is_learned_and_reported() {
    let place = shifts();
    let run = format!("run --stream shifts.toml {SMALL} -m finetune,er-ring,hal --seeds 2 -o out");
    let done = place.hindsight(&run);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(
        done.err.contains("shifts: 2 tasks, 240 samples of 4 features, 3 classes: high, low, mid"),
        "{}",
        done.err
    );
    let records = place.lines("out/records.jsonl");
    assert_eq!(records.len(), 6);
    let description = &records[0]["config"]["description"];
    for record in &records {
        assert_eq!((&record["benchmark"], &record["data"]["name"]), (&"shifts".into(), &"shifts".into()));
        assert_eq!(record["data"]["sha256"].as_str().unwrap().len(), 64);
        assert_eq!((&record["config"]["description"], record["samples"].as_u64()), (description, Some(180)));
        assert_eq!(record["matrix"].as_array().unwrap().len(), 2);
        assert!(record["matrix"][0][0].as_f64() > Some(0.5), "{record}");
    }
    assert_eq!(description.as_str().unwrap().len(), 64);

    // What has a record is not done again; of another description or other data it is.
    let again = place.hindsight(&run);
    assert!(again.err.contains("6 of 6 runs already finished"), "{}", again.err);
    place.write("shifts.toml", BY_COLUMN.replace("0.25", "0.5"));
    assert!(!place.hindsight(&run).err.contains("already finished"));
    place.write("shifts.toml", BY_COLUMN);
    place.write("shifts.csv", csv(&samples(300)));
    assert!(!place.hindsight(&run).err.contains("already finished"));

    let report = place.hindsight("report out");
    assert_eq!(report.code, Some(0), "{}", report.err);
    assert!(fs::read_to_string(place.path("report/index.html")).unwrap().contains("shifts"));
}

#[test]
fn a_run_on_a_stream_of_ones_own_repeats_to_the_bit() {
    let place = shifts();
    let run = format!("run --stream shifts.toml {SMALL} -m all --seeds 2");
    let first = place.records(&format!("{run} -j 1"));
    assert!(first.iter().all(|record| record["status"] == "done"));
    assert_eq!(without_timings(first), without_timings(place.records(&format!("{run} -j 2"))));
}

#[test]
fn the_same_stream_in_csv_npy_and_npz_gives_the_same_bits() {
    let place = shifts();
    let all = samples(240);
    let archive = npz(&[
        ("x", features(&all)),
        ("y", words(all.iter().map(|sample| sample.0))),
        ("t", words(all.iter().map(|sample| sample.1))),
    ]);
    place.write("shifts.npz", archive);
    place.write(
        "packed.toml",
        "name = \"shifts\"\nformat = \"npz\"\ntasks = \"column\"\ntask = \"t\"\nhold_out = 0.25\n\
         [[files]]\ntrain = \"shifts.npz\"\n",
    );
    let mut listed = "name = \"shifts\"\nformat = \"npy\"\nhold_out = 0.25\n".to_owned();
    for task in ["day", "night"] {
        let rows: Vec<_> = all.iter().filter(|sample| sample.1 == task).copied().collect();
        place.write(&format!("{task}-x.npy"), features(&rows));
        place.write(&format!("{task}-y.npy"), words(rows.iter().map(|sample| sample.0)));
        listed +=
            &format!("[[files]]\nname = \"{task}\"\ntrain = \"{task}-x.npy\"\nlabels = \"{task}-y.npy\"\n");
    }
    place.write("listed.toml", listed);

    let run = |file: &str| place.records(&format!("run --stream {file} {SMALL} -m er-ring,hal --seeds 2"));
    let csv = run("shifts.toml");
    for file in ["packed.toml", "listed.toml"] {
        let other = run(file);
        assert_eq!(matrices(&csv), matrices(&other), "{file}");
        assert_eq!(csv[0]["data"], other[0]["data"], "{file}");
        assert_ne!(csv[0]["config"]["description"], other[0]["config"]["description"]);
    }
}

#[test]
fn without_boundaries_the_running_task_is_replayed_and_methods_say_what_they_miss() {
    let place = TestDir::new();
    let all = samples(240);
    let archive = npz(&[("x", features(&all)), ("y", words(all.iter().map(|sample| sample.0)))]);
    place.write("long.npz", archive);
    place.write(
        "long.toml",
        "format = \"npz\"\ntasks = \"none\"\nhold_out = 0.25\nhold_out_rows = \"last\"\n\
         [[files]]\ntrain = \"long.npz\"\n",
    );
    let done = place.hindsight(&format!("run --stream long.toml {SMALL} -m all -o out -s evaluate_every=20"));
    assert_eq!(done.code, Some(0), "{}", done.err);
    for note in [
        "note: hal: anchors are found when a task ends",
        "note: ewc: parameters are held from the end of a task on",
        "note: er-ring: the memory keeps the latest samples",
        "long: no task boundaries, 240 samples of 4 features",
    ] {
        assert!(done.err.contains(note), "no `{note}` in {}", done.err);
    }
    let records = place.lines("out/records.jsonl");
    let of = |method: &str| records.iter().find(|record| record["method"] == method).unwrap();
    for record in &records {
        assert_eq!(record["config"]["replay_from"], "all");
        assert_eq!(record["matrix"].as_array().unwrap().len(), 1);
        assert_eq!(record["samples"].as_u64(), Some(180));
    }
    // Nothing that the end of a task brings has come about.
    assert_eq!(of("hal")["curve"], of("er-ring")["curve"]);
    assert_eq!(of("ewc")["curve"], of("finetune")["curve"]);
    assert_ne!(of("er-ring")["curve"], of("finetune")["curve"], "replay did something");
}

#[test]
fn idx_files_per_task_have_heads_of_their_own_where_asked_for() {
    let place = TestDir::new();
    let mut description = "format = \"idx\"\nheads = \"per-task\"\n".to_owned();
    for task in ["first", "second"] {
        // The same ten labels in both tasks are twenty classes.
        let files = [("train", "train"), ("labels", "train"), ("test", "t10k"), ("test_labels", "t10k")];
        description += &format!("[[files]]\nname = \"{task}\"\n");
        for (key, part) in files {
            let kind = if key.contains("labels") { "labels-idx1" } else { "images-idx3" };
            description += &format!("{key} = \"data/{part}-{kind}-ubyte\"\n");
        }
    }
    place.write("two.toml", &description);
    let check = place.hindsight("data check two.toml");
    assert_eq!(check.code, Some(0), "{}", check.err);
    assert!(
        check.out.starts_with("two: 2 tasks, 600 samples of 1x8x8, 20 classes: first/0, first/1"),
        "{}",
        check.out
    );
    assert!(check.out.contains("\nfirst        240        60       10\n"), "{}", check.out);
    let run = format!("run --stream two.toml {SMALL} -m er-ring,finetune");
    let records = place.records(&run);
    let accuracy = |matrix: &Value, i: usize, j: usize| matrix[i][j].as_f64().unwrap();
    assert!(accuracy(&records[0]["matrix"], 1, 1) > 0.3, "{}", records[0]["matrix"]);

    // A shared head knows ten classes, and the second task is the first again.
    place.write("two.toml", description.replace("per-task", "shared"));
    let shared = place.records(&run);
    assert!(shared[0]["matrix"] != records[0]["matrix"]);
    for matrix in shared.iter().map(|record| &record["matrix"]) {
        assert_eq!(matrix[1][0], matrix[1][1]);
    }
}

#[test]
fn image_folders_are_tasks() {
    let place = TestDir::new();
    let mut description = "format = \"images\"\nimage_size = 8\nhold_out = 0.25\n".to_owned();
    for (task, classes) in [("animals", ["cat", "dog"]), ("plants", ["oak", "cat"])] {
        for (class, name) in classes.iter().enumerate() {
            let folder = place.path(&format!("{task}/{name}"));
            fs::create_dir_all(&folder).unwrap();
            for i in 0..12 {
                let colour = [(200 * class) as u8 + i, 40, if task == "plants" { 200 } else { 20 }];
                RgbImage::from_pixel(10, 9, Rgb(colour)).save(folder.join(format!("{i}.png"))).unwrap();
            }
        }
        description += &format!("[[files]]\ntrain = \"{task}\"\n");
    }
    place.write("photos.toml", description);
    let done = place.hindsight(&format!(
        "run --stream photos.toml {SMALL} -s maps=[4] -m er-ring -o out -s evaluate=final"
    ));
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(
        done.err.contains("photos: 2 tasks, 48 samples of 3x8x8, 3 classes: cat, dog, oak"),
        "{}",
        done.err
    );
    let record = &place.lines("out/records.jsonl")[0];
    assert_eq!((&record["config"]["network"], record["samples"].as_u64()), (&"resnet".into(), Some(36)));
    place.records(&format!("run --stream photos.toml {SMALL} -s network=mlp -m hal"));
}

#[test]
fn a_file_of_settings_names_a_stream_from_where_it_is() {
    let place = shifts();
    fs::create_dir(place.path("configs")).unwrap();
    let settings = "stream = \"../shifts.toml\"\nmethod = \"finetune\"\nhidden = [8]\nsamples = 20\n";
    place.write("configs/own.toml", settings);
    let records = place.records("run -c configs/own.toml");
    assert_eq!((&records[0]["benchmark"], records[0]["samples"].as_u64()), (&"shifts".into(), Some(40)));
    let other = place.records("run -c configs/own.toml -b permuted-digits -s tasks=1");
    assert_eq!(other[0]["benchmark"], "permuted-digits");
}

#[test]
fn a_sweep_tunes_on_the_first_tasks() {
    let place = shifts();
    let sweep =
        format!("sweep --stream shifts.toml {SMALL} -m finetune --grid finetune.rate=0.01,0.1 -o out");
    place.refuses(&sweep, "", "");
    let done = place.hindsight(&format!("{sweep} -s tuning_tasks=1"));
    assert_eq!(done.code, Some(0), "{}", done.err);
    let best = place.records("run --stream shifts.toml -c out/best.toml");
    assert_eq!((&best[0]["benchmark"], best[0]["matrix"].as_array().unwrap().len()), (&"shifts".into(), 1));
    let again = place.hindsight("sweep --stream shifts.toml -c out/sweep.toml -o out");
    assert_eq!(again.code, Some(0), "{}", again.err);
}

#[test]
fn flaws_of_files_and_descriptions_are_told_with_their_place() {
    let place = shifts();
    let refuses = |error: &str, hint: &str| {
        place.refuses("run --stream shifts.toml", error, hint);
        place.refuses("data check shifts.toml", error, hint);
    };
    let good = csv(&samples(240));
    let with = |line: &str| place.write("shifts.csv", format!("{good}{line}\n"));
    with("1,2,day,low,3");
    refuses("shifts.csv`: line 242: found 5 values, expected 6", "delimiter");
    with("1,2,day,low,,4");
    refuses("shifts.csv`: line 242: no value in column `c`", "`ignore`");
    with("1,NaN,day,low,3,4");
    refuses("shifts.csv`: line 242: `NaN` in column `b`, expected a finite number", "`missing = \"drop\"`");
    with("1,x,day,low,3,4");
    refuses("shifts.csv`: line 242: `x` in column `b`, expected a number", "`ignore`");
    place.write("shifts.csv", "");
    refuses("shifts.csv`: the file is empty", "the first line names the columns");
    place.write("shifts.csv", good.replacen("a,b", "a,a", 1));
    refuses("shifts.csv`: line 1: found the column `a` twice", "a name of its own");
    place.write("shifts.csv", good.replacen("kind", "kinds", 1));
    refuses("shifts.csv`: line 1: no column `kind`, found `a`, `b`, `shift`, `kinds`", "`label`");
    fs::remove_file(place.path("shifts.csv")).unwrap();
    refuses("shifts.csv`: cannot be read: ", "begin in its own folder");
    place.write("shifts.csv", &good);

    place.write("shifts.toml", format!("nam = \"x\"\n{BY_COLUMN}"));
    refuses("`shifts.toml`: line 1: unknown field `nam`", "docs/streams.md");
    place.write("shifts.toml", BY_COLUMN.replace("hold_out = 0.25\n", ""));
    refuses("`shifts.toml`: no `hold_out`, expected `test`", "docs/streams.md");
    place.write("shifts.toml", format!("name = \"permuted-mnist\"\n{BY_COLUMN}"));
    refuses("`name` is `permuted-mnist`, expected a name that no benchmark has", "docs/streams.md");

    let tested = BY_COLUMN.replace("hold_out = 0.25\n", "") + "test = \"test.csv\"\n";
    place.write("shifts.toml", &tested);
    let line = |line: &str| place.write("test.csv", format!("a,b,c,d,kind,shift\n1,2,3,4,low,day\n{line}\n"));
    line("1,2,3,4,new,night");
    refuses("test.csv`: line 3: found the class `new`, expected one of the training data", "leave these");
    line("1,2,3,4,low,dawn");
    refuses(
        "test.csv`: line 3: found the task `dawn`, expected one of the training data",
        "add some of the task",
    );
    line("1,2,3,4,low,day");
    refuses("task `night` has no samples for test", "name test files");
    place.write("shifts.toml", format!("heads = \"per-task\"\n{tested}"));
    let only = csv(&samples(240)).replace("night,mid", "night,low");
    place.write("shifts.csv", only);
    line("1,2,3,4,mid,night");
    refuses("found the class `mid`, expected one of the training data of task `night`", "leave these");

    place.refuses("run --stream nowhere.toml", "`nowhere.toml`: cannot be read: ", "");
    place.refuses("run --stream shifts.toml -b permuted-digits", "cannot be used with", "");
}

#[test]
fn delimiter_and_missing_header_are_detected_and_reported() {
    let place = TestDir::new();
    let rows: String = (0..40).map(|i| format!("{}.5;{};{}\n", i % 7, i % 5, i % 2)).collect();
    place.write("s.csv", rows);
    let toml =
        |keys: &str| format!("format = \"csv\"\n{keys}hold_out = 0.25\n[[files]]\ntrain = \"s.csv\"\n");
    place.write("s.toml", toml("label = \"3\"\n"));
    let check = place.hindsight("data check s.toml");
    assert_eq!(check.code, Some(0), "{}", check.err);
    assert!(check.out.contains("40 samples of 2 features, 2 classes: 0, 1"), "{}", check.out);
    assert!(check.out.contains("`s.csv`: values are separated by `;`\n"), "{}", check.out);
    assert!(check.out.contains("`s.csv`: no header: columns are named `1` to `3`\n"), "{}", check.out);
    place.write("s.toml", toml("label = \"kind\"\n"));
    place.refuses("data check s.toml", "line 1: no column `kind`, found `1`, `2`, `3`", "`header = true`");
    place.write("s.toml", toml("label = \"0\"\nheader = true\n"));
    place.refuses("data check s.toml", "line 1: found the column `0` twice", "`header = false`");
}

#[test]
fn settings_that_a_stream_cannot_have_are_refused() {
    let place = shifts();
    place.refuses("run --stream shifts.toml --tasks 3", "`tasks` is `3`, expected 1 to 2 tasks", "");
    place.refuses(
        "run --stream shifts.toml -s samples=91",
        "but the training pool of `shifts, task day` holds 90",
        "90",
    );
    place.refuses("run --stream shifts.toml -s tuning=true", "`tuning_tasks` is `0`", "");
    place.refuses("run --stream shifts.toml -s description=abc", "`description` is `abc`, expected `", "");
    let wide = format!(
        "{}kind,shift\n{}low,day\n",
        (0..30_000).map(|i| format!("f{i},")).collect::<String>(),
        "1,".repeat(30_000)
    );
    place.write("shifts.csv", format!("{wide}{}high,day\n{0}low,day\n{0}high,day\n", "2,".repeat(30_000)));
    place.refuses("run --stream shifts.toml -s hidden=[65536]", "parameters, expected at most", "narrower");
}

/// Every example of docs/streams.md is a file that can be read, on data of the names that it uses.
#[test]
fn the_examples_of_the_documentation_are_good_stream_files() {
    let place = TestDir::new();
    let docs = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/streams.md")).unwrap();
    let all = samples(240);
    for name in ["shifts.csv", "day.csv", "night.csv", "day-test.csv", "night-test.csv"] {
        place.write(name, csv(&all));
    }
    let readings = all.iter().map(|(kind, _, [a, b, c, _])| format!("id,{a},{b},{c},{kind}\n"));
    place.write("readings.csv", readings.collect::<String>());
    for task in ["a", "b"] {
        place.write(&format!("{task}-x.npy"), features(&all));
        place.write(&format!("{task}-y.npy"), words(all.iter().map(|sample| sample.0)));
    }
    let [label, task] = [words(all.iter().map(|s| s.0)), words(all.iter().map(|s| s.1))];
    place.write("recordings.npy", include_bytes!("readers/series.npy"));
    place.write("log.npz", npz(&[("x", features(&all)), ("y", label.clone())]));
    place.write("all.npz", npz(&[("embedding", features(&all)), ("label", label), ("session", task)]));
    for task in ["digits", "letters"] {
        place.write(&format!("{task}-images.gz"), idx(&[20, 2, 2], (0..80).map(|i| i * 3)));
        place.write(&format!("{task}-labels.gz"), idx(&[20], (0..20).map(|i| i % 4)));
    }
    for folder in ["garden/cat", "garden/bird", "street/cat", "street/car"] {
        fs::create_dir_all(place.path(folder)).unwrap();
        for i in 0..6 {
            let image = RgbImage::from_pixel(4, 4, Rgb([40 * i, 9, 9]));
            image.save(place.path(&format!("{folder}/{i}.png"))).unwrap();
        }
    }
    let examples: Vec<&str> =
        docs.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(examples.len() >= 6, "one per format and one without tasks");
    for (i, example) in examples.iter().enumerate() {
        place.write("example.toml", example);
        let check = place.hindsight("data check example.toml");
        assert_eq!(check.code, Some(0), "example {i}:\n{example}\n{}", check.err);
    }
}

#[test]
fn names_cannot_control_the_terminal() {
    let place = TestDir::new();
    let rows: String = (0..40)
        .map(|i| format!("{},{},t\u{1b}[2J{}\n", i % 7, ["a\u{1b}]0;x\u{7}", "b"][i % 2], i / 20))
        .collect();
    place.write("a.csv", format!("x,kind,task\n{rows}"));
    let file = "format = \"csv\"\nlabel = \"kind\"\ntasks = \"column\"\ntask = \"task\"\nhold_out = 0.25\n[[files]]\ntrain = \"a.csv\"\n";
    place.write("a.toml", file);
    for command in
        ["data check a.toml", "run --stream a.toml -m finetune,er-ring -s hidden=8 -s tuning_tasks=0"]
    {
        let done = place.hindsight(command);
        assert_eq!(done.code, Some(0), "{command}: {}", done.err);
        assert!(!(done.out + &done.err).contains(['\u{1b}', '\u{7}']), "{command}");
    }
}

/// A value is missing, a column is text, another is true or false, and identifiers are large.
fn hazardous(count: usize) -> String {
    let row = |i: usize| {
        let kind = if i % 30 == 1 { "faulty" } else { "sound" };
        let weight = if i == 7 { "NA".to_owned() } else { format!("{}", i % 2 * 3 + i % 5) };
        let colour = ["red", "green", "blue"][i % 3];
        format!("{weight},{colour},{},{},{kind}\n", i.is_multiple_of(2), 16_777_217 + i)
    };
    format!("weight,colour,on,id,kind\n{}", (0..count).map(row).collect::<String>())
}

#[test]
fn hazards_of_data_are_refused_told_or_handled_as_asked() {
    let place = TestDir::empty();
    place.write("a.csv", hazardous(240));
    let stream = |keys: &str| {
        let head = "format = \"csv\"\nlabel = \"kind\"\nhold_out = 0.25\n";
        place.write("s.toml", format!("{head}{keys}[[files]]\ntrain = \"a.csv\"\n"));
    };
    stream("");
    place.refuses("data check s.toml", "line 2: `red` in column `colour`", "`text = \"one-hot\"`");
    stream("text = \"one-hot\"\n");
    place.refuses("data check s.toml", "line 9: `NA` in column `weight`", "`missing = \"mean\"`");
    stream("text = \"zero-hot\"\n");
    place.refuses("data check s.toml", "unknown variant `zero-hot`", "");
    let images = "format = \"images\"\nmissing = \"drop\"\nhold_out = 0.5\n[[files]]\ntrain = \"a\"\n";
    place.write("i.toml", images);
    place.refuses("data check i.toml", "`missing`", "");

    stream("text = \"one-hot\"\nmissing = \"drop\"\nignore = [\"id\"]\n");
    let dropped = place.hindsight("data check s.toml");
    assert!(dropped.out.contains("239 samples of 5 features"), "{}", dropped.out);
    assert!(dropped.out.contains("1 rows with a missing value were left out"), "{}", dropped.out);
    stream("text = \"one-hot\"\nmissing = \"mean\"\n");
    let done = place.hindsight(&format!("run --stream s.toml {SMALL} -m finetune -o out"));
    assert_eq!(done.code, Some(0), "{}", done.err);
    for note in [
        "240 samples of 6 features",
        "1 missing values were replaced by the mean of their column",
        "integers are too large to be exact in 32 bits, the first is 16777217 in column `id`",
        "class `sound` has 232 samples, `faulty` has 8",
    ] {
        assert!(done.err.contains(note), "`{note}` in {}", done.err);
    }

    // Nothing tells the classes apart.
    let rows: String = (0..200).map(|i| format!("1,{}\n", if i % 4 == 0 { "a" } else { "b" })).collect();
    place.write("c.csv", format!("x,kind\n{rows}"));
    place.write(
        "c.toml",
        "format = \"csv\"\nlabel = \"kind\"\nhold_out = 0.2\n[[files]]\ntrain = \"c.csv\"\n",
    );
    let chance = place.hindsight(&format!("run --stream c.toml {SMALL} -m finetune -o chance"));
    let told = "note: finetune: 75.0 % of all test samples are answered right, no more than `b` for every sample gives";
    assert!(chance.err.contains(told), "{}", chance.err);

    // The model treats later data alike.
    let model = models(&place, "out").remove(0);
    let shown = place.hindsight(&format!("inspect {model} --json"));
    let features = &common::json_lines(&shown.out)[0]["features"];
    let expected = ["weight", "colour=blue", "colour=green", "colour=red", "on", "id"];
    assert_eq!(*features, serde_json::json!(expected), "{}", shown.err);
    place.write("b.csv", "id,on,colour,weight\n1,true,violet,\n2,false,red,1\n");
    let answers = place.hindsight(&format!("predict {model} b.csv"));
    assert_eq!((answers.code, answers.out.lines().count()), (Some(0), 3), "{}", answers.err);
    assert!(answers.err.contains("`violet` in column `colour`"), "{}", answers.err);
}

/// The models that a run has kept, as arguments.
fn models(place: &TestDir, folder: &str) -> Vec<String> {
    let Ok(found) = fs::read_dir(place.path(&format!("{folder}/models"))) else { return Vec::new() };
    let mut names: Vec<String> = found
        .map(|entry| format!("{folder}/models/{}", entry.unwrap().file_name().to_string_lossy()))
        .collect();
    names.sort();
    names
}

#[test]
fn a_run_keeps_its_final_learners_for_predict_and_learn() {
    let place = shifts();
    let run = format!("run --stream shifts.toml {SMALL} -m er-ring,hal --seeds 2");
    let kept = place.records(&format!("{run} -o out"));
    let models = models(&place, "out");
    assert_eq!(models.len(), 4, "one for each run: {models:?}");

    // It answers as the run did: the last row of its matrix, on the same test samples.
    place.write("tested.toml", BY_COLUMN.replace("hold_out = 0.25\n", "") + "test = \"test.csv\"\n");
    place.write("test.csv", csv(&samples(120)));
    let tested = place.records(&format!("run --stream tested.toml {SMALL} -m hal -o tested"));
    let model = self::models(&place, "tested").remove(0);
    let evaluated = place.hindsight(&format!("predict {model} test.csv --evaluate --json"));
    assert_eq!(evaluated.code, Some(0), "{}", evaluated.err);
    let evaluated = &common::json_lines(&evaluated.out)[0];
    let by_task: Vec<f64> = evaluated["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| task["accuracy"].as_f64().unwrap())
        .collect();
    let last: Vec<f64> =
        tested[0]["matrix"][1].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect();
    assert_eq!(by_task, last);

    // It goes on learning, with a class that the run did not have.
    place.write("more.csv", "a,b,shift,kind,c,d\n1,2,dusk,new,4,0.1\n2,3,dusk,high,4,0.1\n");
    let learned = place.hindsight(&format!("learn {model} more.csv"));
    assert!(learned.out.contains("4 classes (1 new)"), "{}{}", learned.out, learned.err);

    // Without models nothing else changes.
    let without = place.records(&format!("{run} -o bare --no-model"));
    assert!(self::models(&place, "bare").is_empty());
    assert_eq!(matrices(&kept), matrices(&without));
}

#[test]
fn a_task_is_gone_over_as_often_as_asked_for() {
    let place = shifts();
    let run = |more: &str| place.records(&format!("run --stream shifts.toml {SMALL} -m finetune,hal{more}"));
    let (once, default, thrice) = (run(" -s epochs=1"), run(""), run(" -s epochs=3"));
    assert_eq!(matrices(&once), matrices(&default));
    for (once, thrice) in once.iter().zip(&thrice) {
        let count = |record: &Value, key: &str| record[key].as_u64().unwrap();
        assert_eq!(count(thrice, "samples"), 3 * count(once, "samples"));
        // A batch may end a pass and begin the next: two tasks of 90 samples, four at a time.
        assert_eq!((count(once, "batches"), count(thrice, "batches")), (46, 136));
        assert!(thrice["learning_accuracy"].as_f64() > once["learning_accuracy"].as_f64(), "{thrice}");
    }
    assert_eq!(matrices(&thrice), matrices(&run(" -s epochs=3 -j 2")), "repeats to the bit");
}
