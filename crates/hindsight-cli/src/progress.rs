//! A progress bar on standard error, hidden unless that is a terminal.

use std::{
    fmt::{self, Display},
    time::Duration,
};

use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};

use crate::messages::{inform, is_quiet, printable, tell};

/// Resolution of the bar.
const STEPS: f64 = 100_000.0;

/// One bar over runs of different length.
pub(crate) struct Progress {
    bar: ProgressBar,
    labels: Vec<String>,
    /// For each run: its share of the total time, and the fraction of it that is done.
    shares: Vec<(f64, f64)>,
    /// Fraction of the total that is done.
    done: f64,
    /// Active runs, in the order in which they started.
    current: Vec<usize>,
    all: usize,
    ended: usize,
    last: Option<String>,
}

/// The line of the bar, below whatever `above` is.
fn style(above: &str) -> ProgressStyle {
    let line = "{bar:20} {percent:>3} %  {elapsed} elapsed{left}  {wide_msg}";
    let left = |state: &ProgressState, to: &mut dyn fmt::Write| {
        // Earlier estimates are too noisy to show.
        if state.fraction() > 0.02 {
            let _ = write!(to, ", {:#} left", HumanDuration(state.eta()));
        }
    };
    let style = ProgressStyle::with_template(&format!("{above}{line}"));
    style.expect("a constant template").with_key("left", left)
}

impl Progress {
    /// A bar over the runs `todo`; `costs` is the relative duration of every run.
    pub(crate) fn new(labels: Vec<String>, costs: &[f64], todo: &[usize]) -> Progress {
        let bar = if is_quiet() { ProgressBar::hidden() } else { ProgressBar::new(STEPS as u64) };
        bar.set_style(style(""));
        // The clock ticks even if no run reports anything for minutes.
        bar.enable_steady_tick(Duration::from_secs(1));
        let sum: f64 = todo.iter().map(|&index| costs[index]).sum();
        let shares = costs.iter().map(|cost| (cost / sum.max(f64::MIN_POSITIVE), 0.0)).collect();
        Progress {
            bar,
            labels,
            shares,
            done: 0.0,
            current: Vec::new(),
            all: todo.len(),
            ended: 0,
            last: None,
        }
    }

    pub(crate) fn start(&mut self, index: usize) {
        self.current.push(index);
        self.show();
    }

    pub(crate) fn advance(&mut self, index: usize, done: usize, total: usize) {
        let (share, before) = self.shares[index];
        self.shares[index].1 = done as f64 / total.max(1) as f64;
        self.done += share * (self.shares[index].1 - before);
        self.bar.set_position((STEPS * self.done) as u64);
    }

    pub(crate) fn end(&mut self, index: usize, result: &str) {
        self.advance(index, 1, 1);
        self.ended += 1;
        self.current.retain(|&other| other != index);
        self.last = Some(format!("; {}: {result}", self.labels[index]));
        self.show();
    }

    fn show(&self) {
        let current: Vec<&str> = self.current.iter().map(|&index| self.labels[index].as_str()).collect();
        let now = if current.is_empty() { String::new() } else { format!(", now {}", current.join(", ")) };
        let last = self.last.as_deref().unwrap_or("");
        let message = format!("{} of {} runs{now}{last}", self.ended, self.all);
        self.bar.set_message(printable(&message).into_owned());
    }

    /// Replaces the words beside the bar.
    pub(crate) fn note(&self, text: &str) {
        self.bar.set_message(printable(text).into_owned());
    }

    pub(crate) fn label(&self, index: usize) -> &str {
        &self.labels[index]
    }

    /// Writes a line above the bar, or just the line if the bar is hidden.
    pub(crate) fn say(&self, line: impl Display) {
        self.bar.suspend(|| inform(line));
    }

    /// Writes a line above the bar, also with `--quiet`.
    pub(crate) fn warn(&self, line: impl Display) {
        self.bar.suspend(|| tell(line));
    }

    /// Shows a table above the bar, in place of the one before; nothing where there is no bar.
    pub(crate) fn show_table(&self, table: &str) {
        if !self.bar.is_hidden() {
            self.bar.set_style(style("{prefix}\n"));
            self.bar.set_prefix(printable(table).into_owned());
        }
    }

    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
