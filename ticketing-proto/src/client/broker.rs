use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use super::acquire::{Acquire, AcquireId, Place};
use super::config::{BrokerConfig, ConfigError};
use super::error::{Failure, Released};
use super::link::{Jitter, Link, Phase};
use super::release::{ReleaseId, Releases};
use super::session::{Incoming, Item, Sender};
use super::timers::{Timer, Timers};
use crate::id::{ConnectionId, Owner, Token};
use crate::time::Instant;
use crate::tls::{ClientTls, End, Opening, Stage, TlsError};
use crate::wire::auth::{Secret, respond};
use crate::wire::{Reason, Reply};

/// Connecting, TLS and authentication together (`CC-4`).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the last bytes of TLS may take.
const PARTING_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a connection that was shut down is read from (`CA-5`).
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a closing client sends releases (`CC-6`).
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// What the adapter has to do, or to tell its callers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// Open a connection to [`Broker::address`] of this index, resolving the name anew, each resolved address 3 s
    /// at most (`CC-4`); then call [`Broker::handle_connected`], or [`Broker::handle_disconnected`] if it can't be.
    Connect {
        /// The new connection.
        connection: ConnectionId,
        /// Index of the address.
        address: usize,
    },
    /// Shut the connection's writing side down, and go on reading (`CA-5`).
    ShutdownWrite {
        /// Which one.
        connection: ConnectionId,
    },
    /// Close the connection, or give up making it. It is over: nothing that comes from it is looked at.
    Disconnect {
        /// Which one.
        connection: ConnectionId,
        /// Why.
        failure: Failure,
    },
    /// A connection can carry requests; [`Broker::is_ready`] has become true.
    Ready,
    /// [`Broker::claim`] has something for this request.
    AcquireSettled(AcquireId),
    /// [`Broker::claim_release`] has something for this release.
    ReleaseSettled(ReleaseId),
    /// After [`Broker::close`]: nothing is left to send or to wait for.
    Closed,
}

/// What a client went through, for those who watch it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// Sessions that got past the challenge.
    pub sessions: u64,
    /// Sessions, and tries to make one, that failed (`CC-3`).
    pub failed_sessions: u64,
    /// Compensating releases that were given up because 512 were under way (`CR-3`).
    pub compensations_overflowed: u64,
    /// Compensating releases that were not answered within 5 s (`CR-3`), or came after the close (`CC-6`).
    pub compensations_expired: u64,
    /// Grants that no caller could use: late, cancelled, too little lease left. Each was to be released.
    pub compensated_grants: u64,
}

/// All connections of one client, and every request under way.
///
/// The caller gives it time, what the sockets gave, and what the application wants; it takes the events and the
/// bytes to send. See the [module](super) for the loop.
#[derive(Debug)]
pub struct Broker {
    pub(super) now: Instant,
    addresses: Vec<Box<str>>,
    secret: Secret,
    tls: Option<ClientTls>,
    pub(super) max_in_flight: usize,
    pub(super) next_owner: Option<Owner>,
    pub(super) acquires: BTreeMap<Owner, Acquire>,
    pub(super) in_flight: usize,
    /// Acquires that wait for a place in flight (`CC-5`), in the order of their calls.
    pub(super) held_back: BTreeSet<Owner>,
    /// Unsent acquires without a connection to go over, in the order of their calls.
    pub(super) pending: BTreeSet<Owner>,
    pub(super) releases: Releases,
    /// Tickets that the application holds, with the end of what can be vouched for.
    pub(super) tickets: BTreeMap<Token, Instant>,
    pub(super) links: Vec<Link>,
    next_connection: u64,
    /// Index of the address where the leader is, if it is known and configured (`CC-2`).
    leader: Option<usize>,
    turn: usize,
    pub(super) timers: Timers,
    pub(super) events: VecDeque<Event>,
    jitter: Jitter,
    pub(super) close: Closing,
    pub(super) stats: Stats,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Closing {
    Open,
    Until(Instant),
    /// Nothing is taken any more, and the last connections end.
    Parting,
    Done,
}

impl Closing {
    pub(super) const fn takes_releases(self) -> bool {
        matches!(self, Self::Open | Self::Until(_))
    }
}

impl Broker {
    /// A client that begins to connect at once.
    ///
    /// # Errors
    /// [`ConfigError`]
    pub fn new(now: Instant, config: BrokerConfig) -> Result<Self, ConfigError> {
        config.check()?;
        let links: Vec<_> = config.connections().map(|address| Link::new(address, now)).collect();
        let mut broker = Self {
            now,
            addresses: config.addresses,
            secret: config.secret,
            tls: config.tls,
            max_in_flight: config.max_in_flight,
            next_owner: Some(config.first_owner),
            acquires: BTreeMap::new(),
            in_flight: 0,
            held_back: BTreeSet::new(),
            pending: BTreeSet::new(),
            releases: Releases::default(),
            tickets: BTreeMap::new(),
            links,
            next_connection: 0,
            leader: None,
            turn: 0,
            timers: Timers::default(),
            events: VecDeque::new(),
            jitter: Jitter::new(config.jitter_seed),
            close: Closing::Open,
            stats: Stats::default(),
        };
        (0..broker.links.len()).for_each(|link| broker.connect(link));
        Ok(broker)
    }

