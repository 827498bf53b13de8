//! `hindsight methods`: the table of methods, and one method's settings.

use std::{
    io::{Write, stdout},
    process::ExitCode,
};

use clap::Args;
use hindsight::{
    benchmarks::BENCHMARKS,
    config::{Experiment, Override},
    methods::METHODS,
    settings::Value,
};
use hindsight_report as report;

/// List the methods, or show one and its settings.
#[derive(Debug, Args)]
pub(crate) struct MethodsArgs {
    /// Print the whole reference as Markdown
    #[arg(long, conflicts_with = "method")]
    markdown: bool,
    /// A method to show with all its settings
    method: Option<String>,
}

/// Runs `hindsight methods`.
pub(crate) fn execute(args: &MethodsArgs) -> anyhow::Result<ExitCode> {
    let mut out = stdout().lock();
    if args.markdown {
        write!(out, "{}", report::reference(METHODS))?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(name) = &args.method else {
        let width = METHODS.iter().map(|method| method.name.len()).max().unwrap_or(0);
        for method in METHODS {
            writeln!(out, "{:<width$}  {}", method.name, method.summary)?;
        }
        writeln!(out, "\n`hindsight methods NAME` shows a method's settings")?;
        return Ok(ExitCode::SUCCESS);
    };
    // Resolving is what names the nearest method when this one does not exist.
    let key = Override { key: "method".to_owned(), value: Value::Text(name.clone().into()) };
    for chosen in Experiment::resolve(&[key], BENCHMARKS, METHODS)?.methods {
        let method = chosen.method;
        writeln!(out, "{}: {}\nfrom {}\n", method.title, method.summary, method.paper)?;
        writeln!(
            out,
            "settings, with their defaults on MNIST (set with `--set {}.KEY=VALUE`):",
            method.name
        )?;
        super::print_keys(&mut out, &format!("{}.", method.name), method.keys)?;
        for (preset, values) in method.presets.iter().filter(|(_, values)| !values.is_empty()) {
            let values: Vec<String> = values.iter().map(|(key, value)| format!("{key} = {value}")).collect();
            writeln!(out, "\npreset `{preset}` sets {}", values.join(", "))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
