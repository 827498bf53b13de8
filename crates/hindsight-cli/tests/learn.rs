//! A model to live with: `learn`, `predict`, `inspect` and `serve`, killed and fed with bad data.

mod common;

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Write},
    process::Stdio,
    thread::sleep,
    time::{Duration, Instant},
};

use common::{Done, TestDir, json_lines};
use flate2::{Compression, write::GzEncoder};
use hindsight::{Agent, Rng};
use serde_json::{Value, json};

/// Little to replay, so that thirty updates are enough for a new class.
const SMALL: &str = "--set hidden=16 --set slots=1";

/// Four sensors of very different units; each class is a place, and a day moves all of them a little.
fn samples(day: u64, classes: &[&str], count: usize) -> Vec<([f64; 4], String)> {
    let mut rng = Rng::named(day, "samples");
    let centre = |class: &str| {
        let mut rng = Rng::named(0, class);
        [(); 4].map(|()| 3.0 * rng.normal())
    };
    let sample = |i: usize| {
        let class = classes[i % classes.len()];
        let mut x = centre(class).map(|c| c + rng.normal() + 0.1 * day as f64);
        x[1] *= 1e4;
        x[2] = x[2] * 1e-3 + 7.0;
        (x, class.to_owned())
    };
    (0..count).map(sample).collect()
}

fn csv(samples: &[([f64; 4], String)]) -> String {
    let line = |(x, y): &([f64; 4], String)| format!("{},{},{},{},{y}\n", x[0], x[1], x[2], x[3]);
    format!("a,b,c,d,kind\n{}", samples.iter().map(line).collect::<String>())
}

const FIRST: [&str; 2] = ["cold", "warm"];
const SECOND: [&str; 2] = ["hot", "icy"];

/// Day 1 with two classes, day 2 with two that nobody announced, and tests of both.
fn days() -> TestDir {
    let place = TestDir::empty();
    place.write("day1.csv", csv(&samples(1, &FIRST, 300)));
    place.write("day2.csv", csv(&samples(2, &SECOND, 300)));
    place.write("test1.csv", csv(&samples(11, &FIRST, 200)));
    place.write("test2.csv", csv(&samples(12, &SECOND, 200)));
    place
}

fn done(place: &TestDir, args: &str) -> Done {
    let done = place.hindsight(args);
    assert_eq!(done.code, Some(0), "{args}: {}", done.err);
    done
}

fn accuracy(place: &TestDir, model: &str, test: &str) -> f64 {
    let out = done(place, &format!("predict {model} {test} --evaluate --json")).out;
    json_lines(&out)[0]["accuracy"].as_f64().unwrap()
}

#[test]
fn the_second_day_brings_new_classes_and_hal_forgets_less_of_the_first_than_finetune() {
    let place = days();
    let mut forgotten = BTreeMap::new();
    for method in ["hal", "finetune"] {
        let model = format!("{method}.hs");
        let day1 = done(&place, &format!("learn {model} day1.csv --label kind --method {method} {SMALL}"));
        assert!(
            day1.out.contains("learned 300 rows") && day1.out.contains("2 classes (2 new), 1 task"),
            "{}",
            day1.out
        );
        let before = accuracy(&place, &model, "test1.csv");
        assert!(before > 0.9, "{method}: {before}");
        let day2 = done(&place, &format!("learn {model} day2.csv"));
        assert!(day2.out.contains("4 classes (2 new), 2 tasks"), "{}", day2.out);
        assert!(accuracy(&place, &model, "test2.csv") > 0.9, "{method}");
        forgotten.insert(method, before - accuracy(&place, &model, "test1.csv"));
    }
    assert!(forgotten["hal"] + 0.1 < forgotten["finetune"], "{forgotten:?}");

    let inspected = done(&place, "inspect hal.hs").out;
    for part in [
        "hal (HAL)",
        "4 features, standardised",
        "600 samples",
        "cold (150)",
        "`day2` is running",
        "day2.csv: 300 rows",
    ] {
        assert!(inspected.contains(part), "{part}: {inspected}");
    }
    // What a run decides and an agent does not is no setting of a model.
    assert!(!inspected.contains("scenario") && !inspected.contains("tuning"), "{inspected}");
    let model = &json_lines(&done(&place, "inspect hal.hs --json").out)[0];
    assert_eq!(model["columns"], json!(["a", "b", "c", "d"]));
    assert_eq!((&model["label"], &model["tasks"]), (&json!("kind"), &json!(["day1", "day2"])));
    assert_eq!(model["history"][0]["rows"], 300);
    // The same file is a model of the library.
    let agent = Agent::load(place.path("hal.hs")).unwrap();
    assert_eq!(agent.shape().names.as_deref().unwrap(), ["cold", "warm", "hot", "icy"]);
}

