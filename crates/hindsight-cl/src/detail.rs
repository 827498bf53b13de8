//! The last evaluation of a run in detail: by class, and how far its probabilities can be trusted.

use hindsight_nn::Inputs;
use serde::{Deserialize, Serialize};

use crate::{Learner, Stream, metrics::mean};

/// Confusions between more classes than this are not kept.
const MOST_CLASSES: usize = 128;
/// Test inputs, over all tasks, whose probabilities are looked at. All would take as long as training does.
const PROBED: usize = 2000;
/// Bins of the reliability diagram.
const BINS: usize = 15;

/// What the answers to all test inputs were, after the last task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Detail {
    /// Of each class, the share of its test inputs that were answered right; null for a class without any.
    pub class_accuracy: Vec<Option<f64>>,
    /// The mean of those shares over the classes that have one.
    pub balanced_accuracy: Option<f64>,
    /// `confusion[c][k]`: test inputs of class c that were taken for class k; empty where classes are many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub confusion: Vec<Vec<u32>>,
    /// The mean distance between confidence and accuracy over the bins of `reliability`, weighted by their
    /// inputs; null for a learner without probabilities.
    pub calibration_error: Option<f64>,
    /// Answers by their probability, in 15 bins of equal width; bins without answers are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reliability: Vec<ReliabilityBin>,
}

/// Answers whose probabilities are about the same.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ReliabilityBin {
    /// Number of answers.
    pub count: u32,
    /// Their mean probability.
    pub confidence: f64,
    /// The share of them that were right.
    pub accuracy: f64,
}

impl Detail {
    /// From pairs of a test input's class and the answer to it, and from pairs of an answer's probability and
    /// whether it was right.
    pub fn new(
        classes: usize,
        answers: impl IntoIterator<Item = (u32, u32)>,
        probed: &[(f32, bool)],
    ) -> Detail {
        let keep = classes <= MOST_CLASSES;
        let mut confusion = vec![vec![0; classes]; if keep { classes } else { 0 }];
        let mut shares = vec![(0_u64, 0_u64); classes];
        for (class, answer) in answers {
            let (right, all) = &mut shares[class as usize];
            (*right, *all) = (*right + u64::from(class == answer), *all + 1);
            if let Some(count) =
                confusion.get_mut(class as usize).and_then(|row| row.get_mut(answer as usize))
            {
                *count += 1;
            }
        }
        let share = |(right, all): (u64, u64)| (all > 0).then(|| right as f64 / all as f64);
        let class_accuracy: Vec<Option<f64>> = shares.into_iter().map(share).collect();
        let balanced = mean(class_accuracy.iter().copied().flatten());
        let reliability = reliability(probed);
        Detail {
            balanced_accuracy: balanced.is_finite().then_some(balanced),
            confusion,
            calibration_error: (!probed.is_empty()).then(|| calibration_error(&reliability)),
            class_accuracy,
            reliability,
        }
    }

    /// Whether what was read hangs together.
    pub(crate) fn check(&self, classes: usize) -> Result<(), String> {
        let square = self.confusion.iter().all(|row| row.len() == self.confusion.len());
        let counted = |len: usize| len == 0 || classes == 0 || len == classes;
        if !square || !counted(self.confusion.len()) || !counted(self.class_accuracy.len()) {
            return Err(format!("`detail` is not of {classes} classes"));
        }
        Ok(())
    }
}

fn reliability(answers: &[(f32, bool)]) -> Vec<ReliabilityBin> {
    let mut bins = [(0_u32, 0.0_f64, 0_u32); BINS];
    for &(confidence, right) in answers {
        // Bins are open below and closed above.
        let bin = ((f64::from(confidence) * BINS as f64).ceil() as usize).clamp(1, BINS) - 1;
        let (count, sum, hits) = &mut bins[bin];
        (*count, *sum, *hits) = (*count + 1, *sum + f64::from(confidence), *hits + u32::from(right));
    }
    let bin = |&(count, sum, hits): &(u32, f64, u32)| ReliabilityBin {
        count,
        confidence: sum / f64::from(count),
        accuracy: f64::from(hits) / f64::from(count),
    };
    bins.iter().filter(|(count, ..)| *count > 0).map(bin).collect()
}

fn calibration_error(bins: &[ReliabilityBin]) -> f64 {
    let all: f64 = bins.iter().map(|bin| f64::from(bin.count)).sum();
    bins.iter().map(|bin| f64::from(bin.count) / all * (bin.accuracy - bin.confidence).abs()).sum()
}

/// The probability of the answer to some test inputs of each task, and whether it is right: up to 2000 inputs
/// in all, evenly spread over each task's.
pub(crate) fn probe(stream: &Stream, learner: &dyn Learner) -> Vec<(f32, bool)> {
    let (classes, width) = (stream.classes(), stream.width());
    let mut answers = Vec::new();
    for task in 0..stream.len() {
        let (inputs, labels) = (stream.test_inputs(task), stream.test_labels(task));
        let count = labels.len().min(PROBED.div_ceil(stream.len()));
        let chosen: Vec<usize> = (0..count).map(|i| i * labels.len() / count).collect();
        let (mut x, mut row) = (Vec::with_capacity(count * width), Vec::new());
        for &i in &chosen {
            inputs.materialise(i..i + 1, &mut row);
            x.extend_from_slice(&row);
        }
        let rows = learner.predict_proba(&Inputs::dense(&x, width), stream.told(task));
        for (row, &i) in rows.chunks_exact(classes).zip(&chosen) {
            let best = (0..classes).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap_or(0);
            answers.push((row[best], best as u32 == labels[i]));
        }
    }
    answers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_are_those_worked_out_by_hand() {
        // Class 0: three of four right; class 1: one of two; class 2 never tested.
        let answers = [(0, 0), (0, 0), (0, 1), (1, 2), (0, 0), (1, 1)];
        let detail = Detail::new(3, answers, &[(0.95, true), (0.99, false), (0.4, false)]);
        assert_eq!(detail.class_accuracy, [Some(0.75), Some(0.5), None]);
        assert_eq!(detail.balanced_accuracy, Some(0.625));
        assert_eq!(detail.confusion, [[3, 1, 0], [0, 1, 1], [0, 0, 0]]);
        // Two answers in the last bin, right half of the time with 0.97; one in the sixth, wrong with 0.4.
        let counts: Vec<u32> = detail.reliability.iter().map(|bin| bin.count).collect();
        assert_eq!(counts, [1, 2]);
        let expected = 1.0 / 3.0 * 0.4 + 2.0 / 3.0 * 0.47;
        assert!((detail.calibration_error.unwrap() - expected).abs() < 1e-6, "{detail:?}");
        assert!(detail.check(3).is_ok() && detail.check(4).is_err());
    }

    #[test]
    fn nothing_known_is_nothing_told() {
        let detail = Detail::new(2, [], &[]);
        assert_eq!((detail.balanced_accuracy, detail.calibration_error), (None, None));
        let many = Detail::new(200, [(0, 199), (1, 1)], &[]);
        assert_eq!((many.confusion.len(), many.balanced_accuracy), (0, Some(0.5)));
    }

    #[test]
    fn a_sure_and_right_answer_is_in_the_last_bin_and_calibrated() {
        let detail = Detail::new(2, [(0, 0)], &[(1.0, true), (0.0, false)]);
        assert_eq!(detail.calibration_error, Some(0.0));
        assert_eq!(detail.reliability.len(), 2);
    }
}
