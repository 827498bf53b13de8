//! Degenerate cases and the contract of all methods: facts that hold to the last bit.
//!
//! A method with its own part switched off must be the method that it extends. These are the cheapest
//! proofs that what is left is right. A new method is held to the contract by being in the table; its
//! degenerate case is one line in `SAME`.

use std::sync::{Arc, OnceLock};

use hindsight::{
    Batch, Inputs, Learner,
    benchmarks::BENCHMARKS,
    config::{Experiment, Override, RunConfig},
    data::digits::digits,
    methods::METHODS,
    protocol::{self, Evaluate, Protocol, Status},
    run,
    stream::Source,
};

const TASKS: usize = 3;
const CLASSES: usize = 10;
const SLOTS: usize = 2;
/// Tasks long enough for every part of every method to act; of VCL's costly draws only a few.
const SMALL: [&str; 12] = [
    "tasks=3",
    "samples=60",
    "slots=2",
    "batch=5",
    "hidden=32",
    "vcl.samples=1",
    "vcl.test_samples=1",
    "vcl-random.samples=1",
    "vcl-random.test_samples=1",
    "vcl-random.epochs=1",
    "slda.from=features",
    "ranpac.units=50",
];

/// The other half of the paper, on the same scale: a residual network with batch-norm, a head per task.
const RESIDUAL: [&str; 5] =
    ["benchmark=split-digits", "network=resnet", "maps=[3, 4]", "stem_stride=2", "samples=30"];

/// What two runs have in common, to the last bit.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Alike {
    /// Parameters, and all accuracies after every task.
    All,
    /// Parameters only: the two answer in different ways.
    Theta,
}

