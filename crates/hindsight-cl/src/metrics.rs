//! Measures of continual learning, each a pure function of the accuracy matrix.
//!
//! `a[i][j]` is the test accuracy on task j after learning task i, as a fraction; T is the number of tasks.
//! Entries that were not evaluated are NaN; a measure that needs one is NaN. Where all tasks are learned at
//! once, the matrix has one row only: nothing is forgotten, and every task has just been learned. Where tasks
//! come back, it has a row for each visit, and `a[T]` is the last of them; a task has been learned after its
//! first visit.

use serde::{Deserialize, Serialize};

/// The accuracy matrix of one run, and the accuracies before any training.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub struct Matrix {
    /// `rows[i][j]`: accuracy on task j after task i.
    pub rows: Vec<Vec<f64>>,
    /// Accuracy on task j before any training; empty if not evaluated.
    pub initial: Vec<f64>,
}

/// A matrix as it is written: null where it is NaN, which JSON does not have.
#[derive(Serialize, Deserialize)]
struct Written {
    rows: Vec<Vec<Option<f64>>>,
    initial: Vec<Option<f64>>,
}

impl From<Matrix> for Written {
    fn from(Matrix { rows, initial }: Matrix) -> Written {
        let known = |row: Vec<f64>| row.into_iter().map(|a| a.is_finite().then_some(a)).collect();
        Written { rows: rows.into_iter().map(known).collect(), initial: known(initial) }
    }
}

impl From<Written> for Matrix {
    fn from(Written { rows, initial }: Written) -> Matrix {
        let read = |row: Vec<Option<f64>>| row.into_iter().map(|a| a.unwrap_or(f64::NAN)).collect();
        Matrix { rows: rows.into_iter().map(read).collect(), initial: read(initial) }
    }
}

/// A measure, with the formula that stands next to its number wherever it is printed.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Name in records and tables.
    pub name: &'static str,
    /// Formula.
    pub formula: &'static str,
    /// The value.
    pub of: fn(&Matrix) -> f64,
}

/// All measures.
pub static METRICS: &[Metric] = &[
    Metric { name: "accuracy", formula: "100 * mean_j a[T][j]", of: |m| 100.0 * m.accuracy() },
    Metric {
        name: "forgetting",
        formula: "mean_{j<T} (max_{i<T} a[i][j] - a[T][j])",
        of: Matrix::forgetting,
    },
    Metric { name: "learning_accuracy", formula: "mean_j a[j][j]", of: Matrix::learning_accuracy },
    Metric {
        name: "backward_transfer",
        formula: "mean_{j<T} (a[T][j] - a[j][j])",
        of: Matrix::backward_transfer,
    },
    Metric {
        name: "forward_transfer",
        formula: "mean_{j>1} (a[j-1][j] - a[0][j])",
        of: Matrix::forward_transfer,
    },
    Metric { name: "anytime_accuracy", formula: "mean_i mean_{j<=i} a[i][j]", of: Matrix::anytime_accuracy },
    Metric { name: "worst_task_accuracy", formula: "min_j a[T][j]", of: Matrix::worst_task_accuracy },
];

impl Matrix {
    /// Mean accuracy over all tasks after the last one.
    pub fn accuracy(&self) -> f64 {
        self.last().map_or(f64::NAN, |last| mean(last.iter().copied()))
    }

    /// How far each task but the last has fallen from its best accuracy before the last task, on average.
    /// Zero for a single task, which nothing came after; negative where later tasks helped.
    pub fn forgetting(&self) -> f64 {
        self.mean_before_last(|j, last| {
            let best = self.rows[..self.rows.len() - 1].iter().map(|row| row[j]).fold(f64::NAN, f64::max);
            best - last[j]
        })
    }

    /// Mean accuracy on each task right after learning it.
    pub fn learning_accuracy(&self) -> f64 {
        if self.joint() {
            return self.accuracy();
        }
        mean(self.rows.iter().take(self.tasks()).enumerate().map(|(i, row)| row[i]))
    }

    /// Mean change of each task but the last between its own end and the end of the stream.
    pub fn backward_transfer(&self) -> f64 {
        self.mean_before_last(|j, last| last[j] - self.rows[j][j])
    }

    /// Mean gain on each task but the first from the tasks before it, over the untrained network.
    pub fn forward_transfer(&self) -> f64 {
        if self.rows.len() == 1 || self.tasks() == 1 {
            return 0.0;
        }
        if self.initial.len() != self.tasks() {
            return f64::NAN;
        }
        mean((1..self.tasks()).map(|j| self.rows[j - 1][j] - self.initial[j]))
    }

    /// Mean over the stream of the mean accuracy on the tasks seen so far.
    pub fn anytime_accuracy(&self) -> f64 {
        if self.joint() {
            return self.accuracy();
        }
        mean(self.rows.iter().enumerate().map(|(i, row)| mean(row.iter().take(i + 1).copied())))
    }

    /// The lowest accuracy after the last task.
    pub fn worst_task_accuracy(&self) -> f64 {
        let Some(last) = self.last() else { return f64::NAN };
        if last.iter().any(|a| a.is_nan()) { f64::NAN } else { last.iter().copied().fold(1.0, f64::min) }
    }

