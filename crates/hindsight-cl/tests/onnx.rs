//! Exported models: their structure, read by a few lines of Protocol Buffers, and their answers, by ONNX
//! Runtime where there is one (`HINDSIGHT_ONNX_PYTHON`, see `reference/onnx_check.py`).

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use hindsight::{Agent, AgentError, Rng};

/// A field of a message: its number and its bytes or number.
enum Field {
    Number(u64),
    Bytes(Vec<u8>),
}

fn fields(mut bytes: &[u8]) -> Vec<(u64, Field)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = bytes[0];
            *bytes = &bytes[1..];
            number |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return number;
            }
        }
    }
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let field = match key & 7 {
            0 => Field::Number(varint(&mut bytes)),
            2 => {
                let length = varint(&mut bytes) as usize;
                let (content, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(content.to_vec())
            }
            5 => {
                bytes = &bytes[4..];
                Field::Number(0)
            }
            kind => panic!("field of kind {kind}"),
        };
        found.push((key >> 3, field));
    }
    found
}

fn all(bytes: &[u8], number: u64) -> Vec<Vec<u8>> {
    let of = |(found, field)| match field {
        Field::Bytes(bytes) if found == number => Some(bytes),
        _ => None,
    };
    fields(bytes).into_iter().filter_map(of).collect()
}

fn texts(bytes: &[u8], number: u64) -> Vec<String> {
    all(bytes, number).into_iter().map(|text| String::from_utf8(text).unwrap()).collect()
}

fn numbers(bytes: &[u8], number: u64) -> Vec<u64> {
    let of = |(found, field): (u64, Field)| match field {
        Field::Number(value) if found == number => Some(value),
        _ => None,
    };
    fields(bytes).into_iter().filter_map(of).collect()
}

/// Checks that every node's inputs are there before it and every tensor has as many values as its dimensions
/// say; returns the operators in order.
fn operators(model: &[u8]) -> Vec<String> {
    let [graph] = &all(model, 7)[..] else { panic!("one graph") };
    let mut known: BTreeSet<String> = ["x".to_owned()].into();
    for tensor in all(graph, 5) {
        let values: u64 = numbers(&tensor, 1).iter().product();
        let size = if numbers(&tensor, 2) == [11] { 8 } else { 4 };
        assert_eq!(all(&tensor, 9)[0].len() as u64, size * values);
        assert!(known.insert(texts(&tensor, 8).remove(0)));
    }
    let mut operators = Vec::new();
    for node in all(graph, 1) {
        assert!(texts(&node, 1).iter().all(|input| known.contains(input)), "{:?}", texts(&node, 1));
        assert!(known.insert(texts(&node, 2).remove(0)));
        operators.extend(texts(&node, 4));
    }
    assert!(known.contains("logits") && known.contains("probabilities"));
    operators
}

fn property(model: &[u8], key: &str) -> Option<String> {
    let pairs = all(model, 14).into_iter().map(|pair| (texts(&pair, 1).remove(0), texts(&pair, 2).remove(0)));
    pairs.into_iter().find(|(found, _)| found == key).map(|(_, value)| value)
}

/// Compares with ONNX Runtime, if there is one.
fn compare(agent: &Agent, task: u32, classes: &[usize], name: &str) {
    let model = agent.to_onnx(task).unwrap();
    let Some(python) = std::env::var_os("HINDSIGHT_ONNX_PYTHON") else {
        return eprintln!("skipped the comparison of {name}: `HINDSIGHT_ONNX_PYTHON` is not set");
    };
    let mut rng = Rng::named(3, "inputs");
    let x: Vec<f32> = (0..20 * agent.width()).map(|i| (rng.normal() * [1.0, 1e5][i % 2]) as f32).collect();
    let all = agent.predict_proba(&x, task).unwrap();
    let chosen = all.chunks_exact(agent.classes()).flat_map(|row| classes.iter().map(|&class| row[class]));
    let names =
        agent.shape().names.clone().unwrap_or_else(|| (0..agent.classes()).map(|c| c.to_string()).collect());
    let input = agent.shape().input;
    let case = serde_json::json!({
        "x": x,
        "shape": if input[1] == 1 { vec![input[2]] } else { input.to_vec() },
        "probabilities": chosen.collect::<Vec<f32>>(),
        "classes": classes.iter().map(|&class| names[class].clone()).collect::<Vec<_>>(),
    });
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("model.onnx"), model).unwrap();
    fs::write(folder.path().join("case.json"), case.to_string()).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference/onnx_check.py");
    let output = Command::new(python).arg(script).arg(folder.path()).output().unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    eprintln!("{name}: {}", String::from_utf8_lossy(&output.stdout).trim());
}

