//! The linear layer `z = x W + b`. theta holds `W: [inputs, outputs]`, row-major, and then `b: [outputs]`.

use std::ops::Range;

use super::BlockVisitor;
use crate::kernels::{
    PackedMatrix, Scalar, SparseRows, Start, accumulate_columns, matmul, matmul_nt, matmul_tn_accumulate,
    sddmm, spmm, spmm_accumulate, spmm_packed,
};

/// Values in a block of a gradient of sparse rows: few enough for the L1 cache.
const GRADIENT_BLOCK: usize = 256;

/// The shape of a linear layer and its offset in theta.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Linear {
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    start: usize,
}

/// The input of a layer.
#[derive(Debug, Clone)]
pub(crate) enum LinearInput<'a, T> {
    Dense(&'a [T]),
    Sparse(&'a SparseRows<T>),
    /// A range of sparse rows, with the weights packed for many of them.
    Packed(&'a SparseRows<T>, Range<usize>, &'a PackedMatrix<T>),
}

impl Linear {
    pub(crate) fn new(inputs: usize, outputs: usize, start: usize) -> Linear {
        Linear { inputs, outputs, start }
    }

    /// Offset of the parameter after the last one of the layer.
    pub(crate) fn end(&self) -> usize {
        self.start + self.inputs * self.outputs + self.outputs
    }

    pub(crate) fn weights<'t, T>(&self, theta: &'t [T]) -> &'t [T] {
        &theta[self.start..][..self.inputs * self.outputs]
    }

    pub(crate) fn bias<'t, T>(&self, theta: &'t [T]) -> &'t [T] {
        &theta[self.end() - self.outputs..self.end()]
    }

    /// `z = x W + b`, then ReLU if `relu`. The weights are an argument because an evaluation may have folded
    /// a linear map into them.
    pub(crate) fn forward<T: Scalar>(
        &self,
        x: &LinearInput<'_, T>,
        weights: &[T],
        bias: &[T],
        relu: bool,
        z: &mut [T],
    ) {
        match *x {
            LinearInput::Dense(x) => matmul(x, weights, self.outputs, Start::Bias(bias), relu, z),
            LinearInput::Sparse(rows) => spmm(rows, 0..rows.len(), weights, bias, relu, z),
            LinearInput::Packed(rows, ref range, panels) => {
                spmm_packed(rows, range.clone(), panels, bias, relu, z)
            }
        }
    }

    /// `dx = dz W^T`.
    pub(crate) fn backward<T: Scalar>(&self, theta: &[T], dz: &[T], dx: &mut [T]) {
        matmul_nt(dz, self.weights(theta), self.outputs, false, dx);
    }

    /// `dx = dz W^T` where the input `h`, an output of ReLU, is not zero, else 0. `h` is transposed.
    pub(crate) fn backward_masked<T: Scalar>(&self, theta: &[T], dz: &[T], h: &SparseRows<T>, dx: &mut [T]) {
        sddmm(dz, self.weights(theta), self.outputs, h, false, dx);
    }

    /// `into += scale * (x^T dz, sum of dz)`: the gradient in the parameters of the layer.
    pub(crate) fn accumulate<T: Scalar>(&self, x: &[T], dz: &[T], scale: T, into: &mut [T]) {
        let (weights, bias) = self.split(into);
        matmul_tn_accumulate(&[(x, dz)], self.outputs, scale, weights);
        accumulate_columns(dz, scale, bias);
    }

    /// [`Linear::accumulate`] for a sparse input, transposed.
    pub(crate) fn accumulate_sparse<T: Scalar>(
        &self,
        columns: &SparseRows<T>,
        dz: &[T],
        scale: T,
        into: &mut [T],
    ) {
        let (weights, bias) = self.split(into);
        spmm_accumulate(&[(columns, dz)], 0, self.outputs, scale, weights);
        accumulate_columns(dz, scale, bias);
    }

    /// Passes the gradient in the parameters of the layer to `visit`, block by block. The input is sparse and
    /// transposed (`Ok`) or dense (`Err`).
    pub(crate) fn for_each_block<T: Scalar>(
        &self,
        x: Result<&SparseRows<T>, &[T]>,
        dz: &[T],
        block: &mut Vec<T>,
        visit: &mut BlockVisitor<'_, T>,
    ) {
        let n = self.outputs;
        // Small blocks: many pixels are zero in all images of a batch, and their blocks are skipped.
        let rows = if x.is_ok() { (GRADIENT_BLOCK / n).clamp(1, self.inputs) } else { self.inputs };
        for first in (0..self.inputs).step_by(rows) {
            let end = (first + rows).min(self.inputs);
            let at = self.start + first * n..self.start + end * n;
            block.clear();
            block.resize(at.len(), T::zero());
            match x {
                Ok(columns) if (first..end).all(|i| columns.row(i).0.is_empty()) => {
                    visit(at, None);
                    continue;
                }
                Ok(columns) => spmm_accumulate(&[(columns, dz)], first, n, T::one(), block),
                Err(x) => matmul_tn_accumulate(&[(x, dz)], n, T::one(), block),
            }
            visit(at, Some(block));
        }
        block.clear();
        block.resize(n, T::zero());
        accumulate_columns(dz, T::one(), block);
        visit(self.end() - n..self.end(), Some(block));
    }

    /// `into += scale * (x^T dz' + x'^T dz, sum of dz')`: the tangent of the gradient.
    pub(crate) fn accumulate_tangent<T: Scalar>(
        &self,
        [x, x_tangent]: [&[T]; 2],
        [dz, dz_tangent]: [&[T]; 2],
        scale: T,
        into: &mut [T],
    ) {
        let (weights, bias) = self.split(into);
        matmul_tn_accumulate(&[(x, dz_tangent), (x_tangent, dz)], self.outputs, scale, weights);
        accumulate_columns(dz_tangent, scale, bias);
    }

    /// [`Linear::accumulate_tangent`] for a sparse input, transposed.
    pub(crate) fn accumulate_tangent_sparse<T: Scalar>(
        &self,
        [x, x_tangent]: [&SparseRows<T>; 2],
        [dz, dz_tangent]: [&[T]; 2],
        scale: T,
        into: &mut [T],
    ) {
        let (weights, bias) = self.split(into);
        spmm_accumulate(&[(x, dz_tangent), (x_tangent, dz)], 0, self.outputs, scale, weights);
        accumulate_columns(dz_tangent, scale, bias);
    }

    /// `z' = x V + c + x' W`: the tangent of `z` along `v`, which holds `V` and `c`. `x'` is `None` if the
    /// input does not depend on theta.
    pub(crate) fn tangent<T: Scalar>(
        &self,
        theta: &[T],
        v: &[T],
        x: &LinearInput<'_, T>,
        x_tangent: Option<&[T]>,
        z_tangent: &mut [T],
    ) {
        self.forward(x, self.weights(v), self.bias(v), false, z_tangent);
        if let Some(x_tangent) = x_tangent {
            matmul(x_tangent, self.weights(theta), self.outputs, Start::Out, false, z_tangent);
        }
    }

    /// [`Linear::tangent`] along a gradient in factors, `V = a^T e` and `c = sum of e`:
    /// `z' = (x a^T) e + c + x' W`. `x'` is empty if the input does not depend on theta.
    pub(crate) fn tangent_factored<T: Scalar>(
        &self,
        theta: &[T],
        [a, e]: [&[T]; 2],
        [x, x_tangent]: [&[T]; 2],
        [factor, sums]: [&mut Vec<T>; 2],
        z_tangent: &mut [T],
    ) {
        let (rows, others) = (x.len() / self.inputs, a.len() / self.inputs);
        factor.resize(rows * others, T::zero());
        matmul_nt(x, a, self.inputs, false, factor);
        sums.clear();
        sums.resize(self.outputs, T::zero());
        accumulate_columns(e, T::one(), sums);
        matmul(factor, e, self.outputs, Start::Bias(sums), false, z_tangent);
        if !x_tangent.is_empty() {
            matmul(x_tangent, self.weights(theta), self.outputs, Start::Out, false, z_tangent);
        }
    }

    /// `dx' += dz V^T = (dz e^T) a`, for `V = a^T e`.
    pub(crate) fn backward_factored<T: Scalar>(
        &self,
        [a, e]: [&[T]; 2],
        dz: &[T],
        factor: &mut Vec<T>,
        dx_tangent: &mut [T],
    ) {
        let (rows, others) = (dz.len() / self.outputs, e.len() / self.outputs);
        factor.resize(rows * others, T::zero());
        matmul_nt(dz, e, self.outputs, false, factor);
        matmul(factor, a, self.inputs, Start::Out, false, dx_tangent);
    }

    /// `dx' = dz' W^T + dz V^T`: the tangent of `dx`.
    pub(crate) fn backward_tangent<T: Scalar>(
        &self,
        theta: &[T],
        v: &[T],
        [dz, dz_tangent]: [&[T]; 2],
        dx_tangent: &mut [T],
    ) {
        self.backward(theta, dz_tangent, dx_tangent);
        matmul_nt(dz, self.weights(v), self.outputs, true, dx_tangent);
    }

    /// [`Linear::backward_tangent`] where the input `h`, an output of ReLU, is not zero, else 0. `h` is
    /// transposed.
    pub(crate) fn backward_tangent_masked<T: Scalar>(
        &self,
        theta: &[T],
        v: &[T],
        [dz, dz_tangent]: [&[T]; 2],
        h: &SparseRows<T>,
        dx_tangent: &mut [T],
    ) {
        self.backward_masked(theta, dz_tangent, h, dx_tangent);
        sddmm(dz, self.weights(v), self.outputs, h, true, dx_tangent);
    }

    fn split<'t, T>(&self, theta: &'t mut [T]) -> (&'t mut [T], &'t mut [T]) {
        theta[self.start..self.end()].split_at_mut(self.inputs * self.outputs)
    }
}
