//! Groups of runs that differ only in the seed, and their labels.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
};

use hindsight::{
    Record,
    benchmarks::BENCHMARKS,
    config::SHARED,
    methods::METHODS,
    metrics::{deviation, mean},
    protocol::Status,
    settings::{Family, Value},
};

/// The runs of one method on one benchmark with one configuration.
#[derive(Debug, Clone)]
pub struct Group<'r> {
    /// The method.
    pub method: &'r str,
    /// The benchmark.
    pub benchmark: &'r str,
    /// The settings in which it differs from other groups of the method on the benchmark.
    pub settings: Vec<(&'r str, Value)>,
    /// Its records, by seed.
    pub records: Vec<&'r Record>,
}

/// Mean and population standard deviation over seeds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The standard deviation.
    pub deviation: f64,
    /// Number of values; a single one has no deviation.
    pub count: usize,
}

impl Spread {
    /// The spread of some values; none of none.
    pub fn of(values: &[f64]) -> Option<Spread> {
        let count = values.len();
        (count > 0).then(|| Spread {
            mean: mean(values.iter().copied()),
            deviation: deviation(values),
            count,
        })
    }
}

impl<'r> Group<'r> {
    /// Records by benchmark and method, in the order in which these first appear, and by the settings that
    /// differ between records of the same two, in their own order.
    pub fn all(records: &'r [Record]) -> Vec<Group<'r>> {
        let mut methods: Vec<Vec<&Record>> = Vec::new();
        for record in records {
            let same = |others: &&mut Vec<&Record>| {
                (&others[0].benchmark, &others[0].method) == (&record.benchmark, &record.method)
            };
            match methods.iter_mut().find(same) {
                Some(others) => others.push(record),
                None => methods.push(vec![record]),
            }
        }
        methods.into_iter().flat_map(split).collect()
    }

    /// The method, with the settings that distinguish it from its other groups.
    pub fn label(&self) -> String {
        let shown: Vec<String> =
            self.distinguishing().map(|(key, value)| format!("{}={value}", self.short(key))).collect();
        if shown.is_empty() {
            return self.method.to_owned();
        }
        format!("{} ({})", self.method, shown.join(", "))
    }

    /// `settings` without those that a preset among them implies.
    fn distinguishing(&self) -> impl Iterator<Item = &(&'r str, Value)> {
        let method = METHODS.iter().find(|method| method.name == self.method);
        let preset = self.settings.iter().find(|(key, _)| self.short(key) == "preset");
        let presets = method.map_or(&[][..], |method| method.presets);
        let named = presets.iter().find(|(name, _)| preset.is_some_and(|(_, p)| p.to_string() == *name));
        self.settings.iter().filter(move |(key, value)| {
            let implied = match named.and_then(|(_, all)| all.iter().find(|(k, _)| *k == self.short(key))) {
                Some((_, implied)) => Some(implied.clone()),
                // A key that other presets set has its default in this one.
                None if presets.iter().any(|(_, all)| all.iter().any(|(k, _)| *k == self.short(key))) => {
                    default(self.benchmark, self.method, key).filter(|_| preset.is_some())
                }
                None => None,
            };
            implied.as_ref() != Some(value)
        })
    }

    /// A key without the name of the method that it belongs to.
    pub fn short<'k>(&self, key: &'k str) -> &'k str {
        key.strip_prefix(self.method).and_then(|rest| rest.strip_prefix('.')).unwrap_or(key)
    }

    /// The value of a setting, or its default.
    pub fn setting(&self, key: &str) -> Option<Value> {
        value(self.records[0], key)
    }

    /// The settings that differ from the defaults of this benchmark, and unknown ones.
    pub fn changed(&self) -> Vec<(&'r str, Value)> {
        let config = &self.records[0].config;
        let differs = |(key, value): &(&String, &Value)| {
            default(self.benchmark, self.method, key).as_ref() != Some(*value)
        };
        config.iter().filter(differs).map(|(key, value)| (key.as_str(), value.clone())).collect()
    }

    /// The spread of a measure over the seeds that have it.
    pub fn spread(&self, of: impl Fn(&Record) -> Option<f64>) -> Option<Spread> {
        Spread::of(&self.records.iter().filter_map(|record| of(record)).collect::<Vec<_>>())
    }

    /// Number of runs that diverged.
    pub fn diverged(&self) -> usize {
        self.records.iter().filter(|record| record.status == Status::Diverged).count()
    }

    /// How many runs diverged, in words; none if none did.
    pub fn divergence(&self) -> Option<String> {
        match (self.diverged(), self.records.len()) {
            (0, _) => None,
            (1, 1) => Some("diverged".to_owned()),
            (n, all) if n == all => Some(format!("all {all} diverged")),
            (n, all) => Some(format!("{n} of {all} diverged")),
        }
    }

    /// What helps where runs diverged.
    pub(crate) fn remedy(&self) -> String {
        let method = METHODS.iter().find(|method| method.name == self.method);
        let robust = |(name, _): &&(&str, _)| *name == "robust";
        let preset = self.setting(&format!("{}.preset", self.method)).map(|value| value.to_string());
        if method.is_some_and(|m| m.presets.iter().any(|p| robust(&p))) && preset.as_deref() != Some("robust")
        {
            return format!("`--set {}.preset=robust` bounds its steps", self.method);
        }
        let key = format!("{}.rate", self.method);
        match self.setting(&key) {
            Some(rate) => format!("a smaller `{key}` helps (it is {rate})"),
            None => "a smaller learning rate helps".to_owned(),
        }
    }

    /// The scenario, in words; none of records from before there were any.
    pub fn scenario(&self) -> Option<String> {
        self.records[0].config.get("scenario").map(|scenario| format!("{scenario}-incremental"))
    }

    /// Whether it is an oracle: it uses more than a continual learner may, by its method or by a setting.
    pub fn oracle(&self) -> bool {
        let setting = |(key, value): (&String, &Value)| key.contains('.') && *value == Value::text("oracle");
        METHODS.iter().any(|method| method.name == self.method && method.oracle)
            || self.records[0].config.iter().any(setting)
    }
}

