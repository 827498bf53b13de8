//! Numbers published elsewhere, to stand beside ours.

use std::collections::BTreeMap;

use super::{Group, Spread};
use crate::settings::Value;

/// The numbers of a paper.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Paper {
    /// What the column is called: `paper`.
    pub name: String,
    /// Its results.
    pub rows: Vec<PaperRow>,
}

/// One result of a paper.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PaperRow {
    /// The benchmark.
    pub benchmark: String,
    /// The method.
    pub method: String,
    /// The settings that it holds for; others do not matter.
    pub settings: BTreeMap<String, Value>,
    /// Accuracy in percent.
    pub accuracy: Option<Spread>,
    /// Forgetting, as a fraction.
    pub forgetting: Option<Spread>,
}

impl Paper {
    /// The result that a group can be compared with.
    pub fn row(&self, group: &Group<'_>) -> Option<&PaperRow> {
        self.rows.iter().find(|row| {
            let same = |(key, value): (&String, &Value)| group.setting(key).as_ref() == Some(value);
            (row.benchmark.as_str(), row.method.as_str()) == (group.benchmark, group.method)
                && row.settings.iter().all(same)
        })
    }
}
