//! An allocator that aligns large blocks to cache lines.

use std::alloc::{GlobalAlloc, Layout, System};

/// The system's allocator, but with blocks of a kilobyte or more at the start of a cache line.
///
/// theta is a plain `Vec`, which the system places anywhere; where its rows straddle cache lines, the sparse
/// products take a fifth longer. A program opts in with
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: hindsight_nn::CacheAligned = hindsight_nn::CacheAligned;
/// ```
#[derive(Debug, Clone, Copy)]
pub struct CacheAligned;

fn aligned(layout: Layout) -> Layout {
    if layout.size() < 1024 { layout } else { layout.align_to(64).unwrap_or(layout) }
}

// SAFETY: the system's allocator gets blocks and takes them back with one and the same layout, a function of the
// caller's, of the same size and at least its alignment.
unsafe impl GlobalAlloc for CacheAligned {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { System.alloc(aligned(layout)) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(aligned(layout)) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise; `aligned` gives what it gave when the block was allocated.
        unsafe { System.dealloc(block, aligned(layout)) }
    }
}
