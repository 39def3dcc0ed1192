//! A small client that knows the protocol and nothing of the suite or of the core. It can be broken in one way at a
//! time; [`Fault::None`] is right.

mod calls;
mod sessions;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use crate::faults::Fault;
use crate::wire::{self, Bad, Incoming};

/// Gets the outcome of a call, once.
pub(crate) type Done = Box<dyn FnOnce(Outcome) + Send>;

/// How a call ended: a name of the table of results, and a ticket if there is one.
#[derive(Clone, Default, Debug)]
pub(crate) struct Outcome {
    pub(crate) result: &'static str,
    pub(crate) ticket: Option<(u64, Duration)>,
    pub(crate) field: Option<(&'static str, u64)>,
    pub(crate) rule: Option<(&'static str, Option<usize>)>,
}

impl From<&'static str> for Outcome {
    fn from(result: &'static str) -> Self {
        Self { result, ..Self::default() }
    }
}

/// What happened outside of the client's thread.
pub(crate) enum Input {
    Command(String),
    Connected { link: usize, session: u64, stream: Option<TcpStream> },
    Data { link: usize, session: u64, data: Vec<u8> },
    NoMoreCommands,
}

/// What an acquire asks for, in milliseconds.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) key: String,
    pub(crate) budget: u64,
    pub(crate) wait: u64,
    pub(crate) lease: u64,
    pub(crate) grace: u64,
    pub(crate) may_wait: bool,
}

struct Acquire {
    key: Vec<u8>,
    wait: u64,
    lease: u64,
    budget: Duration,
    grace: Duration,
    called_at: Instant,
    deadline: Instant,
    /// None for a ghost.
    done: Option<Done>,
    link: Option<usize>,
    sent_at: Instant,
    not_before: Option<Instant>,
    pauses: u32,
}

struct Release {
    key: Vec<u8>,
    deadline: Instant,
    done: Option<Done>,
    link: Option<usize>,
    not_before: Option<Instant>,
    pauses: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Waiting,
    Connecting,
    Greeting,
    Ready,
    Draining,
    Closed,
}

struct Link {
    address: usize,
    phase: Phase,
    until: Option<Instant>,
    session: u64,
    stream: Option<TcpStream>,
    input: Vec<u8>,
    since: Instant,
    failures: u32,
    failure: &'static str,
}

pub(crate) struct Client {
    fault: Fault,
    addresses: Vec<String>,
    token: Vec<u8>,
    max_in_flight: usize,
    links: Vec<Link>,
    next_owner: u64,
    acquires: BTreeMap<u64, Acquire>,
    releases: BTreeMap<u64, Release>,
    tickets: BTreeMap<u64, Vec<u8>>,
    leader: Option<usize>,
    turns: usize,
    closing_until: Option<Instant>,
    when_closed: Option<Done>,
    is_closed: bool,
    inbox: Sender<Input>,
}

impl Client {
    pub(crate) fn new(
        fault: Fault,
        addresses: Vec<String>,
        token: &str,
        max_in_flight: usize,
        inbox: Sender<Input>,
    ) -> Self {
        let each = if addresses.len() == 1 && fault != Fault::OneConnection { 2 } else { 1 };
        let links =
            (0..addresses.len()).flat_map(|address| std::iter::repeat_n(address, each)).map(Link::new);
        Self {
            fault,
            links: links.collect(),
            addresses,
            token: token.as_bytes().to_vec(),
            max_in_flight,
            next_owner: if fault == Fault::OwnersFromZero { 0 } else { 1 },
            acquires: BTreeMap::new(),
            releases: BTreeMap::new(),
            tickets: BTreeMap::new(),
            leader: None,
            turns: 0,
            closing_until: None,
            when_closed: None,
            is_closed: false,
            inbox,
        }
    }

