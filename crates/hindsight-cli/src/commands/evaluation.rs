//! How well a model answers for rows whose labels are known.

use std::{collections::BTreeMap, fmt::Write};

use serde_json::{Value, json};

/// Answers and labels, counted.
pub(super) struct Evaluation {
    /// The model's classes, then labels that it does not know.
    names: Vec<String>,
    known: usize,
    /// How often a label, an index into `names`, got an answer.
    counts: BTreeMap<(usize, usize), u64>,
    /// Of each task: right answers and all.
    tasks: Vec<(String, [u64; 2])>,
}

/// Confusions of more classes are not shown as text.
const SHOWN: usize = 20;

impl Evaluation {
    pub(super) fn new(names: Vec<String>) -> Evaluation {
        Evaluation { known: names.len(), names, counts: BTreeMap::new(), tasks: Vec::new() }
    }

    pub(super) fn add(&mut self, label: &str, answer: usize, task: Option<&str>) {
        let truth = self.names.iter().position(|name| name == label).unwrap_or_else(|| {
            self.names.push(label.to_owned());
            self.names.len() - 1
        });
        *self.counts.entry((truth, answer)).or_default() += 1;
        if let Some(task) = task {
            let at = self.tasks.iter().position(|(name, _)| name == task).unwrap_or_else(|| {
                self.tasks.push((task.to_owned(), [0; 2]));
                self.tasks.len() - 1
            });
            let [right, all] = &mut self.tasks[at].1;
            (*right, *all) = (*right + u64::from(truth == answer), *all + 1);
        }
    }

    fn sum(&self, of: impl Fn(usize, usize) -> bool) -> u64 {
        self.counts.iter().filter(|((truth, answer), _)| of(*truth, *answer)).map(|(_, count)| count).sum()
    }

    fn accuracy(&self) -> f64 {
        self.sum(|truth, answer| truth == answer) as f64 / self.sum(|_, _| true).max(1) as f64
    }

    /// Of a class: its rows, the share of them that was found, and the share of its answers that was right.
    fn class(&self, class: usize) -> (u64, Option<f64>, Option<f64>) {
        let right = self.sum(|truth, answer| truth == class && answer == class) as f64;
        let (rows, answers) = (self.sum(|truth, _| truth == class), self.sum(|_, answer| answer == class));
        let share = |of: u64| (of > 0).then(|| right / of as f64);
        (rows, share(rows), share(answers))
    }

    /// The most frequent label and its share.
    fn majority(&self) -> Option<(&str, f64)> {
        let most = (0..self.names.len()).max_by_key(|&class| (self.class(class).0, usize::MAX - class))?;
        Some((&self.names[most], self.class(most).0 as f64 / self.sum(|_, _| true).max(1) as f64))
    }

    /// What should be known about the accuracy.
    pub(super) fn caution(&self) -> Option<String> {
        let (name, share) = self.majority()?;
        (self.accuracy() <= share && self.names.len() > 1).then(|| {
            format!(
                "accuracy {:.1} % is no more than answering `{name}` for every row gives, {:.1} %",
                100.0 * self.accuracy(),
                100.0 * share
            )
        })
    }

    pub(super) fn json(&self) -> Value {
        let class = |class: usize| {
            let (rows, recall, precision) = self.class(class);
            let known = class < self.known;
            json!({ "class": self.names[class], "known": known, "rows": rows, "recall": recall, "precision": precision })
        };
        let task = |(name, [right, all]): &(String, [u64; 2])| json!({ "task": name, "rows": all, "accuracy": *right as f64 / *all as f64 });
        let confusion = |((truth, answer), count): (&(usize, usize), &u64)| json!({ "label": self.names[*truth], "answer": self.names[*answer], "rows": count });
        json!({
            "rows": self.sum(|_, _| true),
            "accuracy": self.accuracy(),
            "majority": self.majority().map(|(_, share)| share),
            "classes": (0..self.names.len()).map(class).collect::<Vec<_>>(),
            "tasks": self.tasks.iter().map(task).collect::<Vec<_>>(),
            "confusion": self.counts.iter().map(confusion).collect::<Vec<_>>(),
        })
    }

    pub(super) fn text(&self) -> String {
        let percent =
            |share: Option<f64>| share.map_or("-".to_owned(), |share| format!("{:.1}", 100.0 * share));
        let rows = self.sum(|_, _| true);
        let mut text = format!("accuracy {} % of {rows} rows\n", percent(Some(self.accuracy())));
        let names = self.names.iter().chain(self.tasks.iter().map(|(name, _)| name));
        let width = names.map(|name| name.chars().count()).max().unwrap_or(0).max(5);
        let _ =
            writeln!(text, "\n{:width$}  {:>8}  {:>8}  {:>11}", "class", "rows", "recall %", "precision %");
        for (class, name) in self.names.iter().enumerate() {
            let (rows, recall, precision) = self.class(class);
            let unknown = if class < self.known { "" } else { "  (not a class of the model)" };
            let _ = writeln!(
                text,
                "{name:width$}  {rows:>8}  {:>8}  {:>11}{unknown}",
                percent(recall),
                percent(precision)
            );
        }
        if !self.tasks.is_empty() {
            let _ = writeln!(text, "\n{:width$}  {:>8}  {:>10}", "task", "rows", "accuracy %");
            for (name, [right, all]) in &self.tasks {
                let accuracy = percent(Some(*right as f64 / *all as f64));
                let _ = writeln!(text, "{name:width$}  {all:>8}  {accuracy:>10}");
            }
        }
        if self.names.len() > SHOWN {
            text += "\nconfusions of so many classes are in the output of `--json`\n";
            return text;
        }
        let _ = write!(text, "\n{:width$}", "label");
        let cell = self.names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(6);
        for name in &self.names[..self.known] {
            let _ = write!(text, "  {name:>cell$}");
        }
        text += "   answered\n";
        for (truth, name) in self.names.iter().enumerate() {
            let _ = write!(text, "{name:width$}");
            for answer in 0..self.known {
                let count = self.counts.get(&(truth, answer)).copied().unwrap_or(0);
                let _ = write!(text, "  {count:>cell$}");
            }
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_rows_and_of_answers() {
        let mut evaluation = Evaluation::new(vec!["a".to_owned(), "b".to_owned()]);
        for (label, answer, task) in
            [("a", 0, "mon"), ("a", 0, "mon"), ("a", 1, "tue"), ("b", 1, "tue"), ("c", 0, "tue")]
        {
            evaluation.add(label, answer, Some(task));
        }
        let json = evaluation.json();
        assert_eq!((json["rows"].as_u64(), json["accuracy"].as_f64()), (Some(5), Some(0.6)));
        assert_eq!(json["classes"][0]["recall"], 2.0 / 3.0);
        assert_eq!(json["classes"][0]["precision"], 2.0 / 3.0);
        assert_eq!(json["classes"][2]["known"], false);
        assert_eq!(json["tasks"][1]["accuracy"], 1.0 / 3.0);
        // Always `a` is as good.
        assert!(evaluation.caution().unwrap().contains("`a`"));
        let text = evaluation.text();
        assert!(text.starts_with("accuracy 60.0 % of 5 rows\n"), "{text}");
        assert!(
            text.contains("c             1       0.0            -  (not a class of the model)"),
            "{text}"
        );
    }
}
