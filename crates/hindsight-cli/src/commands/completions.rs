//! `hindsight completions`: a completion script for a shell.

use std::process::ExitCode;

use clap::{Args, CommandFactory};

/// Print a completion script for a shell.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell, for example `bash`: `hindsight completions bash > ~/.local/share/bash-completion/completions/hindsight`
    shell: clap_complete::Shell,
}

/// Runs `hindsight completions`.
pub(crate) fn execute<C: CommandFactory>(args: &CompletionsArgs) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut C::command(), "hindsight", &mut script);
    std::io::Write::write_all(&mut std::io::stdout(), &script)?;
    Ok(ExitCode::SUCCESS)
}
