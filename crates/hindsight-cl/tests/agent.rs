//! An agent as an application uses it: made, copied, shared, grown, saved; and what it refuses.

use std::{collections::BTreeSet, path::PathBuf};

use hindsight::{
    Agent, AgentBuilder, AgentError, Batch, Inputs, Learner,
    checkpoint::{Checkpoint, OLDEST_VERSION, VERSION},
    methods::{METHODS, Method, RATE, Setup},
    state::StateDict,
};

/// Points around the corners of a square, one corner per class, and a little apart in each task.
fn samples(count: usize, classes: u32, task: u32) -> (Vec<f32>, Vec<u32>) {
    let mut rng = hindsight::Rng::named(u64::from(task), "samples");
    let labels: Vec<u32> = (0..count as u32).map(|i| i % classes).collect();
    let corner = |label: u32| [f64::from(label & 1) * 2.0 - 1.0, f64::from(label >> 1) * 2.0 - 1.0];
    let point = |&label: &u32| corner(label).map(|x| (x + 0.3 * rng.normal() + 0.2 * f64::from(task)) as f32);
    let x = labels.iter().flat_map(point).collect();
    (x, labels)
}

fn teach(agent: &mut Agent, classes: u32, tasks: std::ops::Range<u32>) {
    for task in tasks {
        let (x, labels) = samples(60, classes, task);
        for (x, labels) in x.chunks(20).zip(labels.chunks(10)) {
            agent.observe(x, labels, task).unwrap();
        }
        agent.end_task();
    }
}

fn small(method: &str) -> AgentBuilder {
    let builder = Agent::builder(2, 4).method(method).set("hidden", vec![8]).set("slots", 2).seed(3);
    match method {
        "hal" => builder.set("anchor_steps", 5),
        "vcl" | "vcl-random" => builder.set(&format!("{method}.samples"), 2),
        _ => builder,
    }
}

/// All methods that an agent can be of.
fn methods() -> impl Iterator<Item = &'static str> {
    METHODS.iter().filter(|method| !method.joint).map(|method| method.name)
}

fn theta(agent: &Agent) -> Vec<u32> {
    agent.learner().theta().iter().map(|t| t.to_bits()).collect()
}

#[test]
fn bytes_in_memory_are_those_of_the_file() {
    let mut agent = small("er-ring").build().unwrap();
    teach(&mut agent, 4, 0..2);
    agent.set_label_type(Some("int".to_owned()));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agent.safetensors");
    agent.save(&file).unwrap();
    let bytes = agent.to_bytes().unwrap();
    assert_eq!(bytes, std::fs::read(&file).unwrap());
    let again = Agent::from_bytes(&bytes).unwrap();
    assert_eq!(again.application().label_type.as_deref(), Some("int"));
    assert_eq!(again.to_bytes().unwrap(), bytes);
    let error = Agent::from_bytes(&bytes[..bytes.len() / 2]).unwrap_err();
    assert!(error.to_string().starts_with("`memory` is no checkpoint"), "{error}");
}

#[test]
fn a_copy_of_every_method_lives_on_like_the_original() {
    for method in methods() {
        let mut agent = small(method).build().unwrap();
        teach(&mut agent, 4, 0..2);
        let (mut copy, predictor) = (agent.clone(), agent.predictor().unwrap());
        let (x, _) = samples(20, 4, 0);
        let before = agent.predict_proba(&x, 0).unwrap();
        for agent in [&mut agent, &mut copy] {
            teach(agent, 4, 2..4);
        }
        assert_eq!(theta(&agent), theta(&copy), "{method}");
        assert_eq!(agent.predict_proba(&x, 1).unwrap(), copy.predict_proba(&x, 1).unwrap(), "{method}");
        assert_eq!(predictor.predict_proba(&x, 0).unwrap(), before, "{method}");
        // The copy that answers for the first task is never trained again.
        let changes = method != "clone-and-finetune";
        assert_eq!(agent.predict_proba(&x, 0).unwrap() != before, changes, "{method}");
        assert_eq!(agent.application().samples, 240);
        assert!(format!("{agent:?} {predictor:?}").contains(method));
    }
}

