//! The broker behind its lock, and who waits for what.

use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};

use ticketing_proto::client::{
    AcquireError, AcquireId, Broker, Event, Grant, ReleaseError, ReleaseId, Released,
};
use ticketing_proto::time::Instant;

use crate::clock;
use crate::sync::{AtomicBool, Mutex, MutexGuard};

/// The broker behind its lock. Each use is a short section without system calls, waiting or foreign code, so that
/// a ticket can be dropped anywhere.
#[derive(Debug)]
pub struct Shared {
    state: Mutex<State>,
    /// The driver has something to look at. Outside of the lock, as most who set it find it set.
    is_called: AtomicBool,
}

#[derive(Debug)]
struct State {
    broker: Broker,
    waiting: BTreeMap<Wait, Waker>,
    next_number: u64,
    /// What only the driver can do, in its order.
    errands: VecDeque<Event>,
    driver: Driver,
    is_closed: bool,
    /// What the system said when a connection could not be made, until one is.
    connect_error: Option<Arc<str>>,
}

#[derive(Debug)]
enum Driver {
    Starting,
    Running(Waker),
    /// Nothing is sent or received any more.
    Gone,
}

/// What a future waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Wait {
    /// The outcome of an acquire.
    Acquire(AcquireId),
    /// The outcome of a release.
    Release(ReleaseId),
    /// A usable connection. The number is one of [`Shared::number`].
    Ready(u64),
    /// The end of the driver. The number is one of [`Shared::number`].
    End(u64),
}

impl Wait {
    const READY: RangeInclusive<Self> = Self::Ready(0)..=Self::Ready(u64::MAX);
}

impl Shared {
    pub(super) fn new(broker: Broker) -> Self {
        let state = State {
            broker,
            waiting: BTreeMap::new(),
            next_number: 0,
            errands: VecDeque::new(),
            driver: Driver::Starting,
            is_closed: false,
            connect_error: None,
        };
        Self { state: Mutex::new(state), is_called: AtomicBool::new(true) }
    }

    /// A panic elsewhere must not become one in a destructor: what is poisoned is used on.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One section; it says whether the driver is wanted. Wakers are called when the lock is free, and whatever the
    /// section returns is dropped then too.
    fn section<R>(&self, section: impl FnOnce(&mut State, Instant) -> (R, bool)) -> R {
        let mut state = self.lock();
        let now = clock::now();
        let (result, is_driver_wanted) = section(&mut state, now);
        let woken = state.settle(now);
        let driver = match &state.driver {
            Driver::Running(waker) if is_driver_wanted || !state.errands.is_empty() => {
                (!self.is_called.swap(true, Ordering::AcqRel)).then(|| waker.clone())
            }
            Driver::Starting | Driver::Running(_) | Driver::Gone => None,
        };
        drop(state);
        woken.into_iter().chain(driver).for_each(Waker::wake);
        result
    }

    /// What the application wants of the broker.
    pub fn call<R>(&self, call: impl FnOnce(&mut Broker, Instant) -> R) -> R {
        self.section(|state, now| (call(&mut state.broker, now), true))
    }

    /// What the application wants to know of it.
    pub fn look<R>(&self, look: impl FnOnce(&Broker) -> R) -> R {
        self.section(|state, _| (look(&state.broker), false))
    }

