//! Holds, queues and gates, in the plainest way.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use ticketing_conformance::server::Limits;

use crate::fault::Fault;

/// A connection's number.
pub(crate) type Id = usize;

pub(crate) struct Acquire {
    pub(crate) connection: Id,
    pub(crate) owner: u64,
    pub(crate) key: Vec<u8>,
    pub(crate) wait: Duration,
    pub(crate) lease: Duration,
}

/// The answer to an acquire, now or later.
pub(crate) enum Answer {
    Acquired(u64),
    TimedOut,
    Busy,
}

struct Hold {
    token: u64,
    owner: u64,
    connection: Id,
    deadline: Instant,
    /// It was released, and whoever comes first takes it.
    is_up_for_grabs: bool,
    queue: VecDeque<Waiter>,
}

struct Waiter {
    acquire: Acquire,
    since: Instant,
    deadline: Instant,
    /// It got `T` and should not be here any more.
    is_answered: bool,
}

/// Closes at 90 %, opens below 75 %.
#[derive(Default)]
struct Gate {
    is_closed: bool,
}

impl Gate {
    fn look(&mut self, usage: usize, limit: Option<u32>, fault: Option<Fault>) -> bool {
        let Some(limit) = limit.map(|limit| limit as usize) else { return false };
        if fault == Some(Fault::NoGateBeforeLimit) {
            return usage >= limit;
        }
        if usage * 10 >= limit * 9 {
            self.is_closed = true;
        } else if fault == Some(Fault::GateOpensAtOnce)
            || (usage * 4 < limit * 3 && (fault != Some(Fault::GateStaysClosed) || usage == 0))
        {
            self.is_closed = false;
        }
        self.is_closed
    }
}

pub(crate) struct Table {
    fault: Option<Fault>,
    limits: Limits,
    holds: BTreeMap<Vec<u8>, Hold>,
    next_token: u64,
    tokens_of_keys: BTreeMap<Vec<u8>, u64>,
    /// Deadlines that nobody takes out when their hold is released.
    stale_deadlines: Vec<(Instant, Vec<u8>)>,
    waiters: usize,
    keys_gate: Gate,
    waiters_gate: Gate,
    acquires_gate: Gate,
    answers: Vec<(Acquire, Answer)>,
}

impl Table {
    pub(crate) fn new(fault: Option<Fault>, limits: Limits) -> Self {
        Self {
            fault,
            limits,
            holds: BTreeMap::new(),
            next_token: 1 << 40,
            tokens_of_keys: BTreeMap::new(),
            stale_deadlines: Vec::new(),
            waiters: 0,
            keys_gate: Gate::default(),
            waiters_gate: Gate::default(),
            acquires_gate: Gate::default(),
            answers: Vec::new(),
        }
    }

    /// What was answered since the last time.
    pub(crate) fn take_answers(&mut self) -> Vec<(Acquire, Answer)> {
        std::mem::take(&mut self.answers)
    }

    /// `in_flight` counts the acquires of its connection that wait.
    pub(crate) fn acquire(&mut self, now: Instant, acquire: Acquire, in_flight: usize) {
        self.expire(now, Some(&acquire.key));
        let answer = self.judge(now, &acquire, in_flight);
        if let Some(answer) = answer {
            self.answers.push((acquire, answer));
            return;
        }
        let wait = match self.fault {
            Some(Fault::TimesOutEarly) => acquire.wait.saturating_sub(Duration::from_millis(500)),
            Some(Fault::Wait0Queues) => acquire.wait.max(Duration::from_secs(2)),
            _ => acquire.wait,
        };
        if let Some(hold) = self.holds.get_mut(&acquire.key) {
            hold.queue.push_back(Waiter { acquire, since: now, deadline: now + wait, is_answered: false });
            self.waiters += 1;
        }
        self.look_at_gates();
    }

