//! Telling one task that there is something to look at.

use std::future::poll_fn;
use std::mem;
use std::sync::PoisonError;
use std::task::{Context, Poll, Waker};

use crate::sync::Mutex;

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

#[cfg(all(test, loom))]
mod models {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;
    use std::task::ready;

    use super::*;
    use crate::runtime::models::{check, settle, spawn};
    use crate::sync::AtomicBool;

    /// One thread sets a flag and tells, the other one waits until it is set.
    fn tell(sets_first: bool) {
        check(3, move || {
            let told = Arc::new((Signal::default(), AtomicBool::new(false)));
            let telling = {
                let told = Arc::clone(&told);
                spawn(move || {
                    if !sets_first {
                        told.0.tell();
                    }
                    told.1.store(true, Ordering::Release);
                    if sets_first {
                        told.0.tell();
                    }
                })
            };
            settle(telling, |context| {
                while !told.1.load(Ordering::Acquire) {
                    ready!(told.0.poll(context));
                }
                Poll::Ready(())
            });
        });
    }

    #[test]
    fn what_is_so_before_it_is_told_is_seen() {
        tell(true);
    }

    #[test]
    #[should_panic(expected = "nobody has woken it")]
    fn what_is_told_before_it_is_so_may_be_missed() {
        tell(false);
    }
}