    fn is(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    // The loop.

    /// Waits for one input at least and takes all that there are; `None` when nobody commands any more.
    pub(crate) fn turn(&mut self, inputs: &Receiver<Input>) -> Option<Vec<String>> {
        let mut commands = Vec::new();
        let first = match inputs.recv_timeout(self.time_left()) {
            Ok(input) => Some(input),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return None,
        };
        for input in first.into_iter().chain(inputs.try_iter()) {
            match input {
                Input::Command(line) => commands.push(line),
                Input::NoMoreCommands => return None,
                Input::Connected { link, session, stream } => self.connected(link, session, stream),
                Input::Data { link, session, data } => {
                    if self.links[link].session == session && self.links[link].stream.is_some() {
                        self.received(link, &data);
                    }
                }
            }
        }
        Some(commands)
    }

    /// What follows from what has come and from the time.
    pub(crate) fn settle(&mut self) {
        self.keep_deadlines(Instant::now());
        self.send_all();
        self.end_close();
    }

    fn time_left(&self) -> Duration {
        let links = self.links.iter().filter_map(|link| link.until);
        let acquires = self.acquires.values().flat_map(|it| {
            let deadline = it.deadline + if it.link.is_some() { it.grace } else { Duration::ZERO };
            [Some(deadline), it.not_before.filter(|_| it.link.is_none())].into_iter().flatten()
        });
        let releases = self.releases.values().flat_map(|it| {
            [Some(it.deadline), it.not_before.filter(|_| it.link.is_none())].into_iter().flatten()
        });
        let close = self.closing_until.filter(|_| !self.is_closed);
        let next = links.chain(acquires).chain(releases).chain(close).min();
        next.map_or(Duration::from_secs(1), |next| next.saturating_duration_since(Instant::now()))
    }

    fn keep_deadlines(&mut self, now: Instant) {
        let owners: Vec<_> = self.acquires.keys().copied().collect();
        for owner in owners {
            let Some(acquire) = self.acquires.get_mut(&owner) else { continue };
            let grace = if self.fault == Fault::GraceForUnsent { acquire.grace } else { Duration::ZERO };
            match acquire.link {
                None if now >= acquire.deadline + grace => {
                    let why = self.why_unsent();
                    self.end(owner, why);
                }
                Some(link) if now >= acquire.deadline + acquire.grace => self.overdue(owner, link),
                _ => {}
            }
        }
        let overdue = self.releases.iter().filter(|(_, release)| now >= release.deadline);
        for token in overdue.map(|(&token, _)| token).collect::<Vec<_>>() {
            if let Some(done) = self.releases.remove(&token).and_then(|release| release.done) {
                let hopeful = self.is(Fault::SilenceIsReleased);
                done(if hopeful { "released" } else { "unconfirmed" }.into());
            }
        }
        for link in 0..self.links.len() {
            if self.links[link].until.is_some_and(|until| now >= until) {
                match self.links[link].phase {
                    Phase::Waiting => self.connect(link),
                    Phase::Draining => self.end_session(link, self.links[link].failure),
                    _ if self.is(Fault::WaitsForSilentServers) => self.links[link].until = None,
                    _ => self.end_session(link, "handshake"),
                }
            }
        }
    }

    fn overdue(&mut self, owner: u64, link: usize) {
        let hopeful = self.is(Fault::OverdueIsTimeout);
        let Some(acquire) = self.acquires.get_mut(&owner) else { return };
        if let Some(done) = acquire.done.take() {
            done(if hopeful { "timeout" } else { "indeterminate" }.into());
        }
        match self.fault {
            Fault::KeepsOverdueConnections => _ = self.acquires.remove(&owner),
            Fault::ClosesWithoutReading => {
                self.acquires.remove(&owner);
                self.end_session(link, "overdue");
            }
            Fault::ClosesEveryConnection => {
                (0..self.links.len()).for_each(|link| self.drain(link, "overdue"));
            }
            _ => self.drain(link, "overdue"),
        }
    }

    fn why_unsent(&self) -> &'static str {
        if self.links.iter().any(|link| link.phase == Phase::Ready) {
            return "timeout";
        }
        let has_failed = |failure: &&str| self.links.iter().any(|link| link.failure == *failure);
        ["auth", "protocol"].into_iter().find(has_failed).unwrap_or("timeout")
    }

    fn end(&mut self, owner: u64, outcome: impl Into<Outcome>) {
        if let Some(done) = self.acquires.remove(&owner).and_then(|acquire| acquire.done) {
            done(outcome.into());
        }
    }

    fn end_close(&mut self) {
        let Some(until) = self.closing_until.filter(|_| !self.is_closed) else { return };
        let is_idle = self.acquires.is_empty() && self.releases.is_empty() && self.tickets.is_empty();
        if !is_idle && Instant::now() < until {
            return;
        }
        self.is_closed = true;
        for (_, release) in std::mem::take(&mut self.releases) {
            if let Some(done) = release.done {
                done("unconfirmed".into());
            }
        }
        for link in &mut self.links {
            link.hang_up();
            (link.phase, link.until) = (Phase::Closed, None);
        }
        if let Some(done) = self.when_closed.take() {
            done("closed".into());
        }
    }

    // Sending.

    fn route(&mut self) -> Option<usize> {
        let is_ready = |link: &Link| link.phase == Phase::Ready;
        if let Some(leader) = self.leader.filter(|_| !self.is(Fault::IgnoresTheLeader)) {
            let at_leader = |link: &Link| link.address == leader;
            let ready = self.links.iter().position(|link| at_leader(link) && is_ready(link));
            let is_coming = |link: &Link| {
                at_leader(link)
                    && link.failures == 0
                    && matches!(link.phase, Phase::Connecting | Phase::Greeting)
            };
            if ready.is_some() || self.links.iter().any(is_coming) {
                return ready;
            }
        }
        let ready: Vec<_> = (0..self.links.len()).filter(|&link| is_ready(&self.links[link])).collect();
        self.turns += 1;
        (!ready.is_empty()).then(|| ready[self.turns % ready.len()])
    }

