//! A server with sockets made of buffers, in virtual time: what a single loop would do, exactly.

use std::collections::BTreeMap;
use std::time::Duration;

use ticketing_proto::id::{ConnectionId, Owner, Token};
use ticketing_proto::key::KeyRef;
use ticketing_proto::limits::{Lease, Limits, READ_BUFFER_LEN, Wait};
use ticketing_proto::lock::TokenRange;
use ticketing_proto::server::{
    CloseReason, Refused, Server, ServerConfig, ServerEvent, ServerTimeoutReason, TimeoutReason,
};
use ticketing_proto::time::Instant;
use ticketing_proto::wire::auth::{self, Secret};
use ticketing_proto::wire::{Acquire, Reason, Release, Reply, Request};

pub(crate) use ticketing_proto::id::ConnectionId as Id;

/// Far away from the origin, so that nothing works only there.
pub(crate) const START: Instant = Instant::from_origin(Duration::from_secs(1_000_000));

pub(crate) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub(crate) const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn token(value: u64) -> Token {
    Token::new(value).expect("a token is not 0")
}

/// The bytes of an acquire.
pub(crate) fn acquire(wait: u8, lease: u8, owner: u64, key: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    Request::Acquire(Acquire {
        wait: Wait::from_secs(wait),
        lease: Lease::from_secs(lease).expect("a lease"),
        owner: Owner::new(owner).expect("an owner"),
        key: KeyRef::new(key.as_bytes()).expect("a key"),
    })
    .encode(&mut bytes);
    bytes
}

/// The bytes of a release.
pub(crate) fn release(token: u64, key: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let key = KeyRef::new(key.as_bytes()).expect("a key");
    Request::Release(Release { token, key }).encode(&mut bytes);
    bytes
}

/// Any frame: op, header and body as they are.
pub(crate) fn frame(op: u8, header: &[u8], body: &[u8]) -> Vec<u8> {
    [&[op], header, body, b"\n"].concat()
}

fn encoded(reply: &Reply<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    reply.encode(&mut bytes);
    bytes
}

/// The bytes of an `A`.
pub(crate) fn acquired(number: u64, owner: u64, key: &str) -> Vec<u8> {
    let owner = Owner::new(owner).expect("an owner");
    encoded(&Reply::Acquired {
        token: token(number),
        owner,
        key: KeyRef::new(key.as_bytes()).expect("a key"),
    })
}

/// The bytes of a `T`.
pub(crate) fn timed_out(owner: u64, key: &str) -> Vec<u8> {
    let owner = Owner::new(owner).expect("an owner");
    encoded(&Reply::TimedOut { owner, key: KeyRef::new(key.as_bytes()).expect("a key") })
}

/// The bytes of a `B`.
pub(crate) fn busy(owner: u64, key: &str) -> Vec<u8> {
    let owner = Owner::new(owner).expect("an owner");
    encoded(&Reply::Busy { owner, key: KeyRef::new(key.as_bytes()).expect("a key") })
}

/// The bytes of an `R`.
pub(crate) fn released(token: u64, key: &str) -> Vec<u8> {
    encoded(&Reply::Released { token, key: KeyRef::new(key.as_bytes()).expect("a key") })
}

/// The bytes of an `N`.
pub(crate) fn not_held(token: u64, key: &str) -> Vec<u8> {
    encoded(&Reply::NotHeld { token, key: KeyRef::new(key.as_bytes()).expect("a key") })
}

/// The bytes of an `E`.
pub(crate) fn error(reason: Reason) -> Vec<u8> {
    encoded(&Reply::Error(reason))
}

/// A configuration with tokens from 1 on and this secret.
pub(crate) fn config(secret: &str, limits: Limits) -> ServerConfig {
    ServerConfig {
        secret: Secret::new(secret.as_bytes()),
        limits,
        tokens: TokenRange { next: token(1), last: token(u64::MAX) },
        hash_seed: [1, 2],
        tls: None,
    }
}

/// The peer's end of a connection.
#[derive(Debug)]
pub(crate) struct Socket {
    /// What has arrived.
    inbox: Vec<u8>,
    /// What the server has not read yet.
    unread: Vec<u8>,
    /// The peer's end of stream stands behind `unread`.
    is_ended: bool,
    /// How many bytes the transport still takes.
    pub(crate) room: usize,
    /// The server has shut down writing.
    pub(crate) is_write_shut: bool,
    /// The server has closed, and why.
    pub(crate) closed: Option<CloseReason>,
    /// When that was.
    pub(crate) closed_at: Option<Instant>,
}

/// The server, its peers and the time.
pub(crate) struct Rig {
    pub(crate) server: Server,
    pub(crate) now: Instant,
    secret: Secret,
    nonces: u64,
    sockets: BTreeMap<ConnectionId, Socket>,
}

