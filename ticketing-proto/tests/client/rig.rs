//! One broker, and a server for each of its connections that says what a test tells it to.

use std::time::Duration;

use ticketing_proto::client::{
    AcquireError, AcquireId, AcquireOptions, Broker, BrokerConfig, Event, Failure, Grant, ReleaseError,
    ReleaseId, Released,
};
use ticketing_proto::id::{ConnectionId, Owner, Token};
use ticketing_proto::key::KeyRef;
use ticketing_proto::time::Instant;
use ticketing_proto::wire::{Decoder, FromClient, Reply, Request};

pub(crate) const CHALLENGE: &[u8] = b"sha256 aB3dEf_g\n";
/// The response of a client without a token: 43 characters and LF.
const RESPONSE_LEN: usize = 44;

pub(crate) fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub(crate) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn key(text: &str) -> KeyRef<'_> {
    KeyRef::new(text.as_bytes()).expect("a legal key")
}

pub(crate) fn token(value: u64) -> Token {
    Token::new(value).expect("not 0")
}

/// A budget of zero and this wait.
pub(crate) fn wait(wait: Duration) -> AcquireOptions {
    AcquireOptions::new(Duration::ZERO).wait(wait)
}

/// A request as it reached a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Seen {
    Acquire { wait: u8, lease: u8, owner: Owner, key: String },
    Release { token: u64, key: String },
}

impl Seen {
    pub(crate) fn owner(&self) -> Owner {
        match self {
            Self::Acquire { owner, .. } => *owner,
            Self::Release { .. } => panic!("{self:?} is a release"),
        }
    }

    pub(crate) fn wait(&self) -> u8 {
        match self {
            Self::Acquire { wait, .. } => *wait,
            Self::Release { .. } => panic!("{self:?} is a release"),
        }
    }
}

/// The server's end of one connection.
pub(crate) struct Peer {
    pub(crate) id: ConnectionId,
    pub(crate) address: usize,
    pub(crate) since: Instant,
    pub(crate) is_write_shut: bool,
    pub(crate) failure: Option<Failure>,
    response_left: usize,
    decoder: Decoder<FromClient>,
    pub(crate) seen: Vec<Seen>,
}

pub(crate) struct Rig {
    pub(crate) broker: Broker,
    pub(crate) now: Instant,
    /// In the order of their connects, those that are over included.
    pub(crate) peers: Vec<Peer>,
    pub(crate) is_closed: bool,
    /// How many bytes each transport takes per turn.
    pub(crate) takes: usize,
}

impl Rig {
    pub(crate) fn new(addresses: &[&str]) -> Self {
        Self::with(BrokerConfig::new(addresses.iter().copied(), 7))
    }

    pub(crate) fn with(config: BrokerConfig) -> Self {
        let now = Instant::ORIGIN + secs(1000);
        let broker = Broker::new(now, config).expect("a good configuration");
        let mut rig = Self { broker, now, peers: Vec::new(), is_closed: false, takes: usize::MAX };
        rig.pump();
        rig
    }

    /// One address, one usable connection (its second one is still connecting).
    pub(crate) fn ready() -> (Self, ConnectionId) {
        let mut rig = Self::new(&["a:1"]);
        let first = rig.peers[0].id;
        rig.greet(first);
        (rig, first)
    }

    /// One address, both connections usable.
    pub(crate) fn both_ready() -> (Self, ConnectionId, ConnectionId) {
        let (mut rig, first) = Self::ready();
        let second = rig.peers[1].id;
        rig.greet(second);
        (rig, first, second)
    }

    pub(crate) fn greet(&mut self, connection: ConnectionId) {
        self.broker.handle_connected(self.now, connection);
        self.data(connection, CHALLENGE);
    }

    pub(crate) fn peer(&mut self, connection: ConnectionId) -> &mut Peer {
        self.peers.iter_mut().find(|peer| peer.id == connection).expect("a connection that was asked for")
    }

    /// The newest connection to an address.
    pub(crate) fn newest(&self, address: usize) -> ConnectionId {
        self.peers.iter().rfind(|peer| peer.address == address).expect("one was made").id
    }

    pub(crate) fn data(&mut self, connection: ConnectionId, bytes: &[u8]) {
        self.broker.handle_data(self.now, connection, bytes);
        self.pump();
    }

    pub(crate) fn reply(&mut self, connection: ConnectionId, reply: Reply<'_>) {
        let mut bytes = Vec::new();
        reply.encode(&mut bytes);
        self.data(connection, &bytes);
    }

    pub(crate) fn grant(&mut self, connection: ConnectionId, request: &Seen, granted: u64) {
        let Seen::Acquire { owner, key: asked, .. } = request else { panic!("{request:?} is no acquire") };
        self.reply(connection, Reply::Acquired { token: token(granted), owner: *owner, key: key(asked) });
    }

    pub(crate) fn time_out(&mut self, connection: ConnectionId, request: &Seen) {
        let Seen::Acquire { owner, key: asked, .. } = request else { panic!("{request:?} is no acquire") };
        self.reply(connection, Reply::TimedOut { owner: *owner, key: key(asked) });
    }

