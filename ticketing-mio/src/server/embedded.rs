//! The server's loop, one turn at a time.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mio::event::Event;
use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token, Waker};
use ticketing_host::server::{Log, fresh_nonce};
use ticketing_host::socket::{self, ACCEPT_PAUSE, ACCEPTS_PER_TURN};
use ticketing_proto::limits::READ_BUFFER_LEN;
use ticketing_proto::lock::Usage;
use ticketing_proto::server::{CloseReason, Server as Core, ServerEvent};
use ticketing_proto::time::Instant;

use super::peers::{Peer, Peers};
use super::refill::Refill;
use super::{Calls, Clock, Server};
use crate::poll::FULL_OR_EMPTY_AFTER_PART;

/// How often a connection is read before others have their turn.
const READS_PER_TURN: usize = 4;

/// A server in somebody else's loop, see [`Server::embed`].
///
/// After each poll: [`handle_event`](Self::handle_event) for its events, then one [`turn`](Self::turn); and the next
/// poll lasts no longer than [`next_timeout`](Self::next_timeout). A turn does a bounded amount of work; what is more
/// waits for the next one, and the timeout is zero then. Dropping it ends all connections at once.
///
/// ```no_run
/// # use std::{io, sync::Arc};
/// # use mio::{Events, Poll, Token, Waker};
/// # fn example(server: ticketing_mio::Server) -> io::Result<()> {
/// let mut poll = Poll::new()?;
/// let waker = Arc::new(Waker::new(poll.registry(), Token(0))?);
/// let mut server = server.embed(poll.registry(), 1..20_000, waker)?;
/// let mut events = Events::with_capacity(1024);
/// while !server.is_over() {
///     poll.poll(&mut events, server.next_timeout())?;
///     for event in &events {
///         server.handle_event(event); // and whatever else this loop serves
///     }
///     server.turn();
/// }
/// # Ok(())
/// # }
/// ```
pub struct EmbeddedServer {
    clock: Clock,
    core: Core,
    log: Log,
    calls: Arc<Calls>,
    refill: Option<Refill>,
    registry: Registry,
    tokens: Range<usize>,
    /// Their tokens are the first of the range, those of connections follow.
    listeners: Vec<Listener>,
    /// How many there were when it began.
    first_place: usize,
    /// Nothing is accepted until then.
    accept_pause: Option<Instant>,
    peers: Peers,
    /// Places of connections to be read.
    readers: VecDeque<usize>,
    /// Places of connections to be written to.
    senders: VecDeque<usize>,
    input: Box<[u8; READ_BUFFER_LEN]>,
    output: Vec<u8>,
}

struct Listener {
    socket: TcpListener,
    is_ready: bool,
}

impl EmbeddedServer {
    pub(super) fn new(
        server: Server,
        registry: &Registry,
        tokens: Range<usize>,
        waker: Arc<Waker>,
    ) -> io::Result<Self> {
        let Server { listeners, addresses, clock, core, reserve, calls, .. } = server;
        let log = Log::new();
        log.serving(&addresses);
        // It was not set: a server is put into one loop only.
        let _ = calls.waker.set(Arc::clone(&waker));
        let refill = reserve.map(|reserve| Refill::start(reserve, waker)).transpose()?;
        let mut listeners: Vec<_> =
            listeners.into_iter().map(|socket| Listener { socket, is_ready: true }).collect();
        for (listener, token) in listeners.iter_mut().zip(tokens.clone()) {
            registry.register(&mut listener.socket, Token(token), Interest::READABLE)?;
        }
        Ok(Self {
            clock,
            core,
            log,
            calls,
            refill,
            registry: registry.try_clone()?,
            first_place: tokens.start + listeners.len(),
            tokens,
            listeners,
            accept_pause: None,
            peers: Peers::default(),
            readers: VecDeque::new(),
            senders: VecDeque::new(),
            input: Box::new([0; READ_BUFFER_LEN]),
            output: Vec::new(),
        })
    }

