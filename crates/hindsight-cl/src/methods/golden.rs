//! Reads the golden numbers of `tests/reference`, which short PyTorch programs beside them computed.

use std::ops::Index;

use hindsight_nn::Mlp;
use serde_json::Value as Json;

use super::{Heads, Method, Setup};
use crate::{
    Batch,
    settings::{Family, SHARED, Scenario, Settings, SharedSettings, Value},
};

/// f32 against f64, over a few updates of a small network.
const TOLERANCE: f32 = 1e-5;

pub(super) struct Golden(Json);

impl Golden {
    pub(super) fn read(text: &str) -> Golden {
        Golden(serde_json::from_str(text).unwrap())
    }

    pub(super) fn float(&self, key: &str) -> Value {
        Value::Float(self.0[key].as_f64().unwrap())
    }

    /// Entries of two lists, side by side.
    pub(super) fn pairs(&self, a: &str, b: &str) -> impl Iterator<Item = (&Json, &Json)> {
        let list = |key: &str| self.0[key].as_array().unwrap().iter();
        assert_eq!(list(a).len(), list(b).len());
        list(a).zip(list(b))
    }

    #[track_caller]
    pub(super) fn assert_close(&self, found: &[f32], expected: &Json) {
        let expected = numbers(expected);
        assert_eq!(found.len(), expected.len());
        for (i, (a, b)) in found.iter().zip(&expected).enumerate() {
            assert!((a - b).abs() <= TOLERANCE, "entry {i}: found {a}, PyTorch has {b}");
        }
    }
}

impl Index<&str> for Golden {
    type Output = Json;

    fn index(&self, key: &str) -> &Json {
        &self.0[key]
    }
}

/// All numbers under `value`, in order.
pub(super) fn numbers(value: &Json) -> Vec<f32> {
    match value {
        Json::Array(entries) => entries.iter().flat_map(numbers).collect(),
        number => vec![number.as_f64().unwrap() as f32],
    }
}

pub(super) fn labels(value: &Json) -> Vec<u32> {
    numbers(value).into_iter().map(|y| y as u32).collect()
}

/// A batch of one task.
pub(super) fn batch(value: &Json) -> Batch {
    let labels = labels(&value["y"]);
    Batch { x: numbers(&value["x"]), tasks: vec![0; labels.len()], labels }
}

/// Runs `build` with the golden network and the method's defaults, changed by `set`.
pub(super) fn setup<R>(
    method: &Method,
    set: &[(&'static str, Value)],
    build: impl FnOnce(&Setup<'_>) -> R,
) -> R {
    build_with(method, set, Heads::Single, build)
}

/// The same with a head per row of `masks`: a sample whose task is the row's number sees that mask.
pub(super) fn setup_with_heads<R>(
    method: &Method,
    set: &[(&'static str, Value)],
    masks: &[&Json],
    build: impl FnOnce(&Setup<'_>) -> R,
) -> R {
    let rows = masks.iter().flat_map(|mask| mask.as_array().unwrap());
    let classes = |row: &Json| {
        let row = row.as_array().unwrap().iter().enumerate();
        row.filter(|(_, allowed)| allowed.as_bool().unwrap()).map(|(class, _)| class).collect()
    };
    build_with(method, set, Some(rows.map(classes).collect()).into(), build)
}

fn build_with<R>(
    method: &Method,
    set: &[(&'static str, Value)],
    heads: Heads,
    build: impl FnOnce(&Setup<'_>) -> R,
) -> R {
    let shared = SharedSettings::new(&Settings::defaults(SHARED, Family::Mnist));
    let mut settings = Settings::defaults(method.keys, Family::Mnist);
    set.iter().for_each(|(key, value)| settings.set(key, value.clone()));
    let net = Mlp::new(&[6, 5, 4, 3]).unwrap().into_net();
    let (seed, tasks, samples_per_task) = (0, 20, 1000);
    let method_settings = &settings;
    build(&Setup {
        net,
        heads,
        scenario: Scenario::Domain,
        seed,
        tasks,
        task_class_pairs: 3 * tasks,
        samples_per_task,
        future: None,
        initial: None,
        shared,
        method_settings,
    })
}
