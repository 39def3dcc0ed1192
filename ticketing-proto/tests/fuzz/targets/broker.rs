//! A client and a server that means it ill.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use arbitrary::{Arbitrary as _, Result, Unstructured};
use ticketing_proto::client::{
    AcquireError, AcquireId, AcquireOptions, Broker, BrokerConfig, Event, Grant, ReleaseId,
};
use ticketing_proto::id::{ConnectionId, Owner, Token};
use ticketing_proto::key::{Key, KeyRef};
use ticketing_proto::time::Instant;
use ticketing_proto::wire::auth::LineDecoder;
use ticketing_proto::wire::{Decoder, FromClient, FromServer, Reply, Request};

const CHALLENGE: &[u8] = b"sha256 aB3dEf_g\n";
const RESPONSE_LEN: usize = 44;
const KEYS: [&str; 3] = ["k", "l", "a-key-that-does-not-fit-in-place"];

/// Whatever the server sends and whenever: no panic, no ticket that nobody granted or that came late, every owner
/// is sent once, every call ends.
pub(crate) fn broker(data: &[u8]) {
    let mut u = Unstructured::new(data);
    let addresses: &[&str] = if u.arbitrary().unwrap_or(false) { &["a:1"] } else { &["a:1", "b:2", "c:3"] };
    let mut run = Run::new(addresses);
    while !u.is_empty() && run.act(&mut u).is_ok() {
        run.turn();
    }
    run.finish();
}

struct Call {
    key: Key,
    options: AcquireOptions,
    since: Instant,
}

/// The server's end of a connection.
#[derive(Default)]
struct Peer {
    response_left: usize,
    is_write_shut: bool,
    decoder: Decoder<FromClient>,
    is_connected: bool,
    /// What it said, as its client takes it: a line, then replies.
    challenge: LineDecoder,
    was_challenge: bool,
    said: Decoder<FromServer>,
}

struct Run {
    now: Instant,
    broker: Broker,
    peers: BTreeMap<ConnectionId, Peer>,
    calls: BTreeMap<AcquireId, Call>,
    releases: BTreeSet<ReleaseId>,
    tickets: Vec<Grant>,
    /// Owners on the wire, with the key that each asks for.
    sent: BTreeMap<Owner, Key>,
    /// Owners of frames of which a part was taken.
    begun: BTreeSet<Owner>,
    /// A redirect was sent: from then on the same owner may be sent anew (CA-10).
    was_redirected: bool,
    /// What the server granted.
    granted: BTreeSet<(Token, Owner)>,
    is_closed: bool,
    /// How much each transport takes at once.
    room: usize,
}

impl Run {
    fn new(addresses: &[&str]) -> Self {
        let now = Instant::ORIGIN + Duration::from_secs(1000);
        let config = BrokerConfig { max_in_flight: 6, ..BrokerConfig::new(addresses.iter().copied(), 9) };
        let mut run = Self {
            now,
            broker: Broker::new(now, config).expect("a good configuration"),
            peers: BTreeMap::new(),
            calls: BTreeMap::new(),
            releases: BTreeSet::new(),
            tickets: Vec::new(),
            sent: BTreeMap::new(),
            begun: BTreeSet::new(),
            was_redirected: false,
            granted: BTreeSet::new(),
            is_closed: false,
            room: usize::MAX,
        };
        run.turn();
        run
    }

    fn act(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let now = self.now;
        match u.int_in_range(0..=31)? {
            0..=5 => self.acquire(u)?,
            6 => {
                if let Some(id) = pick(u, self.calls.keys())? {
                    self.broker.cancel(now, id);
                    self.calls.remove(&id);
                }
            }
            7 => {
                if !self.tickets.is_empty() {
                    let grant = self.tickets.swap_remove(u.choose_index(self.tickets.len())?);
                    self.releases.insert(self.broker.release(now, &grant.key, grant.token));
                }
            }
            8 => {
                if let Some(grant) = self.tickets.pop() {
                    self.broker.discard(now, grant.key, grant.token);
                }
            }
            9 => {
                if let Some(id) = self.releases.pop_first() {
                    self.broker.forget_release(now, id);
                }
            }
            10..=13 => {
                if let Some(id) = pick(u, self.peers.keys())? {
                    self.broker.handle_connected(now, id);
                    self.peers.get_mut(&id).expect("it was picked").is_connected = true;
                    if u.ratio(7, 8)? {
                        self.tell(id, CHALLENGE);
                    }
                }
            }
            14..=21 => {
                if let Some(id) = pick(u, self.peers.keys())? {
                    let bytes = self.say(u)?;
                    let at = u.int_in_range(0..=bytes.len())?;
                    self.tell(id, &bytes[..at]);
                    self.tell(id, &bytes[at..]);
                }
            }
            22 => {
                if let Some(id) = pick(u, self.peers.keys())? {
                    match u.int_in_range(0..=2)? {
                        0 => self.broker.handle_eof(now, id),
                        1 => self.broker.handle_disconnected(now, id),
                        _ => self.broker.handle_write_failed(now, id),
                    }
                }
            }
            23 => self.room = *u.choose(&[0, 1, 7, 60, usize::MAX])?,
            24..=28 => self.now = now + Duration::from_millis(u.arbitrary::<u16>()?.into()),
            29 => self.now = now + Duration::from_nanos(u.arbitrary::<u32>()?.into()),
            30 => self.broker.handle_timeout(Instant::ORIGIN + Duration::from_secs(1)),
            _ if u.ratio(1, 8)? => self.broker.close(now),
            _ => self.broker.handle_timeout(now),
        }
        Ok(())
    }

