//! Tables as values, and their renderers: Markdown, CSV, LaTeX, HTML and plain text.

use std::fmt::Write;

use crate::{
    escape::{csv, escape_xml, latex, markdown},
    group::Spread,
};

/// The note below numbers with a deviation.
pub(crate) const SPREAD_NOTE: &str = "mean ± population standard deviation over seeds";

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
    /// Explanations below it.
    pub notes: Vec<String>,
}

/// An entry of a table.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Text, which renderers escape.
    Text(String),
    /// A number with its spread over seeds, if there are several.
    Number {
        /// The number.
        mean: f64,
        /// Standard deviation, or half the width of a confidence interval.
        spread: Option<f64>,
        /// Digits after the point.
        digits: usize,
        /// Whether it is the best of its column.
        best: bool,
    },
    /// Remarks on a row.
    Note {
        /// Whether the row is of an oracle, which is set apart from the others.
        oracle: bool,
        /// What went wrong, if anything did.
        warning: Option<String>,
        /// What helps.
        remedy: Option<String>,
    },
    /// A number with its sign.
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
            Cell::Note { oracle, warning, .. } => {
                let oracle = oracle.then(|| "oracle".to_owned());
                oracle.into_iter().chain(warning.clone()).collect::<Vec<_>>().join(", ")
            }
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

    fn html(&self) -> String {
        match self {
            Cell::Text(text) => escape_xml(text),
            Cell::Number { .. } | Cell::Difference { .. } => {
                escape_xml(&self.plain().replace('-', "\u{2212}"))
            }
            Cell::Note { oracle, warning, remedy } => {
                let oracle = oracle.then(|| "<span class=\"tag\">oracle</span>".to_owned());
                let tip =
                    remedy.as_ref().map(|tip| format!(" title=\"{}\"", escape_xml(tip))).unwrap_or_default();
                let warning =
                    warning.as_ref().map(|w| format!("<span class=\"badge\"{tip}>{}</span>", escape_xml(w)));
                oracle.into_iter().chain(warning).collect::<Vec<_>>().join(" ")
            }
        }
    }

    fn best(&self) -> bool {
        matches!(self, Cell::Number { best: true, .. })
    }
}

impl Table {
    /// The table in GitHub's Markdown.
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

    /// The table as CSV, with unrounded numbers and spreads in separate columns.
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
                    Cell::Note { .. } => (csv(&cell.plain()), String::new()),
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

    /// The table as a LaTeX `tabular` with `booktabs` rules.
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
                Cell::Note { .. } => latex(&cell.plain()),
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

    /// The table as plain text, without notes. Columns of numbers are aligned right, columns of text left.
    pub fn text(&self) -> String {
        let mut rows = vec![self.head.clone()];
        rows.extend(self.rows.iter().map(|row| row.iter().map(Cell::plain).collect()));
        let columns: Vec<(usize, bool)> = (0..self.head.len())
            .map(|c| {
                let width = rows.iter().map(|row| row[c].chars().count()).max().unwrap_or(0);
                (width, self.rows.iter().any(|row| !matches!(row[c], Cell::Text(_) | Cell::Note { .. })))
            })
            .collect();
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&columns).map(|(cell, &(width, number))| match number {
                true => format!("{cell:>width$}"),
                false => format!("{cell:<width$}"),
            });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
        };
        let width = columns.iter().map(|(width, _)| width).sum::<usize>() + 2 * (columns.len() - 1);
        let (head, body) = rows.split_at(1);
        line(&head[0]) + &"-".repeat(width) + "\n" + &body.iter().map(line).collect::<String>()
    }

    /// The table as an HTML element. Oracles have a body of their own, below a rule.
    pub fn html(&self) -> String {
        let mut text = String::from("<div class=\"wide\"><table class=\"sortable\">\n<thead><tr>");
        for (c, head) in self.head.iter().enumerate() {
            let _ = write!(text, "<th{}>{}</th>", if c == 0 { "" } else { " class=\"n\"" }, escape_xml(head));
        }
        text += "</tr></thead>\n";
        let oracle =
            |row: &&Vec<Cell>| row.iter().any(|cell| matches!(cell, Cell::Note { oracle: true, .. }));
        let (apart, others): (Vec<_>, Vec<_>) = self.rows.iter().partition(oracle);
        for rows in [others, apart].into_iter().filter(|rows| !rows.is_empty()) {
            text += "<tbody>\n";
            for row in rows {
                let cells = row.iter().enumerate().map(|(c, cell)| match (c, cell.best()) {
                    (0, _) => format!("<th scope=\"row\">{}</th>", cell.html()),
                    (_, true) => format!("<td><b>{}</b></td>", cell.html()),
                    (_, false) => format!("<td>{}</td>", cell.html()),
                });
                let _ = writeln!(text, "<tr>{}</tr>", cells.collect::<String>());
            }
            text += "</tbody>\n";
        }
        text + "</table></div>\n"
    }
}

fn exact(value: f64) -> String {
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}
