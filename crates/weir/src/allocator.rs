//! The allocator of the process, which tells each thread's statement what it takes ([`weir_types::interrupt`]).

use std::alloc::{GlobalAlloc, Layout};

use mimalloc::MiMalloc;
use weir_types::interrupt::{on_allocated, on_freed};

/// Rows and values are small and short-lived: the system's allocator took a sixth of a run's time.
pub struct Counting;

// SAFETY: all that is asked for is MiMalloc's, with the layouts that it is asked for; the counters allocate nothing.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        on_allocated(layout.size());
        // SAFETY: the caller's.
        unsafe { MiMalloc.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        on_allocated(layout.size());
        // SAFETY: the caller's.
        unsafe { MiMalloc.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        on_freed(layout.size());
        // SAFETY: the caller's.
        unsafe { MiMalloc.dealloc(pointer, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        on_freed(layout.size());
        on_allocated(new_size);
        // SAFETY: the caller's.
        unsafe { MiMalloc.realloc(pointer, layout, new_size) }
    }
}
