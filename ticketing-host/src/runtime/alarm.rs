//! A deadline by the core's time.

use std::task::{Context, Poll};

use ticketing_proto::time::Instant;

use super::Timer;

/// Waits for deadlines by a clock that is not the runtime's. The timer is moved only forward, so that deadlines
/// that come and go cost nothing.
///
/// A runtime's timers may stand still while the host sleeps. After that they may wake late by as much as they had
/// left; the clock says then what is due.
#[derive(Debug)]
pub(crate) struct Alarm<T> {
    timer: T,
    /// When the timer wakes. It may be earlier than the deadline.
    armed: Option<Instant>,
}

impl<T: Timer> Alarm<T> {
    pub(crate) fn new() -> Self {
        Self { timer: T::at(std::time::Instant::now()), armed: None }
    }

    /// Ready when the deadline is due, by `clock`.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        clock: impl Fn() -> Instant,
        deadline: Instant,
    ) -> Poll<()> {
        loop {
            let now = clock();
            if deadline <= now {
                return Poll::Ready(());
            }
            if self.armed.is_none_or(|armed| deadline < armed) {
                self.timer.reset(std::time::Instant::now() + deadline.saturating_since(now));
                self.armed = Some(deadline);
            }
            if self.timer.poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.armed = None;
        }
    }

    /// Whether it wakes nobody any more.
    pub(crate) fn is_spent(&self, now: Instant) -> bool {
        self.armed.is_none_or(|armed| armed <= now)
    }
}
