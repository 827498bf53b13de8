//! `hindsight learn`: a model that goes on learning whenever data comes.

use std::{
    collections::VecDeque,
    io::{Write, stdout},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, atomic::AtomicBool, atomic::Ordering},
};

use clap::{Args, ValueEnum};
use hindsight::{
    Agent, AgentError,
    checkpoint::LearnedFile,
    data::{
        DataError, RowError,
        rows::{ReadOptions, Row, RowReader, STANDARD_INPUT, Selection},
        schema::{Missing, Schema, TextColumns, imbalance},
    },
    methods::METHODS,
    settings::Value,
};
use hindsight_report::plural;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use crate::{
    experiment::parse_setting,
    messages::{inform, is_quiet, printable, set_quiet, tell},
    model_file::{ModelError, ModelFile},
    sample_reader::{DEFAULT_LABEL, Labels, Sample, SampleReader, schema_of},
    signals::{INTERRUPTED, on_interrupt},
};

/// Learn from data, once through, and save the model; make it if it is not there.
///
/// Data are CSV and JSON lines (also compressed by gzip, or `-` for standard input), NPY, NPZ with arrays `x`
/// and `y`, and folders with a folder of images per class. Each file is a task, named after it, unless
/// `--task` or `--task-column` say otherwise. A command that was stopped or killed goes on where it was saved
/// when it is given again; rows that were learned before are not learned twice.
#[derive(Debug, Args)]
pub(crate) struct LearnArgs {
    /// The model's file
    model: PathBuf,
    /// Files or folders to learn from, in this order
    #[arg(required = true, value_name = "DATA")]
    data: Vec<PathBuf>,
    #[command(flatten)]
    fresh: FreshArgs,
    /// The task of all rows
    #[arg(long, value_name = "NAME", conflicts_with = "task_column")]
    task: Option<String>,
    /// End the last task when all is learned
    #[arg(long)]
    end_task: bool,
    /// The labels of an NPY file
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,
    /// Leave out rows that cannot be used
    #[arg(long)]
    skip_bad: bool,
    /// Learn also from rows that it has learned from before
    #[arg(long)]
    again: bool,
    /// Save the model every so many batches, and in the end
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    save_every: u64,
    /// Print the result as a JSON object
    #[arg(long)]
    json: bool,
    /// Write only errors and warnings to standard error
    #[arg(long, short)]
    quiet: bool,
}

