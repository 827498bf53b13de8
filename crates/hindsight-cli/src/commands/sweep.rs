//! `hindsight sweep`: a search over settings that can be stopped, resumed and split into shards.

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
    checkpoint::Checkpoints,
    methods::METHODS,
    protocol::Status,
    record::RECORDS,
    sweep::{GridPoint, Search, Shard, Standing, Sweep, SweepError, best_toml},
};
use hindsight_data::{atomic_file::AtomicFile, bounded_read::read_small};
use hindsight_report::{plural, sweep_table};

use super::worker::WorkerRole;
use crate::{
    cluster::{Mode, Submission, Worked, Worker, left_to_jobs, planned},
    executor::Executor,
    experiment::ExperimentArgs,
    failure::FolderError,
    messages::{inform, printable, tell},
    run_folder::{RunFolder, cannot_write, finished_slim, is_locked},
};

/// The file that defines the search of a folder.
const DEFINITION: &str = "sweep.toml";

/// Search for the best settings, on the tuning tasks.
#[derive(Debug, Args)]
#[command(after_help = "\
Every method is searched over the product of the value lists of its own and the shared keys. Records are written as \
runs end, and the same command continues where it stopped. The result is a table from best to worst and, in the \
folder, `best-METHOD.toml` for each method and `best.toml` for all, for `hindsight run --config`.

Examples:
  hindsight sweep -m hal --grid hal.lambda=0.01,0.1,1 --grid slots=1,3 --seeds 3
  hindsight sweep -b permuted-mnist -m all --random 20
  hindsight sweep -m hal --out sweeps/hal --shard 1/4        one of four jobs that share the folder
  hindsight sweep -m hal --out sweeps/hal                    what is missing, and the results
  hindsight sweep -m hal --out sweeps/hal --on slurm --slurm time=01:00:00    as a job array")]
pub(crate) struct SweepArgs {
    #[command(flatten)]
    experiment: ExperimentArgs,
    /// Values to try, `hal.lambda=0.01,0.1`, or `paper`: the paper's grid for all keys that have no list of
    /// values [default: paper]
    #[arg(long, short, value_name = "KEY=VALUE,…")]
    grid: Vec<String>,
    /// Try N random points of each method's grid instead of all
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    random: Option<u32>,
    /// Seed of `--random` [default: 0]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32))]
    sweep_seed: Option<u32>,
    /// Search on the evaluated tasks instead of the tuning tasks: to see how much a setting matters, not to
    /// choose it
    #[arg(long)]
    evaluated: bool,
    /// Execute only the I-th of N shards, in its own subfolder
    #[arg(long, value_name = "I/N", allow_hyphen_values = true, conflicts_with = "on")]
    shard: Option<String>,
    /// Folder of the records [default: one under `runs`, the same for the same search]
    #[arg(long, short, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Use a folder that has another search; its records are kept
    #[arg(long)]
    force: bool,
    /// Print one JSON object per point, from best to worst, instead of a table
    #[arg(long)]
    json: bool,
}

impl SweepArgs {
    /// The same command, as one of the workers that execute it.
    pub(crate) fn of_worker(mut self, role: WorkerRole) -> SweepArgs {
        self.out = Some(role.folder);
        self.experiment.machine = role.machine;
        self.experiment.launch.become_worker(role.share);
        self
    }

