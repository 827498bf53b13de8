//! Matrices that store their non-zero entries only, row by row.

use std::ops::Range;

use super::{
    Scalar, compress,
    transpose::{FEWEST_ROWS, MOST_ROWS, SPARE},
};

/// Columns in a segment of a sparse row. As many rows of 256 weights, 32 kB, fit into the L1 cache.
const SEGMENT: usize = 32;

/// A matrix in compressed sparse row form, to which rows are appended.
///
/// Each row is divided into segments of equal width, so that a product can visit all rows segment by segment.
#[derive(Debug, Clone)]
pub struct SparseRows<T = f32> {
    width: usize,
    /// Start of each segment of each row in `columns`, and the end of the last.
    starts: Vec<u32>,
    /// At least as long as the last start says: what is behind it is of no use, and costs nothing to be filled
    /// again. A column is less than `width`.
    columns: Vec<u32>,
    values: Vec<T>,
}

impl<T: Scalar> PartialEq for SparseRows<T> {
    fn eq(&self, other: &SparseRows<T>) -> bool {
        let count = self.nonzeros();
        (self.width, &self.starts) == (other.width, &other.starts)
            && self.columns[..count] == other.columns[..count]
            && self.values[..count] == other.values[..count]
    }
}

impl<T: Scalar> SparseRows<T> {
    /// A matrix with `width` columns and no rows.
    pub fn new(width: usize) -> SparseRows<T> {
        SparseRows { width, starts: vec![0], columns: Vec::new(), values: Vec::new() }
    }

    /// Removes all rows and keeps the allocated memory.
    pub fn clear(&mut self, width: usize) {
        self.width = width;
        self.starts.clear();
        self.starts.push(0);
    }

    /// Reserves memory for `entries` entries in total.
    pub(crate) fn reserve(&mut self, entries: usize) {
        if self.columns.len() < entries {
            self.columns.resize(entries, 0);
            self.values.resize(entries, T::zero());
        }
    }

    /// Number of columns.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Number of segments of a row.
    #[inline(always)]
    pub(crate) fn segments(&self) -> usize {
        self.width.div_ceil(SEGMENT).max(1)
    }

    /// Appends a dense row of `width` values.
    ///
    /// # Panics
    /// If it has another number of values.
    pub fn push(&mut self, row: impl IntoIterator<Item = T>) {
        let (mut end, mut len) = (self.nonzeros(), 0);
        for (column, value) in row.into_iter().enumerate() {
            if column > 0 && column % SEGMENT == 0 {
                self.starts.push(end as u32);
            }
            if value != T::zero() {
                if end == self.columns.len() {
                    self.reserve((2 * end).max(SEGMENT));
                }
                (self.columns[end], self.values[end]) = (column as u32, value);
                end += 1;
            }
            len += 1;
        }
        assert_eq!(len, self.width, "the row has another width");
        self.starts.push(end as u32);
    }

