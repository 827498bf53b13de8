//! `hindsight benchmarks`: the benchmarks, and the settings that all runs share.

use std::{
    io::{self, Write, stdout},
    process::ExitCode,
};

use hindsight::{
    benchmarks::{BENCHMARKS, Benchmark},
    config::SHARED,
    settings::{Family, Key},
};

use super::keys::print_keys;

/// Runs `hindsight benchmarks`.
pub(crate) fn execute() -> anyhow::Result<ExitCode> {
    let mut out = stdout().lock();
    let width = BENCHMARKS.iter().map(|benchmark| benchmark.name.len()).max().unwrap_or(0);
    for benchmark in BENCHMARKS {
        writeln!(out, "{:<width$}  {}", benchmark.name, benchmark.summary)?;
    }
    writeln!(out, "\n`--stream FILE` takes a custom stream in place of a benchmark: docs/streams.md")?;
    writeln!(out, "\nsettings of every run, with their defaults (set with `--set KEY=VALUE`):")?;
    print_keys(&mut out, "", SHARED)?;
    for benchmark in BENCHMARKS {
        print_differences(&mut out, benchmark)?;
        if !benchmark.keys.is_empty() {
            writeln!(out, "\nsettings of {} only:", benchmark.name)?;
            print_keys(&mut out, "", &own_keys(benchmark))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The settings that a benchmark has for itself, with the defaults that it uses.
fn own_keys(benchmark: &Benchmark) -> Vec<Key> {
    let with_default = |key: &Key| {
        let own = benchmark.defaults.iter().find(|(name, _)| *name == key.name);
        let default = own.map_or_else(|| key.default.clone(), |(_, value)| [(); 3].map(|()| value.clone()));
        Key { default, ..key.clone() }
    };
    benchmark.keys.iter().map(with_default).collect()
}

/// Prints the shared settings whose default on this benchmark is not the one listed for all.
fn print_differences(out: &mut impl Write, benchmark: &Benchmark) -> io::Result<()> {
    let mut changed = Vec::new();
    for key in SHARED {
        let own = benchmark.defaults.iter().find(|(name, _)| *name == key.name);
        let default = own.map_or_else(|| key.default_for(benchmark.family), |(_, value)| value);
        if default != key.default_for(Family::Mnist) {
            changed.push(format!("{} = {default}", key.name));
        }
    }
    if changed.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nother defaults of {}: {}", benchmark.name, changed.join(", "))
}
