//! Episodic memories: which samples of the stream are kept, and how they are drawn again.

mod payload;
mod reservoir;
mod ring;

pub use payload::Payload;
pub use reservoir::Reservoir;
pub use ring::Ring;

use hindsight_nn::Rng;

use crate::Batch;

/// Appends `count` distinct samples of the first `available` to `to`, uniformly, or all there are if fewer, and
/// returns their indices.
pub(crate) fn draw<'c>(
    samples: &Batch,
    available: usize,
    count: usize,
    candidates: &'c mut Vec<u32>,
    rng: &mut Rng,
    to: &mut Batch,
) -> &'c [u32] {
    let count = count.min(available);
    candidates.clear();
    candidates.extend(0..available as u32);
    rng.shuffle_front(candidates, count);
    for &i in &candidates[..count] {
        let (x, label, task) = samples.sample(i as usize);
        to.push(x, label, task);
    }
    &candidates[..count]
}
