//! Tables as values, and how they are written: Markdown, CSV, LaTeX and HTML.

use std::fmt::Write;

use super::{Group, Paper, Spread, group::comparable, paired::paired, summary::best};
use hindsight::{Record, metrics::METRICS, protocol::Status};

/// A table.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Short name, for files.
    pub name: &'static str,
    /// What it shows.
    pub title: String,
    /// Headings.
    pub head: Vec<String>,
    /// Rows, as long as the head.
    pub rows: Vec<Vec<Cell>>,
    /// What must be known to read it.
    pub notes: Vec<String>,
}

/// An entry of a table.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Words, as they came.
    Text(String),
    /// A number with what it varies by over seeds, if there are several.
    Number {
        /// The number.
        mean: f64,
        /// Its standard deviation, or half its interval.
        spread: Option<f64>,
        /// Digits after the point.
        digits: usize,
        /// The best of its column.
        best: bool,
    },
    /// A number that is shown with its sign.
    Difference {
        /// The number.
        value: f64,
        /// Digits after the point.
        digits: usize,
    },
}

impl Cell {
    /// A number, or a dash.
    pub(crate) fn number(spread: Option<Spread>, digits: usize) -> Cell {
        match spread {
            None => Cell::Text("-".to_owned()),
            Some(Spread { mean, deviation, count }) => {
                Cell::Number { mean, spread: (count > 1).then_some(deviation), digits, best: false }
            }
        }
    }

    fn plain(&self) -> String {
        match self {
            Cell::Text(text) => text.clone(),
            Cell::Number { mean, spread: None, digits, .. } => format!("{mean:.digits$}"),
            Cell::Number { mean, spread: Some(spread), digits, .. } => {
                format!("{mean:.digits$} ± {spread:.digits$}")
            }
            Cell::Difference { value, digits } => match format!("{value:+.digits$}") {
                zero if zero.trim_matches(['+', '-', '0', '.']).is_empty() => zero.replace('-', "+"),
                signed => signed,
            },
        }
    }

    fn best(&self) -> bool {
        matches!(self, Cell::Number { best: true, .. })
    }
}

