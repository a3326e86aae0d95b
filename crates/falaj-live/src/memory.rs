//! Large pieces of memory on large pages.
//!
//! With a hundred thousand queues no two packets meet the same record, and looking up where its page lies costs as much as
//! reading it. The kernel puts memory on pages of 2 MiB where it is asked to, if its setting is `madvise`, the usual one.
#![allow(unsafe_code)]

use nix::sys::mman::{MmapAdvise, madvise};
use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::c_void;
use std::ptr::NonNull;

const PAGE: usize = 2 << 20;

/// The system's allocator, which asks for large pages where at least one fits in. A program makes it its own by
/// `#[global_allocator]`.
#[derive(Clone, Copy, Debug, Default)]
pub struct LargePages;

/// Asks for large pages in what was just given out. A refusal changes nothing but the time that it takes.
#[cold]
fn advise(from: *mut u8, size: usize) {
    let skipped = from.align_offset(PAGE);
    let whole = size.saturating_sub(skipped) / PAGE * PAGE;
    let Some(start) =
        NonNull::new(from.wrapping_add(skipped).cast::<c_void>()).filter(|_| !from.is_null() && whole > 0)
    else {
        return;
    };
    // SAFETY: whole pages of a piece that belongs to the caller; the advice changes nothing of what is in them.
    _ = unsafe { madvise(start, whole, MmapAdvise::MADV_HUGEPAGE) };
}

#[inline]
fn advised(from: *mut u8, size: usize) -> *mut u8 {
    if size >= PAGE {
        advise(from, size);
    }
    from
}

// SAFETY: whatever is asked for is asked of the system's allocator, with the same layouts, and what it gives is passed on as
// it is.
unsafe impl GlobalAlloc for LargePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is the one that is asked for.
        advised(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above. It is not touched before the advice: zeros come with the pages.
        advised(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        advised(unsafe { System.realloc(old, layout, size) }, size)
    }

    unsafe fn dealloc(&self, gone: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(gone, layout) }
    }
}
