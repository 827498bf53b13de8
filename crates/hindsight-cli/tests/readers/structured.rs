//! Readers fed with what is nearly right: the bytes are decisions (which key, which value, which call), so
//! that a fuzzer gets past the parsers, to what is done with their results.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    sync::{LazyLock, OnceLock},
};

use hindsight::{
    Agent, AgentError,
    benchmarks::BENCHMARKS,
    checkpoint::{Checkpoint, CheckpointError},
    config::{Experiment, Override, SHARED},
    methods::METHODS,
    record::RECORDS,
    run_folder,
    settings::{Key, Kind},
    sweep::{Grid, Search, Sweep},
};
use hindsight_report::{evaluations_csv, results_table, runs_csv, summary};
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use super::{RECORD, mend, stream_folder, streamed};

/// Bytes as a list of decisions; there are only zeros after the last.
struct Decisions<'b>(&'b [u8]);

impl Decisions<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    fn any(&self) -> bool {
        !self.0.is_empty()
    }

    fn below(&mut self, end: usize) -> usize {
        self.byte() as usize % end
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// A short text of any characters.
    fn text(&mut self) -> String {
        let length = self.below(12).min(self.0.len());
        let (text, rest) = self.0.split_at(length);
        self.0 = rest;
        String::from_utf8_lossy(text).into_owned()
    }
}

const NUMBERS: [&str; 20] = [
    "0",
    "1",
    "2",
    "3",
    "5",
    "7",
    "20",
    "100",
    "-1",
    "0.1",
    "0.5",
    "5.0",
    "1e-9",
    "1e9",
    "nan",
    "inf",
    "65536",
    "1000000.0",
    "9223372036854775807",
    "-0.0",
];
const ODD: [&str; 12] =
    ["", "true", "[]", "[2]", "[4, 3]", "\"[2]\"", "\"a\"", "all", "paper", "1,2", "[1.5]", "\"\""];

/// All keys of settings, as users write them.
static KEYS: LazyLock<Vec<(String, Option<&'static Key>)>> = LazyLock::new(|| {
    let plain = ["benchmark", "method", "seeds", "nothing"].map(|name| (name.to_owned(), None));
    let shared = SHARED.iter().chain(BENCHMARKS.iter().flat_map(|benchmark| benchmark.keys));
    let shared = shared.map(|key| (key.name.to_owned(), Some(key)));
    let own = METHODS.iter().flat_map(|method| {
        method.keys.iter().map(|key| (format!("{}.{}", method.name, key.name), Some(key)))
    });
    plain.into_iter().chain(shared).chain(own).collect()
});

fn setting(decisions: &mut Decisions<'_>) -> String {
    let place = usize::from(decisions.byte()) << 8 | usize::from(decisions.byte());
    let (name, key) = &KEYS[place % KEYS.len()];
    let value = match (name.as_str(), key.map(|key| key.kind), decisions.below(8)) {
        (_, _, 0) => decisions.text(),
        (_, _, 1) => decisions.pick(&ODD).to_owned(),
        ("benchmark", ..) => {
            let place = decisions.below(BENCHMARKS.len());
            BENCHMARKS[place].name.to_string()
        }
        ("method", ..) => {
            let mut names = || METHODS[decisions.below(METHODS.len())].name;
            format!("{},{}", names(), names())
        }
        (_, Some(Kind::Bool), _) => decisions.pick(&["true", "false"]).to_owned(),
        (_, Some(Kind::Choice(words)), _) => decisions.pick(words).to_owned(),
        (_, Some(Kind::Int(low, high)), 2) => decisions.pick(&[low, high]).to_string(),
        (_, Some(Kind::Float(low, high)), 2) => decisions.pick(&[low, high]).to_string(),
        (_, Some(Kind::Widths), _) => {
            let mut width = || u32::from(decisions.byte()) + 1;
            format!("[{}, {}]", width(), width())
        }
        _ => decisions.pick(&NUMBERS).to_owned(),
    };
    format!("{name}={value}")
}

