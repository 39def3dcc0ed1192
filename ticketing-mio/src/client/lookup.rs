//! Looking names up, where that may block.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use mio::Waker;
use ticketing_host::names::{self, MAX_LOOKUPS};
use ticketing_proto::id::ConnectionId;

/// Looks the addresses of a `host:port` up.
pub(super) type Resolver = Arc<Resolve>;
type Resolve = dyn Fn(&str) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// The lookups of one client. Each has a thread of its own, that nobody has to wait for, as a lookup can't be
/// stopped; so many run at once, others wait.
pub(super) struct Lookups {
    /// In place of the system's.
    resolver: Option<Resolver>,
    waker: Arc<Waker>,
    tell: Sender<Found>,
    told: Receiver<Found>,
    running: usize,
    waiting: VecDeque<(ConnectionId, Box<str>)>,
    /// What needs no lookup.
    known: VecDeque<(ConnectionId, SocketAddr)>,
}

/// What was found, and for which connection; that may be over.
pub(super) type Found = (ConnectionId, io::Result<Vec<SocketAddr>>);

impl Lookups {
    pub(super) fn new(resolver: Option<Resolver>, waker: Arc<Waker>) -> Self {
        let (tell, told) = channel();
        let (waiting, known) = (VecDeque::new(), VecDeque::new());
        Self { resolver, waker, tell, told, running: 0, waiting, known }
    }

    pub(super) fn begin(&mut self, id: ConnectionId, address: &str) {
        match address.parse() {
            Ok(address) if self.resolver.is_none() => self.known.push_back((id, address)),
            _ => self.waiting.push_back((id, address.into())),
        }
        self.start_some();
    }

    /// Nobody waits for it any more. One that runs goes on, and keeps its place.
    pub(super) fn forget(&mut self, id: ConnectionId) {
        self.waiting.retain(|&(waiting, _)| waiting != id);
    }

    pub(super) fn poll(&mut self) -> Option<Found> {
        if let Some((id, address)) = self.known.pop_front() {
            return Some((id, Ok(vec![address])));
        }
        let found = self.told.try_recv().ok()?;
        self.running -= 1;
        self.start_some();
        Some(found)
    }

    fn start_some(&mut self) {
        while self.running < MAX_LOOKUPS
            && let Some((id, address)) = self.waiting.pop_front()
        {
            self.running += 1;
            let answer = Answer { id, found: None, tell: self.tell.clone(), waker: Arc::clone(&self.waker) };
            let resolver = self.resolver.clone();
            let builder = thread::Builder::new().name("ticketing-lookup".into());
            // Without a thread the answer is dropped here, and tells that nothing was found.
            drop(builder.spawn(move || answer.look_up(resolver.as_deref(), &address)));
        }
    }
}

/// Tells what was found when it is dropped, however the lookup ends.
struct Answer {
    id: ConnectionId,
    found: Option<io::Result<Vec<SocketAddr>>>,
    tell: Sender<Found>,
    waker: Arc<Waker>,
}

impl Answer {
    fn look_up(mut self, resolver: Option<&Resolve>, address: &str) {
        self.found = Some(resolver.map_or_else(|| names::look_up(address), |resolver| resolver(address)));
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        let found =
            self.found.take().unwrap_or_else(|| Err(io::Error::other("the lookup could not be made")));
        // If nobody waits for it any more, nobody has to know.
        let _ = self.tell.send((self.id, found));
        let _ = self.waker.wake();
    }
}
