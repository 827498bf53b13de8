//! `hindsight run`: methods on a benchmark, over seeds, in parallel.

use std::{
    collections::BTreeMap,
    io::{Write, stdout},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use hindsight::{
    Record,
    config::{Experiment, Override},
    methods::METHODS,
    protocol::Status,
    record::RECORDS,
    report,
    settings::Value,
};

use super::{
    data::summary,
    experiment::{ExperimentArgs, Ground, Work},
    output::{Output, finished},
    plural,
};
use crate::tell;

/// Run methods on a benchmark and compare them.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    experiment: ExperimentArgs,
    /// Folder for the records; runs that have one there are not repeated [default: a new one under `runs`]
    #[arg(long, short, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one JSON object per finished run instead of a table
    #[arg(long)]
    json: bool,
}

/// Runs `hindsight run`.
pub(crate) fn execute(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let file = args.experiment.config.as_deref().map_or(Ok(Vec::new()), Override::from_toml)?;
    let mut overrides = args.experiment.overrides(file)?;
    let ground = args.experiment.ground(&mut overrides)?;
    let experiment = Experiment::resolve(&overrides, ground.benchmarks, METHODS)?;
    let runs = &experiment.runs;
    let source = args.experiment.machine.load(runs, &ground)?;
    let folder = match &args.out {
        Some(folder) => folder.clone(),
        None => Output::fresh(Path::new("runs"), experiment.benchmark.name)?,
    };
    let mut output = Output::open(&folder)?;
    let mut records = finished(&folder, runs, &source)?;
    let todo: Vec<usize> = (0..runs.len()).filter(|index| !records.contains_key(index)).collect();
    let jobs = args.experiment.machine.jobs(todo.len());
    if let Some(samples) = source.samples() {
        tell(format_args!("{}: {}", experiment.benchmark.name, summary(samples)));
    }
    announce(&experiment, &ground, jobs, &folder);

    if !records.is_empty() {
        let (known, all) = (records.len(), plural(runs.len(), "run"));
        tell(format_args!("note: {known} of {all} done already, in `{}`", folder.display()));
    }

    // Standard output keeps the order of the configuration, whichever run was faster.
    let mut shown = 0;
    let mut show = |records: &BTreeMap<usize, Record>| -> anyhow::Result<()> {
        while let Some(record) = records.get(&shown).filter(|_| args.json) {
            writeln!(stdout(), "{}", serde_json::to_string(record)?)?;
            shown += 1;
        }
        Ok(())
    };
    show(&records)?;
    let labels = runs.iter().map(|run| format!("{} seed {}", run.method.name, run.seed)).collect();
    let measured = records.values().cloned().collect();
    let work = Work { runs, labels, todo, measured, source: &source, jobs };
    work.execute(&mut output, true, |_, index, record| {
        records.insert(index, record?);
        show(&records)
    })?;

    let records: Vec<Record> = records.into_values().collect();
    if !args.json {
        write!(stdout(), "{}", report::table(&records))?;
        if let Some(reading) = report::reading(&records) {
            writeln!(stdout(), "\n{reading}")?;
        }
    }
    let diverged = records.iter().any(|record| record.status == Status::Diverged);
    Ok(if diverged { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// Says what will run, with which settings, and where the records go.
fn announce(experiment: &Experiment, ground: &Ground, jobs: usize, folder: &Path) {
    let mut settings: BTreeMap<String, Value> = BTreeMap::new();
    let mut methods: Vec<&str> = Vec::new();
    let mut seeds = 0;
    for run in &experiment.runs {
        settings.extend(run.effective());
        if !methods.contains(&run.method.name) {
            methods.push(run.method.name);
            if let Some(caution) = (run.method.caution)(&run.own) {
                tell(format_args!("warning: {caution}"));
            }
            if let Some(caution) = ground.caution(run.method) {
                tell(format_args!("note: {}: {caution}", run.method.name));
            }
        }
        seeds = seeds.max(run.seed + 1);
    }
    tell(format_args!(
        "{}: {}, {}, {} at a time",
        experiment.benchmark.name,
        methods.join(", "),
        plural(seeds as usize, "seed"),
        plural(jobs, "run")
    ));
    for (key, value) in settings {
        tell(format_args!("  {key} = {value}"));
    }
    tell(format_args!("records: {}\n", folder.join(RECORDS).display()));
}
