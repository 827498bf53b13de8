//! Lines for the terminal.

use std::{
    borrow::Cow,
    fmt::Display,
    io::{self, Write},
    sync::atomic::{AtomicBool, Ordering},
};

/// Whether `--quiet` is given.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Suppresses [`inform`] from now on.
pub(crate) fn set_quiet(quiet: bool) {
    QUIET.store(quiet, Ordering::Relaxed);
}

pub(crate) fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Writes a line to standard error unless `--quiet` is given: for all but errors and warnings.
pub(crate) fn inform(line: impl Display) {
    if !is_quiet() {
        tell(line);
    }
}

/// Writes a line to standard error. A closed standard error is no reason to stop.
pub(crate) fn tell(line: impl Display) {
    let _ = writeln!(io::stderr(), "{}", printable(&line.to_string()));
}

/// Text without control characters: names from files and records must not move the cursor or set a title.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let hidden = |c: char| c.is_control() && c != '\n';
    if !text.contains(hidden) {
        return text.into();
    }
    text.chars().map(|c| if hidden(c) { c.escape_default().to_string() } else { c.into() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_line_breaks_stay() {
        assert_eq!(printable("tea ± 1\ncup"), "tea ± 1\ncup");
        assert_eq!(printable("a\u{1b}]0;b\u{7}\r\u{9b}2J"), "a\\u{1b}]0;b\\u{7}\\r\\u{9b}2J");
    }
}
