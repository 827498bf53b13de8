//! `z = x W + b`, with `W: [inputs, outputs]` row-major in theta and `b: [outputs]` right behind it.

use std::ops::Range;

use crate::{
    Scalar, SparseRows,
    kernels::{
        Panels, Start, accumulate_columns, accumulate_product, panel_product, product, product_transposed,
        product_transposed_at, sparse_accumulate, sparse_product,
    },
    net::Visit,
};

/// Values of a gradient that are handed out at a time.
const VISIT: usize = 256;

/// A linear layer: its shape and its place in theta.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Linear {
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    start: usize,
}

/// The rows that enter a layer.
#[derive(Debug, Clone)]
pub(crate) enum Rows<'a, T> {
    Dense(&'a [T]),
    Sparse(&'a SparseRows<T>),
    /// A range of many rows, with the weights prepared for them.
    Panels(&'a SparseRows<T>, Range<usize>, &'a Panels<T>),
}

impl Linear {
    pub(crate) fn new(inputs: usize, outputs: usize, start: usize) -> Linear {
        Linear { inputs, outputs, start }
    }

    /// One past the layer's last parameter.
    pub(crate) fn end(&self) -> usize {
        self.start + self.inputs * self.outputs + self.outputs
    }

    pub(crate) fn weights<'t, T>(&self, theta: &'t [T]) -> &'t [T] {
        &theta[self.start..][..self.inputs * self.outputs]
    }

    pub(crate) fn bias<'t, T>(&self, theta: &'t [T]) -> &'t [T] {
        &theta[self.end() - self.outputs..self.end()]
    }

    /// `z = x W + b`, then ReLU if `relu`. The weights are given apart, since an evaluation may have folded a
    /// map into them.
    pub(crate) fn forward<T: Scalar>(
        &self,
        x: &Rows<'_, T>,
        weights: &[T],
        bias: &[T],
        relu: bool,
        z: &mut [T],
    ) {
        match *x {
            Rows::Dense(x) => product(x, weights, self.outputs, Start::Bias(bias), relu, z),
            Rows::Sparse(rows) => sparse_product(rows, 0..rows.len(), weights, bias, relu, z),
            Rows::Panels(rows, ref range, panels) => {
                panel_product(rows, range.clone(), panels, bias, relu, z)
            }
        }
    }

    /// `dx = dz W^T`.
    pub(crate) fn backward<T: Scalar>(&self, theta: &[T], dz: &[T], dx: &mut [T]) {
        product_transposed(dz, self.weights(theta), self.outputs, false, dx);
    }

    /// `dx = dz W^T` where `h`, the ReLU that is the layer's input, is not zero, given by column; else 0.
    pub(crate) fn backward_through<T: Scalar>(&self, theta: &[T], dz: &[T], h: &SparseRows<T>, dx: &mut [T]) {
        product_transposed_at(dz, self.weights(theta), self.outputs, h, false, dx);
    }

    /// `into += scale * (x^T dz, sum of dz)`, the gradient in the layer's own parameters.
    pub(crate) fn accumulate<T: Scalar>(&self, x: &[T], dz: &[T], scale: T, into: &mut [T]) {
        let (weights, bias) = self.split(into);
        accumulate_product(&[(x, dz)], self.outputs, scale, weights);
        accumulate_columns(dz, scale, bias);
    }

    /// The same for sparse rows, given by column.
    pub(crate) fn accumulate_sparse<T: Scalar>(
        &self,
        columns: &SparseRows<T>,
        dz: &[T],
        scale: T,
        into: &mut [T],
    ) {
        let (weights, bias) = self.split(into);
        sparse_accumulate(&[(columns, dz)], 0, self.outputs, scale, weights);
        accumulate_columns(dz, scale, bias);
    }

    /// The gradient in the layer's own parameters, part by part with its place in theta, none for zeros: of sparse rows,
    /// given by column, or of dense ones.
    pub(crate) fn visit_gradient<T: Scalar>(
        &self,
        x: Result<&SparseRows<T>, &[T]>,
        dz: &[T],
        room: &mut Vec<T>,
        visit: &mut Visit<'_, T>,
    ) {
        let n = self.outputs;
        // A row or a few at a time: it is in the L1 cache, and many pixels are black in all images of a batch.
        let rows = if x.is_ok() { (VISIT / n).clamp(1, self.inputs) } else { self.inputs };
        for first in (0..self.inputs).step_by(rows) {
            let end = (first + rows).min(self.inputs);
            let at = self.start + first * n..self.start + end * n;
            room.clear();
            room.resize(at.len(), T::zero());
            match x {
                Ok(columns) if (first..end).all(|i| columns.row(i).0.is_empty()) => {
                    visit(at, None);
                    continue;
                }
                Ok(columns) => sparse_accumulate(&[(columns, dz)], first, n, T::one(), room),
                Err(x) => accumulate_product(&[(x, dz)], n, T::one(), room),
            }
            visit(at, Some(room));
        }
        room.clear();
        room.resize(n, T::zero());
        accumulate_columns(dz, T::one(), room);
        visit(self.end() - n..self.end(), Some(room));
    }

    /// `into += scale * (x^T dz' + x'^T dz, sum of dz')`, the tangent of the gradient.
    pub(crate) fn accumulate_tangent<T: Scalar>(
        &self,
        [x, x_tangent]: [&[T]; 2],
        [dz, dz_tangent]: [&[T]; 2],
        scale: T,
        into: &mut [T],
    ) {
        let (weights, bias) = self.split(into);
        accumulate_product(&[(x, dz_tangent), (x_tangent, dz)], self.outputs, scale, weights);
        accumulate_columns(dz_tangent, scale, bias);
    }

    /// The same for sparse rows, given by column.
    pub(crate) fn accumulate_tangent_sparse<T: Scalar>(
        &self,
        [x, x_tangent]: [&SparseRows<T>; 2],
        [dz, dz_tangent]: [&[T]; 2],
        scale: T,
        into: &mut [T],
    ) {
        let (weights, bias) = self.split(into);
        sparse_accumulate(&[(x, dz_tangent), (x_tangent, dz)], 0, self.outputs, scale, weights);
        accumulate_columns(dz_tangent, scale, bias);
    }

    /// `z' = x V + c + x' W`, the tangent of `z` along `v`; `x'` is absent where the input is constant.
    pub(crate) fn tangent<T: Scalar>(
        &self,
        theta: &[T],
        v: &[T],
        x: &Rows<'_, T>,
        x_tangent: Option<&[T]>,
        z_tangent: &mut [T],
    ) {
        self.forward(x, self.weights(v), self.bias(v), false, z_tangent);
        if let Some(x_tangent) = x_tangent {
            product(x_tangent, self.weights(theta), self.outputs, Start::Out, false, z_tangent);
        }
    }

    /// [`Linear::tangent`] along the gradient `V = a^T e`, `c = sum of e` of other rows `a` and their deltas `e`:
    /// `z' = (x a^T) e + c + x' W`. Of rank 10, say, it is never written out.
    pub(crate) fn tangent_along<T: Scalar>(
        &self,
        theta: &[T],
        [a, e]: [&[T]; 2],
        [x, x_tangent]: [&[T]; 2],
        [factor, sums]: [&mut Vec<T>; 2],
        z_tangent: &mut [T],
    ) {
        let (rows, others) = (x.len() / self.inputs, a.len() / self.inputs);
        factor.resize(rows * others, T::zero());
        product_transposed(x, a, self.inputs, false, factor);
        sums.clear();
        sums.resize(self.outputs, T::zero());
        accumulate_columns(e, T::one(), sums);
        product(factor, e, self.outputs, Start::Bias(sums), false, z_tangent);
        if !x_tangent.is_empty() {
            product(x_tangent, self.weights(theta), self.outputs, Start::Out, false, z_tangent);
        }
    }

    /// `dx' += dz V^T = (dz e^T) a` for the same.
    pub(crate) fn backward_along<T: Scalar>(
        &self,
        [a, e]: [&[T]; 2],
        dz: &[T],
        factor: &mut Vec<T>,
        dx_tangent: &mut [T],
    ) {
        let (rows, others) = (dz.len() / self.outputs, e.len() / self.outputs);
        factor.resize(rows * others, T::zero());
        product_transposed(dz, e, self.outputs, false, factor);
        product(factor, a, self.inputs, Start::Out, false, dx_tangent);
    }

    /// `dx' = dz' W^T + dz V^T`, the tangent of `dx`.
    pub(crate) fn backward_tangent<T: Scalar>(
        &self,
        theta: &[T],
        v: &[T],
        [dz, dz_tangent]: [&[T]; 2],
        dx_tangent: &mut [T],
    ) {
        self.backward(theta, dz_tangent, dx_tangent);
        product_transposed(dz, self.weights(v), self.outputs, true, dx_tangent);
    }

    /// The same where `h`, the ReLU that is the layer's input, is not zero, given by column; else 0.
    pub(crate) fn backward_tangent_through<T: Scalar>(
        &self,
        theta: &[T],
        v: &[T],
        [dz, dz_tangent]: [&[T]; 2],
        h: &SparseRows<T>,
        dx_tangent: &mut [T],
    ) {
        self.backward_through(theta, dz_tangent, h, dx_tangent);
        product_transposed_at(dz, self.weights(v), self.outputs, h, true, dx_tangent);
    }

    fn split<'t, T>(&self, theta: &'t mut [T]) -> (&'t mut [T], &'t mut [T]) {
        theta[self.start..self.end()].split_at_mut(self.inputs * self.outputs)
    }
}
