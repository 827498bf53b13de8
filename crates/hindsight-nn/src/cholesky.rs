//! Systems of linear equations with a symmetric positive definite matrix.

use crate::{
    kernels::{Start, matmul, matmul_tn_accumulate},
    params,
};

/// Columns of a panel.
const PANEL: usize = 64;

/// The lower triangle L of a matrix A = L L^T.
///
/// ```
/// use hindsight_nn::Cholesky;
///
/// let factor = Cholesky::new(2, [vec![4.0], vec![2.0, 3.0]]).unwrap();
/// let mut x = [8.0, 7.0];
/// factor.solve(&mut x);
/// assert!((x[0] - 1.25).abs() < 1e-12 && (x[1] - 1.5).abs() < 1e-12);
/// assert!(Cholesky::new(2, [vec![1.0], vec![2.0, 1.0]]).is_none());
/// ```
#[derive(Debug, Clone)]
pub struct Cholesky {
    panels: Vec<Panel>,
}

/// Some columns of L from their rows on the diagonal to the last row, in one piece of memory: products of
/// panels need no copies.
#[derive(Debug, Clone)]
struct Panel {
    start: usize,
    columns: usize,
    /// `[n - start, columns]`; what is above the diagonal is of no use.
    values: Vec<f64>,
}

impl Panel {
    /// The rows on the diagonal and those below them.
    fn split(&self) -> (&[f64], &[f64]) {
        self.values.split_at(self.columns * self.columns)
    }
}

impl Cholesky {
    /// Factors an `[n, n]` matrix, given by its rows as far as the diagonal; what is behind it in a row is not
    /// read. None if the matrix is not positive definite.
    ///
    /// # Panics
    /// If there are fewer rows, or one ends before the diagonal.
    pub fn new<R: IntoIterator<Item = f64>>(n: usize, rows: impl IntoIterator<Item = R>) -> Option<Cholesky> {
        let mut panels: Vec<Panel> = (0..n)
            .step_by(PANEL)
            .map(|start| {
                let columns = PANEL.min(n - start);
                Panel { start, columns, values: vec![0.0; (n - start) * columns] }
            })
            .collect();
        let mut rows = rows.into_iter();
        for i in 0..n {
            let mut row = rows.next().expect("the matrix has a row for each column").into_iter();
            for panel in panels.iter_mut().take_while(|panel| panel.start <= i) {
                let to = &mut panel.values[(i - panel.start) * panel.columns..];
                for to in &mut to[..panel.columns.min(i + 1 - panel.start)] {
                    *to = row.next().expect("a row reaches the diagonal");
                }
            }
        }
        let mut negative = Vec::new();
        for at in 0..panels.len() {
            let (before, rest) = panels.split_at_mut(at);
            let Panel { start, columns, values } = &mut rest[0];
            // Less X Y^T for each panel to the left: X is what it has from this diagonal on, Y the first rows of
            // that.
            for left in before {
                let x = &left.values[(*start - left.start) * left.columns..];
                negative.clear();
                let column = |k: usize| x.iter().skip(k).step_by(left.columns).take(*columns);
                (0..left.columns).for_each(|k| negative.extend(column(k).map(|y| -y)));
                matmul(x, &negative, *columns, Start::Out, false, values);
            }
            let (diagonal, below) = values.split_at_mut(*columns * *columns);
            factor_block(diagonal, *columns)?;
            // Rows of X with X U = A, where U is the transposed block on the diagonal.
            let a = below.to_vec();
            below.fill(0.0);
            matmul(&a, &inverted_transpose(diagonal, *columns), *columns, Start::Out, false, below);
        }
        Some(Cholesky { panels })
    }

