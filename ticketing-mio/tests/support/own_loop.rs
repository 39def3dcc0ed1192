//! A loop that is not the adapter's.

use std::sync::Arc;

use mio::{Events, Poll, Token, Waker};

pub(crate) struct Loop {
    pub(crate) poll: Poll,
    pub(crate) events: Events,
    pub(crate) waker: Arc<Waker>,
}

impl Loop {
    /// One that takes few events at a time.
    pub(crate) fn new() -> Self {
        let poll = Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), Token(0)).unwrap());
        Self { poll, events: Events::with_capacity(8), waker }
    }
}
