//! What a server's tasks share: the hub behind its lock, the clock, and whom to wake.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::thread;

use ticketing_proto::id::{ConnectionId, Token};
use ticketing_proto::server::{Connection, Hub};
use ticketing_proto::time::Instant;
use ticketing_proto::tls::ServerTls;
use ticketing_proto::wire::auth::Secret;

use super::log::Log;
use crate::runtime::Signal;
use crate::sync::{AtomicBool, Mutex, MutexGuard};

/// The clock that the core is told: monotonic (`OP-11`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    origin: std::time::Instant,
}

impl Clock {
    pub(super) fn new() -> Self {
        Self { origin: std::time::Instant::now() }
    }

    pub(super) fn now(self) -> Instant {
        Instant::from_origin(self.origin.elapsed())
    }
}

pub(super) struct Shared {
    pub(super) clock: Clock,
    pub(super) log: Log,
    core: Mutex<Core>,
    /// The connections are to end at once.
    is_cut: AtomicBool,
    /// The earliest deadline of the hub has moved forward.
    pub(super) deadline_moved: Signal,
    /// There are fewer tokens left than the low-water mark.
    pub(super) tokens_low: Signal,
    /// For `serve`: the shutdown has begun, the last connection has ended, or the hub is broken.
    pub(super) news: Signal,
}

struct Core {
    hub: Hub,
    wakers: BTreeMap<ConnectionId, Waker>,
    /// What the task for the hub's deadlines sleeps until. It may be earlier than the earliest deadline, so that
    /// that task is not woken whenever a deadline goes.
    armed: Option<Instant>,
    low_water: u64,
}

impl Shared {
    /// `low_water` is the number of tokens below which [`tokens_low`](Self::tokens_low) is told.
    pub(super) fn new(clock: Clock, hub: Hub, low_water: u64) -> Self {
        Self {
            clock,
            log: Log::new(),
            core: Mutex::new(Core { hub, wakers: BTreeMap::new(), armed: None, low_water }),
            is_cut: AtomicBool::new(false),
            deadline_moved: Signal::default(),
            tokens_low: Signal::default(),
            news: Signal::default(),
        }
    }

    /// Calls the hub, then wakes whom that concerns. The lock is held for the call alone.
    ///
    /// # Panics
    /// If a call on the hub has panicked before: its state is undefined then.
    pub(super) fn call<R>(&self, call: impl FnOnce(&mut Hub) -> R) -> R {
        self.with_core(|core| call(&mut core.hub))
    }

    /// Has `waker` woken when there is something for the connection.
    pub(super) fn register(&self, id: ConnectionId, waker: Waker) {
        self.with_core(|core| core.wakers.insert(id, waker));
    }

    /// A connection is no more.
    pub(super) fn end(&self, connection: Connection) {
        if self.is_broken() {
            return;
        }
        let now = self.clock.now();
        let is_news = self.with_core(|core| {
            core.wakers.remove(&connection.id());
            core.hub.disconnect(now, connection);
            core.hub.is_shutting_down() && core.hub.connections() == 0
        });
        if is_news {
            self.news.tell();
        }
    }

    /// Does a bounded part of what is due of the hub, and gives the next deadline.
    pub(super) fn handle_timeout(&self) -> Option<Instant> {
        let now = self.clock.now();
        self.with_core(|core| {
            if core.hub.poll_timeout().is_some_and(|deadline| deadline <= now) {
                core.hub.handle_timeout(now);
            }
            core.armed = core.hub.poll_timeout();
            core.armed
        })
    }

    /// How many tokens are left, if that is below the low-water mark.
    pub(super) fn low_tokens(&self) -> Option<u64> {
        self.with_core(|core| Some(core.hub.tokens_left()).filter(|&left| left < core.low_water))
    }

    /// Allows tokens up to this one. Whether there are more now.
    pub(super) fn extend_tokens(&self, last: Token) -> bool {
        self.call(|hub| {
            let before = hub.tokens_left();
            hub.extend_tokens(last);
            hub.tokens_left() > before
        })
    }