#[test]
fn killed_at_fifty_moments_it_ends_with_the_same_bits() {
    let place = days();
    let settings = "--label kind --set hidden=8 --set hal.anchor_steps=3 --save-every 1";
    let learn = |model: &str| format!("learn {model} day1.csv day2.csv --end-task {settings}");
    let start = Instant::now();
    done(&place, &learn("calm.hs"));
    let whole = start.elapsed();
    let calm = fs::read(place.path("calm.hs")).unwrap();
    let (mut rng, mut kills, mut round) = (Rng::named(0, "kills"), 0, 0);
    while kills < 50 {
        round += 1;
        let model = format!("rough{round}.hs");
        loop {
            let mut child =
                place.command(&learn(&model)).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            sleep(whole.mul_f64(rng.uniform() * if kills < 50 { 1.0 } else { 10.0 }));
            if let Some(status) = child.try_wait().unwrap() {
                assert!(status.success());
                break;
            }
            child.kill().unwrap();
            child.wait().unwrap();
            kills += 1;
            // Whatever is there is whole.
            if place.path(&model).exists() {
                Agent::load(place.path(&model)).unwrap();
            }
        }
        assert!(fs::read(place.path(&model)).unwrap() == calm, "after {kills} kills: other bits");
    }
}

#[test]
fn what_was_learned_is_not_learned_again_and_a_file_that_grows_goes_on() {
    let place = days();
    let all = fs::read_to_string(place.path("day1.csv")).unwrap();
    let half: String = all.lines().take(151).map(|line| format!("{line}\n")).collect();
    place.write("log.csv", &half);
    let out = |args: &str| json_lines(&done(&place, &format!("{args} --json")).out)[0].clone();
    let first = out(&format!("learn m.hs log.csv --label kind {SMALL}"));
    assert_eq!((&first["rows"], &first["samples"]), (&json!(150), &json!(150)));
    let bits = fs::read(place.path("m.hs")).unwrap();
    assert_eq!(out("learn m.hs log.csv")["rows"], 0);
    assert_eq!(fs::read(place.path("m.hs")).unwrap(), bits);
    place.write("log.csv", &all);
    let more = out("learn m.hs log.csv");
    assert_eq!((&more["rows"], &more["samples"], &more["tasks"]), (&json!(150), &json!(300), &json!(1)));
    assert_eq!(out("learn m.hs log.csv --again")["samples"], 600);
    // Another file of the same name is other data.
    place.write("other/log.csv", csv(&samples(5, &FIRST, 40)));
    assert_eq!(out("learn m.hs other/log.csv")["samples"], 640);
}

