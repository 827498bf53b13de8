//! `z = x W + b`, with `W: [inputs, outputs]` row-major in theta and `b: [outputs]` right behind it.

use std::ops::Range;

use crate::{
    Scalar, SparseRows,
    kernels::{
        Panels, Start, accumulate_columns, accumulate_product, panel_product, product, product_transposed,
        sparse_accumulate, sparse_product,
    },
};

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
        sparse_accumulate(columns, dz, self.outputs, scale, weights);
        accumulate_columns(dz, scale, bias);
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

    fn split<'t, T>(&self, theta: &'t mut [T]) -> (&'t mut [T], &'t mut [T]) {
        theta[self.start..self.end()].split_at_mut(self.inputs * self.outputs)
    }
}
