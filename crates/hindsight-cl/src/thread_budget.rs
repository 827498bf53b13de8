//! Threads that have no run left: an exam of another run may have its tasks answered by as many.
//!
//! What an exam finds does not depend on who answers it, so this changes nothing but the time that the last runs take.

use std::sync::atomic::{AtomicUsize, Ordering};

static IDLE: AtomicUsize = AtomicUsize::new(0);

/// The threads of [`crate::run::run_all`], of which more and more fall idle until all is done.
pub(crate) struct ThreadBudget(AtomicUsize);

/// One that works until it is dropped.
pub(crate) struct Worker<'c>(&'c ThreadBudget);

/// So many idle threads, taken until they are dropped.
pub(crate) struct ThreadPermit(pub(crate) usize);

impl ThreadBudget {
    /// A crew of which `idle` have nothing to do from the beginning.
    pub(crate) fn new(idle: usize) -> ThreadBudget {
        let crew = ThreadBudget(AtomicUsize::new(0));
        crew.add(idle);
        crew
    }

    pub(crate) fn worker(&self) -> Worker<'_> {
        Worker(self)
    }

    fn add(&self, idle: usize) {
        IDLE.fetch_add(idle, Ordering::Relaxed);
        self.0.fetch_add(idle, Ordering::Relaxed);
    }
}

/// Those idle now, but no more than `most`.
pub(crate) fn acquire(most: usize) -> ThreadPermit {
    let mut taken = 0;
    let _ = IDLE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |idle| {
        taken = idle.min(most);
        Some(idle - taken)
    });
    ThreadPermit(taken)
}

impl Drop for Worker<'_> {
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
