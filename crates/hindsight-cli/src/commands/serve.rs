//! `hindsight serve`: a model that learns and answers line by line, for other programs.

use std::{
    io::{BufRead, BufReader, BufWriter, Read, Write, stdin, stdout},
    path::PathBuf,
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
};

use clap::Args;
use hindsight::{
    Agent,
    data::{
        RowError, rows,
        schema::{Cell, Column, Hazards, Schema},
    },
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    learn::class_of,
    predict::{Tasks, best, class_names, number},
};
use crate::{
    failure::hint,
    messages::{inform, set_quiet, tell},
    model_file::ModelFile,
    sample_reader::schema_of,
    signals::keep_ignored_hangup,
};

/// Learn and answer line by line: JSON objects on standard input, one on standard output for each.
///
/// `{"x": [0.1, 2]}` or `{"x": {"a": 0.1, "b": 2}}` asks for an answer, with `"y": "warm"` it is learned; `x`
/// and `y` may be lists of several. `{"end_task": true}` and `{"save": true}` do what they say. The model is
/// saved at the end of input and on SIGTERM. docs/learning.md has examples.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The model's file, made by `hindsight learn`
    model: PathBuf,
    /// Save the model after every so many samples that were learned (0: never in between)
    #[arg(long, value_name = "N", default_value_t = 1000)]
    save_every: u64,
    /// Write only errors and warnings to standard error
    #[arg(long, short)]
    quiet: bool,
}

/// Bytes of the longest line.
const MAX_LINE: u64 = 1 << 24;

/// What a line asks for.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    /// The features of a sample, or of several.
    x: Option<Value>,
    /// The label of a sample, or of each: it is learned.
    y: Option<Value>,
    /// The task that they are of.
    task: Option<String>,
    /// Whether the answer has the probabilities of all classes.
    #[serde(default)]
    probabilities: bool,
    #[serde(default)]
    end_task: bool,
    #[serde(default)]
    save: bool,
    /// Anything: it comes back with the answer.
    id: Option<Value>,
}

/// Runs `hindsight serve`.
pub(crate) fn execute(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    set_quiet(args.quiet);
    let (file, agent) = ModelFile::open(&args.model)?;
    // A model that is not there is told as an error of its file.
    let mut agent = agent.map_or_else(|| Agent::load(&args.model), Ok)?;
    agent.open();
    let service = Arc::new(Mutex::new(Service::new(agent, file, args.save_every)));
    keep_ignored_hangup();
    let at_signal = service.clone();
    ctrlc::set_handler(move || {
        // A line that is being answered is answered first.
        let mut service = at_signal.lock().unwrap_or_else(PoisonError::into_inner);
        let code = service.close().map_or_else(|error| i32::from(crate::failure::fail(&error)), |()| 0);
        std::process::exit(code);
    })?;
    inform(format_args!("note: {} is ready", args.model.display()));

    let (mut input, mut line) = (BufReader::with_capacity(1 << 16, stdin().lock()), Vec::new());
    let mut output = BufWriter::with_capacity(1 << 16, stdout().lock());
    loop {
        line.clear();
        if input.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let answer = {
            let mut service = service.lock().unwrap_or_else(PoisonError::into_inner);
            let answer = service.answer(&line);
            writeln!(output, "{answer}")
        };
        // Whoever waits for the answer gets it; if more lines are there already, they are answered first.
        let flushed = match input.buffer().contains(&b'\n') {
            true => Ok(()),
            false => output.flush(),
        };
        if let Err(error) = answer.and(flushed) {
            // Nobody listens any more: what was learned is saved all the same.
            service.lock().unwrap_or_else(PoisonError::into_inner).close()?;
            return Err(error.into());
        }
    }
    output.flush()?;
    service.lock().unwrap_or_else(PoisonError::into_inner).close()?;
    Ok(ExitCode::SUCCESS)
}

struct Service {
    agent: Agent,
    file: ModelFile,
    schema: Schema,
    names: Vec<String>,
    save_every: u64,
    unsaved: u64,
    x: Vec<f32>,
}

impl Service {
    fn new(agent: Agent, file: ModelFile, save_every: u64) -> Service {
        let mut schema = schema_of(&agent);
        if schema.columns.is_empty() {
            let column = |number: usize| Column { name: number.to_string(), mean: 0.0, categories: None };
            schema.columns = (1..=agent.width()).map(column).collect();
        }
        let names = class_names(&agent);
        Service { agent, file, schema, names, save_every, unsaved: 0, x: Vec::new() }
    }

    /// The answer to a line, whatever it holds.
    fn answer(&mut self, line: &[u8]) -> Value {
        let (id, answered) = match serde_json::from_slice::<Request>(line) {
            Ok(request) => (request.id.clone(), self.respond(&request)),
            Err(error) => (None, Err(anyhow::Error::msg(format!("not a request: {error}")))),
        };
        let mut answer = answered.unwrap_or_else(|error| {
            let mut answer = Map::from_iter([("error".to_owned(), format!("{error:#}").into())]);
            answer.extend(hint(&error).map(|hint| ("hint".to_owned(), hint.into())));
            answer
        });
        answer.extend(id.map(|id| ("id".to_owned(), id)));
        Value::Object(answer)
    }

    fn respond(&mut self, request: &Request) -> anyhow::Result<Map<String, Value>> {
        let mut answer = Map::new();
        if let Some(x) = &request.x {
            let rows = self.read_inputs(x)?;
            match &request.y {
                Some(y) => self.learn(y, rows, request, &mut answer)?,
                None => self.predict(rows, request, &mut answer)?,
            }
        } else if request.y.is_some() {
            anyhow::bail!("`y` without `x`, expected both");
        }
        if request.end_task {
            self.agent.end_task();
            self.unsaved += 1;
            answer.insert("ended".to_owned(), true.into());
        }
        if request.save {
            self.save()?;
            answer.insert("saved".to_owned(), self.file.path().display().to_string().into());
        }
        anyhow::ensure!(!answer.is_empty(), "nothing to do, expected `x`, `end_task` or `save`");
        Ok(answer)
    }