/// Groups in the order of the table of methods; unknown methods last.
pub(crate) fn in_method_order(mut groups: Vec<Group<'_>>) -> Vec<Group<'_>> {
    let place = |group: &Group<'_>| METHODS.iter().position(|method| method.name == group.method);
    groups.sort_by_key(|group| place(group).unwrap_or(METHODS.len()));
    groups
}

/// The group with the highest mean accuracy.
pub(crate) fn best<'g, 'r>(groups: &'g [Group<'r>]) -> Option<&'g Group<'r>> {
    ranked(groups).first().map(|(group, _)| *group)
}

/// Groups by falling mean accuracy, without oracles, which are upper bounds.
pub(crate) fn ranked<'g, 'r>(groups: &'g [Group<'r>]) -> Vec<(&'g Group<'r>, f64)> {
    let competing = groups.iter().filter(|group| !group.oracle());
    let mut ranked: Vec<_> =
        competing.filter_map(|group| Some((group, group.spread(|r| r.accuracy)?.mean))).collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
    ranked
}

/// Groups that can be compared: all settings but those of the methods are equal.
#[derive(Debug, Clone)]
pub(crate) struct ComparableGroups<'r> {
    /// The settings that distinguish it from other sets; empty if there is only one.
    pub(crate) label: String,
    /// Its groups, labelled without those settings.
    pub(crate) groups: Vec<Group<'r>>,
}

/// `groups` in sets that can be compared, each reduced by [`principal`].
pub(crate) fn comparable<'r>(groups: &[Group<'r>]) -> Vec<ComparableGroups<'r>> {
    let mut keys: Vec<&str> =
        groups.iter().flat_map(|group| group.records[0].config.keys().map(String::as_str)).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.retain(|key| !key.contains('.') && groups.iter().any(|g| g.setting(key) != groups[0].setting(key)));
    let mut parts: Vec<ComparableGroups<'r>> = Vec::new();
    for group in groups {
        let value = |key: &&str| group.setting(key).map(|value| format!("{key}={value}"));
        let label = keys.iter().filter_map(value).collect::<Vec<_>>().join(", ");
        let mut group = group.clone();
        group.settings.retain(|(key, _)| !keys.contains(key));
        match parts.iter_mut().find(|part| part.label == label) {
            Some(part) => part.groups.push(group),
            None => parts.push(ComparableGroups { label, groups: vec![group] }),
        }
    }
    parts.iter_mut().for_each(|part| part.groups = without_shared_defaults(principal(&part.groups)));
    parts
}