    /// The configured address of this index.
    #[must_use]
    pub fn address(&self, index: usize) -> Option<&str> {
        self.addresses.get(index).map(|address| &**address)
    }

    /// Whether some connection can carry requests. The server may still refuse the token: success is silent
    /// (`AU-3`).
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.links.iter().any(Link::is_ready)
    }

    /// Why the connections are not usable: the latest failure among those that ended without a later success.
    #[must_use]
    pub fn last_failure(&self) -> Option<Failure> {
        let failures = || self.links.iter().filter_map(|link| link.failure);
        failures()
            .find(|failure| matches!(failure, Failure::Auth | Failure::Protocol(_) | Failure::Tls(_)))
            .or_else(|| failures().next())
    }

    /// Counters since the start.
    #[must_use]
    pub const fn stats(&self) -> Stats {
        self.stats
    }

    /// Acquires and releases that are not over or not claimed, ghosts included; 0 when nothing is left.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.acquires.len() + self.releases.len()
    }

    /// Ends the client (`CC-6`): unsent acquires are `Closed`, sent ones `Indeterminate`; releases, also of tickets
    /// that are dropped meanwhile, are sent until 5 s are over. [`Event::Closed`] tells the end.
    pub fn close(&mut self, now: Instant) {
        let now = self.advance(now);
        if self.close != Closing::Open {
            return;
        }
        let until = now + CLOSE_TIMEOUT;
        self.close = Closing::Until(until);
        self.timers.set(&mut None, Timer::Close, Some(until));
        self.close_acquires();
        self.settle_down(now);
    }

    /// What the adapter has to do or to tell; `None` when that is all.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is wanted.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| at)
    }

    /// Who wants to be woken at [`poll_timeout`](Self::poll_timeout), for logs.
    #[must_use]
    pub fn timeout_reason(&self) -> Option<&'static str> {
        self.timers.first().map(|(_, timer)| match timer {
            Timer::Acquire(_) => "an acquire's deadline or retry",
            Timer::Claim(_) | Timer::Release(_) => "a release's deadline or retry",
            Timer::Link(_) => "a connection's backoff, handshake or drain",
            Timer::Close => "the close",
        })
    }

    /// Does what is due. Give the input that has come first: an answer that is there is used (`CA-7`).
    ///
    /// What becomes due by what it does may be left to the next call; [`poll_timeout`](Self::poll_timeout) says so.
    pub fn handle_timeout(&mut self, now: Instant) {
        let now = self.advance(now);
        for _ in 0..self.timers.len() {
            let Some((at, timer)) = self.timers.first().filter(|&(at, _)| at <= now) else { break };
            match timer {
                Timer::Acquire(owner) => self.acquire_is_due(now, owner),
                Timer::Claim(id) => self.claim_is_due(id),
                Timer::Release(token) => self.release_is_due(now, token),
                Timer::Link(link) => self.link_is_due(now, link),
                Timer::Close => {
                    self.timers.set(&mut Some(at), Timer::Close, None);
                    self.finish(now, false);
                }
            }
        }
        self.settle_down(now);
    }

    /// The connection was made: bytes can go both ways.
    pub fn handle_connected(&mut self, now: Instant, connection: ConnectionId) {
        let now = self.advance(now);
        let Some(link) = self.link_of(connection) else { return };
        let Phase::Connecting { id, until } = self.links[link].phase else { return };
        if let Some(tls) = &self.tls {
            match Stage::client(tls, &self.addresses[self.links[link].address]) {
                Ok(stage) => self.links[link].tls = Some(stage),
                Err(error) => {
                    self.end_session(now, link, Failure::Tls(error));
                    return self.settle_down(now);
                }
            }
        }
        self.links[link].reader = Some(Box::default());
        self.set_phase(link, Phase::Greeting { id, until });
    }

    /// Bytes that came over a connection, split anyhow.
    pub fn handle_data(&mut self, now: Instant, connection: ConnectionId, data: &[u8]) {
        let now = self.advance(now);
        let Some(link) = self.link_of(connection) else { return };
        match self.links[link].tls.take() {
            None => self.read(now, link, connection, data),
            Some(mut stage) => {
                let is_parting = matches!(self.links[link].phase, Phase::Parting { .. });
                let opening = if is_parting { Opening::default() } else { stage.open(data) };
                self.read(now, link, connection, &opening.plain);
                // What was read may have ended the connection.
                if self.links[link].phase.connection() == Some(connection) {
                    self.links[link].tls = Some(stage);
                    match opening.end {
                        None => {}
                        Some(End::Closed) => self.end_session(now, link, Failure::Lost),
                        Some(End::Failed(error)) => self.fail_tls(now, link, error),
                    }
                }
            }
        }
        self.settle_down(now);
    }

    fn read(&mut self, now: Instant, link: usize, connection: ConnectionId, mut data: &[u8]) {
        let Some(mut reader) = self.links[link].reader.take() else { return };
        loop {
            match reader.next(&mut data) {
                Ok(Some(Incoming::Challenge(nonce))) => self.handle_challenge(now, link, nonce),
                Ok(Some(Incoming::Reply(reply))) => self.handle_reply(now, link, reply),
                Ok(None) => break,
                Err(error) => self.end_session(now, link, Failure::Protocol(error)),
            }
            // What it answered may have ended it; then nothing behind is looked at.
            if self.links[link].phase.connection() != Some(connection) {
                return;
            }
        }
        self.links[link].reader = Some(reader);
    }

    /// The server closed its side. What came before has been given to [`handle_data`](Self::handle_data).
    pub fn handle_eof(&mut self, now: Instant, connection: ConnectionId) {
        self.handle_disconnected(now, connection);
    }

    /// The connection could not be made, was reset, or can't be read any more.
    pub fn handle_disconnected(&mut self, now: Instant, connection: ConnectionId) {
        let now = self.advance(now);
        if let Some(link) = self.link_of(connection) {
            self.end_session(now, link, Failure::Lost);
            self.settle_down(now);
        }
    }

    /// Writing failed. That is no proof that nothing more can be read (`CA-9`): go on reading; the connection is
    /// given 2 s for that.
    pub fn handle_write_failed(&mut self, now: Instant, connection: ConnectionId) {
        let now = self.advance(now);
        if let Some(link) = self.link_of(connection) {
            if let Some(stage) = &mut self.links[link].tls {
                stage.abandon_output();
            }
            if matches!(self.links[link].phase, Phase::Ready { .. }) {
                self.drain(now, link, Failure::Lost);
            } else if !matches!(self.links[link].phase, Phase::Draining { .. }) {
                self.end_session(now, link, Failure::Lost);
            }
            self.settle_down(now);
        }
    }

    /// Whether [`poll_transmit`](Self::poll_transmit) may have something for this connection.
    #[must_use]
    pub fn wants_transmit(&self, connection: ConnectionId) -> bool {
        let Some(link) = self.link_of(connection) else { return false };
        let Link { sender, tls, .. } = &self.links[link];
        match tls {
            None => sender.wants_transmit(),
            Some(stage) => stage.owed() > 0 || (stage.accepts_plaintext() && sender.wants_transmit()),
        }
    }

    /// Appends what goes out over this connection next, at most 64 requests; whether there was anything. Requests
    /// carry the wait that remains now (`CA-2`). Until [`handle_transmitted`](Self::handle_transmitted) says how
    /// much was taken they count as possibly sent; polling again instead gives the same bytes anew, stamped anew.
    pub fn poll_transmit(&mut self, now: Instant, connection: ConnectionId, out: &mut Vec<u8>) -> bool {
        let now = self.advance(now);
        let Some(link) = self.link_of(connection) else { return false };
        let (acquires, releases) = (&self.acquires, &self.releases);
        let encode = |item, out: &mut Vec<u8>| match item {
            Item::Acquire(owner) => {
                acquires.get(&owner).is_some_and(|acquire| acquire.encode(now, owner, out))
            }
            Item::Release(token) => releases.encode(token, out),
        };
        let Link { sender, tls, .. } = &mut self.links[link];
        let Some(stage) = tls else {
            let offer = sender.offer(now, encode);
            out.extend_from_slice(offer);
            return !offer.is_empty();
        };
        if stage.accepts_plaintext() && sender.wants_transmit() {
            let sealed = stage.seal(sender.offer(now, encode));
            // What is inside TLS is handed out (CA-3).
            sender.handle_transmitted(stage.plain());
            if let Err(error) = sealed {
                self.fail_tls(now, link, error);
            }
        }
        self.links[link].tls.as_mut().is_some_and(|stage| stage.show(out))
    }

    /// How many of the bytes of the latest [`poll_transmit`](Self::poll_transmit) the transport took, 0 included.
    pub fn handle_transmitted(&mut self, now: Instant, connection: ConnectionId, len: usize) {
        let now = self.advance(now);
        let Some(link) = self.link_of(connection) else { return };
        let Link { sender, tls, phase, .. } = &mut self.links[link];
        match tls {
            None => {
                let taken_back = sender.handle_transmitted(len);
                if taken_back > 0 {
                    self.drop_unwanted(link, taken_back);
                    self.settle_down(now);
                }
            }
            Some(stage) => {
                stage.take(len);
                if let Phase::Parting { failure, .. } = *phase
                    && stage.owed() == 0
                {
                    self.events.push_back(Event::ShutdownWrite { connection });
                    self.end_session(now, link, failure);
                    self.settle_down(now);
                }
            }
        }
    }

    pub(super) fn advance(&mut self, now: Instant) -> Instant {
        self.now = self.now.max(now);
        self.now
    }

    fn link_of(&self, connection: ConnectionId) -> Option<usize> {
        self.links.iter().position(|link| link.phase.connection() == Some(connection))
    }

    fn set_phase(&mut self, link: usize, phase: Phase) {
        let link_state = &mut self.links[link];
        link_state.phase = phase;
        self.timers.set(&mut link_state.timer, Timer::Link(link), phase.deadline());
    }

    fn connect(&mut self, link: usize) {
        let connection = ConnectionId::new(self.next_connection);
        self.next_connection += 1;
        self.links[link].sender = Sender::new(self.now);
        self.set_phase(link, Phase::Connecting { id: connection, until: self.now + CONNECT_TIMEOUT });
        self.events.push_back(Event::Connect { connection, address: self.links[link].address });
    }

    fn link_is_due(&mut self, now: Instant, link: usize) {
        match self.links[link].phase {
            Phase::Waiting { .. } => self.connect(link),
            Phase::Connecting { .. } | Phase::Greeting { .. } => {
                self.end_session(now, link, Failure::HandshakeTimeout);
            }
            Phase::Draining { failure, .. } | Phase::Parting { failure, .. } => {
                self.end_session(now, link, failure);
            }
            Phase::Ready { .. } | Phase::Stopped => {}
        }
    }

    fn handle_challenge(&mut self, now: Instant, link: usize, nonce: &[u8]) {
        let Phase::Greeting { id, .. } = self.links[link].phase else { return };
        let mut response = respond(&self.secret, nonce).to_vec();
        response.push(b'\n');
        self.links[link].sender.push_head(&response);
        self.links[link].failure = None;
        self.stats.sessions += 1;
        self.set_phase(link, Phase::Ready { id, since: now });
        self.events.push_back(Event::Ready);
    }

    fn handle_reply(&mut self, now: Instant, link: usize, reply: Reply<'_>) {
        let failure = match reply {
            Reply::Acquired { token, owner, key } => self.handle_acquired(now, link, token, owner, key),
            Reply::TimedOut { owner, key } => self.handle_refused(link, owner, key, Refusal::Timeout),
            Reply::Busy { owner, key } => self.handle_refused(link, owner, key, Refusal::Busy),
            Reply::Released { token, key } => self.handle_released(link, token, key, Released::Released),
            Reply::NotHeld { token, key } => self.handle_released(link, token, key, Released::NotHeld),
            Reply::LeaderChanged { leader } => {
                self.set_leader(leader);
                Ok(())
            }
            Reply::Moved { leader } => {
                self.set_leader(Some(leader));
                Err(Failure::Redirected)
            }
            Reply::Error(Reason::NotActive | Reason::NoLeader) => Err(Failure::Redirected),
            Reply::Error(Reason::AuthFailed) => Err(Failure::Auth),
            Reply::Error(reason) => self.handle_rejected(link, reason),
        };
        match failure {
            Ok(()) => {}
            Err(failure) => {
                if matches!(failure, Failure::Redirected | Failure::Auth) {
                    self.take_back_unanswered(now, link);
                }
                self.end_session(now, link, failure);
            }
        }
        self.end_idle_drain(now, link);
    }

    /// `CC-2`: only a configured address can be gone to; any other clears what was known.
    fn set_leader(&mut self, leader: Option<&str>) {
        self.leader = leader
            .and_then(|leader| self.addresses.iter().position(|known| known.eq_ignore_ascii_case(leader)));
    }

    /// Writing ends now; what the server had under way is read for a while (`CA-5`, `CA-9`).
    pub(super) fn drain(&mut self, now: Instant, link: usize, failure: Failure) {
        let Phase::Ready { id, .. } = self.links[link].phase else { return };
        let is_failed = self.links[link].counts_as_failed(now, failure);
        self.give_back_unsent(link);
        // Inside TLS without close_notify, of which TR-12 makes nothing: reading goes on, and a stage that said it
        // could not send an alert if what is read is broken.
        if let Some(stage) = &mut self.links[link].tls {
            stage.abandon_output();
        }
        self.events.push_back(Event::ShutdownWrite { connection: id });
        self.set_phase(link, Phase::Draining { id, until: now + DRAIN_TIMEOUT, failure, is_failed });
        self.end_idle_drain(now, link);
    }

    /// TLS has failed: its alert goes out, and nothing else ever will.
    fn fail_tls(&mut self, now: Instant, link: usize, error: TlsError) {
        let failure = Failure::Tls(error);
        if !self.part(now, link, failure) {
            self.end_session(now, link, failure);
        }
    }

    /// Begins to end a connection of which TLS still has something to send. Whether it has.
    fn part(&mut self, now: Instant, link: usize, failure: Failure) -> bool {
        let state = &self.links[link];
        let (Phase::Greeting { id, .. } | Phase::Ready { id, .. }) = state.phase else { return false };
        if state.tls.as_ref().is_none_or(|stage| stage.owed() == 0) {
            return false;
        }
        let is_failed = state.counts_as_failed(now, failure);
        self.give_back_unsent(link);
        self.set_phase(link, Phase::Parting { id, until: now + PARTING_TIMEOUT, failure, is_failed });
        true
    }

    fn end_idle_drain(&mut self, now: Instant, link: usize) {
        if let Phase::Draining { failure, .. } = self.links[link].phase
            && !self.links[link].sender.has_unanswered()
        {
            self.end_session(now, link, failure);
        }
    }

    pub(super) fn give_back_unsent(&mut self, link: usize) {
        let unsent: Vec<_> = self.links[link].sender.shut().collect();
        for item in unsent {
            match item {
                Item::Acquire(owner) => self.place(owner, Place::Pending),
                Item::Release(token) => self.send_release_again(token),
            }
        }
    }

    /// The connection is over: what it may have carried is unknown, what it has not is free to go elsewhere.
    pub(super) fn end_session(&mut self, now: Instant, link: usize, failure: Failure) {
        let Some(connection) = self.links[link].phase.connection() else { return };
        let failure = match self.links[link].phase {
            Phase::Draining { failure, .. } | Phase::Parting { failure, .. } => failure,
            _ => failure,
        };
        self.give_back_unsent(link);
        let sent: Vec<_> = self.links[link].sender.take_sent().collect();
        for item in sent {
            match item {
                Item::Acquire(owner) => self.lose(owner),
                Item::Release(token) => self.send_release_again(token),
            }
        }
        let is_failed = self.links[link].counts_as_failed(now, failure);
        let state = &mut self.links[link];
        state.reader = None;
        state.tls = None;
        state.failure = Some(failure);
        state.failures = if is_failed { state.failures.saturating_add(1) } else { 0 };
        self.stats.failed_sessions += u64::from(is_failed);
        let pause = state.backoff(failure, self.jitter.next());
        self.events.push_back(Event::Disconnect { connection, failure });
        if self.close == Closing::Parting {
            return self.set_phase(link, Phase::Stopped);
        }
        self.set_phase(link, Phase::Waiting { until: now + pause });
        if failure == Failure::Auth {
            self.fail_refused();
        }
    }

    /// Whether every connection was refused, so that none can carry an acquire (`CC-3`).
    pub(super) fn is_refused(&self) -> bool {
        self.links.iter().all(Link::is_refused)
    }

    /// Where the next request goes (`CC-2`).
    pub(super) fn route(&mut self) -> Option<usize> {
        if let Some(leader) = self.leader {
            let to_leader = |link: &Link| link.address == leader;
            let ready = self.links.iter().position(|link| to_leader(link) && link.is_ready());
            if ready.is_some() || self.links.iter().any(|link| to_leader(link) && link.is_coming()) {
                return ready;
            }
        }
        let count = self.links.len();
        let next =
            (0..count).map(|step| (self.turn + step) % count).find(|&link| self.links[link].is_ready())?;
        self.turn = next + 1;
        Some(next)
    }

    /// The end of each input: what can go somewhere goes, and a closing client sees whether it is done.
    pub(super) fn settle_down(&mut self, now: Instant) {
        self.admit_held_back();
        self.dispatch_releases();
        self.dispatch_acquires();
        if matches!(self.close, Closing::Until(_))
            && self.tickets.is_empty()
            && self.releases.len() == 0
            && self.acquires.values().all(Acquire::is_over)
        {
            self.finish(now, true);
        }
        if self.close == Closing::Parting && self.links.iter().all(|link| link.phase == Phase::Stopped) {
            self.close = Closing::Done;
            self.events.push_back(Event::Closed);
        }
    }

    /// Ends all connections. With time left, those inside TLS say so.
    fn finish(&mut self, now: Instant, has_time: bool) {
        let Closing::Until(until) = self.close else { return };
        self.timers.set(&mut Some(until), Timer::Close, None);
        self.close = Closing::Parting;
        self.give_releases_up();
        for link in 0..self.links.len() {
            let Some(connection) = self.links[link].phase.connection() else {
                self.set_phase(link, Phase::Stopped);
                continue;
            };
            if has_time && self.links[link].is_ready() {
                if let Some(stage) = &mut self.links[link].tls {
                    stage.close();
                }
                if self.part(now, link, Failure::Closed) {
                    continue;
                }
            }
            self.events.push_back(Event::ShutdownWrite { connection });
            self.end_session(now, link, Failure::Closed);
        }
        self.give_releases_up();
    }
}

/// A certain answer that grants nothing (`CA-8`).
#[derive(Clone, Copy, Debug)]
pub(super) enum Refusal {
    Timeout,
    Busy,
}
