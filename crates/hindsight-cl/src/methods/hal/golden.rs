//! HAL against numbers that a short PyTorch program computed: `tests/reference/hal.py`, above `hal.json`.
//! There, the exact gradient comes from differentiating through theta~, not from our formula.

use serde_json::Value as Json;

use super::{anchors::follow_class_means, *};
use crate::methods::golden::{Golden, labels, numbers, setup, setup_with_heads};

fn golden() -> Golden {
    Golden::read(include_str!("../../../tests/reference/hal.json"))
}

/// The strengths of the golden run, and `set`.
fn settings(golden: &Golden, set: &[(&'static str, Value)]) -> Vec<(&'static str, Value)> {
    let mut all = vec![
        ("rate", golden.float("alpha")),
        ("lambda", golden.float("lambda")),
        ("gamma", golden.float("gamma")),
    ];
    all.extend_from_slice(set);
    all
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
        let masks: Vec<&Json> =
            batches.iter().map(|batch| &batch["mask"]).chain([&golden["anchor_mask"]]).collect();
        let set = [("gradient", Value::text(gradient)), ("penalty", Value::text(penalty))];
        let masks = if masked { &masks[..] } else { &[] };
        let run = |setup: &Setup<'_>| {
            let (mut model, mut step) =
                (Model::new(setup), AnchoredStep::new(&HalSettings::new(setup.method_settings)));
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
                golden.assert_close(&[loss], &expected["loss"]);
                golden.assert_close(&theta, &expected["theta"]);
            }
        };
        match masks {
            [] => setup(&METHOD, &settings(&golden, &set), run),
            masks => setup_with_heads(&METHOD, &settings(&golden, &set), masks, run),
        }
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
            golden.assert_close(&found(&golden, &set), &search[case]["steps"][steps]);
        }
    }
    let scaled = found(&golden, &[("anchor_steps", Value::Int(20))]);
    golden.assert_close(&scaled, &search["authors"]["scaled"]);
}

fn found(golden: &Golden, set: &[(&'static str, Value)]) -> Vec<f32> {
    let search = &golden["search"];
    setup(&METHOD, &settings(golden, set), |setup| {
        let mut anchors =
            Batch { x: numbers(&search["start"]), labels: labels(&search["labels"]), tasks: vec![0; 3] };
        AnchorSearch::new(setup, HalSettings::new(setup.method_settings)).ascend(
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
    let golden = golden();
    let running = &golden["running"];
    for (of, width) in [("features", 4), ("images", 6)] {
        let decay = running[of]["beta"].as_f64().unwrap() as f32;
        let mut means = vec![0.0; 3 * width];
        let batches = running[of]["batches"].as_array().unwrap();
        for (batch, expected) in batches.iter().zip(running[of]["mean"].as_array().unwrap()) {
            let (rows, labels) = (numbers(&batch["rows"]), labels(&batch["y"]));
            follow_class_means(&mut means, &rows, &labels, decay, &mut Vec::new());
            golden.assert_close(&means, expected);
        }
    }
}
