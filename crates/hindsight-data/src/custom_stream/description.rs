//! The TOML file that describes a stream: its keys, and which of them belong together.

use std::{collections::BTreeSet, path::PathBuf};

use serde::Deserialize;

use crate::{
    dataset::{DEFAULT_IMAGE_SIZE, MAX_IMAGE_SIZE},
    error::CustomStreamError,
    formats::series::MAX_WINDOW,
    schema::{Missing, TextColumns},
};

/// What a stream file says.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Description {
    pub(super) name: Option<String>,
    pub(super) format: Format,
    #[serde(default)]
    pub(super) tasks: Boundaries,
    #[serde(default)]
    pub(super) heads: HeadSetting,
    scenario: Option<ScenarioSetting>,
    pub(super) order: Option<Order>,
    #[serde(default = "yes")]
    pub(super) standardise: bool,
    pub(super) hold_out: Option<f64>,
    hold_out_rows: Option<HoldOutRows>,
    label: Option<String>,
    task: Option<ColumnNames>,
    features: Option<ColumnNames>,
    #[serde(default)]
    pub(super) ignore: Vec<String>,
    delimiter: Option<char>,
    pub(super) header: Option<bool>,
    missing: Option<Missing>,
    text: Option<TextColumns>,
    image_size: Option<usize>,
    window: Option<usize>,
    #[serde(default)]
    pub(super) files: Vec<Files>,
}

fn yes() -> bool {
    true
}

/// Samples that belong together, and others to test them with.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Files {
    pub(super) name: Option<String>,
    pub(super) train: PathBuf,
    pub(super) labels: Option<PathBuf>,
    pub(super) test: Option<PathBuf>,
    pub(super) test_labels: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Format {
    Csv,
    Npy,
    Npz,
    Idx,
    Images,
    Series,
}

/// What tells tasks apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub(super) enum Boundaries {
    #[default]
    Files,
    Column,
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub(super) enum HeadSetting {
    #[default]
    Shared,
    PerTask,
}

/// What a learner is told at test time: see `scenario` among the settings of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ScenarioSetting {
    Task,
    Domain,
    Class,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Order {
    Shuffled,
    File,
}

/// Which rows are held out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum HoldOutRows {
    Random,
    Last,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, expecting = "expected the name of an array, or a list of names of columns")]
enum ColumnNames {
    One(String),
    Many(Vec<String>),
}

impl Description {
    pub(super) fn parse(text: &str) -> Result<Description, CustomStreamError> {
        let description: Description = toml::from_str(text).map_err(|error| {
            let before = error.span().map_or(0, |span| text[..span.start].matches('\n').count());
            let line = (before + 1).min(text.lines().count().max(1));
            CustomStreamError::Toml { line, reason: error.message().to_owned() }
        })?;
        description.check()?;
        Ok(description)
    }

