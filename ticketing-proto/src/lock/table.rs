use alloc::collections::{BTreeMap, VecDeque};

use crate::id::{ConnectionId, Owner, Token};
use crate::key::{Key, KeyRef};
use crate::limits::{Lease, Limits, Wait};
use crate::time::Instant;

/// What a [`Table`] starts with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableConfig {
    /// What it admits. Of these the table applies `keys`, `acquires`, `waiters` and `waiters_per_key`.
    pub limits: Limits,
    /// The tokens that it may give.
    pub tokens: TokenRange,
    /// The seed for the hashes of keys, which peers choose: random, and secret.
    pub hash_seed: [u64; 2],
}

/// The tokens that may be given (`FI-6`, `FI-8`). Empty where `next` lies behind `last`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TokenRange {
    /// The next one to give.
    pub next: Token,
    /// The last one that may be given.
    pub last: Token,
}

/// What becomes of an acquire (`OP-10`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// `A`: the lock is held, by this token.
    Granted(Token),
    /// `T`: it is held by another one, and the request does not wait.
    TimedOut,
    /// `B`: a gate is closed, the key's queue is full, or the tokens are used up.
    Busy,
    /// It waits. An [`Answer`] will come, unless its connection is [disconnected](Table::disconnect) first.
    Queued,
}

/// How a waiter's request ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// `A`: the lock is held, by this token.
    Granted(Token),
    /// `T`: its wait is over.
    TimedOut,
    /// `B`: the tokens are used up (`FI-6`).
    Busy,
}

/// A waiter's final answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// Who asked. A grant for a connection that is gone must be released (`OP-7`).
    pub connection: ConnectionId,
    /// As it was asked.
    pub owner: Owner,
    /// As it was asked.
    pub key: Key,
    /// How it ends.
    pub verdict: Verdict,
}

/// How full a table is. A hold past its deadline counts until it is looked at again; at the gates it never does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    /// Acquires in flight: received, and the final reply not yet wholly handed over.
    pub acquires: GateUsage,
    /// Keys held.
    pub keys: GateUsage,
    /// Waiters in all queues.
    pub waiters: GateUsage,
}

/// One of the three usages, and its gate (`AD-1`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GateUsage {
    /// How many there are.
    pub used: u64,
    /// The hard limit.
    pub limit: u64,
    /// Whether the gate is closed.
    pub is_closed: bool,
}

/// The locks of one node: who holds, who waits, until when, and whether there is room.
///
/// It is told the time with each call; a time before the latest one seen is taken for that one.
///
/// After each call that takes `now`, drain [`poll_answer`](Self::poll_answer) and look at
/// [`poll_timeout`](Self::poll_timeout) again.
#[derive(Debug)]
pub struct Table {
    now: Instant,
    limits: Limits,
    hash_seed: [u64; 2],
    given: u64,
    last: u64,
    arrivals: u64,
    locks: BTreeMap<Key, Lock>,
    answers: VecDeque<Answer>,
    acquires: Gate,
    keys: Gate,
    waiters: Gate,
}

#[derive(Debug)]
struct Lock {
    token: Token,
    deadline: Instant,
    arrival: u64,
    queue: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    connection: ConnectionId,
    owner: Owner,
    lease: Lease,
    deadline: Instant,
    arrival: u64,
}

#[derive(Debug)]
struct Gate {
    used: u64,
    limit: u64,
    is_closed: bool,
}

impl Gate {
    fn new(limit: u32) -> Self {
        Self { used: 0, limit: u64::from(limit), is_closed: false }
    }

    fn raise(&mut self) {
        self.used += 1;
        self.is_closed |= self.used * 10 >= self.limit * 9;
    }

    fn lower(&mut self, by: usize) {
        self.used -= by as u64;
        self.is_closed &= self.used * 4 >= self.limit * 3;
    }

    fn usage(&self) -> GateUsage {
        GateUsage { used: self.used, limit: self.limit, is_closed: self.is_closed }
    }
}

