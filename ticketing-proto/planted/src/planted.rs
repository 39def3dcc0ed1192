//! Which bug is there, and what some of them need.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::time::Instant;

const NONE: usize = usize::MAX;

static PLANTED: AtomicUsize = AtomicUsize::new(NONE);

/// Plants the bug with this number in [`BUGS`](crate::bugs::BUGS), for all threads, or none.
pub fn plant(bug: Option<usize>) {
    PLANTED.store(bug.unwrap_or(NONE), Ordering::Relaxed);
}

pub(crate) fn is(bug: usize) -> bool {
    PLANTED.load(Ordering::Relaxed) == bug
}

/// A deadline, or a moment before it.
pub(crate) fn early(is_early: bool, deadline: Instant) -> Instant {
    let nanos = Duration::from_millis(20).as_nanos() as u64;
    if is_early { Instant::from_nanos(deadline.nanos() - nanos) } else { deadline }
}

thread_local! {
    /// Keys that were released, with the deadlines that their holds had.
    static LEFT_TIMERS: RefCell<Vec<(Instant, Vec<u8>)>> = const { RefCell::new(Vec::new()) };
}

/// A timer that nobody cancels.
pub(crate) fn leave_timer(deadline: Instant, key: &[u8]) {
    LEFT_TIMERS.with_borrow_mut(|timers| timers.push((deadline, key.to_vec())));
}

/// The key of a timer that is due.
pub(crate) fn due_timer(now: Instant) -> Option<Vec<u8>> {
    LEFT_TIMERS.with_borrow_mut(|timers| {
        let due = timers.iter().position(|&(deadline, _)| deadline <= now)?;
        Some(timers.swap_remove(due).1)
    })
}

/// A new server has none.
pub(crate) fn forget_timers() {
    LEFT_TIMERS.with_borrow_mut(Vec::clear);
}
