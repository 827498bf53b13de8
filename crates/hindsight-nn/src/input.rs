//! Sets of inputs that a network is evaluated on, possibly seen through a linear map.
//!
//! A permutation or a rotation of all images is linear in the pixels, `x' = A x`. A network whose first
//! layer is `x' W` can be evaluated on the original images with `W' = A^T W` instead, so twenty tasks share
//! one copy of the data and evaluation never moves a pixel.

use std::ops::Range;

use crate::{Scalar, WholeRows, kernels::compress};

/// Columns of a segment of a sparse row: so many rows of a panel of weights, less those that nobody asks for, fit into
/// the L1 cache.
pub(crate) const SEGMENT: usize = 88;

/// Rows with their non-zero entries only.
#[derive(Debug, Clone, PartialEq)]
pub struct SparseRows<T = f32> {
    width: usize,
    /// Where each row's segments begin, row after row, and the end of the last.
    starts: Vec<u32>,
    columns: Vec<u32>,
    values: Vec<T>,
}

impl<T: Scalar> SparseRows<T> {
    /// No rows yet, of `width` columns.
    pub fn new(width: usize) -> SparseRows<T> {
        SparseRows { width, starts: vec![0], columns: Vec::new(), values: Vec::new() }
    }

    /// Drops all rows and keeps the memory.
    pub fn clear(&mut self, width: usize) {
        self.width = width;
        self.starts.clear();
        self.starts.push(0);
        self.columns.clear();
        self.values.clear();
    }

    /// Makes room for `entries` entries in all, so that as many do not allocate.
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

    /// Appends one row of `width` values, given dense.
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

    /// [`SparseRows::push`] for a row in memory, faster.
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

    /// The transposed matrix: a row per column, its entries in the order of the rows.
    pub fn transposed(&self) -> SparseRows<T> {
        let mut to = SparseRows::new(0);
        self.transpose_into(&mut to);
        to
    }

    /// Makes `to` the transposed matrix: a row per column, its entries in the order of the rows.
    pub(crate) fn transpose_into(&self, to: &mut SparseRows<T>) {
        // A counting sort: starts first hold each segment's count, then its fill position.
        to.width = self.len();
        let segments = to.segments();
        to.starts.clear();
        to.starts.resize(self.width * segments + 2, 0);
        to.reserve(self.columns.capacity());
        to.columns.resize(self.nonzeros(), 0);
        to.values.resize(self.nonzeros(), T::zero());
        let (starts, rows, values) = (&mut to.starts[..], &mut to.columns[..], &mut to.values[..]);
        for i in 0..self.len() {
            let place = i / SEGMENT + 2;
            self.row(i).0.iter().for_each(|&column| starts[column as usize * segments + place] += 1);
        }
        let mut sum = 0;
        for start in starts.iter_mut() {
            sum += *start;
            *start = sum;
        }
        for i in 0..self.len() {
            let place = i / SEGMENT + 1;
            for (&column, &value) in std::iter::zip(self.row(i).0, self.row(i).1) {
                let at = &mut starts[column as usize * segments + place];
                rows[*at as usize] = i as u32;
                values[*at as usize] = value;
                *at += 1;
            }
        }
        to.starts.pop();
    }

    /// Makes `to` a matrix with entries at the same places, of the values that `dense`, the transposed, has there.
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

    /// Some of the rows.
    pub(crate) fn chosen(&self, rows: &[usize]) -> SparseRows<T> {
        let mut to = SparseRows::new(self.width);
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

    /// The same of segment `s` of row `i` alone.
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

/// A linear map of inputs, `x'[i] = sum of weight * x[source]` over the taps of `i`.
#[derive(Debug, Clone, PartialEq)]
pub struct LinearMap<T = f32> {
    width: usize,
    starts: Vec<u32>,
    taps: Vec<(u32, T)>,
    /// Every output has one tap, as in a permutation: there is nothing to sum.
    single: bool,
}

impl<T: Scalar> LinearMap<T> {
    /// The map whose output `i` has the taps `rows[i]`, each a source below `width` and its weight.
    ///
    /// # Panics
    /// If a source is not below `width`, the number of rows.
    pub fn new(rows: impl IntoIterator<Item = Vec<(u32, T)>>) -> LinearMap<T> {
        let (mut starts, mut taps) = (vec![0], Vec::new());
        for row in rows {
            taps.extend(row);
            starts.push(taps.len() as u32);
        }
        let width = starts.len() - 1;
        assert!(taps.iter().all(|&(source, _)| (source as usize) < width), "a tap outside the input");
        let single = starts.iter().enumerate().all(|(i, &start)| i as u32 == start);
        LinearMap { width, starts, taps, single }
    }

    /// The permutation `x'[i] = x[sources[i]]`.
    pub fn permutation(sources: &[u32]) -> LinearMap<T> {
        LinearMap::new(sources.iter().map(|&source| vec![(source, T::one())]))
    }

    /// Number of inputs and of outputs.
    pub fn width(&self) -> usize {
        self.width
    }

    /// `A x`, appended to `out`.
    pub fn apply(&self, x: &[T], out: &mut Vec<T>) {
        debug_assert_eq!(x.len(), self.width);
        if self.single {
            out.extend(self.taps.iter().map(|&(source, weight)| weight * x[source as usize]));
            return;
        }
        out.extend((0..self.width).map(|i| {
            self.row(i).iter().fold(T::zero(), |sum, &(source, weight)| sum + weight * x[source as usize])
        }));
    }

    /// `A^T W` for a matrix of `width` rows.
    pub(crate) fn fold(&self, w: &[T], columns: usize) -> Vec<T> {
        let mut folded = vec![T::zero(); w.len()];
        for (i, row) in w.chunks_exact(columns).enumerate() {
            for &(source, weight) in self.row(i) {
                crate::kernels::axpy(weight, row, &mut folded[source as usize * columns..][..columns]);
            }
        }
        folded
    }

    fn row(&self, i: usize) -> &[(u32, T)] {
        &self.taps[self.starts[i] as usize..self.starts[i + 1] as usize]
    }
}

/// Images of 8-bit pixels as networks see them: `pixel / 255 - mean`.
#[derive(Debug, Clone, Copy)]
pub struct Pixels<'a, T = f32> {
    /// One image after the other.
    pub pixels: &'a [u8],
    /// What is taken off each image, of the same length.
    pub mean: &'a [T],
}

impl<T: Scalar> Pixels<'_, T> {
    /// Appends image `i` to `out`.
    pub fn push(&self, i: usize, out: &mut Vec<T>) {
        let image = &self.pixels[i * self.mean.len()..][..self.mean.len()];
        let white = T::of(255.0);
        out.extend(image.iter().zip(self.mean).map(|(&pixel, &mean)| T::of(f64::from(pixel)) / white - mean));
    }
}

