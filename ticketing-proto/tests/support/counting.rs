//! The system's allocator, with counts per thread: a test that allocates nothing elsewhere sees its own alone.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    static LIVE: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        LIVE.set(LIVE.get() + layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE.set(LIVE.get() - layout.size() as isize);
        // SAFETY: the caller's promise; it came from the system's allocator.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often this thread has allocated.
pub(crate) fn allocations() -> usize {
    ALLOCATIONS.get()
}

/// How many bytes more this thread has allocated than given back. It may give back what another one allocated, so
/// that only differences tell something.
pub(crate) fn live_bytes() -> isize {
    LIVE.get()
}

/// Memory is to be had for what it was: a figure of bytes may be a tenth above the one that was recorded here. Whoever
/// changes it on purpose records the new one.
///
/// # Panics
/// If it is more than that.
pub(crate) fn assert_as_recorded(what: &str, bytes: f64, recorded: f64) {
    println!("{what}: {bytes:.1} bytes, {recorded} are recorded");
    assert!(bytes <= recorded * 1.1, "{what}: {bytes:.1} bytes, more than a tenth above {recorded}");
}
