//! The command line of hindsight.

mod commands;

use std::{
    fmt::Display,
    io::{self, Write},
    process::ExitCode,
};

use clap::{Parser, Subcommand};
use commands::{
    output::{CannotWrite, InUse},
    run::NoPlan,
};
use hindsight::{
    config::ConfigError, data::DataError, run::RunError, run_folder::RecordError, sweep::SweepError,
};
use hindsight_report::reproduce::ReproduceError;

#[global_allocator]
static ALLOCATOR: hindsight::CacheAligned = hindsight::CacheAligned;

/// Continual learning you can trust, and that is fast.
///
/// Without data or settings, `hindsight run` compares finetune, ER-Ring and HAL on built-in digits.
#[derive(Debug, Parser)]
#[command(name = "hindsight", version, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run methods on a benchmark, or a stream of your own, and compare them
    Run(commands::run::RunArgs),
    /// Go on with runs that were stopped, from their last checkpoints
    Resume(commands::resume::ResumeArgs),
    /// Search for the best settings, on the tasks held apart for tuning
    Sweep(commands::sweep::SweepArgs),
    /// Run the paper's tables and figures again, and compare with its numbers
    Reproduce(commands::reproduce::ReproduceArgs),
    /// Make a page, tables and figures of records
    Report(commands::report::ReportArgs),
    /// List the methods, or show one and its settings
    Methods(commands::methods::MethodsArgs),
    /// List the benchmarks and the settings that all runs share
    Benchmarks,
    /// List, fetch and verify data sets, check streams of your own
    Data(commands::data::DataArgs),
    /// Print a completion script for a shell
    Completions(commands::completions::CompletionsArgs),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let result = match cli.command {
        Command::Run(args) => commands::run::execute(&args),
        Command::Resume(args) => commands::resume::execute(&args),
        Command::Sweep(args) => commands::sweep::execute(&args),
        Command::Reproduce(args) => commands::reproduce::execute(&args),
        Command::Report(args) => commands::report::execute(&args),
        Command::Methods(args) => commands::methods::execute(&args),
        Command::Benchmarks => commands::benchmarks::execute(),
        Command::Data(args) => commands::data::execute(&args),
        Command::Completions(args) => commands::completions::execute::<Cli>(&args),
    };
    result.unwrap_or_else(|error| ExitCode::from(fail(&error)))
}

/// Says what went wrong and returns the exit code for it.
fn fail(error: &anyhow::Error) -> u8 {
    // What has a path of its own says so; nothing else is written to but standard output.
    let output = error.downcast_ref::<io::Error>().filter(|_| !error.is::<CannotWrite>());
    match output.map(io::Error::kind) {
        // A reader that has seen enough, such as `head`, is not a failure.
        Some(io::ErrorKind::BrokenPipe) => return 0,
        Some(_) => tell(format_args!("error: cannot write to standard output: {error:#}")),
        None => tell(format_args!("error: {error:#}")),
    }
    if let Some(hint) = hint(error) {
        tell(format_args!("hint: {hint}"));
    }
    2
}

fn hint(error: &anyhow::Error) -> Option<String> {
    if let Some(io) = error.downcast_ref::<io::Error>() {
        let full = matches!(io.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        let hint = match (full, error.is::<CannotWrite>()) {
            (true, true) => {
                "make room and give the same command again, which keeps the records that are there; or choose \
                 another folder with `--out`"
            }
            (false, true) => "choose another folder with `--out`",
            (true, false) => "make room, or let it go to another place",
            (false, false) => "let it go to a file or a program that takes it",
        };
        return Some(hint.to_owned());
    }
    let run = error.downcast_ref().and_then(RunError::hint);
    let config = || error.downcast_ref().and_then(ConfigError::hint);
    let data = || error.downcast_ref().and_then(DataError::hint);
    let record = || error.downcast_ref().and_then(RecordError::hint);
    let sweep = || error.downcast_ref().and_then(SweepError::hint);
    let reproduce = || error.downcast_ref().and_then(ReproduceError::hint);
    let no_plan = || {
        error.is::<NoPlan>().then(|| "give the folder that `hindsight run` wrote to, under `runs`".to_owned())
    };
    let in_use =
        || error.is::<InUse>().then(|| "wait for it, or choose another folder with `--out`".to_owned());
    run.or_else(config)
        .or_else(data)
        .or_else(record)
        .or_else(sweep)
        .or_else(reproduce)
        .or_else(no_plan)
        .or_else(in_use)
}

/// Tells of wrong usage in the form of all other errors; help and version are none.
fn usage(error: &clap::Error) -> ExitCode {
    let text = error.render().to_string().replace('\'', "`");
    let mut paragraphs =
        text.split("\n\n").map(|lines| lines.split_whitespace().collect::<Vec<_>>().join(" "));
    match paragraphs.next() {
        Some(first) if first.starts_with("error: ") => {
            tell(&first);
            let tip = paragraphs.find_map(|line| Some(line.strip_prefix("tip: ")?.to_owned()));
            tell(format_args!("hint: {}", tip.as_deref().unwrap_or("`--help` tells what can be given here")));
        }
        _ => {
            if let Err(error) = error.print() {
                return ExitCode::from(fail(&error.into()));
            }
        }
    }
    ExitCode::from(error.exit_code() as u8)
}

/// Writes a line to standard error, where a reader that has gone away is no reason to stop.
fn tell(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}
