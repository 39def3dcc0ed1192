//! The server's side: one peer ([`Connection`]), what all peers of a node share ([`Hub`]), and both together
//! for whoever owns a single loop ([`Server`]).

mod close;
mod connection;
mod delivery;
mod hub;
mod mail;
mod outbox;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use crate::id::{ConnectionId, Token};
use crate::limits::ZeroLimit;
use crate::lock::Usage;
use crate::time::Instant;
use crate::tls::ServerTls;
use crate::wire::auth::{NONCE_LEN, Secret};

pub use close::{CloseReason, Farewell, TimeoutReason};
pub use connection::{Connection, Opened};
pub use delivery::Replies;
pub use hub::{Hub, Refused, ServerConfig};

/// How many connections' timeouts one call of [`Server::handle_timeout`] handles at most.
const TIMEOUTS_PER_CALL: usize = 1024;

/// What a [`Server`] asks of the loop that owns it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ServerEvent {
    /// There is something to send: [`Server::poll_transmit`] until it gives nothing or the transport is full,
    /// and then again whenever the transport can take more. Not said again before all is sent.
    Transmit(ConnectionId),
    /// Stop reading: too much is owed (`AD-5`), or the stream has ended.
    PauseRead(ConnectionId),
    /// Read again.
    ResumeRead(ConnectionId),
    /// Shut down writing (`TR-9`), and go on reading until [`Close`](Self::Close).
    ShutdownWrite(ConnectionId),
    /// Close the transport. The server knows the connection no more.
    Close {
        /// Which one.
        connection: ConnectionId,
        /// Why, for logs.
        reason: CloseReason,
    },
}

/// What a server's next timeout is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ServerTimeoutReason {
    /// A lease, a wait, or the sweep.
    Table,
    /// One of a connection's own.
    Connection {
        /// Which one.
        connection: ConnectionId,
        /// What it waits for.
        reason: TimeoutReason,
    },
}

/// A node's table and all its connections, for a single loop.
///
/// One input, then drain [`poll_event`](Self::poll_event), look at [`poll_timeout`](Self::poll_timeout), and
/// wait. Breaking that order may waste work and is never wrong, but for one rule: the transport takes bytes
/// only of the latest [`poll_transmit`](Self::poll_transmit) for its connection, and what it took is reported
/// before the next call of anything else.
///
/// A connection that the server no longer knows is no error: whatever is said of it is ignored. A time before
/// the latest one seen is taken for that one.
#[derive(Debug)]
pub struct Server {
    hub: Hub,
    peers: BTreeMap<ConnectionId, Box<Peer>>,
    /// The timeouts of all connections that have one.
    deadlines: BTreeSet<(Instant, ConnectionId)>,
    events: VecDeque<ServerEvent>,
}

#[derive(Debug)]
struct Peer {
    connection: Connection,
    /// As it stands in `deadlines`.
    deadline: Option<Instant>,
    /// The loop has been told to send, and has not sent all.
    is_sending: bool,
    /// The loop reads.
    is_reading: bool,
}

impl Server {
    /// A server without connections and holds.
    ///
    /// # Errors
    /// [`ZeroLimit`] if one of the limits is 0.
    pub fn new(now: Instant, config: ServerConfig) -> Result<Self, ZeroLimit> {
        Ok(Self {
            hub: Hub::new(now, config)?,
            peers: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            events: VecDeque::new(),
        })
    }

    /// A connection was accepted. `nonce` is 32 bytes from the system's secure random source that are never
    /// used again (`AU-6`). Reading starts at once.
    ///
    /// # Errors
    /// [`Refused`]: close it.
    pub fn accept(&mut self, now: Instant, nonce: [u8; NONCE_LEN]) -> Result<ConnectionId, Refused> {
        let connection = self.hub.accept(now, nonce)?;
        let id = connection.id();
        let peer = Peer { connection, deadline: None, is_sending: false, is_reading: true };
        self.peers.insert(id, Box::new(peer));
        self.publish(now, id);
        Ok(id)
    }

    /// Bytes from a peer. Costs time in proportion to them: read at most
    /// [`READ_BUFFER_LEN`](crate::limits::READ_BUFFER_LEN) at once.
    pub fn handle_data(&mut self, now: Instant, id: ConnectionId, data: &[u8]) {
        self.with(now, id, |hub, connection| hub.receive(now, connection, data));
    }

    /// A peer's stream has ended (`TR-10`).
    pub fn handle_eof(&mut self, now: Instant, id: ConnectionId) {
        self.with(now, id, |hub, connection| hub.receive_eof(now, connection));
    }

    /// A transport was reset or has failed, be it in reading or in writing (`OP-7`).
    pub fn handle_disconnected(&mut self, now: Instant, id: ConnectionId) {
        self.with(now, id, |_, connection| connection.handle_disconnected(now));
    }

    /// Appends the next of what a peer is owed, at most [`MAX_BATCH`](crate::limits::MAX_BATCH) frames of it
    /// (`FR-11`). Whether there was any. See [`Connection::poll_transmit`].
    #[must_use]
    pub fn poll_transmit(&mut self, id: ConnectionId, out: &mut Vec<u8>) -> bool {
        self.peers.get_mut(&id).is_some_and(|peer| peer.connection.poll_transmit(out))
    }

