//! Paired differences between two methods, seed by seed.

use hindsight::metrics::mean;

use crate::group::Group;

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
    /// From one difference per common seed; none of none.
    pub fn of(differences: Vec<f64>) -> Option<Paired> {
        if differences.is_empty() {
            return None;
        }
        let center = mean(differences.iter().copied());
        let half_width = standard_error(&differences).map(|error| student_t(differences.len() - 1) * error);
        Some(Paired { differences, mean: center, half_width })
    }

    /// In how many seeds the first is above the second.
    pub fn wins(&self) -> usize {
        self.differences.iter().filter(|difference| **difference > 0.0).count()
    }

    /// Whether there is a clear difference: the 95 % interval excludes zero, or all of at least five seeds
    /// agree.
    pub fn is_clear(&self) -> bool {
        let excluded = self.half_width.is_some_and(|half| self.mean.abs() > half);
        let losses = self.differences.iter().filter(|difference| **difference < 0.0).count();
        let all = self.differences.len();
        excluded || (all >= 5 && (self.wins() == all || losses == all))
    }

    /// The 95 % interval in words; none for a single seed.
    pub(crate) fn interval(&self) -> Option<String> {
        let (low, high) = (self.mean - self.half_width?, self.mean + self.half_width?);
        Some(format!("95 % interval {low:.1} to {high:.1}, {} seeds", self.differences.len()))
    }

    /// The p-value of the two-sided paired t-test; none for a single seed.
    pub fn p_value(&self) -> Option<f64> {
        let error = standard_error(&self.differences)?;
        if error == 0.0 {
            return Some(if self.mean == 0.0 { 1.0 } else { 0.0 });
        }
        let (t, freedom) = (self.mean / error, self.differences.len() as f64 - 1.0);
        Some(incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5))
    }
}

/// Standard error of the mean; none for a single value.
fn standard_error(values: &[f64]) -> Option<f64> {
    let (n, center) = (values.len() as f64, mean(values.iter().copied()));
    let variance = values.iter().map(|d| (d - center).powi(2)).sum::<f64>() / (n - 1.0);
    (values.len() > 1).then(|| (variance / n).sqrt())
}

/// The accuracy of `a` minus that of `b` over common seeds; none if they have no finished seed in common.
pub fn paired(a: &Group<'_>, b: &Group<'_>) -> Option<Paired> {
    let difference = |of: &&hindsight::Record| {
        let other = b.records.iter().find(|other| other.seed == of.seed)?;
        Some(of.accuracy? - other.accuracy?)
    };
    Paired::of(a.records.iter().filter_map(difference).collect())
}

/// p-values corrected for their number by the step-down procedure of Holm.
pub(crate) fn holm(p_values: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut order: Vec<(usize, f64)> =
        p_values.iter().enumerate().filter_map(|(i, p)| Some((i, (*p)?))).collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut corrected = vec![None; p_values.len()];
    let mut largest: f64 = 0.0;
    for (rank, &(i, p)) in order.iter().enumerate() {
        largest = largest.max(p * (order.len() - rank) as f64).min(1.0);
        corrected[i] = Some(largest);
    }
    corrected
}

/// The regularised incomplete beta function I_x(a, b), by its continued fraction.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    // The fraction converges fast on one side of the mean; the other follows by symmetry.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp() / a;
    // Lentz's algorithm.
    let tiny = 1e-300;
    let bounded = |value: f64| if value.abs() < tiny { tiny } else { value };
    let (mut c, mut d) = (1.0, 1.0 / bounded(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    for m in 1..300 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let before = fraction;
        for term in [even, odd] {
            d = 1.0 / bounded(1.0 + term * d);
            c = bounded(1.0 + term / c);
            fraction *= c * d;
        }
        if (fraction - before).abs() <= 1e-15 * fraction.abs() {
            break;
        }
    }
    front * fraction
}

/// ln Gamma(x) for x > 0, by Stirling's series.
fn ln_gamma(x: f64) -> f64 {
    // The series needs a large argument: Gamma(x) = Gamma(x + 1) / x.
    if x < 12.0 {
        return ln_gamma(x + 1.0) - x.ln();
    }
    let series = 1.0 / (12.0 * x) - 1.0 / (360.0 * x.powi(3)) + 1.0 / (1260.0 * x.powi(5));
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series
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
    fn p_values_are_those_of_numerical_integration() {
        for (x, expected) in [
            (vec![1.0, 2.0, 3.0, 4.0, 5.0], 0.013_236),
            (vec![0.4, -0.1, 0.3], 0.320_634),
            (vec![-2.0, 1.0], 0.795_167),
        ] {
            let found = Paired::of(x).unwrap().p_value().unwrap();
            assert!((found - expected).abs() < 2e-6, "{found}, expected {expected}");
        }
        assert_eq!(Paired::of(vec![3.0]).unwrap().p_value(), None);
    }

    #[test]
    fn an_interval_that_ends_at_zero_has_a_p_value_of_five_percent() {
        for n in [2, 3, 5, 10, 31] {
            // Values around their half width have that as their mean.
            let spread: Vec<f64> = (0..n).map(|i| f64::from(i) - f64::from(n - 1) / 2.0).collect();
            let half = Paired::of(spread.clone()).unwrap().half_width.unwrap();
            let shifted = Paired::of(spread.iter().map(|x| x + half).collect()).unwrap();
            assert!((shifted.p_value().unwrap() - 0.05).abs() < 1e-4, "{n}: {:?}", shifted.p_value());
        }
    }

    #[test]
    fn holm_multiplies_by_the_number_of_hypotheses_left() {
        let corrected = holm(&[Some(0.01), None, Some(0.04), Some(0.03), Some(0.9)]);
        let expected = [Some(0.04), None, Some(0.09), Some(0.09), Some(0.9)];
        for (found, expected) in corrected.iter().zip(expected) {
            assert_eq!(found.map(|p| (p * 1e6).round() / 1e6), expected);
        }
    }

    #[test]
    fn a_difference_is_clear_by_its_interval_or_by_five_agreeing_seeds() {
        let clear = |differences: &[f64]| Paired::of(differences.to_vec()).unwrap().is_clear();
        assert!(!clear(&[20.0]) && !clear(&[4.0, -1.0]) && !clear(&[0.1, 9.0, 0.1]));
        assert!(clear(&[4.0, 4.1, 3.9]) && clear(&[-4.0, -4.1, -3.9]));
        assert!(clear(&[0.1, 0.1, 0.1, 0.1, 30.0]) && !clear(&[0.1, 0.1, 0.1, 0.0, 30.0]));
    }

    #[test]
    fn quantiles_are_those_of_the_books() {
        for (freedom, expected) in [(1, 12.706), (4, 2.776), (30, 2.042), (40, 2.021), (120, 1.980)] {
            assert!((student_t(freedom) - expected).abs() < 6e-4, "{freedom}: {}", student_t(freedom));
        }
    }
}
