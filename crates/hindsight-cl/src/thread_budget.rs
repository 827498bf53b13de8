//! Threads that have no run left help with the evaluations of the runs that are still going.
//!
//! An evaluation finds the same with any number of threads, so this changes nothing but the time of the last
//! runs.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Idle threads of the process.
static IDLE: AtomicUsize = AtomicUsize::new(0);

/// The idle threads of one [`crate::run::run_all`]; they are withdrawn when it is dropped.
pub(crate) struct ThreadBudget(AtomicUsize);

/// A thread that becomes idle when this is dropped.
pub(crate) struct BusyThread<'b>(&'b ThreadBudget);

/// So many idle threads, in use until this is dropped.
pub(crate) struct ThreadPermit(pub(crate) usize);

impl ThreadBudget {
    /// A budget with `idle` threads that have nothing to do from the beginning.
    pub(crate) fn new(idle: usize) -> ThreadBudget {
        let budget = ThreadBudget(AtomicUsize::new(0));
        budget.add(idle);
        budget
    }

    pub(crate) fn busy(&self) -> BusyThread<'_> {
        BusyThread(self)
    }

    fn add(&self, idle: usize) {
        IDLE.fetch_add(idle, Ordering::Relaxed);
        self.0.fetch_add(idle, Ordering::Relaxed);
    }
}

/// At most `most` of the threads that are idle now.
pub(crate) fn acquire(most: usize) -> ThreadPermit {
    let mut taken = 0;
    let _ = IDLE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |idle| {
        taken = idle.min(most);
        Some(idle - taken)
    });
    ThreadPermit(taken)
}

impl Drop for BusyThread<'_> {
    fn drop(&mut self) {
        self.0.add(1);
    }
}

impl Drop for ThreadBudget {
    fn drop(&mut self) {
        IDLE.fetch_sub(*self.0.get_mut(), Ordering::Relaxed);
    }
}

impl Drop for ThreadPermit {
    fn drop(&mut self) {
        IDLE.fetch_add(self.0, Ordering::Relaxed);
    }
}