    fn send_all(&mut self) {
        if self.is(Fault::AcquiresFirst) {
            self.send_acquires();
            self.send_releases();
        } else {
            self.send_releases();
            self.send_acquires();
        }
    }

    fn send_releases(&mut self) {
        let now = Instant::now();
        let unsent: Vec<_> = self
            .releases
            .iter()
            .filter(|(_, release)| release.link.is_none())
            .map(|(&token, _)| token)
            .collect();
        for token in unsent {
            let Some(release) = self.releases.get_mut(&token) else { continue };
            if !is_over(&mut release.not_before, now) {
                continue;
            }
            let frame = wire::release(token, &release.key);
            let Some(link) = self.route() else { continue };
            if self.send(link, &frame)
                && let Some(release) = self.releases.get_mut(&token)
            {
                release.link = Some(link);
            }
        }
    }

    fn send_acquires(&mut self) {
        let in_flight: Vec<_> = self.acquires.keys().copied().take(self.max_in_flight).collect();
        for owner in in_flight {
            let now = Instant::now();
            let Some(acquire) = self.acquires.get_mut(&owner) else { continue };
            let is_due = acquire.link.is_none() && now < acquire.deadline;
            if !is_due || !is_over(&mut acquire.not_before, now) {
                continue;
            }
            let left = acquire.deadline - now;
            let wait = match self.fault {
                _ if acquire.wait == 0 => 0,
                Fault::StampsAtTheCall => acquire.wait,
                Fault::StampIsRoundedDown => left.as_secs(),
                _ => left.as_secs() + u64::from(left.subsec_nanos() > 0),
            };
            let shown = if self.fault == Fault::OneOwnerForAll { 7 } else { owner };
            let frame = wire::acquire(wait as u8, acquire.lease as u8, shown, &acquire.key);
            let Some(link) = self.route() else { continue };
            if self.send(link, &frame)
                && let Some(acquire) = self.acquires.get_mut(&owner)
            {
                acquire.link = Some(link);
                acquire.sent_at = now;
            }
        }
    }

    fn send(&mut self, link: usize, bytes: &[u8]) -> bool {
        let written =
            self.links[link].stream.as_ref().is_some_and(|mut stream| stream.write_all(bytes).is_ok());
        if !written {
            self.drain(link, "lost");
        }
        written
    }

    // Receiving.

    fn received(&mut self, link: usize, data: &[u8]) {
        if data.is_empty() {
            return self.end_session(link, "lost");
        }
        self.links[link].input.extend(data);
        let session = self.links[link].session;
        while self.links[link].session == session && self.links[link].stream.is_some() {
            match self.next_message(link) {
                Ok(true) => {}
                Ok(false) => break,
                Err(Bad) if self.is(Fault::GoesOnBehindBadFrames) => {
                    let input = &mut self.links[link].input;
                    let Some(end) = input.iter().position(|&byte| byte == b'\n') else { break };
                    input.drain(..=end);
                }
                Err(Bad) => self.end_session(link, "protocol"),
            }
        }
        self.end_idle_drain(link);
    }

    fn next_message(&mut self, link: usize) -> Result<bool, Bad> {
        if self.links[link].phase == Phase::Greeting {
            let answers_all = self.is(Fault::AnswersAnyChallenge);
            let Some(nonce) = wire::challenge(&mut self.links[link].input, answers_all)? else {
                return Ok(false);
            };
            let answer = match self.fault {
                Fault::WrongResponse => wire::response(&self.token, b""),
                _ => wire::response(&self.token, &nonce),
            };
            let state = &mut self.links[link];
            (state.phase, state.until, state.since, state.failure) = (Phase::Ready, None, Instant::now(), "");
            if self.is(Fault::ForgivesShortSessions) {
                self.links[link].failures = 0;
            }
            self.send(link, &answer);
            return Ok(true);
        }
        let by_count = !self.is(Fault::LooksForLfInHeaders);
        match wire::reply(&mut self.links[link].input, by_count)? {
            Some(reply) => self.handle(link, reply).map(|()| true),
            None => Ok(false),
        }
    }

    /// The request that an answer fits.
    fn correlated(&self, link: usize, owner: u64, key: &[u8]) -> Option<u64> {
        let is_ours = |it: &Acquire| it.link == Some(link) && it.key == key;
        match self.fault {
            Fault::OneOwnerForAll => {
                self.acquires.iter().find(|(_, it)| is_ours(it)).map(|(&owner, _)| owner)
            }
            _ => self.acquires.get(&owner).is_some_and(is_ours).then_some(owner),
        }
    }