impl Rig {
    /// A server without a token, with the default limits.
    pub(crate) fn new() -> Self {
        Self::with(config("", Limits::default()))
    }

    pub(crate) fn with_limits(limits: Limits) -> Self {
        Self::with(config("", limits))
    }

    pub(crate) fn with(config: ServerConfig) -> Self {
        let secret = config.secret.clone();
        let server = Server::new(START, config).expect("limits above 0");
        Self { server, now: START, secret, nonces: 0, sockets: BTreeMap::new() }
    }

    /// A connection before its handshake. The challenge is in its inbox.
    pub(crate) fn try_connect(&mut self) -> Result<ConnectionId, Refused> {
        self.nonces += 1;
        let mut nonce = [0; auth::NONCE_LEN];
        nonce[..8].copy_from_slice(&self.nonces.to_be_bytes());
        let id = self.server.accept(self.now, nonce)?;
        let socket = Socket {
            inbox: Vec::new(),
            unread: Vec::new(),
            is_ended: false,
            room: usize::MAX,
            is_write_shut: false,
            closed: None,
            closed_at: None,
        };
        assert!(self.sockets.insert(id, socket).is_none(), "ids are never reused");
        self.pump();
        Ok(id)
    }

    pub(crate) fn connect(&mut self) -> ConnectionId {
        self.try_connect().expect("room for a connection")
    }

    /// The right response to the challenge that is in the inbox, with its LF.
    pub(crate) fn response(&mut self, id: ConnectionId) -> Vec<u8> {
        let challenge = self.take(id);
        let line = challenge.strip_suffix(b"\n").expect("a line");
        let mut response =
            auth::respond(&self.secret, auth::parse_challenge(line).expect("a challenge")).to_vec();
        response.push(b'\n');
        response
    }

    /// An authenticated connection with an empty inbox.
    pub(crate) fn login(&mut self) -> ConnectionId {
        let id = self.connect();
        let response = self.response(id);
        self.send(id, &response);
        assert_eq!(self.take(id), b"", "success is silent");
        id
    }

    /// The peer sends, and the server does all that follows.
    pub(crate) fn send(&mut self, id: ConnectionId, bytes: &[u8]) {
        self.server.handle_data(self.now, id, bytes);
        self.pump();
    }

    /// The peer has written all this; the server reads when it wants to, and as much at once as it should.
    pub(crate) fn write(&mut self, id: ConnectionId, bytes: &[u8]) {
        self.socket_mut(id).unread.extend_from_slice(bytes);
        self.read(id);
    }

    /// The peer shuts down writing behind what it has written.
    pub(crate) fn write_eof(&mut self, id: ConnectionId) {
        self.socket_mut(id).is_ended = true;
        self.read(id);
    }

    /// How much the server has not read yet.
    pub(crate) fn unread(&self, id: ConnectionId) -> usize {
        self.socket(id).unread.len()
    }

    fn read(&mut self, id: ConnectionId) {
        while self.server.wants_read(id) {
            let socket = self.socket_mut(id);
            let len = socket.unread.len().min(READ_BUFFER_LEN);
            let piece: Vec<u8> = socket.unread.drain(..len).collect();
            if !piece.is_empty() {
                self.server.handle_data(self.now, id, &piece);
            } else if std::mem::take(&mut socket.is_ended) {
                self.server.handle_eof(self.now, id);
            } else {
                break;
            }
            self.pump();
        }
    }

    /// The peer shuts down writing.
    pub(crate) fn eof(&mut self, id: ConnectionId) {
        self.server.handle_eof(self.now, id);
        self.pump();
    }

    /// The transport breaks.
    pub(crate) fn reset(&mut self, id: ConnectionId) {
        self.server.handle_disconnected(self.now, id);
        self.pump();
    }

    /// Time goes by, with every timeout at its instant.
    pub(crate) fn advance(&mut self, span: Duration) {
        let end = self.now + span;
        while let Some(next) = self.server.poll_timeout().filter(|&next| next <= end) {
            assert!(next > self.now || self.server.timeout_reason().is_some());
            self.now = self.now.max(next);
            self.handle_due_timeouts();
        }
        self.now = end;
    }

    /// Time goes by without a timeout handled, as when the process is stopped; then all is handled.
    pub(crate) fn stop_for(&mut self, span: Duration) {
        self.now = self.now + span;
        self.handle_due_timeouts();
    }

    fn handle_due_timeouts(&mut self) {
        let mut rounds = 0;
        while self.server.poll_timeout().is_some_and(|next| next <= self.now) {
            self.server.handle_timeout(self.now);
            self.pump();
            rounds += 1;
            assert!(rounds < 1000, "a timeout that is not handled: {:?}", self.server.timeout_reason());
        }
    }

