//! Product of sparse rows with a dense matrix.
//!
//! Four fifths of an MNIST image is zero. Forward, the rows are the images and the matrix is the first
//! layer; for the weight gradient the rows are the pixels (the transposed batch) and the matrix holds the
//! deltas. One kernel does both.

use std::ops::Range;

use super::{dispatch, madd};
use crate::{Scalar, SparseRows};

/// What becomes of a product.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Epilogue<T> {
    /// `out = product`.
    Store,
    /// `out += scale * product`; rows without entries are not touched.
    Accumulate(T),
}

dispatch! {
    /// `out = rows[range] matrix` or `out += scale * rows[range] matrix`; `matrix: [width, n]`.
    sparse_product = body(rows: &SparseRows<T>, range: Range<usize>, matrix: &[T], n: usize, to: Epilogue<T>, out: &mut [T])
}

#[inline(always)]
fn body<T: Scalar, const FMA: bool>(
    rows: &SparseRows<T>,
    range: Range<usize>,
    matrix: &[T],
    n: usize,
    to: Epilogue<T>,
    out: &mut [T],
) {
    // Blocks of 64 columns: the sums stay in registers, and a block of the matrix stays in the L2 cache
    // while all rows pass over it.
    let mut j = 0;
    while j + 64 <= n {
        block::<T, 64, FMA>(rows, range.clone(), matrix, n, j, to, out);
        j += 64;
    }
    while j + 8 <= n {
        block::<T, 8, FMA>(rows, range.clone(), matrix, n, j, to, out);
        j += 8;
    }
    while j < n {
        block::<T, 1, FMA>(rows, range.clone(), matrix, n, j, to, out);
        j += 1;
    }
}

/// Columns `j..j + N` of the product. An entry is one chain over the row's entries in order, whatever the
/// block it falls into, so results do not depend on the rows around it.
#[inline(always)]
fn block<T: Scalar, const N: usize, const FMA: bool>(
    rows: &SparseRows<T>,
    range: Range<usize>,
    matrix: &[T],
    n: usize,
    j: usize,
    to: Epilogue<T>,
    out: &mut [T],
) {
    for (r, i) in range.enumerate() {
        let (columns, values) = rows.row(i);
        let mut sums = [T::zero(); N];
        for (&column, &value) in columns.iter().zip(values) {
            let weights = &matrix[column as usize * n + j..][..N];
            for q in 0..N {
                sums[q] = madd::<T, FMA>(value, weights[q], sums[q]);
            }
        }
        let out = &mut out[r * n + j..][..N];
        match to {
            Epilogue::Store => out.copy_from_slice(&sums),
            Epilogue::Accumulate(_) if columns.is_empty() => {}
            Epilogue::Accumulate(scale) => {
                for q in 0..N {
                    out[q] = madd::<T, FMA>(scale, sums[q], out[q]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Rng, kernels::product};

    #[test]
    fn a_sparse_product_is_the_dense_one() {
        let mut rng = Rng::named(2, "test");
        for (m, k, n) in [(1, 1, 1), (5, 30, 75), (20, 50, 128), (3, 0, 9)] {
            let a: Vec<f64> =
                (0..m * k).map(|_| if rng.uniform() < 0.2 { rng.normal() } else { 0.0 }).collect();
            let b: Vec<f64> = (0..k * n).map(|_| rng.normal()).collect();
            let mut rows = SparseRows::new(k);
            (0..m).for_each(|i| rows.push(a[i * k..][..k].iter().copied()));

            let (mut expected, mut stored, mut added) =
                (vec![0.0; m * n], vec![9.0; m * n], vec![1.0; m * n]);
            product(&a, &b, n, &mut expected);
            sparse_product(&rows, 0..m, &b, n, Epilogue::Store, &mut stored);
            sparse_product(&rows, 0..m, &b, n, Epilogue::Accumulate(-2.0), &mut added);
            for i in 0..m * n {
                assert!((stored[i] - expected[i]).abs() < 1e-12);
                assert!((added[i] - (1.0 - 2.0 * expected[i])).abs() < 1e-12);
            }
        }
    }
}