    pub(crate) fn eof(&mut self, connection: ConnectionId) {
        self.broker.handle_eof(self.now, connection);
        self.pump();
    }

    pub(crate) fn reset(&mut self, connection: ConnectionId) {
        self.broker.handle_disconnected(self.now, connection);
        self.pump();
    }

    /// Lets time pass, stopping wherever the broker wants to be woken.
    pub(crate) fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        let mut turns = 0;
        while let Some(at) = self.broker.poll_timeout().filter(|&at| at <= end) {
            turns += 1;
            assert!(
                turns < 100_000,
                "the broker wants to be woken for ever: {:?}",
                self.broker.timeout_reason()
            );
            self.now = self.now.max(at);
            self.broker.handle_timeout(self.now);
            self.pump();
        }
        self.now = end;
    }

    /// The process was paused: nothing runs until the time is over.
    pub(crate) fn pause(&mut self, span: Duration) {
        self.now = self.now + span;
    }

    /// Does what the broker asks for: events first, then bytes.
    pub(crate) fn pump(&mut self) {
        self.take_events();
        for index in 0..self.peers.len() {
            self.transmit(index);
        }
        self.take_events();
    }

    fn take_events(&mut self) {
        while let Some(event) = self.broker.poll_event() {
            match event {
                Event::Connect { connection, address } => self.peers.push(Peer {
                    id: connection,
                    address,
                    since: self.now,
                    is_write_shut: false,
                    failure: None,
                    response_left: RESPONSE_LEN,
                    decoder: Decoder::new(),
                    seen: Vec::new(),
                }),
                Event::ShutdownWrite { connection } => self.peer(connection).is_write_shut = true,
                Event::Disconnect { connection, failure } => self.peer(connection).failure = Some(failure),
                Event::Closed => self.is_closed = true,
                _ => {}
            }
        }
    }

    fn transmit(&mut self, index: usize) {
        let id = self.peers[index].id;
        loop {
            let mut out = Vec::new();
            if !self.broker.poll_transmit(self.now, id, &mut out) {
                return;
            }
            let taken = out.len().min(self.takes);
            self.broker.handle_transmitted(self.now, id, taken);
            assert!(!self.peers[index].is_write_shut, "bytes after the shutdown of writing");
            self.peers[index].receive(&out[..taken]);
            if taken < out.len() || self.takes != usize::MAX {
                return;
            }
        }
    }

    pub(crate) fn acquire(&mut self, name: &str, options: AcquireOptions) -> AcquireId {
        let id = self.broker.acquire(self.now, name, options).expect("nothing wrong with the call");
        self.pump();
        id
    }

    /// Acquires, and gives the only new request that reached this connection.
    pub(crate) fn acquire_on(
        &mut self,
        connection: ConnectionId,
        name: &str,
        options: AcquireOptions,
    ) -> (AcquireId, Seen) {
        let before = self.peer(connection).seen.len();
        let id = self.acquire(name, options);
        let seen = self.peer(connection).seen.get(before).expect("the request went out here").clone();
        (id, seen)
    }

    pub(crate) fn claim(&mut self, id: AcquireId) -> Option<Result<Grant, AcquireError>> {
        let outcome = self.broker.claim(self.now, id);
        self.pump();
        outcome
    }

    pub(crate) fn error(&mut self, id: AcquireId) -> AcquireError {
        self.claim(id).expect("settled").expect_err("no grant")
    }

    pub(crate) fn release(&mut self, grant: &Grant) -> ReleaseId {
        let id = self.broker.release(self.now, &grant.key, grant.token);
        self.pump();
        id
    }

    pub(crate) fn claim_release(&mut self, id: ReleaseId) -> Option<Result<Released, ReleaseError>> {
        self.broker.claim_release(id)
    }

    /// All requests that reached any connection, in the order of the connections.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.peers.iter().flat_map(|peer| peer.seen.clone()).collect()
    }

    pub(crate) fn releases_of(&self, value: u64) -> usize {
        let is_it = |seen: &Seen| matches!(seen, Seen::Release { token, .. } if *token == value);
        self.seen().iter().filter(|seen| is_it(seen)).count()
    }

    pub(crate) fn open(&self) -> usize {
        self.peers.iter().filter(|peer| peer.failure.is_none()).count()
    }
}

impl Peer {
    fn receive(&mut self, mut bytes: &[u8]) {
        let response = self.response_left.min(bytes.len());
        self.response_left -= response;
        bytes = &bytes[response..];
        while let Some(frame) = self.decoder.next(&mut bytes).expect("well-formed frames") {
            self.seen.push(match Request::parse(frame).expect("a legal request") {
                Request::Acquire(it) => Seen::Acquire {
                    wait: it.wait.secs(),
                    lease: it.lease.secs(),
                    owner: it.owner,
                    key: it.key.as_str().into(),
                },
                Request::Release(it) => Seen::Release { token: it.token, key: it.key.as_str().into() },
            });
        }
    }
}