#[test]
fn a_predictor_answers_on_other_threads_while_the_agent_learns() {
    let mut agent = small("er-ring").build().unwrap();
    teach(&mut agent, 4, 0..1);
    let predictor = agent.predictor().unwrap();
    let (x, _) = samples(50, 4, 0);
    let expected = agent.predict(&x, 0).unwrap();
    std::thread::scope(|scope| {
        let asked: Vec<_> = (0..3)
            .map(|_| {
                let (predictor, x) = (predictor.clone(), &x);
                scope
                    .spawn(move || (0..50).map(|_| predictor.predict(x, 0).unwrap()).collect::<BTreeSet<_>>())
            })
            .collect();
        teach(&mut agent, 4, 1..6);
        for thread in asked {
            assert_eq!(thread.join().unwrap(), BTreeSet::from([expected.clone()]));
        }
    });
}

#[test]
fn settings_are_found_without_prefix_and_what_means_nothing_is_refused() {
    let rate = |agent: &Agent| agent.config().method_settings.float("rate");
    assert_eq!(rate(&Agent::new(2, 2, &["method=er-ring", "rate=0.7", "hidden=4"]).unwrap()), 0.7);
    assert_eq!(rate(&small("hal").set("rate", 0.25).build().unwrap()), 0.25);
    assert_eq!(rate(&small("hal").set("hal.rate", 1).build().unwrap()), 1.0);
    assert_eq!(small("hal").build().unwrap().config().method_settings.text("preset"), "robust");
    for (key, value) in [
        ("seeds", "3"),
        ("method", "hal,er-ring"),
        ("method", "all"),
        ("method", "multitask"),
        ("hal.anchors", "oracle"),
        ("anchors", "oracle"),
        ("benchmark", "permuted-mnist"),
        ("evaluate", "final"),
    ] {
        // A setting of HAL alone would be refused first.
        let builder = if key == "method" { Agent::builder(2, 4) } else { small("hal") };
        let error = builder.set(key, value).build().unwrap_err();
        assert!(matches!(&error, AgentError::Meaningless { .. }), "{key}={value}: {error}");
        assert_eq!(error.hint().as_deref(), Some("leave it out"));
    }
    for (key, value) in [("ratee", "0.1"), ("slots", "many"), ("method", "hall")] {
        let error = small("hal").set(key, value).build().unwrap_err();
        assert!(matches!(&error, AgentError::Config(_)), "{key}={value}: {error}");
        let hint = error.hint().unwrap();
        assert!(
            !hint.contains("hindsight ") && !hint.contains("--"),
            "an embedder has no such command: {hint}"
        );
    }
}

#[test]
fn one_that_has_diverged_says_so_until_it_is_loaded_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.safetensors");
    let mut agent = small("finetune").set("rate", 100).build().unwrap();
    agent.save(&path).unwrap();
    let ruin = [1e30, -1e30];
    let mut last = Ok(0.0);
    for _ in 0..10 {
        last = agent.observe(&ruin, &[0], 0).and_then(|_| agent.observe(&ruin, &[1], 0));
    }
    assert_eq!(last, Err(AgentError::Diverged));
    assert_eq!(agent.observe(&[0.0, 0.0], &[0], 0), Err(AgentError::Diverged));
    assert_eq!(agent.predict(&[0.0, 0.0], 0), Err(AgentError::Diverged));
    assert_eq!(agent.predict_proba(&[0.0, 0.0], 0), Err(AgentError::Diverged));
    assert!(agent.predictor().is_err());
    assert_eq!(agent.clone().save(&path), Err(AgentError::Diverged));
    let mut again = Agent::load(&path).unwrap();
    assert!(again.observe(&[0.0, 0.0], &[0], 0).is_ok());
    assert!(again.predict(&[0.0, 0.0], 0).is_ok());
}

