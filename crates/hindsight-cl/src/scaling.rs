//! Standardisation of features whose mean and deviation nobody knows beforehand.
//!
//! Running mean and variance (Welford) over the first [`WARM_UP`] samples, which then stay as they are: what
//! a value means to the network must not move for ever. A batch counts before it is scaled, so that the first
//! large chunk is scaled by its own statistics. Scaled values are kept within [`FARTHEST`] deviations: an
//! outlier cannot ruin the learner. A feature that has never changed is zero.

use hindsight_data::custom_stream::Scale;
use serde::{Deserialize, Serialize};

/// Samples that the statistics are taken of.
pub(crate) const WARM_UP: u64 = 1000;

/// Deviations that a scaled value is at most away from zero.
pub(crate) const FARTHEST: f32 = 10.0;

/// Number, mean and sum of squared differences from it, by feature.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Moments {
    count: u64,
    mean: Vec<f64>,
    squares: Vec<f64>,
    /// Of the rows that were taken in, those that are still to be learned from.
    #[serde(default, skip_serializing_if = "is_zero")]
    ahead: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Moments {
    /// Whether it has seen enough.
    pub(crate) fn is_done(&self) -> bool {
        self.count >= WARM_UP
    }

    /// Takes in rows of `width` values that are learned from later.
    pub(crate) fn look_ahead(&mut self, rows: &[f32], width: usize) {
        self.follow(rows, width);
        self.expect(rows.len() / width);
    }

    /// The next `rows` rows that are learned from have been taken in.
    pub(crate) fn expect(&mut self, rows: usize) {
        self.ahead = if self.is_done() { 0 } else { self.ahead.saturating_add(rows as u64) };
    }

    /// How many of the next `rows` rows have been taken in.
    pub(crate) fn known(&self, rows: usize) -> usize {
        self.ahead.min(rows as u64) as usize
    }

    /// Takes in rows that are learned from now, each of them once.
    pub(crate) fn learn(&mut self, rows: &[f32], width: usize) {
        let known = self.known(rows.len() / width);
        self.ahead -= known as u64;
        self.follow(&rows[known * width..], width);
    }

    fn follow(&mut self, rows: &[f32], width: usize) {
        self.mean.resize(width, 0.0);
        self.squares.resize(width, 0.0);
        for row in rows.chunks_exact(width) {
            self.count += 1;
            for ((x, mean), square) in row.iter().zip(&mut self.mean).zip(&mut self.squares) {
                let before = f64::from(*x) - *mean;
                *mean += before / self.count as f64;
                *square += before * (f64::from(*x) - *mean);
            }
        }
    }

    /// What the network sees from now on.
    pub(crate) fn scale(&self) -> Scale {
        let count = self.count as f64;
        // Rounding leaves a little variance in a large constant.
        let inverse = |(mean, square): (&f64, &f64)| {
            let deviation = (square / count).sqrt();
            if deviation > 1e-9 * mean.abs() && deviation > 0.0 { 1.0 / deviation } else { 0.0 }
        };
        let factors = self.mean.iter().zip(&self.squares).map(inverse);
        Scale::new(self.mean.iter().copied().zip(factors).collect())
    }

    /// Whether it hangs together, for inputs of `width` values.
    pub(crate) fn fits(&self, width: usize) -> bool {
        let fits = |values: &Vec<f64>| values.len() == width && values.iter().all(|value| value.is_finite());
        self.count == 0 || (fits(&self.mean) && fits(&self.squares))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_all_rows() {
        let mut moments = Moments::default();
        moments.learn(&[1.0, 7.0, 2.0, 7.0], 2);
        moments.learn(&[3.0, 7.0, 6.0, 7.0], 2);
        let mut scaled = Vec::new();
        moments.scale().push(&[1.0, 7.0, 6.0, 8.0], &mut scaled);
        // 1, 2, 3 and 6 have the mean 3 and the variance 3.5; what never changes becomes zero.
        let z = |x: f64| ((x - 3.0) / 3.5_f64.sqrt()) as f32;
        assert_eq!(scaled, [z(1.0), 0.0, z(6.0), 0.0]);
        assert!(!moments.is_done() && moments.fits(2) && !moments.fits(3));
        moments.learn(&vec![5.0; 2 * WARM_UP as usize], 2);
        assert!(moments.is_done());
    }

    #[test]
    fn rows_that_were_looked_at_before_count_once() {
        let rows = [1.0, 2.0, 3.0, 6.0];
        let (mut once, mut ahead) = (Moments::default(), Moments::default());
        once.learn(&rows, 1);
        ahead.look_ahead(&rows[..3], 1);
        ahead.learn(&rows[..2], 1);
        assert_eq!(ahead.known(9), 1);
        ahead.learn(&rows[2..], 1);
        assert_eq!(ahead, once);
        // A second pass.
        ahead.expect(4);
        ahead.learn(&rows, 1);
        assert_eq!(ahead, once);
    }
}
