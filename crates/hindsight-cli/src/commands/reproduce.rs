//! `hindsight reproduce`: the paper's tables and figures, run again and compared.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{Write, stdout},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use anyhow::Context;
use clap::Args;
use hindsight::{
    Record,
    config::{Override, RunConfig},
    protocol::Status,
    run::RunError,
    run_folder::{self, RecordError, Records},
    stream::Source,
};
use hindsight_report::{
    Chapter, Paper, Report, html,
    reproduce::{Entry, Measure, Reproduction, Request},
};

use super::{
    experiment::{MachineArgs, RunTarget, Work},
    output::{Output, cannot_write, finished},
    plural,
};
use crate::tell;

/// Run the paper's tables and figures again, and compare with its numbers.
#[derive(Debug, Args)]
#[command(after_help = "\
Tables and figures:
  t1  all methods, one slot per class per task
  t2  HAL against ER-Ring with twice the memory
  t3  anchors with a look at all future tasks
  t4  real samples as anchors
  t5  accuracy with 3 and 5 slots
  t6  forgetting with 3 and 5 slots
  t7  sensitivity of HAL to lambda, gamma and beta
  f1  accuracy against the size of the memory
  f2  data and anchors in image and feature space
  f3  accuracy as tasks are learned
  f4  training time

A run that serves several tables is done once. Records are written as runs end, and the same command continues where \
it stopped. The folder then has every table as Markdown, CSV and LaTeX, every figure as SVG and PNG, and a page, \
`index.html`; each number stands beside the paper's, with the difference and a verdict.

Examples:
  hindsight reproduce t1 t2 --benchmark permuted-mnist
  hindsight reproduce all --quick                       a first look: 5 tasks, 2 seeds
  hindsight reproduce t1 --method er-ring,hal --seeds 10")]
pub(crate) struct ReproduceArgs {
    /// Tables and figures: `t1` to `t7`, `f1` to `f4`, or `all`
    #[arg(value_name = "NAME", required = true, value_delimiter = ',')]
    names: Vec<String>,
    /// Only on these benchmarks, parted by commas [default: all four of the paper whose data is there]
    #[arg(long, short, value_name = "NAME,…", value_delimiter = ',')]
    benchmark: Vec<String>,
    /// Only these methods, parted by commas [default: all that a table has]
    #[arg(long, short, value_name = "NAME,…", value_delimiter = ',')]
    method: Vec<String>,
    /// Number of seeds, counted from 0 [default: 5, as in the paper]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    seeds: Option<String>,
    /// 5 tasks and 2 seeds: to see that it works, not to compare
    #[arg(long)]
    quick: bool,
    /// A setting of all runs, over those of the tables: `samples=1250`
    #[arg(long, short, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Folder for records, tables and figures; runs that have a record there are not repeated
    #[arg(long, short, value_name = "DIR", default_value = "reproduction")]
    out: PathBuf,
    #[command(flatten)]
    machine: MachineArgs,
}

impl ReproduceArgs {
    fn request(&self) -> anyhow::Result<Request> {
        let seeds =
            self.seeds.as_ref().map(|count| Override::parse(&format!("seeds={count}"))).transpose()?;
        Ok(Request {
            items: self.names.clone(),
            benchmarks: self.benchmark.clone(),
            methods: self.method.clone(),
            seeds: seeds.map(|seeds| seeds.value),
            quick: self.quick,
            overrides: self.set.iter().map(|text| Override::parse(text)).collect::<Result<_, _>>()?,
        })
    }

    /// The folder of the records of a data set. Each has one: what is in it is of the same data.
    fn folder(&self, dataset: &str) -> PathBuf {
        self.out.join("runs").join(dataset)
    }
}

/// Runs of one data set.
struct Part<'r> {
    dataset: &'r str,
    /// Places in all runs.
    places: Vec<usize>,
    runs: Vec<RunConfig>,
    source: Arc<Source>,
}

