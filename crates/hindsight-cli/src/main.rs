//! The command line of hindsight.

mod commands;
mod estimate;
mod executor;
mod experiment;
mod failure;
mod messages;
mod progress;
mod run_folder;

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
    /// Resume stopped runs from their last checkpoints
    Resume(commands::resume::ResumeArgs),
    /// Search for the best settings, on the tuning tasks
    Sweep(commands::sweep::SweepArgs),
    /// Reproduce the paper's tables and figures, and compare with its numbers
    Reproduce(commands::reproduce::ReproduceArgs),
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
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return failure::usage(&error),
    };
    let result = match cli.command {
        Command::Run(args) => commands::run::execute(&args),
        Command::Compare(args) => commands::compare::execute(&args),
        Command::Resume(args) => commands::resume::execute(&args),
        Command::Sweep(args) => commands::sweep::execute(&args),
        Command::Reproduce(args) => commands::reproduce::execute(&args),
        Command::Report(args) => commands::report::execute(&args),
        Command::Methods(args) => commands::methods::execute(&args),
        Command::Benchmarks => commands::benchmarks::execute(),
        Command::Data(args) => commands::data::execute(&args),
        Command::Completions(args) => commands::completions::execute::<Cli>(&args),
    };
    result.unwrap_or_else(|error| ExitCode::from(failure::fail(&error)))
}
