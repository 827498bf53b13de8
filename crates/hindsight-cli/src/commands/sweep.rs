//! `hindsight sweep`: a search over settings that can be stopped, continued and split.

use std::{
    collections::BTreeSet,
    fs,
    io::{self, Write, stdout},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context;
use clap::Args;
use hindsight::{
    Record,
    methods::METHODS,
    protocol::Status,
    record::RECORDS,
    sweep::{Point, Search, Shard, Standing, Sweep, SweepError, best_toml, table},
};
use hindsight_data::{atomic_file::AtomicFile, bounded_read::read_small};

use super::{
    experiment::{ExperimentArgs, Work},
    output::{Output, cannot_write, finished},
    plural,
};
use crate::tell;

/// Search for the best settings, on the tasks held apart for tuning.
#[derive(Debug, Args)]
#[command(after_help = "\
Every method is searched over the product of the lists that concern it. Records are written as runs end, and the \
same command continues where it stopped. In the end come a table from best to worst and, in the folder, \
`best-METHOD.toml` for each method and `best.toml` for all, which `hindsight run --config` takes.

Examples:
  hindsight sweep -m hal --grid hal.lambda=0.01,0.1,1 --grid slots=1,3 --seeds 3
  hindsight sweep -b permuted-mnist -m all --random 20
  hindsight sweep -m hal --out sweeps/hal --shard 1/4        one job of four, which share the folder
  hindsight sweep -m hal --out sweeps/hal                    what is missing, the table and the best")]
pub(crate) struct SweepArgs {
    #[command(flatten)]
    experiment: ExperimentArgs,
    /// Values to try, `hal.lambda=0.01,0.1`, or `paper`: the paper's for all keys without a list of their own
    /// [default: paper]
    #[arg(long, short, value_name = "KEY=VALUE,…")]
    grid: Vec<String>,
    /// Draw so many points of each method's grid instead of trying all
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    random: Option<u32>,
    /// Seed of that draw [default: 0]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32))]
    sweep_seed: Option<u32>,
    /// Search on the evaluated tasks: to see how much a setting matters, not to choose it
    #[arg(long)]
    evaluated: bool,
    /// Do only the i-th of n parts, in a folder of its own below that of the records
    #[arg(long, value_name = "I/N", allow_hyphen_values = true)]
    shard: Option<String>,
    /// Folder for the records [default: one under `runs`, the same for the same search]
    #[arg(long, short, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Continue a folder that another search is in; its records are kept
    #[arg(long)]
    force: bool,
    /// Print one JSON object per point, from best to worst, instead of a table
    #[arg(long)]
    json: bool,
}

impl SweepArgs {
    /// What the file says, then the flags.
    fn search(&self) -> anyhow::Result<Search> {
        let mut search =
            self.experiment.config.as_deref().map_or(Ok(Search::default()), Search::from_toml)?;
        search.overrides = self.experiment.overrides(search.overrides)?;
        for text in &self.grid {
            search.grid.add(text)?;
        }
        search.random = self.random.map(|count| count as usize).or(search.random);
        search.seed = self.sweep_seed.map_or(search.seed, u64::from);
        search.evaluated |= self.evaluated;
        Ok(search)
    }
}

/// Runs `hindsight sweep`.
pub(crate) fn execute(args: &SweepArgs) -> anyhow::Result<ExitCode> {
    let shard: Shard = args.shard.as_deref().map_or(Ok(Shard::WHOLE), str::parse)?;
    let mut search = args.search()?;
    let ground = args.experiment.ground(&mut search.overrides)?;
    let sweep = Sweep::resolve(&search, &ground.benchmarks, METHODS)?;
    let runs = sweep.runs();
    let source = ground.load(&runs, &args.experiment.machine.data_dir())?;
    let root = args.out.clone().unwrap_or_else(|| Path::new("runs").join(sweep.name()));
    define(&sweep, &root, args.force)?;
    // StateDict may run at once and on machines that share nothing but a file system; each has a file of its own.
    let folder = match shard {
        Shard::WHOLE => root.clone(),
        Shard { index, count } => root.join(format!("shard-{index}-of-{count}")),
    };
    let mut output = Output::open(&folder)?;
    let mut records = finished(&root, &runs, &source)?;
    let mine = |index: &usize| shard.has(*index);
    let todo: Vec<usize> =
        (0..runs.len()).filter(mine).filter(|index| !records.contains_key(index)).collect();
    let jobs = args.experiment.machine.jobs(todo.len());
    announce(&sweep, shard, todo.len(), jobs, &folder);

    let mut labels = Vec::new();
    let mut point_of = Vec::new();
    for (place, point) in sweep.points.iter().enumerate() {
        labels.extend(point.runs.iter().map(|run| format!("{} seed {}", point.label(), run.seed)));
        point_of.extend(point.runs.iter().map(|_| place));
    }
    let mut failed = BTreeSet::new();
    let measured = records.values().cloned().collect();
    let work = Work {
        runs: &runs,
        labels: labels.clone(),
        todo,
        measured,
        source: &source,
        jobs,
        checkpoints: None,
    };
    work.execute(&mut output, false, |progress, index, record| {
        match record {
            Ok(record) => drop(records.insert(index, record)),
            Err(error) => {
                progress.say(format_args!("{} failed: {error}", labels[index]));
                failed.insert(index);
            }
        }
        let standings = sweep.rank(&records, &failed);
        if let Some(line) = result(&standings, &sweep.points[point_of[index]]) {
            progress.say(line);
        }
        Ok(())
    })?;

    // Other parts may have ended in the meantime.
    if shard != Shard::WHOLE {
        records.extend(finished(&root, &runs, &source)?);
    }
    let standings = sweep.rank(&records, &failed);
    // First what is kept: a reader of the rest may have gone away.
    write_best(&sweep, &standings, &root)?;
    if args.json {
        for standing in &standings {
            writeln!(stdout(), "{}", serde_json::to_string(standing)?)?;
        }
    } else {
        write!(stdout(), "{}", table(&standings))?;
    }
    let diverged = |(index, record): (&usize, &Record)| mine(index) && record.status == Status::Diverged;
    let bad = !failed.is_empty() || records.iter().any(diverged);
    Ok(if bad { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// Writes down what a folder is a sweep of, or compares with what stands there.
fn define(sweep: &Sweep, root: &Path, force: bool) -> anyhow::Result<()> {
    let path = root.join("sweep.toml");
    match read_small(&path) {
        Ok(bytes) => {
            let differences = sweep.differences(&String::from_utf8_lossy(&bytes));
            if differences.is_empty() {
                return Ok(());
            }
            if !force {
                return Err(SweepError::Other { path, differences }.into());
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| cannot_write(&path)),
    }
    fs::create_dir_all(root).with_context(|| cannot_write(root))?;
    replace(&path, &sweep.definition())
}

/// Writes a file whole: other parts of the sweep may be reading it.
fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    AtomicFile::write(path, text).with_context(|| cannot_write(path))
}

/// Says what will be searched, with which settings, and where the records go.
fn announce(sweep: &Sweep, shard: Shard, todo: usize, jobs: usize, folder: &Path) {
    let mut methods = Vec::new();
    for points in sweep.points.chunk_by(|a, b| a.method.name == b.method.name) {
        methods.push(format!("{} ({})", points[0].method.name, plural(points.len(), "point")));
        let caution = |point: &Point| (point.method.caution)(&point.runs[0].method_settings);
        if let Some(caution) = points.iter().find_map(caution) {
            tell(format_args!("warning: {caution}"));
        }
    }
    for key in &sweep.idle {
        tell(format_args!("note: `{key}` is in the grid, but its method is not searched"));
    }
    let (seeds, all) = (sweep.points[0].runs.len(), sweep.points.iter().map(|point| point.runs.len()).sum());
    tell(format_args!("{}: {}, {}", sweep.benchmark.name, methods.join(", "), plural(seeds, "seed")));
    sweep.lines().iter().for_each(|line| tell(format_args!("  {line}")));
    let part = if shard == Shard::WHOLE { String::new() } else { format!(" in part {shard}") };
    tell(format_args!("{todo} of {} to do{part}, {jobs} at a time", plural(all, "run")));
    tell(format_args!("records: {}\n", folder.join(RECORDS).display()));
}

/// A line about a point, if all of its runs have ended.
fn result(standings: &[Standing<'_>], point: &Point) -> Option<String> {
    let standing = standings.iter().find(|standing| std::ptr::eq(standing.point, point))?;
    if standing.ended + standing.failed < standing.seeds {
        return None;
    }
    let of = standings.iter().filter(|s| s.point.method.name == point.method.name && s.rank.is_some());
    let accuracy = standing.accuracy.map_or("-".to_owned(), |accuracy| format!("{accuracy:.1} %"));
    let place = match standing.rank {
        Some(rank) => format!("place {rank} of {}", of.count()),
        None => standing.status(),
    };
    Some(format!("{}: {accuracy}, {place}", point.label()))
}

/// Writes the best of each method, and all of them together where they fit together.
fn write_best(sweep: &Sweep, standings: &[Standing<'_>], root: &Path) -> anyhow::Result<()> {
    let best: Vec<&Standing<'_>> = standings.iter().filter(|standing| standing.rank == Some(1)).collect();
    let methods: BTreeSet<&str> = sweep.points.iter().map(|point| point.method.name).collect();
    let tasks = if sweep.points[0].runs[0].shared.flag("tuning") { "tuning" } else { "evaluated" };
    let write = |name: &str, best: &[&Standing<'_>]| -> anyhow::Result<()> {
        let points: Vec<&Point> = best.iter().map(|standing| standing.point).collect();
        let Some(toml) = best_toml(&points) else { return Ok(()) };
        let mut text = format!("# Best of the sweep in {}, on the {tasks} tasks.\n", root.display());
        for standing in best {
            let (accuracy, points) = (standing.accuracy.unwrap_or_default(), standings.iter());
            let points = points.filter(|s| s.point.method.name == standing.point.method.name);
            let done = points.clone().filter(|s| s.ended == s.seeds).count();
            let label = standing.point.label();
            text += &format!("# {label}: {accuracy:.1} %, of {done} of {} points.\n", points.count());
        }
        replace(&root.join(name), &(text + &toml))
    };
    for standing in &best {
        let name = format!("best-{}.toml", standing.point.method.name);
        write(&name, &[standing])?;
        let label = standing.point.label();
        tell(format_args!("best: {label}; `hindsight run --config {}`", root.join(name).display()));
    }
    if !best.is_empty() && best.len() == methods.len() {
        write("best.toml", &best)?;
    } else {
        tell("no best of every method yet: a point counts when all of its seeds are done");
    }
    Ok(())
}
