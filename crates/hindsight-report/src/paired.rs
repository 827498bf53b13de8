//! Differences between two methods, seed by seed: what the seeds have in common drops out.

use super::Group;
use hindsight::metrics::mean;

/// The accuracy of one group minus that of another, over the seeds that both have, in points.
#[derive(Debug, Clone, PartialEq)]
pub struct Paired {
    /// One difference per common seed.
    pub differences: Vec<f64>,
    /// Their mean.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval of the mean (Student's t); none for a single seed.
    pub half_width: Option<f64>,
}

impl Paired {
    /// In how many seeds the first is above the second.
    pub fn wins(&self) -> usize {
        self.differences.iter().filter(|difference| **difference > 0.0).count()
    }
}

/// How far `a` is above `b`; none if they have no finished seed in common.
pub fn paired(a: &Group<'_>, b: &Group<'_>) -> Option<Paired> {
    let difference = |of: &&hindsight::Record| {
        let other = b.records.iter().find(|other| other.seed == of.seed)?;
        Some(of.accuracy? - other.accuracy?)
    };
    let differences: Vec<f64> = a.records.iter().filter_map(difference).collect();
    if differences.is_empty() {
        return None;
    }
    let (n, center) = (differences.len() as f64, mean(differences.iter().copied()));
    let half_width = (differences.len() > 1).then(|| {
        let variance = differences.iter().map(|d| (d - center).powi(2)).sum::<f64>() / (n - 1.0);
        student_t(differences.len() - 1) * (variance / n).sqrt()
    });
    Some(Paired { differences, mean: center, half_width })
}

/// The 97.5 % quantile of Student's t distribution.
fn student_t(freedom: usize) -> f64 {
    const FIRST: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048,
        2.045, 2.042,
    ];
    // Beyond the table, three terms of the expansion about the normal quantile are right to three digits.
    let (z, n): (f64, f64) = (1.959_964, freedom as f64);
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * n * n);
    FIRST.get(freedom - 1).copied().unwrap_or(z + (z.powi(3) + z) / (4.0 * n) + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_books() {
        for (freedom, expected) in [(1, 12.706), (4, 2.776), (30, 2.042), (40, 2.021), (120, 1.980)] {
            assert!((student_t(freedom) - expected).abs() < 6e-4, "{freedom}: {}", student_t(freedom));
        }
    }
}