/// Inputs to evaluate a network on: rows, dense or sparse, behind an optional linear map.
#[derive(Debug, Clone, Copy)]
pub struct Inputs<'a, T = f32> {
    pub(crate) rows: RowsRef<'a, T>,
    pub(crate) map: Option<&'a LinearMap<T>>,
    /// The same rows as whole numbers.
    pub(crate) whole: Option<&'a WholeRows>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum RowsRef<'a, T> {
    Dense {
        x: &'a [T],
        width: usize,
    },
    Sparse(&'a SparseRows<T>),
    /// The images of these numbers.
    Pixels(Pixels<'a, T>, &'a [u32]),
}

impl<'a, T: Scalar> Inputs<'a, T> {
    /// Dense rows of `width` values, one after the other.
    ///
    /// # Panics
    /// If the length of `x` is not a multiple of `width`.
    pub fn dense(x: &'a [T], width: usize) -> Inputs<'a, T> {
        assert!(width > 0 && x.len().is_multiple_of(width), "{} values are not rows of {width}", x.len());
        Inputs { rows: RowsRef::Dense { x, width }, map: None, whole: None }
    }

    /// Sparse rows.
    pub fn sparse(rows: &'a SparseRows<T>) -> Inputs<'a, T> {
        Inputs { rows: RowsRef::Sparse(rows), map: None, whole: None }
    }

    /// The images of these numbers.
    ///
    /// # Panics
    /// If there is no such image.
    pub fn pixels(images: Pixels<'a, T>, chosen: &'a [u32]) -> Inputs<'a, T> {
        let count = images.pixels.len() / images.mean.len().max(1);
        assert!(chosen.iter().all(|&i| (i as usize) < count), "an image outside the data");
        Inputs { rows: RowsRef::Pixels(images, chosen), map: None, whole: None }
    }

    /// The same rows, with what makes [`Net::answers`](crate::Net::answers) on them faster.
    ///
    /// # Panics
    /// If `whole` has another number of rows.
    pub fn screened(self, whole: &'a WholeRows) -> Inputs<'a, T> {
        assert_eq!(whole.len(), self.len(), "whole numbers of other rows");
        Inputs { whole: Some(whole), ..self }
    }

    /// The same rows seen through `map`.
    ///
    /// # Panics
    /// If the widths differ.
    pub fn through(self, map: &'a LinearMap<T>) -> Inputs<'a, T> {
        assert_eq!(map.width(), self.width(), "a map of another width");
        Inputs { map: Some(map), ..self }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        match self.rows {
            RowsRef::Dense { x, width } => x.len() / width,
            RowsRef::Sparse(rows) => rows.len(),
            RowsRef::Pixels(_, chosen) => chosen.len(),
        }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Values in a row.
    pub fn width(&self) -> usize {
        match self.rows {
            RowsRef::Dense { width, .. } => width,
            RowsRef::Sparse(rows) => rows.width,
            RowsRef::Pixels(images, _) => images.mean.len(),
        }
    }

    /// Writes the rows `range` as the network sees them, map applied: `[range.len(), width]`.
    pub fn materialise(&self, range: Range<usize>, out: &mut Vec<T>) {
        let width = self.width();
        out.clear();
        let mut dense = vec![T::zero(); width];
        for i in range {
            match self.rows {
                RowsRef::Pixels(images, chosen) => {
                    dense.clear();
                    images.push(chosen[i] as usize, &mut dense);
                }
                RowsRef::Dense { x, .. } => dense.copy_from_slice(&x[i * width..][..width]),
                RowsRef::Sparse(rows) => {
                    dense.fill(T::zero());
                    let (columns, values) = rows.row(i);
                    columns.iter().zip(values).for_each(|(&c, &v)| dense[c as usize] = v);
                }
            }
            match self.map {
                Some(map) => map.apply(&dense, out),
                None => out.extend_from_slice(&dense),
            }
        }
    }
}
