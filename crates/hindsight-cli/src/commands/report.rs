//! `hindsight report`: one page, tables and figures from records, once or whenever there is something new.

use std::{
    fs,
    io::{Write, stdout},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, SystemTime},
};

use anyhow::Context;
use clap::Args;
use hindsight::{
    record::{RECORDS, TASKS},
    run_folder::{self, RecordError, Records},
};
use hindsight_data::atomic_file::AtomicFile;
use hindsight_report::{Live, Reference, Report, evaluations_csv, file_name, html, plural, runs_csv};

use crate::{
    messages::{inform, printable, tell},
    run_folder::cannot_write,
};

/// Write a page, tables and figures from records.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Files of records, or folders that contain some: `runs`, `runs/0001-permuted-digits`, `reproduction`
    #[arg(value_name = "RECORDS", required = true)]
    records: Vec<PathBuf>,
    /// Folder of the report; files of an earlier one are replaced
    #[arg(long, short, value_name = "DIR", default_value = "report")]
    out: PathBuf,
    /// Title of the page
    #[arg(long, value_name = "TEXT", default_value = TITLE)]
    title: String,
    /// Write the page anew whenever a run or a task is finished, until Ctrl-C; the page loads itself again
    #[arg(long)]
    watch: bool,
}

const TITLE: &str = "Continual learning results";

/// Runs `hindsight report`.
pub(crate) fn execute(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let pages =
        ReportWriter { records: args.records.clone(), out: args.out.clone(), title: args.title.clone() };
    if args.watch {
        let stop = Arc::new(AtomicBool::new(false));
        let flag = stop.clone();
        ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))?;
        inform(format_args!("watching; the page is `{}`, Ctrl-C ends", pages.page().display()));
        pages.watch(&stop)?;
    }
    pages.write(args.watch)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the report on some records to a folder.
#[derive(Debug, Clone)]
pub(super) struct ReportWriter {
    records: Vec<PathBuf>,
    out: PathBuf,
    title: String,
}

/// How often records are looked at, and how often a page loads itself again.
const LOOK_EVERY: Duration = Duration::from_millis(500);
const RELOAD_SECONDS: u32 = 3;

impl ReportWriter {
    /// The report on the runs of `folder`, in a folder inside of it.
    pub(super) fn inside(folder: &Path) -> ReportWriter {
        ReportWriter { records: vec![folder.to_owned()], out: folder.join("report"), title: TITLE.to_owned() }
    }

    pub(super) fn page(&self) -> PathBuf {
        self.out.join("index.html")
    }

    /// Writes the page whenever there is something new, until `stop`.
    pub(super) fn watch(&self, stop: &AtomicBool) -> anyhow::Result<()> {
        let mut before = None;
        while !stop.load(Ordering::Relaxed) {
            let now = self.traces();
            if before.as_ref() != Some(&now) {
                self.write_live()?;
                before = Some(now);
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Length and time of every file of records or tasks, by which a change is noticed.
    fn traces(&self) -> Vec<(PathBuf, u64, Option<SystemTime>)> {
        let mut traces = Vec::new();
        for file in self.records.iter().flat_map(|path| run_folder::files(path).unwrap_or_default()) {
            for name in [RECORDS, TASKS] {
                let file = file.with_file_name(name);
                if let Ok(known) = fs::metadata(&file) {
                    traces.push((file, known.len(), known.modified().ok()));
                }
            }
        }
        traces
    }

    fn write_live(&self) -> anyhow::Result<()> {
        let mut records = self.read(true)?;
        // Pictures take long to arrange, and come in the end.
        records.snapshots.clear();
        let runs = run_folder::running(&self.records, &records.records);
        let mut report = Report::new(&self.title, &records, &Reference::all());
        report.live = Some(Live { seconds: RELOAD_SECONDS, runs });
        self.put(&self.page(), html(&report).as_bytes())
    }

    /// The records; where that may be, none at all.
    fn read(&self, may_be_none: bool) -> Result<Records, RecordError> {
        match run_folder::read(&self.records) {
            Err(RecordError::Nothing { notes, .. }) if may_be_none => {
                Ok(Records { notes, ..Records::default() })
            }
            Err(RecordError::NoFile { .. }) if may_be_none => Ok(Records::default()),
            read => read,
        }
    }

    fn put(&self, path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).with_context(|| cannot_write(folder))?;
        // A browser must not read half a page.
        AtomicFile::write_unsynced(path, bytes).with_context(|| cannot_write(path))
    }

    /// Writes the page and all that belongs to it, and says what is there.
    fn write(&self, may_be_none: bool) -> anyhow::Result<()> {
        let records = self.read(may_be_none)?;
        for note in &records.notes {
            tell(format_args!("warning: {note}"));
        }
        let report = Report::new(&self.title, &records, &Reference::all());
        let files = self.write_files(&report)?;
        for section in &report.sections {
            for sentence in &section.summaries {
                writeln!(stdout(), "{}", printable(&format!("{}: {sentence}", section.benchmark)))?;
            }
        }
        let runs = plural(records.records.len(), "run");
        writeln!(stdout(), "{}: {runs}, {} more files beside it", self.page().display(), files - 1)?;
        Ok(())
    }

    /// Writes the page and all that belongs to it.
    pub(super) fn write_quietly(&self) -> anyhow::Result<()> {
        let records = run_folder::read(&self.records)?;
        self.write_files(&Report::new(&self.title, &records, &Reference::all())).map(drop)
    }

    fn write_files(&self, report: &Report<'_>) -> anyhow::Result<usize> {
        let records = &report.records.records;
        let mut files = 0;
        let mut write = |path: PathBuf, bytes: &[u8]| {
            files += 1;
            self.put(&path, bytes)
        };
        for section in &report.sections {
            for table in &section.tables {
                let name = format!("{}-{}", file_name(section.benchmark), table.name);
                let path = |end: &str| self.out.join("tables").join(format!("{name}.{end}"));
                write(path("md"), table.markdown().as_bytes())?;
                write(path("csv"), table.csv().as_bytes())?;
                write(path("tex"), table.latex().as_bytes())?;
            }
            for figure in &section.figures {
                let path = |end: &str| self.out.join("figures").join(format!("{}.{end}", figure.name));
                write(path("svg"), figure.svg().as_bytes())?;
                write(path("png"), &figure.png())?;
            }
        }
        write(self.out.join("runs.csv"), runs_csv(records).as_bytes())?;
        write(self.out.join("evaluations.csv"), evaluations_csv(records).as_bytes())?;
        write(self.page(), html(report).as_bytes())?;
        Ok(files)
    }
}
