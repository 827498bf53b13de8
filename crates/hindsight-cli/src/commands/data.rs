//! `hindsight data`: lists, fetches and verifies data sets.

use std::{
    io::{Write, stdout},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use clap::{Args, Subcommand};
use hindsight::data::{
    DATASETS, DataError, Info, data_dir,
    fetch::{Progress, Status, check, fetch},
    find, folder, info,
};
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};

/// List, fetch and verify data sets.
#[derive(Debug, Args)]
pub(crate) struct DataArgs {
    #[command(subcommand)]
    command: Command,
    /// Where data sets are [default: `HINDSIGHT_DATA`, or the user's cache directory]
    #[arg(long, value_name = "DIR", global = true)]
    data_dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show every data set and where it was found
    List,
    /// Download data sets and check them against the originals
    Fetch {
        /// Data sets to fetch [default: all]
        #[arg(value_name = "NAME")]
        names: Vec<String>,
    },
    /// Tell whether the files in place are the originals; exit code 1 if any is not
    Verify {
        /// Data sets to verify [default: all]
        #[arg(value_name = "NAME")]
        names: Vec<String>,
    },
}

/// Runs `hindsight data`.
pub(crate) fn execute(args: &DataArgs) -> anyhow::Result<ExitCode> {
    let dir = data_dir(args.data_dir.as_deref());
    match &args.command {
        Command::List => list(&dir),
        Command::Fetch { names } => fetch_all(&chosen(names)?, &dir),
        Command::Verify { names } => verify(&chosen(names)?, &dir),
    }
}

/// The data sets of these names, checked before any work begins; all if there are none.
fn chosen(names: &[String]) -> Result<Vec<&'static Info>, DataError> {
    if names.is_empty() {
        return Ok(DATASETS.iter().collect());
    }
    names.iter().map(|name| info(name)).collect()
}

fn list(dir: &Path) -> anyhow::Result<ExitCode> {
    let mut out = stdout().lock();
    for info in &DATASETS {
        writeln!(out, "{:<8} {}", info.name, info.summary)?;
        writeln!(out, "{:<8} {}", "", place(info, dir)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn place(info: &Info, dir: &Path) -> std::io::Result<String> {
    if info.files.is_empty() {
        return Ok("built in".into());
    }
    let folder = folder(dir, info.name, info.files);
    let mut bytes = 0;
    for file in info.files {
        match find(&folder, file) {
            Some(path) => bytes += path.metadata()?.len(),
            None => {
                return Ok(format!("not found: no `{}` in `{}`", file.name, folder.display()));
            }
        }
    }
    Ok(format!("in `{}`, {}", folder.display(), HumanBytes(bytes)))
}

fn fetch_all(infos: &[&Info], dir: &Path) -> anyhow::Result<ExitCode> {
    let mut out = stdout().lock();
    for info in infos {
        if info.files.is_empty() {
            writeln!(out, "{}: built in, nothing to fetch", info.name)?;
            continue;
        }
        // Draws on stderr, and only if that is a terminal.
        let bar = ProgressBar::no_length();
        bar.enable_steady_tick(Duration::from_millis(100));
        let fetched = fetch(info.name, dir, &mut |progress| show(&bar, &progress));
        bar.finish_and_clear();
        let fetched = fetched?;
        let place = fetched.folder.display();
        let (new, kept) = (fetched.new, fetched.kept);
        writeln!(out, "{}: {new} files fetched, {kept} already in `{place}`", info.name)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn show(bar: &ProgressBar, progress: &Progress) {
    bar.set_position(progress.bytes);
    if progress.bytes == 0 || progress.total != bar.length() {
        let template = match progress.total {
            Some(_) => "{spinner} {bar:20} {bytes}/{total_bytes}, {eta} to go  {wide_msg}",
            None => "{spinner} {bytes}  {wide_msg}",
        };
        bar.set_style(ProgressStyle::with_template(template).expect("a constant template"));
        bar.set_message(format!("{} from {}", progress.file, progress.source));
        match progress.total {
            Some(total) => bar.set_length(total),
            None => bar.unset_length(),
        }
    }
}

fn verify(infos: &[&Info], dir: &Path) -> anyhow::Result<ExitCode> {
    let mut out = stdout().lock();
    let mut code = ExitCode::SUCCESS;
    for info in infos {
        if info.files.is_empty() {
            writeln!(out, "{}: built in, nothing to verify", info.name)?;
            continue;
        }
        let folder = folder(dir, info.name, info.files);
        writeln!(out, "{} in `{}`", info.name, folder.display())?;
        for file in info.files {
            let (verdict, detail) = match check(file, &folder) {
                Ok(Status::Original(_)) => ("original", file.sha256.to_string()),
                Ok(Status::Different { sha256, .. }) => ("different", sha256),
                Ok(Status::Missing) => ("missing", String::new()),
                Err(error) => ("unreadable", error.to_string()),
            };
            let line = format!("  {:<24} {verdict:<10} {detail}", file.name);
            writeln!(out, "{}", line.trim_end())?;
            if verdict != "original" {
                code = ExitCode::FAILURE;
            }
        }
    }
    Ok(code)
}