    /// Takes note of an event; the next [`turn`](Self::turn) acts on it. Events of others are ignored, and so are
    /// those that say what is not so.
    pub fn handle_event(&mut self, event: &Event) {
        let Token(token) = event.token();
        if !self.tokens.contains(&token) {
            return;
        }
        let Some(place) = token.checked_sub(self.first_place) else {
            if let Some(listener) = self.listeners.get_mut(token - self.tokens.start) {
                listener.is_ready = true;
            }
            return;
        };
        if let Some(peer) = self.peers.at(place) {
            peer.note(event);
            peer.queue_to_read(place, &mut self.readers);
            peer.queue_to_write(place, &mut self.senders);
        }
    }

    /// Accepts, reads, does what is due, and writes: for each connection a bounded part, so that a loud one starves
    /// nobody. To be called after the events of each poll, and at [`next_timeout`](Self::next_timeout).
    pub fn turn(&mut self) {
        self.heed_calls();
        self.accept();
        // Who has made room by reading is not blamed for a pause of this process (`AD-6`).
        self.send_all();
        for _ in 0..self.readers.len() {
            if let Some(place) = self.readers.pop_front() {
                self.receive(place);
            }
        }
        let now = self.clock.now();
        if self.core.poll_timeout().is_some_and(|at| at <= now) {
            self.core.handle_timeout(now);
        }
        self.refill = self.refill.take().and_then(|refill| refill.turn(now, &mut self.core, &self.log));
        // What one read brought goes out in one write.
        self.obey();
        self.send_all();
    }

    fn send_all(&mut self) {
        while let Some(place) = self.senders.pop_front() {
            self.send(place);
            self.obey();
        }
    }