    fn check(&self) -> Result<(), CustomStreamError> {
        use Format::{Csv, Idx, Images, Npy, Npz, Series};
        let only = |key, set: bool, formats: &[Format], reason| match set && !formats.contains(&self.format) {
            true => Err(CustomStreamError::Superfluous { key, reason }),
            false => Ok(()),
        };
        only(
            "label",
            self.label.is_some(),
            &[Csv, Npz, Series],
            "only CSV, NPZ and series files name their labels",
        )?;
        only(
            "features",
            self.features.is_some(),
            &[Csv, Npz, Series],
            "only CSV, NPZ and series files name their features",
        )?;
        only("ignore", !self.ignore.is_empty(), &[Csv], "only CSV files have columns")?;
        only("delimiter", self.delimiter.is_some(), &[Csv], "only CSV files have columns")?;
        only("header", self.header.is_some(), &[Csv], "only CSV files have columns")?;
        only("missing", self.missing.is_some(), &[Csv], "only CSV files have missing values")?;
        only("text", self.text.is_some(), &[Csv], "only CSV files have columns of text")?;
        only("image_size", self.image_size.is_some(), &[Images], "only image folders are resized")?;
        only("window", self.window.is_some(), &[Series], "only series files are cut into windows")?;
        if self.format == Csv && self.label.is_none() {
            return Err(CustomStreamError::Needed {
                key: "label",
                expected: "the name of the column of labels",
            });
        }
        if self.format == Series && self.window.is_none() {
            return Err(CustomStreamError::Needed {
                key: "window",
                expected: "the number of samples of a recording that make a window",
            });
        }
        if let (Npz | Series, Some(ColumnNames::Many(names))) = (self.format, &self.features) {
            let expected = "the name of one array".to_owned();
            return Err(CustomStreamError::Value { key: "features", found: format!("{names:?}"), expected });
        }
        if let Some(ColumnNames::Many(names)) = &self.task
            && (self.format != Csv || names.len() < 2)
        {
            let expected = "one name, or in CSV files several columns of which one is not zero".to_owned();
            return Err(CustomStreamError::Value { key: "task", found: format!("{names:?}"), expected });
        }
        if let Some(delimiter) = self.delimiter.filter(|c| !c.is_ascii() || "\r\n\"".contains(*c)) {
            let expected = "one character such as `;`".to_owned();
            return Err(CustomStreamError::Value {
                key: "delimiter",
                found: delimiter.to_string(),
                expected,
            });
        }
        if let Some(size) = self.image_size.filter(|size| !(8..=MAX_IMAGE_SIZE).contains(size)) {
            let expected = format!("a whole number from 8 to {MAX_IMAGE_SIZE}");
            return Err(CustomStreamError::Value { key: "image_size", found: size.to_string(), expected });
        }
        if let Some(window) = self.window.filter(|window| !(1..=MAX_WINDOW).contains(window)) {
            let expected = format!("a whole number from 1 to {MAX_WINDOW}");
            return Err(CustomStreamError::Value { key: "window", found: window.to_string(), expected });
        }
        self.check_columns()?;

        match (self.tasks, &self.task) {
            (Boundaries::Column, _) if ![Csv, Npz, Series].contains(&self.format) => {
                let expected =
                    "`files` or `none`: only CSV, NPZ and series files tell the task of a sample".to_owned();
                return Err(CustomStreamError::Value { key: "tasks", found: "column".to_owned(), expected });
            }
            (Boundaries::Column, None) => {
                let expected = "the name of the column or array that tells the task of a sample";
                return Err(CustomStreamError::Needed { key: "task", expected });
            }
            (Boundaries::Files | Boundaries::None, Some(_)) => {
                let reason = "`tasks` is not `\"column\"`; columns that mean nothing are named in `ignore`";
                return Err(CustomStreamError::Superfluous { key: "task", reason });
            }
            _ => {}
        }
        if (self.tasks, self.heads) == (Boundaries::None, HeadSetting::PerTask) {
            let expected = "`shared`, where there is but one task".to_owned();
            return Err(CustomStreamError::Value { key: "heads", found: "per-task".to_owned(), expected });
        }

        match (self.tasks, self.heads, self.scenario) {
            (Boundaries::None, _, Some(ScenarioSetting::Task)) => {
                let expected = "`domain` or `class`, where there is but one task".to_owned();
                return Err(CustomStreamError::Value { key: "scenario", found: "task".to_owned(), expected });
            }
            (_, HeadSetting::PerTask, Some(ScenarioSetting::Domain)) => {
                let expected = "`task` or `class`, as `heads` gives each task its own classes".to_owned();
                return Err(CustomStreamError::Value {
                    key: "scenario",
                    found: "domain".to_owned(),
                    expected,
                });
            }
            _ => {}
        }

        let Some(first) = self.files.first() else {
            return Err(CustomStreamError::Needed {
                key: "files",
                expected: "a table `[[files]]` with `train = \"PATH\"`",
            });
        };
        let mut names = BTreeSet::new();
        for files in &self.files {
            let apart = [Npy, Idx].contains(&self.format);
            if apart && files.labels.is_none() {
                return Err(CustomStreamError::Needed {
                    key: "labels",
                    expected: "a file of labels in each of `[[files]]`",
                });
            }
            if apart && files.test.is_some() && files.test_labels.is_none() {
                return Err(CustomStreamError::Needed {
                    key: "test_labels",
                    expected: "a file of labels beside each `test`",
                });
            }
            let reason = "only NPY and IDX files have labels in files of their own";
            only("labels", files.labels.is_some(), &[Npy, Idx], reason)?;
            only("test_labels", files.test_labels.is_some(), &[Npy, Idx], reason)?;
            if files.test_labels.is_some() && files.test.is_none() {
                return Err(CustomStreamError::Needed {
                    key: "test",
                    expected: "the file that `test_labels` belongs to",
                });
            }
            if files.test.is_some() != first.test.is_some() {
                return Err(CustomStreamError::Needed {
                    key: "test",
                    expected: "test files in all of `[[files]]` or in none",
                });
            }
            if files.name.is_some() && self.tasks != Boundaries::Files {
                return Err(CustomStreamError::Superfluous {
                    key: "name",
                    reason: "`tasks` is not `\"files\"`",
                });
            }
            let name = self.name_of(files);
            if self.tasks == Boundaries::Files && !names.insert(name.clone()) {
                let expected = "another name for each task".to_owned();
                return Err(CustomStreamError::Value { key: "name", found: name, expected });
            }
        }
        match (first.test.is_some(), self.hold_out) {
            (true, Some(_)) => {
                Err(CustomStreamError::Superfluous { key: "hold_out", reason: "there are test files" })
            }
            (true, None) if self.hold_out_rows.is_some() => {
                Err(CustomStreamError::Superfluous { key: "hold_out_rows", reason: "there are test files" })
            }
            (true, None) => Ok(()),
            (false, None) => {
                let expected = "`test` in `[[files]]`, or the share to hold out for test, such as 0.2";
                Err(CustomStreamError::Needed { key: "hold_out", expected })
            }
            (false, Some(share)) if !(share > 0.0 && share < 1.0) => {
                let expected = "a share between 0 and 1".to_owned();
                Err(CustomStreamError::Value { key: "hold_out", found: share.to_string(), expected })
            }
            _ if self.hold_out_rows == Some(HoldOutRows::Last) && self.format == Images => {
                let expected = "`random`, as images have no order".to_owned();
                Err(CustomStreamError::Value { key: "hold_out_rows", found: "last".to_owned(), expected })
            }
            _ => Ok(()),
        }
    }

