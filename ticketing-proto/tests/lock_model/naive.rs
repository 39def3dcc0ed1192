//! The lock table as one would write it without a thought for speed: every question is a search.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use ticketing_proto::id::{ConnectionId, Owner, Token};
use ticketing_proto::key::Key;
use ticketing_proto::limits::{Lease, Limits, Wait};
use ticketing_proto::lock::{Answer, GateUsage, Outcome, TokenRange, Usage, Verdict};
use ticketing_proto::time::Instant;

#[derive(Debug)]
pub(crate) struct Naive {
    now: Instant,
    given: u64,
    last: u64,
    arrivals: u64,
    locks: BTreeMap<Key, Lock>,
    answers: VecDeque<Answer>,
    acquires: Gate,
    keys: Gate,
    waiters: Gate,
    waiters_per_key: usize,
    is_draining: bool,
}

#[derive(Debug, Default)]
struct Lock {
    hold: Option<Hold>,
    queue: Vec<Waiter>,
}

#[derive(Clone, Copy, Debug)]
struct Hold {
    token: Token,
    deadline: Instant,
    arrival: u64,
}

#[derive(Clone, Copy, Debug)]
struct Waiter {
    connection: ConnectionId,
    owner: Owner,
    lease: Lease,
    deadline: Instant,
    arrival: u64,
}

#[derive(Debug)]
struct Gate(GateUsage);

impl Gate {
    fn new(limit: u32) -> Self {
        Self(GateUsage { used: 0, limit, is_closed: false })
    }

    fn change(&mut self, by: i64) {
        let gate = &mut self.0;
        gate.used = gate.used.checked_add_signed(by).expect("usages are not negative");
        if gate.used * 10 >= u64::from(gate.limit) * 9 {
            gate.is_closed = true;
        }
        if gate.used * 4 < u64::from(gate.limit) * 3 {
            gate.is_closed = false;
        }
    }

    fn is_tight(&self) -> bool {
        self.0.is_closed || (self.0.used + 1) * 10 >= u64::from(self.0.limit) * 9
    }
}

impl Naive {
    pub(crate) fn new(now: Instant, limits: Limits, tokens: TokenRange) -> Self {
        Self {
            now,
            given: tokens.next.value() - 1,
            last: tokens.last.value(),
            arrivals: 0,
            locks: BTreeMap::new(),
            answers: VecDeque::new(),
            acquires: Gate::new(limits.acquires),
            keys: Gate::new(limits.keys),
            waiters: Gate::new(limits.waiters),
            waiters_per_key: limits.waiters_per_key as usize,
            is_draining: false,
        }
    }

    /// The latest time that it was told.
    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    pub(crate) fn acquire(
        &mut self,
        now: Instant,
        connection: ConnectionId,
        owner: Owner,
        wait: Wait,
        lease: Lease,
        key: &Key,
    ) -> Outcome {
        let now = self.advance_clock(now);
        let was_closed = self.acquires.0.is_closed;
        self.acquires.change(1);
        if was_closed {
            return Outcome::Busy;
        }
        self.touch(now, key);
        if self.token_of(key).is_some() {
            if wait == Wait::NONE {
                return Outcome::TimedOut;
            }
            if self.tokens_left() == 0 || self.is_draining {
                return Outcome::Busy;
            }
            let is_full = |naive: &Self| naive.locks[key].queue.len() >= naive.waiters_per_key;
            while (self.waiters.is_tight() || is_full(self)) && self.process_first(now) {}
            if self.waiters.0.is_closed || is_full(self) {
                return Outcome::Busy;
            }
            let waiter =
                Waiter { connection, owner, lease, deadline: now + wait.duration(), arrival: self.arrive() };
            self.locks.get_mut(key).unwrap().queue.push(waiter);
            self.waiters.change(1);
            return Outcome::Queued;
        }
        while self.keys.is_tight() && self.process_first(now) {}
        let has_queue = self.locks.get(key).is_some_and(|lock| !lock.queue.is_empty());
        if self.keys.0.is_closed || self.tokens_left() == 0 || has_queue {
            return Outcome::Busy;
        }
        self.keys.change(1);
        Outcome::Granted(self.give(now, key, lease))
    }

    pub(crate) fn refuse(&mut self) {
        self.acquires.change(1);
    }

    pub(crate) fn release(&mut self, now: Instant, token: u64, key: &Key) -> bool {
        let now = self.advance_clock(now);
        self.touch(now, key);
        if self.token_of(key).is_none_or(|current| current.value() != token) {
            return false;
        }
        while let Some(first) = self.locks[key].queue.first().copied().filter(|first| first.deadline <= now) {
            self.answer(key, first, Verdict::TimedOut);
        }
        self.end(now, key);
        true
    }

    pub(crate) fn disconnect(&mut self, now: Instant, connection: ConnectionId) -> usize {
        self.advance_clock(now);
        let mut count = 0;
        for lock in self.locks.values_mut() {
            let before = lock.queue.len();
            lock.queue.retain(|waiter| waiter.connection != connection);
            count += before - lock.queue.len();
        }
        for _ in 0..count {
            self.waiters.change(-1);
            self.acquires.change(-1);
        }
        self.is_draining &= self.waiters.0.used > 0;
        count
    }

    pub(crate) fn answered(&mut self, count: usize) {
        (0..count).for_each(|_| self.acquires.change(-1));
    }