    fn joint(&self) -> bool {
        self.rows.len() == 1 && self.rows[0].len() > 1
    }

    fn tasks(&self) -> usize {
        self.last().map_or(0, Vec::len)
    }

    fn last(&self) -> Option<&Vec<f64>> {
        self.rows.last()
    }

    fn mean_before_last(&self, of: impl Fn(usize, &[f64]) -> f64) -> f64 {
        match self.last() {
            None => f64::NAN,
            Some(_) if self.rows.len() == 1 || self.tasks() == 1 => 0.0,
            Some(last) => mean((0..self.tasks() - 1).map(|j| of(j, last))),
        }
    }
}

/// The mean; NaN of nothing.
pub fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (sum, count) = values.into_iter().fold((0.0, 0.0), |(sum, count), v| (sum + v, count + 1.0));
    sum / count
}

/// The population standard deviation, as the paper reports it.
pub fn deviation(values: &[f64]) -> f64 {
    let center = mean(values.iter().copied());
    mean(values.iter().map(|v| (v - center).powi(2))).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three tasks, worked by hand.
    fn matrix() -> Matrix {
        Matrix {
            rows: vec![vec![0.9, 0.2, 0.1], vec![0.6, 0.8, 0.3], vec![0.5, 0.7, 0.6]],
            initial: vec![0.1, 0.1, 0.2],
        }
    }

    #[track_caller]
    fn assert_is(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-12, "found {found}, worked out {expected}");
    }

    #[test]
    fn measures_are_those_worked_out_by_hand() {
        let m = matrix();
        assert_is(m.accuracy(), 0.6);
        assert_is(m.forgetting(), ((0.9 - 0.5) + (0.8 - 0.7)) / 2.0);
        assert_is(m.learning_accuracy(), (0.9 + 0.8 + 0.6) / 3.0);
        assert_is(m.backward_transfer(), ((0.5 - 0.9) + (0.7 - 0.8)) / 2.0);
        assert_is(m.forward_transfer(), ((0.2 - 0.1) + (0.3 - 0.2)) / 2.0);
        assert_is(m.anytime_accuracy(), (0.9 + 0.7 + 0.6) / 3.0);
        assert_is(m.worst_task_accuracy(), 0.5);
    }

    #[test]
    fn forgetting_is_negative_when_the_last_task_helps() {
        let m = Matrix { rows: vec![vec![0.5, 0.1], vec![0.7, 0.9]], initial: vec![] };
        assert_is(m.forgetting(), -0.2);
    }

    #[test]
    fn forgetting_looks_at_peaks_before_a_task_was_learned_too() {
        // The peak of the second task is after the first: transfer counts as knowledge that can be lost.
        let rows = vec![vec![0.5, 0.6, 0.0], vec![0.5, 0.4, 0.0], vec![0.5, 0.4, 0.5]];
        assert_is(Matrix { rows, initial: vec![] }.forgetting(), 0.1);
    }

    #[test]
    fn a_task_that_comes_back_is_measured_after_its_first_visit_and_at_the_end() {
        let rows = vec![vec![0.9, 0.2], vec![0.5, 0.8], vec![0.8, 0.6], vec![0.7, 1.0]];
        let m = Matrix { rows, initial: vec![0.1, 0.1] };
        assert_is(m.accuracy(), 0.85);
        assert_is(m.learning_accuracy(), (0.9 + 0.8) / 2.0);
        assert_is(m.forgetting(), 0.9 - 0.7);
        assert_is(m.backward_transfer(), 0.7 - 0.9);
        assert_is(m.forward_transfer(), 0.2 - 0.1);
        assert_is(m.anytime_accuracy(), (0.9 + 0.65 + 0.7 + 0.85) / 4.0);
    }

    #[test]
    fn a_single_task_forgets_nothing() {
        let m = Matrix { rows: vec![vec![0.9]], initial: vec![0.1] };
        assert_is(m.forgetting(), 0.0);
        assert_is(m.forward_transfer(), 0.0);
        assert_is(m.accuracy(), 0.9);
    }

    #[test]
    fn what_was_not_evaluated_is_not_a_number() {
        let m = Matrix { rows: vec![vec![f64::NAN; 2], vec![0.5, 0.9]], initial: vec![] };
        assert_is(m.accuracy(), 0.7);
        assert!(m.forgetting().is_nan() && m.learning_accuracy().is_nan() && m.forward_transfer().is_nan());
        // Only the tasks seen so far: enough for forgetting, whose maximum skips what is missing.
        let seen = Matrix { rows: vec![vec![0.8, f64::NAN], vec![0.5, 0.9]], initial: vec![] };
        assert_is(seen.forgetting(), 0.3);
    }

    #[test]
    fn tasks_learned_at_once_are_not_forgotten() {
        let m = Matrix { rows: vec![vec![0.8, 0.6]], initial: vec![0.1, 0.1] };
        assert_is(m.accuracy(), 0.7);
        assert_is(m.learning_accuracy(), 0.7);
        assert_is(m.anytime_accuracy(), 0.7);
        assert_is(m.forgetting(), 0.0);
    }

    #[test]
    fn spread_is_the_population_deviation() {
        assert_is(deviation(&[1.0, 3.0]), 1.0);
        assert_is(deviation(&[2.0]), 0.0);
    }
}
