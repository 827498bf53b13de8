//! The tables on one benchmark: results, all measures, and differences between methods.

use hindsight::{
    Record,
    metrics::{METRICS, Metric},
    protocol::Status,
};

use crate::{
    group::{Group, Spread, best, comparable},
    paired::{holm, paired},
    references::{Reference, ReferenceRow},
    tables::{Cell, SPREAD_NOTE, Table},
    verdict::Verdict,
};

/// All tables on the groups of one benchmark; the headline comes first.
pub(crate) fn tables(groups: &[Group<'_>], references: &[&Reference]) -> Vec<Table> {
    let mut tables = vec![headline(groups, references), measures(groups)];
    tables.extend(differences(groups));
    tables
}

fn headline(groups: &[Group<'_>], references: &[&Reference]) -> Table {
    let several = groups.iter().any(|group| group.records.len() > 1);
    // A reference has columns only if there is a number to compare with.
    let references: Vec<&Reference> = references
        .iter()
        .copied()
        .filter(|reference| groups.iter().any(|group| reference.row(group).is_some()))
        .collect();
    let mut head = vec!["method".to_owned(), "accuracy %".to_owned()];
    for reference in &references {
        head.extend([format!("{} %", reference.name), format!("vs. {}", reference.name)]);
    }
    head.push("forgetting".to_owned());
    head.extend(references.iter().map(|reference| format!("{} forgetting", reference.name)));
    head.extend(["learning acc. %", "train s", "eval s", "seeds"].map(str::to_owned));
    let noted = groups.iter().any(|group| group.oracle() || group.diverged() > 0);
    head.extend(noted.then(|| "note".to_owned()));

    let row = |group: &Group<'_>| {
        let published = |reference: &Reference, of: fn(&ReferenceRow) -> Option<Spread>| {
            reference.row(group).and_then(of)
        };
        // A run that diverged ended early, so its time is not that of a complete run.
        let seconds = |of: fn(&Record) -> f64| {
            let spread = group.spread(|r| (r.status == Status::Done).then(|| of(r)));
            spread.map(|spread| Spread { count: 1, ..spread })
        };
        let mut row = vec![Cell::Text(group.label())];
        let accuracy = group.spread(|r| r.accuracy);
        row.push(Cell::number(accuracy, 1));
        for reference in &references {
            let theirs = published(reference, |row| row.accuracy);
            let verdict = theirs.zip(accuracy).map(|(theirs, ours)| Verdict::of(theirs, ours).to_string());
            row.push(Cell::number(theirs, 1));
            row.push(Cell::Text(verdict.unwrap_or_else(|| "-".to_owned())));
        }
        row.push(Cell::number(group.spread(|r| r.forgetting), 3));
        let forgetting = |reference: &&Reference| published(reference, |row| row.forgetting);
        row.extend(references.iter().map(|reference| Cell::number(forgetting(reference), 2)));
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
    table.notes.extend(several.then(|| SPREAD_NOTE.to_owned()));
    if groups.len() > 1 {
        table.notes.push("bold: the best of its column, oracles aside".to_owned());
    }
    table
}

/// Marks the best of a column, and cells that round to the same number; oracles do not compete.
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
            let digits = if metric.name.ends_with("accuracy") { 1 } else { 3 };
            row.push(Cell::number(group.spread(|r| measure(r, metric.name)), digits));
        }
        row
    };
    // Accuracies are in percent wherever they are shown; their formulas give fractions, but for the first.
    let title = |name: &str| match name.replace('_', " ") {
        accuracy if accuracy.ends_with("accuracy") => accuracy + " %",
        other => other,
    };
    let formula = |metric: &Metric| match metric.name {
        name if name.ends_with("accuracy") && name != "accuracy" => format!("100 * {}", metric.formula),
        _ => metric.formula.to_owned(),
    };
    Table {
        name: "measures",
        title: "All measures".to_owned(),
        head: std::iter::once("method".to_owned()).chain(METRICS.iter().map(|m| title(m.name))).collect(),
        rows: groups.iter().map(row).collect(),
        notes: METRICS.iter().map(|m| format!("{} = {}", title(m.name), formula(m))).collect(),
    }
}

fn measure(record: &Record, name: &str) -> Option<f64> {
    match name {
        "accuracy" => record.accuracy,
        "forgetting" => record.forgetting,
        "learning_accuracy" => Some(100.0 * record.learning_accuracy?),
        name => {
            let scale = if name.ends_with("accuracy") { 100.0 } else { 1.0 };
            Some(scale * record.metrics.get(name).copied().flatten()?)
        }
    }
}

/// The best method against those that it can be compared with, seed by seed.
fn differences(groups: &[Group<'_>]) -> Option<Table> {
    let mut rows = Vec::new();
    let parts = comparable(groups);
    let named = parts.len() > 1;
    for part in &parts {
        let Some(first) = best(&part.groups) else { continue };
        let others = part.groups.iter().filter(|other| !std::ptr::eq(*other, first));
        let compared: Vec<_> =
            others.filter_map(|other| Some((other.label(), paired(first, other)?))).collect();
        let p_values: Vec<Option<f64>> = compared.iter().map(|(_, paired)| paired.p_value()).collect();
        for ((label, paired), p) in compared.iter().zip(holm(&p_values)) {
            let (mean, spread) = (paired.mean, paired.half_width);
            let mut row = vec![Cell::Text(format!("{} - {label}", first.label()))];
            row.extend(named.then(|| Cell::Text(part.label.clone())));
            row.push(Cell::Number { mean, spread, digits: 1, best: false });
            row.push(Cell::Text(format!("{} of {}", paired.wins(), paired.differences.len())));
            row.push(Cell::number(p.map(|mean| Spread { mean, deviation: 0.0, count: 1 }), 3));
            rows.push(row);
        }
    }
    let mut head = vec!["methods".to_owned()];
    head.extend(named.then(|| "settings".to_owned()));
    head.extend(["difference in points", "seeds above", "p (Holm)"].map(str::to_owned));
    (!rows.is_empty()).then(|| Table {
        name: "differences",
        title: "Differences, seed by seed".to_owned(),
        head,
        rows,
        notes: vec![
            "mean ± half the 95 % confidence interval (Student's t) over common seeds".to_owned(),
            "p: two-sided paired t-test, corrected for the number of methods compared (Holm)".to_owned(),
        ],
    })
}
