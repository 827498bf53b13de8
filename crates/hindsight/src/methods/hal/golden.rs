//! HAL against numbers that a short PyTorch program computed: `tests/reference/hal.py`, above `hal.json`.
//! There, the exact gradient comes from differentiating through theta~, not from our formula.

use std::sync::Arc;

use hindsight_engine::Mlp;
use serde_json::Value as Json;

use super::{anchors::follow_class_means, *};
use crate::{
    methods::Heads,
    settings::{Family, Settings},
};

const TOLERANCE: f32 = 1e-5;

fn golden() -> Json {
    serde_json::from_str(include_str!("../../../tests/reference/hal.json")).unwrap()
}

/// All numbers under `value`, in order.
fn numbers(value: &Json) -> Vec<f32> {
    match value {
        Json::Array(entries) => entries.iter().flat_map(numbers).collect(),
        Json::Bool(b) => vec![f32::from(u8::from(*b))],
        number => vec![number.as_f64().unwrap() as f32],
    }
}

fn labels(value: &Json) -> Vec<u32> {
    numbers(value).into_iter().map(|y| y as u32).collect()
}

#[track_caller]
fn assert_close(found: &[f32], expected: &Json) {
    let expected = numbers(expected);
    assert_eq!(found.len(), expected.len());
    for (i, (a, b)) in found.iter().zip(&expected).enumerate() {
        assert!((a - b).abs() <= TOLERANCE, "entry {i}: found {a}, PyTorch has {b}");
    }
}

/// A model of the golden network. With masks, every sample gets a task of its own, and the task its mask.
fn with_setup<R>(heads: Heads, set: &[(&'static str, Value)], run: impl FnOnce(&Setup<'_>) -> R) -> R {
    let shared = Settings::defaults(crate::config::SHARED, Family::Mnist);
    let mut own = Settings::defaults(KEYS, Family::Mnist);
    let golden = golden();
    own.set("rate", Value::Float(golden["alpha"].as_f64().unwrap()));
    own.set("lambda", Value::Float(golden["lambda"].as_f64().unwrap()));
    own.set("gamma", Value::Float(golden["gamma"].as_f64().unwrap()));
    set.iter().for_each(|(key, value)| own.set(key, value.clone()));
    let net = Arc::new(Mlp::new(&[6, 5, 4, 3]).unwrap());
    run(&Setup { net, heads, seed: 0, shared: &shared, own: &own })
}

#[test]
fn three_updates_agree_with_pytorch_for_every_form_of_the_gradient() {
    let golden = golden();
    let batches = golden["batches"].as_array().unwrap();
    for (case, gradient, penalty, masked) in [
        ("exact", "exact", "mean", false),
        ("first", "first", "mean", false),
        ("frozen", "frozen", "mean", false),
        ("exact_sum", "exact", "sum", false),
        ("exact_masked", "exact", "mean", true),
    ] {
        let masks: Vec<Vec<bool>> = batches
            .iter()
            .map(|batch| &batch["mask"])
            .chain([&golden["anchor_mask"]])
            .flat_map(|mask| {
                mask.as_array().unwrap().iter().map(|row| numbers(row).iter().map(|&b| b > 0.0).collect())
            })
            .collect();
        let heads = if masked { Heads::PerTask(masks.into()) } else { Heads::Single };
        let set = [("gradient", Value::text(gradient)), ("penalty", Value::text(penalty))];
        with_setup(heads, &set, |setup| {
            let (mut model, mut step) = (Model::new(setup), AnchoredStep::new(setup));
            let mut theta = numbers(&golden["theta"]);
            let mut task = 0..;
            let anchors = {
                let x = numbers(&golden["anchors"]);
                Batch { labels: vec![0; 4], tasks: (18..22).collect(), x }
            };
            for (batch, expected) in batches.iter().zip(golden["step"][case].as_array().unwrap()) {
                let labels = labels(&batch["y"]);
                let tasks = task.by_ref().take(labels.len()).collect();
                let batch = Batch { x: numbers(&batch["x"]), labels, tasks };
                let loss = model.gradient(&theta, &batch);
                step.update(&mut model, &mut theta, &anchors);
                assert_close(&[loss], &expected["loss"]);
                assert_close(&theta, &expected["theta"]);
            }
        });
    }
}

#[test]
fn the_anchor_search_agrees_with_pytorch() {
    let golden = golden();
    let search = &golden["search"];
    let cases = [("authors", "adam", "cosine", "none"), ("paper", "ascent", "squared", "none")];
    for (case, optimiser, distance, scale) in cases {
        for steps in ["1", "2", "5", "20"] {
            let set = [
                ("anchor_optimiser", Value::text(optimiser)),
                ("distance", Value::text(distance)),
                ("anchor_scale", Value::text(scale)),
                ("anchor_steps", Value::Int(steps.parse().unwrap())),
            ];
            assert_close(&found(search, &set), &search[case]["steps"][steps]);
        }
    }
    let scaled = found(search, &[("anchor_steps", Value::Int(20))]);
    assert_close(&scaled, &search["authors"]["scaled"]);
}

fn found(search: &Json, set: &[(&'static str, Value)]) -> Vec<f32> {
    with_setup(Heads::Single, set, |setup| {
        let mut anchors =
            Batch { x: numbers(&search["start"]), labels: labels(&search["labels"]), tasks: vec![0; 3] };
        Search::new(setup).ascend(
            &mut Model::new(setup),
            &numbers(&search["theta_t"]),
            &numbers(&search["theta_m"]),
            &numbers(&search["phi"]),
            &mut anchors,
        );
        anchors.x
    })
}

#[test]
fn running_means_agree_with_pytorch() {
    let running = &golden()["running"];
    for (of, width) in [("features", 4), ("images", 6)] {
        let decay = running[of]["beta"].as_f64().unwrap() as f32;
        let mut means = vec![0.0; 3 * width];
        let batches = running[of]["batches"].as_array().unwrap();
        for (batch, expected) in batches.iter().zip(running[of]["mean"].as_array().unwrap()) {
            let (rows, labels) = (numbers(&batch["rows"]), labels(&batch["y"]));
            follow_class_means(&mut means, &rows, &labels, decay, &mut Vec::new());
            assert_close(&means, expected);
        }
    }
}