    /// `b = A^-1 b`, `[n, sides]`: a column for each right-hand side.
    ///
    /// # Panics
    /// If `b` has not as many rows as the matrix.
    pub fn solve(&self, b: &mut [f64]) {
        let n = self.panels.last().map_or(0, |last| last.start + last.columns);
        assert!(b.len().is_multiple_of(n.max(1)), "the right-hand sides have not as many rows as the matrix");
        let sides = b.len() / n.max(1);
        if sides == 0 {
            return;
        }
        // L^-1, from the first row on.
        for panel in &self.panels {
            let (diagonal, below) = panel.split();
            let (rows, rest) = b[panel.start * sides..].split_at_mut(panel.columns * sides);
            for (i, lower) in diagonal.chunks_exact(panel.columns).enumerate() {
                let (above, row) = rows.split_at_mut(i * sides);
                let row = &mut row[..sides];
                above.chunks_exact(sides).zip(lower).for_each(|(above, &l)| params::axpy(-l, above, row));
                row.iter_mut().for_each(|b| *b /= lower[i]);
            }
            if !below.is_empty() {
                let negative: Vec<f64> = rows.iter().map(|b| -b).collect();
                matmul(below, &negative, sides, Start::Out, false, rest);
            }
        }
        // L^-T, from the last row on.
        for panel in self.panels.iter().rev() {
            let (diagonal, below) = panel.split();
            let (rows, rest) = b[panel.start * sides..].split_at_mut(panel.columns * sides);
            matmul_tn_accumulate(&[(below, rest)], sides, -1.0, rows);
            for (i, lower) in diagonal.chunks_exact(panel.columns).enumerate().rev() {
                let (above, row) = rows.split_at_mut(i * sides);
                let row = &mut row[..sides];
                row.iter_mut().for_each(|b| *b /= lower[i]);
                above.chunks_exact_mut(sides).zip(lower).for_each(|(above, &l)| params::axpy(-l, row, above));
            }
        }
    }
}

/// Factors a block on the diagonal, `[columns, columns]`.
fn factor_block(rows: &mut [f64], columns: usize) -> Option<()> {
    for i in 0..columns {
        let (above, row) = rows.split_at_mut(i * columns);
        let row = &mut row[..=i];
        for j in 0..i {
            let of_j = &above[j * columns..][..=j];
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

/// U^-1, `[columns, columns]`, where U is the transposed lower triangle of a factored block on the diagonal.
fn inverted_transpose(rows: &[f64], columns: usize) -> Vec<f64> {
    // Row j of U^-1 is column j of L^-1, found from the diagonal on.
    let mut inverse = vec![0.0; columns * columns];
    for (j, row) in inverse.chunks_exact_mut(columns).enumerate() {
        row[j] = 1.0 / rows[j * columns + j];
        for i in j + 1..columns {
            let lower = &rows[i * columns..];
            row[i] = -params::dot(&lower[j..i], &row[j..i]) / lower[i];
        }
    }
    inverse
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    /// Of the whole matrix: what is above the diagonal is not read.
    fn factor(matrix: &[f64], n: usize) -> Option<Cholesky> {
        Cholesky::new(n, matrix.chunks_exact(n).map(|row| row.iter().copied()))
    }

    #[test]
    fn solutions_solve_the_system() {
        // Less than a block, whole blocks, more rows than a product takes.
        for n in [1, 37, 64, 65, 128, 300] {
            let (terms, mut rng) = (2 * n + 13, Rng::named(1, "test"));
            let rows: Vec<f64> = (0..n * terms).map(|_| rng.normal()).collect();
            let row = |i: usize| &rows[i * terms..][..terms];
            let matrix: Vec<f64> = (0..n * n).map(|at| params::dot(row(at / n), row(at % n))).collect();
            let factor = factor(&matrix, n).unwrap();
            for sides in [1, 3] {
                let b: Vec<f64> = (0..n * sides).map(|_| rng.normal()).collect();
                let mut x = b.clone();
                factor.solve(&mut x);
                for (at, b) in b.iter().enumerate() {
                    let column: Vec<f64> = x.iter().skip(at % sides).step_by(sides).copied().collect();
                    let row = &matrix[at / sides * n..][..n];
                    assert!((params::dot(row, &column) - b).abs() < 1e-9, "{n} rows, {sides} sides");
                }
            }
        }
    }

    #[test]
    fn a_matrix_that_is_not_positive_definite_has_no_factor() {
        for at in [0, 63, 64, 199] {
            let mut matrix = vec![0.0; 200 * 200];
            matrix.iter_mut().step_by(201).for_each(|diagonal| *diagonal = 1.0);
            matrix[at * 201] = -1.0;
            assert!(factor(&matrix, 200).is_none());
            matrix[at * 201] = f64::NAN;
            assert!(factor(&matrix, 200).is_none());
        }
    }
}