/// Its loss never tells that one of its parameters is not a number.
struct Hidden(Vec<f32>);

impl Learner for Hidden {
    fn observe(&mut self, _: &Batch) -> f32 {
        self.0[0] = f32::NAN;
        0.5
    }

    fn end_task(&mut self) {}

    fn predict(&self, inputs: &Inputs<'_>, _: usize) -> Vec<u32> {
        vec![1; inputs.len()]
    }

    fn theta(&self) -> &[f32] {
        &self.0
    }

    fn state(&mut self) -> StateDict<'_> {
        vec![("theta", &mut self.0)]
    }
}

static OWN: [Method; 2] = [
    Method {
        name: "hidden",
        keys: &[RATE],
        build: |setup: &Setup<'_>| Box::new(Hidden(setup.initial_theta())),
        ..Method::DEFAULT
    },
    Method { name: "mine", keys: METHODS[0].keys, ..Method::DEFAULT },
];

#[test]
fn a_parameter_that_is_no_number_is_noticed_within_the_task() {
    let mut agent =
        Agent::builder(2, 2).methods(&OWN).method("hidden").set("hidden", vec![4]).build().unwrap();
    assert_eq!(
        agent.predict_proba(&[0.0, 0.0], 0).unwrap(),
        [0.0, 1.0],
        "without probabilities it is certain"
    );
    let results: Vec<_> = (0..40).map(|_| agent.observe(&[0.0, 0.0], &[0], 0)).collect();
    let first = results.iter().position(Result::is_err).unwrap();
    assert!(first < 32, "{first}");
    assert!(results[first..].iter().all(|result| *result == Err(AgentError::Diverged)));
}

#[test]
fn a_method_of_the_callers_table_is_made_saved_and_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.safetensors");
    let mut agent = Agent::builder(2, 4).methods(&OWN).method("mine").set("hidden", 8).build().unwrap();
    teach(&mut agent, 4, 0..1);
    agent.save(&path).unwrap();
    let again = Agent::load_with(&path, &OWN).unwrap();
    assert_eq!(theta(&again), theta(&agent));
    let error = Agent::load(&path).unwrap_err();
    assert!(error.to_string().contains("unknown method `mine`"), "{error}");
}

#[test]
fn the_last_task_id_is_refused_as_files_cannot_hold_it() {
    let mut agent = small("er-ring").build().unwrap();
    let error = agent.observe(&[0.0, 0.0], &[0], u32::MAX).unwrap_err();
    assert_eq!(error.to_string(), "task 4294967295, expected one below 4294967295");
    agent.observe(&[0.0, 0.0], &[0], u32::MAX - 1).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.safetensors");
    agent.save(&path).unwrap();
    Agent::load(&path).unwrap();
}

/// Output weights and bias of a class, and all that comes before the output layer, as bits.
fn rows(agent: &Agent, class: usize) -> (Vec<u32>, Vec<u32>) {
    let (theta, classes) = (theta(agent), agent.shape().classes);
    let start = theta.len() - 9 * classes;
    (theta[start..].iter().skip(class).step_by(classes).copied().collect(), theta[..start].to_vec())
}