#[test]
fn every_format_teaches_the_same() {
    let place = days();
    let text = fs::read(place.path("day1.csv")).unwrap();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&text).unwrap();
    place.write("gz/day1.csv.gz", gzip.finish().unwrap());
    let lines: String = samples(1, &FIRST, 300)
        .iter()
        .map(|(x, y)| json!({ "a": x[0], "b": x[1], "c": x[2], "d": x[3], "kind": y }).to_string() + "\n")
        .collect();
    place.write("json/day1.jsonl", lines);
    let theta = |model: &str| Agent::load(place.path(model)).unwrap().learner().theta().to_vec();
    done(&place, &format!("learn m.hs day1.csv --label kind {SMALL}"));
    for (i, file) in ["gz/day1.csv.gz", "json/day1.jsonl"].iter().enumerate() {
        done(&place, &format!("learn m{i}.hs {file} --label kind {SMALL}"));
        assert!(theta(&format!("m{i}.hs")) == theta("m.hs"), "{file}");
        let answers = |data: &str| done(&place, &format!("predict m.hs {data}")).out;
        assert_eq!(answers(file), answers("day1.csv"), "{file}");
    }

    // From standard input, where tasks are told.
    let piped = |args: &str, bytes: &[u8]| {
        let mut child = place
            .command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(bytes).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    piped(&format!("learn p.hs - --label kind --task day1 {SMALL}"), &text);
    assert!(theta("p.hs") == theta("m.hs"));
    assert_eq!(piped("predict m.hs", &text), done(&place, "predict m.hs day1.csv").out);
    // Without them the memory covers all of the past.
    piped(&format!("learn s.hs - --label kind {SMALL}"), &text);
    let settings = json_lines(&done(&place, "inspect s.hs --json").out)[0]["settings"].clone();
    assert_eq!((&settings["hal.memory"], &settings["replay_from"]), (&json!("reservoir"), &json!("all")));
    assert_eq!(settings["hal.consolidate_every"], 100);

    // Arrays have no names; a table whose columns are as many is taken in its order.
    let npy = |descr: &str, shape: &str, body: Vec<u8>| {
        let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
        [b"\x93NUMPY\x01\0", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), &body].concat()
    };
    let x = samples(1, &FIRST, 300).iter().flat_map(|(x, _)| x.map(|v| v.to_le_bytes())).flatten().collect();
    let y = samples(1, &FIRST, 300).iter().flat_map(|(_, y)| y.bytes().take(4).collect::<Vec<_>>()).collect();
    place.write("npy/day1.npy", npy("<f8", "(300, 4)", x));
    place.write("npy/y.npy", npy("|S4", "(300,)", y));
    done(&place, &format!("learn n.hs npy/day1.npy --labels npy/y.npy {SMALL}"));
    assert!(theta("n.hs") == theta("m.hs"));
    assert_eq!(done(&place, "predict n.hs npy/day1.npy").out, done(&place, "predict m.hs day1.csv").out);
    let evaluated = done(&place, "predict n.hs npy/day1.npy --labels npy/y.npy --evaluate").out;
    assert!(evaluated.starts_with("accuracy 9") || evaluated.starts_with("accuracy 100"), "{evaluated}");
}

#[test]
fn folders_of_images_are_learned_and_answered_for() {
    let place = TestDir::empty();
    for (class, colour) in [("red", [200, 20, 20]), ("blue", [20, 20, 200])] {
        for i in 0..12_u8 {
            let [r, g, b] = colour.map(|c: u8| c.saturating_add(i));
            let image = image::RgbImage::from_fn(9, 9, |x, y| image::Rgb([r, g, b + ((x + y) % 3) as u8]));
            let path = place.path(&format!("photos/{class}/{i}.png"));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            image.save(path).unwrap();
        }
    }
    let settings = "--image-size 8 --set maps=[2,3] --set batch=4 --set er-ring.rate=0.1 --method er-ring";
    done(&place, &format!("learn m.hs photos {settings}"));
    let found = done(&place, "predict m.hs photos/red").out;
    assert!(found.starts_with("file,label,probability\nphotos/red/0.png,"), "{found}");
    assert_eq!(found.lines().count(), 13);
    assert!(accuracy(&place, "m.hs", "photos") > 0.9);
    assert_eq!(done(&place, "predict m.hs photos/blue/3.png --json").out.lines().count(), 1);
    place.refuses("learn m.hs photos --image-size 9", "made with `8`", "leave `--image-size` out");
}

