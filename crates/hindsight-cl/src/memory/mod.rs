//! Episodic memories: which samples of the stream are kept, and how they are drawn again.

mod reservoir;
mod ring;

pub use reservoir::Reservoir;
pub use ring::Ring;

use hindsight_nn::Rng;

use crate::Batch;

/// Appends `count` distinct samples of the first `available` to `to`, uniformly, or all there are if fewer.
pub(crate) fn draw(
    samples: &Batch,
    available: usize,
    count: usize,
    candidates: &mut Vec<u32>,
    rng: &mut Rng,
    to: &mut Batch,
) {
    let count = count.min(available);
    candidates.clear();
    candidates.extend(0..available as u32);
    rng.shuffle_front(candidates, count);
    for &i in &candidates[..count] {
        let (x, label, task) = samples.sample(i as usize);
        to.push(x, label, task);
    }
}