    fn judge(&mut self, now: Instant, acquire: &Acquire, in_flight: usize) -> Option<Answer> {
        let is_full = self.limits.per_connection.is_some_and(|limit| in_flight >= limit as usize);
        if is_full && self.fault != Some(Fault::NoLimitPerConnection) {
            return Some(Answer::Busy);
        }
        let [keys, waiters, acquires] = self.look_at_gates();
        if acquires {
            return Some(Answer::Busy);
        }
        let Some(hold) = self.holds.get_mut(&acquire.key) else {
            if keys {
                return Some(Answer::Busy);
            }
            let token = self.hold(acquire, now);
            return Some(Answer::Acquired(token));
        };
        if hold.is_up_for_grabs {
            let token = self.hold(acquire, now);
            return Some(Answer::Acquired(token));
        }
        if hold.owner == acquire.owner {
            match self.fault {
                Some(Fault::SameOwnerSameToken) => return Some(Answer::Acquired(hold.token)),
                Some(Fault::RenewsForOwner) => hold.deadline = now + acquire.lease,
                _ => {}
            }
        }
        if acquire.wait.is_zero() && self.fault != Some(Fault::Wait0Queues) {
            return Some(Answer::TimedOut);
        }
        let extra = usize::from(self.fault == Some(Fault::OneWaiterTooMany));
        let is_queue_full =
            self.limits.per_key.is_some_and(|limit| hold.queue.len() >= limit as usize + extra);
        (waiters || is_queue_full).then_some(Answer::Busy)
    }

    /// Whether the gates for keys, for waiters and for all acquires are closed.
    fn look_at_gates(&mut self) -> [bool; 3] {
        let Limits { keys, waiters, in_flight, .. } = self.limits;
        [
            self.keys_gate.look(self.holds.len(), keys, self.fault),
            self.waiters_gate.look(self.waiters, waiters, self.fault),
            self.acquires_gate.look(self.waiters, in_flight, self.fault),
        ]
    }

    fn hold(&mut self, acquire: &Acquire, lease_from: Instant) -> u64 {
        let token = self.token(&acquire.key);
        let early = match self.fault {
            Some(Fault::ExpiresEarly) => Duration::from_millis(500),
            _ => Duration::ZERO,
        };
        let deadline = lease_from + acquire.lease - early;
        let queue = match self.holds.remove(&acquire.key) {
            Some(hold) => hold.queue,
            None => VecDeque::new(),
        };
        let hold = Hold {
            token,
            owner: acquire.owner,
            connection: acquire.connection,
            deadline,
            is_up_for_grabs: false,
            queue,
        };
        self.holds.insert(acquire.key.clone(), hold);
        self.look_at_gates();
        token
    }

    fn token(&mut self, key: &[u8]) -> u64 {
        let counter = match self.fault {
            Some(Fault::TokensPerKey) => self.tokens_of_keys.entry(key.to_vec()).or_insert(1 << 40),
            _ => &mut self.next_token,
        };
        *counter += 1;
        // The cases that are not about line feeds must get through.
        while self.fault == Some(Fault::LineFeedInHeader) && counter.to_be_bytes().contains(&b'\n') {
            *counter += 1;
        }
        *counter
    }

    /// Whether the hold was this token's, and is over now.
    pub(crate) fn release(&mut self, now: Instant, connection: Id, token: u64, key: &[u8]) -> bool {
        self.expire(now, Some(key));
        let Some(hold) = self.holds.get_mut(key) else {
            return self.fault == Some(Fault::ReleasesTwice) && token > 1 << 40;
        };
        let is_allowed = match self.fault {
            Some(Fault::ReleasesWithoutToken) => true,
            Some(Fault::ReleasesOnlyForHolder) => hold.token == token && hold.connection == connection,
            _ => hold.token == token,
        };
        if !is_allowed {
            return false;
        }
        if self.fault == Some(Fault::ForgetsNoDeadline) {
            self.stale_deadlines.push((hold.deadline, key.to_vec()));
        }
        if self.fault == Some(Fault::LetsOthersOvertake) && !hold.queue.is_empty() {
            hold.is_up_for_grabs = true;
            hold.deadline = now + Duration::from_millis(20);
        } else {
            self.end_hold(now, key);
        }
        true
    }