/// A method and its settings.
type Variant = (&'static str, &'static [&'static str]);

/// The first is the second. `tasks=1` stands for any method before there is a past.
const SAME: &[(Alike, Variant, Variant)] = &[
    (Alike::All, ("er-ring", &["slots=0"]), ("finetune", &[])),
    (Alike::All, ("er-ring", &["tasks=1"]), ("finetune", &["tasks=1"])),
    (Alike::All, ("hal", &["hal.lambda=0"]), ("er-ring", &[])),
    (Alike::All, ("hal", &["hal.lambda=0", "hal.preset=paper"]), ("er-ring", &[])),
    (Alike::All, ("hal", &["tasks=1"]), ("finetune", &["tasks=1"])),
    (Alike::All, ("mir", &["mir.candidates=10"]), ("er-ring", &["replay_batch=10"])),
    (Alike::All, ("mir", &["slots=0"]), ("finetune", &[])),
    (Alike::All, ("ewc", &["ewc.lambda=0"]), ("finetune", &[])),
    (Alike::All, ("ewc", &["tasks=1"]), ("finetune", &["tasks=1"])),
    (Alike::All, ("a-gem", &["slots=0"]), ("finetune", &[])),
    (Alike::All, ("a-gem", &["tasks=1"]), ("finetune", &["tasks=1"])),
    (
        Alike::All,
        ("mer", &["slots=0", "mer.beta=1", "mer.multiplier=1"]),
        ("finetune", &["finetune.rate=0.03"]),
    ),
    (Alike::All, ("icarl", &["slots=0"]), ("finetune", &[])),
    (Alike::Theta, ("icarl", &["icarl.strength=0"]), ("er-ring", &[])),
    (Alike::All, ("er-reservoir", &["slots=0"]), ("finetune", &[])),
    (Alike::All, ("der++", &["der++.alpha=0", "der++.beta=1"]), ("er-reservoir", &[])),
    (Alike::All, ("der++", &["der++.beta=0"]), ("der", &[])),
    (
        Alike::All,
        (
            "compact-der",
            &["compact-der.precision=f32", "compact-der.updates=1", "compact-der.statistics=running"],
        ),
        ("der++", &["der++.alpha=0.3"]),
    ),
    (
        Alike::All,
        ("compact-der", &[]),
        ("der++", &["memory_precision=u8", "der++.alpha=0.3", "der++.updates=3", "der++.statistics=memory"]),
    ),
    (Alike::All, ("der", &["der.alpha=0"]), ("er-reservoir", &["slots=0"])),
    // Every class is in a batch that is the whole task.
    (Alike::All, ("er-ace", &["batch=60"]), ("er-reservoir", &["batch=60"])),
    (Alike::All, ("lwf", &["lwf.strength=0"]), ("finetune", &[])),
    (Alike::All, ("lwf", &["tasks=1"]), ("finetune", &["tasks=1"])),
    (Alike::All, ("si", &["si.strength=0"]), ("finetune", &[])),
    (Alike::All, ("si", &["tasks=1"]), ("finetune", &["tasks=1"])),
    (Alike::All, ("mas", &["mas.strength=0"]), ("finetune", &[])),
    (Alike::All, ("mas", &["tasks=1"]), ("finetune", &["tasks=1"])),
    (Alike::All, ("gem", &["slots=0"]), ("finetune", &[])),
    (Alike::All, ("gem", &["tasks=1"]), ("finetune", &["tasks=1"])),
    (
        Alike::All,
        ("cls-er", &["cls-er.strength=0", "cls-er.stable=0", "cls-er.stable_updates=1"]),
        ("er-ring", &["er-ring.memory=reservoir"]),
    ),
    (Alike::All, ("vcl-random", &["slots=0"]), ("vcl", &[])),
    (Alike::Theta, ("clone-and-finetune", &[]), ("finetune", &[])),
    (Alike::All, ("clone-and-finetune", &["tasks=1"]), ("finetune", &["tasks=1"])),
];

fn source() -> &'static Arc<Source> {
    static SOURCE: OnceLock<Arc<Source>> = OnceLock::new();
    SOURCE.get_or_init(|| Arc::new(Source::new(digits(1_000, 300, 0))))
}

/// A small run of `method` on permuted digits with these settings.
fn config(method: &str, seed: usize, set: &[&str]) -> RunConfig {
    let own = [format!("method={method}"), format!("seeds={}", seed + 1)];
    let all = SMALL.iter().copied().chain(set.iter().copied()).chain(own.iter().map(String::as_str));
    let overrides: Vec<Override> = all.map(|text| Override::parse(text).unwrap()).collect();
    Experiment::resolve(&overrides, BENCHMARKS, METHODS).unwrap().runs().remove(seed)
}

/// What is left of a run, as bits, so that nothing passes for equal that is not.
#[derive(Debug, PartialEq)]
struct Life {
    theta: Vec<u32>,
    accuracies: Vec<Vec<u64>>,
}

fn bits(theta: &[f32]) -> Vec<u32> {
    theta.iter().map(|t| t.to_bits()).collect()
}

fn live(config: &RunConfig, evaluate: Evaluate) -> (Life, Box<dyn Learner>) {
    let stream = run::stream(config, source()).unwrap();
    let mut learner = run::learner(config, &stream);
    let protocol = Protocol { batch: config.shared.int("batch"), evaluate, every: 0, prequential: 0 };
    let outcome = protocol::run(&stream, &mut *learner, &protocol, &mut |_| {});
    assert_eq!(outcome.status, Status::Done, "{}", config.method.name);
    let rows = outcome.matrix.rows.iter().chain([&outcome.matrix.initial]);
    let accuracies = rows.map(|row| row.iter().map(|a| a.to_bits()).collect()).collect();
    (Life { theta: bits(learner.theta()), accuracies }, learner)
}

fn life(method: &str, seed: usize, set: &[&str]) -> Life {
    live(&config(method, seed, set), Evaluate::Full).0
}

/// The first `count` test inputs of the last task, as the networks see them.
fn test_inputs(count: usize) -> Vec<f32> {
    let stream = run::stream(&config("finetune", 0, &[]), source()).unwrap();
    let mut rows = Vec::new();
    stream.test_inputs(TASKS - 1).materialise(0..count, &mut rows);
    rows
}

#[test]
fn a_method_without_its_own_part_is_the_method_that_it_extends() {
    for (alike, (method, set), (other, other_set)) in SAME {
        for world in [&[][..], &RESIDUAL] {
            let life = |method, set: &[&str]| life(method, 0, &[world, set].concat());
            let (a, b) = (life(method, set), life(other, other_set));
            let what = format!("{method} {set:?} and {other} {other_set:?} under {world:?}");
            let apart = a.theta.iter().zip(&b.theta).filter(|(a, b)| a != b).count();
            assert_eq!(apart, 0, "parameters that differ of {} between {what}", a.theta.len());
            assert!(*alike == Alike::Theta || a.accuracies == b.accuracies, "accuracies of {what}");
        }
    }
}

#[test]
fn multitask_is_finetune_on_the_joined_stream() {
    let config = config("finetune", 0, &[]);
    let stream = run::stream(&config, source()).unwrap().joined(0, 1);
    let mut learner = run::learner(&config, &stream);
    let protocol =
        Protocol { batch: config.shared.int("batch"), evaluate: Evaluate::Final, every: 0, prequential: 0 };
    protocol::run(&stream, &mut *learner, &protocol, &mut |_| {});
    assert!(bits(learner.theta()) == life("multitask", 0, &[]).theta);
}

#[test]
fn methods_with_their_own_part_differ() {
    let lives: Vec<(&str, Life)> = METHODS.iter().map(|m| (m.name, life(m.name, 0, &[]))).collect();
    for (i, (name, a)) in lives.iter().enumerate() {
        for (other, b) in &lives[..i] {
            assert!(a != b, "{name} and {other}");
        }
    }
}

#[test]
fn a_seed_decides_all_bits() {
    for method in METHODS {
        for world in [&[][..], &RESIDUAL] {
            let first = life(method.name, 1, world);
            assert!(first == life(method.name, 1, world), "{}: the same seed", method.name);
            let other = life(method.name, 0, world);
            assert!(first.theta != other.theta, "{}: another seed", method.name);
            // The residual network is so small here that its accuracies are often chance.
            let told = !world.is_empty() || first.accuracies != other.accuracies;
            assert!(told, "{}: another seed", method.name);
        }
    }
}

#[test]
fn exams_change_nothing() {
    for (method, world) in METHODS.iter().flat_map(|method| [(method, &[][..]), (method, &RESIDUAL)]) {
        let config = config(method.name, 0, world);
        let (evaluated, _) = live(&config, Evaluate::Full);
        let (left_alone, _) = live(&config, Evaluate::Final);
        assert!(evaluated.theta == left_alone.theta, "{}: parameters", method.name);
        let last = |life: &Life| life.accuracies[life.accuracies.len() - 2].clone();
        assert_eq!(last(&evaluated), last(&left_alone), "{}: the last evaluation", method.name);
    }
}

#[test]
fn an_answer_does_not_depend_on_what_else_is_asked() {
    const COUNT: usize = 201;
    let x = test_inputs(COUNT);
    let width = x.len() / COUNT;
    for method in METHODS {
        let (_, learner) = live(&config(method.name, 0, &[]), Evaluate::Final);
        let ask = |x: &[f32]| learner.predict(&Inputs::dense(x, width), TASKS - 1);
        let before = bits(learner.theta());
        let all = ask(&x);
        assert_eq!(all.len(), COUNT);
        assert!(all.iter().any(|&class| class != all[0]), "{}: one answer to all", method.name);

        let (left, right) = x.split_at(77 * width);
        assert_eq!([ask(left), ask(right)].concat(), all, "{}: in two parts", method.name);
        let reversed: Vec<f32> = x.chunks_exact(width).rev().flatten().copied().collect();
        let answers: Vec<u32> = ask(&reversed).into_iter().rev().collect();
        assert_eq!(answers, all, "{}: backwards", method.name);
        assert_eq!(ask(&x), all, "{}: again", method.name);
        assert!(ask(&[]).is_empty(), "{}: nothing", method.name);
        assert!(bits(learner.theta()) == before, "{}: parameters", method.name);
    }
}

#[test]
fn no_method_holds_more_than_its_slots() {
    for method in METHODS {
        let config = config(method.name, 0, &[]);
        let (_, learner) = live(&config, Evaluate::Final);
        let retained = learner.retained_samples();
        let memory = retained.memory.as_ref().map_or(0, |memory| memory.len());
        let anchors = retained.anchors.map_or(0, Batch::len);
        assert!(memory <= TASKS * CLASSES * SLOTS, "{}: {memory} samples", method.name);
        assert!(anchors <= TASKS * CLASSES, "{}: {anchors} anchors", method.name);
        let record = run::run(&config, source(), &mut |_| {}).unwrap();
        let stream = run::stream(&config, source()).unwrap();
        assert_eq!(record.memory_bytes, hindsight::budget::bytes(&config, &stream), "{}", method.name);
        let anchors = 4 * (anchors * source().dataset.width()) as u64;
        // Bytes beside the samples: logits of each, or so many copies of theta.
        let extra = record.memory_bytes - retained.memory_bytes - anchors;
        let thetas = |count: usize| (4 * count * learner.theta().len()) as u64;
        match method.name {
            "der" | "der++" | "compact-der" => {
                assert_eq!(extra, (4 * CLASSES * memory) as u64, "{}", method.name)
            }
            "icarl" | "lwf" => assert_eq!(extra, thetas(1), "{}", method.name),
            "cls-er" => assert_eq!(extra, thetas(2), "{}", method.name),
            "si" | "mas" | "clone-and-finetune" => assert_eq!(extra, thetas(3), "{}", method.name),
            "ewc" => assert_eq!(extra, thetas(4), "{}", method.name),
            "hal" | "vcl" | "vcl-random" | "slda" | "ranpac" => assert!(extra > 0, "{}", method.name),
            _ => assert_eq!(extra, 0, "{}", method.name),
        }

        let (_, learner) = live(&self::config(method.name, 0, &["slots=0"]), Evaluate::Final);
        let held = learner.retained_samples().memory.map_or(0, |memory| memory.len());
        assert_eq!(held, 0, "{}: without slots", method.name);
    }
}

#[test]
fn memories_fill_up_in_the_end() {
    // 60 samples of ten classes, all of which come at least twice with this seed.
    let replay = ["er-ring", "mir", "a-gem", "icarl", "hal", "mer", "er-reservoir", "er-ace", "der", "der++"];
    for method in replay.into_iter().chain(["compact-der", "cls-er", "gdumb", "gem"]) {
        let (_, learner) = live(&config(method, 0, &[]), Evaluate::Final);
        let memory = learner.retained_samples().memory.map_or(0, |memory| memory.len());
        assert_eq!(memory, TASKS * CLASSES * SLOTS, "{method}");
    }
}

#[test]
fn a_memory_in_eight_bits_holds_as_many_samples_in_a_quarter_of_the_bytes() {
    for method in ["er-ring", "icarl", "hal", "mer", "der++", "gdumb", "gem"] {
        let bytes = |precision: &str| {
            let set = format!("memory_precision={precision}");
            let (life, learner) = live(&config(method, 0, &[&set]), Evaluate::Final);
            let retained = learner.retained_samples();
            let held = retained.memory.unwrap().len();
            (held, retained.memory_bytes / held as u64, life)
        };
        let (wide, narrow) = (bytes("f32"), bytes("u8"));
        let width = source().dataset.width() as u64;
        assert_eq!((wide.0, wide.1), (narrow.0, 4 * width), "{method}");
        assert_eq!(narrow.1, width + 8, "{method}");
        assert!(wide.2.theta != narrow.2.theta, "{method}: nothing was rounded");
    }
}

#[test]
fn statistics_of_the_memory_change_answers_alone_and_those_of_batch_norm_alone() {
    for method in ["er-ring", "a-gem", "mer", "mir", "hal", "er-reservoir", "er-ace", "der", "der++"] {
        let set = format!("{method}.statistics=memory");
        assert!(life(method, 0, &[&set]) == life(method, 0, &[]), "{method}: no batch-norm, no difference");
        let residual = |set: &[&str]| config(method, 0, &[&RESIDUAL, set].concat());
        let theta = |set: &[&str]| live(&residual(set), Evaluate::Final).0.theta;
        let (running, memory) = (theta(&[]), theta(&[&set]));
        let stream = run::stream(&residual(&[]), source()).unwrap();
        let trained = run::setup(&residual(&[]), &stream).net.trainable();
        assert_eq!(running[..trained], memory[..trained], "{method}");
        assert_ne!(running[trained..], memory[trained..], "{method}");
    }
}

#[test]
fn statistics_of_a_memory_of_one_batch_are_those_of_that_batch() {
    let set = ["er-ring.statistics=memory", "scenario=class", "batch=30", "replay_batch=30"];
    let config = config("er-ring", 0, &[&RESIDUAL[..], &set].concat());
    let (_, learner) = live(&config, Evaluate::Final);
    let memory = learner.retained_samples().memory.unwrap().into_owned();
    let stream = run::stream(&config, source()).unwrap();
    let mut tape = hindsight_nn::Tape::new();
    run::setup(&config, &stream).net.forward(learner.theta(), &memory.x, &mut tape);
    let labels = vec![0; memory.len()];
    tape.cross_entropy(&labels, None);
    let answers = learner.predict_proba(&Inputs::dense(&memory.x, memory.width()), 0);
    // The running variance is that of a population: off by one over the number of pixels.
    let apart = answers.iter().zip(tape.probabilities()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(apart < 0.02, "{apart}");
}

#[test]
fn slots_within_a_budget_are_the_most_that_fit() {
    use hindsight::budget::{bytes, slots_within};
    for method in METHODS {
        let config = |slots: usize| config(method.name, 0, &[&format!("slots={slots}")]);
        let stream = run::stream(&config(3), source()).unwrap();
        let most = bytes(&config(5), &stream);
        let found = slots_within(&config(3), &stream, most).unwrap();
        match bytes(&config(6), &stream) == most {
            true => assert_eq!(found, 3, "{}: slots make no difference", method.name),
            false => assert_eq!(found, 5, "{}", method.name),
        }
        let least = bytes(&config(1), &stream);
        if least > 0 {
            assert_eq!(slots_within(&config(3), &stream, least - 1), Err(least), "{}", method.name);
        }
    }
}

#[test]
fn replaying_the_running_task_is_another_method() {
    for method in ["er-ring", "mir", "hal", "a-gem", "icarl"] {
        let finished = life(method, 0, &["replay_from=finished"]);
        assert!(finished == life(method, 0, &[]), "{method}: the default");
        assert!(finished.theta != life(method, 0, &["replay_from=all"]).theta, "{method}");
    }
}

#[test]
fn gem_with_one_past_task_is_a_gem_with_the_whole_memory_as_reference() {
    let two = |method, set: &[&str]| {
        let config = config(method, 0, &[&["tasks=2"], set].concat());
        live(&config, Evaluate::Final).1.theta().to_vec()
    };
    let [gem, a_gem] = [two("gem", &["gem.margin=0"]), two("a-gem", &["a-gem.reference_batch=1000"])];
    let apart = gem.iter().zip(&a_gem).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(apart < 1e-5, "{apart}");
    assert_ne!(bits(&gem), bits(&two("finetune", &[])), "nothing was projected");
}

#[test]
fn ridge_regression_knows_no_order_of_tasks() {
    // The same samples task by task or shuffled; only the order of sums differs.
    let config = config("ranpac", 0, &[]);
    let stream = run::stream(&config, source()).unwrap();
    let answers = |learning: &hindsight::Stream| {
        let mut learner = run::learner(&config, learning);
        let protocol = Protocol { batch: 5, evaluate: Evaluate::Final, every: 0, prequential: 0 };
        protocol::run(learning, &mut *learner, &protocol, &mut |_| {});
        learner.predict_proba(&stream.test_inputs(0), 0)
    };
    let (apart, together) = (answers(&stream), answers(&stream.clone().joined(0, 1)));
    assert!(apart.iter().zip(&together).all(|(a, b)| (a - b).abs() < 1e-3));
}

#[test]
fn what_runs_beside_a_run_does_not_change_it() {
    let runs: Vec<RunConfig> = METHODS.iter().map(|method| config(method.name, 0, &[])).collect();
    let records = |order: Vec<usize>, jobs: usize| {
        let mut records = vec![None; runs.len()];
        run::run_all(&runs, &order, source(), jobs, None, &mut |report| {
            if let run::RunEvent::Finished { index, record, .. } = report {
                records[index] = Some((*record)?.without_timings());
            }
            Ok::<(), run::RunError>(())
        })
        .unwrap();
        records
    };
    assert_eq!(records((0..runs.len()).collect(), 1), records((0..runs.len()).rev().collect(), 4));
}
