//! Matrices that store their non-zero entries only, row by row.

use super::{Scalar, compress};

/// Columns in a segment of a sparse row. The weights that the entries of one segment read from a panel fit
/// into the L1 cache.
const SEGMENT: usize = 88;

/// A matrix in compressed sparse row form, to which rows are appended.
///
/// Each row is divided into segments of equal width, so that a product can visit all rows segment by segment.
#[derive(Debug, Clone, PartialEq)]
pub struct SparseRows<T = f32> {
    width: usize,
    /// Start of each segment of each row in `columns`, and the end of the last.
    starts: Vec<u32>,
    columns: Vec<u32>,
    values: Vec<T>,
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
        self.columns.clear();
        self.values.clear();
    }

    /// Reserves memory for `entries` entries in total.
    pub(crate) fn reserve(&mut self, entries: usize) {
        self.columns.reserve(entries.saturating_sub(self.columns.len()));
        self.values.reserve(entries.saturating_sub(self.values.len()));
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
    pub fn push(&mut self, row: impl IntoIterator<Item = T>) {
        for (column, value) in row.into_iter().enumerate() {
            if column > 0 && column % SEGMENT == 0 {
                self.starts.push(self.columns.len() as u32);
            }
            if value != T::zero() {
                self.columns.push(column as u32);
                self.values.push(value);
            }
        }
        self.starts.push(self.columns.len() as u32);
    }

    /// [`SparseRows::push`] for a slice; faster.
    pub fn push_slice(&mut self, row: &[T]) {
        let mut end = self.nonzeros();
        self.columns.resize(end + row.len(), 0);
        self.values.resize(end + row.len(), T::zero());
        for (part, first) in row.chunks(SEGMENT).zip((0..).step_by(SEGMENT)) {
            end += compress(part, first, &mut self.columns[end..], &mut self.values[end..]);
            self.starts.push(end as u32);
        }
        self.columns.truncate(end);
        self.values.truncate(end);
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
        self.columns.len()
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
        to.reserve(self.columns.capacity());
        to.columns.resize(self.nonzeros(), 0);
        to.values.resize(self.nonzeros(), T::zero());
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

    /// Gives `to` the same sparsity pattern, with the values that `dense`, stored transposed, has there.
    pub(crate) fn with_values(&self, dense: &[T], to: &mut SparseRows<T>) {
        to.width = self.width;
        to.reserve(self.columns.capacity());
        to.starts.clone_from(&self.starts);
        to.columns.clone_from(&self.columns);
        to.values.clear();
        let stride = self.len();
        for i in 0..self.len() {
            to.values.extend(self.row(i).0.iter().map(|&column| dense[column as usize * stride + i]));
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
            let at = to.columns.len() as u32;
            to.starts.extend(starts[1..].iter().map(|start| at + start - starts[0]));
            to.columns.extend_from_slice(columns);
            to.values.extend_from_slice(values);
        }
        to
    }

    /// Columns and values of the non-zero entries of row `i`.
    #[inline(always)]
    pub fn row(&self, i: usize) -> (&[u32], &[T]) {
        let segments = self.segments();
        self.entries(i * segments, (i + 1) * segments)
    }

    /// Columns and values of the non-zero entries in segment `s` of row `i`.
    #[inline(always)]
    pub(crate) fn segment(&self, i: usize, s: usize) -> (&[u32], &[T]) {
        let at = i * self.segments() + s;
        self.entries(at, at + 1)
    }

    #[inline(always)]
    fn entries(&self, from: usize, to: usize) -> (&[u32], &[T]) {
        let at = self.starts[from] as usize..self.starts[to] as usize;
        (&self.columns[at.clone()], &self.values[at])
    }
}