#[test]
fn the_head_of_every_method_grows_and_old_rows_stay_to_the_last_bit() {
    // What these answer with is no network's theta.
    for method in methods().filter(|method| !["slda", "ranpac"].contains(method)) {
        // Little to replay, so that the few updates here are enough for a new class.
        let open = |classes| {
            let builder = Agent::builder(2, classes).method(method).set("hidden", 8).set("slots", 1);
            builder.seed(3).open()
        };
        // Announced or not, a class starts from the same weights.
        let (told, mut grown) = (open(4).build().unwrap(), open(0).build().unwrap());
        assert_eq!(grown.predict(&[0.0, 0.0], 0), Err(AgentError::NoClasses));
        for class in ["a", "b", "c", "d"] {
            grown.class_id(class).unwrap();
        }
        assert_eq!(theta(&told), theta(&grown), "{method}");

        let mut agent = open(2).build().unwrap();
        teach(&mut agent, 2, 0..2);
        let before = [rows(&agent, 0), rows(&agent, 1)];
        let (x, _) = samples(20, 2, 0);
        let answers = agent.predict_proba(&x, 0).unwrap();
        agent.open();
        let mut other = agent.clone();
        other.observe(&[], &[], 5).unwrap();
        assert_eq!(other.classes(), 2, "{method}");
        // A class that nobody announced: room is made before anything is learned, then all goes on.
        let error = agent.observe(&[f32::NAN, 0.0], &[3], 2);
        assert!(matches!(error, Err(AgentError::NotFinite { .. })) && agent.classes() == 2);
        teach(&mut agent, 4, 2..3);
        assert_eq!((agent.classes(), agent.shape().classes), (4, 4));
        assert_eq!(agent.predict_proba(&x, 0).unwrap().len(), 20 * 4, "{method}");
        let mut named = open(0).build().unwrap();
        assert_eq!((named.class_id("a").unwrap(), named.class_id("b").unwrap()), (0, 1));
        teach(&mut named, 2, 0..2);
        assert_eq!([rows(&named, 0), rows(&named, 1)], before, "{method}");
        assert_eq!(named.class_id("new").unwrap(), 2);
        assert_eq!([rows(&named, 0), rows(&named, 1)], before, "{method}");
        assert_eq!(named.predict_proba(&x, 0).unwrap().len(), answers.len() / 2 * 3);
        teach(&mut named, 3, 2..4);
        let (x, labels) = samples(60, 3, 3);
        let right = named.predict(&x, 3).unwrap().iter().zip(&labels).filter(|(a, b)| a == b).count();
        // These learn too slowly for so few samples.
        let slow = ["mer", "vcl", "vcl-random", "cls-er", "gdumb"].contains(&method);
        assert!(right > 30 || slow, "{method}: {right} of 60");
    }
}

#[test]
fn methods_without_a_gradient_grow_too() {
    for method in ["slda", "ranpac"] {
        let mut agent = Agent::builder(2, 0).method(method).set("hidden", 8).seed(3).open().build().unwrap();
        assert_eq!((agent.class_id("a").unwrap(), agent.class_id("b").unwrap()), (0, 1));
        teach(&mut agent, 2, 0..2);
        let (x, _) = samples(20, 2, 0);
        let before = agent.predict(&x, 0).unwrap();
        let mut copy = agent.clone();
        assert_eq!(copy.class_id("new").unwrap(), 2);
        assert_eq!(copy.predict(&x, 0).unwrap(), before, "{method}");
        teach(&mut copy, 3, 2..4);
        let (x, labels) = samples(60, 3, 3);
        let right = copy.predict(&x, 3).unwrap().iter().zip(&labels).filter(|(a, b)| a == b).count();
        assert!(right > 30, "{method}: {right} of 60");
    }
}

#[test]
fn a_residual_network_grows_too() {
    let builder = Agent::builder(0, 2).image([1, 8, 8]).method("ewc").set("network", "resnet");
    let mut agent = builder.set("maps", vec![2, 3]).set("stem_stride", 2).open().build().unwrap();
    let image = |i: usize| (0..64).map(|j| ((i * 7 + j * 5) % 11) as f32 / 11.0).collect::<Vec<f32>>();
    let x: Vec<f32> = (0..6).flat_map(image).collect();
    agent.observe(&x, &[0, 1, 0, 1, 0, 1], 0).unwrap();
    agent.end_task();
    let before = agent.learner().theta().to_vec();
    let logits = agent.predict_proba(&x, 0).unwrap();
    agent.observe(&[], &[], 0).unwrap();
    let mut grown = agent.clone();
    assert!(grown.class_id("c").is_err(), "numbered classes take no names");
    grown.observe(&x, &[0, 1, 2, 1, 0, 2], 1).unwrap();
    assert_eq!(grown.learner().theta().len(), before.len() + 4);
    assert_eq!(grown.predict_proba(&x, 1).unwrap().len(), logits.len() / 2 * 3);
}