    /// The search that the file and, with precedence, the flags define.
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
    args.experiment.verbosity.apply();
    let shard: Shard = args.shard.as_deref().map_or(Ok(Shard::WHOLE), str::parse)?;
    let mut search = args.search()?;
    let target = args.experiment.target(&mut search.overrides)?;
    let sweep = Sweep::resolve(&search, &target.benchmarks, METHODS)?;
    let runs = sweep.runs();
    let source = target.load(&runs, &args.experiment.machine.data_dir())?;
    let root = args.out.clone().unwrap_or_else(|| Path::new("runs").join(sweep.name()));
    let launch = &args.experiment.launch;
    let mode = launch.mode(&root);
    // Shards may run at the same time, on machines that share only a file system: each has its own folder.
    let folder = match shard {
        Shard::WHOLE => root.clone(),
        Shard { index, count } => root.join(format!("shard-{index}-of-{count}")),
    };
    let replace_other = args.force && !matches!(mode, Mode::Worker(_));
    check_definition(&sweep, &root, replace_other)?;
    let mut labels = Vec::new();
    let mut point_of = Vec::new();
    for (place, point) in sweep.points.iter().enumerate() {
        labels.extend(point.runs.iter().map(|run| format!("{} seed {}", point.label(), run.seed)));
        point_of.extend(point.runs.iter().map(|_| place));
    }
    let mut worked = Worked::default();
    match mode {
        Mode::Execute | Mode::Results => {}
        Mode::Submit => {
            let done = finished_slim(&root, &runs, &source)?;
            if !launch.is_dry_run() {
                fs::create_dir_all(&root).with_context(|| cannot_write(&root))?;
                write_definition(&sweep, &root, args.force, &root)?;
            }
            let measured: Vec<Record> = done.values().cloned().collect();
            let show = launch.submit(Submission {
                root: &root,
                name: &sweep.benchmark.name,
                data_dir: &args.experiment.machine.data_dir(),
                jobs: args.experiment.machine.worker_jobs(),
                runs: planned(&runs, &labels, &measured, |index| done.contains_key(&index)),
                data: vec![source.checksum().to_owned()],
            })?;
            if !show {
                return Ok(ExitCode::SUCCESS);
            }
        }
        Mode::Worker(share) | Mode::TakePart(share) => {
            let checkpoints = Checkpoints {
                folder: root.join("checkpoints"),
                every: 0,
                interval: Some(launch.checkpoint_interval()),
                keep: 1,
                stop: Worker::stop_flag()?,
                models: None,
            };
            let jobs = args.experiment.machine.jobs(runs.len());
            let (root, folder, runs, source) = (&*root, &*root, &*runs, &source);
            let worker =
                Worker { root, folder, runs, source, share, jobs, details: false, checkpoints, keep: false };
            worked = worker.work()?;
            if let Mode::Worker(_) = mode {
                return Ok(ExitCode::from(worked.code()));
            }
        }
    }
    let mut run_folder = RunFolder::open(&folder)?;
    write_definition(&sweep, &root, args.force, &folder)?;
    let mut records = finished_slim(&root, &runs, &source)?;
    let here = matches!(mode, Mode::Execute);
    let mine = |index: &usize| shard.has(*index);
    let todo: Vec<usize> =
        (0..runs.len()).filter(mine).filter(|index| here && !records.contains_key(index)).collect();
    let jobs = args.experiment.machine.jobs(todo.len());
    if here {
        announce(&sweep, shard, todo.len(), jobs, &folder);
    }

    let mut failed = BTreeSet::new();
    let measured = if todo.is_empty() { Vec::new() } else { records.values().cloned().collect() };
    let executor = Executor {
        runs: &runs,
        labels: labels.clone(),
        todo,
        measured,
        source: &source,
        jobs,
        checkpoints: None,
    };
    executor.execute(&mut run_folder, false, |progress, index, record| {
        match record {
            Ok(record) => drop(records.insert(index, record)),
            Err(error) => {
                progress.warn(format_args!("{} failed: {error}", labels[index]));
                failed.insert(index);
            }
        }
        let standings = sweep.rank(&records, &failed);
        if let Some(line) = result(&standings, &sweep.points[point_of[index]]) {
            progress.say(line);
        }
        Ok(())
    })?;

