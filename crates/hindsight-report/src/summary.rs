//! Results as a text table, and the one line that says what they mean.

use super::{
    Group, Spread,
    group::{Part, comparable},
    paired::paired,
};
use hindsight::Record;

/// A row per method: accuracy, forgetting, learning accuracy and seconds of training and evaluation.
pub fn table(records: &[Record]) -> String {
    let groups = Group::all(records);
    let several = groups.iter().any(|group| group.records.len() > 1);
    let cell = |spread: Option<Spread>, digits: usize| match spread {
        None => "-".to_owned(),
        Some(s) if several => format!("{:.digits$} ± {:.digits$}", s.mean, s.deviation),
        Some(s) => format!("{:.digits$}", s.mean),
    };
    let mut rows = vec![
        ["method", "accuracy %", "forgetting", "learning acc. %", "train s", "eval s", ""].map(str::to_owned),
    ];
    for group in &groups {
        rows.push([
            group.label(),
            cell(group.spread(|r| r.accuracy), 1),
            cell(group.spread(|r| r.forgetting), 3),
            cell(group.spread(|r| r.learning_accuracy.map(|a| 100.0 * a)), 1),
            cell(group.spread(|r| Some(r.train_seconds)).map(|s| Spread { deviation: 0.0, ..s }), 2)
                .replace(" ± 0.00", ""),
            cell(group.spread(|r| Some(r.eval_seconds)).map(|s| Spread { deviation: 0.0, ..s }), 2)
                .replace(" ± 0.00", ""),
            group.divergence().unwrap_or_default(),
        ]);
    }
    let widths: Vec<usize> =
        (0..7).map(|c| rows.iter().map(|row| row[c].chars().count()).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for (i, row) in rows.iter().enumerate() {
        let cells = row.iter().zip(&widths).enumerate().map(|(c, (cell, &width))| {
            if c == 0 || c == 6 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
        if i == 0 {
            text.push_str(&"-".repeat(widths.iter().sum::<usize>() + 2 * 5));
            text.push('\n');
        }
    }
    if several {
        text.push_str("mean ± population standard deviation over seeds\n");
    }
    text
}

/// What the numbers say, in one line; none if there is nothing to compare.
pub fn summary(records: &[Record]) -> Option<String> {
    let lines = summaries(&Group::all(records));
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// What groups on one benchmark say, in a line for each part of them that can be compared.
pub(super) fn summaries(groups: &[Group<'_>]) -> Vec<String> {
    let line = |part: Part<'_>| {
        let line = reading_of(&part.groups)?;
        Some(if part.label.is_empty() { line } else { format!("with {}, {line}", part.label) })
    };
    comparable(groups).into_iter().filter_map(line).collect()
}

fn reading_of(groups: &[Group<'_>]) -> Option<String> {
    let ranked = ranked(groups);
    let ((best, accuracy), rest) = ranked.split_first()?;
    if rest.is_empty() {
        return None;
    }
    let gaps: Vec<String> = rest.iter().take(2).map(|(other, _)| gap(best, other)).collect();
    let mut line = format!("{} keeps {accuracy:.1} % over all tasks: {}", best.label(), gaps.join(" and "));
    let forgetting = |group: &Group<'_>| group.spread(|r| r.forgetting).map(|s| s.mean);
    if let (Some(own), Some(other)) = (forgetting(best), forgetting(rest[0].0)) {
        line += &format!("; it forgets {own:.3} where {} forgets {other:.3}", rest[0].0.label());
    }
    if let Some(divergence) = best.divergence() {
        line += &format!("; of its runs {divergence}");
    }
    Some(line)
}

/// The group with the highest mean accuracy.
pub(super) fn best<'g, 'r>(groups: &'g [Group<'r>]) -> Option<&'g Group<'r>> {
    ranked(groups).first().map(|(group, _)| *group)
}

/// Groups by falling mean accuracy. An oracle is an upper bound; to be above the others is no news of it.
fn ranked<'g, 'r>(groups: &'g [Group<'r>]) -> Vec<(&'g Group<'r>, f64)> {
    let competing = groups.iter().filter(|group| !group.oracle());
    let mut ranked: Vec<_> =
        competing.filter_map(|group| Some((group, group.spread(|r| r.accuracy)?.mean))).collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
    ranked
}

/// How far `best` is above `other`, seed by seed where both ran the same seeds.
fn gap(best: &Group<'_>, other: &Group<'_>) -> String {
    let label = other.label();
    let Some(paired) = paired(best, other) else { return format!("above {label}") };
    // Where one ran more seeds than the other, the common ones may say otherwise than all.
    let side = if paired.mean > 0.0 { "above" } else { "below" };
    match paired.differences.len() {
        _ if paired.mean.abs() < 0.05 => format!("level with {label}"),
        1 => format!("{:.1} points {side} {label}", paired.mean.abs()),
        n => format!("{:.1} points {side} {label} ({} of {n} seeds)", paired.mean.abs(), paired.wins()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hindsight::protocol::Status;

    fn record(method: &str, seed: u64, accuracy: Option<f64>, forgetting: f64) -> Record {
        let mut record: Record = serde_json::from_str(include_str!("../tests/record_v1.json")).unwrap();
        record.method = method.to_owned();
        record.seed = seed;
        record.status = if accuracy.is_some() { Status::Done } else { Status::Diverged };
        record.accuracy = accuracy;
        record.forgetting = accuracy.map(|_| forgetting);
        record
    }

    #[test]
    fn the_reading_compares_seed_by_seed() {
        let records = [
            record("er-ring", 0, Some(70.0), 0.12),
            record("hal", 0, Some(74.0), 0.09),
            record("er-ring", 1, Some(72.0), 0.12),
            record("hal", 1, Some(71.0), 0.09),
            record("finetune", 0, Some(50.0), 0.3),
        ];
        assert_eq!(
            summary(&records).unwrap(),
            "hal keeps 72.5 % over all tasks: 1.5 points above er-ring (1 of 2 seeds) and 24.0 points above \
             finetune; it forgets 0.090 where er-ring forgets 0.120"
        );
        assert_eq!(summary(&records[..1]), None);
    }

    #[test]
    fn the_table_shows_spread_and_divergence() {
        let records = [record("hal", 0, Some(74.0), 0.09), record("hal", 1, None, 0.0)];
        let text = table(&records);
        assert!(text.contains("74.0 ± 0.0") && text.contains("1 of 2 diverged"), "{text}");
        let one = table(&records[..1]);
        assert!(!one.contains('±') && one.contains("0.090"), "{one}");
    }
}