/// Runs `hindsight reproduce`.
pub(crate) fn execute(args: &ReproduceArgs) -> anyhow::Result<ExitCode> {
    let reproduction = Reproduction::resolve(&args.request()?)?;
    let parts = parts(args, &reproduction)?;
    fs::create_dir_all(&args.out).with_context(|| cannot_write(&args.out))?;
    announce(args, &reproduction);
    let mut records: BTreeMap<usize, Record> = BTreeMap::new();
    let mut failed = 0;
    for part in parts {
        failed += work(args, &reproduction, part, &mut records)?;
        // Another data set may take days; what there is can be read meanwhile.
        write(args, &reproduction, &records)?;
    }

    let mut out = stdout();
    for item in &reproduction.items {
        writeln!(out, "{}: {}\n", item.name, item.title)?;
        for table in reproduction.tables(item, &records) {
            writeln!(out, "{}\n{}", table.title, table.text())?;
        }
        reproduction.notes(item).iter().try_for_each(|note| writeln!(out, "{note}"))?;
        writeln!(out)?;
    }
    reproduction.summary(&records).iter().try_for_each(|line| writeln!(out, "{line}"))?;
    writeln!(out, "{}", args.out.join("index.html").display())?;
    let diverged = records.values().any(|record| record.status == Status::Diverged);
    Ok(if diverged || failed > 0 { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// Reads all data that there is. What does not fit it shows now, not after other runs have been waited for.
fn parts<'r>(args: &ReproduceArgs, reproduction: &'r Reproduction) -> anyhow::Result<Vec<Part<'r>>> {
    let mut datasets: Vec<&str> = Vec::new();
    for run in &reproduction.runs {
        if !datasets.contains(&&*run.benchmark.dataset) {
            datasets.push(&run.benchmark.dataset);
        }
    }
    let (mut parts, mut absent) = (Vec::new(), Vec::new());
    for dataset in datasets {
        let of = |place: &usize| reproduction.runs[*place].benchmark.dataset == dataset;
        let places: Vec<usize> = (0..reproduction.runs.len()).filter(of).collect();
        let runs: Vec<RunConfig> = places.iter().map(|&place| reproduction.runs[place].clone()).collect();
        match RunTarget::TABLE.load(&runs, &args.machine.data_dir()) {
            Ok(source) => parts.push(Part { dataset, places, runs, source }),
            // What was asked for by name must be there.
            Err(error) if args.benchmark.is_empty() && is_absent(&error) => absent.push(error),
            Err(error) => return Err(error),
        }
    }
    if parts.is_empty() {
        return Err(absent.swap_remove(0));
    }
    for error in &absent {
        tell(format_args!("note: {error}; what needs it is not run"));
    }
    Ok(parts)
}

fn is_absent(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(RunError::Data(error)) if error.absent())
}

/// Says what will be done, and where the results go.
fn announce(args: &ReproduceArgs, reproduction: &Reproduction) {
    let names: Vec<&str> = reproduction.items.iter().map(|item| item.name).collect();
    let benchmarks: BTreeSet<&str> = reproduction.runs.iter().map(|run| &*run.benchmark.name).collect();
    let benchmarks: Vec<&str> = benchmarks.into_iter().collect();
    let runs = plural(reproduction.runs.len(), "different run");
    tell(format_args!(
        "{} on {}: {runs}, results in `{}`",
        names.join(", "),
        benchmarks.join(", "),
        args.out.display()
    ));
    for name in &reproduction.without {
        tell(format_args!("note: {} has no part on {name}", names.join(", ")));
    }
    if let Some(why) = reproduction.apart {
        tell(format_args!("warning: {why}: these numbers are not comparable with the paper's"));
    }
}

