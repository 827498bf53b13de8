//! Systems of linear equations with a symmetric positive definite matrix.

use crate::{
    kernels::{Start, dispatch_fixed, matmul, matmul_tn_accumulate},
    params,
};

/// Columns of a panel.
const PANEL: usize = 64;

/// The lower triangle L of a matrix A = L L^T.
///
/// ```
/// use hindsight_nn::Cholesky;
///
/// let mut rows = [vec![3.0], vec![2.0, 2.0]].into_iter();
/// let factor = Cholesky::new(2, |row| row.copy_from_slice(&rows.next().unwrap()), 1.0).unwrap();
/// let mut x = [8.0, 7.0];
/// factor.solve(&mut x);
/// assert!((x[0] - 1.25).abs() < 1e-12 && (x[1] - 1.5).abs() < 1e-12);
/// assert!(Cholesky::new(2, |row| row.fill(1.0), 0.0).is_none());
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
    /// Factors an `[n, n]` matrix with `ridge` added to its diagonal; `fill` writes its rows, one after the
    /// other, as far as the diagonal. None if the matrix is not positive definite.
    pub fn new(n: usize, mut fill: impl FnMut(&mut [f64]), ridge: f64) -> Option<Cholesky> {
        let mut panels: Vec<Panel> = (0..n)
            .step_by(PANEL)
            .map(|start| {
                let columns = PANEL.min(n - start);
                Panel { start, columns, values: vec![0.0; (n - start) * columns] }
            })
            .collect();
        let mut row = vec![0.0; n];
        for i in 0..n {
            fill(&mut row[..=i]);
            row[i] += ridge;
            for panel in panels.iter_mut().take_while(|panel| panel.start <= i) {
                let from = &row[panel.start..(panel.start + panel.columns).min(i + 1)];
                panel.values[(i - panel.start) * panel.columns..][..from.len()].copy_from_slice(from);
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
            let mut definite = true;
            factor_block(diagonal, *columns, &mut definite);
            if !definite {
                return None;
            }
            // Rows of X with X U = A, where U is the transposed block on the diagonal.
            let a = below.to_vec();
            below.fill(0.0);
            let mut inverse = vec![0.0; *columns * *columns];
            invert_block(diagonal, *columns, &mut inverse);
            matmul(&a, &transposed(&inverse, *columns), *columns, Start::Out, false, below);
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

dispatch_fixed! {
    /// Factors a block on the diagonal, `[columns, columns]` with at most [`PANEL`] columns, column by column.
    /// What is above the diagonal is overwritten.
    factor_block = factor_block_body(rows: &mut [f64], columns: usize, definite: &mut bool)
}

/// Values that are updated together: whole vectors, also where a zero makes a part of them stay as it is.
const LANES: usize = 8;

#[inline(always)]
fn factor_block_body(rows: &mut [f64], columns: usize, definite: &mut bool) {
    let mut column = [0.0; PANEL];
    for k in 0..columns {
        let pivot = rows[k * columns + k];
        if !(pivot > 0.0 && pivot.is_finite()) {
            *definite = false;
            return;
        }
        let pivot = pivot.sqrt();
        rows[k * columns + k] = pivot;
        column[k] = 0.0;
        for i in k + 1..columns {
            let entry = &mut rows[i * columns + k];
            *entry /= pivot;
            column[i] = *entry;
        }
        let start = (k + 1) / LANES * LANES;
        for (i, row) in rows.chunks_exact_mut(columns).enumerate().skip(k + 1) {
            let end = (i + 1).next_multiple_of(LANES).min(columns);
            subtract(column[i], &column[start..end], &mut row[start..end]);
        }
    }
}

dispatch_fixed! {
    /// L^-1 of a factored block on the diagonal; `inverse` is zero.
    invert_block = invert_block_body(rows: &[f64], columns: usize, inverse: &mut [f64])
}

#[inline(always)]
fn invert_block_body(rows: &[f64], columns: usize, inverse: &mut [f64]) {
    for (i, lower) in rows.chunks_exact(columns).enumerate() {
        let (above, row) = inverse.split_at_mut(i * columns);
        for (m, above) in above.chunks_exact(columns).enumerate() {
            let end = (m + 1).next_multiple_of(LANES).min(columns);
            subtract(lower[m], &above[..end], &mut row[..end]);
        }
        row[i] = 1.0;
        row[..=i].iter_mut().for_each(|value| *value /= lower[i]);
    }
}

/// `to -= a * from`.
#[inline(always)]
fn subtract(a: f64, from: &[f64], to: &mut [f64]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to -= a * from);
}

fn transposed(square: &[f64], columns: usize) -> Vec<f64> {
    (0..columns).flat_map(|j| square[j..].iter().step_by(columns).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    /// Of the whole matrix: what is above the diagonal is not read.
    fn factor(matrix: &[f64], n: usize) -> Option<Cholesky> {
        let mut rows = matrix.chunks_exact(n);
        Cholesky::new(n, |row| row.copy_from_slice(&rows.next().unwrap()[..row.len()]), 0.0)
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
