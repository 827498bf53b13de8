//! Results as a text table, and the one line that says what they mean.

use super::{Group, Spread};
use crate::{Record, methods::METHODS, metrics::mean};

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
        let diverged = match (group.diverged(), group.records.len()) {
            (0, _) => String::new(),
            (1, 1) => "diverged".to_owned(),
            (n, all) => format!("{n} of {all} diverged"),
        };
        rows.push([
            group.method.to_owned(),
            cell(group.spread(|r| r.accuracy), 1),
            cell(group.spread(|r| r.forgetting), 3),
            cell(group.spread(|r| r.learning_accuracy.map(|a| 100.0 * a)), 1),
            cell(group.spread(|r| Some(r.train_seconds)).map(|s| Spread { deviation: 0.0, ..s }), 2)
                .replace(" ± 0.00", ""),
            cell(group.spread(|r| Some(r.eval_seconds)).map(|s| Spread { deviation: 0.0, ..s }), 2)
                .replace(" ± 0.00", ""),
            diverged,
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
pub fn reading(records: &[Record]) -> Option<String> {
    // An oracle is an upper bound; to be above the others is no news of it.
    let oracle = |name: &str| METHODS.iter().any(|method| method.name == name && method.oracle);
    let mut groups: Vec<(Group<'_>, f64)> = Group::all(records)
        .into_iter()
        .filter(|group| !oracle(group.method))
        .filter_map(|group| group.spread(|r| r.accuracy).map(|s| (group, s.mean)))
        .collect();
    groups.sort_by(|a, b| b.1.total_cmp(&a.1));
    let ((best, accuracy), rest) = groups.split_first()?;
    if rest.is_empty() {
        return None;
    }
    let gaps: Vec<String> = rest.iter().take(2).map(|(other, _)| gap(best, other)).collect();
    let mut line = format!("{} keeps {accuracy:.1} % over all tasks: {}", best.method, gaps.join(" and "));
    let forgetting = |group: &Group<'_>| group.spread(|r| r.forgetting).map(|s| s.mean);
    if let (Some(own), Some(other)) = (forgetting(best), forgetting(&rest[0].0)) {
        line += &format!("; it forgets {own:.3} where {} forgets {other:.3}", rest[0].0.method);
    }
    Some(line)
}

/// How far `best` is above `other`, seed by seed where both ran the same seeds.
fn gap(best: &Group<'_>, other: &Group<'_>) -> String {
    let paired: Vec<f64> = best
        .records
        .iter()
        .filter_map(|a| {
            let b = other.records.iter().find(|b| b.seed == a.seed)?;
            Some(a.accuracy? - b.accuracy?)
        })
        .collect();
    let difference = mean(paired.iter().copied());
    let wins = paired.iter().filter(|d| **d > 0.0).count();
    match paired.len() {
        _ if difference.abs() < 0.05 => format!("level with {}", other.method),
        0 => format!("above {}", other.method),
        1 => format!("{difference:.1} points above {}", other.method),
        n => format!("{difference:.1} points above {} ({wins} of {n} seeds)", other.method),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Status;

    fn record(method: &str, seed: u64, accuracy: Option<f64>, forgetting: f64) -> Record {
        let mut record: Record = serde_json::from_str(include_str!("../../tests/first.json")).unwrap();
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
            reading(&records).unwrap(),
            "hal keeps 72.5 % over all tasks: 1.5 points above er-ring (1 of 2 seeds) and 24.0 points above \
             finetune; it forgets 0.090 where er-ring forgets 0.120"
        );
        assert_eq!(reading(&records[..1]), None);
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
