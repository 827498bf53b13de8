//! The tables on one benchmark: results, all measures, and differences between methods.

use hindsight::{
    Record,
    metrics::{METRICS, Metric},
    protocol::Status,
};

use crate::{
    export::measure,
    group::{Group, Spread, best, comparable, principal},
    paired::{holm, paired},
    references::{Reference, ReferenceRow},
    tables::{Cell, SPREAD_NOTE, Table},
    verdict::Verdict,
};

/// All tables on the groups of one benchmark; the headline comes first.
pub(crate) fn tables(groups: &[Group<'_>], references: &[&Reference]) -> Vec<Table> {
    let sorted = by_accuracy(groups);
    let mut tables = vec![headline(&sorted, references), measures(&sorted)];
    tables.extend(differences(groups));
    tables.extend(classes(&sorted));
    tables
}

/// Groups by falling accuracy; those without any, and then oracles, last.
fn by_accuracy<'r>(groups: &[Group<'r>]) -> Vec<Group<'r>> {
    let mut sorted = groups.to_vec();
    let accuracy = |group: &Group<'_>| group.spread(|r| r.accuracy).map_or(f64::NEG_INFINITY, |s| s.mean);
    sorted.sort_by(|a, b| a.oracle().cmp(&b.oracle()).then(accuracy(b).total_cmp(&accuracy(a))));
    sorted
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
        let (oracle, warning) = (group.oracle(), group.divergence());
        row.extend(noted.then(|| Cell::Note {
            oracle,
            remedy: warning.as_ref().map(|_| group.remedy()),
            warning,
        }));
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
    for group in groups.iter().filter(|group| group.diverged() > 0) {
        let warning = group.divergence().unwrap_or_default();
        table.notes.push(format!("{}: {warning}; {}", group.label(), group.remedy()));
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

/// Name, definition, digits and value of a measure that is not a function of the matrix.
type DetailMeasure = (&'static str, &'static str, usize, fn(&Record) -> Option<f64>);

static DETAILS: [DetailMeasure; 3] = [
    (
        "balanced accuracy %",
        "100 * mean over classes of the share of a class's test samples that are answered right in the end",
        1,
        |r| Some(100.0 * r.detail.as_ref()?.balanced_accuracy?),
    ),
    (
        "calibration error",
        "expected calibration error: mean over 15 bins by the probability of the answer of |share right - mean \
         probability|, weighted by the samples in a bin; up to 2000 test samples in the end",
        3,
        |r| r.detail.as_ref()?.calibration_error,
    ),
    (
        "prequential accuracy %",
        "100 * share of the stream's samples that were answered right before they were learned from",
        1,
        |r| Some(100.0 * r.prequential.as_ref()?.accuracy()?),
    ),
];

fn measures(groups: &[Group<'_>]) -> Table {
    let known = |(.., of): &&DetailMeasure| groups.iter().any(|group| group.spread(of).is_some());
    let details: &Vec<&DetailMeasure> = &DETAILS.iter().filter(known).collect();
    let row = |group: &Group<'_>| {
        let mut row = vec![Cell::Text(group.label())];
        for metric in METRICS {
            let digits = if metric.name.ends_with("accuracy") { 1 } else { 3 };
            row.push(Cell::number(group.spread(|r| measure(r, metric.name)), digits));
        }
        for (_, _, digits, of) in details {
            row.push(Cell::number(group.spread(of), *digits));
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
        head: std::iter::once("method".to_owned())
            .chain(METRICS.iter().map(|m| title(m.name)))
            .chain(details.iter().map(|(name, ..)| (*name).to_owned()))
            .collect(),
        rows: groups.iter().map(row).collect(),
        notes: METRICS
            .iter()
            .map(|m| format!("{} = {}", title(m.name), formula(m)))
            .chain(details.iter().map(|(name, definition, ..)| format!("{name} = {definition}")))
            .collect(),
    }
}

/// The accuracy on each class in the end, method by method.
fn classes(groups: &[Group<'_>]) -> Option<Table> {
    const MOST: usize = 100;
    let groups: Vec<Group<'_>> = Some(principal(groups)).filter(|groups| groups.len() <= MOST)?;
    let names = groups.iter().flat_map(|group| &group.records).map(|record| &record.class_names);
    let names = names.clone().next().filter(|first| names.clone().all(|other| other == *first))?;
    let accuracy = |group: &Group<'_>, class: usize| {
        group.spread(|r| Some(100.0 * r.detail.as_ref()?.class_accuracy.get(class).copied().flatten()?))
    };
    let row = |(class, name): (usize, &String)| {
        let cells: Vec<Option<Spread>> = groups.iter().map(|group| accuracy(group, class)).collect();
        let known = cells.iter().any(Option::is_some);
        let cells = cells.into_iter().map(|spread| Cell::number(spread.map(|s| Spread { count: 1, ..s }), 1));
        known.then(|| std::iter::once(Cell::Text(name.clone())).chain(cells).collect())
    };
    let rows: Vec<Vec<Cell>> = names.iter().enumerate().filter_map(row).collect();
    (2..=MOST).contains(&rows.len()).then(|| Table {
        name: "classes",
        title: "Accuracy on each class in the end, %".to_owned(),
        head: std::iter::once("class".to_owned()).chain(groups.iter().map(Group::label)).collect(),
        rows,
        notes: vec!["share of a class's test samples that are answered right, mean over seeds".to_owned()],
    })
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