    // Other shards may have finished runs in the meantime.
    if shard != Shard::WHOLE {
        records.extend(finished_slim(&root, &runs, &source)?);
    }
    let standings = sweep.rank(&records, &failed);
    // Files first: standard output may be closed.
    write_best(&sweep, &standings, &root)?;
    if args.json {
        for standing in &standings {
            writeln!(stdout(), "{}", serde_json::to_string(standing)?)?;
        }
    } else {
        write!(stdout(), "{}", printable(&sweep_table(&standings)))?;
    }
    if !here {
        left_to_jobs(&root, records.len(), runs.len());
    }
    let diverged = |(index, record): (&usize, &Record)| mine(index) && record.status == Status::Diverged;
    let bad = !failed.is_empty() || worked.failed > 0 || records.iter().any(diverged);
    Ok(if bad { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// Whether `sweep.toml` is that of this sweep; false if there is none, or another that `--force` replaces.
fn check_definition(sweep: &Sweep, root: &Path, force: bool) -> anyhow::Result<bool> {
    let path = root.join(DEFINITION);
    match read_small(&path) {
        Ok(bytes) => match sweep.differences(&String::from_utf8_lossy(&bytes)) {
            same if same.is_empty() => Ok(true),
            _ if force => Ok(false),
            differences => Err(SweepError::Other { path, differences }.into()),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).with_context(|| cannot_write(&path)),
    }
}

/// Writes `sweep.toml`, once this process has the lock of its folder. Another definition is replaced only
/// while no other shard runs.
fn write_definition(sweep: &Sweep, root: &Path, force: bool, own: &Path) -> anyhow::Result<()> {
    if check_definition(sweep, root, force)? {
        return Ok(());
    }
    if force {
        let entries = root.read_dir().with_context(|| cannot_write(root))?.flatten();
        let folders = entries.map(|entry| entry.path()).chain([root.to_owned()]);
        if let Some(folder) = folders.filter(|folder| folder != own).find(|folder| is_locked(folder)) {
            return Err(FolderError::InUse(folder).into());
        }
    }
    replace(&root.join(DEFINITION), &sweep.definition())
}

/// Replaces a file atomically: other shards may be reading it.
fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    AtomicFile::write(path, text).with_context(|| cannot_write(path))
}

/// Announces what will be searched, with which settings, and where the records go.
fn announce(sweep: &Sweep, shard: Shard, todo: usize, jobs: usize, folder: &Path) {
    let mut methods = Vec::new();
    for points in sweep.points.chunk_by(|a, b| a.method.name == b.method.name) {
        methods.push(format!("{} ({})", points[0].method.name, plural(points.len(), "point")));
        let caution = |point: &GridPoint| (point.method.caution)(&point.runs[0].method_settings);
        if let Some(caution) = points.iter().find_map(caution) {
            tell(format_args!("warning: {caution}"));
        }
    }
    for key in &sweep.idle {
        inform(format_args!("note: `{key}` is in the grid, but its method is not searched"));
    }
    let (seeds, all) = (sweep.points[0].runs.len(), sweep.points.iter().map(|point| point.runs.len()).sum());
    inform(format_args!("{}: {}, {}", sweep.benchmark.name, methods.join(", "), plural(seeds, "seed")));
    sweep.lines().iter().for_each(|line| inform(format_args!("  {line}")));
    let part = if shard == Shard::WHOLE { String::new() } else { format!(" in shard {shard}") };
    inform(format_args!("{todo} of {} to do{part}, {jobs} at a time", plural(all, "run")));
    inform(format_args!("records: {}\n", folder.join(RECORDS).display()));
}

/// The result of a point, once all of its runs have ended.
fn result(standings: &[Standing<'_>], point: &GridPoint) -> Option<String> {
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

/// Writes the best settings of each method, and of all methods in one file where they agree on shared
/// settings.
fn write_best(sweep: &Sweep, standings: &[Standing<'_>], root: &Path) -> anyhow::Result<()> {
    let best: Vec<&Standing<'_>> = standings.iter().filter(|standing| standing.rank == Some(1)).collect();
    let methods: BTreeSet<&str> = sweep.points.iter().map(|point| point.method.name).collect();
    let tasks = if sweep.points[0].runs[0].shared.flag("tuning") { "tuning" } else { "evaluated" };
    let write = |name: &str, best: &[&Standing<'_>]| -> anyhow::Result<()> {
        let points: Vec<&GridPoint> = best.iter().map(|standing| standing.point).collect();
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
        inform(format_args!("best: {label}; `hindsight run --config {}`", root.join(name).display()));
    }
    if !best.is_empty() && best.len() == methods.len() {
        write("best.toml", &best)?;
    } else {
        inform("note: no `best.toml` yet: a point is ranked when all of its seeds have ended");
    }
    Ok(())
}
