//! How much of a memory fits into a budget of bytes.

use crate::{Stream, config::RunConfig, run};

/// Bytes that the learner of a run holds in the end, beyond the parameters that it answers with.
pub fn bytes(config: &RunConfig, stream: &Stream) -> u64 {
    bytes_with(config, stream, config.shared.int("slots"))
}

/// The most slots per class per task with which a run holds at most `most` bytes; its own where they make no
/// difference. The error is the least that it holds with one slot.
pub fn slots_within(config: &RunConfig, stream: &Stream, most: u64) -> Result<usize, u64> {
    const SLOTS: usize = 100_000;
    let bytes = |slots| bytes_with(config, stream, slots);
    let least = bytes(1);
    if least > most {
        return Err(least);
    }
    if bytes(SLOTS) == least {
        return Ok(config.shared.int("slots"));
    }
    // `low` slots fit, `high` do not.
    let (mut low, mut high) = (1, SLOTS + 1);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if bytes(middle) <= most { low = middle } else { high = middle }
    }
    Ok(low)
}

fn bytes_with(config: &RunConfig, stream: &Stream, slots: usize) -> u64 {
    let mut setup = run::setup(config, stream);
    setup.shared.slots = slots;
    config.method.bytes(&setup)
}