    /// How long the next poll may last; `None` for as long as it likes.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Duration> {
        let now = self.clock.now();
        let has_guest = self.listeners.iter().any(|listener| listener.is_ready);
        let accept = has_guest.then_some(self.accept_pause.unwrap_or(now));
        let read = (!self.readers.is_empty()).then_some(now);
        let refill = self.refill.as_ref().and_then(Refill::next_timeout);
        let next = [self.core.poll_timeout(), accept, read, refill].into_iter().flatten().min();
        next.map(|at| at.saturating_since(now))
    }

    /// Whether it was [shut down](super::ShutdownHandle::shut_down), and the last connection has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.calls.stops.load(Ordering::Acquire) > 0 && self.listeners.is_empty() && self.core.is_drained()
    }

    /// How many connections there are, those included that are about to end.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.core.connections()
    }

    /// How full the table is.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.core.usage()
    }

    fn heed_calls(&mut self) {
        if let Some((tls, secret)) = self.calls.lock().take() {
            self.core.set_tls(tls);
            self.core.set_secret(secret);
        }
        let calls = self.calls.stops.load(Ordering::Acquire);
        if calls > 0 && !self.listeners.is_empty() {
            self.log.shutting_down();
            // The listening sockets close here.
            self.listeners.clear();
            self.core.shut_down(self.clock.now());
        }
        if calls > 1 {
            for id in self.peers.ids() {
                self.core.handle_disconnected(self.clock.now(), id);
            }
        }
    }

    fn accept(&mut self) {
        let now = self.clock.now();
        if self.accept_pause.is_some_and(|until| now < until) {
            return;
        }
        self.accept_pause = None;
        for at in 0..self.listeners.len() {
            for _ in 0..ACCEPTS_PER_TURN {
                let listener = &mut self.listeners[at];
                if !listener.is_ready {
                    break;
                }
                match listener.socket.accept() {
                    Ok((stream, address)) => self.admit(stream, address),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => listener.is_ready = false,
                    // The connection is at fault, not the listener.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => {
                        self.log.accept_failed(&error);
                        self.accept_pause = Some(now + ACCEPT_PAUSE);
                        return;
                    }
                }
            }
        }
    }

    /// Starts to serve a connection, or closes it.
    fn admit(&mut self, mut stream: TcpStream, address: SocketAddr) {
        let now = self.clock.now();
        let nonce = match fresh_nonce() {
            Ok(nonce) => nonce,
            Err(error) => return self.log.not_set_up(address, &error),
        };
        let id = match self.core.accept(now, nonce) {
            Ok(id) => id,
            Err(refused) => return self.log.refused(address, refused),
        };
        let token = Token(self.first_place + self.peers.next_place());
        let both = Interest::READABLE | Interest::WRITABLE;
        let set_up = socket::configure_accepted(&stream)
            .and_then(|()| self.registry.register(&mut stream, token, both));
        match set_up {
            Ok(()) => self.peers.insert(Peer::new(id, stream, address)),
            Err(error) => {
                self.log.not_set_up(address, &error);
                self.core.handle_disconnected(now, id);
            }
        }
    }

    /// Reads from a connection, a few times at most.
    fn receive(&mut self, place: usize) {
        let Self { clock, core, peers, readers, input, .. } = self;
        let Some(peer) = peers.at(place) else { return };
        peer.is_reader = false;
        for _ in 0..READS_PER_TURN {
            if !peer.is_readable || !core.wants_read(peer.id) {
                return;
            }
            match peer.stream.read(&mut input[..]) {
                Ok(0) => {
                    peer.is_readable = false;
                    core.handle_eof(clock.now(), peer.id);
                }
                Ok(len) => {
                    peer.is_readable = len == input.len() || peer.has_end || !FULL_OR_EMPTY_AFTER_PART;
                    core.handle_data(clock.now(), peer.id, &input[..len]);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => peer.is_readable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    peer.is_readable = false;
                    peer.error = Some(error);
                    core.handle_disconnected(clock.now(), peer.id);
                }
            }
        }
        peer.queue_to_read(place, readers);
    }

    /// Writes what a connection is owed, until nothing is or the transport is full. What is owed is bounded, and
    /// so is this (`AD-5`).
    fn send(&mut self, place: usize) {
        let Self { clock, core, peers, output, .. } = self;
        let Some(peer) = peers.at(place) else { return };
        peer.is_sender = false;
        while peer.is_writable {
            output.clear();
            peer.is_sending = core.poll_transmit(peer.id, output);
            if !peer.is_sending {
                return;
            }
            let written = peer.stream.write(output);
            let len = *written.as_ref().unwrap_or(&0);
            core.handle_transmitted(clock.now(), peer.id, len);
            match written {
                Ok(len) => peer.is_writable = len == output.len() || !FULL_OR_EMPTY_AFTER_PART,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => peer.is_writable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    peer.is_writable = false;
                    peer.error = Some(error);
                    core.handle_disconnected(clock.now(), peer.id);
                }
            }
        }
    }

    /// Does what the core asks for.
    fn obey(&mut self) {
        while let Some(event) = self.core.poll_event() {
            match event {
                ServerEvent::Transmit(id) => {
                    if let Some((place, peer)) = self.peers.of(id) {
                        peer.is_sending = true;
                        peer.queue_to_write(place, &mut self.senders);
                    }
                }
                ServerEvent::ResumeRead(id) => {
                    if let Some((place, peer)) = self.peers.of(id) {
                        peer.queue_to_read(place, &mut self.readers);
                    }
                }
                ServerEvent::ShutdownWrite(id) => {
                    if let Some((_, peer)) = self.peers.of(id) {
                        // A connection that can't be shut down any more is over, and reading will tell.
                        let _ = peer.stream.shutdown(Shutdown::Write);
                    }
                }
                ServerEvent::Close { connection, reason } => {
                    if let Some(mut peer) = self.peers.remove(connection) {
                        self.log.ended(peer.address, Some(reason), peer.error.as_ref());
                        if reason == CloseReason::WriteStalled {
                            // If this fails the connection is gone, too, only later.
                            let _ = socket::reset_at_close(&peer.stream);
                        }
                        // It closes here, be it registered or not.
                        let _ = self.registry.deregister(&mut peer.stream);
                    }
                }
                _ => {}
            }
        }
    }
}

impl fmt::Debug for EmbeddedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedServer").field("connections", &self.connections()).finish_non_exhaustive()
    }
}