#[test]
fn tasks_may_have_heads_that_grow() {
    let mut agent =
        Agent::builder(2, 0).method("er-ring").set("hidden", 8).task_heads(vec![]).open().build().unwrap();
    let (day, night) = (agent.task_id("day").unwrap(), agent.task_id("night").unwrap());
    let (cat, dog, owl) = ("cat", "dog", "owl");
    for (task, names) in [(day, [cat, dog]), (night, [cat, owl])] {
        let labels = names.map(|name| agent.class_id(name).unwrap());
        for _ in 0..5 {
            agent.observe(&[0.0, 1.0, 1.0, 0.0], &labels, task).unwrap();
        }
        agent.end_task();
    }
    let rows = |task| agent.predict_proba(&[0.5, 0.5], task).unwrap();
    assert!(rows(day)[2] == 0.0 && rows(day)[1] > 0.0);
    assert!(rows(night)[1] == 0.0 && rows(night)[2] > 0.0);
    assert!(matches!(agent.predict(&[0.5, 0.5], 2), Err(AgentError::Unknown { what: "task", .. })));
    assert_eq!(agent.application().tasks, ["day", "night"]);
}

fn saved(agent: &Agent) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.safetensors");
    agent.save(&path).unwrap();
    (folder, path)
}

#[test]
fn names_scale_and_counts_are_in_the_file() {
    let builder = Agent::builder(2, 0).method("hal").set("hidden", 8).set("slots", 1).set("anchor_steps", 3);
    let mut agent = builder.features(["x", "y"]).open().standardise().build().unwrap();
    let (mut x, _) = samples(300, 4, 0);
    // Features of very different scales, and one value far out.
    x.iter_mut().step_by(2).for_each(|x| *x = *x * 1e-6 + 3.0);
    x.iter_mut().skip(1).step_by(2).for_each(|y| *y *= 1e7);
    let names = ["one", "two", "three", "four"];
    let day = |agent: &mut Agent, name: &str, range: std::ops::Range<usize>| {
        let task = agent.task_id(name).unwrap();
        for i in range.step_by(10) {
            let labels: Vec<u32> = (i..i + 10).map(|i| agent.class_id(names[i % 4]).unwrap()).collect();
            agent.observe(&x[2 * i..2 * i + 20], &labels, task).unwrap();
        }
        agent.end_task();
    };
    day(&mut agent, "monday", 0..100);
    let (_folder, path) = saved(&agent);
    let mut again = Agent::load(&path).unwrap();
    assert_eq!(format!("{agent:?}"), format!("{again:?}"));
    for agent in [&mut agent, &mut again] {
        day(agent, "tuesday", 100..300);
        agent.predict(&[1e30, -1e30], 0).unwrap();
    }
    assert_eq!(theta(&agent), theta(&again));
    assert_eq!(again.application().tasks, ["monday", "tuesday"]);
    assert_eq!(again.application().features.as_deref().unwrap(), ["x", "y"]);
    assert_eq!((again.application().samples, again.application().batches), (300, 30));
    assert_eq!(again.shape().names.as_deref().unwrap(), names);
    let right = agent.predict(&x, 1).unwrap().iter().zip((0..4).cycle()).filter(|(a, b)| **a == *b).count();
    assert!(right > 200, "{right} of 300");

    // What does not hang together is refused.
    let refused = |change: &dyn Fn(&mut hindsight::checkpoint::Header)| {
        let mut changed = Checkpoint::read(&path).unwrap();
        change(&mut changed.header);
        let other = path.with_extension("other");
        changed.write(&other).unwrap();
        Agent::load(&other).unwrap_err().to_string()
    };
    let features =
        refused(&|header| header.application.as_mut().unwrap().features = Some(vec!["x".to_owned()]));
    assert_eq!(features, "the number of features' names is 1, expected one for each input");
    let known = refused(&|header| header.application.as_mut().unwrap().known = Some(9));
    assert_eq!(known, "the number of known classes is 9, expected that of all classes");
}