/// Settings of runs and sweeps. What a run says of its settings makes the same run again.
pub fn settings(bytes: &[u8]) -> bool {
    let mut decisions = Decisions(bytes);
    let mut set = Vec::new();
    for _ in 0..decisions.below(12) {
        set.extend(Override::parse(&setting(&mut decisions)));
    }
    let mut grid = Grid { paper: decisions.below(4) == 1, ..Grid::default() };
    for _ in 0..decisions.below(3) {
        let values = [setting(&mut decisions), decisions.pick(&NUMBERS).to_owned()].join(",");
        let _ = grid.add(&values);
    }
    let random = decisions.any().then(|| 1 + decisions.below(200)).filter(|n| n % 2 == 0);
    let search = Search { overrides: set.clone(), grid, random, ..Search::default() };
    if let Ok(sweep) = Sweep::resolve(&search, BENCHMARKS, METHODS) {
        assert!(sweep.differences(&sweep.definition()).is_empty());
    }
    let Ok(experiment) = Experiment::resolve(&set, BENCHMARKS, METHODS) else { return false };
    let run = experiment.first_run();
    let named = [("benchmark", run.benchmark.name.to_string()), ("method", run.method.name.to_owned())];
    let seeds = [("seeds", format!("{}..{}", run.seed, run.seed + 1))];
    let effective = run.effective().into_iter().map(|(key, value)| format!("{key}={value}"));
    let told = named.into_iter().chain(seeds).map(|(key, value)| format!("{key}={value}"));
    // Settings that records leave out where they have their default.
    let later = set.iter().filter(|set| ["optimiser", "epochs"].contains(&set.key.as_str())).cloned();
    let again: Vec<Override> =
        told.chain(effective).map(|text| Override::parse(&text).unwrap()).chain(later).collect();
    let again = Experiment::resolve(&again, BENCHMARKS, METHODS).expect("a run's own settings");
    assert_eq!(again.first_run().identity(), run.identity());
    true
}

/// The description of a custom stream, key by key, and the stream it makes of small files.
pub fn stream_file(bytes: &[u8]) -> bool {
    const VALUES: &[(&str, &[&str])] = &[
        ("name", &["\"s\"", "\"\"", "\"a b\"", "\"permuted-digits\"", "7"]),
        ("tasks", &["\"files\"", "\"column\"", "\"none\"", "\"row\""]),
        ("heads", &["\"shared\"", "\"per-task\"", "1"]),
        ("scenario", &["\"task\"", "\"domain\"", "\"class\""]),
        ("order", &["\"shuffled\"", "\"file\""]),
        ("standardise", &["true", "false", "0"]),
        ("hold_out", &["0.5", "0.25", "0.0", "1.0", "nan", "-1", "1e-300", "0.999"]),
        ("hold_out_rows", &["\"random\"", "\"last\""]),
        ("label", &["\"y\"", "\"x\"", "\"t\"", "\"\"", "\"3\""]),
        ("task", &["\"t\"", "\"y\"", "\"none\""]),
        ("features", &["\"x\"", "[\"x\", \"z\"]", "[]", "[\"x\", \"x\"]", "[1]"]),
        ("ignore", &["[\"z\"]", "[\"t\"]", "[]", "[\"none\"]", "[\"y\"]"]),
        ("delimiter", &["\",\"", "\";\"", "\"\\\"\"", "\"ä\"", "\"\""]),
        ("header", &["true", "false"]),
        ("image_size", &["8", "84", "0", "257", "-1"]),
        ("window", &["1", "2", "0", "99999", "-1"]),
    ];
    const FILES: &[&str] = &[
        "a.csv",
        "b.csv",
        "x.npy",
        "y.npy",
        "a.npz",
        "x.idx",
        "y.idx",
        "images",
        "series.npy",
        "none.csv",
        ".",
    ];
    const GOOD: &[(&str, &str, Option<&str>)] = &[
        ("csv", "a.csv", None),
        ("npy", "x.npy", Some("y.npy")),
        ("npz", "a.npz", None),
        ("idx", "x.idx", Some("y.idx")),
        ("images", "images", None),
        ("series", "series.npy", None),
    ];
    // A good one first, which the other decisions change.
    let mut decisions = Decisions(bytes);
    let (format, train, labels) = decisions.pick(GOOD);
    let quoted = |name: &str| format!("\"{name}\"");
    let mut keys = BTreeMap::from([("format", quoted(format)), ("hold_out", "0.5".to_owned())]);
    keys.extend((format == "csv").then(|| ("label", quoted("y"))));
    keys.extend((format == "series").then(|| ("window", "2".to_owned())));
    for _ in 0..decisions.below(6) {
        let (key, values) = decisions.pick(VALUES);
        match decisions.below(16) {
            0 => keys.insert(key, format!("{:?}", decisions.text())),
            1 => keys.remove(key),
            _ => keys.insert(key, decisions.pick(values).to_owned()),
        };
    }
    let mut text: String = keys.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
    for number in 0..1 + decisions.below(3) {
        let mut files = BTreeMap::from([("name", number.to_string()), ("train", train.to_owned())]);
        files.extend(labels.map(|labels| ("labels", labels.to_owned())));
        for _ in 0..decisions.below(3) {
            let key = decisions.pick(&["train", "labels", "test", "test_labels", "name"]);
            match decisions.below(4) {
                0 => files.remove(key),
                _ => files.insert(key, decisions.pick(FILES).to_owned()),
            };
        }
        text += "[[files]]\n";
        files.iter().for_each(|(key, value)| text += &format!("{key} = \"{value}\"\n"));
    }
    thread_local!(static FOLDER: TempDir = stream_folder());
    FOLDER.with(|folder| streamed(&text, folder.path()))
}

