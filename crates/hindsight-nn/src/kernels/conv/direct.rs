//! Convolutions by their definition: sums of products over the kernel's positions.
//!
//! The images of a group are copied into a frame of zeros, so that no position falls outside; the group is as
//! large as stays in the L2 cache, since all panels of weights pass over it.

use super::{
    Conv, Part, Spot, Workspace, lanes,
    panels::{Ending, Outer, PanelSweep, outer, panels, sweep},
    room,
    vector::width,
};
use crate::{Scalar, kernels::axpy};

/// Values of the images of a group.
const GROUP: usize = 32 << 10;

/// Pixels that an outer product adds up before its sums make way for the next: as many as stay in the L1
/// cache.
const PIXELS: usize = 64;

/// The most positions of a kernel.
const TAPS: usize = 9;

pub(super) fn pack_forward<T: Scalar>(conv: &Conv, weights: &[T], scale: Option<&[T]>, packed: &mut Vec<T>) {
    let Conv { kernel, inputs, outputs, .. } = *conv;
    let vector = width::<T>(lanes(outputs));
    let packed = room(packed, kernel * kernel * inputs * outputs.next_multiple_of(vector));
    let mut rows = 0;
    for (j, vectors) in panels(lanes(outputs), vector) {
        let width = vectors * vector;
        let filled = width.min(outputs - j);
        for row in weights.chunks_exact(outputs) {
            let to = &mut packed[rows..][..width];
            to[..filled].copy_from_slice(&row[j..][..filled]);
            to[filled..].fill(T::zero());
            if let Some(scale) = scale {
                to.iter_mut().zip(&scale[j..]).for_each(|(w, &s)| *w *= s);
            }
            rows += width;
        }
    }
}

/// Which pixels of the input share the kernel's positions that reach them: those at the same place modulo the
/// stride.
#[derive(Clone, Copy)]
struct Phase {
    place: [usize; 2],
    /// Each position, and how far from the pixel the output lies that it reaches, framed by one pixel.
    taps: [(usize, [usize; 2]); TAPS],
    count: usize,
}

impl Phase {
    fn taps(&self) -> &[(usize, [usize; 2])] {
        &self.taps[..self.count]
    }
}

fn phases(conv: &Conv) -> impl Iterator<Item = Phase> {
    let Conv { kernel, stride, .. } = *conv;
    // With a frame of one pixel, or none for a kernel of one pixel.
    let reached = move |place: usize, k: usize| {
        let distance = place + kernel / 2 + stride * (kernel / 2) - k;
        distance.is_multiple_of(stride).then(|| distance / stride)
    };
    (0..stride * stride).map(move |phase| {
        let place = [phase / stride, phase % stride];
        let mut result = Phase { place, taps: [(0, [0, 0]); TAPS], count: 0 };
        for tap in 0..kernel * kernel {
            if let (Some(y), Some(x)) = (reached(place[0], tap / kernel), reached(place[1], tap % kernel)) {
                result.taps[result.count] = (tap, [y, x]);
                result.count += 1;
            }
        }
        result
    })
}

pub(super) fn pack_backward<T: Scalar>(conv: &Conv, weights: &[T], packed: &mut Vec<T>) {
    let Conv { kernel, inputs, outputs, .. } = *conv;
    let vector = width::<T>(lanes(inputs));
    let packed = room(packed, kernel * kernel * outputs * inputs.next_multiple_of(vector));
    let mut rest = packed;
    for phase in phases(conv) {
        for (j, vectors) in panels(lanes(inputs), vector) {
            let width = vectors * vector;
            let filled = width.min(inputs - j);
            for (tap, _) in phase.taps() {
                let (panel, behind) = rest.split_at_mut(outputs * width);
                rest = behind;
                for lane in 0..width {
                    let row = &weights[(tap * inputs + (j + lane).min(inputs - 1)) * outputs..][..outputs];
                    let column = panel[lane..].iter_mut().step_by(width);
                    if lane < filled {
                        column.zip(row).for_each(|(to, &w)| *to = w);
                    } else {
                        column.for_each(|to| *to = T::zero());
                    }
                }
            }
        }
    }
}

/// Images that are handled together.
fn group(framed: usize) -> usize {
    (GROUP / framed).max(1)
}

/// Copies images into frames of `frame` pixels of zeros.
fn framed<'a, T: Scalar>(
    images: &'a [T],
    [height, width]: [usize; 2],
    lanes: usize,
    frame: usize,
    buffer: &'a mut Vec<T>,
) -> &'a [T] {
    if frame == 0 {
        return images;
    }
    let row = (width + 2 * frame) * lanes;
    let count = images.len() / (height * width * lanes);
    let buffer = room(buffer, count * (height + 2 * frame) * row);
    for (image, to) in
        images.chunks_exact(height * width * lanes).zip(buffer.chunks_exact_mut((height + 2 * frame) * row))
    {
        let (top, to) = to.split_at_mut(frame * row);
        let (inside, bottom) = to.split_at_mut(height * row);
        top.fill(T::zero());
        bottom.fill(T::zero());
        for (from, to) in image.chunks_exact(width * lanes).zip(inside.chunks_exact_mut(row)) {
            to[..frame * lanes].fill(T::zero());
            to[frame * lanes..][..width * lanes].copy_from_slice(from);
            to[(frame + width) * lanes..].fill(T::zero());
        }
    }
    buffer
}

/// Sets `spots` to where the outputs of `group` images are read, in frames, and where they are written.
fn forward_spots(conv: &Conv, group: usize, spots: &mut Vec<Spot>) {
    let ([_, width], [out_height, out_width]) = (framed_size(conv, conv.size), conv.out_size());
    let (ins, outs) = (lanes(conv.inputs), lanes(conv.outputs));
    spots.clear();
    for image in 0..group {
        for i in 0..out_height {
            for j in 0..out_width {
                let from = image * framed_len(conv) + (i * conv.stride * width + j * conv.stride) * ins;
                spots.push(Spot { from, to: image * conv.out_len() + (i * out_width + j) * outs });
            }
        }
    }
}

