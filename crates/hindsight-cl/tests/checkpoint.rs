//! Save and load: every method, at any batch, to the last bit; and what is no checkpoint of it is refused.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock, atomic::AtomicBool},
};

use hindsight::{
    Agent, AgentError, Batch, Learner, Shape, Stream,
    benchmarks::BENCHMARKS,
    checkpoint::{Checkpoint, CheckpointError, CheckpointWriter, Checkpoints, Header, VERSION, save},
    config::{Experiment, Override, RunConfig},
    custom_stream::{self, StreamFile},
    data::digits::digits,
    methods::{METHODS, Method, Model, RATE},
    run::{self, RunError},
    state::StateError,
    stream::Source,
};

fn source() -> &'static Arc<Source> {
    static SOURCE: OnceLock<Arc<Source>> = OnceLock::new();
    SOURCE.get_or_init(|| Arc::new(Source::new(digits(2_000, 100, 0))))
}

fn config(set: &[&str], methods: &'static [Method]) -> RunConfig {
    let overrides: Vec<Override> = set.iter().map(|text| Override::parse(text).unwrap()).collect();
    Experiment::resolve(&overrides, BENCHMARKS, methods).unwrap().first_run()
}

const SMALL: [&str; 9] = [
    "tasks=3",
    "samples=60",
    "hidden=16",
    "maps=[2, 3]",
    "slots=2",
    "vcl.samples=2",
    "vcl-random.samples=2",
    "vcl-random.epochs=2",
    "hal.anchor_steps=5",
];

fn small(set: &[&str]) -> RunConfig {
    config(&[&SMALL[..], set].concat(), METHODS)
}

fn header(config: &RunConfig, stream: &Stream) -> Header {
    Header::new(config, stream.shape(), None)
}

fn bytes(checkpoint: &Checkpoint) -> Vec<u8> {
    let mut bytes = Vec::new();
    assert_eq!(checkpoint.write_to(&mut bytes).unwrap(), bytes.len() as u64);
    bytes
}

/// Observes the batches `range` of a stream of 3 tasks of 6 batches.
fn observe(learner: &mut dyn Learner, stream: &Stream, range: std::ops::Range<usize>) {
    let mut batch = Batch::default();
    for number in range {
        let (stage, start) = (number / 6, number % 6 * 10);
        stream.batch(stage, start..start + 10, &mut batch);
        learner.observe(&batch);
        if start == 50 {
            learner.end_task();
        }
    }
}

#[test]
fn every_method_goes_on_from_any_batch_as_if_nothing_had_been() {
    let variants: [(&str, &[&str]); 6] = [
        ("ewc", &["ewc.fisher=sample"]),
        ("mer", &["mer.algorithm=original"]),
        ("hal", &["hal.phi=task", "hal.start=uniform"]),
        ("hal", &["hal.anchors=oracle"]),
        ("der++", &["memory_precision=u8", "der++.average=0.9", "der++.updates=2"]),
        ("gdumb", &["memory_precision=u8", "gdumb.consolidate_every=3"]),
    ];
    let all = METHODS.iter().map(|method| (method.name, &[][..])).chain(variants);
    for (method, set) in all {
        for benchmark in ["permuted-digits", "split-digits"] {
            let names = [format!("method={method}"), format!("benchmark={benchmark}")];
            let own: Vec<&str> = names.iter().map(String::as_str).chain(set.iter().copied()).collect();
            let config = small(&own);
            // As the stream of finetune: one that multitask can be stopped in, too.
            let stream = (config.benchmark.build)(source(), &config.shared, config.seed).unwrap();
            let whole = &mut *run::learner(&config, &stream);
            // In the first task, within the second, right at its end, and in the last.
            for stop in [2, 8, 12, 15] {
                let before = &mut *run::learner(&config, &stream);
                observe(before, &stream, 0..stop);
                let bytes = bytes(&Checkpoint::take(header(&config, &stream), before).unwrap());
                let found = Checkpoint::parse(&bytes, Path::new("memory")).unwrap();
                let after = &mut *run::learner(&config, &stream);
                found.restore(after, Path::new("memory")).unwrap();
                for task in 0..3 {
                    let inputs = stream.test_inputs(task);
                    assert_eq!(before.predict(&inputs, task), after.predict(&inputs, task), "{own:?}");
                }
                observe(before, &stream, stop..18);
                observe(after, &stream, stop..18);
                let ends = [before, after].map(|l| Checkpoint::take(header(&config, &stream), l).unwrap());
                assert!(ends[0].same_state(&ends[1]), "{own:?}, stopped after {stop} batches");
                // And nothing else than the state was left out of the comparison.
                if stop == 2 {
                    observe(whole, &stream, 0..18);
                    let whole = Checkpoint::take(header(&config, &stream), whole).unwrap();
                    assert!(whole.same_state(&ends[0]), "{own:?}");
                    assert!(!whole.same_state(&found), "{own:?}");
                }
            }
        }
    }
}

