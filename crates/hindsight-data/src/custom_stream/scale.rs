//! Standardisation of features.

use serde::{Deserialize, Serialize};

use crate::samples::Samples;

/// What is taken from each feature, and what it is then multiplied with; nothing, if there is none of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Scale(Vec<(f64, f64)>);

impl Scale {
    /// Takes the first of each pair from the feature, and multiplies it with the second.
    pub fn new(features: Vec<(f64, f64)>) -> Scale {
        Scale(features)
    }

    /// The mean of each of `width` features over `rows`, and the inverse of its standard deviation.
    ///
    /// A feature that never changes tells nothing, and no network learns what to make of it when it does, so
    /// it is multiplied with zero.
    pub fn of<'r>(samples: &Samples, width: usize, rows: impl Iterator<Item = &'r u32> + Clone) -> Scale {
        let mut row = Vec::new();
        let mut ranges = vec![(f32::INFINITY, f32::NEG_INFINITY); width];
        let (mut sums, mut count) = (vec![0.0; width], 0.0);
        for &i in rows.clone() {
            samples.read(i as usize, width, &mut row);
            count += 1.0;
            for ((x, sum), (low, high)) in row.iter().zip(&mut sums).zip(&mut ranges) {
                *sum += f64::from(*x);
                (*low, *high) = (low.min(*x), high.max(*x));
            }
        }
        let means: Vec<f64> = sums.into_iter().map(|sum| sum / count).collect();
        let mut squares = vec![0.0; width];
        for &i in rows {
            samples.read(i as usize, width, &mut row);
            for ((x, mean), square) in row.iter().zip(&means).zip(&mut squares) {
                *square += (f64::from(*x) - mean).powi(2);
            }
        }
        let inverse = |(square, (low, high)): (f64, &(f32, f32))| {
            if low < high { 1.0 / (square / count).sqrt() } else { 0.0 }
        };
        Scale(means.into_iter().zip(squares.into_iter().zip(&ranges).map(inverse)).collect())
    }

    /// Whether it scales rows of `width` features, and leaves them finite.
    pub fn fits(&self, width: usize) -> bool {
        let finite = |(mean, inverse): &(f64, f64)| mean.is_finite() && inverse.is_finite();
        self.0.is_empty() || (self.0.len() == width && self.0.iter().all(finite))
    }

    /// Whether it leaves rows as they are.
    pub fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// What is taken from each feature, and what it is then multiplied with.
    pub fn pairs(&self) -> &[(f64, f64)] {
        &self.0
    }

    /// Appends rows, scaled.
    pub fn push(&self, rows: &[f32], to: &mut Vec<f32>) {
        if self.is_none() {
            return to.extend_from_slice(rows);
        }
        for row in rows.chunks_exact(self.0.len()) {
            // A value far from all that were seen in training stays a number.
            let scaled = |(&x, (mean, inverse)): (&f32, &(f64, f64))| {
                ((f64::from(x) - mean) * inverse).clamp(f32::MIN.into(), f32::MAX.into()) as f32
            };
            to.extend(row.iter().zip(&self.0).map(scaled));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_far_from_all_in_training_stay_finite() {
        let scale = Scale(vec![(1.0, 1e30), (0.0, 0.0)]);
        let mut scaled = Vec::new();
        scale.push(&[3e20, 7.0, -3e20, f32::MAX], &mut scaled);
        assert_eq!(scaled, [f32::MAX, 0.0, f32::MIN, 0.0]);
        assert!(scale.fits(2) && !scale.fits(3) && Scale::default().fits(3));
        assert!(!Scale(vec![(f64::NAN, 1.0)]).fits(1) && !Scale(vec![(0.0, f64::INFINITY)]).fits(1));
    }
}
