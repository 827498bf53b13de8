//! Sets of inputs that a network is evaluated on, optionally under a linear map.
//!
//! A permutation or a rotation of all images is linear in the pixels, `x' = A x`. A network whose first layer
//! is `x' W` can be evaluated on the original images with `W' = A^T W` instead. So all tasks share one copy
//! of the data, and an evaluation moves no pixels.

use std::ops::Range;

use crate::{
    kernels::{Scalar, SparseRows},
    linear_map::LinearMap,
    quantized::QuantizedRows,
};

/// 8-bit images that a network sees as `pixel / 255 - mean`.
#[derive(Debug, Clone, Copy)]
pub struct Pixels<'a, T = f32> {
    /// All images, `[n, width]`.
    pub pixels: &'a [u8],
    /// Subtracted from each image, `[width]`.
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

/// Inputs to evaluate a network on: dense rows, sparse rows or images, under an optional linear map.
#[derive(Debug, Clone, Copy)]
pub struct Inputs<'a, T = f32> {
    pub(crate) rows: InputRows<'a, T>,
    pub(crate) map: Option<&'a LinearMap<T>>,
    pub(crate) quantized: Option<&'a QuantizedRows>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum InputRows<'a, T> {
    Dense {
        x: &'a [T],
        width: usize,
    },
    Sparse(&'a SparseRows<T>),
    /// The images with these indices.
    Pixels(Pixels<'a, T>, &'a [u32]),
}

/// Some of the rows of [`Inputs`].
#[derive(Debug, Clone)]
pub struct SelectedInputs<'a, T = f32> {
    rows: SelectedRows<'a, T>,
    map: Option<&'a LinearMap<T>>,
}

#[derive(Debug, Clone)]
enum SelectedRows<'a, T> {
    Dense(Vec<T>, usize),
    Sparse(SparseRows<T>),
    Pixels(Pixels<'a, T>, Vec<u32>),
}

impl<T: Scalar> SelectedInputs<'_, T> {
    /// The rows.
    pub fn inputs(&self) -> Inputs<'_, T> {
        let rows = match &self.rows {
            SelectedRows::Dense(x, width) => InputRows::Dense { x, width: *width },
            SelectedRows::Sparse(rows) => InputRows::Sparse(rows),
            SelectedRows::Pixels(images, chosen) => InputRows::Pixels(*images, chosen),
        };
        Inputs { rows, map: self.map, quantized: None }
    }
}

impl<'a, T: Scalar> Inputs<'a, T> {
    /// Dense rows of `width` values: `x: [n, width]`.
    ///
    /// # Panics
    /// If the length of `x` is not a multiple of `width`.
    pub fn dense(x: &'a [T], width: usize) -> Inputs<'a, T> {
        assert!(width > 0 && x.len().is_multiple_of(width), "{} values are not rows of {width}", x.len());
        Inputs { rows: InputRows::Dense { x, width }, map: None, quantized: None }
    }

    /// Sparse rows.
    pub fn sparse(rows: &'a SparseRows<T>) -> Inputs<'a, T> {
        Inputs { rows: InputRows::Sparse(rows), map: None, quantized: None }
    }

    /// The images with the indices `chosen`.
    ///
    /// # Panics
    /// If an index is out of range.
    pub fn pixels(images: Pixels<'a, T>, chosen: &'a [u32]) -> Inputs<'a, T> {
        let count = images.pixels.len() / images.mean.len().max(1);
        assert!(chosen.iter().all(|&i| (i as usize) < count), "an image index is out of range");
        Inputs { rows: InputRows::Pixels(images, chosen), map: None, quantized: None }
    }

    /// Adds an int16 copy of the rows, which makes [`Net::predict_classes`](crate::Net::predict_classes)
    /// faster and does not change its result.
    ///
    /// # Panics
    /// If `quantized` has another number of rows.
    pub fn with_quantized(self, quantized: &'a QuantizedRows) -> Inputs<'a, T> {
        assert_eq!(quantized.len(), self.len(), "the quantized copy has another number of rows");
        Inputs { quantized: Some(quantized), ..self }
    }

    /// The same rows, seen through `map`.
    ///
    /// # Panics
    /// If the widths differ.
    pub fn through(self, map: &'a LinearMap<T>) -> Inputs<'a, T> {
        assert_eq!(map.width(), self.width(), "the map has another width than the rows");
        Inputs { map: Some(map), ..self }
    }

    /// A copy of the rows with the indices `chosen`, seen through the same map.
    ///
    /// # Panics
    /// If an index is out of range.
    pub fn select(&self, chosen: &[usize]) -> SelectedInputs<'a, T> {
        let rows = match self.rows {
            InputRows::Dense { x, width } => {
                let rows = chosen.iter().flat_map(|&i| &x[i * width..][..width]).copied().collect();
                SelectedRows::Dense(rows, width)
            }
            InputRows::Sparse(rows) => SelectedRows::Sparse(rows.select(chosen)),
            InputRows::Pixels(images, all) => {
                SelectedRows::Pixels(images, chosen.iter().map(|&i| all[i]).collect())
            }
        };
        SelectedInputs { rows, map: self.map }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        match self.rows {
            InputRows::Dense { x, width } => x.len() / width,
            InputRows::Sparse(rows) => rows.len(),
            InputRows::Pixels(_, chosen) => chosen.len(),
        }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of values in a row.
    pub fn width(&self) -> usize {
        match self.rows {
            InputRows::Dense { width, .. } => width,
            InputRows::Sparse(rows) => rows.width(),
            InputRows::Pixels(images, _) => images.mean.len(),
        }
    }

    /// Writes the rows `range` as the network sees them, with the map applied: `[range.len(), width]`.
    pub fn materialise(&self, range: Range<usize>, out: &mut Vec<T>) {
        let width = self.width();
        out.clear();
        let mut dense = vec![T::zero(); width];
        for i in range {
            match self.rows {
                InputRows::Pixels(images, chosen) => {
                    dense.clear();
                    images.push(chosen[i] as usize, &mut dense);
                }
                InputRows::Dense { x, .. } => dense.copy_from_slice(&x[i * width..][..width]),
                InputRows::Sparse(rows) => {
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