#[test]
fn parameters_that_are_not_finite_are_refused() {
    let (config, stream, learner) = trained(&["method=finetune"]);
    let mut theta = learner.theta().to_vec();
    theta[3] = f32::NAN;
    let bad = Checkpoint::take(header(&config, &stream), &mut Fixed(theta)).unwrap();
    let mut fresh = run::learner(&config, &stream);
    let error = bad.restore(&mut *fresh, Path::new("bad")).unwrap_err();
    assert_eq!(error.to_string(), "`bad` is no checkpoint: a parameter is not a finite number");
}

/// A learner that is its theta.
struct Fixed(Vec<f32>);

impl Learner for Fixed {
    fn observe(&mut self, _: &Batch) -> f32 {
        0.0
    }

    fn end_task(&mut self) {}

    fn predict(&self, _: &hindsight::Inputs<'_>, _: usize) -> Vec<u32> {
        Vec::new()
    }

    fn theta(&self) -> &[f32] {
        &self.0
    }

    fn state(&mut self) -> hindsight::state::StateDict<'_> {
        vec![("theta", &mut self.0)]
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_pipe_in_place_of_a_checkpoint_is_refused_at_once() {
    let folder = folder();
    let path = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let error = Checkpoint::read(&path).unwrap_err().to_string();
    assert!(error.ends_with("pipe`: is not a regular file"), "{error}");
}

/// A folder for one test.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn trained(set: &[&str]) -> (RunConfig, Stream, Box<dyn Learner>) {
    let config = small(set);
    let stream = run::stream(&config, source()).unwrap();
    let mut learner = run::learner(&config, &stream);
    observe(&mut *learner, &stream, 0..9);
    (config, stream, learner)
}