#[test]
fn tasks_begin_when_their_column_changes_and_may_have_heads_of_their_own() {
    let place = TestDir::empty();
    let rows = |day: &str, number, classes: &[&str]| -> String {
        let all = csv(&samples(number, classes, 100));
        all.lines().skip(1).map(|line| format!("{day},{line}\n")).collect()
    };
    let both = rows("mon", 1, &FIRST) + &rows("tue", 2, &SECOND);
    place.write("all.csv", format!("day,a,b,c,d,kind\n{both}"));
    done(&place, &format!("learn m.hs all.csv --label kind --task-column day --heads per-task {SMALL}"));
    let evaluated = &json_lines(&done(&place, "predict m.hs all.csv --evaluate --json").out)[0];
    assert_eq!(evaluated["tasks"][0]["task"], "mon");
    assert!(evaluated["tasks"][0]["accuracy"].as_f64().unwrap() > 0.9, "{evaluated}");
    // A head answers with its own classes alone.
    place.write("no_day.csv", csv(&samples(2, &SECOND, 20)));
    let monday = done(&place, "predict m.hs no_day.csv --task mon").out;
    assert!(!monday.contains("hot") && monday.contains('w') || monday.contains("cold"), "{monday}");
    place.refuses("predict m.hs no_day.csv", "a head for each: mon, tue", "`--task`");
    place.refuses("predict m.hs no_day.csv --task wed", "unknown task `wed`", "hindsight inspect");
    // Rows are answered for in their order, whatever their tasks.
    let mixed: String = rows("tue", 2, &SECOND)
        .lines()
        .zip(rows("mon", 1, &FIRST).lines())
        .map(|(a, b)| format!("{a}\n{b}\n"))
        .collect();
    place.write("mixed.csv", format!("day,a,b,c,d,kind\n{mixed}"));
    let answers = done(&place, "predict m.hs mixed.csv").out;
    let (truth, mut right) = (mixed.lines().map(|line| line.rsplit(',').next().unwrap()), 0);
    for (line, truth) in answers.lines().skip(1).zip(truth) {
        right += usize::from(line.starts_with(&format!("{truth},")));
    }
    assert!(right > 180, "{right} of 200");
}

#[test]
fn hazards_of_data_are_refused_told_or_handled_as_asked() {
    let place = TestDir::empty();
    let row = |i: usize| {
        let kind = if i.is_multiple_of(2) { "yes" } else { "no" };
        let colour = ["red", "green", "blue"][i % 3];
        let weight = if i == 7 { "NA".to_owned() } else { format!("{}", i % 2 * 3 + i % 5) };
        format!("{weight},{colour},{},{},{kind}\n", i.is_multiple_of(2), 16_777_217 + i)
    };
    let rows: String = (0..120).map(row).collect();
    place.write("a.csv", format!("weight,colour,on,id,kind\n{rows}"));
    let learn = |more: &str| format!("learn m.hs a.csv --label kind {SMALL}{more}");
    place.refuses(&learn(""), "line 2: `red` in column `colour`", "`--text one-hot`");
    place.refuses(&learn(" --text one-hot"), "line 9: no value in column `weight`", "`--missing mean`");
    assert!(!place.path("m.hs").exists());
    let learned = done(&place, &learn(" --text one-hot --missing mean"));
    assert!(learned.err.contains("1 missing values were replaced"), "{}", learned.err);
    assert!(
        learned.err.contains("integers are too large to be exact in 32 bits, the first is 16777217"),
        "{}",
        learned.err
    );
    let model = &json_lines(&done(&place, "inspect m.hs --json").out)[0];
    assert_eq!(model["features"], json!(["weight", "colour=blue", "colour=green", "colour=red", "on", "id"]));

    place.write("b.csv", "id,on,colour,weight\n1,true,violet,\n2,false,red,1\n");
    let answers = done(&place, "predict m.hs b.csv");
    assert_eq!(answers.out.lines().count(), 3);
    assert!(answers.err.contains("`violet` in column `colour`"), "{}", answers.err);
    let dropped =
        done(&place, "learn d.hs a.csv --label kind --missing drop --ignore colour,id --set hidden=4");
    assert!(dropped.out.contains("learned 119 rows"), "{}", dropped.out);
    let answers = done(&place, "predict d.hs b.csv").out;
    assert_eq!(answers.lines().nth(1), Some(","), "a row without an answer keeps its line: {answers}");

    // One class a hundred times as often, and nothing to tell them apart.
    let rows: String =
        (0..300).map(|i| format!("1,{}\n", if i % 100 == 0 { "rare" } else { "common" })).collect();
    place.write("c.csv", format!("x,label\n{rows}"));
    let learned = done(&place, "learn c.hs c.csv --set hidden=4");
    assert!(learned.err.contains("class `common` has 297 samples, `rare` has 3"), "{}", learned.err);
    let evaluated = done(&place, "predict c.hs c.csv --evaluate");
    assert!(evaluated.err.contains("no more than answering `common` for every row"), "{}", evaluated.err);
}

