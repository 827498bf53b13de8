//! What is wrong with settings.

use std::path::PathBuf;

use hindsight_data::suggest::nearest;
use thiserror::Error;

/// Why what a user asked for cannot be done.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
// The message of a variant says what its fields are.
#[allow(missing_docs)]
pub enum ConfigError {
    /// A name that does not exist.
    #[error("unknown {what} `{name}`")]
    Unknown { what: &'static str, name: String, nearest: Option<String>, known: Vec<String> },
    /// A value that its key does not take.
    #[error("`{key}` is `{found}`, expected {expected}")]
    Value { key: String, found: String, expected: String },
    /// A key that another benchmark has.
    #[error("`{benchmark}` has no key `{key}`")]
    Elsewhere { key: String, benchmark: String, other: String },
    /// A method that must be told the task, in a scenario that does not tell it.
    #[error("`{method}` must be told the task at test time, but `scenario` is `{scenario}`")]
    NeedsTask { method: &'static str, scenario: String },
    /// A network that no machine at hand could train.
    #[error("`{key}` is `{found}`: {parameters} parameters, expected at most {limit}")]
    TooLarge { key: &'static str, found: String, parameters: u128, limit: u128 },
    /// Not of the form `key=value`.
    #[error(
        "`{found}` is not a setting, expected `key=value` with a number, a word, a list of widths or a truth value"
    )]
    Malformed { found: String },
    /// A configuration file that cannot be read.
    #[error("cannot read `{}`: {reason}", path.display())]
    Unreadable { path: PathBuf, reason: String },
    /// A configuration file that is not TOML.
    #[error("`{}`, line {line}: {reason}", path.display())]
    Toml { path: PathBuf, line: usize, reason: String },
    /// More classes asked for than there are.
    #[error("{tasks} tasks of {per_task} classes need {}, but `{dataset}` has {classes}", tasks * per_task)]
    TooFewClasses { tasks: usize, per_task: usize, dataset: String, classes: usize },
    /// A class with fewer samples than a task takes of it.
    #[error("`samples` is {found}: {per_class} of a class, but class {class} of `{dataset}` has {has}")]
    ClassTooSmall { found: usize, per_class: usize, class: usize, dataset: String, has: usize },
    /// More samples asked of a task than there are.
    #[error("`samples` is {found}, but the training pool of `{dataset}` holds {pool}")]
    PoolTooSmall { found: usize, dataset: String, pool: usize },
}

impl ConfigError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            ConfigError::Unknown { nearest: Some(nearest), .. } => Some(format!("did you mean `{nearest}`?")),
            ConfigError::Unknown { known, .. } => Some(format!("known are {}", known.join(", "))),
            ConfigError::Value { key, .. } if key == "seeds" => {
                Some("`--seeds 3` runs the seeds 0, 1 and 2; `--seeds 3..5` the seeds 3 and 4".to_owned())
            }
            ConfigError::Value { key, .. } if key == "bytes" => {
                Some("allow more bytes, or compare methods that hold less".to_owned())
            }
            ConfigError::Value { key, .. } => match key.split_once('.') {
                Some((method, _)) => Some(format!("`hindsight methods {method}` lists its keys")),
                None => Some("`hindsight benchmarks` lists the shared keys".to_owned()),
            },
            ConfigError::Elsewhere { key, other, .. } => Some(format!("`{key}` is a key of `{other}`")),
            ConfigError::NeedsTask { .. } => {
                Some("set `scenario` to `task`, or leave the method out".to_owned())
            }
            ConfigError::TooLarge { .. } => Some("use fewer or narrower layers".to_owned()),
            ConfigError::Malformed { .. } => Some("for example `--set hal.lambda=0.3`".to_owned()),
            ConfigError::TooFewClasses { .. } => {
                Some("set `tasks` or `tuning_tasks` lower, or `tasks` to 0 for all that there are".to_owned())
            }
            ConfigError::ClassTooSmall { .. } => Some("set `samples` lower, or to 0 for all".to_owned()),
            ConfigError::PoolTooSmall { pool, .. } => Some(format!("set `samples` to at most {pool}")),
            ConfigError::Unreadable { .. } => Some("`--config` takes the path of a TOML file".to_owned()),
            ConfigError::Toml { .. } => {
                Some("for example `tasks = 10`, and below `[hal]` a line `lambda = 0.3`".to_owned())
            }
        }
    }

    /// A name that does not exist, with the nearest of those that do.
    pub fn unknown<'n>(
        what: &'static str,
        name: &str,
        known: impl IntoIterator<Item = &'n str>,
    ) -> ConfigError {
        let known: Vec<String> = known.into_iter().map(str::to_owned).collect();
        let nearest = nearest(name, known.iter().map(String::as_str)).map(str::to_owned);
        ConfigError::Unknown { what, name: name.to_owned(), nearest, known }
    }
}
