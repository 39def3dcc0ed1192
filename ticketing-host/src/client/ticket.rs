//! A lock that is held, and the futures that end in one or give one back.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use ticketing_proto::client::{
    AcquireError, AcquireId, AcquireOptions, Grant, ReleaseError, ReleaseId, Released,
};
use ticketing_proto::id::Token;
use ticketing_proto::time::Instant;

use super::shared::{Handle, Wait};
use crate::clock;

/// A lock that is held, at least until [`valid_until`](Self::valid_until).
///
/// Give it back with [`release`](Self::release), which tells what became of it. A ticket that is dropped is
/// released too, in the background and without a word (`CR-3`): dropping it never blocks and never panics, on
/// whatever thread, inside or outside of a runtime, and also after the runtime is gone; if then nobody is left to
/// send the release, the lease is the net. A ticket keeps its client's connections open.
#[must_use = "a ticket that is dropped is released"]
pub struct Ticket {
    handle: Arc<Handle>,
    grant: Grant,
    is_released: bool,
}

impl Ticket {
    /// Which lock.
    #[must_use]
    pub fn key(&self) -> &str {
        self.grant.key.as_str()
    }

    /// The fencing token (`FI-6`): hand it to whatever the lock protects, and let that refuse lower ones.
    #[must_use]
    pub const fn token(&self) -> Token {
        self.grant.token
    }

    /// Until when the client can vouch for the hold (`CD-3`), by the clock that [`now`](clock::now) shows.
    ///
    /// It is counted from just before the request was sent, less 0.1 % of the lease. It is exact for as long as
    /// the server's clock is not faster than this host's by more than 1000 ppm. Where that clock is one of the
    /// whole host (see [`now`](clock::now)), other processes of the host may be told this instant.
    #[must_use]
    pub const fn valid_until(&self) -> Instant {
        self.grant.valid_until
    }

    /// The same as a date: an estimate for people and logs. It goes wrong whenever the system's date is set, so
    /// nothing should be decided by it.
    #[must_use]
    pub fn valid_until_estimate(&self) -> SystemTime {
        let (now, date) = (clock::now(), SystemTime::now());
        date + self.grant.valid_until.saturating_since(now) - now.saturating_since(self.grant.valid_until)
    }

    /// How much of the lease the client can still vouch for, by the clock that goes on while the host sleeps
    /// (`CD-5`); zero when it is over. It is what to look at before each step that needs the lock. That a process
    /// can be paused right after it looked is what the fencing [`token`](Self::token) is for.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.grant.valid_until.saturating_since(clock::now())
    }

    /// Gives the lock back. The release is under way from this call on, also if the future is never polled.
    ///
    /// # Errors
    /// [`ReleaseError::Unconfirmed`] when 5 s brought no answer (`CR-1`): the lease bounds the hold.
    pub fn release(mut self) -> Releasing {
        self.is_released = true;
        let Grant { key, token, .. } = &self.grant;
        let id = self.handle.call(|broker, now| broker.release(now, key, *token));
        Releasing { handle: Arc::clone(&self.handle), id: Some(id) }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.is_released {
            let Grant { key, token, .. } = &self.grant;
            self.handle.call(|broker, now| broker.discard(now, key.clone(), *token));
        }
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("key", &self.key())
            .field("token", &self.token())
            .field("remaining", &self.remaining())
            .finish()
    }
}

/// An acquire under way: what `Client::acquire` gives. Dropping it cancels (`CA-11`): a grant that comes
/// all the same is released at once.
#[must_use = "an acquire is cancelled when its future is dropped"]
pub struct Acquiring {
    handle: Arc<Handle>,
    state: State,
}

enum State {
    /// Nothing was sent.
    Refused(AcquireError),
    Waiting(AcquireId),
    Over,
}

impl Acquiring {
    /// Begins an acquire. One that may not wait for a place in flight (`CC-5`) is refused instead.
    pub(super) fn begin(handle: &Arc<Handle>, key: &str, options: AcquireOptions, may_wait: bool) -> Self {
        let begun = handle.call(|broker, now| match may_wait {
            true => broker.acquire(now, key, options),
            false => broker.try_acquire(now, key, options),
        });
        let state = begun.map_or_else(State::Refused, State::Waiting);
        Self { handle: Arc::clone(handle), state }
    }
}

impl Future for Acquiring {
    type Output = Result<Ticket, AcquireError>;

    /// # Panics
    /// When it is polled after it was ready.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = match std::mem::replace(&mut self.state, State::Over) {
            State::Refused(error) => Err(error),
            State::Waiting(id) => match self.handle.poll_acquire(cx, id) {
                Poll::Ready(outcome) => outcome,
                Poll::Pending => {
                    self.state = State::Waiting(id);
                    return Poll::Pending;
                }
            },
            State::Over => panic!("the acquire was polled after it was ready"),
        };
        let handle = Arc::clone(&self.handle);
        Poll::Ready(outcome.map(|grant| Ticket { handle, grant, is_released: false }))
    }
}

impl Drop for Acquiring {
    fn drop(&mut self) {
        if let State::Waiting(id) = self.state {
            self.handle.leave(Wait::Acquire(id));
        }
    }
}

impl fmt::Debug for Acquiring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquiring").finish_non_exhaustive()
    }
}

/// A release under way: what [`Ticket::release`] gives. Dropping it does not stop the release: it goes on without
/// anybody waiting for it.
#[must_use = "only the outcome tells whether the release was confirmed"]
pub struct Releasing {
    handle: Arc<Handle>,
    id: Option<ReleaseId>,
}

impl Future for Releasing {
    type Output = Result<Released, ReleaseError>;

    /// # Panics
    /// When it is polled after it was ready.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let id = self.id.expect("a future is not polled after it was ready");
        let outcome = self.handle.poll_release(cx, id);
        if outcome.is_ready() {
            self.id = None;
        }
        outcome
    }
}

impl Drop for Releasing {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.handle.leave(Wait::Release(id));
        }
    }
}

impl fmt::Debug for Releasing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Releasing").finish_non_exhaustive()
    }
}