    /// Reads the features of one or several samples; returns how many, and none for one that is not in a
    /// list.
    fn read_inputs(&mut self, x: &Value) -> anyhow::Result<Option<usize>> {
        self.x.clear();
        match x {
            Value::Array(rows) if rows.first().is_some_and(|row| row.is_array() || row.is_object()) => {
                rows.iter().try_for_each(|row| self.read_input(row))?;
                Ok(Some(rows.len()))
            }
            row => self.read_input(row).map(|()| None),
        }
    }

    fn read_input(&mut self, row: &Value) -> anyhow::Result<()> {
        let columns = &self.schema.columns;
        let cells: Vec<Cell> = match row {
            // What comes as numbers may have every category as a feature already.
            Value::Array(values) if values.len() == self.agent.width() && values.len() != columns.len() => {
                return self.read_numbers(values);
            }
            Value::Array(values) => values.iter().map(rows::cell).collect(),
            Value::Object(values) => {
                let known = |key: &&String| !columns.iter().any(|column| column.name == **key);
                if let Some(key) = values.keys().find(known) {
                    let found = columns.iter().map(|column| column.name.clone()).collect();
                    return Err(row_error(RowError::NoColumn { column: key.clone(), found }));
                }
                let cell = |column: &Column| values.get(&column.name).map_or(Cell::Missing, rows::cell);
                columns.iter().map(cell).collect()
            }
            _ => anyhow::bail!("`x` is neither a list nor an object"),
        };
        let mut hazards = Hazards::default();
        let kept =
            self.schema.encode(&cells, || "x".to_owned(), &mut hazards, &mut self.x).map_err(row_error)?;
        anyhow::ensure!(kept, "a value is missing, expected all of them");
        Ok(())
    }

    fn read_numbers(&mut self, values: &[Value]) -> anyhow::Result<()> {
        for value in values {
            match value.as_f64() {
                Some(number) => self.x.push(number as f32),
                None => anyhow::bail!("`{value}` in `x`, expected a number"),
            }
        }
        Ok(())
    }

    fn learn(
        &mut self,
        y: &Value,
        rows: Option<usize>,
        request: &Request,
        answer: &mut Map<String, Value>,
    ) -> anyhow::Result<()> {
        let labels = match (y, rows) {
            (Value::Array(labels), Some(rows)) => {
                anyhow::ensure!(labels.len() == rows, "{} labels for {rows} samples", labels.len());
                labels.as_slice()
            }
            (Value::Array(_), None) => anyhow::bail!("`y` is a list, but `x` is one sample"),
            (_, Some(_)) => anyhow::bail!("`y` is one label, but `x` is a list of samples"),
            (label, None) => std::slice::from_ref(label),
        };
        let mut classes = Vec::with_capacity(labels.len());
        for label in labels {
            let Some(label) = rows::word(label) else { anyhow::bail!("an empty label") };
            classes.push(class_of(&mut self.agent, &label)?);
        }
        let task = match (&request.task, self.agent.application().running_task) {
            (Some(task), _) => self.agent.begin_task(task)?,
            (None, Some(running)) => running,
            (None, None) => self.agent.begin_task("stream")?,
        };
        let loss = self.agent.observe(&self.x, &classes, task)?;
        if self.names.len() != self.agent.classes() {
            self.names = class_names(&self.agent);
        }
        self.unsaved += classes.len() as u64;
        answer.insert("loss".to_owned(), number(loss));
        answer.insert("samples".to_owned(), self.agent.application().samples.into());
        if self.save_every > 0 && self.unsaved >= self.save_every {
            self.save()?;
        }
        Ok(())
    }

    fn predict(
        &mut self,
        rows: Option<usize>,
        request: &Request,
        answer: &mut Map<String, Value>,
    ) -> anyhow::Result<()> {
        let task = match &request.task {
            None if self.agent.shape().heads.is_single() => 0,
            task => Tasks::new(&self.agent, task.as_deref())?.of(None)?,
        };
        let proba = self.agent.predict_proba(&self.x, task)?;
        let proba = proba.chunks_exact(self.agent.shape().classes);
        let mut put = |key: &str, values: Vec<Value>| {
            let value =
                if rows.is_some() { values.into() } else { values.into_iter().next().unwrap_or_default() };
            answer.insert(key.to_owned(), value);
        };
        put("label", proba.clone().map(|row| self.names[best(row)].as_str().into()).collect());
        put("probability", proba.clone().map(|row| number(row[best(row)])).collect());
        if request.probabilities {
            let all = |row: &[f32]| {
                let pairs = self.names.iter().zip(row).map(|(name, p)| (name.clone(), number(*p)));
                json!(pairs.collect::<Map<String, Value>>())
            };
            put("probabilities", proba.map(all).collect());
        }
        Ok(())
    }

    fn save(&mut self) -> anyhow::Result<()> {
        self.file.save(&self.agent)?;
        self.unsaved = 0;
        Ok(())
    }

    /// Saves what is not saved yet.
    fn close(&mut self) -> anyhow::Result<()> {
        if self.unsaved > 0 {
            self.save()?;
            tell(format_args!("saved {}", self.file.path().display()));
        }
        Ok(())
    }
}

fn row_error(flaw: RowError) -> anyhow::Error {
    hindsight::data::DataError::Row { path: "request".into(), flaw }.into()
}
