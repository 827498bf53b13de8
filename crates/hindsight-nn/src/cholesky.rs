//! Systems of linear equations with a symmetric positive definite matrix.

use crate::{
    kernels::{Start, matmul},
    params,
};

/// Columns that are factored before the rest of the matrix is updated, by one product of matrices.
const BLOCK: usize = 64;

/// Rows of such a product: above the diagonal it computes what is not needed.
const ROWS: usize = 128;

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
        let [mut panel, mut solved, mut negative, mut columns, mut block] = [const { Vec::new() }; 5];
        for start in (0..n).step_by(BLOCK) {
            let end = (start + BLOCK).min(n);
            let (width, below) = (end - start, n - end);
            factor_block(&mut matrix[start * n..end * n], n, start)?;
            // The columns of the block below it: rows of X with X U = A, where U is the block's L^T.
            panel.clear();
            matrix[end * n..].chunks_exact(n).for_each(|row| panel.extend_from_slice(&row[start..end]));
            let inverse = inverted_transpose(&matrix[start * n..end * n], n, start);
            solved.clear();
            solved.resize(panel.len(), 0.0);
            matmul(&panel, &inverse, width, Start::Out, false, &mut solved);
            std::mem::swap(&mut panel, &mut solved);
            for (row, solved) in matrix[end * n..].chunks_exact_mut(n).zip(panel.chunks_exact(width)) {
                row[start..end].copy_from_slice(solved);
            }
            // What is left of the lower triangle, less X X^T, some rows at a time.
            negative.clear();
            negative.resize(width * below, 0.0);
            for (i, row) in panel.chunks_exact(width).enumerate() {
                row.iter().enumerate().for_each(|(j, x)| negative[j * below + i] = -x);
            }
            for first in (0..below).step_by(ROWS) {
                let last = (first + ROWS).min(below);
                columns.clear();
                negative.chunks_exact(below).for_each(|row| columns.extend_from_slice(&row[..last]));
                let rows = &mut matrix[(end + first) * n..(end + last) * n];
                block.clear();
                rows.chunks_exact(n).for_each(|row| block.extend_from_slice(&row[end..end + last]));
                matmul(&panel[first * width..last * width], &columns, last, Start::Out, false, &mut block);
                for (row, new) in rows.chunks_exact_mut(n).zip(block.chunks_exact(last)) {
                    row[end..end + last].copy_from_slice(new);
                }
            }
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

/// Factors a block on the diagonal: `rows` of the matrix, which begins in the column `start`.
fn factor_block(rows: &mut [f64], n: usize, start: usize) -> Option<()> {
    for i in 0..rows.len() / n {
        let (above, row) = rows.split_at_mut(i * n);
        let row = &mut row[start..][..=i];
        for j in 0..i {
            let of_j = &above[j * n + start..][..=j];
            let sum = params::dot(&row[..j], &of_j[..j]);
            row[j] = (row[j] - sum) / of_j[j];
        }
        let rest = row[i] - params::dot(&row[..i], &row[..i]);
        if !(rest > 0.0 && rest.is_finite()) {
            return None;
        }
        row[i] = rest.sqrt();
    }
    Some(())
}

/// U^-1, `[width, width]`, where U is the transposed lower triangle of a factored block on the diagonal.
fn inverted_transpose(rows: &[f64], n: usize, start: usize) -> Vec<f64> {
    let width = rows.len() / n;
    let lower = |i: usize, j: usize| rows[i * n + start + j];
    // Row j of U^-1 is column j of L^-1, found from the diagonal on.
    let mut inverse = vec![0.0; width * width];
    for (j, row) in inverse.chunks_exact_mut(width).enumerate() {
        row[j] = 1.0 / lower(j, j);
        for i in j + 1..width {
            let sum = params::dot(&rows[i * n + start + j..][..i - j], &row[j..i]);
            row[i] = -sum / lower(i, i);
        }
    }
    inverse
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    #[test]
    fn solutions_solve_the_system() {
        // Less than a block, whole blocks, more rows than a product takes.
        for n in [1, 37, 64, 65, 128, 300] {
            let (terms, mut rng) = (2 * n + 13, Rng::named(1, "test"));
            let rows: Vec<f64> = (0..n * terms).map(|_| rng.normal()).collect();
            let row = |i: usize| &rows[i * terms..][..terms];
            let matrix: Vec<f64> = (0..n * n).map(|at| params::dot(row(at / n), row(at % n))).collect();
            let b: Vec<f64> = (0..n).map(|_| rng.normal()).collect();
            let mut x = b.clone();
            Cholesky::new(matrix.clone(), n).unwrap().solve(&mut x);
            for (row, b) in matrix.chunks_exact(n).zip(b) {
                assert!((params::dot(row, &x) - b).abs() < 1e-9, "{n}");
            }
        }
    }

    #[test]
    fn a_matrix_that_is_not_positive_definite_has_no_factor() {
        for at in [0, 63, 64, 199] {
            let mut matrix = vec![0.0; 200 * 200];
            matrix.iter_mut().step_by(201).for_each(|diagonal| *diagonal = 1.0);
            matrix[at * 201] = -1.0;
            assert!(Cholesky::new(matrix.clone(), 200).is_none());
            matrix[at * 201] = f64::NAN;
            assert!(Cholesky::new(matrix, 200).is_none());
        }
    }
}