impl Table {
    /// A table without holds and waiters.
    #[must_use]
    pub fn new(now: Instant, config: TableConfig) -> Self {
        Self {
            now,
            limits: config.limits,
            hash_seed: config.hash_seed,
            given: config.tokens.next.value() - 1,
            last: config.tokens.last.value(),
            arrivals: 0,
            locks: BTreeMap::new(),
            answers: VecDeque::new(),
            acquires: Gate::new(config.limits.acquires),
            keys: Gate::new(config.limits.keys),
            waiters: Gate::new(config.limits.waiters),
        }
    }

    /// Judges an acquire (`OP-10`), and counts it as in flight until [`answered`](Self::answered).
    #[must_use]
    pub fn acquire(
        &mut self,
        now: Instant,
        connection: ConnectionId,
        owner: Owner,
        wait: Wait,
        lease: Lease,
        key: KeyRef<'_>,
    ) -> Outcome {
        let now = self.advance_clock(now);
        let is_admitted = !self.acquires.is_closed;
        self.acquires.raise();
        if !is_admitted {
            return Outcome::Busy;
        }
        self.process_due(now);
        let key = key.to_key();
        let is_exhausted = self.tokens_left() == 0;
        let arrival = self.next_arrival();
        match self.locks.get_mut(&key) {
            Some(_) if wait == Wait::NONE => Outcome::TimedOut,
            Some(lock) => {
                let is_full = lock.queue.len() >= self.limits.waiters_per_key as usize;
                if is_exhausted || is_full || self.waiters.is_closed {
                    return Outcome::Busy;
                }
                let deadline = now + wait.duration();
                lock.queue.push_back(Waiter { connection, owner, lease, deadline, arrival });
                self.waiters.raise();
                Outcome::Queued
            }
            None if is_exhausted || self.keys.is_closed => Outcome::Busy,
            None => {
                self.given += 1;
                let token = Token::new(self.given).expect("one more than another token");
                let deadline = now + lease.duration();
                self.locks.insert(key, Lock { token, deadline, arrival, queue: VecDeque::new() });
                self.keys.raise();
                Outcome::Granted(token)
            }
        }
    }

    /// Counts an acquire as in flight that another bound than the table's answers with `B`.
    pub fn refuse(&mut self) {
        self.acquires.raise();
    }

    /// Ends the hold on `key` if `token` is its current one (`OP-5`), and grants the lock to the first waiter.
    /// Whether there was such a hold: `R` or `N`.
    pub fn release(&mut self, now: Instant, token: u64, key: KeyRef<'_>) -> bool {
        let now = self.advance_clock(now);
        self.process_due(now);
        let key = key.to_key();
        if self.locks.get(&key).is_none_or(|lock| lock.token.value() != token) {
            return false;
        }
        self.end(now, &key);
        true
    }

    /// Takes the connection's waiters out of all queues and out of flight (`OP-7`). How many there were.
    ///
    /// Answers that were there before still come out of [`poll_answer`](Self::poll_answer).
    pub fn disconnect(&mut self, now: Instant, connection: ConnectionId) -> usize {
        self.advance_clock(now);
        let mut left = 0;
        for lock in self.locks.values_mut() {
            let before = lock.queue.len();
            lock.queue.retain(|waiter| waiter.connection != connection);
            left += before - lock.queue.len();
        }
        self.waiters.lower(left);
        self.acquires.lower(left);
        left
    }

    /// So many final replies to acquires were wholly handed over, or dropped: they are no longer in flight.
    ///
    /// # Panics
    /// If there are not so many in flight: that is the caller's fault.
    pub fn answered(&mut self, count: usize) {
        self.acquires.lower(count);
    }

    /// The next final answer of a waiter.
    #[must_use]
    pub fn poll_answer(&mut self) -> Option<Answer> {
        self.answers.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called; `None` while there is nothing to wait for.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let waits = self.locks.values().flat_map(|lock| &lock.queue).map(|waiter| waiter.deadline);
        self.locks.values().map(|lock| lock.deadline).chain(waits).min()
    }