    /// Begins to shut down; the second time ends all connections at once.
    pub(super) fn shut_down(&self) {
        if self.is_broken() {
            return;
        }
        let now = self.clock.now();
        let is_second = self.call(|hub| {
            hub.is_shutting_down() || {
                hub.shut_down(now);
                false
            }
        });
        if is_second {
            self.cut();
        }
        self.news.tell();
    }

    /// What connections that are accepted from now on get.
    pub(super) fn reload(&self, tls: Option<ServerTls>, secret: Secret) {
        if self.is_broken() {
            return;
        }
        self.call(|hub| {
            hub.set_tls(tls);
            hub.set_secret(secret);
        });
    }

    pub(super) fn is_shutting_down(&self) -> bool {
        self.call(|hub| hub.is_shutting_down())
    }

    pub(super) fn is_drained(&self) -> bool {
        self.call(|hub| hub.connections() == 0)
    }

    /// Ends all connections at once.
    pub(super) fn cut(&self) {
        self.is_cut.store(true, Ordering::Release);
        // The wakers are in order even where the hub is not.
        let core = self.core.lock().unwrap_or_else(PoisonError::into_inner);
        let wakers: Vec<Waker> = core.wakers.values().cloned().collect();
        drop(core);
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(super) fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::Acquire)
    }

    /// Whether a call on the hub has panicked.
    pub(super) fn is_broken(&self) -> bool {
        self.core.is_poisoned()
    }

    fn with_core<R>(&self, call: impl FnOnce(&mut Core) -> R) -> R {
        // Dropped after the lock, which is poisoned then.
        let _tell = TellOfPanic(&self.news);
        let mut core = self.lock();
        let result = call(&mut core);
        let wakers = core.poll_wakers();
        let is_earlier = core.arm();
        let is_low = core.hub.tokens_left() < core.low_water;
        drop(core);
        wakers.into_iter().for_each(Waker::wake);
        if is_earlier {
            self.deadline_moved.tell();
        }
        if is_low {
            self.tokens_low.tell();
        }
        result
    }

    fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().expect("no call on the hub panics")
    }
}

/// Tells of a panic, whichever task it ends: the server must not go on as if it could still serve.
struct TellOfPanic<'a>(&'a Signal);

impl Drop for TellOfPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.tell();
        }
    }
}

impl Core {
    /// The wakers of those that have mail. One that has none yet looks for itself when it begins.
    fn poll_wakers(&mut self) -> Vec<Waker> {
        let Self { hub, wakers, .. } = self;
        let mut woken = Vec::new();
        while let Some(id) = hub.poll_mail() {
            woken.extend(wakers.get(&id).cloned());
        }
        woken
    }

    /// Whether the hub's task sleeps for too long.
    fn arm(&mut self) -> bool {
        let Some(deadline) = self.hub.poll_timeout() else { return false };
        let is_earlier = self.armed.is_none_or(|armed| deadline < armed);
        if is_earlier {
            self.armed = Some(deadline);
        }
        is_earlier
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("is_cut", &self.is_cut()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::task::Context;

    use ticketing_proto::wire::auth::Secret;

    use super::*;
    use crate::server::{ServerConfig, fresh_tokens};

    #[test]
    fn a_panic_of_the_hub_is_told_though_no_connection_ends_of_it() {
        let config = ServerConfig::new(Secret::default(), fresh_tokens().unwrap());
        let clock = Clock::new();
        let hub = Hub::new(clock.now(), config.into_parts().unwrap().0).unwrap();
        let shared = Shared::new(clock, hub, 0);
        let is_told = || shared.news.poll(&Context::from_waker(Waker::noop())).is_ready();

        shared.call(|hub| hub.handle_timeout(clock.now()));
        assert!(!is_told() && !shared.is_broken());
        let panic = catch_unwind(AssertUnwindSafe(|| shared.call(|_| panic!("on purpose"))));
        assert!(panic.is_err());
        assert!(is_told() && shared.is_broken());
        // The next one to find it so must not stop the others from hearing of it.
        shared.shut_down();
        shared.cut();
        assert!(shared.is_cut());
    }
}