    /// The first waiter's turn, or nobody's.
    fn end_hold(&mut self, now: Instant, key: &[u8]) {
        let Some(hold) = self.holds.get_mut(key) else { return };
        let next = match self.fault {
            Some(Fault::ServesLastFirst) => hold.queue.pop_back(),
            _ => hold.queue.pop_front(),
        };
        let Some(Waiter { acquire, since, .. }) = next else {
            self.holds.remove(key);
            self.look_at_gates();
            return;
        };
        self.waiters -= 1;
        let lease_from = if self.fault == Some(Fault::LeaseFromRequest) { since } else { now };
        let token = self.hold(&acquire, lease_from);
        self.answers.push((acquire, Answer::Acquired(token)));
    }

    /// Ends what is over, of one key or of all.
    pub(crate) fn expire(&mut self, now: Instant, key: Option<&[u8]>) {
        let keys: Vec<_> = match key {
            Some(key) => self.holds.contains_key(key).then(|| key.to_vec()).into_iter().collect(),
            None => self.holds.keys().cloned().collect(),
        };
        for name in keys {
            self.expire_key(now, &name, key.is_some());
        }
        let (stale, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.stale_deadlines).into_iter().partition(|(at, _)| *at <= now);
        self.stale_deadlines = rest;
        for (_, key) in stale {
            self.end_hold(now, &key);
        }
    }

    fn expire_key(&mut self, now: Instant, key: &[u8], is_touched: bool) {
        let fault = self.fault;
        let late = |hold: &Hold| match fault {
            Some(Fault::ExpiresLate) => Duration::from_secs(5),
            Some(Fault::ExpiresLateWithoutWaiters) if hold.queue.is_empty() => Duration::from_secs(5),
            Some(Fault::CountsExpiredKeys) if hold.queue.is_empty() && !is_touched => Duration::from_secs(8),
            _ => Duration::ZERO,
        };
        while self.holds.get(key).is_some_and(|hold| hold.deadline + late(hold) <= now) {
            self.end_hold(now, key);
        }
        let Some(hold) = self.holds.get_mut(key) else { return };
        let keeps = fault == Some(Fault::GrantsAfterTimeout);
        let mut left = VecDeque::new();
        for mut waiter in hold.queue.drain(..) {
            if waiter.deadline > now || waiter.is_answered {
                left.push_back(waiter);
            } else if keeps {
                let Acquire { connection, owner, wait, lease, ref key } = waiter.acquire;
                let answered = Acquire { connection, owner, key: key.clone(), wait, lease };
                self.answers.push((answered, Answer::TimedOut));
                waiter.is_answered = true;
                left.push_back(waiter);
            } else {
                self.waiters -= 1;
                self.answers.push((waiter.acquire, Answer::TimedOut));
            }
        }
        hold.queue = left;
        self.look_at_gates();
    }

    /// When something is over next.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let waits = |hold: &Hold| {
            hold.queue.iter().filter(|waiter| !waiter.is_answered).map(|waiter| waiter.deadline).min()
        };
        let of_holds = self.holds.values().flat_map(|hold| [Some(hold.deadline), waits(hold)]).flatten();
        of_holds.chain(self.stale_deadlines.iter().map(|(at, _)| *at)).min()
    }

    /// A connection has ended: its waiters leave. Grants whose replies it never got are given back.
    pub(crate) fn disconnect(&mut self, now: Instant, connection: Id, undelivered: &[(Vec<u8>, u64)]) {
        if self.fault != Some(Fault::KeepsClosedWaiters) {
            for hold in self.holds.values_mut() {
                let before = hold.queue.len();
                hold.queue.retain(|waiter| waiter.acquire.connection != connection);
                self.waiters -= before - hold.queue.len();
            }
        }
        for (key, token) in undelivered {
            if self.holds.get(key).is_some_and(|hold| hold.token == *token) {
                self.end_hold(now, key);
            }
        }
        if self.fault == Some(Fault::HoldsEndWithConnection) {
            let held: Vec<_> = self
                .holds
                .iter()
                .filter(|(_, hold)| hold.connection == connection)
                .map(|(key, _)| key.clone())
                .collect();
            for key in held {
                self.end_hold(now, &key);
            }
        }
        self.look_at_gates();
    }
}