fn teach(agent: &mut Agent, classes: &[&str]) {
    let (mut rng, width) = (Rng::named(1, "samples"), agent.width());
    let task = agent.begin_task(classes[0]).unwrap();
    for step in 0..40 {
        let name = classes[step % classes.len()];
        let class = agent.class_id(name).unwrap();
        let x: Vec<f32> =
            (0..width).map(|i| ((rng.normal() + class as f64) * [1.0, 1e5][i % 2]) as f32).collect();
        agent.observe(&x, &[class], task).unwrap();
    }
}

#[test]
fn a_perceptron_is_exported_with_its_scaling_and_the_names_of_its_classes() {
    let builder = Agent::builder(4, 0).set("hidden", vec![8, 6]).features(["a", "b", "c", "d"]);
    let mut agent = builder.open().standardise().build().unwrap();
    assert_eq!(agent.to_onnx(0), Err(AgentError::NoClasses));
    teach(&mut agent, &["cold", "warm", "hot"]);
    let model = agent.to_onnx(0).unwrap();
    let scaling = ["Cast", "Sub", "Mul", "Clip", "Cast"];
    let layers = ["Gemm", "Relu", "Gemm", "Relu", "Gemm", "Softmax"];
    assert_eq!(operators(&model), [&scaling[..], &layers].concat());
    assert_eq!(property(&model, "classes").as_deref(), Some(r#"["cold","warm","hot"]"#));
    assert_eq!(property(&model, "features").as_deref(), Some(r#"["a","b","c","d"]"#));
    assert_eq!(property(&model, "method").as_deref(), Some("hal"));
    compare(&agent, 0, &[0, 1, 2], "perceptron");
    // Without scaling the network takes the inputs themselves.
    let plain = Agent::builder(4, 2).method("ewc").set("hidden", vec![3]).build().unwrap();
    assert_eq!(operators(&plain.to_onnx(0).unwrap()), ["Gemm", "Relu", "Gemm", "Softmax"]);
}

#[test]
fn a_task_with_a_head_of_its_own_is_exported_with_its_classes_alone() {
    let builder = Agent::builder(4, 0).method("er-ring").set("hidden", vec![8]).task_heads(vec![]).open();
    let mut agent = builder.standardise().build().unwrap();
    teach(&mut agent, &["cold", "warm"]);
    teach(&mut agent, &["hot", "warm"]);
    let model = agent.to_onnx(1).unwrap();
    assert_eq!(property(&model, "classes").as_deref(), Some(r#"["warm","hot"]"#));
    assert_eq!(property(&model, "task").as_deref(), Some("hot"));
    compare(&agent, 1, &[1, 2], "a head per task");
    assert!(matches!(agent.to_onnx(2), Err(AgentError::Unknown { what: "task", .. })));
}

#[test]
fn a_residual_network_is_exported_under_its_running_statistics() {
    let builder = Agent::builder(0, 0).image([3, 9, 9]).method("er-ring").set("network", "resnet");
    let mut agent =
        builder.set("maps", vec![4, 6]).set("stem_stride", 2).open().standardise().build().unwrap();
    teach(&mut agent, &["cat", "dog"]);
    let operators = operators(&agent.to_onnx(0).unwrap());
    let count = |operator: &str| operators.iter().filter(|found| *found == operator).count();
    // A stem, four blocks of two, and one shortcut between the stages.
    assert_eq!((count("Conv"), count("BatchNormalization"), count("Add")), (10, 10, 4));
    assert_eq!(count("Relu"), 9);
    assert!(operators.ends_with(&["GlobalAveragePool", "Flatten", "Gemm", "Softmax"].map(String::from)));
    compare(&agent, 0, &[0, 1], "residual network");
    // A perceptron on images takes their pixels in a row.
    let flat = Agent::builder(0, 0).image([3, 4, 4]).method("finetune");
    let mut flat = flat.open().standardise().build().unwrap();
    teach(&mut flat, &["cat", "dog"]);
    compare(&flat, 0, &[0, 1], "perceptron on images");
}

#[test]
fn methods_that_do_not_answer_by_their_network_are_refused() {
    for method in ["icarl", "vcl"] {
        let mut agent = Agent::builder(2, 2).method(method).set("hidden", vec![4]).build().unwrap();
        agent.observe(&[0.0, 1.0, 1.0, 0.0], &[0, 1], 0).unwrap();
        agent.end_task();
        assert_eq!(agent.to_onnx(0), Err(AgentError::NotANetwork { method: method.to_owned() }));
    }
}