    /// The transport has room for so many bytes (from now on).
    pub(crate) fn set_room(&mut self, id: ConnectionId, room: usize) {
        self.socket_mut(id).room = room;
        self.transmit(id);
        self.pump();
    }

    /// What has arrived since the last call.
    pub(crate) fn take(&mut self, id: ConnectionId) -> Vec<u8> {
        std::mem::take(&mut self.socket_mut(id).inbox)
    }

    pub(crate) fn socket(&self, id: ConnectionId) -> &Socket {
        &self.sockets[&id]
    }

    fn socket_mut(&mut self, id: ConnectionId) -> &mut Socket {
        self.sockets.get_mut(&id).expect("a connection of this rig")
    }

    /// The timeout that comes next, if it is a connection's.
    pub(crate) fn connection_timeout(&self) -> Option<(Id, TimeoutReason)> {
        match self.server.timeout_reason()? {
            ServerTimeoutReason::Connection { connection, reason } => Some((connection, reason)),
            _ => None,
        }
    }

    pub(crate) fn is_open(&self, id: ConnectionId) -> bool {
        let socket = self.socket(id);
        socket.closed.is_none() && !socket.is_write_shut
    }

    /// The peer gets these bytes, then the end of the stream; and it closes, too.
    #[track_caller]
    pub(crate) fn expect_end(&mut self, id: ConnectionId, bytes: &[u8]) {
        assert_eq!(self.take(id), bytes);
        assert!(self.socket(id).is_write_shut, "the last replies are followed by the end of the stream");
        self.eof(id);
        assert!(self.socket(id).closed.is_some());
    }

    /// Whatever is said of a closed connection, nothing comes of it.
    #[track_caller]
    pub(crate) fn expect_end_is_final(&mut self, id: ConnectionId) {
        assert!(self.socket(id).closed.is_some());
        let inbox = self.take(id);
        let reason = self.socket(id).closed;
        self.send(id, &acquire(0, 250, 1, "from-beyond"));
        self.eof(id);
        self.reset(id);
        self.server.handle_transmitted(self.now, id, 1);
        assert!(!self.server.poll_transmit(id, &mut Vec::new()));
        assert!(!self.server.wants_read(id));
        assert_eq!((self.take(id), self.socket(id).closed), (vec![], reason));
        self.socket_mut(id).inbox = inbox;
    }

    /// The connection is open and has nothing more to say: a sentinel is answered, and nothing else.
    #[track_caller]
    pub(crate) fn expect_quiet(&mut self, id: ConnectionId) {
        let sentinel = release(0, "sentinel");
        self.send(id, &sentinel);
        assert_eq!(self.take(id), not_held(0, "sentinel"));
    }

    /// Ends every connection and lets every lease end; nothing may be left then.
    #[track_caller]
    pub(crate) fn expect_nothing_left(&mut self) {
        let ids: Vec<_> = self.sockets.keys().copied().collect();
        for id in ids {
            self.reset(id);
        }
        assert!(self.server.is_drained());
        let usage = self.server.usage();
        assert_eq!((usage.acquires.used, usage.waiters.used), (0, 0));
        self.advance(secs(300));
        assert_eq!(self.server.usage().keys.used, 0);
        assert_eq!((self.server.connections(), self.server.unauthenticated()), (0, 0));
        assert_eq!(self.server.poll_timeout(), None);
    }

    pub(crate) fn pump(&mut self) {
        while let Some(event) = self.server.poll_event() {
            match event {
                ServerEvent::Transmit(id) => self.transmit(id),
                ServerEvent::ResumeRead(id) => self.read(id),
                ServerEvent::ShutdownWrite(id) => {
                    let socket = self.socket_mut(id);
                    assert!(!socket.is_write_shut && socket.closed.is_none());
                    socket.is_write_shut = true;
                }
                ServerEvent::Close { connection, reason } => {
                    let now = self.now;
                    let socket = self.socket_mut(connection);
                    assert_eq!(socket.closed.replace(reason), None);
                    socket.closed_at = Some(now);
                }
                _ => {}
            }
        }
    }

    fn transmit(&mut self, id: ConnectionId) {
        let mut batch = Vec::new();
        while self.server.poll_transmit(id, &mut batch) {
            let socket = self.sockets.get_mut(&id).expect("a connection of this rig");
            assert!(!socket.is_write_shut && socket.closed.is_none(), "bytes behind the end");
            let taken = batch.len().min(socket.room);
            socket.room -= taken;
            socket.inbox.extend_from_slice(&batch[..taken]);
            self.server.handle_transmitted(self.now, id, taken);
            if taken < batch.len() {
                break;
            }
            batch.clear();
        }
    }
}