    fn acquire(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let options = AcquireOptions::new(Duration::from_secs(u.int_in_range(0..=3)?))
            .wait(Duration::from_millis(*u.choose(&[0, 1, 1000, 2500, 20_000])?))
            .lease(Duration::from_secs(*u.choose(&[1, 2, 30, 250])?))
            .response_grace(Duration::from_secs(*u.choose(&[0, 0, 2])?));
        let key = *u.choose(&KEYS)?;
        let asked = if u.ratio(1, 6)? {
            self.broker.try_acquire(self.now, key, options)
        } else {
            self.broker.acquire(self.now, key, options)
        };
        if let Ok(id) = asked {
            let key = Key::new(key.as_bytes()).expect("a key");
            self.calls.insert(id, Call { key, options, since: self.now });
        }
        Ok(())
    }

    /// Answers that fit, that nearly fit, and noise.
    fn say(&self, u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for _ in 0..u.int_in_range(1..=4)? {
            let asked = pick(u, self.sent.keys())?;
            let owner = asked.unwrap_or(Owner::FIRST);
            let key = self.sent.get(&owner).map_or("k", Key::as_str);
            let key = if u.ratio(1, 16)? { *u.choose(&KEYS)? } else { key };
            let key = KeyRef::new(key.as_bytes()).expect("a key");
            let token = Token::new(u.int_in_range(1..=40)?).expect("not 0");
            let reply = match u.int_in_range(0..=15)? {
                0..=5 => Reply::Acquired { token, owner, key },
                6..=7 => Reply::TimedOut { owner, key },
                8 => Reply::Busy { owner, key },
                9..=10 => Reply::Released { token: token.value(), key },
                11 => Reply::NotHeld { token: token.value(), key },
                12 => Reply::Moved { leader: u.choose(&["a:1", "b:2", "C:3", "d:4"])? },
                13 => Reply::LeaderChanged { leader: Some(u.choose(&["a:1", "b:2", "c:3", "d:4"])?) },
                14 => Reply::arbitrary(u)?,
                _ => {
                    bytes.extend_from_slice(u.arbitrary()?);
                    continue;
                }
            };
            reply.encode(&mut bytes);
        }
        Ok(bytes)
    }

    /// Gives the client these bytes, and notes what they mean to it. Noise may be an answer, too.
    fn tell(&mut self, id: ConnectionId, bytes: &[u8]) {
        if let Some(peer) = self.peers.get_mut(&id).filter(|peer| peer.is_connected) {
            let mut input = bytes;
            if !peer.was_challenge {
                peer.was_challenge = matches!(peer.challenge.next(&mut input), Ok(Some(_)));
            }
            while let Ok(Some(frame)) = peer.said.next(&mut input) {
                match Reply::parse(frame) {
                    Ok(Reply::Acquired { token, owner, .. }) => {
                        self.granted.insert((token, owner));
                    }
                    Ok(Reply::Moved { .. } | Reply::Error(_)) => self.was_redirected = true,
                    _ => {}
                }
            }
        }
        self.broker.handle_data(self.now, id, bytes);
    }

    /// What the loop around a broker does after each input.
    fn turn(&mut self) {
        self.take_events();
        let ids: Vec<ConnectionId> = self.peers.keys().copied().collect();
        for id in ids {
            let mut out = Vec::new();
            if self.broker.poll_transmit(self.now, id, &mut out) {
                let taken = out.len().min(self.room);
                self.broker.handle_transmitted(self.now, id, taken);
                self.receive(id, &out, taken);
            }
        }
        self.take_events();
        assert_eq!(self.broker.poll_timeout().is_some(), self.broker.timeout_reason().is_some());
    }