    /// The transport took the first `len` bytes of the latest [`poll_transmit`](Self::poll_transmit), and none
    /// of the others.
    pub fn handle_transmitted(&mut self, now: Instant, id: ConnectionId, len: usize) {
        self.with(now, id, |hub, connection| {
            connection.handle_transmitted(now, len);
            if connection.wants_attention() {
                hub.attend(now, connection);
            }
        });
    }

    /// Whether a connection shall be read (`AD-5`).
    #[must_use]
    pub fn wants_read(&self, id: ConnectionId) -> bool {
        self.peers.get(&id).is_some_and(|peer| peer.connection.wants_read())
    }

    /// The next thing to do for the loop.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<ServerEvent> {
        self.events.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called; `None` while there is nothing to wait for.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let connections = self.deadlines.first().map(|&(deadline, _)| deadline);
        self.hub.poll_timeout().into_iter().chain(connections).min()
    }

    /// What [`poll_timeout`](Self::poll_timeout) is for.
    #[must_use]
    pub fn timeout_reason(&self) -> Option<ServerTimeoutReason> {
        let table = self.hub.poll_timeout();
        match self.deadlines.first() {
            Some(&(deadline, id)) if table.is_none_or(|table| deadline < table) => {
                let reason = self.peers.get(&id)?.connection.timeout_reason()?;
                Some(ServerTimeoutReason::Connection { connection: id, reason })
            }
            _ => table.map(|_| ServerTimeoutReason::Table),
        }
    }

    /// Does what is due at `now`. Bounded; while more is due, [`poll_timeout`](Self::poll_timeout) is not later
    /// than `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.hub.handle_timeout(now);
        self.deliver_mail(now);
        for _ in 0..TIMEOUTS_PER_CALL {
            match self.deadlines.first() {
                Some(&(deadline, id)) if deadline <= now => {
                    self.with(now, id, |hub, connection| hub.attend(now, connection));
                }
                _ => break,
            }
        }
    }

    /// Connections that are accepted from now on are inside TLS with this certificate, or without TLS. Those that
    /// exist live on.
    pub fn set_tls(&mut self, tls: Option<ServerTls>) {
        self.hub.set_tls(tls);
    }

    /// Connections that are accepted from now on must know this secret. Those that exist live on, also those that
    /// are not authenticated yet.
    pub fn set_secret(&mut self, secret: Secret) {
        self.hub.set_secret(secret);
    }

    /// Begins to shut down (`TR-8`). It is over when the server [is drained](Self::is_drained): within 5 s of
    /// flushing and 1 s of lingering.
    pub fn shut_down(&mut self, now: Instant) {
        self.hub.shut_down(now);
        self.deliver_mail(now);
    }

    /// Whether no connection is left.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.peers.is_empty()
    }

    /// How many connections there are, those included that are about to end.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.hub.connections()
    }

    /// How many connections are not authenticated (`AU-8`).
    #[must_use]
    pub const fn unauthenticated(&self) -> usize {
        self.hub.unauthenticated()
    }

    /// How full the table is.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.hub.usage()
    }

    /// Allows tokens up to this one. It never takes tokens back.
    pub fn extend_tokens(&mut self, last: Token) {
        self.hub.extend_tokens(last);
    }

    /// How many tokens may still be given (`FI-6`).
    #[must_use]
    pub fn tokens_left(&self) -> u64 {
        self.hub.tokens_left()
    }

    /// Does something with one connection, then what follows for it and for the others.
    fn with(&mut self, now: Instant, id: ConnectionId, act: impl FnOnce(&mut Hub, &mut Connection)) {
        if let Some(peer) = self.peers.get_mut(&id) {
            act(&mut self.hub, &mut peer.connection);
            self.publish(now, id);
            self.deliver_mail(now);
        }
    }

    fn deliver_mail(&mut self, now: Instant) {
        while let Some(id) = self.hub.poll_mail() {
            if let Some(peer) = self.peers.get_mut(&id) {
                self.hub.attend(now, &mut peer.connection);
                self.publish(now, id);
            }
        }
    }

    /// Tells the loop what is new with a connection.
    fn publish(&mut self, now: Instant, id: ConnectionId) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let Peer { connection, deadline, is_sending, is_reading } = &mut **peer;
        let has_output = connection.wants_transmit();
        if has_output && !*is_sending {
            self.events.push_back(ServerEvent::Transmit(id));
        }
        *is_sending = has_output;
        if connection.wants_read() != *is_reading && !connection.is_closed() {
            *is_reading = !*is_reading;
            self.events.push_back(if *is_reading {
                ServerEvent::ResumeRead(id)
            } else {
                ServerEvent::PauseRead(id)
            });
        }
        if connection.poll_shutdown_write() {
            self.events.push_back(ServerEvent::ShutdownWrite(id));
        }
        let next = connection.poll_timeout();
        if next != *deadline {
            if let Some(old) = core::mem::replace(deadline, next) {
                self.deadlines.remove(&(old, id));
            }
            if let Some(next) = next {
                self.deadlines.insert((next, id));
            }
        }
        if connection.is_closed()
            && let Some(peer) = self.peers.remove(&id)
        {
            let reason = peer.connection.close_reason().unwrap_or(CloseReason::Disconnected);
            self.hub.disconnect(now, peer.connection);
            self.events.push_back(ServerEvent::Close { connection: id, reason });
        }
    }
}
