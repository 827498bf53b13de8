//! `hindsight completions`: a completion script for a shell.

use std::{
    io::{Write, stdout},
    process::ExitCode,
};

use clap::{Args, Command, CommandFactory, builder::PossibleValuesParser};
use hindsight::{benchmarks::BENCHMARKS, data::DATASETS, methods::METHODS};
use hindsight_report::reproduce;

/// Print a completion script for a shell.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell, for example `bash`: `hindsight completions bash >
    /// ~/.local/share/bash-completion/completions/hindsight`
    shell: clap_complete::Shell,
}

/// Runs `hindsight completions`.
pub(crate) fn execute<C: CommandFactory>(args: &CompletionsArgs) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut with_names(C::command()), "hindsight", &mut script);
    stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// Adds the names of methods, benchmarks and the like, which the commands check themselves: their messages
/// suggest the nearest name.
fn with_names(command: Command) -> Command {
    let methods = || METHODS.iter().map(|method| method.name);
    let benchmarks = || BENCHMARKS.iter().map(|benchmark| &*benchmark.name);
    let values = |command: Command, id: &str, names: Vec<&'static str>| {
        command.mut_arg(id, |arg| arg.value_parser(PossibleValuesParser::new(names)))
    };
    let experiment = |command: Command| {
        let command = values(command, "method", methods().chain(["all"]).collect());
        values(command, "benchmark", benchmarks().collect())
    };
    let datasets = || DATASETS.iter().map(|dataset| dataset.name).collect();
    command
        .mut_subcommand("run", experiment)
        .mut_subcommand("sweep", experiment)
        .mut_subcommand("reproduce", |command| {
            values(experiment(command), "names", reproduce::names().chain(["all"]).collect())
        })
        .mut_subcommand("methods", |command| values(command, "method", methods().collect()))
        .mut_subcommand("data", |command| {
            command
                .mut_subcommand("fetch", |command| values(command, "names", datasets()))
                .mut_subcommand("verify", |command| values(command, "names", datasets()))
        })
}
