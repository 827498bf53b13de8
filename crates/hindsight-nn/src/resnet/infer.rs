//! Evaluation of many images, under running statistics.

use std::ops::Range;

use super::{Block, GROUP, ResNet, group};
use crate::{
    Inputs, Layer, Scalar,
    kernels::conv::{self, Finish, Packed, Workspace},
    layers::linear::LinearInput,
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
        let folded: Vec<(Packed<T>, Vec<T>)> = self
            .units
            .iter()
            .map(|unit| {
                let (scale, shift) = unit.norm.fold(theta);
                let mut packed = Packed::default();
                conv::pack_forward(&unit.conv, unit.weights(theta), Some(&scale), &mut packed);
                (packed, shift)
            })
            .collect();
        let levels = self.levels();
        let buffers = levels.iter().map(|_| Default::default()).collect();
        let mut run =
            Inference { net: self, folded, workspace: Workspace::default(), rows: Vec::new(), buffers };
        let (mut maps, mut features, mut logits) = (Vec::new(), Vec::new(), Vec::new());
        let most = levels.last().map_or(1, |level| level.images);
        for start in (0..inputs.len()).step_by(most) {
            maps.clear();
            run.advance(&levels, inputs, start..(start + most).min(inputs.len()), &mut maps);
            self.pool(&maps, &mut features);
            match layer {
                Layer::Features => visit(&features),
                Layer::Logits => {
                    logits.resize(features.len() / self.head.inputs * self.head.outputs, T::zero());
                    let (weights, bias) = (self.head.weights(theta), self.head.bias(theta));
                    self.head.forward(&LinearInput::Dense(&features), weights, bias, false, &mut logits);
                    visit(&logits);
                }
            }
        }
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

/// An evaluation under way.
struct Inference<'n, T> {
    net: &'n ResNet,
    /// Weights and bias of each unit, its batch-norm included.
    folded: Vec<(Packed<T>, Vec<T>)>,
    workspace: Workspace<T>,
    rows: Vec<T>,
    /// What each level works in.
    buffers: Vec<[Vec<T>; 3]>,
}

impl<T: Scalar> Inference<'_, T> {
    fn apply(&mut self, unit: usize, x: &[T], (add, relu): (bool, bool), y: &mut Vec<T>) {
        let conv = &self.net.units[unit].conv;
        let (packed, shift) = &self.folded[unit];
        y.resize(x.len() / conv.in_len() * conv.out_len(), T::zero());
        conv::forward(conv, x, packed, Finish { bias: Some(shift), add, relu }, y, &mut self.workspace);
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
                inputs.materialise(images, &mut self.rows);
                self.net.load(&self.rows, &mut y);
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