    /// Whether some connection can carry requests, and the client is not closed.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.section(|state, _| (!state.is_closed && state.broker.is_ready(), false))
    }

    /// What the system said when a connection could not be made; `None` once one could.
    #[must_use]
    pub fn connect_error(&self) -> Option<Arc<str>> {
        self.lock().connect_error.clone()
    }

    /// A number that no other [`Wait`] has.
    pub(super) fn number(&self) -> u64 {
        let mut state = self.lock();
        state.next_number += 1;
        state.next_number
    }

    /// The caller's gate (`CA-7`): the outcome is judged when its caller comes for it.
    pub(super) fn poll_acquire(&self, cx: &Context<'_>, id: AcquireId) -> Poll<Result<Grant, AcquireError>> {
        self.poll(cx, Wait::Acquire(id), |state, now| {
            let outcome = state.broker.claim(now, id);
            // A grant that is refused at the gate is to be released.
            let is_driver_wanted = matches!(&outcome, Some(Err(_)));
            let outcome = outcome.or_else(|| state.is_alone().then_some(Err(AcquireError::Indeterminate)));
            (outcome, is_driver_wanted)
        })
    }

    /// The outcome of a release.
    pub(super) fn poll_release(
        &self,
        cx: &Context<'_>,
        id: ReleaseId,
    ) -> Poll<Result<Released, ReleaseError>> {
        self.poll(cx, Wait::Release(id), |state, now| {
            let outcome = state.broker.claim_release(id).or_else(|| {
                state.is_alone().then(|| {
                    state.broker.forget_release(now, id);
                    Err(ReleaseError::Unconfirmed)
                })
            });
            (outcome, false)
        })
    }

    /// Ready when requests can be carried; with `false` when they never will be again.
    pub(super) fn poll_ready(&self, cx: &Context<'_>, number: u64) -> Poll<bool> {
        self.poll(cx, Wait::Ready(number), |state, _| match state.is_closed {
            true => (Some(false), false),
            false => (state.broker.is_ready().then_some(true), false),
        })
    }

    /// Ready when the driver is gone, and its sockets with it.
    pub(super) fn poll_end(&self, cx: &Context<'_>, number: u64) -> Poll<()> {
        self.poll(cx, Wait::End(number), |state, _| (state.is_alone().then_some(()), false))
    }

    fn poll<R>(
        &self,
        cx: &Context<'_>,
        wait: Wait,
        claim: impl FnOnce(&mut State, Instant) -> (Option<R>, bool),
    ) -> Poll<R> {
        let waker = cx.waker().clone();
        let (outcome, _old) = self.section(|state, now| {
            let (outcome, is_driver_wanted) = claim(state, now);
            let old = match outcome {
                Some(_) => state.waiting.remove(&wait),
                None => state.waiting.insert(wait, waker),
            };
            ((outcome, old), is_driver_wanted)
        });
        outcome.map_or(Poll::Pending, Poll::Ready)
    }

    /// Nobody waits any more.
    pub(super) fn leave(&self, wait: Wait) {
        let _old = self.section(|state, now| {
            match wait {
                Wait::Acquire(id) => state.broker.cancel(now, id),
                Wait::Release(id) => state.broker.forget_release(now, id),
                Wait::Ready(_) | Wait::End(_) => {}
            }
            (state.waiting.remove(&wait), matches!(wait, Wait::Acquire(_)))
        });
    }

    /// Begins the end (`CC-6`).
    pub fn close(&self) {
        self.section(|state, now| {
            state.close(now);
            ((), true)
        });
    }

    /// What the driver has for the broker; what only the driver can do is appended to `errands`.
    pub fn drive<R>(&self, errands: &mut Vec<Event>, drive: impl FnOnce(&mut Broker, Instant) -> R) -> R {
        let mut state = self.lock();
        let now = clock::now();
        let result = drive(&mut state.broker, now);
        let woken = state.settle(now);
        errands.extend(state.errands.drain(..));
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        result
    }

    /// For the driver: whether it was called since it last asked.
    #[must_use]
    pub fn take_call(&self) -> bool {
        self.is_called.swap(false, Ordering::AcqRel)
    }

    /// For the driver: it has not done all that there is.
    pub fn call_again(&self) {
        self.is_called.store(true, Ordering::Release);
    }

    /// For the driver: who is woken by calls from now on.
    pub fn register_driver(&self, waker: Waker) {
        let old = mem::replace(&mut self.lock().driver, Driver::Running(waker));
        drop(old);
    }

    /// For the driver: what the system said when a connection could not be made, or that one was.
    pub(super) fn note_connect_error(&self, error: Option<Arc<str>>) {
        self.lock().connect_error = error;
    }

    /// The driver is gone, and with it all that could be sent or received. To be called however it ends: nobody
    /// is to wait for it then.
    pub fn abandon(&self) {
        let (_driver, waiting) = self.section(|state, now| {
            state.close(now);
            let driver = mem::replace(&mut state.driver, Driver::Gone);
            ((driver, mem::take(&mut state.waiting)), false)
        });
        waiting.into_values().for_each(Waker::wake);
    }
}

impl State {
    fn is_alone(&self) -> bool {
        matches!(self.driver, Driver::Gone)
    }

    fn close(&mut self, now: Instant) {
        self.broker.close(now);
        self.is_closed = true;
    }

    /// Who waits for something that has come is to be woken; the rest of what has come is the driver's.
    fn settle(&mut self, now: Instant) -> Vec<Waker> {
        let mut woken = Vec::new();
        if self.is_alone() {
            // Nobody else tells it the time: what can't be sent any more is to be counted.
            self.broker.handle_timeout(now);
        }
        let mut is_anybody_ready = self.is_closed;
        while let Some(event) = self.broker.poll_event() {
            match event {
                Event::AcquireSettled(id) => woken.extend(self.waiting.remove(&Wait::Acquire(id))),
                Event::ReleaseSettled(id) => woken.extend(self.waiting.remove(&Wait::Release(id))),
                Event::Ready => is_anybody_ready = true,
                _ if self.is_alone() => {}
                errand => self.errands.push_back(errand),
            }
        }
        if is_anybody_ready {
            while let Some((&wait, _)) = self.waiting.range(Wait::READY).next() {
                woken.extend(self.waiting.remove(&wait));
            }
        }
        woken
    }
}

/// What keeps a client going: when the last one is dropped, the client is closed.
#[derive(Debug)]
pub(super) struct Handle(Arc<Shared>);

impl Handle {
    /// The first handle.
    #[must_use]
    pub(super) const fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }
}

impl std::ops::Deref for Handle {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use ticketing_proto::client::BrokerConfig;

    use super::*;

    fn shared() -> Arc<Shared> {
        crate::client::start(BrokerConfig::new(["a:1"], 0)).expect("a good configuration")
    }

    /// C03: a panic elsewhere does not become one in a destructor.
    #[test]
    fn a_panic_inside_the_lock_leaves_it_usable() {
        let shared = shared();
        let panicking = || shared.call(|_, _| std::panic::resume_unwind(Box::new("a fault")));
        catch_unwind(AssertUnwindSafe(panicking)).expect_err("it panics");
        assert!(shared.state.is_poisoned());
        assert!(!shared.is_ready());
        drop(Handle::new(Arc::clone(&shared)));
        assert!(shared.lock().is_closed);
    }

    /// A future that was dropped leaves no waker behind, and one that is polled again leaves one.
    #[test]
    fn nothing_is_kept_of_those_who_left() {
        let shared = shared();
        let cx = Context::from_waker(Waker::noop());
        for number in [1, 2, 1] {
            assert_eq!(shared.poll_ready(&cx, number), Poll::Pending);
        }
        assert_eq!(shared.lock().waiting.len(), 2);
        shared.leave(Wait::Ready(1));
        shared.close();
        assert!(shared.lock().waiting.is_empty(), "the other one was woken");
        assert_eq!(shared.poll_ready(&cx, 2), Poll::Ready(false));
    }
}
