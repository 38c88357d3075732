//! The allocator of the process, which tells each thread's statement what it takes ([`weir_types::interrupt`]).

use std::alloc::{GlobalAlloc, Layout};

use libmimalloc_sys::{mi_malloc, mi_realloc, mi_zalloc};
use mimalloc::MiMalloc;
use weir_types::interrupt::{on_allocated, on_freed};

/// Rows and values are small and short-lived: the system's allocator took a sixth of a run's time.
pub struct Counting;

/// Returns whether blocks of that size are aligned as wanted without being asked: those of 16 bytes and more are to 16 bytes, smaller
/// ones to 8. The functions that are told an alignment take five times as many instructions.
#[inline]
fn is_aligned_anyway(size: usize, alignment: usize) -> bool {
    alignment <= 8 || (alignment == 16 && size >= 16)
}

// SAFETY: all that is asked for is mimalloc's, with the layouts that it is asked for; the counters allocate nothing.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        on_allocated(layout.size());
        match is_aligned_anyway(layout.size(), layout.align()) {
            // SAFETY: any size may be asked for.
            true => unsafe { mi_malloc(layout.size()).cast() },
            // SAFETY: the caller's.
            false => unsafe { MiMalloc.alloc(layout) },
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        on_allocated(layout.size());
        match is_aligned_anyway(layout.size(), layout.align()) {
            // SAFETY: any size may be asked for.
            true => unsafe { mi_zalloc(layout.size()).cast() },
            // SAFETY: the caller's.
            false => unsafe { MiMalloc.alloc_zeroed(layout) },
        }
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
        match is_aligned_anyway(new_size, layout.align()) {
            // SAFETY: the caller's; a block of mimalloc is reallocated by it however it was allocated.
            true => unsafe { mi_realloc(pointer.cast(), new_size).cast() },
            // SAFETY: the caller's.
            false => unsafe { MiMalloc.realloc(pointer, layout, new_size) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of all small sizes, allocated, zeroed and grown, are aligned as wanted.
    #[test]
    #[allow(unsafe_code)]
    fn blocks_are_aligned() {
        for size in 1..600 {
            for alignment in [1, 2, 4, 8, 16, 32, 64, 4_096] {
                let layout = Layout::from_size_align(size, alignment).unwrap();
                // SAFETY: each block is freed once, with the layout of its last allocation.
                unsafe {
                    let blocks: Vec<*mut u8> = (0..40).map(|_| Counting.alloc(layout)).collect();
                    let zeroed = Counting.alloc_zeroed(layout);
                    assert!((0..size).all(|at| *zeroed.add(at) == 0));
                    Counting.dealloc(zeroed, layout);
                    for block in blocks {
                        assert_eq!(block.addr() % alignment, 0, "{size} {alignment}");
                        let grown = Counting.realloc(block, layout, size + 24);
                        assert_eq!(grown.addr() % alignment, 0, "{size} {alignment}");
                        Counting.dealloc(grown, Layout::from_size_align(size + 24, alignment).unwrap());
                    }
                }
            }
        }
    }
}
