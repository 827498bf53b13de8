//! What is searched: lists of values by key, and which part of the search is done here.

use std::{fmt, str::FromStr};

use super::SweepError;
use crate::settings::Value;

/// The values to try, by key.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Grid {
    /// Whether the paper's lists hold for keys without one of their own.
    pub paper: bool,
    /// Keys with their values. Of two lists for one key the later counts.
    pub lists: Vec<(String, Vec<Value>)>,
}

impl Grid {
    /// Adds what a user wrote: `paper`, or `key=value,value,…`.
    pub fn add(&mut self, text: &str) -> Result<(), SweepError> {
        if text.trim() == "paper" {
            self.paper = true;
            return Ok(());
        }
        let malformed = || SweepError::Malformed { found: text.to_owned() };
        let (key, list) = text.split_once('=').ok_or_else(malformed)?;
        let key = key.trim().to_owned();
        if list.trim().is_empty() {
            return Err(SweepError::Empty { key });
        }
        let items = items(list).into_iter().map(str::trim);
        let values = items.map(|item| Value::parse(item).filter(|_| !item.is_empty()));
        let values = values.collect::<Option<Vec<Value>>>().ok_or_else(malformed)?;
        self.lists.push((key, values));
        Ok(())
    }

    /// The entry `grid` of a TOML file: `"paper"`, or a table of lists.
    pub fn from_toml(value: &toml::Value) -> Result<Grid, SweepError> {
        let mut grid = Grid::default();
        match value {
            toml::Value::String(word) if word == "paper" => grid.paper = true,
            toml::Value::Table(table) => grid.add_table("", table)?,
            other => return Err(SweepError::Malformed { found: format!("grid = {other}") }),
        }
        Ok(grid)
    }

    fn add_table(&mut self, prefix: &str, table: &toml::Table) -> Result<(), SweepError> {
        for (name, value) in table {
            let key = format!("{prefix}{name}");
            let malformed = || SweepError::Malformed { found: format!("{key} = {value}") };
            match value {
                // `hal.lambda` is a table within a table, `"hal.lambda"` is not.
                toml::Value::Table(inner) if prefix.is_empty() => {
                    self.add_table(&format!("{key}."), inner)?
                }
                toml::Value::Array(list) if list.is_empty() => return Err(SweepError::Empty { key }),
                toml::Value::Array(list) => {
                    let values: Option<Vec<Value>> = list.iter().map(Value::from_toml).collect();
                    self.lists.push((key.clone(), values.ok_or_else(malformed)?));
                }
                _ => return Err(malformed()),
            }
        }
        Ok(())
    }

    /// The list for a key, if it has one.
    pub(super) fn list(&self, key: &str) -> Option<&[Value]> {
        self.lists.iter().rev().find(|(name, _)| name == key).map(|(_, values)| values.as_slice())
    }
}

/// StateDict between commas that are not within brackets or quotes.
fn items(list: &str) -> Vec<&str> {
    let (mut depth, mut quoted) = (0, false);
    list.split(|c| {
        match c {
            '"' => quoted = !quoted,
            '[' if !quoted => depth += 1,
            ']' if !quoted => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0 && !quoted
    })
    .collect()
}

/// One of several parts of a sweep that are done apart, for example by the jobs of a job array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// Which part, from 1.
    pub index: usize,
    /// Of how many.
    pub count: usize,
}

impl Shard {
    /// The sweep as a whole.
    pub const WHOLE: Shard = Shard { index: 1, count: 1 };

    /// Whether the run at this place of the sweep is in this part. They are dealt out in turn, so that all
    /// parts take about as long.
    pub fn has(&self, place: usize) -> bool {
        place % self.count == self.index - 1
    }
}

impl FromStr for Shard {
    type Err = SweepError;

    fn from_str(text: &str) -> Result<Shard, SweepError> {
        let parse = || {
            let (index, count) = text.split_once('/')?;
            let shard = Shard { index: index.parse().ok()?, count: count.parse().ok()? };
            (1..=shard.count).contains(&shard.index).then_some(shard)
        };
        parse().ok_or_else(|| SweepError::Shard { found: text.to_owned() })
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_are_read_as_on_the_command_line() {
        let mut grid = Grid::default();
        grid.add("hal.lambda = 0.1, 1").unwrap();
        grid.add("hal.gradient=exact,\"first\"").unwrap();
        grid.add("hidden=[8],[16, 16]").unwrap();
        grid.add("hal.lambda=3").unwrap();
        assert_eq!(grid.list("hal.lambda"), Some(&[Value::Int(3)][..]), "the later counts");
        let words = [Value::text("exact"), Value::text("first")];
        assert_eq!(grid.list("hal.gradient"), Some(&words[..]));
        let widths = [Value::Ints(vec![8].into()), Value::Ints(vec![16, 16].into())];
        assert_eq!(grid.list("hidden"), Some(&widths[..]));
        assert!(!grid.paper);
        grid.add("paper").unwrap();
        assert!(grid.paper);

        assert_eq!(grid.add("slots="), Err(SweepError::Empty { key: "slots".into() }));
        for found in ["slots", "slots=1,,2", "slots=1,", "slots={a=1}", "papers"] {
            assert_eq!(grid.add(found), Err(SweepError::Malformed { found: found.into() }));
        }
    }

    #[test]
    fn grids_are_read_from_files_in_either_spelling() {
        let read = |text: &str| {
            let table: toml::Table = toml::from_str(text).unwrap();
            Grid::from_toml(&table["grid"])
        };
        let expected = vec![("hal.lambda".to_owned(), vec![Value::Float(0.1), Value::Int(1)])];
        for text in [
            "[grid]\nhal.lambda = [0.1, 1]",
            "[grid]\n\"hal.lambda\" = [0.1, 1]",
            "grid.hal.lambda = [0.1, 1]",
        ] {
            assert_eq!(read(text).unwrap().lists, expected, "{text}");
        }
        assert!(read("grid = \"paper\"").unwrap().paper);
        assert_eq!(read("[grid]\nslots = []"), Err(SweepError::Empty { key: "slots".into() }));
        for text in ["grid = 3", "[grid]\nslots = 3", "[grid]\nslots = [[0.5]]", "grid.a.b.c = [1]"] {
            assert!(matches!(read(text), Err(SweepError::Malformed { .. })), "{text}");
        }
    }

    #[test]
    fn shards_are_disjoint_and_complete() {
        for count in 1..9 {
            let shards: Vec<Shard> = (1..=count).map(|i| format!("{i}/{count}").parse().unwrap()).collect();
            for place in 0..20 {
                assert_eq!(shards.iter().filter(|shard| shard.has(place)).count(), 1);
            }
        }
        assert!((0..20).all(|place| Shard::WHOLE.has(place)));
        for found in ["3/2", "0/2", "1/0", "0/0", "x/y", "1", "/", "-1/2", "1/2/3", ""] {
            assert_eq!(found.parse::<Shard>(), Err(SweepError::Shard { found: found.into() }));
        }
    }
}
