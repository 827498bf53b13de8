//! `hindsight report`: what records say, as one page, tables and figures.

use std::{
    fs,
    io::{Write, stdout},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context;
use clap::Args;
use hindsight::run_folder;
use hindsight_report::{Paper, Report, file_name, html};

use super::output::cannot_write;
use crate::tell;

/// Make a page, tables and figures of records.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Files of records, or folders with some: `runs`, `runs/0001-permuted-digits`
    #[arg(value_name = "RECORDS", required = true)]
    records: Vec<PathBuf>,
    /// Folder for the report; files of an earlier one are replaced
    #[arg(long, short, value_name = "DIR", default_value = "report")]
    out: PathBuf,
    /// Heading of the page
    #[arg(long, value_name = "TEXT", default_value = "Continual learning, compared")]
    title: String,
}

/// Runs `hindsight report`.
pub(crate) fn execute(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let records = run_folder::read(&args.records)?;
    for note in &records.notes {
        tell(format_args!("warning: {note}"));
    }
    let report = Report::new(&args.title, &records, Some(Paper::hal()));
    let mut files = 0;
    let mut write = |path: PathBuf, bytes: &[u8]| -> anyhow::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).with_context(|| cannot_write(folder))?;
        files += 1;
        fs::write(&path, bytes).with_context(|| cannot_write(&path))
    };
    for section in &report.sections {
        for table in &section.tables {
            let name = format!("{}-{}", file_name(section.benchmark), table.name);
            let path = |end: &str| args.out.join("tables").join(format!("{name}.{end}"));
            write(path("md"), table.markdown().as_bytes())?;
            write(path("csv"), table.csv().as_bytes())?;
            write(path("tex"), table.latex().as_bytes())?;
        }
        for figure in &section.figures {
            let path = |end: &str| args.out.join("figures").join(format!("{}.{end}", figure.name));
            write(path("svg"), figure.svg().as_bytes())?;
            write(path("png"), &figure.png())?;
        }
    }
    let page = args.out.join("index.html");
    write(page.clone(), html(&report).as_bytes())?;
    for section in &report.sections {
        for reading in &section.summaries {
            writeln!(stdout(), "{}: {reading}", section.benchmark)?;
        }
    }
    let runs = records.records.len();
    let plural = if runs == 1 { "" } else { "s" };
    writeln!(stdout(), "{}: {runs} run{plural}, {} more files beside it", page.display(), files - 1)?;
    Ok(ExitCode::SUCCESS)
}