#[test]
fn what_does_not_fit_is_refused_by_name_and_the_model_stays() {
    let place = days();
    done(&place, &format!("learn m.hs day1.csv --label kind {SMALL}"));
    let bits = fs::read(place.path("m.hs")).unwrap();
    place.write("fewer.csv", "a,b,c,kind\n1,2,3,cold\n");
    place.refuses("learn m.hs fewer.csv", "no column `d`, found `a`, `b`, `c`, `kind`", "hint");
    place.write("more.csv", "a,b,c,d,e,kind\n1,2,3,4,5,cold\n");
    place.refuses("learn m.hs more.csv", "found `e` beside the columns of the model", "`--ignore e`");
    place.write("bad.csv", "a,b,c,d,kind\n1,2,3,4,cold\n1,2,3,four,warm\n1,2,3\n1,2,3,4,\n5,6,7,8,warm\n");
    place.refuses("learn m.hs bad.csv", "line 3: `four` in column `d`", "`--skip-bad`");
    place.refuses("predict m.hs fewer.csv", "no column `d`", "");
    place.refuses("learn m.hs none.csv", "cannot be read", "");
    place.write("empty.csv", "a,b,c,d,kind\n");
    place.refuses("learn m.hs empty.csv", "found no rows", "");
    place.refuses("learn new.hs day1.csv", "no column `label`", "`--label`");
    place.refuses("learn new.hs day1.csv --label kind --set hiden=3", "hiden", "hidden");
    place.refuses(
        "learn m.hs day2.csv --method ewc",
        "`--method ewc`, but the model was made with `hal`",
        "leave",
    );
    place.refuses("learn m.hs day2.csv --set hidden=3", "made with `hidden = [16]`", "");
    place.refuses("predict none.hs day1.csv", "cannot read `none.hs`", "`learn`");
    place.refuses("predict day1.csv day1.csv", "no checkpoint", "`learn`");
    place.refuses("inspect day1.csv", "no checkpoint", "");
    assert_eq!(fs::read(place.path("m.hs")).unwrap(), bits);

    // Bad rows keep their lines.
    let skipped = done(&place, "predict m.hs bad.csv --skip-bad");
    let lines: Vec<&str> = skipped.out.lines().collect();
    assert_eq!((lines.len(), lines[2], lines[3]), (6, ",", ","), "{}", skipped.out);
    assert!(skipped.err.contains("2 rows that cannot be used"), "{}", skipped.err);
    let json = json_lines(&done(&place, "predict m.hs bad.csv --skip-bad --json --probabilities").out);
    assert!(json[1]["error"].as_str().unwrap().contains("line 3"), "{}", json[1]);
    let sum: f64 = json[0]["probabilities"].as_object().unwrap().values().map(|p| p.as_f64().unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-5);
    let learned = done(&place, "learn m.hs bad.csv --skip-bad");
    assert!(learned.out.contains("learned 2 rows"), "{}", learned.out);
    // Another program's work is not overwritten, and one that diverges is not saved.
    let ruin: String = (0..400).map(|i| format!("{},{}\n", i % 7, ["x", "y"][i % 2])).collect();
    place.write("ruin.csv", format!("v,label\n{ruin}"));
    let diverged =
        place.hindsight("learn r.hs ruin.csv --method finetune --set rate=100 --set hidden=[64,64,64,64]");
    assert_eq!(diverged.code, Some(1), "{} {}", diverged.out, diverged.err);
    assert!(
        diverged.err.contains("has diverged") && diverged.err.contains("smaller rate"),
        "{}",
        diverged.err
    );
    assert!(!place.path("r.hs").exists());
    // Where the answers go, a file is whole or not there.
    done(&place, "predict m.hs test1.csv --out answers.csv --evaluate");
    assert_eq!(fs::read_to_string(place.path("answers.csv")).unwrap().lines().count(), 201);
}