    pub(crate) fn poll_answer(&mut self) -> Option<Answer> {
        self.answers.pop_front()
    }

    /// When a timer must ring at the latest.
    pub(crate) fn latest_timeout(&self) -> Option<Instant> {
        if self.is_draining {
            return Some(self.now);
        }
        let waits = self.locks.values().flat_map(|lock| &lock.queue).map(|waiter| waiter.deadline).min();
        let holds = self.locks.values().filter_map(|lock| lock.hold).map(|hold| hold.deadline).min();
        let watches = self.waiters.0.used > 0 || self.keys.0.is_closed;
        waits.into_iter().chain(holds.filter(|_| watches)).min()
    }

    /// When anything at all is due next.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.first().map(|(deadline, ..)| deadline)
    }

    pub(crate) fn settle(&mut self, now: Instant) {
        let now = self.advance_clock(now);
        while self.process_first(now) {}
        while self.is_draining {
            let waiters = self.locks.iter().flat_map(|(key, lock)| lock.queue.iter().map(move |w| (key, w)));
            let (key, waiter) =
                waiters.min_by_key(|(_, waiter)| (waiter.deadline, waiter.arrival)).expect("someone waits");
            let (key, waiter) = (key.clone(), *waiter);
            self.answer(&key, waiter, Verdict::Busy);
        }
    }

    pub(crate) fn extend_tokens(&mut self, last: Token) {
        self.last = self.last.max(last.value());
    }

    pub(crate) fn tokens_left(&self) -> u64 {
        self.last.saturating_sub(self.given)
    }

    pub(crate) fn usage(&self) -> Usage {
        Usage { acquires: self.acquires.0, keys: self.keys.0, waiters: self.waiters.0 }
    }

    /// The tokens that hold, overdue ones among them.
    pub(crate) fn held(&self) -> Vec<(Key, Token)> {
        let held = |(key, lock): (&Key, &Lock)| lock.hold.map(|hold| (key.clone(), hold.token));
        self.locks.iter().filter_map(held).collect()
    }

    fn token_of(&self, key: &Key) -> Option<Token> {
        self.locks.get(key)?.hold.map(|hold| hold.token)
    }

    fn advance_clock(&mut self, now: Instant) -> Instant {
        self.now = self.now.max(now);
        self.now
    }

    fn arrive(&mut self) -> u64 {
        self.arrivals += 1;
        self.arrivals
    }

    /// The due deadlines of a key come before new input for it.
    fn touch(&mut self, now: Instant, key: &Key) {
        let hold = self.locks.get(key).and_then(|lock| lock.hold);
        let Some(hold) = hold.filter(|hold| hold.deadline <= now) else { return };
        while let Some(first) = self.locks[key].queue.first().copied() {
            if first.deadline >= hold.deadline {
                break;
            }
            self.answer(key, first, Verdict::TimedOut);
        }
        self.end(now, key);
    }

    /// The earliest deadline, with what `OP-6` says of equal ones: 0 for an expiry, 1 for a timeout.
    fn first(&self) -> Option<(Instant, u8, u64, &Key)> {
        let expiries = self.locks.iter().filter_map(|(key, lock)| {
            let hold = lock.hold?;
            Some((hold.deadline, 0, hold.arrival, key))
        });
        let timeouts = self.locks.iter().flat_map(|(key, lock)| {
            lock.queue.iter().map(move |waiter| (waiter.deadline, 1, waiter.arrival, key))
        });
        expiries.chain(timeouts).min()
    }

    fn process_first(&mut self, now: Instant) -> bool {
        let Some((deadline, kind, arrival, key)) = self.first() else { return false };
        if deadline > now {
            return false;
        }
        let key = key.clone();
        if kind == 0 {
            self.end(now, &key);
        } else {
            let queue = &self.locks[&key].queue;
            let waiter = *queue.iter().find(|waiter| waiter.arrival == arrival).unwrap();
            self.answer(&key, waiter, Verdict::TimedOut);
        }
        true
    }

    fn end(&mut self, now: Instant, key: &Key) {
        let lock = self.locks.get_mut(key).unwrap();
        lock.hold = None;
        match lock.queue.first().copied() {
            Some(first) if self.tokens_left() > 0 => {
                let token = self.give(now, key, first.lease);
                self.answer(key, first, Verdict::Granted(token));
            }
            _ => self.keys.change(-1),
        }
    }

    fn give(&mut self, now: Instant, key: &Key, lease: Lease) -> Token {
        self.given += 1;
        let token = Token::new(self.given).unwrap();
        let arrival = self.arrive();
        let lock = self.locks.entry(key.clone()).or_default();
        lock.hold = Some(Hold { token, deadline: now + lease.duration(), arrival });
        self.is_draining |= self.tokens_left() == 0 && self.waiters.0.used > 0;
        token
    }

    fn answer(&mut self, key: &Key, waiter: Waiter, verdict: Verdict) {
        self.locks.get_mut(key).unwrap().queue.retain(|other| other.arrival != waiter.arrival);
        self.waiters.change(-1);
        self.is_draining &= self.waiters.0.used > 0;
        let Waiter { connection, owner, .. } = waiter;
        self.answers.push_back(Answer { connection, owner, key: key.clone(), verdict });
    }
}

/// A span of so many milliseconds.
pub(crate) const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
