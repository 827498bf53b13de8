//! `z = x W + b`, with `W: [inputs, outputs]` row-major in theta and `b: [outputs]` right behind it.

use std::ops::Range;

use crate::{
    Scalar, SparseRows,
    kernels::{
        Epilogue, accumulate_columns, accumulate_product, product, product_transposed, sparse_product,
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
    Sparse(&'a SparseRows<T>, Range<usize>),
}

impl<'a, T: Scalar> Rows<'a, T> {
    /// `out = rows matrix`.
    fn times(&self, matrix: &[T], n: usize, out: &mut [T]) {
        match self {
            Rows::Dense(x) => product(x, matrix, n, out),
            Rows::Sparse(rows, range) => sparse_product(rows, range.clone(), matrix, n, Epilogue::Store, out),
        }
    }
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

    /// `z = x W + b`. The weights are given apart, since an evaluation may have folded a map into them.
    pub(crate) fn forward<T: Scalar>(&self, x: &Rows<'_, T>, weights: &[T], bias: &[T], z: &mut [T]) {
        x.times(weights, self.outputs, z);
        for row in z.chunks_exact_mut(self.outputs) {
            row.iter_mut().zip(bias).for_each(|(z, &b)| *z += b);
        }
    }

    /// `dx = dz W^T`.
    pub(crate) fn backward<T: Scalar>(&self, theta: &[T], dz: &[T], dx: &mut [T]) {
        product_transposed(dz, self.weights(theta), self.outputs, dx);
    }

    /// `into += scale * (x^T dz, sum of dz)`, the gradient in the layer's own parameters.
    pub(crate) fn accumulate<T: Scalar>(&self, x: &[T], dz: &[T], scale: T, into: &mut [T]) {
        let (weights, _) = self.split(into);
        accumulate_product(x, dz, self.outputs, scale, weights);
        self.accumulate_bias(dz, scale, into);
    }

    /// The same for sparse rows, given by column.
    pub(crate) fn accumulate_sparse<T: Scalar>(
        &self,
        columns: &SparseRows<T>,
        dz: &[T],
        scale: T,
        into: &mut [T],
    ) {
        let (weights, _) = self.split(into);
        sparse_product(columns, 0..columns.len(), dz, self.outputs, Epilogue::Accumulate(scale), weights);
        self.accumulate_bias(dz, scale, into);
    }

    /// Only `x^T dz`: the second half of a tangent, whose bias part the first half has added.
    pub(crate) fn accumulate_weights<T: Scalar>(&self, x: &[T], dz: &[T], scale: T, into: &mut [T]) {
        let (weights, _) = self.split(into);
        accumulate_product(x, dz, self.outputs, scale, weights);
    }

    /// `z' = x V + c + x' W`, the tangent of `z` along `v`; `x'` is absent where the input is constant.
    pub(crate) fn tangent<T: Scalar>(
        &self,
        theta: &[T],
        v: &[T],
        x: &Rows<'_, T>,
        x_tangent: Option<&[T]>,
        scratch: &mut Vec<T>,
        z_tangent: &mut [T],
    ) {
        self.forward(x, self.weights(v), self.bias(v), z_tangent);
        if let Some(x_tangent) = x_tangent {
            scratch.resize(z_tangent.len(), T::zero());
            product(x_tangent, self.weights(theta), self.outputs, scratch);
            z_tangent.iter_mut().zip(scratch.iter()).for_each(|(z, &s)| *z += s);
        }
    }

    /// `dx' = dz' W^T + dz V^T`, the tangent of `dx`.
    pub(crate) fn backward_tangent<T: Scalar>(
        &self,
        theta: &[T],
        v: &[T],
        dz: &[T],
        dz_tangent: &[T],
        scratch: &mut Vec<T>,
        dx_tangent: &mut [T],
    ) {
        self.backward(theta, dz_tangent, dx_tangent);
        scratch.resize(dx_tangent.len(), T::zero());
        self.backward(v, dz, scratch);
        dx_tangent.iter_mut().zip(scratch.iter()).for_each(|(d, &s)| *d += s);
    }

    fn accumulate_bias<T: Scalar>(&self, dz: &[T], scale: T, into: &mut [T]) {
        accumulate_columns(dz, scale, self.split(into).1);
    }

    fn split<'t, T>(&self, theta: &'t mut [T]) -> (&'t mut [T], &'t mut [T]) {
        theta[self.start..self.end()].split_at_mut(self.inputs * self.outputs)
    }
}
