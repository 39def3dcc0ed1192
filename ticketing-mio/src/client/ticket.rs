//! A lock that is held, and what is under way to it and from it.

use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use ticketing_host::client as host;
use ticketing_proto::client::{AcquireError, ReleaseError, Released};

use super::block::block_on;

/// A lock that is held: a [`host::Ticket`] whose [`release`](Self::release) blocks.
///
/// A ticket that is dropped is released too, in the background and without a word (`CR-3`): dropping it never
/// blocks and never panics, on whatever thread. A ticket keeps its client's connections open.
#[derive(Debug)]
#[must_use = "a ticket that is dropped is released"]
pub struct Ticket(host::Ticket);

impl Ticket {
    /// Gives the lock back, and blocks until that is confirmed.
    ///
    /// # Errors
    /// [`ReleaseError::Unconfirmed`] when 5 s brought no answer (`CR-1`): the lease bounds the hold.
    pub fn release(self) -> Result<Released, ReleaseError> {
        self.begin_release().wait()
    }

    /// Begins to give the lock back, and does not block.
    pub fn begin_release(self) -> Releasing {
        Releasing(self.0.release())
    }
}

impl Deref for Ticket {
    type Target = host::Ticket;

    fn deref(&self) -> &host::Ticket {
        &self.0
    }
}

/// An acquire under way. Dropping it cancels (`CA-11`): a grant that comes all the same is released at once.
///
/// It is a future, too, of any executor.
#[derive(Debug)]
#[must_use = "an acquire that is dropped is cancelled"]
pub struct Acquiring(pub(super) host::Acquiring);

impl Acquiring {
    /// The outcome, once, as soon as there is one. It does not block: in a loop that the client is [embedded
    /// in](super::ClientBuilder::embed), ask after each turn.
    ///
    /// # Panics
    /// When it is asked again after it has given the outcome.
    pub fn claim(&mut self) -> Option<Result<Ticket, AcquireError>> {
        claim(self)
    }

    /// Blocks until there is an outcome.
    ///
    /// # Errors
    /// [`AcquireError`], which says whether it is certain that nothing is held.
    pub fn wait(self) -> Result<Ticket, AcquireError> {
        block_on(self)
    }
}

impl Future for Acquiring {
    type Output = Result<Ticket, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map_ok(Ticket)
    }
}

/// A release under way. Dropping it does not stop the release: it goes on without anybody waiting for it.
///
/// It is a future, too, of any executor.
#[derive(Debug)]
#[must_use = "only the outcome tells whether the release was confirmed"]
pub struct Releasing(host::Releasing);

impl Releasing {
    /// The outcome, once, as soon as there is one. It does not block.
    ///
    /// # Panics
    /// When it is asked again after it has given the outcome.
    pub fn claim(&mut self) -> Option<Result<Released, ReleaseError>> {
        claim(self)
    }

    /// Blocks until there is an outcome.
    ///
    /// # Errors
    /// [`ReleaseError::Unconfirmed`] when 5 s brought no answer (`CR-1`): the lease bounds the hold.
    pub fn wait(self) -> Result<Released, ReleaseError> {
        block_on(self)
    }
}

impl Future for Releasing {
    type Output = Result<Released, ReleaseError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context)
    }
}

/// What a future has now, without anybody to be woken for it.
fn claim<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    match Pin::new(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => Some(outcome),
        Poll::Pending => None,
    }
}