fn framed_size(conv: &Conv, size: [usize; 2]) -> [usize; 2] {
    size.map(|side| side + 2 * (conv.kernel / 2))
}

/// Values of a framed image that enters.
fn framed_len(conv: &Conv) -> usize {
    framed_size(conv, conv.size).iter().product::<usize>() * lanes(conv.inputs)
}

/// Distances of the kernel's positions in a framed image.
fn forward_taps(conv: &Conv) -> [usize; TAPS] {
    let [_, width] = framed_size(conv, conv.size);
    std::array::from_fn(|tap| (tap / conv.kernel * width + tap % conv.kernel) * lanes(conv.inputs))
}

pub(super) fn forward<T: Scalar>(
    conv: &Conv,
    x: &[T],
    weights: &[T],
    add: bool,
    relu: bool,
    y: &mut [T],
    workspace: &mut Workspace<T>,
) {
    let group = group(framed_len(conv)).min(x.len() / conv.in_len()).max(1);
    forward_spots(conv, group, &mut workspace.spots);
    let ending = Ending { bias: &workspace.bias, add, relu };
    for (x, y) in x.chunks(group * conv.in_len()).zip(y.chunks_mut(group * conv.out_len())) {
        let x = framed(x, conv.size, lanes(conv.inputs), conv.kernel / 2, &mut workspace.buffers[0]);
        let spots = &workspace.spots[..y.len() / lanes(conv.outputs)];
        let taps = &forward_taps(conv)[..conv.kernel * conv.kernel];
        sweep(&PanelSweep { x, spots, taps, depth: conv.inputs, weights, ending }, y);
    }
}

pub(super) fn backward<T: Scalar>(
    conv: &Conv,
    dy: &[T],
    weights: &[T],
    add: bool,
    dx: &mut [T],
    workspace: &mut Workspace<T>,
) {
    let (ins, outs) = (lanes(conv.inputs), lanes(conv.outputs));
    let [frame_height, frame_width] = framed_size(conv, conv.out_size());
    let frame_len = frame_height * frame_width * outs;
    let group = group(frame_len).min(dx.len() / conv.in_len()).max(1);
    let ending = Ending { bias: &workspace.bias, add, relu: false };
    workspace.spots.clear();
    for phase in phases(conv) {
        for image in 0..group {
            for y in (phase.place[0]..conv.size[0]).step_by(conv.stride) {
                for x in (phase.place[1]..conv.size[1]).step_by(conv.stride) {
                    let from = (y / conv.stride * frame_width + x / conv.stride) * outs;
                    let to = (y * conv.size[1] + x) * ins;
                    let spot = Spot { from: image * frame_len + from, to: image * conv.in_len() + to };
                    workspace.spots.push(spot);
                }
            }
        }
    }
    for (dy, dx) in dy.chunks(group * conv.out_len()).zip(dx.chunks_mut(group * conv.in_len())) {
        let dy = framed(dy, conv.out_size(), outs, conv.kernel / 2, &mut workspace.buffers[0]);
        let (mut weights, mut spots) = (weights, &workspace.spots[..]);
        for phase in phases(conv) {
            let mut taps = [0; TAPS];
            for (to, (_, [y, x])) in taps.iter_mut().zip(phase.taps()) {
                *to = (y * frame_width + x) * outs;
            }
            let pixels: usize = [0, 1]
                .map(|i| (conv.size[i] - phase.place[i].min(conv.size[i])).div_ceil(conv.stride))
                .iter()
                .product();
            let (own_weights, own_spots);
            (own_weights, weights) =
                weights.split_at(phase.count * conv.outputs * ins.next_multiple_of(width::<T>(ins)));
            (own_spots, spots) = spots.split_at(group * pixels);
            let own_spots = &own_spots[..dx.len() / conv.in_len() * pixels];
            let taps = &taps[..phase.count];
            let depth = conv.outputs;
            sweep(&PanelSweep { x: dy, spots: own_spots, taps, depth, weights: own_weights, ending }, dx);
        }
    }
}

pub(super) fn accumulate<T: Scalar>(
    conv: &Conv,
    (x, dy): (&[T], &[T]),
    part: Part<'_, T>,
    sums: &mut Vec<T>,
    workspace: &mut Workspace<T>,
) {
    let (depth, outs) = (conv.inputs, lanes(conv.outputs));
    let group = group(framed_len(conv)).min(x.len() / conv.in_len()).max(1);
    forward_spots(conv, group, &mut workspace.spots);
    let sums = room(sums, conv.kernel * conv.kernel * depth * outs);
    if part.first {
        sums.fill(T::zero());
    }
    for (x, dy) in x.chunks(group * conv.in_len()).zip(dy.chunks(group * conv.out_len())) {
        let x = framed(x, conv.size, lanes(conv.inputs), conv.kernel / 2, &mut workspace.buffers[0]);
        for spots in workspace.spots[..dy.len() / outs].chunks(PIXELS) {
            for (sums, tap) in sums.chunks_exact_mut(depth * outs).zip(forward_taps(conv)) {
                outer(&Outer { x: &x[tap..], dy, spots, depth, lanes: outs }, sums);
            }
        }
    }
    if let Some((scale, into)) = part.last {
        // As if the gradient had been made first and then added, to the bit.
        for (into, sums) in into.chunks_exact_mut(conv.outputs).zip(sums.chunks_exact(outs)) {
            axpy(scale, sums, into);
        }
    }
}