/// Changes a part of a JSON value: another number or text, another kind of value, nothing, or the same twice.
fn change(json: &mut Json, decisions: &mut Decisions<'_>) {
    let deeper = match json {
        Json::Object(map) if !map.is_empty() && decisions.below(8) > 0 => {
            let place = decisions.below(map.len());
            map.values_mut().nth(place)
        }
        Json::Array(list) if !list.is_empty() && decisions.below(8) > 0 => {
            let place = decisions.below(list.len());
            list.get_mut(place)
        }
        _ => None,
    };
    if let Some(inner) = deeper {
        return change(inner, decisions);
    }
    match (&mut *json, decisions.below(10)) {
        (Json::Object(map), 0 | 1) => {
            let key = map.keys().nth(decisions.below(map.len().max(1))).cloned();
            key.and_then(|key| map.remove(&key));
        }
        (Json::Array(list), 0 | 1) => drop(list.pop()),
        (Json::Array(list), 2..5) => {
            let again = list.last().cloned().unwrap_or(json!(0));
            list.extend(vec![again; decisions.below(5)]);
        }
        (Json::Object(map), 2..5) => drop(map.insert(decisions.text(), json!(1))),
        (_, 5) => *json = Json::Null,
        (_, 6) => *json = json!(decisions.text()),
        (_, 7) => *json = json!(decisions.pick(&["done", "diverged", "hal", "f32", "class", "mlp", "a"])),
        (_, 8) => *json = json!([json.clone()]),
        _ => {
            let number = decisions.pick(&NUMBERS);
            *json =
                number.parse::<i64>().map(Json::from).unwrap_or_else(|_| json!(number.parse::<f64>().ok()));
        }
    }
}

/// Lines of records that differ from good ones in some values, and the tables made of them.
pub fn record_lines(bytes: &[u8]) -> bool {
    static GOOD: LazyLock<Json> = LazyLock::new(|| serde_json::from_str(RECORD).unwrap());
    thread_local!(static FOLDER: TempDir = tempfile::tempdir().unwrap());
    let mut decisions = Decisions(bytes);
    let mut lines = String::new();
    for seed in 0..1 + decisions.below(4) {
        let mut record = GOOD.clone();
        record["seed"] = seed.into();
        for _ in 0..decisions.below(4) {
            change(&mut record, &mut decisions);
        }
        lines += &(record.to_string() + "\n");
    }
    let found = FOLDER.with(|folder| {
        fs::write(folder.path().join(RECORDS), &lines).unwrap();
        run_folder::read(&[folder.path()])
    });
    let Ok(found) = found else { return false };
    results_table(&found.records);
    summary(&found.records);
    // A line of a table ends where a line break stands outside of quotes.
    let csv = runs_csv(&found.records);
    let lines: usize = csv.split('"').step_by(2).map(|outside| outside.matches('\n').count()).sum();
    assert_eq!(lines, 1 + found.records.len());
    evaluations_csv(&found.records);
    found.notes.is_empty()
}