/// All groups, or, where methods have many variants, of each method the one nearest to its defaults: the best
/// one would be chosen by its result.
pub(crate) fn principal<'r>(groups: &[Group<'r>]) -> Vec<Group<'r>> {
    const VARIANTS: usize = 4;
    // Of each method its place, the group nearest to its defaults, and in how many settings that differs.
    let mut nearest: BTreeMap<&str, (usize, &Group<'r>, usize)> = BTreeMap::new();
    for group in groups {
        let (place, changed) = (nearest.len(), group.changed().len());
        let known = nearest.entry(group.method).or_insert((place, group, changed));
        if changed < known.2 {
            (known.1, known.2) = (group, changed);
        }
    }
    if nearest.len() == 1 || groups.len() <= nearest.len() + VARIANTS {
        return groups.to_vec();
    }
    let mut nearest: Vec<_> = nearest.into_values().collect();
    nearest.sort_by_key(|(place, ..)| *place);
    without_shared_defaults(nearest.into_iter().map(|(_, group, _)| group.clone()).collect())
}

/// The same groups without labels of defaults that all groups of a method share.
pub(crate) fn without_shared_defaults(mut groups: Vec<Group<'_>>) -> Vec<Group<'_>> {
    // Labels of a method that are not its default in all of its groups.
    let mut told: BTreeSet<(&str, &str)> = BTreeSet::new();
    let mut of_method: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for group in &groups {
        of_method.entry(group.method).or_default().extend(group.settings.iter().map(|(key, _)| *key));
    }
    for group in &groups {
        for key in &of_method[group.method] {
            if group.setting(key) != default(group.benchmark, group.method, key) {
                told.insert((group.method, key));
            }
        }
    }
    for group in &mut groups {
        let method = group.method;
        group.settings.retain(|(key, _)| told.contains(&(method, key)));
    }
    groups
}

/// The groups of records that are all of one method and benchmark.
fn split(records: Vec<&Record>) -> Vec<Group<'_>> {
    let keys = records.iter().flat_map(|record| record.config.keys());
    let mut values: BTreeMap<&str, Vec<Value>> = keys.map(|key| (key.as_str(), Vec::new())).collect();
    for (key, values) in &mut values {
        for record in &records {
            // A record from before a key existed has its default.
            values.extend(value(record, key).filter(|value| !values.contains(value)));
        }
    }
    let varied: Vec<&str> =
        values.iter().filter(|(_, values)| values.len() > 1).map(|(key, _)| *key).collect();
    let mut groups: Vec<Group<'_>> = Vec::new();
    for record in records {
        let settings: Vec<(&str, Value)> =
            varied.iter().filter_map(|key| Some((*key, value(record, key)?))).collect();
        match groups.iter_mut().find(|group| group.settings == settings) {
            Some(group) => group.records.push(record),
            None => groups.push(Group {
                method: &record.method,
                benchmark: &record.benchmark,
                settings,
                records: vec![record],
            }),
        }
    }
    groups.iter_mut().for_each(|group| group.records.sort_by_key(|record| record.seed));
    groups.sort_by(|a, b| {
        let pairs = a.settings.iter().zip(&b.settings);
        pairs.map(|(a, b)| order(&a.1, &b.1)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    });
    groups
}

/// Numbers by value, all else by text.
fn order(a: &Value, b: &Value) -> Ordering {
    match (number(a), number(b)) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        _ => a.to_string().cmp(&b.to_string()),
    }
}

pub(crate) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Int(i) => Some(*i as f64),
        Value::Float(x) => Some(*x),
        _ => None,
    }
}

