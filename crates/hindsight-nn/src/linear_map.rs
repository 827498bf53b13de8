//! Sparse linear maps of inputs, such as a permutation or a rotation of all pixels.

use crate::kernels::{Scalar, axpy};

/// A sparse linear map of inputs: `x'[i]` is the sum of `weight * x[source]` over the taps of `i`.
#[derive(Debug, Clone, PartialEq)]
pub struct LinearMap<T = f32> {
    width: usize,
    starts: Vec<u32>,
    taps: Vec<(u32, T)>,
    /// Whether every output has exactly one tap, as in a permutation.
    single: bool,
}

impl<T: Scalar> LinearMap<T> {
    /// The map whose output `i` has the taps `rows[i]`: pairs of a source and its weight.
    ///
    /// # Panics
    /// If a source is not below the number of rows.
    pub fn new(rows: impl IntoIterator<Item = Vec<(u32, T)>>) -> LinearMap<T> {
        let (mut starts, mut taps) = (vec![0], Vec::new());
        for row in rows {
            taps.extend(row);
            starts.push(taps.len() as u32);
        }
        let width = starts.len() - 1;
        assert!(taps.iter().all(|&(source, _)| (source as usize) < width), "a tap reads outside the input");
        let single = starts.iter().enumerate().all(|(i, &start)| i as u32 == start);
        LinearMap { width, starts, taps, single }
    }

    /// The permutation `x'[i] = x[sources[i]]`.
    pub fn permutation(sources: &[u32]) -> LinearMap<T> {
        LinearMap::new(sources.iter().map(|&source| vec![(source, T::one())]))
    }

    /// Number of inputs, which is also the number of outputs.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Appends `A x` to `out`.
    pub fn apply(&self, x: &[T], out: &mut Vec<T>) {
        debug_assert_eq!(x.len(), self.width);
        self.apply_to(|source| x[source], out);
    }

    /// Appends `A x` to `out`, where `x` has the value `x(i)` at `i`.
    pub fn apply_to(&self, x: impl Fn(usize) -> T, out: &mut Vec<T>) {
        if self.single {
            out.extend(self.taps.iter().map(|&(source, weight)| weight * x(source as usize)));
            return;
        }
        out.extend((0..self.width).map(|i| {
            self.taps(i).iter().fold(T::zero(), |sum, &(source, weight)| sum + weight * x(source as usize))
        }));
    }

    /// `A^T W`; `w: [width, columns]`.
    pub(crate) fn fold(&self, w: &[T], columns: usize) -> Vec<T> {
        let mut folded = vec![T::zero(); w.len()];
        for (i, row) in w.chunks_exact(columns).enumerate() {
            for &(source, weight) in self.taps(i) {
                axpy(weight, row, &mut folded[source as usize * columns..][..columns]);
            }
        }
        folded
    }

    fn taps(&self, i: usize) -> &[(u32, T)] {
        &self.taps[self.starts[i] as usize..self.starts[i + 1] as usize]
    }
}