    fn take_events(&mut self) {
        while let Some(event) = self.broker.poll_event() {
            match event {
                Event::Connect { connection, address } => {
                    assert!(self.broker.address(address).is_some());
                    let peer = Peer { response_left: RESPONSE_LEN, ..Peer::default() };
                    assert!(self.peers.insert(connection, peer).is_none(), "ids are not reused");
                }
                Event::ShutdownWrite { connection } => {
                    self.peers.get_mut(&connection).expect("a connection").is_write_shut = true;
                }
                Event::Disconnect { connection, .. } => {
                    self.peers.remove(&connection).expect("a connection");
                }
                Event::AcquireSettled(id) => self.claim(id),
                Event::ReleaseSettled(id) if self.releases.remove(&id) => {
                    assert!(self.broker.claim_release(id).is_some());
                }
                Event::Closed => self.is_closed = true,
                _ => {}
            }
        }
    }

    fn claim(&mut self, id: AcquireId) {
        let Some(outcome) = self.broker.claim(self.now, id) else { return };
        let Call { key, options, since } = self.calls.remove(&id).expect("an outcome for a call");
        // Wait 0 has 5 s for its transport (CA-6).
        let span = if options.wait.is_zero() { 5 } else { options.wait.as_millis().div_ceil(1000) as u64 };
        match outcome {
            Ok(grant) => {
                assert!(self.now < since + Duration::from_secs(span), "a ticket after the deadline (CA-7)");
                assert_eq!(grant.key, key);
                assert!(self.granted.contains(&(grant.token, id.owner())), "nobody granted it");
                let left = grant.valid_until.saturating_since(self.now);
                assert!(left >= options.min_work_budget && !left.is_zero(), "CD-3");
                assert!(grant.valid_until < self.now + options.lease, "CD-3");
                self.tickets.push(grant);
            }
            Err(AcquireError::Indeterminate) => {
                let owner = id.owner();
                assert!(
                    self.sent.contains_key(&owner) || self.begun.contains(&owner),
                    "it was never sent (CA-4)"
                );
            }
            Err(_) => {}
        }
    }

    fn receive(&mut self, id: ConnectionId, shown: &[u8], taken: usize) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let (mut bytes, mut rest) = shown.split_at(taken);
        assert!(!peer.is_write_shut, "bytes after the shutdown of writing");
        let response = peer.response_left.min(bytes.len());
        peer.response_left -= response;
        bytes = &bytes[response..];
        while let Some(frame) = peer.decoder.next(&mut bytes).expect("frames") {
            if let Request::Acquire(acquire) = Request::parse(frame).expect("a request") {
                let before = self.sent.insert(acquire.owner, acquire.key.to_key());
                assert!(before.is_none() || self.was_redirected, "sent again (CA-3)");
            }
        }
        if peer.decoder.is_mid_frame()
            && let Ok(Some(frame)) = peer.decoder.clone().next(&mut rest)
            && let Ok(Request::Acquire(acquire)) = Request::parse(frame)
        {
            self.begun.insert(acquire.owner);
        }
    }

    /// Nothing but time comes any more: every call ends, and a client that closes is gone in the end.
    fn finish(mut self) {
        self.pass(Duration::from_secs(300));
        assert!(self.calls.is_empty(), "calls without an end");
        self.broker.close(self.now);
        self.turn();
        self.pass(Duration::from_secs(30));
        assert!(self.is_closed, "a close without an end");
        assert_eq!(self.broker.outstanding(), 0);
        assert_eq!(self.broker.poll_timeout(), None);
    }

    fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        let mut turns = 0;
        while let Some(at) = self.broker.poll_timeout().filter(|&at| at <= end) {
            turns += 1;
            assert!(turns < 20_000, "it wants to be woken for ever: {:?}", self.broker.timeout_reason());
            self.now = self.now.max(at);
            self.broker.handle_timeout(self.now);
            self.turn();
        }
        self.now = end;
    }
}

/// One of some things, if there is any.
fn pick<'a, T: Copy + 'a>(
    u: &mut Unstructured<'_>,
    things: impl ExactSizeIterator<Item = &'a T>,
) -> Result<Option<T>> {
    match things.len() {
        0 => Ok(None),
        len => Ok(things.copied().nth(u.choose_index(len)?)),
    }
}
