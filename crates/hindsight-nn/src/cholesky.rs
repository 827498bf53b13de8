//! Systems of linear equations with a symmetric positive definite matrix.

use crate::params;

/// The lower triangle L of a matrix A = L L^T.
///
/// ```
/// use hindsight_nn::Cholesky;
///
/// let factor = Cholesky::new(vec![4.0, 2.0, 2.0, 3.0], 2).unwrap();
/// let mut x = [8.0, 7.0];
/// factor.solve(&mut x);
/// assert!((x[0] - 1.25).abs() < 1e-12 && (x[1] - 1.5).abs() < 1e-12);
/// assert!(Cholesky::new(vec![1.0, 2.0, 2.0, 1.0], 2).is_none());
/// ```
#[derive(Debug, Clone)]
pub struct Cholesky {
    n: usize,
    /// `[n, n]`; what is above the diagonal is of no use.
    lower: Vec<f64>,
}

impl Cholesky {
    /// Factors the `[n, n]` matrix, of which the lower triangle is read. None if it is not positive definite.
    ///
    /// # Panics
    /// If the matrix has another shape.
    pub fn new(mut matrix: Vec<f64>, n: usize) -> Option<Cholesky> {
        assert_eq!(matrix.len(), n * n, "the matrix is not square");
        for i in 0..n {
            let (above, row) = matrix.split_at_mut(i * n);
            for j in 0..i {
                let of_j = &above[j * n..][..=j];
                row[j] = (row[j] - params::dot(&row[..j], &of_j[..j])) / of_j[j];
            }
            let rest = row[i] - params::dot(&row[..i], &row[..i]);
            if !(rest > 0.0 && rest.is_finite()) {
                return None;
            }
            row[i] = rest.sqrt();
        }
        Some(Cholesky { n, lower: matrix })
    }

    /// `b = A^-1 b`.
    ///
    /// # Panics
    /// If `b` has another length than the matrix rows.
    pub fn solve(&self, b: &mut [f64]) {
        let n = self.n;
        assert_eq!(b.len(), n, "the vector has another length than the matrix");
        for i in 0..n {
            let row = &self.lower[i * n..][..=i];
            b[i] = (b[i] - params::dot(&row[..i], &b[..i])) / row[i];
        }
        for i in (0..n).rev() {
            b[i] /= self.lower[i * n + i];
            let (before, at) = b.split_at_mut(i);
            params::axpy(-at[0], &self.lower[i * n..][..i], before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    #[test]
    fn solutions_solve_the_system() {
        let (n, mut rng) = (37, Rng::named(1, "test"));
        let rows: Vec<f64> = (0..n * 50).map(|_| rng.normal()).collect();
        let row = |i: usize| &rows[i * 50..][..50];
        let matrix: Vec<f64> = (0..n * n).map(|at| params::dot(row(at / n), row(at % n))).collect();
        let b: Vec<f64> = (0..n).map(|_| rng.normal()).collect();
        let mut x = b.clone();
        Cholesky::new(matrix.clone(), n).unwrap().solve(&mut x);
        for (row, b) in matrix.chunks_exact(n).zip(b) {
            assert!((params::dot(row, &x) - b).abs() < 1e-9);
        }
    }
}
