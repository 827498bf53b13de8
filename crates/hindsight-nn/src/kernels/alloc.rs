//! A global allocator that aligns large blocks to cache lines.

use std::alloc::{GlobalAlloc, Layout, System};

/// The system allocator, with blocks of a kilobyte or more aligned to cache lines.
///
/// theta is a plain `Vec`. If its rows straddle cache lines, the sparse products take a fifth longer. A
/// program opts in with
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

// SAFETY: the system allocator allocates and frees a block with the same layout. It is a function of the
// layout of the caller, with the same size and at least its alignment.
unsafe impl GlobalAlloc for CacheAligned {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the contract of the caller.
        unsafe { System.alloc(aligned(layout)) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the contract of the caller.
        unsafe { System.alloc_zeroed(aligned(layout)) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the contract of the caller; `aligned` returns the layout with which the block was
        // allocated.
        unsafe { System.dealloc(block, aligned(layout)) }
    }
}
