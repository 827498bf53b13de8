//! `hindsight benchmarks`: the table of benchmarks and the settings that all runs share.

use std::{
    io::{Write, stdout},
    process::ExitCode,
};

use hindsight::{benchmarks::BENCHMARKS, config::SHARED};

/// Runs `hindsight benchmarks`.
pub(crate) fn execute() -> anyhow::Result<ExitCode> {
    let mut out = stdout().lock();
    let width = BENCHMARKS.iter().map(|benchmark| benchmark.name.len()).max().unwrap_or(0);
    for benchmark in BENCHMARKS {
        writeln!(out, "{:<width$}  {}", benchmark.name, benchmark.summary)?;
    }
    writeln!(out, "\na custom stream takes the place of a benchmark with `--stream FILE`: docs/streams.md")?;
    writeln!(out, "\nsettings of every run, with their defaults (set with `--set KEY=VALUE`):")?;
    super::print_keys(&mut out, "", SHARED)?;
    for benchmark in BENCHMARKS.iter().filter(|benchmark| !benchmark.keys.is_empty()) {
        writeln!(out, "\nsettings of {} only:", benchmark.name)?;
        super::print_keys(&mut out, "", benchmark.keys)?;
    }
    Ok(ExitCode::SUCCESS)
}
