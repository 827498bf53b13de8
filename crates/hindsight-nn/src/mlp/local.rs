//! The local reparameterisation: with a Gaussian over every weight, the outputs of a layer are Gaussian too.
//!
//! For weights of mean `M` and variance `S`, `z = m + s eps` with `m = h M + b` and `s^2 = h^2 S + c`: noise
//! per unit and row, where weights drawn for a whole batch need noise per weight. In the first layer, whose
//! inputs are known, all draws share `m` and `s`.

use super::Mlp;
use crate::{
    kernels::{Scalar, Start, matmul, matmul_nt, relu_backward},
    net::{LocalNet, LocalPass},
    tape::{Tape, resize},
};

impl<T: Scalar> LocalNet<T> for Mlp {
    fn units(&self) -> usize {
        self.layers.iter().map(|layer| layer.outputs).sum()
    }

    fn forward_local(&self, [mu, variance]: [&[T]; 2], x: &[T], eps: &[T], pass: &mut LocalPass<T>) {
        let (width, count) = (self.first().inputs, self.layers.len());
        let LocalPass { tape, layers, rows: sparse, squares: sparse_squares, .. } = pass;
        let (batch, rows) = (x.len() / width, eps.len() / LocalNet::<T>::units(self));
        assert!(x.len() == batch * width && rows.is_multiple_of(batch), "noise for {rows} rows of {batch}");
        layers.resize_with(count, Default::default);
        tape.batch = rows;
        let values = resize(&mut tape.values, count + 1);
        values[0].clear();
        values[0].extend_from_slice(x);
        let mut first = 0;
        for (l, (layer, local)) in self.layers.iter().zip(layers).enumerate() {
            let (before, z) = values.split_at_mut(l + 1);
            let (h, z, n) = (&before[l], &mut z[0], layer.outputs);
            let distinct = h.len() / layer.inputs * n;
            local.mean.resize(distinct, T::zero());
            local.spread.resize(distinct, T::zero());
            local.squares.clear();
            local.squares.extend(h.iter().map(|&h| h * h));
            if l == 0 {
                for (of, to) in [(h, &mut *sparse), (&local.squares, &mut *sparse_squares)] {
                    to.clear(width);
                    to.reserve(of.len());
                    of.chunks_exact(width).for_each(|row| to.push_slice(row));
                }
                layer.forward(
                    &sparse_input(sparse),
                    layer.weights(mu),
                    layer.bias(mu),
                    false,
                    &mut local.mean,
                );
                let input = sparse_input(sparse_squares);
                layer.forward(
                    &input,
                    layer.weights(variance),
                    layer.bias(variance),
                    false,
                    &mut local.spread,
                );
            } else {
                matmul(h, layer.weights(mu), n, Start::Bias(layer.bias(mu)), false, &mut local.mean);
                let start = Start::Bias(layer.bias(variance));
                matmul(&local.squares, layer.weights(variance), n, start, false, &mut local.spread);
            }
            local.spread.iter_mut().for_each(|v| *v = v.sqrt());
            let eps = &eps[first..first + rows * n];
            first += eps.len();
            z.clear();
            for eps in eps.chunks_exact(distinct) {
                let sums = local.mean.iter().zip(&local.spread).zip(eps);
                z.extend(sums.map(|((&m, &s), &eps)| m + s * eps));
            }
            if l < self.last() {
                z.iter_mut().for_each(|z| *z = z.max(T::zero()));
            }
        }
    }

    fn backward_local(
        &self,
        [mu, variance]: [&[T]; 2],
        eps: &[T],
        pass: &mut LocalPass<T>,
        [into_mu, into_variance]: [&mut [T]; 2],
    ) {
        let LocalPass { tape: Tape { values, deltas, .. }, layers, rows, squares, columns, by_variance } =
            pass;
        let mut end = eps.len();
        for (l, layer) in self.layers.iter().enumerate().rev() {
            let local = &mut layers[l];
            let (below, above) = deltas.split_at_mut(l + 1);
            let (dz, distinct) = (&above[0], local.mean.len());
            let eps = &eps[end - dz.len()..end];
            end -= dz.len();
            // The deltas of `m` and of `s^2`, in the buffers of these, summed over the draws that share them.
            by_variance.clear();
            by_variance.resize(distinct, T::zero());
            local.mean.fill(T::zero());
            for (dz, eps) in dz.chunks_exact(distinct).zip(eps.chunks_exact(distinct)) {
                local.mean.iter_mut().zip(dz).for_each(|(sum, &d)| *sum += d);
                by_variance.iter_mut().zip(dz).zip(eps).for_each(|((sum, &d), &eps)| *sum += d * eps);
            }
            let half = T::of(0.5);
            by_variance.iter_mut().zip(&local.spread).for_each(|(d, &s)| *d *= half / s);
            if l == 0 {
                for (of, delta, into) in
                    [(&*rows, &local.mean, &mut *into_mu), (squares, by_variance, &mut *into_variance)]
                {
                    of.transpose_into(columns);
                    layer.accumulate_sparse(columns, delta, T::one(), into);
                }
                continue;
            }
            let h = &values[l];
            layer.accumulate(h, &local.mean, T::one(), into_mu);
            layer.accumulate(&local.squares, by_variance, T::one(), into_variance);
            // dh = dm M^T + 2 h (ds^2 S^T).
            let (dh, squares) = (&mut below[l], &mut local.squares);
            dh.resize(h.len(), T::zero());
            layer.backward(mu, &local.mean, dh);
            matmul_nt(by_variance, layer.weights(variance), layer.outputs, false, squares);
            dh.iter_mut().zip(h).zip(squares).for_each(|((d, &h), &mut by)| *d += (h + h) * by);
            relu_backward(h, dh);
        }
    }
}

fn sparse_input<T>(rows: &crate::SparseRows<T>) -> crate::layers::linear::LinearInput<'_, T> {
    crate::layers::linear::LinearInput::Sparse(rows)
}