/// What a model gets when it is made.
#[derive(Debug, Args)]
#[command(next_help_heading = "When the model is made")]
struct FreshArgs {
    /// Method [default: hal]
    #[arg(long, short, value_name = "NAME")]
    method: Option<String>,
    /// Any setting: `batch=20`, `hal.lambda=0.3`; see `hindsight methods`
    #[arg(long, short, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Seed of all generators [default: 0]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The column of labels [default: label]
    #[arg(long, value_name = "COLUMN")]
    label: Option<String>,
    /// The column of tasks: a task begins when its value changes
    #[arg(long, value_name = "COLUMN")]
    task_column: Option<String>,
    /// Comma-separated columns that are no features
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',')]
    ignore: Vec<String>,
    /// What becomes of a row with a missing value [default: refuse]
    #[arg(long, value_name = "WHAT")]
    missing: Option<MissingArg>,
    /// What becomes of columns with text [default: refuse]
    #[arg(long, value_name = "WHAT")]
    text: Option<TextArg>,
    /// Whether tasks share their classes, or each answers with its own [default: shared]
    #[arg(long, value_name = "WHAT")]
    heads: Option<HeadsArg>,
    /// Height and width that images are brought to [default: 84]
    #[arg(long, value_name = "N")]
    image_size: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MissingArg {
    /// Stop with an error
    Refuse,
    /// Use the mean of the column
    Mean,
    /// Leave the row out
    Drop,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TextArg {
    /// Stop with an error
    Refuse,
    /// A feature for each text of the column
    OneHot,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum HeadsArg {
    /// Any task may answer with any class
    Shared,
    /// A task answers with the classes that it has had
    PerTask,
}

/// Rows that the columns' types, means and scales are taken of.
const FIRST_ROWS: usize = 1000;

/// Rows that are gone over several times, where there is more than one pass.
const CHUNK: usize = 1000;

/// Runs `hindsight learn`.
pub(crate) fn execute(args: &LearnArgs) -> anyhow::Result<ExitCode> {
    set_quiet(args.quiet);
    let (file, known) = ModelFile::open(&args.model)?;
    let stop = on_interrupt(true)?;
    let options = args.read_options();
    let (agent, mut first) = match known {
        Some(mut agent) => {
            args.fresh.check(&agent)?;
            agent.open();
            (agent, None)
        }
        None => {
            let (agent, reader) = args.make(&args.data[0], &options)?;
            (agent, Some(reader))
        }
    };
    let (shared, classes) = (agent.config().shared_settings(), agent.classes());
    let bar = if is_quiet() { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
    bar.set_style(ProgressStyle::with_template("{elapsed}  {msg}").expect("a constant template"));
    let mut lesson = Lesson {
        agent,
        file,
        stop,
        bar,
        batch: shared.batch,
        epochs: shared.epochs,
        save_every: args.save_every,
        unsaved: 0,
        x: Vec::new(),
        labels: Vec::new(),
        losses: (0.0, 0),
        rows: 0,
        left_out: 0,
    };
    let mut stopped = false;
    for path in &args.data {
        stopped = !match lesson.learn(path, args, &options, first.take()) {
            Ok(done) => done,
            Err(error) => {
                lesson.bar.finish_and_clear();
                return diverged(error, lesson.file.path());
            }
        };
        if stopped {
            break;
        }
    }
    if !stopped && args.end_task && lesson.agent.application().running_task.is_some() {
        lesson.agent.end_task();
        lesson.unsaved += 1;
    }
    lesson.bar.finish_and_clear();
    let due = lesson.unsaved > 0 || !args.model.exists();
    if let Err(error) = if due { lesson.file.save(&lesson.agent) } else { Ok(()) } {
        return diverged(error, lesson.file.path());
    }
    lesson.report(classes, args.json)?;
    if stopped {
        tell("stopped: the model is saved");
        tell("hint: the same command goes on from there");
        return Ok(ExitCode::from(INTERRUPTED));
    }
    Ok(ExitCode::SUCCESS)
}

/// A model that has diverged is no wrong input.
fn diverged(error: anyhow::Error, model: &Path) -> anyhow::Result<ExitCode> {
    if error.downcast_ref() != Some(&AgentError::Diverged) {
        return Err(error);
    }
    tell(format_args!("error: {error}"));
    let kept = if model.exists() { "the file still has the model as it was last saved; " } else { "" };
    tell(format_args!("hint: {kept}make another with a smaller rate: `--set rate=0.01`"));
    Ok(ExitCode::from(1))
}

/// Learning, as far as it has come.
struct Lesson {
    agent: Agent,
    file: ModelFile,
    stop: Arc<AtomicBool>,
    bar: ProgressBar,
    batch: usize,
    epochs: usize,
    save_every: u64,
    /// Batches since the model was saved.
    unsaved: u64,
    /// What is not learned yet.
    x: Vec<f32>,
    labels: Vec<u32>,
    /// Sum and number of the losses of batches.
    losses: (f64, u64),
    rows: u64,
    left_out: u64,
}

impl Lesson {
    /// Learns from a file; false if it was stopped.
    fn learn(
        &mut self,
        path: &Path,
        args: &LearnArgs,
        options: &ReadOptions,
        opened: Option<SampleReader>,
    ) -> anyhow::Result<bool> {
        let open = |agent: &Agent| {
            let schema = args.fresh.schema(agent);
            SampleReader::open(path, agent, schema, Labels::Needed, options, args.skip_bad)
        };
        let name = file_name(path);
        let known = if args.again { 0 } else { self.known_rows(path, &name, open)? };
        let mut reader = match opened {
            Some(reader) => reader,
            None => open(&self.agent)?,
        };
        let mut unused = Vec::new();
        while reader.rows < known {
            unused.clear();
            reader.next(&mut unused)?;
        }
        if known > 0 {
            inform(format_args!(
                "note: `{name}`: {} learned before, not again",
                plural(known as usize, "row")
            ));
        }
        let chunk = if self.epochs > 1 { CHUNK.max(self.batch) } else { self.batch };
        let mut task = None;
        loop {
            if self.labels.is_empty()
                && (self.unsaved >= self.save_every || self.stop.load(Ordering::Relaxed))
            {
                self.note(&name, &reader, path);
                self.file.save(&self.agent)?;
                self.unsaved = 0;
                if self.stop.load(Ordering::Relaxed) {
                    (self.rows, self.left_out) =
                        (self.rows + reader.rows - known, self.left_out + reader.left_out);
                    return Ok(false);
                }
            }
            let Some(sample) = reader.next(&mut self.x)? else { break };
            let Sample::Good { label, task: of_row, .. } = sample else { continue };
            let of_row = args.task.clone().or(of_row).unwrap_or_else(|| stem(path));
            if task.as_ref() != Some(&of_row) {
                // The values of this row wait until those before it are learned.
                let row = self.x.split_off(self.x.len() - self.agent.width());
                self.observe()?;
                self.x = row;
                self.agent.begin_task(&of_row)?;
                task = Some(of_row);
            }
            let class = class_of(&mut self.agent, &label.unwrap_or_default())?;
            self.labels.push(class);
            if self.labels.len() == chunk {
                self.observe()?;
                self.show(&name, &reader);
            }
        }
        self.observe()?;
        if reader.rows == 0 {
            return Err(DataError::Row { path: path.to_owned(), flaw: RowError::Empty }.into());
        }
        if reader.rows > known {
            self.note(&name, &reader, path);
            self.unsaved += 1;
        }
        self.rows += reader.rows - known;
        self.left_out += reader.left_out;
        reader.tell_hazards();
        Ok(true)
    }

    /// How many rows of a file it has learned from before. Standard input cannot be read twice, so it is
    /// always new.
    fn known_rows(
        &self,
        path: &Path,
        name: &str,
        open: impl Fn(&Agent) -> anyhow::Result<SampleReader>,
    ) -> anyhow::Result<u64> {
        let history = &self.agent.application().history;
        let known: Vec<&LearnedFile> = history.iter().filter(|file| file.name == name).collect();
        let most = known.iter().map(|file| file.rows).max().unwrap_or(0);
        if most == 0 || path.as_os_str() == STANDARD_INPUT {
            return Ok(0);
        }
        let (mut reader, mut unused, mut found) = (open(&self.agent)?, Vec::new(), 0);
        while reader.rows < most {
            unused.clear();
            if reader.next(&mut unused)?.is_none() {
                break;
            }
            let here = known.iter().filter(|file| file.rows == reader.rows);
            if here.into_iter().any(|file| file.sha256 == reader.checksum()) {
                found = reader.rows;
            }
        }
        Ok(found)
    }

    fn note(&mut self, name: &str, reader: &SampleReader, path: &Path) {
        if path.as_os_str() != STANDARD_INPUT {
            self.agent.note_file(LearnedFile::new(name, reader.rows, reader.checksum()));
        }
    }

    /// Learns what waits.
    fn observe(&mut self) -> anyhow::Result<()> {
        let Some(task) = self.agent.application().running_task.filter(|_| !self.labels.is_empty()) else {
            return Ok(());
        };
        let before = self.agent.application().batches;
        let loss = self.agent.observe_epochs::<AgentError>(
            &self.x,
            &self.labels,
            task,
            self.batch,
            self.epochs,
            || Ok(()),
        )?;
        let batches = self.agent.application().batches - before;
        self.unsaved += batches;
        self.losses = (self.losses.0 + f64::from(loss), self.losses.1 + 1);
        self.x.clear();
        self.labels.clear();
        Ok(())
    }

    fn show(&self, name: &str, reader: &SampleReader) {
        if self.losses.1.is_multiple_of(50) {
            let of = reader.total().map_or(String::new(), |total| format!(" of {total}"));
            let line = format!("{name}: {}{of} rows, {}", reader.rows, plural(self.agent.classes(), "class"));
            self.bar.set_message(printable(&line).into_owned());
            self.bar.tick();
        }
    }

    /// Tells what was learned.
    fn report(&self, classes_before: usize, json: bool) -> anyhow::Result<()> {
        let application = self.agent.application();
        let loss = (self.losses.1 > 0).then(|| self.losses.0 / self.losses.1 as f64);
        if json {
            let result = json!({
                "model": self.file.path().display().to_string(),
                "rows": self.rows,
                "left_out": self.left_out,
                "loss": loss,
                "samples": application.samples,
                "classes": self.agent.classes(),
                "tasks": application.tasks.len(),
            });
            writeln!(stdout(), "{result}")?;
        } else {
            let new = match self.agent.classes() - classes_before.min(self.agent.classes()) {
                0 => String::new(),
                new => format!(" ({new} new)"),
            };
            let loss = loss.map_or(String::new(), |loss| format!(", mean loss {loss:.3}"));
            let line = format!(
                "{}: learned {}{loss}; {} in all, {}{new}, {}",
                self.file.path().display(),
                plural((self.rows - self.left_out.min(self.rows)) as usize, "row"),
                plural(application.samples as usize, "sample"),
                plural(self.agent.classes(), "class"),
                plural(application.tasks.len(), "task"),
            );
            writeln!(stdout(), "{}", printable(&line))?;
        }
        let names = self.agent.shape().names.as_deref().unwrap_or_default();
        let counts = application.class_samples.iter().copied().zip(names.iter().map(String::as_str));
        if let Some(note) = imbalance(counts) {
            inform(format_args!("note: {note}; `predict --evaluate` tells it by class"));
        }
        Ok(())
    }
}

/// The number of a class by its name; by its number where classes have no names.
pub(crate) fn class_of(agent: &mut Agent, label: &str) -> Result<u32, AgentError> {
    match label.parse() {
        Ok(number) if agent.shape().names.is_none() && agent.classes() > 0 => Ok(number),
        _ => agent.class_id(label),
    }
}

fn file_name(path: &Path) -> String {
    let path =
        if path.as_os_str() == "." { path.canonicalize().unwrap_or_default() } else { path.to_owned() };
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// The task that the rows of a file are of, if nothing else says so.
fn stem(path: &Path) -> String {
    if path.as_os_str() == STANDARD_INPUT {
        return "stream".to_owned();
    }
    let name = file_name(path);
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    name.split_once('.').map_or(name, |(stem, _)| stem).to_owned()
}

impl FreshArgs {
    /// What the columns are: as the model knows it, or as it is said for one that was made without a table.
    fn schema(&self, agent: &Agent) -> Schema {
        let mut schema = schema_of(agent);
        if agent.application().schema.is_none() {
            schema.label = self.label.clone().unwrap_or(schema.label);
            (schema.task, schema.ignore) = (self.task_column.clone(), self.ignore.clone());
            schema.missing = self.missing.map_or(schema.missing, Missing::from);
        }
        schema
    }

    /// Refuses to change what a model has got when it was made.
    fn check(&self, agent: &Agent) -> anyhow::Result<()> {
        let schema = self.schema(agent);
        let fixed = |option, given: Option<String>, found: String| match given {
            Some(given) if given != found => {
                Err(ModelError::Fixed { option, given, found: format!("`{found}`") })
            }
            _ => Ok(()),
        };
        fixed("--method", self.method.clone(), agent.config().method.name.to_owned())?;
        fixed("--seed", self.seed.map(|seed| seed.to_string()), agent.config().seed.to_string())?;
        fixed("--label", self.label.clone(), schema.label)?;
        let ignore = (!self.ignore.is_empty()).then(|| self.ignore.join(","));
        fixed("--ignore", ignore, schema.ignore.join(","))?;
        fixed("--task-column", self.task_column.clone(), schema.task.unwrap_or_else(|| "none".to_owned()))?;
        let word = |missing: Missing| format!("{missing:?}").to_lowercase();
        fixed("--missing", self.missing.map(|missing| word(missing.into())), word(schema.missing))?;
        let heads = |per_task: bool| if per_task { "per-task" } else { "shared" }.to_owned();
        let given = self.heads.map(|found| heads(found == HeadsArg::PerTask));
        fixed("--heads", given, heads(!agent.shape().heads.is_single()))?;
        let size = agent.shape().input[1].to_string();
        fixed("--image-size", self.image_size.map(|size| size.to_string()), size)?;
        let settings = agent.config().effective();
        for text in &self.set {
            // What it would be in a model that is made now: `8` and `[8]` are the same widths.
            let (set, method) = (parse_setting(text)?, agent.config().method.name);
            let probe = Agent::builder(1, 2).method(method).set(&set.key, set.value).build()?;
            let probed = probe.config().effective();
            let own = format!("{method}.{}", set.key);
            let key = if probed.contains_key(&own) { own } else { set.key };
            let [given, found] = [&probed, &settings].map(|all| all.get(&key).map(Value::to_string));
            if given != found {
                let found = format!("`{key} = {}`", found.unwrap_or_else(|| "its default".to_owned()));
                return Err(ModelError::Fixed { option: "--set", given: text.clone(), found }.into());
            }
        }
        let one_hot = schema.columns.iter().any(|column| column.categories.is_some());
        match self.text {
            Some(TextArg::OneHot) if !one_hot => {
                let (given, found) = ("one-hot".to_owned(), "numbers alone".to_owned());
                Err(ModelError::Fixed { option: "--text", given, found }.into())
            }
            _ => Ok(()),
        }
    }
}

impl From<MissingArg> for Missing {
    fn from(missing: MissingArg) -> Missing {
        match missing {
            MissingArg::Refuse => Missing::Refuse,
            MissingArg::Mean => Missing::Mean,
            MissingArg::Drop => Missing::Drop,
        }
    }
}

impl LearnArgs {
    fn read_options(&self) -> ReadOptions {
        ReadOptions {
            labels: self.labels.clone(),
            image_size: self.fresh.image_size,
            shuffle_images: true,
            ..ReadOptions::default()
        }
    }

    /// A model for the data at `path`, and the reader of it.
    fn make(&self, path: &Path, options: &ReadOptions) -> anyhow::Result<(Agent, SampleReader)> {
        let fresh = &self.fresh;
        let mut reader = RowReader::open(path, options)?;
        let mut schema = Schema {
            label: fresh.label.clone().unwrap_or_else(|| DEFAULT_LABEL.to_owned()),
            task: fresh.task_column.clone(),
            ignore: fresh.ignore.clone(),
            missing: fresh.missing.map_or(Missing::Refuse, Missing::from),
            columns: Vec::new(),
        };
        reader.select(&Selection {
            label: Some(&schema.label),
            task: schema.task.as_deref(),
            needed: true,
            ignore: &schema.ignore,
            columns: None,
        })?;
        let mut buffered: VecDeque<Result<Row, DataError>> = VecDeque::new();
        while buffered.len() < FIRST_ROWS {
            let mut row = Row::default();
            match reader.read(&mut row) {
                Ok(false) => break,
                Ok(true) => buffered.push_back(Ok(row)),
                Err(error) if error.is_of_one_row() && self.skip_bad => buffered.push_back(Err(error)),
                Err(error) => return Err(error.into()),
            }
        }
        let rows = || buffered.iter().filter_map(|row| row.as_ref().ok());
        let flaw = |flaw| DataError::Row { path: path.to_owned(), flaw };
        if rows().next().is_none() {
            return Err(flaw(RowError::Empty).into());
        }
        let text = match fresh.text {
            Some(TextArg::OneHot) => TextColumns::OneHot,
            Some(TextArg::Refuse) | None => TextColumns::Refuse,
        };
        let is_table = !reader.columns().is_empty();
        if is_table {
            let rows: Vec<_> = rows().map(|row| (row.place.to_string(), row.cells.as_slice())).collect();
            schema.fit(reader.columns(), &rows, text).map_err(flaw)?;
        }
        let [channels, height, width] = reader.shape();
        let features = if is_table { schema.width() } else { channels * height * width };
        let mut agent = self.build(path, features, &schema, is_table, &reader)?;

        let reader =
            SampleReader::new(reader, schema.clone(), agent.width(), Labels::Needed, self.skip_bad, buffered);
        agent.fit_scaling(&reader.buffered_values())?;
        if is_table {
            agent.set_schema(schema)?;
        }
        Ok((agent, reader))
    }

    fn build(
        &self,
        path: &Path,
        features: usize,
        schema: &Schema,
        is_table: bool,
        reader: &RowReader,
    ) -> anyhow::Result<Agent> {
        let fresh = &self.fresh;
        let method = fresh.method.as_deref().unwrap_or("hal");
        let mut builder = Agent::builder(features, 0).method(method).open().standardise();
        let [channels, height, width] = reader.shape();
        if height > 1 {
            builder = builder.image([channels, height, width]);
        }
        if is_table {
            builder = builder.features(schema.features());
        }
        if channels == 3 && reader.is_numeric() && height == width {
            builder = builder.set("network", "resnet");
            if height > 48 {
                builder = builder.set("stem_stride", 2);
            }
        }
        if fresh.heads == Some(HeadsArg::PerTask) {
            builder = builder.task_heads(Vec::new());
        }
        let unbounded = path.as_os_str() == STANDARD_INPUT && schema.task.is_none() && self.task.is_none();
        if unbounded {
            // Nobody will tell when a task ends: replay all that came, of the whole past.
            builder = builder.set("replay_from", "all");
            let keys = METHODS.iter().find(|known| known.name == method).map_or(&[][..], |known| known.keys);
            for (key, value) in [("memory", Value::text("reservoir")), ("consolidate_every", Value::Int(100))]
            {
                if keys.iter().any(|known| known.name == key) {
                    builder = builder.set(key, value);
                }
            }
        }
        for text in &fresh.set {
            let set = parse_setting(text)?;
            builder = builder.set(&set.key, set.value);
        }
        Ok(builder.seed(fresh.seed.unwrap_or(0)).build()?)
    }
}
