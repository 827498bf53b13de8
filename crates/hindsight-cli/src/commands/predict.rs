//! `hindsight predict`: a model's answers for the rows of a file.

use std::{
    collections::BTreeMap,
    io::{BufWriter, Write, stdout},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::Context;
use clap::Args;
use hindsight::{
    Agent,
    data::{
        atomic_file::AtomicFile,
        rows::{Place, ReadOptions},
    },
};
use serde_json::{Map, Value, json};

use super::evaluation::Evaluation;
use crate::{
    failure::CannotWrite,
    messages::{inform, printable, set_quiet},
    model_file::ModelError,
    sample_reader::{Labels, Sample, SampleReader, schema_of},
};

/// Answer for the rows of a file with a model.
///
/// A line per row, in order: the columns `label` and `probability`. The file may be CSV, JSON lines, NPY,
/// NPZ, an image or a folder of images; `-` is standard input.
#[derive(Debug, Args)]
pub(crate) struct PredictArgs {
    /// The model's file: `learn`, `run` and `Agent::save` write them
    model: PathBuf,
    /// File or folder to answer for
    #[arg(value_name = "DATA", default_value = "-")]
    data: PathBuf,
    /// The probabilities of all classes too
    #[arg(long)]
    probabilities: bool,
    /// Compare with the labels of the file: accuracy, per class and per task, and confusions
    #[arg(long)]
    evaluate: bool,
    /// The task of all rows, where the model has a head per task
    #[arg(long, value_name = "NAME")]
    task: Option<String>,
    /// The column of labels, where the model does not know it
    #[arg(long, value_name = "COLUMN")]
    label: Option<String>,
    /// The labels of an NPY file, for `--evaluate`
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,
    /// Go on after a row that cannot be read: its line of the answers is empty
    #[arg(long)]
    skip_bad: bool,
    /// JSON lines instead of CSV; with `--evaluate` one JSON object
    #[arg(long)]
    json: bool,
    /// Write the answers to a file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write only errors and warnings to standard error
    #[arg(long, short)]
    quiet: bool,
}

/// Rows that are answered at a time.
const CHUNK: usize = 1024;

/// Runs `hindsight predict`.
pub(crate) fn execute(args: &PredictArgs) -> anyhow::Result<ExitCode> {
    set_quiet(args.quiet);
    let agent = Agent::load(&args.model)?;
    let labels = if args.evaluate { Labels::Wanted } else { Labels::Unused };
    let options = ReadOptions { labels: args.labels.clone(), ..ReadOptions::default() };
    let mut schema = schema_of(&agent);
    schema.label = args.label.clone().unwrap_or(schema.label);
    let mut reader = SampleReader::open(&args.data, &agent, schema, labels, &options, args.skip_bad)?;
    let tasks = Tasks::new(&agent, args.task.as_deref())?;
    let mut answers = Answers { agent: &agent, names: class_names(&agent), evaluation: None, args };
    answers.evaluation = args.evaluate.then(|| Evaluation::new(answers.names.clone()));

    // Evaluated, the answers themselves are only written where they are asked for.
    let file = args.out.as_ref().map(|path| AtomicFile::new(path).with_context(|| CannotWrite(path.clone())));
    let mut file = file.transpose()?;
    let mut to: Box<dyn Write> = match &file {
        Some(file) => Box::new(BufWriter::new(file.file())),
        None if args.evaluate => Box::new(std::io::sink()),
        None => Box::new(BufWriter::new(stdout().lock())),
    };
    let written = answers.write_all(&mut reader, &tasks, &mut *to).and_then(|()| Ok(to.flush()?));
    drop(to);
    match &args.out {
        Some(path) => written.with_context(|| CannotWrite(path.clone())),
        None => written,
    }?;
    if let (Some(path), Some(file)) = (&args.out, file.take()) {
        file.keep().with_context(|| CannotWrite(path.clone()))?;
    }
    reader.tell_hazards();
    if let Some(evaluation) = answers.evaluation {
        match args.json {
            true => writeln!(stdout(), "{}", evaluation.json())?,
            false => write!(stdout(), "{}", printable(&evaluation.text()))?,
        }
        if let Some(caution) = evaluation.caution() {
            inform(format_args!("note: {caution}"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What the classes are called.
pub(crate) fn class_names(agent: &Agent) -> Vec<String> {
    let numbers = || (0..agent.classes()).map(|class| class.to_string()).collect();
    agent.shape().names.clone().unwrap_or_else(numbers)
}

/// Which task a row is answered for.
pub(crate) struct Tasks {
    numbers: BTreeMap<String, u32>,
    names: Vec<String>,
    /// For rows whose task is not told.
    default: Option<u32>,
}

impl Tasks {
    pub(crate) fn new(agent: &Agent, given: Option<&str>) -> Result<Tasks, ModelError> {
        let names = agent.application().tasks.clone();
        let numbers: BTreeMap<String, u32> = names.iter().cloned().zip(0..).collect();
        let last = names.len().saturating_sub(1) as u32;
        let shared = agent.shape().heads.is_single().then_some(last);
        let mut tasks = Tasks { numbers, names, default: shared };
        if let Some(given) = given {
            // Tasks of a run have numbers alone.
            let numbered = || given.parse().ok().filter(|_| tasks.names.is_empty());
            let known = tasks.numbers.get(given).copied().or_else(numbered);
            let unknown = || ModelError::NoTask { task: Some(given.to_owned()), known: tasks.names.clone() };
            tasks.default = Some(known.ok_or_else(unknown)?);
            tasks.numbers.clear();
        }
        Ok(tasks)
    }

    pub(crate) fn of(&self, row: Option<&str>) -> Result<u32, ModelError> {
        let known = row.and_then(|row| self.numbers.get(row).copied());
        known
            .or(self.default)
            .ok_or_else(|| ModelError::NoTask { task: row.map(str::to_owned), known: self.names.clone() })
    }
}

struct Answers<'a> {
    agent: &'a Agent,
    names: Vec<String>,
    evaluation: Option<Evaluation>,
    args: &'a PredictArgs,
}

impl Answers<'_> {
    fn write_all(
        &mut self,
        reader: &mut SampleReader,
        tasks: &Tasks,
        to: &mut dyn Write,
    ) -> anyhow::Result<()> {
        let (mut x, mut samples, mut task) = (Vec::new(), Vec::new(), None);
        let mut headed = false;
        while let Some(sample) = reader.next(&mut x)? {
            let of_row = match &sample {
                Sample::Good { task: of_row, .. } => Some(tasks.of(of_row.as_deref())?),
                Sample::LeftOut { .. } => task,
            };
            if !std::mem::replace(&mut headed, true) {
                self.write_header(&sample, to)?;
            }
            if samples.len() == CHUNK || (of_row != task && !samples.is_empty()) {
                let next = x.split_off(x.len() - self.width_of(&sample));
                self.write_chunk(&x, &samples, task, to)?;
                samples.clear();
                x = next;
            }
            task = of_row;
            samples.push(sample);
        }
        self.write_chunk(&x, &samples, task, to)
    }

    fn width_of(&self, sample: &Sample) -> usize {
        if matches!(sample, Sample::Good { .. }) { self.agent.width() } else { 0 }
    }

    fn write_header(&self, first: &Sample, to: &mut dyn Write) -> anyhow::Result<()> {
        if self.args.json {
            return Ok(());
        }
        let (Sample::Good { place, .. } | Sample::LeftOut { place, .. }) = first;
        if let Place::File(_) = place {
            write!(to, "file,")?;
        }
        write!(to, "label,probability")?;
        for name in self.names.iter().filter(|_| self.args.probabilities) {
            write!(to, ",{}", csv_field(&format!("p_{name}")))?;
        }
        Ok(writeln!(to)?)
    }

    fn write_chunk(
        &mut self,
        x: &[f32],
        samples: &[Sample],
        task: Option<u32>,
        to: &mut dyn Write,
    ) -> anyhow::Result<()> {
        let rows = if x.is_empty() { Vec::new() } else { self.agent.predict_proba(x, task.unwrap_or(0))? };
        let mut rows = rows.chunks_exact(self.agent.shape().classes);
        for sample in samples {
            match sample {
                Sample::Good { place, label, task } => {
                    let row = rows.next().expect("a row for each sample");
                    let best = best(row);
                    if let (Some(evaluation), Some(label)) = (&mut self.evaluation, label) {
                        evaluation.add(label, best, task.as_deref());
                    }
                    self.write_answer(place, row, best, to)?;
                }
                Sample::LeftOut { place, reason } => self.write_gap(place, reason, to)?,
            }
        }
        Ok(())
    }

    fn write_answer(
        &self,
        place: &Place,
        row: &[f32],
        best: usize,
        to: &mut dyn Write,
    ) -> anyhow::Result<()> {
        let names = &self.names;
        if self.args.json {
            let mut answer = Map::new();
            if let Place::File(path) = place {
                answer.insert("file".to_owned(), path.display().to_string().into());
            }
            answer.insert("label".to_owned(), names[best].clone().into());
            answer.insert("probability".to_owned(), number(row[best]));
            if self.args.probabilities {
                let all: Map<String, Value> =
                    names.iter().zip(row).map(|(name, p)| (name.clone(), number(*p))).collect();
                answer.insert("probabilities".to_owned(), all.into());
            }
            return Ok(writeln!(to, "{}", Value::Object(answer))?);
        }
        if let Place::File(path) = place {
            write!(to, "{},", csv_field(&path.display().to_string()))?;
        }
        write!(to, "{},{}", csv_field(&names[best]), row[best])?;
        for p in row.iter().filter(|_| self.args.probabilities) {
            write!(to, ",{p}")?;
        }
        Ok(writeln!(to)?)
    }

    /// The line of a row that has no answer.
    fn write_gap(&self, place: &Place, reason: &str, to: &mut dyn Write) -> anyhow::Result<()> {
        if self.args.json {
            return Ok(writeln!(to, "{}", json!({ "error": reason }))?);
        }
        if let Place::File(path) = place {
            write!(to, "{},", csv_field(&path.display().to_string()))?;
        }
        let more = if self.args.probabilities { self.names.len() } else { 0 };
        Ok(writeln!(to, ",{}", ",".repeat(more))?)
    }
}

/// The first of the largest.
pub(crate) fn best(row: &[f32]) -> usize {
    (1..row.len()).fold(0, |best, i| if row[i] > row[best] { i } else { best })
}

/// A probability as JSON, with the digits that a 32-bit float has.
pub(crate) fn number(p: f32) -> Value {
    p.to_string().parse::<f64>().map_or(Value::Null, Value::from)
}

/// A value of CSV, in quotes where it needs them.
fn csv_field(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}
