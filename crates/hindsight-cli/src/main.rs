//! The command line of hindsight.

mod commands;

use std::{io, process::ExitCode};

use clap::{Parser, Subcommand};
use hindsight::{config::ConfigError, data::DataError, run::RunError};

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
    /// Run methods on a benchmark and compare them
    Run(commands::run::RunArgs),
    /// List the methods, or show one and its settings
    Methods(commands::methods::MethodsArgs),
    /// List the benchmarks and the settings that all runs share
    Benchmarks,
    /// List, fetch and verify data sets
    Data(commands::data::DataArgs),
    /// Print a completion script for a shell
    Completions(commands::completions::CompletionsArgs),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(args) => commands::run::execute(&args),
        Command::Methods(args) => commands::methods::execute(&args),
        Command::Benchmarks => commands::benchmarks::execute(),
        Command::Data(args) => commands::data::execute(&args),
        Command::Completions(args) => commands::completions::execute::<Cli>(&args),
    };
    result.unwrap_or_else(|error| {
        // A reader that has seen enough, such as `head`, is not a failure.
        let broken_pipe = |e: &io::Error| e.kind() == io::ErrorKind::BrokenPipe;
        if error.downcast_ref().is_some_and(broken_pipe) {
            return ExitCode::SUCCESS;
        }
        eprintln!("error: {error:#}");
        if let Some(hint) = hint(&error) {
            eprintln!("hint: {hint}");
        }
        ExitCode::from(2)
    })
}

fn hint(error: &anyhow::Error) -> Option<String> {
    let config = error.downcast_ref().and_then(ConfigError::hint);
    let data = || error.downcast_ref().and_then(DataError::hint);
    let run = || error.downcast_ref().and_then(RunError::hint);
    config.or_else(data).or_else(run)
}