/// Does what is missing of one data set. Returns how many runs failed.
fn work(
    args: &ReproduceArgs,
    reproduction: &Reproduction,
    part: Part<'_>,
    records: &mut BTreeMap<usize, Record>,
) -> anyhow::Result<usize> {
    let Part { dataset, places, runs, source } = part;
    let folder = args.folder(dataset);
    let mut output = Output::open(&folder)?;
    let known = finished(&folder, &runs, &source)?;
    let todo: Vec<usize> = (0..runs.len()).filter(|index| !known.contains_key(index)).collect();
    let jobs = args.machine.jobs(todo.len());
    tell(format_args!("{dataset}: {} of {} to do, {jobs} at a time", todo.len(), plural(runs.len(), "run")));

    let entries = reproduction.entries();
    let mut labels = vec![String::new(); reproduction.runs.len()];
    for entry in &entries {
        for &place in &entry.runs {
            let seed = reproduction.runs[place].seed;
            labels[place] = format!("{} {} seed {seed}", entry.benchmark.name, entry.label);
        }
    }
    let labels: Vec<String> = places.iter().map(|&place| labels[place].clone()).collect();
    let measured = known.values().cloned().collect();
    records.extend(known.into_iter().map(|(index, record)| (places[index], record)));
    let mut failed = 0;
    let work = Work {
        runs: &runs,
        labels: labels.clone(),
        todo,
        measured,
        source: &source,
        jobs,
        checkpoints: None,
    };
    work.execute(&mut output, true, |progress, index, record| {
        match record {
            Ok(record) => drop(records.insert(places[index], record)),
            Err(error) => {
                progress.say(format_args!("{} failed: {error}", labels[index]));
                failed += 1;
            }
        }
        for entry in entries.iter().filter(|entry| entry.runs.contains(&places[index])) {
            if let Some(line) = result(reproduction, entry, records) {
                progress.say(line);
            }
        }
        Ok(())
    })?;
    Ok(failed)
}

/// A line about an entry, if all of its runs have ended.
fn result(reproduction: &Reproduction, entry: &Entry, records: &BTreeMap<usize, Record>) -> Option<String> {
    let found = reproduction.compare(entry, Measure::Accuracy, records);
    if found.ended < found.planned {
        return None;
    }
    let ours = found.ours.map_or("-".to_owned(), |ours| format!("{:.1} %", ours.mean));
    let diverged = if found.diverged > 0 { format!(", {} diverged", found.diverged) } else { String::new() };
    let paper =
        found.paper.map_or(String::new(), |paper| format!(", paper {:.1} %: {}", paper.mean, found.verdict));
    Some(format!("{} {}: {ours}{diverged}{paper}", entry.benchmark.name, entry.label))
}

/// Writes tables, figures and the page.
fn write(
    args: &ReproduceArgs,
    reproduction: &Reproduction,
    records: &BTreeMap<usize, Record>,
) -> anyhow::Result<()> {
    let snapshots = match run_folder::read(&[args.out.join("runs")]) {
        Ok(found) => found.snapshots,
        // All runs may have failed.
        Err(RecordError::NoFile { .. } | RecordError::Nothing { .. }) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let found = Records::with_snapshots(records.values().cloned().collect(), &snapshots);
    let mut report = Report::new("Hindsight Anchor Learning, reproduced", &found, Some(Paper::hal()));
    for item in &reproduction.items {
        let chapter = reproduction.chapter(item, records, &found.snapshots);
        let file = |end: &str| args.out.join(format!("{}.{end}", item.name));
        put(&file("md"), markdown(&chapter).as_bytes())?;
        if !chapter.tables.is_empty() {
            put(&file("csv"), reproduction.whole(item, records).csv().as_bytes())?;
            put(&file("tex"), latex(&chapter).as_bytes())?;
        }
        for figure in &chapter.figures {
            let file = |end: &str| args.out.join(format!("{}.{end}", figure.name));
            put(&file("svg"), figure.svg().as_bytes())?;
            put(&file("png"), &figure.png())?;
        }
        report.chapters.push(chapter);
    }
    put(&args.out.join("index.html"), html(&report).as_bytes())
}

fn markdown(chapter: &Chapter) -> String {
    let mut text = format!("# {}: {}\n", chapter.name, chapter.title);
    for table in &chapter.tables {
        text += &format!("\n## {}\n\n{}", table.title, table.markdown());
    }
    for figure in &chapter.figures {
        text += &format!("\n![{}]({}.svg)\n\n{}\n", figure.title, figure.name, figure.caption);
    }
    chapter.notes.iter().fold(text, |text, note| format!("{text}\n{note}\n"))
}

fn latex(chapter: &Chapter) -> String {
    let mut text = format!("% {}: {}\n", chapter.name, chapter.title);
    for table in &chapter.tables {
        text += &format!("\n% {}\n{}", table.title, table.latex());
    }
    chapter.notes.iter().fold(text, |text, note| format!("{text}% {note}\n"))
}

fn put(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    fs::write(path, bytes).with_context(|| cannot_write(path))
}
