//! The definitions, written to be read: what the fast kernels are tested against.

use super::{Conv, Finish, lanes};
use crate::Scalar;

/// The weights that [`super::pack_forward`] makes ready.
pub(super) fn scaled<T: Scalar>(conv: &Conv, weights: &[T], scale: Option<&[T]>) -> Vec<T> {
    let mut weights = weights.to_vec();
    if let Some(scale) = scale {
        for row in weights.chunks_exact_mut(conv.outputs) {
            row.iter_mut().zip(scale).for_each(|(w, &s)| *w *= s);
        }
    }
    weights
}

/// Calls `visit` with the pixels of input and output that a kernel position joins, and with that position.
fn taps(conv: &Conv, batch: usize, mut visit: impl FnMut(usize, usize, usize)) {
    let ([height, width], [out_height, out_width]) = (conv.size, conv.out_size());
    let pad = conv.kernel / 2;
    for image in 0..batch {
        for i in 0..out_height {
            for j in 0..out_width {
                for ky in 0..conv.kernel {
                    for kx in 0..conv.kernel {
                        let (y, x) = (i * conv.stride + ky, j * conv.stride + kx);
                        if (pad..height + pad).contains(&y) && (pad..width + pad).contains(&x) {
                            let from = (image * height + y - pad) * width + x - pad;
                            visit(from, (image * out_height + i) * out_width + j, ky * conv.kernel + kx);
                        }
                    }
                }
            }
        }
    }
}

pub(super) fn forward<T: Scalar>(conv: &Conv, x: &[T], weights: &[T], finish: Finish<'_, T>, y: &mut [T]) {
    let (ins, outs) = (lanes(conv.inputs), lanes(conv.outputs));
    if !finish.add {
        y.fill(T::zero());
    }
    taps(conv, x.len() / conv.in_len(), |from, to, tap| {
        let weights = &weights[tap * conv.inputs * conv.outputs..];
        let y = &mut y[to * outs..][..conv.outputs];
        for (c, row) in weights.chunks_exact(conv.outputs).take(conv.inputs).enumerate() {
            let x = x[from * ins + c];
            y.iter_mut().zip(row).for_each(|(y, &w)| *y += x * w);
        }
    });
    for pixel in y.chunks_exact_mut(outs) {
        if let Some(bias) = finish.bias {
            pixel.iter_mut().zip(bias).for_each(|(y, &b)| *y += b);
        }
        if finish.relu {
            pixel.iter_mut().for_each(|y| *y = y.max(T::zero()));
        }
    }
}

pub(super) fn backward<T: Scalar>(conv: &Conv, dy: &[T], weights: &[T], add: bool, dx: &mut [T]) {
    let (ins, outs) = (lanes(conv.inputs), lanes(conv.outputs));
    if !add {
        dx.fill(T::zero());
    }
    taps(conv, dy.len() / conv.out_len(), |from, to, tap| {
        let weights = &weights[tap * conv.inputs * conv.outputs..];
        let dy = &dy[to * outs..][..conv.outputs];
        for (c, row) in weights.chunks_exact(conv.outputs).take(conv.inputs).enumerate() {
            dx[from * ins + c] += dy.iter().zip(row).map(|(&d, &w)| d * w).sum();
        }
    });
}

pub(super) fn accumulate<T: Scalar>(conv: &Conv, pairs: &[(&[T], &[T])], scale: T, into: &mut [T]) {
    let (ins, outs) = (lanes(conv.inputs), lanes(conv.outputs));
    let mut sums = vec![T::zero(); conv.weights()];
    for (x, dy) in pairs {
        taps(conv, x.len() / conv.in_len(), |from, to, tap| {
            let sums = &mut sums[tap * conv.inputs * conv.outputs..];
            let dy = &dy[to * outs..][..conv.outputs];
            for (c, row) in sums.chunks_exact_mut(conv.outputs).take(conv.inputs).enumerate() {
                let x = x[from * ins + c];
                row.iter_mut().zip(dy).for_each(|(w, &d)| *w += x * d);
            }
        });
    }
    into.iter_mut().zip(&sums).for_each(|(into, &sum)| *into += scale * sum);
}