/// Methods whose learners differ in what they hold.
const HOLDERS: [&str; 8] = ["finetune", "er-ring", "hal", "mer", "ewc", "der++", "slda", "vcl"];

/// A small agent of a method, whose steps take no time.
fn small(method: &str, open: bool) -> Agent {
    let builder = Agent::builder(3, if open { 0 } else { 2 }).method(method).set("hidden", vec![4]);
    let builder = if open { builder.open().standardise() } else { builder };
    let cheaper: &[(&str, i64)] = match method {
        "hal" => &[("anchor_steps", 2)],
        "vcl" | "vcl-random" => &[("vcl.samples", 1), ("vcl-random.samples", 1)],
        "gdumb" => &[("gdumb.epochs", 1)],
        "ranpac" => &[("units", 4)],
        "mir" => &[("candidates", 4)],
        _ => &[],
    };
    let prefix = |key: &str| !key.contains('.') || key.starts_with(&format!("{method}."));
    let cheaper = cheaper.iter().filter(|(key, _)| prefix(key));
    cheaper.fold(builder, |builder, (key, value)| builder.set(key, *value)).build().unwrap()
}

/// Saved learners that differ from good ones in some values, with the checksum that belongs to them. One that
/// is taken answers and learns, and what it is saved as is the same again.
pub fn checkpoint_values(bytes: &[u8]) -> bool {
    static GOOD: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    let good = GOOD.get_or_init(|| {
        let saved = |(place, method): (usize, &&str)| {
            let open = place % 2 == 1;
            let mut agent = small(method, open);
            for task in 0..2 {
                let (mut task, mut labels) = (task, [0, 1]);
                if open {
                    task = agent.begin_task(["a", "b"][task as usize]).unwrap();
                    labels = ["c", "d"].map(|name| agent.class_id(name).unwrap());
                }
                agent.observe(&[0.5, -1.0, 2.0, 0.0, 1.0, 0.25], &labels, task).unwrap();
                agent.end_task();
            }
            agent.to_bytes().unwrap()
        };
        HOLDERS.iter().enumerate().map(saved).collect()
    });
    let mut decisions = Decisions(bytes);
    let file = &good[decisions.below(good.len())];
    let length = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    let mut head: Json = serde_json::from_slice(&file[8..8 + length]).unwrap();
    let mut values = file[8 + length..].to_vec();
    let mut entry: Json = serde_json::from_str(head["__metadata__"]["hindsight"].as_str().unwrap()).unwrap();
    let Some(crc) = entry.as_object_mut().unwrap().remove("crc32") else { unreachable!() };
    for _ in 0..decisions.below(5) {
        match decisions.below(4) {
            0 => {
                let tensors = head.as_object_mut().unwrap();
                let place = decisions.below(tensors.len());
                let (name, tensor) = tensors.iter_mut().nth(place).unwrap();
                if name != "__metadata__" {
                    change(tensor, &mut decisions);
                }
            }
            1 => {
                let words = values.len() / 4;
                let word =
                    (usize::from(decisions.byte()) << 8 | usize::from(decisions.byte())) % words.max(1);
                let value = decisions.pick(&[f32::NAN, f32::INFINITY, 0.0, -1.0, 1e38, 1e-40, 3.0]);
                let bits = if decisions.below(2) == 0 { value.to_bits() } else { decisions.byte().into() };
                values[4 * word..4 * word + 4].copy_from_slice(&bits.to_le_bytes());
            }
            _ => change(&mut entry, &mut decisions),
        }
    }
    let mut text = entry.to_string();
    text.truncate(text.len() - 1);
    head["__metadata__"] = json!({ "hindsight": format!("{text},\"crc32\":{crc}}}") });
    let head = head.to_string();
    let changed = [&(head.len() as u64).to_le_bytes(), head.as_bytes(), &values].concat();
    let mended = match Checkpoint::parse(&changed, Path::new("fuzzed")) {
        Err(CheckpointError::Damaged { found, expected, .. }) => mend(&changed, expected, found),
        _ => changed,
    };
    let Ok(mut agent) = Agent::from_bytes(&mended) else { return false };
    let again = Agent::from_bytes(&agent.to_bytes().unwrap()).unwrap();
    assert_eq!(again.to_bytes(), agent.to_bytes());
    let x = vec![0.5; agent.width()];
    let _ = agent.predict_proba(&x, 0);
    let _ = agent.observe(&x, &[0], 0);
    let _ = agent.predict(&x, 1);
    true
}