    /// No column is two things.
    fn check_columns(&self) -> Result<(), CustomStreamError> {
        let features = self.columns().unwrap_or_default();
        let mut seen = BTreeSet::new();
        let tasks = match &self.task {
            Some(ColumnNames::One(name)) => std::slice::from_ref(name),
            Some(ColumnNames::Many(names)) => names,
            None => &[],
        };
        let named = self.label.iter().map(|name| ("label", name));
        let named = named.chain(tasks.iter().map(|name| ("task", name)));
        let listed = features.iter().map(|name| ("features", name));
        for (key, name) in named.chain(listed).chain(self.ignore.iter().map(|name| ("ignore", name))) {
            if !seen.insert(name) {
                let expected = "a name that stands nowhere else".to_owned();
                return Err(CustomStreamError::Value { key, found: name.clone(), expected });
            }
        }
        Ok(())
    }

    /// The columns of features in a CSV file, if they are listed.
    pub(super) fn columns(&self) -> Option<Vec<String>> {
        Some(match self.features.as_ref()? {
            ColumnNames::One(name) => vec![name.clone()],
            ColumnNames::Many(names) => names.clone(),
        })
    }

    /// The length of a window of a recording.
    pub(super) fn window(&self) -> usize {
        self.window.unwrap_or(1)
    }

    /// The array of features in an NPZ file, or the list of recordings.
    pub(super) fn array(&self) -> &str {
        match &self.features {
            Some(ColumnNames::One(name)) => name,
            _ => "x",
        }
    }

    /// The column or array of labels.
    pub(super) fn label(&self) -> &str {
        self.label.as_deref().unwrap_or("y")
    }

    /// The column or array of tasks.
    pub(super) fn task(&self) -> Option<&str> {
        match &self.task {
            Some(ColumnNames::One(name)) => Some(name),
            Some(ColumnNames::Many(_)) | None => None,
        }
    }

    /// The columns of which the one that is not zero names the task.
    pub(super) fn task_columns(&self) -> &[String] {
        match &self.task {
            Some(ColumnNames::Many(names)) => names,
            Some(ColumnNames::One(_)) | None => &[],
        }
    }

    /// The delimiter of CSV files, if it is set.
    pub(super) fn delimiter(&self) -> Option<u8> {
        self.delimiter.map(|c| c as u8)
    }

    /// What becomes of lines with a missing value.
    pub(super) fn missing(&self) -> Missing {
        self.missing.unwrap_or_default()
    }

    /// What becomes of columns of text.
    pub(super) fn text(&self) -> TextColumns {
        self.text.unwrap_or_default()
    }

