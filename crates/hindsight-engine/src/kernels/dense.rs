//! Products of dense row-major matrices, by the `gemm` crate on one thread: runs go in parallel, not steps.

use gemm::{Parallelism, gemm};

use crate::Scalar;

/// `out = a b` with `a: [m, k]`, `b: [k, n]`, `out: [m, n]`.
pub(crate) fn product<T: Scalar>(a: &[T], b: &[T], n: usize, out: &mut [T]) {
    let (m, k) = (out.len() / n, b.len() / n);
    assert_eq!((a.len(), b.len(), out.len()), (m * k, k * n, m * n), "product of matrices that do not fit");
    run([m, n, k], out, None, (a, k, 1), (b, n, 1), T::one());
}

/// `out = a b^T` with `a: [m, n]`, `b: [k, n]`, `out: [m, k]`.
pub(crate) fn product_transposed<T: Scalar>(a: &[T], b: &[T], n: usize, out: &mut [T]) {
    let (m, k) = (a.len() / n, b.len() / n);
    assert_eq!((a.len(), b.len(), out.len()), (m * n, k * n, m * k), "product of matrices that do not fit");
    run([m, k, n], out, None, (a, n, 1), (b, 1, n), T::one());
}

/// `into += scale * a^T b` with `a: [m, k]`, `b: [m, n]`, `into: [k, n]`.
pub(crate) fn accumulate_product<T: Scalar>(a: &[T], b: &[T], n: usize, scale: T, into: &mut [T]) {
    let (m, k) = (b.len() / n, into.len() / n);
    assert_eq!((a.len(), b.len(), into.len()), (m * k, m * n, k * n), "product of matrices that do not fit");
    run([k, n, m], into, Some(T::one()), (a, 1, k), (b, n, 1), scale);
}

/// `out = keep * out + scale * lhs rhs`; each operand comes with its row and column strides.
fn run<T: Scalar>(
    [m, n, k]: [usize; 3],
    out: &mut [T],
    keep: Option<T>,
    (lhs, lhs_rows, lhs_columns): (&[T], usize, usize),
    (rhs, rhs_rows, rhs_columns): (&[T], usize, usize),
    scale: T,
) {
    // SAFETY: the callers have checked that the slices hold exactly the m x k, k x n and m x n entries that
    // the strides address, and the borrow checker that `out` overlaps neither operand.
    unsafe {
        gemm(
            m,
            n,
            k,
            out.as_mut_ptr(),
            1,
            n as isize,
            keep.is_some(),
            lhs.as_ptr(),
            lhs_columns as isize,
            lhs_rows as isize,
            rhs.as_ptr(),
            rhs_columns as isize,
            rhs_rows as isize,
            keep.unwrap_or(T::zero()),
            scale,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    fn matrix(rows: usize, columns: usize, rng: &mut Rng) -> Vec<f64> {
        (0..rows * columns).map(|_| rng.normal()).collect()
    }

    #[test]
    fn products_are_the_sums_of_their_definition() {
        let mut rng = Rng::named(1, "test");
        for (m, k, n) in [(1, 1, 1), (3, 5, 2), (20, 17, 10), (1, 9, 33), (40, 3, 16)] {
            let (a, b) = (matrix(m, k, &mut rng), matrix(k, n, &mut rng));
            let entry = |i: usize, j: usize| (0..k).map(|p| a[i * k + p] * b[p * n + j]).sum::<f64>();
            let close = |x: f64, y: f64| assert!((x - y).abs() < 1e-12, "{x} {y} at {m} {k} {n}");

            let mut out = vec![f64::NAN; m * n];
            product(&a, &b, n, &mut out);
            (0..m * n).for_each(|i| close(out[i], entry(i / n, i % n)));

            let transpose = |x: &[f64], columns: usize| -> Vec<f64> {
                let rows = x.len() / columns;
                (0..x.len()).map(|i| x[(i % rows) * columns + i / rows]).collect()
            };
            let mut out = vec![f64::NAN; m * n];
            product_transposed(&a, &transpose(&b, n), k, &mut out);
            (0..m * n).for_each(|i| close(out[i], entry(i / n, i % n)));

            let mut out = vec![1.0; m * n];
            accumulate_product(&transpose(&a, k), &b, n, -0.5, &mut out);
            (0..m * n).for_each(|i| close(out[i], 1.0 - 0.5 * entry(i / n, i % n)));
        }
    }
}