/// Calls of an agent in any order. One that is saved, loaded and copied again and again does the same as one
/// that never is, to the last bit.
pub fn agent_calls(bytes: &[u8]) -> bool {
    let mut decisions = Decisions(bytes);
    let methods: Vec<&str> =
        METHODS.iter().filter(|method| !method.joint).map(|method| method.name).collect();
    let (method, open) = (decisions.pick(&methods), decisions.below(2) == 1);
    let mut plain = small(method, open);
    let mut saved = plain.clone();
    let same = |a: &Result<Vec<f32>, AgentError>, b: &Result<Vec<f32>, AgentError>| match (a, b) {
        (Ok(a), Ok(b)) => a.iter().map(|x| x.to_bits()).eq(b.iter().map(|x| x.to_bits())),
        // An error may hold a NaN, which is not equal to itself.
        (a, b) => format!("{a:?}") == format!("{b:?}"),
    };
    let mut restarts = 0;
    for _ in 0..48 {
        if !decisions.any() {
            break;
        }
        let call = decisions.below(16);
        let task = decisions.below(3) as u32;
        let rows = 1 + decisions.below(3);
        let mut x: Vec<f32> = (0..3 * rows).map(|_| f32::from(decisions.byte() as i8) / 16.0).collect();
        let mut labels: Vec<u32> =
            (0..rows).map(|_| decisions.below(if open { 4 } else { 2 }) as u32).collect();
        match (call, decisions.below(8)) {
            (5, 0) => x[0] = f32::NAN,
            (5, 1) => drop(x.pop()),
            (5, 2) => labels[0] = 100_000,
            (5, 3) => x.iter_mut().for_each(|x| *x *= 1e30),
            (5, 4) => labels.clear(),
            _ => {}
        }
        match call {
            0..=5 => {
                let both =
                    [&mut plain, &mut saved].map(|agent| agent.observe(&x, &labels, task).map(|l| vec![l]));
                assert!(same(&both[0], &both[1]), "observe: {both:?}");
            }
            6 | 7 => [&mut plain, &mut saved].into_iter().for_each(Agent::end_task),
            8 => {
                let both = [&plain, &saved].map(|agent| agent.predict_proba(&x, task));
                assert!(same(&both[0], &both[1]), "predict_proba: {both:?}");
            }
            9 => {
                let name = ["a", "b", "c", ""][task as usize + usize::from(rows > 2)];
                let both = [&mut plain, &mut saved].map(|agent| agent.class_id(name));
                assert_eq!(both[0], both[1]);
            }
            10 => {
                let both =
                    [&mut plain, &mut saved].map(|agent| agent.begin_task(["a", "b", "c"][task as usize]));
                assert_eq!(both[0], both[1]);
            }
            11 => saved = saved.clone(),
            12 => {
                let asked = saved.predictor().and_then(|predictor| predictor.predict_proba(&x, task));
                assert!(same(&asked, &plain.predict_proba(&x, task)), "predictor: {asked:?}");
            }
            _ => match saved.to_bytes() {
                Ok(bytes) => {
                    saved = Agent::from_bytes(&bytes).expect("what was saved is loaded");
                    restarts += 1;
                }
                Err(error) => assert_eq!(Err(error), plain.to_bytes()),
            },
        }
    }
    assert!(plain.to_bytes() == saved.to_bytes(), "{method}: other bytes after {restarts} restarts");
    restarts > 0
}
