//! Settings: typed keys with ranges, defaults and documentation, and values checked against them.
//!
//! A key is declared once, in the table of what it belongs to; parsing, range checks, help, documentation
//! and search grids all come from that declaration.

mod choice;
mod error;
mod shared;

pub use choice::Choice;
pub(crate) use choice::choices;
pub use error::ConfigError;
#[cfg(feature = "files")]
pub(crate) use shared::check_network;
pub(crate) use shared::check_size;
pub use shared::{Evaluate, NetworkKind, Optimiser, Precision, ReplayFrom, SHARED, Scenario, SharedSettings};

use std::{borrow::Cow, collections::BTreeMap, fmt, sync::Arc};

use serde::{Deserialize, Serialize};

/// A setting's value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A real number.
    Float(f64),
    /// A word.
    Text(Cow<'static, str>),
    /// Several whole numbers.
    Ints(Cow<'static, [i64]>),
}

impl Value {
    /// A word known at compile time.
    pub const fn text(word: &'static str) -> Value {
        Value::Text(Cow::Borrowed(word))
    }

    /// Numbers known at compile time.
    pub const fn ints(numbers: &'static [i64]) -> Value {
        Value::Ints(Cow::Borrowed(numbers))
    }

    /// Reads a value as on the command line: TOML where it is TOML, else a word.
    pub fn parse(text: &str) -> Option<Value> {
        // A line break could begin another entry.
        if text.contains(['\n', '\r']) {
            return None;
        }
        match toml::from_str::<toml::Table>(&format!("v = {text}")) {
            Ok(mut table) => Value::from_toml(&table.remove("v")?),
            Err(_) => Some(Value::Text(Cow::Owned(text.to_owned()))),
        }
    }

    /// The value of a TOML file's entry, if it is of a kind that settings have.
    pub fn from_toml(value: &toml::Value) -> Option<Value> {
        Some(match value {
            toml::Value::Boolean(b) => Value::Bool(*b),
            toml::Value::Integer(i) => Value::Int(*i),
            toml::Value::Float(f) => Value::Float(*f),
            toml::Value::String(s) => Value::Text(Cow::Owned(s.clone())),
            toml::Value::Array(a) => {
                Value::Ints(a.iter().map(toml::Value::as_integer).collect::<Option<Vec<_>>>()?.into())
            }
            _ => return None,
        })
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::Bool(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Value {
        Value::Int(value)
    }
}

impl From<i32> for Value {
    fn from(value: i32) -> Value {
        Value::Int(value.into())
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Value {
        Value::Float(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Value {
        Value::Text(Cow::Owned(value.to_owned()))
    }
}

impl From<Vec<i64>> for Value {
    fn from(value: Vec<i64>) -> Value {
        Value::Ints(value.into())
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Bool(b) => b.fmt(f),
            Value::Int(i) => i.fmt(f),
            // It is read back as what it is.
            Value::Float(x) if x.fract() == 0.0 && x.abs() < 1e15 => write!(f, "{x:.1}"),
            Value::Float(x) => x.fmt(f),
            Value::Text(s) => s.fmt(f),
            Value::Ints(v) => write!(f, "{v:?}"),
        }
    }
}

/// What a key's values are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// True or false.
    Bool,
    /// A whole number in the range, ends included.
    Int(i64, i64),
    /// A finite real number in the range, ends included.
    Float(f64, f64),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A list of positive whole numbers, at least one.
    Widths,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Bool => write!(f, "`true` or `false`"),
            Kind::Int(low, i64::MAX) => write!(f, "a whole number of at least {low}"),
            Kind::Int(low, high) => write!(f, "a whole number from {low} to {high}"),
            Kind::Float(low, f64::INFINITY) => write!(f, "a number of at least {low}"),
            Kind::Float(low, high) => write!(f, "a number from {low} to {high}"),
            Kind::Choice(words) => {
                let words: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
                write!(f, "{}", words.join(" or "))
            }
            Kind::Widths => write!(f, "a list of widths such as [256, 256]"),
        }
    }
}

/// The kinds of benchmark that the paper tuned its methods for, one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Permuted and rotated digits, a perceptron.
    Mnist,
    /// Split CIFAR-100, a residual network.
    Cifar,
    /// Split miniImageNet, the same network.
    MiniImageNet,
}

/// A setting that something has.
#[derive(Debug, Clone)]
pub struct Key {
    /// Name, in the paper's words where it has some.
    pub name: &'static str,
    /// Which values it takes.
    pub kind: Kind,
    /// The defaults for [`Family::Mnist`], [`Family::Cifar`] and [`Family::MiniImageNet`].
    pub default: [Value; 3],
    /// One line of documentation.
    pub doc: &'static str,
    /// The values that the paper searched, where it did.
    pub grid: &'static [f64],
}

impl Key {
    /// A key with one default everywhere and no grid.
    pub const fn new(name: &'static str, kind: Kind, default: Value, doc: &'static str) -> Key {
        // A `const fn` can neither clone nor drop; every default is a constant with nothing to drop.
        let all = match &default {
            Value::Bool(b) => [Value::Bool(*b), Value::Bool(*b), Value::Bool(*b)],
            Value::Int(i) => [Value::Int(*i), Value::Int(*i), Value::Int(*i)],
            Value::Float(x) => [Value::Float(*x), Value::Float(*x), Value::Float(*x)],
            Value::Text(Cow::Borrowed(s)) => [Value::text(s), Value::text(s), Value::text(s)],
            Value::Ints(Cow::Borrowed(v)) => [Value::ints(v), Value::ints(v), Value::ints(v)],
            _ => panic!("a default is a constant"),
        };
        std::mem::forget(default);
        Key { name, kind, default: all, doc, grid: &[] }
    }

    /// A key with a default per family and no grid.
    pub const fn per_family(name: &'static str, kind: Kind, default: [Value; 3], doc: &'static str) -> Key {
        Key { name, kind, default, doc, grid: &[] }
    }

    /// A real-valued key that the paper tuned: its best value per family, and its grid.
    pub const fn tuned(
        name: &'static str,
        kind: Kind,
        [mnist, cifar, mini]: [f64; 3],
        grid: &'static [f64],
        doc: &'static str,
    ) -> Key {
        let default = [Value::Float(mnist), Value::Float(cifar), Value::Float(mini)];
        Key { name, kind, default, doc, grid }
    }

    /// The default for benchmarks of `family`.
    pub fn default_for(&self, family: Family) -> &Value {
        &self.default[family as usize]
    }

    /// The value as this key stores it, if it is one that the key takes.
    pub fn check(&self, value: &Value) -> Option<Value> {
        let fits = match (self.kind, value) {
            (Kind::Bool, Value::Bool(_)) => true,
            (Kind::Int(low, high), Value::Int(i)) => (low..=high).contains(i),
            (Kind::Float(low, high), Value::Float(x)) => x.is_finite() && (low..=high).contains(x),
            (Kind::Float(..), Value::Int(i)) => return self.check(&Value::Float(*i as f64)),
            (Kind::Int(..), Value::Float(x)) if x.fract() == 0.0 && x.abs() < 1e15 => {
                return self.check(&Value::Int(*x as i64));
            }
            (Kind::Choice(words), Value::Text(s)) => words.contains(&s.as_ref()),
            (Kind::Widths, Value::Int(i)) => return self.check(&Value::Ints(vec![*i].into())),
            (Kind::Widths, Value::Ints(v)) => !v.is_empty() && v.iter().all(|w| (1..=65_536).contains(w)),
            _ => false,
        };
        fits.then(|| value.clone())
    }
}

/// Checked values, by key. Copies share them: there may be a hundred thousand runs of the same.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings(Arc<BTreeMap<&'static str, Value>>);

impl Settings {
    /// The defaults of `keys`.
    pub fn defaults<'k>(keys: impl IntoIterator<Item = &'k Key>, family: Family) -> Settings {
        let defaults = keys.into_iter().map(|key| (key.name, key.default_for(family).clone()));
        Settings(Arc::new(defaults.collect()))
    }

    /// Replaces the value of a key; the caller has checked it.
    pub(crate) fn set(&mut self, key: &'static str, value: Value) {
        Arc::make_mut(&mut self.0).insert(key, value);
    }

    /// All values in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.0.iter().map(|(&name, value)| (name, value))
    }

    /// The value of a key.
    ///
    /// # Panics
    /// If there is no such key: the caller's own table is wrong, not the user's input.
    pub fn get(&self, key: &str) -> &Value {
        self.0.get(key).unwrap_or_else(|| panic!("no key `{key}` in {:?}", self.0.keys()))
    }

    /// The value of a real-valued key.
    pub fn float(&self, key: &str) -> f32 {
        match self.get(key) {
            Value::Float(x) => *x as f32,
            other => panic!("`{key}` is not real-valued: {other}"),
        }
    }

    /// The value of a whole-number key.
    pub fn int(&self, key: &str) -> usize {
        match self.get(key) {
            Value::Int(i) => *i as usize,
            other => panic!("`{key}` is not a whole number: {other}"),
        }
    }

    /// The word that is the value of a key.
    pub fn text(&self, key: &str) -> &str {
        match self.get(key) {
            Value::Text(s) => s,
            other => panic!("`{key}` is not a choice: {other}"),
        }
    }

    /// The value of a choice.
    pub fn choice<C: Choice>(&self, key: &str) -> C {
        let word = self.text(key);
        match C::WORDS.iter().position(|known| *known == word) {
            Some(place) => C::VALUES[place],
            None => panic!("`{key}` is `{word}`, which the type of its values does not have"),
        }
    }

    /// The value of a key that is true or false.
    pub fn flag(&self, key: &str) -> bool {
        match self.get(key) {
            Value::Bool(b) => *b,
            other => panic!("`{key}` is not true or false: {other}"),
        }
    }

    /// The value of a list of widths.
    pub fn widths(&self, key: &str) -> Vec<usize> {
        match self.get(key) {
            Value::Ints(v) => v.iter().map(|&w| w as usize).collect(),
            other => panic!("`{key}` is not a list of widths: {other}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_on_the_command_line() {
        assert_eq!(Value::parse("10"), Some(Value::Int(10)));
        assert_eq!(Value::parse("0.3"), Some(Value::Float(0.3)));
        assert_eq!(Value::parse("true"), Some(Value::Bool(true)));
        assert_eq!(Value::parse("exact"), Some(Value::Text("exact".into())));
        assert_eq!(Value::parse("\"exact\""), Some(Value::Text("exact".into())));
        assert_eq!(Value::parse("[64, 32]"), Some(Value::Ints(vec![64, 32].into())));
        assert_eq!(Value::parse("{a = 1}"), None);
        assert_eq!(Value::parse("[0.5]"), None);
        assert_eq!(Value::parse("1\nw = 2"), None, "one setting, not two");
    }

    #[test]
    fn a_key_takes_what_its_kind_says() {
        let key = |kind| Key::new("k", kind, Value::Bool(true), "");
        let float = key(Kind::Float(0.0, 1.0));
        assert_eq!(float.check(&Value::Int(1)), Some(Value::Float(1.0)));
        for refused in [Value::Float(1.5), Value::Float(-0.1), Value::Float(f64::NAN), Value::Bool(true)] {
            assert_eq!(float.check(&refused), None, "{refused}");
        }
        assert_eq!(key(Kind::Int(1, 5)).check(&Value::Int(0)), None);
        assert_eq!(key(Kind::Int(1, 5)).check(&Value::Float(2.0)), Some(Value::Int(2)));
        assert_eq!(key(Kind::Int(1, 5)).check(&Value::Float(2.5)), None);
        assert_eq!(key(Kind::Int(1, 5)).check(&Value::Float(1e300)), None);
        assert_eq!(key(Kind::Choice(&["a", "b"])).check(&Value::text("c")), None);
        assert_eq!(key(Kind::Widths).check(&Value::Int(64)), Some(Value::Ints(vec![64].into())));
        assert_eq!(key(Kind::Widths).check(&Value::Ints(vec![64, 0].into())), None);
    }
}
