//! The text that a run ends with: a table of results, and a sentence about them.

use hindsight::{Record, settings::Value};

use crate::{
    group::{ComparableGroups, Group, Spread, comparable, ranked},
    paired::paired,
    tables::{Cell, SPREAD_NOTE, Table},
};

/// A row per method: accuracy, forgetting, learning accuracy and seconds of training and evaluation.
pub fn results_table(records: &[Record]) -> String {
    let groups = Group::all(records);
    let mut head = vec!["method", "accuracy %", "forgetting", "learning acc. %", "train s", "eval s"];
    let diverged = groups.iter().any(|group| group.diverged() > 0);
    head.extend(diverged.then_some("note"));
    let row = |group: &Group<'_>| {
        let seconds = |of: fn(&Record) -> f64| {
            let spread = group.spread(|record| Some(of(record)));
            Cell::number(spread.map(|spread| Spread { count: 1, ..spread }), 2)
        };
        let mut row = vec![
            Cell::Text(group.label()),
            Cell::number(group.spread(|r| r.accuracy), 1),
            Cell::number(group.spread(|r| r.forgetting), 3),
            Cell::number(group.spread(|r| r.learning_accuracy.map(|a| 100.0 * a)), 1),
            seconds(|r| r.train_seconds),
            seconds(|r| r.eval_seconds),
        ];
        row.extend(diverged.then(|| Cell::Text(group.divergence().unwrap_or_default())));
        row
    };
    let table = Table {
        name: "results",
        title: "Results".to_owned(),
        head: head.into_iter().map(str::to_owned).collect(),
        rows: groups.iter().map(row).collect(),
        notes: Vec::new(),
    };
    let finished = |group: &Group<'_>| group.records.len() - group.diverged();
    let note = if groups.iter().any(|group| finished(group) > 1) {
        format!("{SPREAD_NOTE}\n")
    } else {
        String::new()
    };
    table.text() + &note
}

