//! Prequential evaluation: each batch of the stream is answered before it is learned from.

use std::collections::VecDeque;

use hindsight_nn::Inputs;
use serde::{Deserialize, Serialize};

use crate::{Batch, Learner, Stream};

/// At most so many points are kept of a curve.
const POINTS: usize = 250;

/// Accuracy along the stream, tested before trained.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Prequential {
    /// Samples in the sliding window.
    pub window: usize,
    /// Samples answered so far.
    pub samples: usize,
    /// How many of them were answered right.
    pub right: usize,
    /// Accuracy over the last `window` samples at moments of the stream.
    pub points: Vec<PrequentialPoint>,
    /// Whether each of the last samples was answered right, oldest first: what a run needs to go on.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub(crate) recent: VecDeque<u8>,
}

/// One moment of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PrequentialPoint {
    /// Samples answered until then.
    pub samples: usize,
    /// Accuracy over the last of them, as a fraction.
    pub accuracy: f64,
}

impl Prequential {
    /// Nothing answered yet.
    pub fn new(window: usize) -> Prequential {
        Prequential { window, ..Prequential::default() }
    }

    /// The share of all samples that were answered right; none before the first.
    pub fn accuracy(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.right as f64 / self.samples as f64)
    }

    /// Lets `learner` answer a batch of `stream`, which it has not seen.
    pub(crate) fn test(&mut self, stream: &Stream, learner: &dyn Learner, batch: &Batch) {
        let width = batch.width();
        let mut start = 0;
        // What is told must be the same for all that is asked at a time.
        for part in batch.tasks.chunk_by(|a, b| stream.told(*a as usize) == stream.told(*b as usize)) {
            let inputs = Inputs::dense(&batch.x[start * width..][..part.len() * width], width);
            let answers = learner.predict(&inputs, stream.told(part[0] as usize));
            let labels = &batch.labels[start..start + part.len()];
            answers.iter().zip(labels).for_each(|(answer, label)| self.push(answer == label));
            start += part.len();
        }
        let all: usize = (0..stream.stages()).map(|stage| stream.samples(stage)).sum();
        let each = all.div_ceil(POINTS).max(1);
        let last = self.points.last().map_or(0, |point| point.samples);
        if self.samples / each > last / each || self.samples == all {
            let right: usize = self.recent.iter().map(|&hit| usize::from(hit)).sum();
            let accuracy = right as f64 / self.recent.len().max(1) as f64;
            self.points.push(PrequentialPoint { samples: self.samples, accuracy });
        }
    }

    fn push(&mut self, right: bool) {
        self.samples += 1;
        self.right += usize::from(right);
        self.recent.push_back(right.into());
        if self.recent.len() > self.window {
            self.recent.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_slides_and_the_total_does_not() {
        let mut curve = Prequential::new(3);
        [true, true, false, false, true].into_iter().for_each(|right| curve.push(right));
        assert_eq!((curve.samples, curve.right), (5, 3));
        assert_eq!(curve.recent, [0, 0, 1]);
        assert_eq!(curve.accuracy(), Some(0.6));
        assert_eq!(Prequential::new(3).accuracy(), None);
    }
}