    /// Height and width of images.
    pub(super) fn image_size(&self) -> usize {
        self.image_size.unwrap_or(DEFAULT_IMAGE_SIZE)
    }

    /// The scenario: task-incremental where each task has its own classes, otherwise class-incremental,
    /// unless the file says so.
    pub(super) fn scenario(&self) -> &'static str {
        match (self.scenario, self.heads) {
            (Some(ScenarioSetting::Task), _) | (None, HeadSetting::PerTask) => "task",
            (Some(ScenarioSetting::Domain), _) => "domain",
            (Some(ScenarioSetting::Class), _) | (None, HeadSetting::Shared) => "class",
        }
    }

    /// Whether the last rows are held out.
    pub(super) fn last(&self) -> bool {
        self.hold_out_rows == Some(HoldOutRows::Last)
    }

    /// Whether the samples of a task come in random order. Without tasks the order of the file is the stream.
    pub(super) fn shuffled(&self) -> bool {
        let order = match self.tasks {
            Boundaries::None => Order::File,
            _ => Order::Shuffled,
        };
        self.order.unwrap_or(order) == Order::Shuffled
    }

    /// The name of the task that a table of `[[files]]` is: its own, or that of its file or folder.
    pub(super) fn name_of(&self, files: &Files) -> String {
        files.name.clone().unwrap_or_else(|| {
            let name = files.train.file_stem().unwrap_or_default().to_string_lossy();
            name.trim_end_matches(".csv").to_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CSV: &str = "format = \"csv\"\nlabel = \"kind\"\nhold_out = 0.2\n";

    fn error(text: &str) -> String {
        Description::parse(text).unwrap_err().to_string()
    }

    fn csv_with(lines: &str) -> String {
        error(&format!("{CSV}{lines}\n[[files]]\ntrain = \"a.csv\"\n"))
    }

    #[test]
    fn a_short_description_says_all() {
        let description = Description::parse(&format!("{CSV}[[files]]\ntrain = \"a.csv\"\n")).unwrap();
        assert_eq!((description.tasks, description.heads), (Boundaries::Files, HeadSetting::Shared));
        assert!(description.standardise && description.shuffled() && !description.last());
        assert_eq!(
            (description.delimiter(), description.header, description.name_of(&description.files[0])),
            (None, None, "a".to_owned())
        );
    }

    #[test]
    fn without_tasks_the_order_of_the_file_is_kept() {
        let text = |order: &str| format!("{CSV}tasks = \"none\"\n{order}[[files]]\ntrain = \"a.csv\"\n");
        assert!(!Description::parse(&text("")).unwrap().shuffled());
        assert!(Description::parse(&text("order = \"shuffled\"\n")).unwrap().shuffled());
    }

    #[test]
    fn what_is_not_toml_or_no_key_is_told_with_its_line() {
        assert!(error("format = \"csv\"\nlabel = = 3\n").starts_with("line 2: "));
        let unknown = error("format = \"csv\"\nlabel = \"a\"\nlables = \"b\"\n");
        assert!(unknown.starts_with("line 3: unknown field `lables`, expected one of `name`"), "{unknown}");
        assert!(
            error("format = \"xls\"\n").starts_with("line 1: unknown variant `xls`, expected one of `csv`")
        );
        assert!(error("label = \"a\"\n").contains("missing field `format`"));
        assert!(error("").contains("missing field `format`"));
        let features = error("format = \"csv\"\nfeatures = 3\n");
        assert!(features.starts_with("line 2: expected the name of an array"), "{features}");
    }

    #[test]
    fn keys_that_are_needed_are_missed() {
        let files = "[[files]]\ntrain = \"a\"\n";
        assert!(error(&format!("format = \"csv\"\n{files}")).starts_with("no `label`"));
        assert!(error(&format!("format = \"npy\"\nhold_out = 0.5\n{files}")).starts_with("no `labels`"));
        let tested = "[[files]]\ntrain = \"a\"\nlabels = \"b\"\ntest = \"c\"\n";
        assert!(error(&format!("format = \"idx\"\n{tested}")).starts_with("no `test_labels`"));
        assert!(error(CSV).starts_with("no `files`, expected a table `[[files]]`"));
        assert!(error(&format!("format = \"series\"\nhold_out = 0.5\n{files}")).starts_with("no `window`"));
        assert!(csv_with("tasks = \"column\"").starts_with("no `task`"));
        assert!(error(&format!("format = \"npz\"\n{files}")).starts_with("no `hold_out`"));
        let mixed = format!("format = \"npz\"\n{files}test = \"b\"\n[[files]]\ntrain = \"c\"\n");
        assert!(error(&mixed).starts_with("no `test`, expected test files in all"));
        let lonely = "[[files]]\ntrain = \"a\"\nlabels = \"b\"\ntest_labels = \"c\"\n";
        assert!(error(&format!("format = \"npy\"\nhold_out = 0.5\n{lonely}")).starts_with("no `test`"));
    }

    #[test]
    fn keys_that_mean_nothing_are_refused() {
        assert!(csv_with("task = \"day\"").starts_with("`task` is set, but `tasks` is not"));
        assert!(csv_with("image_size = 32").starts_with("`image_size` is set, but only image folders"));
        assert!(csv_with("window = 32").starts_with("`window` is set, but only series files"));
        let idx = |line: &str| {
            error(&format!(
                "format = \"idx\"\nhold_out = 0.5\n{line}\n[[files]]\ntrain = \"a\"\nlabels = \"b\"\n"
            ))
        };
        for (line, key) in [
            ("label = \"y\"", "label"),
            ("features = \"x\"", "features"),
            ("ignore = [\"x\"]", "ignore"),
            ("delimiter = \";\"", "delimiter"),
            ("header = false", "header"),
        ] {
            assert!(idx(line).starts_with(&format!("`{key}` is set, but only CSV")), "{}", idx(line));
        }
        assert!(
            error(&format!("{CSV}[[files]]\ntrain = \"a\"\nlabels = \"b\"\n")).starts_with("`labels` is set")
        );
        assert!(
            error(&format!("{CSV}[[files]]\ntrain = \"a\"\ntest = \"b\"\n")).starts_with("`hold_out` is set")
        );
        let rows = "format = \"npz\"\nhold_out_rows = \"last\"\n[[files]]\ntrain = \"a\"\ntest = \"b\"\n";
        assert!(error(rows).starts_with("`hold_out_rows` is set"));
        let named = format!("{CSV}tasks = \"none\"\n[[files]]\nname = \"x\"\ntrain = \"a\"\n");
        assert!(error(&named).starts_with("`name` is set, but `tasks` is not"));
    }

    #[test]
    fn values_that_cannot_be_are_refused() {
        for share in ["0.0", "1.0", "-0.5", "nan"] {
            let text = format!("format = \"npz\"\nhold_out = {share}\n[[files]]\ntrain = \"a\"\n");
            assert!(error(&text).ends_with("expected a share between 0 and 1"), "{share}");
        }
        assert!(csv_with("delimiter = \"ä\"").starts_with("`delimiter` is `ä`"));
        assert!(
            csv_with("ignore = [\"kind\"]")
                .starts_with("`ignore` is `kind`, expected a name that stands nowhere")
        );
        assert!(csv_with("features = [\"a\", \"a\"]").starts_with("`features` is `a`"));
        assert!(csv_with("tasks = \"none\"\nheads = \"per-task\"").starts_with("`heads` is `per-task`"));
        let two = format!("{CSV}[[files]]\ntrain = \"a/x.csv\"\n[[files]]\ntrain = \"b/x.csv\"\n");
        assert!(error(&two).starts_with("`name` is `x`, expected another name for each task"));
        let images = |line: &str| {
            error(&format!("format = \"images\"\nhold_out = 0.5\n{line}\n[[files]]\ntrain = \"a\"\n"))
        };
        assert!(images("image_size = 4").starts_with("`image_size` is `4`"));
        assert!(images("hold_out_rows = \"last\"").starts_with("`hold_out_rows` is `last`"));
        assert!(images("tasks = \"column\"\ntask = \"t\"").starts_with("`tasks` is `column`"));
        for window in ["0", "65537"] {
            let text =
                format!("format = \"series\"\nwindow = {window}\nhold_out = 0.5\n[[files]]\ntrain = \"a\"\n");
            assert!(error(&text).starts_with(&format!("`window` is `{window}`, expected a whole number")));
        }
        let npz = "format = \"npz\"\nfeatures = [\"a\"]\nhold_out = 0.5\n[[files]]\ntrain = \"a\"\n";
        assert!(error(npz).starts_with("`features` is `[\"a\"]`, expected the name of one array"));
    }
}
