//! A global allocator that aligns blocks to cache lines and asks for huge pages.

use std::alloc::{GlobalAlloc, Layout, System};

/// The system allocator, with blocks of a kilobyte or more aligned to cache lines, and on Linux those of a
/// megabyte or more in huge pages, where the system has them to give.
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

/// Size of a huge page of x86-64.
const HUGE: usize = 2 << 20;

/// Blocks from here on are whole huge pages. With pages of 4 kB, a step of the residual network spends 3 to 5 %
/// of its time on finding them: its arrays are more than the processor has translations for.
const LARGE: usize = HUGE / 2;

fn aligned(layout: Layout) -> Layout {
    match layout.size() {
        0..1024 => layout,
        size if size >= LARGE && cfg!(target_os = "linux") => {
            Layout::from_size_align(size.next_multiple_of(HUGE), HUGE.max(layout.align())).unwrap_or(layout)
        }
        _ => layout.align_to(64).unwrap_or(layout),
    }
}

// SAFETY: the system allocator allocates and frees a block with the same layout. It is a function of the
// layout of the caller, with at least its size and alignment.
unsafe impl GlobalAlloc for CacheAligned {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let layout = aligned(layout);
        // SAFETY: the contract of the caller.
        let block = unsafe { System.alloc(layout) };
        if layout.align() >= HUGE && !block.is_null() {
            ask_for_huge_pages(block, layout.size());
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the contract of the caller; `aligned` returns the layout with which the block was
        // allocated.
        unsafe { System.dealloc(block, aligned(layout)) }
    }
}

#[cfg(target_os = "linux")]
fn ask_for_huge_pages(block: *mut u8, len: usize) {
    use std::ffi::{c_int, c_void};
    unsafe extern "C" {
        fn madvise(start: *mut c_void, len: usize, advice: c_int) -> c_int;
    }
    const MADV_HUGEPAGE: c_int = 14;
    // SAFETY: the block's own pages; the advice changes no values, and an error means pages of the usual size.
    unsafe { madvise(block.cast(), len, MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
fn ask_for_huge_pages(_: *mut u8, _: usize) {}