    fn handle(&mut self, link: usize, reply: Incoming) -> Result<(), Bad> {
        match reply {
            Incoming::Acquired { token, owner, key } => return self.granted(link, token, owner, &key),
            Incoming::Answer { result, owner, key } => {
                let owner = self.correlated(link, owner, &key).ok_or(Bad)?;
                self.end(owner, if self.is(Fault::BusyIsTimeout) { "timeout" } else { result });
            }
            Incoming::Released { result, token, key } => {
                let is_ours = |it: &Release| it.link == Some(link) && it.key == key;
                if self.releases.get(&token).is_some_and(is_ours)
                    && let Some(done) = self.releases.remove(&token).and_then(|release| release.done)
                {
                    done(result.into());
                }
            }
            Incoming::Leader { leader, is_moved } => {
                self.leader = leader.as_ref().and_then(|leader| {
                    self.addresses.iter().position(|known| known.eq_ignore_ascii_case(leader))
                });
                if self.is(Fault::FollowsStrangers)
                    && self.leader.is_none()
                    && let Some(stranger) = leader
                {
                    self.addresses.push(stranger);
                    self.leader = Some(self.addresses.len() - 1);
                    self.links.push(Link::new(self.addresses.len() - 1));
                }
                if is_moved {
                    self.redirected(link, "redirected");
                }
            }
            Incoming::Error(reason) => return self.failed(link, &reason),
        }
        Ok(())
    }

    fn granted(&mut self, link: usize, token: u64, owner: u64, key: &[u8]) -> Result<(), Bad> {
        let Some(owner) = self.correlated(link, owner, key) else {
            if !self.tickets.contains_key(&token) && !self.is(Fault::ForgetsGhosts) {
                self.give_back(key, token, None);
            }
            return if self.is(Fault::ForgetsGhosts) { Ok(()) } else { Err(Bad) };
        };
        let acquire = &self.acquires[&owner];
        let now = Instant::now();
        let lease = Duration::from_secs(acquire.lease);
        let from = match self.fault {
            Fault::LeaseFromTheGrant => now,
            Fault::LeaseFromTheCall => acquire.called_at,
            _ => acquire.sent_at,
        };
        let drift = if self.is(Fault::TrustsClocks) { Duration::ZERO } else { lease / 1000 };
        let left = (from + lease - drift).saturating_duration_since(now);
        let is_late = now >= acquire.deadline && !self.is(Fault::LateGrantIsATicket);
        let is_enough = (left >= acquire.budget && !left.is_zero()) || self.is(Fault::IgnoresTheBudget);
        if acquire.done.is_some() && !is_late && is_enough {
            self.tickets.insert(token, key.to_vec());
            self.end(owner, Outcome { ticket: Some((token, left)), ..Outcome::from("ticket") });
            return Ok(());
        }
        if !self.is(Fault::KeepsLateGrants) {
            self.give_back(key, token, None);
        }
        self.end(owner, if is_late { "indeterminate" } else { "insufficient_lease" });
        Ok(())
    }

    fn failed(&mut self, link: usize, reason: &str) -> Result<(), Bad> {
        if matches!(reason, "not_active" | "no_leader" | "auth_failed") {
            self.redirected(link, if reason == "auth_failed" { "auth" } else { "redirected" });
            return Ok(());
        }
        let acquires = self.acquires.iter().filter(|(_, it)| it.link == Some(link));
        let owners: Vec<_> = acquires.map(|(&owner, _)| owner).collect();
        let is_alone = owners.len() == 1 && !self.releases.values().any(|it| it.link == Some(link));
        let is_correlated = is_alone && matches!(reason, "bad_key" | "bad_lease");
        match owners.first() {
            Some(&owner) if is_correlated || self.is(Fault::GuessesWhoseError) => {
                self.end(owner, "rejected");
                Ok(())
            }
            _ => Err(Bad),
        }
    }

    fn is_refused(&self) -> bool {
        self.links.iter().all(|link| link.failure == "auth")
    }
}

/// Whether a pause is over; then it is forgotten.
fn is_over(not_before: &mut Option<Instant>, now: Instant) -> bool {
    *not_before = not_before.filter(|&moment| moment > now);
    not_before.is_none()
}

impl Link {
    fn new(address: usize) -> Self {
        let now = Instant::now();
        Self {
            address,
            phase: Phase::Waiting,
            until: Some(now),
            session: 0,
            stream: None,
            input: Vec::new(),
            since: now,
            failures: 0,
            failure: "",
        }
    }

    fn hang_up(&mut self) {
        if let Some(stream) = self.stream.take() {
            // It may be over already.
            _ = stream.shutdown(Shutdown::Both);
        }
    }
}