    /// [`SparseRows::push`] for a slice; faster.
    ///
    /// # Panics
    /// If it has another number of values.
    pub fn push_slice(&mut self, row: &[T]) {
        assert_eq!(row.len(), self.width, "the row has another width");
        let end = self.nonzeros();
        if end + row.len() > self.columns.len() {
            self.reserve((2 * end).max(end + row.len()));
        }
        let (columns, values) = (&mut self.columns[end..], &mut self.values[end..]);
        compress(row, SEGMENT, end, columns, values, &mut self.starts);
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        (self.starts.len() - 1) / self.segments()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of non-zero entries.
    pub fn nonzeros(&self) -> usize {
        *self.starts.last().expect("the end of the last row") as usize
    }

    /// The transpose.
    pub fn transposed(&self) -> SparseRows<T> {
        let mut to = SparseRows::new(0);
        self.transpose_into(&mut to);
        to
    }

    /// Writes the transpose into `to`.
    pub(crate) fn transpose_into(&self, to: &mut SparseRows<T>) {
        // A counting sort: `starts` holds the count of each segment first, then its fill position.
        to.width = self.len();
        let segments = to.segments();
        to.starts.clear();
        to.starts.resize(self.width * segments + 2, 0);
        to.reserve(self.columns.len());
        let (starts, rows, values) = (&mut to.starts[..], &mut to.columns[..], &mut to.values[..]);
        for i in 0..self.len() {
            let offset = i / SEGMENT + 2;
            self.row(i).0.iter().for_each(|&column| starts[column as usize * segments + offset] += 1);
        }
        let mut sum = 0;
        for start in starts.iter_mut() {
            sum += *start;
            *start = sum;
        }
        for i in 0..self.len() {
            let offset = i / SEGMENT + 1;
            for (&column, &value) in std::iter::zip(self.row(i).0, self.row(i).1) {
                let at = &mut starts[column as usize * segments + offset];
                rows[*at as usize] = i as u32;
                values[*at as usize] = value;
                *at += 1;
            }
        }
        to.starts.pop();
    }

    /// [`SparseRows::transpose_into`] for the rows of `dense`; faster where these are some, not many.
    pub(crate) fn transpose_dense_into(&self, dense: &[T], to: &mut SparseRows<T>) {
        let count = self.len();
        debug_assert_eq!(dense.len(), count * self.width);
        if (FEWEST_ROWS..=MOST_ROWS.min(SEGMENT)).contains(&count) {
            to.width = count;
            to.starts.clear();
            to.starts.resize(self.width + 1, 0);
            to.reserve(dense.len() + SPARE);
            if T::transpose(dense, self.width, &mut to.starts[1..], &mut to.columns, &mut to.values) {
                return;
            }
        }
        self.transpose_into(to);
    }

    /// Gives `to` the same sparsity pattern, with the values that `dense`, stored transposed, has there.
    pub(crate) fn with_values(&self, dense: &[T], to: &mut SparseRows<T>) {
        to.width = self.width;
        to.reserve(self.columns.len());
        to.starts.clone_from(&self.starts);
        let (stride, count) = (self.len(), self.nonzeros());
        to.columns[..count].copy_from_slice(&self.columns[..count]);
        for i in 0..stride {
            let values = &mut to.values[self.starts[i * self.segments()] as usize..];
            values.iter_mut().zip(self.row(i).0).for_each(|(to, &c)| *to = dense[c as usize * stride + i]);
        }
    }

    /// A copy of the given rows.
    pub(crate) fn select(&self, rows: &[usize]) -> SparseRows<T> {
        let mut to = SparseRows::new(self.width);
        to.starts.reserve(rows.len() * self.segments());
        to.reserve(rows.iter().map(|&i| self.row(i).0.len()).sum());
        for &i in rows {
            let (columns, values) = self.row(i);
            let starts = &self.starts[i * self.segments()..][..=self.segments()];
            let at = to.nonzeros();
            to.starts.extend(starts[1..].iter().map(|start| at as u32 + start - starts[0]));
            to.columns[at..][..columns.len()].copy_from_slice(columns);
            to.values[at..][..values.len()].copy_from_slice(values);
        }
        to
    }

    /// Columns and values of the non-zero entries of row `i`.
    #[inline(always)]
    pub fn row(&self, i: usize) -> (&[u32], &[T]) {
        self.entries_in(i, 0..self.segments())
    }

    /// Columns and values of the non-zero entries in some segments of row `i`.
    #[inline(always)]
    pub(crate) fn entries_in(&self, i: usize, segments: Range<usize>) -> (&[u32], &[T]) {
        let first = i * self.segments();
        self.entries(first + segments.start, first + segments.end)
    }

    #[inline(always)]
    fn entries(&self, from: usize, to: usize) -> (&[u32], &[T]) {
        let at = self.starts[from] as usize..self.starts[to] as usize;
        (&self.columns[at.clone()], &self.values[at])
    }
}