/// A `serve` that is asked line by line.
struct Server {
    child: std::process::Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Server {
    fn start(place: &TestDir, args: &str) -> Server {
        let mut child = place
            .command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Server { child, answers }
    }

    fn ask(&mut self, line: &str) -> Value {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap()
    }
}

#[test]
fn a_server_answers_every_line_in_order_and_nothing_stops_it() {
    let place = days();
    done(&place, &format!("learn m.hs day1.csv --label kind {SMALL}"));
    let mut server = Server::start(&place, "serve m.hs --save-every 0");
    let warm = samples(1, &FIRST, 2)[1].0;
    let by_name = json!({ "x": { "a": warm[0], "b": warm[1], "c": warm[2], "d": warm[3] }, "id": 7 });
    let answer = server.ask(&by_name.to_string());
    assert_eq!((&answer["label"], &answer["id"]), (&json!("warm"), &json!(7)));
    assert_eq!(server.ask(&json!({ "x": warm }).to_string())["probability"], answer["probability"]);
    let several = server.ask(&json!({ "x": [warm, warm], "probabilities": true }).to_string());
    assert_eq!(several["label"], json!(["warm", "warm"]));
    assert!(several["probabilities"][1]["cold"].as_f64().unwrap() < 0.5);
    for (line, error) in [
        ("nonsense", "not a request"),
        ("{}", "nothing to do"),
        (r#"{"x": [1]}"#, "found 1 values, expected 4"),
        (r#"{"x": [1, 2, 3, "four"]}"#, "`four` in column `d`"),
        (r#"{"x": {"a": 1, "bb": 2}}"#, "no column `bb`"),
        (r#"{"x": {"a": 1}}"#, "no value in column `b`"),
        (r#"{"y": "warm"}"#, "`y` without `x`"),
        (r#"{"x": [1, 2, 3, 1e39], "y": "warm"}"#, "finite"),
        (r#"{"x": [[1, 2, 3, 4]], "y": ["a", "b"]}"#, "2 labels for 1 samples"),
        (r#"{"xx": 1}"#, "unknown field `xx`"),
    ] {
        let answer = server.ask(line);
        assert!(answer["error"].as_str().is_some_and(|found| found.contains(error)), "{line}: {answer}");
    }
    // It learns a class that nobody announced, in batches of one and of many.
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for (values, class) in samples(2, &SECOND, 300) {
        x.push(json!(values));
        y.push(json!(class));
        if x.len() == 10 {
            let answer = server.ask(&json!({ "x": x, "y": y, "task": "day2" }).to_string());
            assert!(answer["loss"].as_f64().is_some(), "{answer}");
            (x, y) = (Vec::new(), Vec::new());
        }
    }
    let hot = &samples(2, &SECOND, 1)[0].0;
    assert_eq!(server.ask(&json!({ "x": hot }).to_string())["label"], "hot");
    assert_eq!(server.ask(&json!({ "x": hot, "y": "hot" }).to_string())["samples"], 601);
    assert_eq!(server.ask(r#"{"end_task": true}"#), json!({ "ended": true }));
    let before = fs::read(place.path("m.hs")).unwrap();
    assert_eq!(server.ask(r#"{"save": true}"#), json!({ "saved": "m.hs" }));
    assert_ne!(fs::read(place.path("m.hs")).unwrap(), before);
    assert!(accuracy(&place, "m.hs", "test2.csv") > 0.9);

    // The end of input saves the rest.
    server.ask(&json!({ "x": hot, "y": "hot" }).to_string());
    drop(server.child.stdin.take());
    assert!(server.child.wait().unwrap().success());
    assert_eq!(Agent::load(place.path("m.hs")).unwrap().application().samples, 602);
}

#[cfg(unix)]
#[test]
fn a_server_that_is_terminated_saves_first() {
    let place = days();
    done(&place, &format!("learn m.hs day1.csv --label kind {SMALL}"));
    let mut server = Server::start(&place, "serve m.hs --save-every 0");
    let (x, y) = &samples(3, &FIRST, 1)[0];
    server.ask(&json!({ "x": x, "y": y }).to_string());
    let id = server.child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    let give_up = Instant::now() + Duration::from_secs(60);
    while server.child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < give_up, "still there");
        sleep(Duration::from_millis(5));
    }
    assert!(server.child.wait().unwrap().success());
    assert_eq!(Agent::load(place.path("m.hs")).unwrap().application().samples, 301);
}
