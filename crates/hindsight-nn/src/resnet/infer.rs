//! Evaluation of many images, under running statistics.

use std::{cell::Cell, ops::Range};

use super::{Block, GROUP, ResNet, group};
use crate::{
    Inputs, Layer, Scalar,
    kernels::conv::{self, Finish, Packed, Workspace},
    layers::linear::LinearInput,
    tape::NetScratch,
};

impl ResNet {
    pub(super) fn infer_all<T: Scalar>(
        &self,
        theta: &[T],
        inputs: &Inputs<'_, T>,
        layer: Layer,
        visit: &mut dyn FnMut(&[T]),
    ) {
        // Batch-norm under running statistics is linear: its scale goes into the weights, its shift is a
        // bias.
        let mut scratch = SCRATCH.take();
        let InferenceScratch { folded, workspace, rows, buffers, maps, features, logits } =
            scratch.get_or_default::<InferenceScratch<T>>();
        folded.resize_with(self.units.len(), Default::default);
        for (unit, (packed, shift)) in self.units.iter().zip(&mut *folded) {
            let scale;
            (scale, *shift) = unit.norm.fold(theta);
            conv::pack_forward(&unit.conv, unit.weights(theta), Some(&scale), packed);
        }
        let levels = self.levels();
        buffers.resize_with(levels.len(), Default::default);
        let mut run = Inference { net: self, folded, workspace, rows, buffers };
        let most = levels.last().map_or(1, |level| level.images);
        for start in (0..inputs.len()).step_by(most) {
            maps.clear();
            run.advance(&levels, inputs, start..(start + most).min(inputs.len()), maps);
            self.pool(maps, features);
            match layer {
                Layer::Features => visit(features),
                Layer::Logits => {
                    logits.resize(features.len() / self.head.inputs * self.head.outputs, T::zero());
                    let (weights, bias) = (self.head.weights(theta), self.head.bias(theta));
                    self.head.forward(&LinearInput::Dense(features), weights, bias, false, logits);
                    visit(logits);
                }
            }
        }
        SCRATCH.set(scratch);
    }

    /// The blocks by the images that an evaluation takes through them at a time; each level takes a multiple
    /// of the one before.
    fn levels(&self) -> Vec<Level> {
        let mut levels: Vec<Level> = Vec::new();
        for (i, block) in self.blocks.iter().enumerate() {
            let conv = &self.units[block.second].conv;
            // An evaluation has half as many arrays in the cache as the way back.
            let images = group(conv.out_len(), conv.weights().max(2 * GROUP));
            match levels.last_mut() {
                Some(last) if images < 2 * last.images => last.blocks.end = i + 1,
                Some(last) => {
                    let images = images / last.images * last.images;
                    levels.push(Level { blocks: i..i + 1, images });
                }
                None => levels.push(Level { blocks: i..i + 1, images }),
            }
        }
        levels
    }
}

/// Blocks of the network that are evaluated for as many images at a time.
struct Level {
    blocks: Range<usize>,
    images: usize,
}

thread_local! {
    /// What evaluations on this thread work in: pages from the system cost a tenth of a small one.
    static SCRATCH: Cell<NetScratch> = Cell::default();
}

#[derive(Debug, Clone, Default)]
struct InferenceScratch<T> {
    /// Weights and bias of each unit, its batch-norm included.
    folded: Vec<(Packed<T>, Vec<T>)>,
    workspace: Workspace<T>,
    rows: Vec<T>,
    /// What each level works in.
    buffers: Vec<[Vec<T>; 3]>,
    maps: Vec<T>,
    features: Vec<T>,
    logits: Vec<T>,
}

/// An evaluation under way, with what it has of [`InferenceScratch`].
struct Inference<'n, T> {
    net: &'n ResNet,
    folded: &'n [(Packed<T>, Vec<T>)],
    workspace: &'n mut Workspace<T>,
    rows: &'n mut Vec<T>,
    buffers: &'n mut [[Vec<T>; 3]],
}

impl<T: Scalar> Inference<'_, T> {
    fn apply(&mut self, unit: usize, x: &[T], (add, relu): (bool, bool), y: &mut Vec<T>) {
        let conv = &self.net.units[unit].conv;
        let (packed, shift) = &self.folded[unit];
        y.resize(x.len() / conv.in_len() * conv.out_len(), T::zero());
        conv::forward(conv, x, packed, Finish { bias: Some(shift), add, relu }, y, self.workspace);
    }

    /// Appends the maps of `images` after the last of `levels`. The earlier ones work through fewer images at
    /// a time, whose larger maps stay in the cache.
    fn advance(&mut self, levels: &[Level], inputs: &Inputs<'_, T>, images: Range<usize>, maps: &mut Vec<T>) {
        let Some((level, before)) = levels.split_last() else { return };
        let [mut x, mut inner, mut y] = std::mem::take(&mut self.buffers[before.len()]);
        for start in images.clone().step_by(level.images) {
            let images = start..(start + level.images).min(images.end);
            if before.is_empty() {
                self.rows.clear();
                inputs.materialise(images, self.rows);
                self.net.load(self.rows, &mut y);
                self.apply(0, &y, (false, true), &mut x);
            } else {
                x.clear();
                self.advance(before, inputs, images, &mut x);
            }
            for &Block { first, second, shortcut, .. } in &self.net.blocks[level.blocks.clone()] {
                self.apply(first, &x, (false, true), &mut inner);
                if let Some(shortcut) = shortcut {
                    self.apply(shortcut, &x, (false, false), &mut y);
                    std::mem::swap(&mut x, &mut y);
                }
                self.apply(second, &inner, (true, true), &mut x);
            }
            maps.extend_from_slice(&x);
        }
        self.buffers[before.len()] = [x, inner, y];
    }
}
