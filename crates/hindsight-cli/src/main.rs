//! The command line of hindsight.

#![forbid(unsafe_code)]

mod cluster;
mod commands;
mod estimate;
mod executor;
mod experiment;
mod failure;
mod messages;
mod model_file;
mod progress;
mod run_folder;
mod sample_reader;
mod signals;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: hindsight::CacheAligned = hindsight::CacheAligned;

/// Fast, reproducible continual learning.
///
/// Without arguments, `hindsight run` compares finetune, ER-Ring and HAL on built-in digits.
#[derive(Debug, Parser)]
#[command(name = "hindsight", version, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run methods on a benchmark or a custom stream, and compare them
    Run(commands::run::RunArgs),
    /// Compare methods within one budget of bytes, of updates or of training time
    Compare(commands::compare::CompareArgs),
    /// Learn from data as it comes, and save the model
    Learn(commands::learn::LearnArgs),
    /// Answer for the rows of a file with a model
    Predict(commands::predict::PredictArgs),
    /// Learn and answer line by line, for other programs
    Serve(commands::serve::ServeArgs),
    /// Show what a model is and what it has seen
    Inspect(commands::inspect::InspectArgs),
    /// Write a model as ONNX, for other programs
    Export(commands::export::ExportArgs),
    /// Resume stopped runs from their last checkpoints
    Resume(commands::resume::ResumeArgs),
    /// Search for the best settings, on the tuning tasks
    Sweep(commands::sweep::SweepArgs),
    /// Reproduce the paper's tables and figures, and compare with its numbers
    Reproduce(commands::reproduce::ReproduceArgs),
    /// Show how submitted runs stand: done, running and where, failed, left
    Status(commands::status::StatusArgs),
    /// Execute runs of a submitted folder, as one of several workers
    Worker(commands::worker::WorkerArgs),
    /// Write a page, tables and figures from records
    Report(commands::report::ReportArgs),
    /// List the methods, or show one and its settings
    Methods(commands::methods::MethodsArgs),
    /// List the benchmarks and the settings that all runs share
    Benchmarks,
    /// List, fetch and verify data sets, check custom streams
    Data(commands::data::DataArgs),
    /// Print a completion script for a shell
    Completions(commands::completions::CompletionsArgs),
}

fn main() -> ExitCode {
    signals::block_file_size_signal();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return failure::usage(&error),
    };
    execute(cli.command).unwrap_or_else(|error| ExitCode::from(failure::fail(&error)))
}

fn execute(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Run(args) => commands::run::execute(&args),
        Command::Compare(args) => commands::compare::execute(&args),
        Command::Learn(args) => commands::learn::execute(&args),
        Command::Predict(args) => commands::predict::execute(&args),
        Command::Serve(args) => commands::serve::execute(&args),
        Command::Inspect(args) => commands::inspect::execute(&args),
        Command::Export(args) => commands::export::execute(&args),
        Command::Resume(args) => commands::resume::execute(&args),
        Command::Sweep(args) => commands::sweep::execute(&args),
        Command::Reproduce(args) => commands::reproduce::execute(&args),
        Command::Status(args) => commands::status::execute(&args),
        Command::Worker(args) => {
            let (submitted, role) = args.launch()?;
            match Cli::try_parse_from(&submitted).map(|cli| cli.command) {
                Ok(Command::Run(args)) => commands::run::execute(&args.of_worker(role)),
                Ok(Command::Compare(args)) => commands::compare::execute(&args.of_worker(role)),
                Ok(Command::Sweep(args)) => commands::sweep::execute(&args.of_worker(role)),
                Ok(Command::Reproduce(args)) => commands::reproduce::execute(&args.of_worker(role)),
                Ok(_) => unreachable!("other commands are not submitted"),
                Err(error) => Ok(failure::usage(&error)),
            }
        }
        Command::Report(args) => commands::report::execute(&args),
        Command::Methods(args) => commands::methods::execute(&args),
        Command::Benchmarks => commands::benchmarks::execute(),
        Command::Data(args) => commands::data::execute(&args),
        Command::Completions(args) => commands::completions::execute::<Cli>(&args),
    }
}