/// All tables on the groups of one benchmark; the headline comes first.
pub(super) fn all(groups: &[Group<'_>], paper: Option<&Paper>) -> Vec<Table> {
    let mut tables = vec![headline(groups, paper), measures(groups)];
    tables.extend(differences(groups));
    tables
}

fn headline(groups: &[Group<'_>], paper: Option<&Paper>) -> Table {
    let several = groups.iter().any(|group| group.records.len() > 1);
    // Beside our numbers only if there is one to compare with.
    let paper = paper.filter(|paper| groups.iter().any(|group| paper.row(group).is_some()));
    let mut head = vec!["method".to_owned(), "accuracy %".to_owned()];
    head.extend(paper.map(|paper| format!("{} %", paper.name)));
    head.push("forgetting".to_owned());
    head.extend(paper.map(|paper| format!("{} forgetting", paper.name)));
    head.extend(["learning acc. %", "train s", "eval s", "seeds"].map(str::to_owned));
    let noted = groups.iter().any(|group| group.oracle() || group.diverged() > 0);
    head.extend(noted.then(|| "note".to_owned()));

    let row = |group: &Group<'_>| {
        let theirs = paper.map(|paper| paper.row(group));
        let published = |of: fn(&super::PaperRow) -> Option<Spread>, digits| {
            theirs.map(|row| Cell::number(row.and_then(of), digits))
        };
        // A run that ended early says nothing about what the whole takes.
        let seconds = |of: fn(&Record) -> f64| {
            let spread = group.spread(|r| (r.status == Status::Done).then(|| of(r)));
            spread.map(|spread| Spread { count: 1, ..spread })
        };
        let mut row = vec![Cell::Text(group.label())];
        row.push(Cell::number(group.spread(|r| r.accuracy), 1));
        row.extend(published(|row| row.accuracy, 1));
        row.push(Cell::number(group.spread(|r| r.forgetting), 3));
        row.extend(published(|row| row.forgetting, 2));
        row.push(Cell::number(group.spread(|r| Some(100.0 * r.learning_accuracy?)), 1));
        row.push(Cell::number(seconds(|r| r.train_seconds), 2));
        row.push(Cell::number(seconds(|r| r.eval_seconds), 2));
        row.push(Cell::Text(group.records.len().to_string()));
        let words = [group.oracle().then(|| "oracle".to_owned()), group.divergence()];
        row.extend(noted.then(|| Cell::Text(words.into_iter().flatten().collect::<Vec<_>>().join(", "))));
        row
    };
    let mut table = Table {
        name: "results",
        title: "Results".to_owned(),
        rows: groups.iter().map(row).collect(),
        head,
        notes: Vec::new(),
    };
    for (column, sign) in [("accuracy %", 1.0), ("forgetting", -1.0), ("learning acc. %", 1.0)] {
        let column = table.head.iter().position(|head| head == column).unwrap_or_default();
        emphasise(&mut table.rows, groups, column, sign);
    }
    let spread = "mean ± population standard deviation over seeds";
    table.notes.extend(several.then(|| spread.to_owned()));
    if groups.len() > 1 {
        table.notes.push("bold: the best of its column, oracles aside".to_owned());
    }
    table
}

/// Marks the best of a column and what reads the same; oracles do not compete.
fn emphasise(rows: &mut [Vec<Cell>], groups: &[Group<'_>], column: usize, sign: f64) {
    let shown = |cell: &Cell| match cell {
        Cell::Number { mean, digits, .. } if mean.is_finite() => {
            Some(sign * format!("{mean:.digits$}").parse::<f64>().ok()?)
        }
        _ => None,
    };
    let competing = |i: usize| groups.len() > 1 && !groups[i].oracle();
    let values = rows.iter().enumerate().filter(|(i, _)| competing(*i));
    let top = values.filter_map(|(_, row)| shown(&row[column])).max_by(f64::total_cmp);
    for (i, row) in rows.iter_mut().enumerate().filter(|(i, _)| competing(*i)) {
        let is_top = top.is_some() && shown(&row[column]) == top && i < groups.len();
        if let Cell::Number { best, .. } = &mut row[column] {
            *best = is_top;
        }
    }
}

fn measures(groups: &[Group<'_>]) -> Table {
    let row = |group: &Group<'_>| {
        let mut row = vec![Cell::Text(group.label())];
        for metric in METRICS {
            let digits = if metric.name == "accuracy" { 1 } else { 3 };
            row.push(Cell::number(group.spread(|r| measure(r, metric.name)), digits));
        }
        row
    };
    let title =
        |name: &str| if name == "accuracy" { "accuracy %".to_owned() } else { name.replace('_', " ") };
    Table {
        name: "measures",
        title: "All measures".to_owned(),
        head: std::iter::once("method".to_owned()).chain(METRICS.iter().map(|m| title(m.name))).collect(),
        rows: groups.iter().map(row).collect(),
        notes: METRICS.iter().map(|m| format!("{} = {}", title(m.name), m.formula)).collect(),
    }
}

fn measure(record: &Record, name: &str) -> Option<f64> {
    match name {
        "accuracy" => record.accuracy,
        "forgetting" => record.forgetting,
        "learning_accuracy" => record.learning_accuracy,
        name => record.metrics.get(name).copied().flatten(),
    }
}

/// The best method against those that it can be compared with, seed by seed.
fn differences(groups: &[Group<'_>]) -> Option<Table> {
    let mut rows = Vec::new();
    let parts = comparable(groups);
    let named = parts.len() > 1;
    for part in &parts {
        let Some(first) = best(&part.groups) else { continue };
        for other in part.groups.iter().filter(|other| !std::ptr::eq(*other, first)) {
            let Some(paired) = paired(first, other) else { continue };
            let (mean, spread) = (paired.mean, paired.half_width);
            let mut row = vec![Cell::Text(format!("{} - {}", first.label(), other.label()))];
            row.extend(named.then(|| Cell::Text(part.label.clone())));
            row.push(Cell::Number { mean, spread, digits: 1, best: false });
            row.push(Cell::Text(format!("{} of {}", paired.wins(), paired.differences.len())));
            rows.push(row);
        }
    }
    let mut head = vec!["methods".to_owned()];
    head.extend(named.then(|| "settings".to_owned()));
    head.extend(["difference in points", "seeds above"].map(str::to_owned));
    (!rows.is_empty()).then(|| Table {
        name: "differences",
        title: "Differences, seed by seed".to_owned(),
        head,
        rows,
        notes: vec!["mean ± half the 95 % confidence interval (Student's t) over common seeds".to_owned()],
    })
}

impl Table {
    /// As GitHub reads it.
    pub fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut text = line(self.head.iter().map(|head| markdown(head)).collect());
        text += &line((0..self.head.len()).map(|c| if c == 0 { "---" } else { "---:" }.to_owned()).collect());
        for row in &self.rows {
            let cell = |cell: &Cell| match cell.best() {
                true => format!("**{}**", markdown(&cell.plain())),
                false => markdown(&cell.plain()),
            };
            text += &line(row.iter().map(cell).collect());
        }
        for note in &self.notes {
            let _ = write!(text, "\n{}\n", markdown(note));
        }
        text
    }

    /// With full numbers, and what they vary by in columns of its own.
    pub fn csv(&self) -> String {
        let spreads: Vec<bool> = (0..self.head.len())
            .map(|c| self.rows.iter().any(|row| matches!(row[c], Cell::Number { spread: Some(_), .. })))
            .collect();
        let mut line = Vec::new();
        for (head, &spread) in self.head.iter().zip(&spreads) {
            line.push(csv(head));
            line.extend(spread.then(|| csv(&format!("{head} ±"))));
        }
        let mut text = line.join(",") + "\n";
        for row in &self.rows {
            line.clear();
            for (cell, &several) in row.iter().zip(&spreads) {
                let (value, varies) = match cell {
                    Cell::Text(text) if text == "-" => (String::new(), String::new()),
                    Cell::Text(text) => (csv(text), String::new()),
                    Cell::Number { mean, spread, .. } => {
                        (exact(*mean), spread.map(exact).unwrap_or_default())
                    }
                    Cell::Difference { value, .. } => (exact(*value), String::new()),
                };
                line.push(value);
                line.extend(several.then_some(varies));
            }
            text += &(line.join(",") + "\n");
        }
        text
    }

    /// As a `tabular` with the rules of `booktabs`.
    pub fn latex(&self) -> String {
        let columns = "l".to_owned() + &"r".repeat(self.head.len() - 1);
        let line = |cells: Vec<String>| cells.join(" & ") + " \\\\\n";
        let mut text =
            format!("% needs \\usepackage{{booktabs}}\n\\begin{{tabular}}{{{columns}}}\n\\toprule\n");
        text += &line(self.head.iter().map(|head| latex(head)).collect());
        text += "\\midrule\n";
        for row in &self.rows {
            let cell = |cell: &Cell| match cell {
                Cell::Text(text) => latex(text),
                Cell::Difference { .. } => format!("${}$", cell.plain()),
                Cell::Number { mean, spread, digits, best } => {
                    let spread = spread.map(|s| format!(" \\pm {s:.digits$}")).unwrap_or_default();
                    let number = format!("${mean:.digits$}{spread}$");
                    if *best { format!("{{\\boldmath {number}}}") } else { number }
                }
            };
            text += &line(row.iter().map(cell).collect());
        }
        text += "\\bottomrule\n\\end{tabular}\n";
        for note in &self.notes {
            let _ = writeln!(text, "% {}", note.replace(['\n', '\r'], " "));
        }
        text
    }

    /// As lines to read on a terminal.
    pub fn text(&self) -> String {
        let mut rows = vec![self.head.clone()];
        rows.extend(self.rows.iter().map(|row| row.iter().map(Cell::plain).collect()));
        let width = |c: usize| rows.iter().map(|row: &Vec<String>| row[c].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths).enumerate().map(|(c, (cell, &width))| match c {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
        };
        let rule = "-".repeat(widths.iter().sum::<usize>() + 2 * (widths.len() - 1)) + "\n";
        let (head, body) = rows.split_at(1);
        line(&head[0]) + &rule + &body.iter().map(line).collect::<String>()
    }

    /// As an element of a page.
    pub fn html(&self) -> String {
        let mut text = String::from("<div class=\"wide\"><table>\n<thead><tr>");
        for (c, head) in self.head.iter().enumerate() {
            let _ = write!(text, "<th{}>{}</th>", if c == 0 { "" } else { " class=\"n\"" }, escape_xml(head));
        }
        text += "</tr></thead>\n<tbody>\n";
        for row in &self.rows {
            text += "<tr>";
            for (c, cell) in row.iter().enumerate() {
                let plain = match cell {
                    Cell::Text(text) => escape_xml(text),
                    Cell::Number { .. } | Cell::Difference { .. } => {
                        escape_xml(&cell.plain().replace('-', "\u{2212}"))
                    }
                };
                let _ = match (c, cell.best()) {
                    (0, _) => write!(text, "<th scope=\"row\">{plain}</th>"),
                    (_, true) => write!(text, "<td><b>{plain}</b></td>"),
                    (_, false) => write!(text, "<td>{plain}</td>"),
                };
            }
            text += "</tr>\n";
        }
        text + "</tbody></table></div>\n"
    }
}

/// Text that is harmless in HTML, SVG and XML, also within quotes.
pub(super) fn escape_xml(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\'' => safe += "&#39;",
            '\n' | '\t' => safe.push(' '),
            // XML has no way to write these.
            c if c.is_control() || ('\u{fffe}'..='\u{ffff}').contains(&c) => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

fn markdown(text: &str) -> String {
    let mut safe = String::new();
    for c in text.chars() {
        match c {
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            c if c.is_control() => safe.push(' '),
            c if "\\|*_`[]~".contains(c) => safe.extend(['\\', c]),
            c => safe.push(c),
        }
    }
    safe
}

fn latex(text: &str) -> String {
    let mut safe = String::new();
    for c in text.chars() {
        match c {
            '\\' => safe += "\\textbackslash{}",
            '~' => safe += "\\textasciitilde{}",
            '^' => safe += "\\textasciicircum{}",
            '<' => safe += "\\textless{}",
            '>' => safe += "\\textgreater{}",
            '±' => safe += "$\\pm$",
            c if c.is_control() => safe.push(' '),
            c if "&%$#_{}".contains(c) => safe.extend(['\\', c]),
            c => safe.push(c),
        }
    }
    safe
}

fn csv(text: &str) -> String {
    // A spreadsheet would take these for a formula.
    let text =
        if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { format!("'{text}") } else { text.to_owned() };
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

fn exact(value: f64) -> String {
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}