/// The result in a sentence per set of groups that can be compared; none if there is nothing to compare.
pub fn summary(records: &[Record]) -> Option<String> {
    let lines = summaries(&Group::all(records));
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// What to know before believing an accuracy: a sentence for each method whose answers, after the last task,
/// are no better than the most frequent class for every sample. In the task-incremental scenario classes have
/// other chances.
pub fn cautions(records: &[Record]) -> Vec<String> {
    let groups = Group::all(records);
    groups.iter().filter_map(chance_level).collect()
}

fn chance_level(group: &Group<'_>) -> Option<String> {
    let told = |record: &&&Record| record.config.get("scenario") == Some(&Value::text("task"));
    let records = group.records.iter().filter(|record| !told(record));
    let (mut right, mut counts) = (0, Vec::new());
    for detail in records.filter_map(|record| record.detail.as_ref()) {
        counts.resize(counts.len().max(detail.confusion.len()), 0_u64);
        for (class, row) in detail.confusion.iter().enumerate() {
            right += u64::from(row[class]);
            counts[class] += row.iter().map(|&count| u64::from(count)).sum::<u64>();
        }
    }
    let (all, most) = (counts.iter().sum::<u64>(), *counts.iter().max()?);
    if all == 0 || right > most {
        return None;
    }
    let class = counts.iter().position(|count| *count == most)?;
    let names = group.records.first().map_or(&[][..], |record| record.class_names.as_slice());
    let name = names.get(class).cloned().unwrap_or_else(|| class.to_string());
    let percent = |count: u64| 100.0 * count as f64 / all as f64;
    Some(format!(
        "{}: {:.1} % of all test samples are answered right, no more than `{name}` for every sample gives, {:.1} %",
        group.label(),
        percent(right),
        percent(most)
    ))
}

/// The sentences on the groups of one benchmark.
pub(crate) fn summaries(groups: &[Group<'_>]) -> Vec<String> {
    let line = |part: ComparableGroups<'_>| {
        let line = sentence(&part.groups)?;
        Some(if part.label.is_empty() { line } else { format!("with {}: {line}", part.label) })
    };
    comparable(groups).into_iter().filter_map(line).collect()
}

fn sentence(groups: &[Group<'_>]) -> Option<String> {
    let ranked = ranked(groups);
    let ((best, accuracy), rest) = ranked.split_first()?;
    if rest.is_empty() {
        return None;
    }
    let label = best.label();
    let mut line = match best.divergence() {
        Some(divergence) => format!("{label}: {divergence}; over its other runs it has "),
        None => format!("{label} has "),
    };
    let gaps: Vec<String> = rest.iter().take(2).map(|(other, _)| gap(best, other)).collect();
    line += &format!("the highest mean accuracy, {accuracy:.1} %: {}", gaps.join("; "));
    let forgetting = |group: &Group<'_>| group.spread(|r| r.forgetting).map(|s| s.mean);
    if let (Some(own), Some(other)) = (forgetting(best), forgetting(rest[0].0)) {
        line += &format!("; forgetting {own:.3}, against {other:.3} for {}", rest[0].0.label());
    }
    Some(line)
}

/// The difference between `best` and `other`, seed by seed where both ran the same seeds.
fn gap(best: &Group<'_>, other: &Group<'_>) -> String {
    let label = other.label();
    let Some(paired) = paired(best, other) else {
        return format!("no clear difference to {label} (no seed in common)");
    };
    let evidence = paired.interval().unwrap_or_else(|| "one seed".to_owned());
    if !paired.is_clear() {
        return format!("no clear difference to {label} ({:+.1} points, {evidence})", paired.mean);
    }
    // Common seeds may rank the two otherwise than all seeds do.
    let side = if paired.mean > 0.0 { "above" } else { "below" };
    format!("{:.1} points {side} {label} ({evidence})", paired.mean.abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hindsight::{detail::Detail, protocol::Status};

    fn record(method: &str, seed: u64, accuracy: Option<f64>, forgetting: f64) -> Record {
        let mut record: Record = serde_json::from_str(include_str!("../tests/record_v1.json")).unwrap();
        record.method = method.to_owned();
        record.seed = seed;
        record.status = if accuracy.is_some() { Status::Done } else { Status::Diverged };
        record.accuracy = accuracy;
        record.forgetting = accuracy.map(|_| forgetting);
        record.learning_accuracy = accuracy.and(record.learning_accuracy);
        record
    }

    #[test]
    fn a_difference_that_seeds_do_not_agree_on_is_not_clear() {
        let records = [
            record("er-ring", 0, Some(70.0), 0.12),
            record("hal", 0, Some(74.0), 0.09),
            record("er-ring", 1, Some(72.0), 0.12),
            record("hal", 1, Some(71.0), 0.09),
            record("finetune", 0, Some(50.0), 0.3),
        ];
        assert_eq!(
            summary(&records).unwrap(),
            "hal has the highest mean accuracy, 72.5 %: no clear difference to er-ring (+1.5 points, 95 % interval \
             -30.3 to 33.3, 2 seeds); no clear difference to finetune (+24.0 points, one seed); forgetting 0.090, \
             against 0.120 for er-ring"
        );
        assert_eq!(summary(&records[..1]), None);
    }

    #[test]
    fn answers_at_chance_level_are_told() {
        let with = |method: &str, confusion: [[u32; 2]; 2]| {
            let mut record = record(method, 0, Some(50.0), 0.1);
            let confusion = confusion.map(Vec::from).to_vec();
            record.detail = Some(Detail { confusion, ..Detail::default() });
            record.class_names = vec!["sound".to_owned(), "faulty".to_owned()];
            record
        };
        // 90 of `sound` and 10 of `faulty`: 90 right answers are no merit, 91 are.
        let mut records = vec![with("finetune", [[90, 0], [10, 0]]), with("hal", [[85, 5], [4, 6]])];
        assert_eq!(
            cautions(&records),
            [
                "finetune: 90.0 % of all test samples are answered right, no more than `sound` for every sample gives, \
              90.0 %"
            ]
        );
        records[0].config.insert("scenario".to_owned(), Value::text("task"));
        assert_eq!(cautions(&records), [""; 0]);
    }

    #[test]
    fn a_clear_difference_is_told_with_its_interval() {
        let accuracies = [("hal", [74.0, 75.0, 74.5]), ("er-ring", [70.0, 71.2, 70.4])];
        let records: Vec<Record> = accuracies
            .iter()
            .flat_map(|(method, all)| (0..).zip(all).map(|(seed, a)| record(method, seed, Some(*a), 0.1)))
            .collect();
        let sentence = summary(&records).unwrap();
        assert!(
            sentence.contains(": 4.0 points above er-ring (95 % interval 3.6 to 4.3, 3 seeds)"),
            "{sentence}"
        );
    }

    #[test]
    fn a_method_that_diverged_is_not_praised_before_that_is_said() {
        let records = [
            record("er-ring", 0, Some(70.0), 0.12),
            record("er-ring", 1, Some(72.0), 0.12),
            record("hal", 0, Some(74.0), 0.09),
            record("hal", 1, None, 0.0),
        ];
        let sentence = summary(&records).unwrap();
        assert!(
            sentence.starts_with("hal: 1 of 2 diverged; over its other runs it has the highest"),
            "{sentence}"
        );
    }

    #[test]
    fn the_table_shows_divergence_and_no_deviation_of_a_single_run() {
        let records = [
            record("hal", 0, Some(74.0), 0.09),
            record("hal", 1, None, 0.0),
            record("er-ring", 0, Some(70.0), 0.1),
            record("er-ring", 1, Some(72.0), 0.1),
        ];
        let text = results_table(&records);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[2].contains("74.0") && lines[2].ends_with("1 of 2 diverged"), "{text}");
        assert!(!lines[2].contains('±') && lines[3].contains("71.0 ± 1.0"), "{text}");
        let one = results_table(&records[..1]);
        assert!(!one.contains('±') && one.contains("0.090") && !one.contains("note"), "{one}");
    }
}
