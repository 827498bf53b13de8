//! `hindsight data`: lists, fetches and verifies data sets, and checks custom streams.

use std::{
    collections::BTreeSet,
    io::{Write, stdout},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use clap::{Args, Subcommand};
use hindsight::{
    Rng,
    custom_stream::{self, CustomTasks},
    data::{
        self, DATASETS, DEFAULT_IMAGE_SIZE, DataError, Dataset, Info, Options, Origin, Published, Samples,
        data_dir,
        fetch::{FetchProgress, FileStatus, check, fetch},
        find,
        image_folder::ImageFolder,
        info,
    },
};
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};

use hindsight_report::plural;

use crate::messages::printable;

/// List, fetch and verify data sets, check custom streams.
#[derive(Debug, Args)]
pub(crate) struct DataArgs {
    #[command(subcommand)]
    command: DataCommand,
    /// Folder of the data sets [default: `HINDSIGHT_DATA`, or the user's cache directory]
    #[arg(long, value_name = "DIR", global = true)]
    data_dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum DataCommand {
    /// Show every data set and where it was found
    List,
    /// Download data sets and check them against the originals
    Fetch {
        /// Data sets to fetch [default: all]
        #[arg(value_name = "NAME")]
        names: Vec<String>,
    },
    /// Check the files against the originals' checksums, and that all images can be decoded; exit code 1 if
    /// not
    Verify {
        /// Data sets to verify [default: all]
        #[arg(value_name = "NAME")]
        names: Vec<String>,
    },
    /// Read a custom stream and print its tasks
    Check {
        /// The TOML file that describes it, see docs/streams.md
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

/// Runs `hindsight data`.
pub(crate) fn execute(args: &DataArgs) -> anyhow::Result<ExitCode> {
    let dir = data_dir(args.data_dir.as_deref());
    match &args.command {
        DataCommand::List => list(&dir),
        DataCommand::Fetch { names } => fetch_all(&chosen(names)?, names.is_empty(), &dir),
        DataCommand::Verify { names } => verify(&chosen(names)?, names.is_empty(), &dir),
        DataCommand::Check { file } => check_stream(file),
    }
}

/// The data sets of these names, or all if there are none.
fn chosen(names: &[String]) -> Result<Vec<&'static Info>, DataError> {
    if names.is_empty() {
        return Ok(DATASETS.iter().collect());
    }
    names.iter().map(|name| info(name)).collect()
}

fn list(dir: &Path) -> anyhow::Result<ExitCode> {
    let mut out = stdout().lock();
    for info in DATASETS {
        writeln!(out, "{:<12} {}", info.name, info.summary)?;
        writeln!(out, "{:<12} {}", "", location(info, dir)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn location(info: &Info, dir: &Path) -> Result<String, DataError> {
    let location = match info.origin {
        Origin::BuiltIn => return Ok("built in".into()),
        Origin::Published(published) => published.locate(dir),
        Origin::Stream(stream) => stream.published.locate(dir),
        Origin::Local { folders, .. } => {
            return Ok(match ImageFolder::find(info.name, folders, dir) {
                Ok(images) => format!(
                    "in `{}`, {} images of {} classes",
                    images.root().display(),
                    images.images(),
                    images.classes()
                ),
                Err(error) => error.to_string(),
            });
        }
    };
    let folder = location.folder.display();
    if let Some(file) = location.missing() {
        return Ok(format!("not found: no `{}` in `{folder}`", file.name));
    }
    let mut bytes = 0;
    for path in location.files.iter().filter_map(|file| find(&location.folder, file)) {
        bytes += path.metadata().map_err(|error| DataError::Io { path, error })?.len();
    }
    Ok(format!("in `{folder}`, {}", HumanBytes(bytes)))
}

fn fetch_all(infos: &[&Info], all: bool, dir: &Path) -> anyhow::Result<ExitCode> {
    let mut out = stdout().lock();
    for info in infos {
        match info.origin {
            Origin::BuiltIn => {
                writeln!(out, "{}: built in, nothing to fetch", info.name)?;
                continue;
            }
            Origin::Local { reason, .. } if all => {
                writeln!(out, "{}: not fetched, {reason}", info.name)?;
                continue;
            }
            _ => {}
        }
        // Drawn on standard error, and only if that is a terminal.
        let bar = ProgressBar::no_length();
        bar.enable_steady_tick(Duration::from_millis(100));
        let fetched = fetch(info.name, dir, &mut |progress| show(&bar, &progress));
        bar.finish_and_clear();
        let fetched = fetched?;
        let place = fetched.folder.display();
        let (new, kept) = (fetched.new, fetched.kept);
        writeln!(out, "{}: {} fetched, {kept} already in `{place}`", info.name, plural(new, "file"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn show(bar: &ProgressBar, progress: &FetchProgress) {
    bar.set_position(progress.bytes);
    if progress.bytes == 0 || progress.total != bar.length() {
        let template = match progress.total {
            Some(_) => "{spinner} {bar:20} {bytes}/{total_bytes}, {eta} left  {wide_msg}",
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

fn verify(infos: &[&Info], all: bool, dir: &Path) -> anyhow::Result<ExitCode> {
    let mut out = stdout().lock();
    let mut code = ExitCode::SUCCESS;
    for info in infos {
        let good = match info.origin {
            Origin::BuiltIn => {
                writeln!(out, "{}: built in, nothing to verify", info.name)?;
                true
            }
            Origin::Published(published) => verify_files(&mut out, published, dir)?,
            Origin::Stream(stream) => verify_files(&mut out, &stream.published, dir)?,
            Origin::Local { folders, .. } => match ImageFolder::find(info.name, folders, dir) {
                Ok(images) => verify_images(&mut out, info, &images)?,
                Err(error @ (DataError::NoFolder { .. } | DataError::NoImages { .. })) if all => {
                    // The user's own images are optional.
                    writeln!(out, "{}: {error}", info.name)?;
                    true
                }
                Err(error) => return Err(error.into()),
            },
        };
        if !good {
            code = ExitCode::FAILURE;
        }
    }
    Ok(code)
}

/// Compares every file with the original's checksum, then reads them.
fn verify_files(out: &mut impl Write, published: &Published, dir: &Path) -> anyhow::Result<bool> {
    let place = published.locate(dir);
    writeln!(out, "{} in `{}`", published.name, place.folder.display())?;
    let mut good = true;
    for file in place.files {
        let (verdict, detail) = match check(file, &place.folder) {
            Ok(FileStatus::Original(_)) => ("original", file.sha256.to_string()),
            Ok(FileStatus::Different { sha256, .. }) => ("different", sha256),
            Ok(FileStatus::Missing) => ("missing", String::new()),
            Err(error) => ("unreadable", error.to_string()),
        };
        let line = format!("  {:<24} {verdict:<10} {detail}", file.name);
        writeln!(out, "{}", line.trim_end())?;
        good &= verdict == "original";
    }
    if place.missing().is_none() {
        good &= print_contents(out, &data::load(published.name, dir, &Options::default()))?;
    }
    Ok(good)
}

/// Decodes every image. No checksums are published to compare with.
fn verify_images(out: &mut impl Write, info: &Info, images: &ImageFolder) -> anyhow::Result<bool> {
    writeln!(out, "{} in `{}`", info.name, images.root().display())?;
    let spinner = ProgressBar::new_spinner().with_message(format!("reading {} images", images.images()));
    spinner.enable_steady_tick(Duration::from_millis(100));
    let data = images.decode(DEFAULT_IMAGE_SIZE);
    spinner.finish_and_clear();
    let good = print_contents(out, &data)?;
    writeln!(out, "  no checksums are published for these images")?;
    let read = data.map_or(0, |data| data.train.labels.len() + data.test.labels.len());
    Ok(good && read == images.images())
}

/// Prints what a data set holds, or why it cannot be read. Returns whether it can.
fn print_contents(out: &mut impl Write, data: &Result<Dataset, DataError>) -> std::io::Result<bool> {
    match data {
        Ok(data) => {
            let [channels, height, width] = data.shape;
            match data.shape {
                [1, 1, width] => writeln!(out, "  {width} features, {} classes", data.classes)?,
                _ => writeln!(out, "  images of {channels}x{height}x{width}, {} classes", data.classes)?,
            }
            // The tasks of a stream hold out samples of their own.
            let parts = [("training", &data.train), ("test", &data.test)];
            for (part, split) in parts.into_iter().filter(|(_, split)| !split.is_empty()) {
                writeln!(out, "  {:>6} for {part}, {}", split.labels.len(), per_class(split, data.classes))?;
            }
            for note in &data.notes {
                writeln!(out, "  {note}")?;
            }
        }
        Err(error) => writeln!(out, "  {error}")?,
    }
    Ok(data.is_ok())
}

/// Prints what a custom stream holds, task by task.
fn check_stream(file: &Path) -> anyhow::Result<ExitCode> {
    let stream = custom_stream::read(file)?;
    let (dataset, tasks) = stream.load()?;
    let mut out = stdout().lock();
    writeln!(out, "{}", printable(&format!("{}: {}", stream.name, stream_summary(&dataset, &tasks))))?;
    let width = tasks
        .tasks
        .iter()
        .map(|task| printable(&task.name).chars().count())
        .max()
        .unwrap_or(0)
        .max("task".len());
    writeln!(out, "\n{:<width$}  {:>8}  {:>8}  {:>7}", "task", "training", "test", "classes")?;
    let mut rng = Rng::named(0, "hold out");
    for (task, part) in tasks.tasks.iter().enumerate() {
        let (train, test) = tasks.split(&dataset, task, &mut rng);
        let classes: BTreeSet<u32> = train.iter().map(|&row| dataset.train.labels[row as usize]).collect();
        let (train, test, classes) = (train.len(), test.len(), classes.len());
        let name = printable(&part.name);
        writeln!(out, "{name:<width$}  {train:>8}  {test:>8}  {classes:>7}")?;
    }
    writeln!(out, "\nSHA-256 {}", tasks.checksum(&dataset))?;
    dataset.notes.iter().try_for_each(|note| writeln!(out, "{}", printable(note)))?;
    Ok(ExitCode::SUCCESS)
}

/// A custom stream in one line.
pub(super) fn stream_summary(data: &Dataset, tasks: &CustomTasks) -> String {
    let tasks = match tasks.ends {
        true => plural(tasks.tasks.len(), "task"),
        false => "no task boundaries".to_owned(),
    };
    let each = match data.shape {
        [1, 1, width] => plural(width, "feature"),
        [channels, height, width] => format!("{channels}x{height}x{width}"),
    };
    const NAMED: usize = 10;
    let named = data.class_names.iter().take(NAMED).map(String::as_str);
    let more = data.classes.saturating_sub(NAMED);
    let more = (more > 0).then(|| format!("and {more} more"));
    let named: Vec<&str> = named.chain(more.as_deref()).collect();
    let (rows, classes) = (plural(data.train.len(), "sample"), plural(data.classes, "class"));
    format!("{tasks}, {rows} of {each}, {classes}: {}", named.join(", "))
}

fn per_class(split: &Samples, classes: usize) -> String {
    let mut count = vec![0; classes];
    split.labels.iter().for_each(|&label| count[label as usize] += 1);
    let (least, most) = (count.iter().min().unwrap_or(&0), count.iter().max().unwrap_or(&0));
    if least == most { format!("{least} of each class") } else { format!("{least} to {most} of each class") }
}
