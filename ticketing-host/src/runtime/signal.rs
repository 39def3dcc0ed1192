//! Telling one task that there is something to look at.

use std::future::poll_fn;
use std::mem;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// One who tells and one who waits. What is told while nobody waits is kept, once.
#[derive(Default, Debug)]
pub(crate) struct Signal(Mutex<State>);

#[derive(Default, Debug)]
enum State {
    #[default]
    Quiet,
    Waiting(Waker),
    Told,
}

impl Signal {
    pub(crate) fn tell(&self) {
        let before = mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), State::Told);
        if let State::Waiting(waker) = before {
            waker.wake();
        }
    }

    /// Ready once for what was told.
    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (next, poll) = match *state {
            State::Told => (State::Quiet, Poll::Ready(())),
            State::Quiet | State::Waiting(_) => (State::Waiting(cx.waker().clone()), Poll::Pending),
        };
        let before = mem::replace(&mut *state, next);
        drop(state);
        drop(before);
        poll
    }

    pub(crate) async fn told(&self) {
        poll_fn(|cx| self.poll(cx)).await;
    }
}
