//! One file per command.

pub(crate) mod benchmarks;
pub(crate) mod completions;
pub(crate) mod data;
mod experiment;
pub(crate) mod methods;
pub(crate) mod output;
mod progress;
pub(crate) mod report;
pub(crate) mod reproduce;
pub(crate) mod resume;
pub(crate) mod run;
pub(crate) mod sweep;

use std::io::{self, Write};

use hindsight::settings::{Family, Key};

/// Prints keys with their defaults and what they are, one paragraph each.
fn print_keys(out: &mut impl Write, prefix: &str, keys: &[Key]) -> io::Result<()> {
    for key in keys {
        let default = key.default_for(Family::Mnist);
        writeln!(out, "  {prefix}{} = {default}", key.name)?;
        writeln!(out, "      {}; {}", key.doc, key.kind)?;
        if !key.grid.is_empty() {
            writeln!(out, "      searched in the paper: {:?}", key.grid)?;
        }
    }
    Ok(())
}

/// A number of things.
fn plural(count: usize, thing: &str) -> String {
    let ending = match count {
        1 => "",
        _ if thing.ends_with('s') => "es",
        _ => "s",
    };
    format!("{count} {thing}{ending}")
}