/// The value of a key, or its default where the record has none.
fn value(record: &Record, key: &str) -> Option<Value> {
    record.config.get(key).cloned().or_else(|| default(&record.benchmark, &record.method, key))
}

/// The default of a key, if it exists.
fn default(benchmark: &str, method: &str, key: &str) -> Option<Value> {
    let benchmark = BENCHMARKS.iter().find(|b| b.name == benchmark);
    let family = benchmark.map_or(Family::Mnist, |b| b.family);
    if let Some(name) = key.strip_prefix(method).and_then(|rest| rest.strip_prefix('.')) {
        let method = METHODS.iter().find(|m| m.name == method)?;
        return Some(method.keys.iter().find(|key| key.name == name)?.default_for(family).clone());
    }
    let own = benchmark.and_then(|b| b.defaults.iter().find(|(name, _)| *name == key));
    let keys = SHARED.iter().chain(benchmark.map_or(&[][..], |b| b.keys));
    own.map(|(_, value)| value.clone())
        .or_else(|| Some(keys.into_iter().find(|k| k.name == key)?.default_for(family).clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(seed: u64, settings: &[(&str, Value)]) -> Record {
        let mut record: Record = serde_json::from_str(include_str!("../tests/record_v1.json")).unwrap();
        record.method = "hal".to_owned();
        record.seed = seed;
        record.config = settings.iter().map(|(key, value)| (key.to_string(), value.clone())).collect();
        record
    }

    fn labels(records: &[Record]) -> Vec<String> {
        Group::all(records).iter().map(Group::label).collect()
    }

    #[test]
    fn groups_are_labelled_and_ordered_by_the_settings_that_differ() {
        let with = |seed, lambda: f64| {
            record(seed, &[("tasks", Value::Int(5)), ("hal.lambda", Value::Float(lambda))])
        };
        assert_eq!(labels(&[with(1, 1.0), with(0, 1.0)]), ["hal"]);
        let records = [with(0, 1.0), with(0, 0.03), with(1, 1.0), with(0, 10.0)];
        assert_eq!(labels(&records), ["hal (lambda=0.03)", "hal (lambda=1.0)", "hal (lambda=10.0)"]);
        assert_eq!(Group::all(&records)[1].records.len(), 2);
    }

    #[test]
    fn a_key_that_a_record_lacks_has_its_default() {
        let old = record(0, &[("tasks", Value::Int(5))]);
        let new = record(1, &[("tasks", Value::Int(5)), ("slots", Value::Int(1))]);
        let other = record(1, &[("tasks", Value::Int(5)), ("slots", Value::Int(3))]);
        assert_eq!(labels(&[old.clone(), new.clone()]), ["hal"]);
        assert_eq!(labels(&[old, new, other]), ["hal (slots=1)", "hal (slots=3)"]);
    }

    #[test]
    fn a_preset_stands_for_what_it_sets() {
        let preset = |name: &'static str, lambda: f64, gradient: &'static str| {
            record(
                0,
                &[
                    ("hal.preset", Value::text(name)),
                    ("hal.lambda", Value::Float(lambda)),
                    ("hal.gradient", Value::text(gradient)),
                ],
            )
        };
        let records = [preset("authors", 0.1, "exact"), preset("stable", 0.3, "first")];
        assert_eq!(labels(&records), ["hal (preset=authors)", "hal (preset=stable)"]);
        let records = [preset("authors", 0.1, "exact"), preset("authors", 0.3, "first")];
        assert_eq!(
            labels(&records),
            ["hal (gradient=exact, lambda=0.1)", "hal (gradient=first, lambda=0.3)"]
        );
    }

    #[test]
    fn changed_settings_are_those_that_are_not_defaults() {
        let record = record(0, &[("tasks", Value::Int(5)), ("slots", Value::Int(1)), ("new", Value::Int(1))]);
        let groups = Group::all(std::slice::from_ref(&record));
        assert_eq!(groups[0].changed(), [("new", Value::Int(1)), ("tasks", Value::Int(5))]);
    }
}