#[test]
fn a_file_is_the_learner_and_a_damaged_one_is_refused() {
    let (config, stream, mut learner) = trained(&["method=er-ring"]);
    let folder = folder();
    let path = folder.path().join("learner.safetensors");
    save(&path, header(&config, &stream), &mut *learner).unwrap();
    let found = Checkpoint::read(&path).unwrap();
    assert_eq!(found.values("theta").as_deref(), Some(learner.theta()));
    assert_eq!(found.values("ring.oldest"), None);
    // Nothing half written is left beside it.
    assert_eq!(folder.path().read_dir().unwrap().count(), 1);

    let bytes = std::fs::read(&path).unwrap();
    let parse = |bytes: &[u8]| Checkpoint::parse(bytes, &path).unwrap_err();
    let mut changed = bytes.clone();
    *changed.last_mut().unwrap() ^= 1;
    assert!(matches!(parse(&changed), CheckpointError::Damaged { .. }));
    for end in [0, 7, 8, 100, bytes.len() / 2, bytes.len() - 1] {
        assert!(matches!(parse(&bytes[..end]), CheckpointError::Malformed { .. }), "{end}");
    }
    let text = |from: &str, to: &str| {
        assert_eq!(from.len(), to.len());
        let at = bytes.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
        let mut changed = bytes.clone();
        changed[at..][..from.len()].copy_from_slice(to.as_bytes());
        parse(&changed)
    };
    assert_eq!(
        text(&format!("\\\"version\\\":{VERSION}"), "\\\"version\\\":9"),
        CheckpointError::Version { path: path.clone(), found: 9 }
    );
    assert!(matches!(text("\"hindsight\"", "\"forethink\""), CheckpointError::Malformed { .. }));
    assert!(matches!(text("\\\"seed\\\":0", "\\\"seed\\\":1"), CheckpointError::Damaged { .. }));
    assert!(matches!(text("\\\"crc32\\\":", "\\\"crc23\\\":"), CheckpointError::Malformed { .. }));
    assert!(matches!(text("\\\"seed\\\"", "\\\"sead\\\""), CheckpointError::Malformed { .. }));
    // The length of the header is the file's first word: it is checked before anything is allocated.
    let mut huge = bytes.clone();
    huge[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(matches!(parse(&huge), CheckpointError::Malformed { .. }));
}

#[test]
fn no_byte_of_a_file_changes_unnoticed() {
    let mut agent = Agent::new(2, 2, &["method=er-ring", "hidden=[3]"]).unwrap();
    agent.observe(&[0.5, 0.25], &[1], 0).unwrap();
    let folder = folder();
    let path = folder.path().join("agent.safetensors");
    agent.save(&path).unwrap();
    let good = std::fs::read(&path).unwrap();
    for place in 0..good.len() {
        for bit in 0..8 {
            let mut changed = good.clone();
            changed[place] ^= 1 << bit;
            assert!(Checkpoint::parse(&changed, &path).is_err(), "bit {bit} of byte {place}");
        }
    }
}

#[test]
fn a_checkpoint_of_another_method_or_shape_is_refused_with_both_sides_named() {
    let (config, stream, mut learner) = trained(&["method=er-ring"]);
    let path = Path::new("er.safetensors");
    let found = Checkpoint::take(header(&config, &stream), &mut *learner).unwrap();
    let into = |set: &[&str]| {
        let other = small(set);
        let stream = run::stream(&other, source()).unwrap();
        found.restore(&mut *run::learner(&other, &stream), path).unwrap_err().to_string()
    };
    assert_eq!(
        into(&["method=hal"]),
        "`er.safetensors`: `anchors.x` is missing, expected rows of 784 values"
    );
    let wider = into(&["method=er-ring", "hidden=20"]);
    assert!(
        wider.contains("`theta` is real values of shape") && wider.contains("expected rows of"),
        "{wider}"
    );
    assert_eq!(
        into(&["method=er-ring", "slots=1"]),
        "`er.safetensors`: `ring` is 2 samples of one class of a task, expected at most 1"
    );
}

#[test]
fn a_method_without_parts_says_so() {
    struct Fixed(Model, Vec<f32>);
    impl Learner for Fixed {
        fn observe(&mut self, _: &Batch) -> f32 {
            0.0
        }
        fn end_task(&mut self) {}
        fn predict(&self, inputs: &hindsight::Inputs<'_>, task: usize) -> Vec<u32> {
            self.0.predict(&self.1, inputs, task)
        }
        fn theta(&self) -> &[f32] {
            &self.1
        }
    }
    static FIXED: [Method; 1] = [Method {
        name: "fixed",
        keys: &[RATE],
        build: |setup| Box::new(Fixed(Model::new(setup), setup.initial_theta())),
        ..Method::DEFAULT
    }];
    let config = config(&["method=fixed", "tasks=1", "samples=20", "hidden=4"], &FIXED);
    let stream = run::stream(&config, source()).unwrap();
    let mut learner = run::learner(&config, &stream);
    let error = Checkpoint::take(header(&config, &stream), &mut *learner).unwrap_err();
    assert_eq!(error, CheckpointError::NoParts { method: "fixed".to_owned() });
    // It still runs, as long as nobody wants it saved.
    let quiet = checkpoints(PathBuf::from("nowhere"), 0);
    run::run_with_snapshot(&config, source(), Some(&quiet), false, &mut |_| ()).unwrap();
}

fn checkpoints(folder: PathBuf, every: usize) -> Checkpoints {
    Checkpoints {
        folder,
        every,
        interval: None,
        keep: 2,
        stop: Arc::new(AtomicBool::new(false)),
        models: None,
    }
}

fn go(config: &RunConfig, with: &Checkpoints) -> Result<hindsight::Record, RunError> {
    run::run_with_snapshot(config, source(), Some(with), false, &mut |_| ()).map(|(record, _)| record)
}

#[test]
fn a_run_goes_on_from_the_last_good_checkpoint_and_keeps_only_the_last_two() {
    let config = small(&["method=hal", "evaluate_every=4"]);
    let whole = run::run(&config, source(), &mut |_| ()).unwrap();
    let folder = folder();
    let with = checkpoints(folder.path().to_owned(), 4);
    let stopped = checkpoints(folder.path().to_owned(), 0);
    stopped.stop.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(matches!(go(&config, &stopped), Err(RunError::Stopped { batches: 1 })));
    assert_eq!(go(&config, &with).unwrap().without_timings(), whole.without_timings());
    let mut files: Vec<PathBuf> =
        with.of(&config).read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let name = |file: &PathBuf| file.file_stem().unwrap().to_str().unwrap().parse::<usize>().unwrap();
    // Where the disk is slow, a checkpoint gives way to the next; the last one never does.
    let numbers: Vec<usize> = files.iter().map(name).collect();
    assert!(matches!(numbers[..], [1 | 4 | 8 | 12 | 16, 18]), "{numbers:?}");

    // The last one is damaged: the one before it is used, and what is wrong is told.
    let bytes = std::fs::read(&files[1]).unwrap();
    std::fs::write(&files[1], &bytes[..bytes.len() - 9]).unwrap();
    // The one before it is of another build.
    let mut other = Checkpoint::read(&files[0]).unwrap();
    other.header.commit = Some("0123456".to_owned());
    other.write(&files[0]).unwrap();
    let mut notes = Vec::new();
    let (record, _) = run::run_with_snapshot(&config, source(), Some(&with), false, &mut |event| {
        if let hindsight::protocol::Event::Note { text } = event {
            notes.push(text.to_owned());
        }
    })
    .unwrap();
    assert_eq!(record.without_timings(), whole.without_timings());
    assert!(notes[0].contains("is no checkpoint"), "{notes:?}");
    assert!(notes[1].contains(" of commit 0123456, this is hindsight "), "{notes:?}");
    assert_eq!(notes[2], format!("goes on after {} batches", numbers[0]));
}

#[test]
fn a_run_is_saved_by_the_clock_and_its_checkpoints_can_be_removed() {
    let config = small(&["method=er-ring"]);
    let folder = folder();
    let with =
        Checkpoints { interval: Some(std::time::Duration::ZERO), ..checkpoints(folder.path().to_owned(), 0) };
    let whole = run::run(&config, source(), &mut |_| ()).unwrap();
    assert_eq!(go(&config, &with).unwrap().without_timings(), whole.without_timings());
    assert!(with.latest(&config).unwrap().0.is_some());
    with.remove(&config).unwrap();
    assert!(with.latest(&config).unwrap().0.is_none());
    with.remove(&config).unwrap();
}

#[test]
fn a_checkpoint_of_another_run_is_refused() {
    let config = small(&["method=finetune"]);
    let folder = folder();
    let with = checkpoints(folder.path().to_owned(), 4);
    go(&config, &with).unwrap();
    // As if the folder of another run had been copied over this one's.
    let refused = |set: &[&str]| {
        let other = small(set);
        let to = with.of(&other);
        std::fs::create_dir_all(&to).unwrap();
        for entry in with.of(&config).read_dir().unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
        match go(&other, &with).unwrap_err() {
            RunError::Checkpoint(CheckpointError::Other { what, found, expected, .. }) => {
                (what, found, expected)
            }
            other => panic!("{other}"),
        }
    };
    let sides = |what: &str, found: &str, expected: &str| (what.into(), found.into(), expected.into());
    assert_eq!(refused(&["method=ewc"]), sides("method", "finetune", "ewc"));
    assert_eq!(refused(&["method=finetune", "batch=20"]), sides("batch", "10", "20"));
    assert_eq!(
        refused(&["method=finetune", "benchmark=rotated-digits"]),
        sides("benchmark", "permuted-digits", "rotated-digits")
    );
    let data = Arc::new(Source::new(digits(2_000, 101, 0)));
    let error = run::run_with_snapshot(&config, &data, Some(&with), false, &mut |_| ()).unwrap_err();
    assert!(error.to_string().contains("for data, expected"), "{error}");
}

#[test]
fn a_place_that_the_stream_does_not_have_is_refused() {
    let config = small(&["method=finetune"]);
    let stream = run::stream(&config, source()).unwrap();
    let folder = folder();
    let with = checkpoints(folder.path().to_owned(), 9);
    go(&config, &with).unwrap();
    let good = Checkpoint::read(&with.latest(&config).unwrap().0.unwrap().0).unwrap();
    let mut keeper = CheckpointWriter::new(with.of(&config), 1).unwrap();
    for (number, change) in [
        (|run: &mut hindsight::checkpoint::Run| run.run_state.stage = 99) as fn(&mut _),
        |run| run.run_state.start = 5,
        |run| run.run_state.outcome.batches += 1,
        |run| drop(run.run_state.outcome.matrix.rows.pop()),
        |run| run.run_state.outcome.matrix.rows[0].push(0.5),
    ]
    .into_iter()
    .enumerate()
    {
        let mut learner = run::learner(&config, &stream);
        let mut run = good.header.run.clone().unwrap();
        change(&mut run);
        let header = Header { run: Some(run), ..good.header.clone() };
        keeper.save(100 + number, header, &mut *learner).unwrap();
        while !with.of(&config).join(format!("{:012}.safetensors", 100 + number)).exists() {
            std::thread::yield_now();
        }
        let error = go(&config, &with).unwrap_err();
        assert!(matches!(error, RunError::Checkpoint(CheckpointError::Place { .. })), "{number}: {error}");
    }
}

#[test]
fn the_keeper_writes_over_files_that_nobody_else_has() {
    let (config, stream, mut learner) = trained(&["method=er-ring"]);
    let folder = folder();
    // As a killed run leaves it, and longer than any of this one.
    std::fs::write(folder.path().join(".spare"), vec![7; 1 << 20]).unwrap();
    let name = |number: usize| folder.path().join(format!("{number:012}.safetensors"));
    let mut keeper = CheckpointWriter::new(folder.path().to_owned(), 2).unwrap();
    let mut written = Vec::new();
    for number in 1..=6 {
        observe(&mut *learner, &stream, 0..number);
        keeper.save(number, header(&config, &stream), &mut *learner).unwrap();
        while !name(number).exists() {
            std::thread::yield_now();
        }
        written.push(Checkpoint::take(header(&config, &stream), &mut *learner).unwrap());
        assert_eq!(std::fs::read(name(number)).unwrap(), bytes(&written[number - 1]), "{number}");
        if number == 3 {
            std::fs::hard_link(name(3), folder.path().join("mine")).unwrap();
        }
    }
    keeper.finish().unwrap();
    let mut left: Vec<_> = folder.path().read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    left.sort();
    assert_eq!(left, [name(5), name(6), folder.path().join("mine")]);
    for (path, number) in left.iter().zip([5, 6, 3]) {
        assert_eq!(std::fs::read(path).unwrap(), bytes(&written[number - 1]), "{number}");
    }
}

#[test]
fn a_file_is_what_the_formats_own_writer_makes_of_it() {
    let (config, stream, mut learner) = trained(&["method=hal"]);
    let bytes = bytes(&Checkpoint::take(header(&config, &stream), &mut *learner).unwrap());
    let (_, metadata) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    assert!(tensors.len() > 10);
    assert_eq!(bytes, safetensors::serialize(tensors.iter(), metadata.metadata().clone()).unwrap());
}

#[test]
fn a_header_longer_than_the_format_allows_is_an_error() {
    let (config, stream, mut learner) = trained(&["method=finetune"]);
    let header = Header { benchmark: "x".repeat(100_000_000), ..header(&config, &stream) };
    let folder = folder();
    let error = save(&folder.path().join("a.safetensors"), header, &mut *learner).unwrap_err();
    assert!(error.to_string().contains("bytes before the values, at most 100000000"), "{error}");
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}

#[test]
fn a_run_that_is_told_to_stop_saves_itself() {
    let config = small(&["method=er-ring"]);
    let folder = folder();
    let with = checkpoints(folder.path().to_owned(), 0);
    let stop = with.stop.clone();
    let mut seen = 0;
    let stopped = run::run_with_snapshot(&config, source(), Some(&with), false, &mut |_| {
        seen += 1;
        stop.store(seen >= 4, std::sync::atomic::Ordering::Relaxed);
    });
    assert!(matches!(stopped, Err(RunError::Stopped { batches: 4 })), "{:?}", stopped.map(|_| ()));
    let record = go(&config, &checkpoints(folder.path().to_owned(), 0)).unwrap();
    let whole = run::run(&config, source(), &mut |_| ()).unwrap();
    assert_eq!(record.without_timings(), whole.without_timings());
}

#[test]
fn what_cannot_be_written_or_read_is_told_and_leaves_what_was_there() {
    let (config, stream, mut learner) = trained(&["method=finetune"]);
    let folder = folder();
    let missing = folder.path().join("missing").join("a.safetensors");
    let error = save(&missing, header(&config, &stream), &mut *learner).unwrap_err();
    assert!(matches!(&error, CheckpointError::Unwritable { path, .. } if *path == missing), "{error}");
    assert!(error.hint().unwrap().contains("make room"));
    assert!(matches!(Checkpoint::read(&missing), Err(CheckpointError::Unreadable { .. })));
    // A file where the folder of checkpoints should be.
    let file = folder.path().join("file");
    std::fs::write(&file, "mine").unwrap();
    let error = go(&config, &checkpoints(file.clone(), 4)).unwrap_err();
    assert!(matches!(error, RunError::Checkpoint(_)), "{error}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
}

#[test]
fn an_agent_is_its_file_and_checks_what_it_is_given() {
    let mut agent = Agent::new(3, 2, &["method=hal", "hidden=[8]", "replay_from=all"]).unwrap();
    let (x, y) = ([0.1, 0.2, 0.3, 0.9, 0.8, 0.7], [0, 1]);
    for _ in 0..20 {
        agent.observe(&x, &y, 0).unwrap();
    }
    agent.end_task();
    let folder = folder();
    let path = folder.path().join("agent.safetensors");
    agent.save(&path).unwrap();
    let mut again = Agent::load(&path).unwrap();
    for task in [1, 2] {
        for agent in [&mut agent, &mut again] {
            agent.observe(&x, &y, task).unwrap();
            agent.end_task();
        }
    }
    assert_eq!(agent.learner().theta(), again.learner().theta());
    assert_eq!(agent.predict(&x, 0).unwrap(), again.predict(&x, 0).unwrap());

    let text = |result: Result<f32, AgentError>| result.unwrap_err().to_string();
    assert_eq!(text(agent.observe(&x, &[0], 0)), "6 values for 1 labels, expected 3 for each");
    assert_eq!(text(agent.observe(&x, &[0, 2], 0)), "class 2, expected one below 2");
    let nan = [0.1, f32::NAN, 0.3];
    assert_eq!(text(agent.observe(&nan, &[0], 0)), "value 1 is NaN, expected a finite number");
    assert!(matches!(agent.predict(&x[..4], 0), Err(AgentError::Values { .. })));
    assert_eq!(agent.observe(&[], &[], 0), Ok(0.0));
    let shape = Shape {
        input: [1, 1, 3],
        classes: 4,
        heads: Some(vec![vec![0, 1], vec![2, 3]]).into(),
        ..Shape::default()
    };
    let mut heads = Agent::of(shape.clone(), &["hidden=[4]"]).unwrap();
    assert_eq!(text(heads.observe(&nan[..0], &[], 2)), "task 2, expected one below 2");
    assert!(heads.predict(&x, 1).unwrap().iter().all(|class| [2, 3].contains(class)));
    let foreign = text(heads.observe(&x, &[0, 2], 0));
    assert_eq!(foreign, "class 2 in task 0, expected a class of that task");
    // Nor does it take such samples from a file: here the tasks have changed places, so all of them are.
    heads.observe(&x, &[0, 1], 0).unwrap();
    heads.save(&path).unwrap();
    let mut swapped = Checkpoint::read(&path).unwrap();
    swapped.header.shape.heads = Some(vec![vec![2, 3], vec![0, 1]]).into();
    swapped.write(&path).unwrap();
    let refused = Agent::load(&path).err().unwrap().to_string();
    assert!(refused.ends_with("`ring` is class 0 of task 0, expected a class of that task"), "{refused}");
    for (input, classes, heads) in [
        ([1, 1, 0], 2, None),
        ([usize::MAX, 2, 1], 2, None),
        ([1, 1, 3], 1, None),
        ([1, 1, 3], 4, Some(vec![vec![4]])),
        ([1, 1, 3], 4, Some(vec![])),
        ([1, 1, 3], 1 << 16, Some(vec![vec![0]; 1025])),
    ] {
        let made = Agent::of(Shape { input, classes, heads: heads.into(), ..Shape::default() }, &[]);
        assert!(matches!(made, Err(AgentError::Shape { .. })), "{:?}", made.err());
    }
    assert!(matches!(Agent::new(3, 2, &["hidden=0"]), Err(AgentError::Config(_))));
}

#[test]
fn an_agent_that_diverges_says_so_and_does_not_take_the_place_of_a_good_one() {
    let folder = folder();
    let path = folder.path().join("agent.safetensors");
    let mut agent = Agent::new(2, 2, &["method=finetune", "hidden=[64]", "finetune.rate=100"]).unwrap();
    agent.save(&path).unwrap();
    let good = std::fs::read(&path).unwrap();
    // The first loss is that before the step which ruins it.
    let losses: Vec<_> = (0..4).map(|_| agent.observe(&[1e30, -1e30, 5e29, 2e30], &[0, 1], 0)).collect();
    assert!(losses[0].is_ok(), "{losses:?}");
    assert_eq!(losses[3], Err(AgentError::Diverged));
    assert_eq!(agent.save(&path), Err(AgentError::Diverged));
    assert_eq!(std::fs::read(&path).unwrap(), good);
}

#[test]
fn an_agent_takes_over_the_learner_of_a_run() {
    let config = small(&["method=icarl", "benchmark=split-digits"]);
    let folder = folder();
    let with = checkpoints(folder.path().to_owned(), 5);
    go(&config, &with).unwrap();
    let path = with.latest(&config).unwrap().0.unwrap().0;
    let agent = Agent::load(&path).unwrap();
    assert_eq!(agent.width(), 784);
    let blank = vec![0.0; 784];
    assert!(agent.predict(&blank, 0).is_ok());
    // A file that claims a network larger than itself is refused before one is made.
    let mut found = Checkpoint::read(&path).unwrap();
    found.header.shape.input = [1, 1, 1 << 27];
    let claim = folder.path().join("claim.safetensors");
    found.write(&claim).unwrap();
    assert!(matches!(Agent::load(&claim), Err(AgentError::Shape { .. })));
}

#[test]
fn an_agent_of_a_stream_of_ones_own_takes_values_as_they_are_in_its_files() {
    let folder = folder();
    // Features far from zero: without the scale, no answer would be better than chance.
    let row =
        |i: u32| (1e4 + f64::from(i % 7), 1e-3 * f64::from(i % 5), ["warm", "cold"][i as usize % 7 / 4]);
    let lines: String = (0..300).map(row).map(|(a, b, kind)| format!("{a},{b},{kind}\n")).collect();
    std::fs::write(folder.path().join("a.csv"), format!("a,b,kind\n{lines}")).unwrap();
    let toml = "format = \"csv\"\nlabel = \"kind\"\nhold_out = 0.2\nhold_out_rows = \"last\"\n[[files]]\ntrain = \"a.csv\"\n";
    let file = StreamFile::parse(toml.as_bytes(), &folder.path().join("mine.toml")).unwrap();
    let set = ["benchmark=mine", "method=er-ring", "er-ring.rate=0.3", "hidden=16", "batch=2"];
    let set: Vec<Override> = set.iter().map(|text| Override::parse(text).unwrap()).collect();
    let config = Experiment::resolve(&set, &[custom_stream::benchmark(&file)], METHODS).unwrap().first_run();
    let with = checkpoints(folder.path().join("checkpoints"), 50);
    let source = custom_stream::load(&file).unwrap();
    let (record, _) = run::run_with_snapshot(&config, &source, Some(&with), false, &mut |_| ()).unwrap();

    let path = with.latest(&config).unwrap().0.unwrap().0;
    let mut agent = Agent::load(&path).unwrap();
    let names = agent.shape().names.clone().unwrap();
    assert_eq!(names, ["cold", "warm"]);
    let right = |agent: &Agent| {
        let test = (240..300).map(row);
        let right = |(a, b, kind): &(f64, f64, &str)| {
            let answer = agent.predict(&[*a as f32, *b as f32], 0).unwrap();
            names[answer[0] as usize] == *kind
        };
        test.filter(right).count()
    };
    assert_eq!(right(&agent) as f64 / 60.0, record.accuracy.unwrap() / 100.0);
    assert!(right(&agent) > 50, "{} of 60", right(&agent));
    // It learns on from such values, and its own file knows them too.
    agent.observe(&[1e4, 0.0], &[1], 0).unwrap();
    agent.save(&path).unwrap();
    assert_eq!(right(&Agent::load(&path).unwrap()), right(&agent));

    // Nothing is taken from a file that does not fit the inputs or the classes.
    let refused = |change: fn(&mut Shape)| {
        let mut changed = Checkpoint::read(&path).unwrap();
        change(&mut changed.header.shape);
        let other = path.with_extension("other");
        changed.write(&other).unwrap();
        Agent::load(&other).err().unwrap().to_string()
    };
    let three = refused(|shape| shape.names.as_mut().unwrap().push("hot".to_owned()));
    assert_eq!(three, "the number of names is 3, expected one for each class");
    let narrow = refused(|shape| shape.scale = serde_json::from_str("[[0.0, 1.0]]").unwrap());
    assert_eq!(
        narrow,
        "the scale of the inputs is another, expected a mean and a factor for each input, all finite"
    );
}

#[test]
fn parts_that_do_not_fit_are_named() {
    let (config, stream, mut learner) = trained(&["method=er-ring"]);
    let found = Checkpoint::take(header(&config, &stream), &mut *learner).unwrap();
    let mut other = found.clone();
    // As if it were of a network with fewer classes: its memory has labels that this one has not.
    other.header.shape.classes = 3;
    let other = Checkpoint::parse(&bytes(&other), Path::new("x")).unwrap();
    let error = other.restore(&mut *learner, Path::new("x")).unwrap_err();
    let CheckpointError::Part { part: StateError { part, found, expected }, .. } = error else {
        panic!("{error}")
    };
    assert_eq!((part.as_str(), expected.as_str()), ("ring", "a class below 3"));
    assert!(found.starts_with("class "), "{found}");
}