#[test]
fn files_of_the_version_before_are_read() {
    let agent = small("er-ring").build().unwrap();
    let (_folder, path) = saved(&agent);
    let mut old = Checkpoint::read(&path).unwrap();
    assert_eq!(old.header.version, VERSION);
    // Version 2 had nothing about applications.
    (old.header.version, old.header.application) = (OLDEST_VERSION, None);
    old.write(&path).unwrap();
    assert_eq!(theta(&Agent::load(&path).unwrap()), theta(&agent));
    old.header.version = OLDEST_VERSION - 1;
    old.write(&path).unwrap();
    let error = Agent::load(&path).unwrap_err().to_string();
    assert!(error.ends_with("has version 1, expected 2 to 3"), "{error}");
}

#[test]
fn several_passes_over_a_chunk_are_as_many_batches() {
    let (x, labels) = samples(60, 4, 0);
    let (mut once, mut thrice) = (small("er-ring").build().unwrap(), small("er-ring").build().unwrap());
    for _ in 0..3 {
        for (x, labels) in x.chunks(20).zip(labels.chunks(10)) {
            once.observe(x, labels, 0).unwrap();
        }
    }
    let loss = thrice.observe_epochs::<AgentError>(&x, &labels, 0, 10, 3, || Ok(())).unwrap();
    assert_eq!(theta(&once), theta(&thrice));
    assert!(loss > 0.0 && loss < 1.5, "{loss}");
    assert_eq!(thrice.application().batches, 18);
}

/// Features are scaled by the chunk, whose rows count once however often they come.
#[test]
fn rows_count_once_for_the_scale() {
    let (x, labels) = samples(60, 4, 0);
    let (late, late_labels) = samples(20, 4, 1);
    let scaled = || small("er-ring").standardise().build().unwrap();
    let mut whole = scaled();
    whole.fit_scaling(&x).unwrap();
    let expected = whole.shape().scale.clone();
    let (mut passes, mut pieces, mut stopped) = (scaled(), scaled(), scaled());
    passes.observe_epochs::<AgentError>(&x, &labels, 0, 10, 3, || Ok(())).unwrap();
    pieces.fit_scaling(&x).unwrap();
    for (x, labels) in x.chunks(50).zip(labels.chunks(25)) {
        pieces.observe_epochs::<AgentError>(x, labels, 0, 5, 2, || Ok(())).unwrap();
        // The file knows which rows are still to come.
        pieces = Agent::from_bytes(&pieces.to_bytes().unwrap()).unwrap();
    }
    assert_eq!((&passes.shape().scale, &pieces.shape().scale), (&expected, &expected));
    // What comes then is new.
    whole = scaled();
    whole.fit_scaling(&[x.as_slice(), &late].concat()).unwrap();
    pieces.observe(&late, &late_labels, 0).unwrap();
    assert_eq!(pieces.shape().scale, whole.shape().scale);

    let mut batches = 0;
    let stop = || {
        batches += 1;
        if batches == 4 { Err(AgentError::Diverged) } else { Ok(()) }
    };
    assert_eq!(stopped.observe_epochs(&x, &labels, 0, 10, 3, stop), Err(AgentError::Diverged));
    assert_eq!(stopped.application().batches, 4);
}
