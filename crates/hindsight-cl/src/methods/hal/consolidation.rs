//! Anchors on a stream without boundaries: found every so many batches, a bounded number of them kept.

use hindsight_nn::Rng;

use super::settings::HalSettings;
use crate::{Batch, methods::Setup, state::StateDict};

pub(super) struct Consolidation {
    /// Batches; 0 for only when a task ends.
    every: usize,
    since: usize,
    /// Anchors kept at most, and how many were found so far.
    capacity: usize,
    found: usize,
}

impl Consolidation {
    pub(super) fn new(setup: &Setup<'_>, settings: &HalSettings) -> Consolidation {
        let capacity = setup.classes_per_task().max(1) * setup.tasks.max(1);
        Consolidation { every: settings.consolidate_every, since: 0, capacity, found: 0 }
    }

    /// Counts a batch, and says whether it is time.
    pub(super) fn is_due(&mut self) -> bool {
        self.since += 1;
        self.since == self.every
    }

    /// Adds the anchors that were found. Where there is no end to them, those kept are a uniform sample of
    /// all.
    pub(super) fn keep(&mut self, found: &Batch, anchors: &mut Batch, rng: &mut Rng) {
        self.since = 0;
        if self.every == 0 {
            return anchors.extend(found);
        }
        for (x, label, task) in found {
            self.found += 1;
            if anchors.len() < self.capacity {
                anchors.push(x, label, task);
                continue;
            }
            let slot = rng.below(self.found);
            if slot < anchors.len() {
                anchors.x[slot * x.len()..][..x.len()].copy_from_slice(x);
                (anchors.labels[slot], anchors.tasks[slot]) = (label, task);
            }
        }
    }

    pub(super) fn state(&mut self) -> StateDict<'_> {
        match self.every {
            0 => StateDict::new(),
            _ => vec![("since", &mut self.since), ("found", &mut self.found)],
        }
    }
}