    /// Does what is due at `now`, in the order of `OP-6`, at most some 1024 deadlines in a call: while more
    /// are due, [`poll_timeout`](Self::poll_timeout) is not later than `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.settle(now);
    }

    /// Does those due deadlines that come before new input (`OP-6`): to be called once before a batch of it.
    /// As bounded as [`handle_timeout`](Self::handle_timeout), which also sweeps.
    pub fn settle(&mut self, now: Instant) {
        let now = self.advance_clock(now);
        self.process_due(now);
    }

    /// Allows tokens up to this one. It never takes tokens back.
    pub fn extend_tokens(&mut self, last: Token) {
        self.last = self.last.max(last.value());
    }

    /// How many tokens may still be given.
    #[must_use]
    pub fn tokens_left(&self) -> u64 {
        self.last.saturating_sub(self.given)
    }

    /// How full the table is.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let _ = self.hash_seed;
        Usage { acquires: self.acquires.usage(), keys: self.keys.usage(), waiters: self.waiters.usage() }
    }

    fn advance_clock(&mut self, now: Instant) -> Instant {
        self.now = self.now.max(now);
        self.now
    }

    fn next_arrival(&mut self) -> u64 {
        self.arrivals += 1;
        self.arrivals
    }

    fn process_due(&mut self, now: Instant) {
        loop {
            let expiries = self.locks.iter().map(|(key, lock)| ((lock.deadline, 0, lock.arrival), key));
            let timeouts = self.locks.iter().flat_map(|(key, lock)| {
                lock.queue.iter().map(move |waiter| ((waiter.deadline, 1, waiter.arrival), key))
            });
            let first = expiries.chain(timeouts).filter(|((deadline, ..), _)| *deadline <= now).min();
            let Some(((_, is_timeout, arrival), key)) = first else { return };
            let key = key.clone();
            if is_timeout == 0 {
                self.end(now, &key);
            } else {
                let lock = self.locks.get_mut(&key).expect("waiters have a lock");
                let at = lock.queue.iter().position(|waiter| waiter.arrival == arrival);
                let waiter = at.and_then(|at| lock.queue.remove(at)).expect("the waiter was just seen");
                self.waiters.lower(1);
                self.answer(&key, &waiter, Verdict::TimedOut);
            }
        }
    }

    fn end(&mut self, now: Instant, key: &Key) {
        let arrival = self.next_arrival();
        let is_exhausted = self.tokens_left() == 0;
        let lock = self.locks.get_mut(key).expect("the caller has found it");
        match lock.queue.pop_front() {
            Some(waiter) if !is_exhausted => {
                self.given += 1;
                let token = Token::new(self.given).expect("one more than another token");
                lock.token = token;
                lock.deadline = now + waiter.lease.duration();
                lock.arrival = arrival;
                self.waiters.lower(1);
                self.answer(key, &waiter, Verdict::Granted(token));
            }
            Some(waiter) => {
                self.waiters.lower(1);
                self.answer(key, &waiter, Verdict::Busy);
                self.end(now, key);
            }
            None => {
                self.locks.remove(key);
                self.keys.lower(1);
            }
        }
    }

    fn answer(&mut self, key: &Key, waiter: &Waiter, verdict: Verdict) {
        let &Waiter { connection, owner, .. } = waiter;
        self.answers.push_back(Answer { connection, owner, key: key.clone(), verdict });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    fn secs(secs: u64) -> Instant {
        Instant::from_origin(Duration::from_secs(secs))
    }

    #[test]
    fn a_release_hands_the_lock_to_the_first_waiter() {
        let tokens = TokenRange { next: Token::new(7).unwrap(), last: Token::new(u64::MAX).unwrap() };
        let config = TableConfig { limits: Limits::default(), tokens, hash_seed: [1, 2] };
        let mut table = Table::new(secs(0), config);
        let key = KeyRef::new(b"k").unwrap();
        let ask = |table: &mut Table, owner, wait| {
            let owner = Owner::new(owner).unwrap();
            table.acquire(secs(1), ConnectionId::new(1), owner, Wait::from_secs(wait), Lease::DEFAULT, key)
        };
        assert_eq!(ask(&mut table, 1, 0), Outcome::Granted(Token::new(7).unwrap()));
        assert_eq!(ask(&mut table, 2, 0), Outcome::TimedOut);
        assert_eq!(ask(&mut table, 3, 5), Outcome::Queued);
        assert!(table.release(secs(2), 7, key));
        assert_eq!(table.poll_answer().unwrap().verdict, Verdict::Granted(Token::new(8).unwrap()));
        assert!(!table.release(secs(2), 7, key));
    }
}
