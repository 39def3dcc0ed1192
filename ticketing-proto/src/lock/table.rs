use alloc::collections::VecDeque;

use super::admission::{Gate, GateUsage};
use super::holds::{Holds, TokenRange};
use super::index::SHARDS;
use super::queue::{Queue, Request};
use crate::id::{ConnectionId, Owner, Token};
use crate::key::{Key, KeyRef};
use crate::limits::{EXPIRY_SWEEP, Lease, Limits, Wait};
use crate::time::Instant;

/// How many due deadlines, and how many other pieces of work of their size, one call does.
const BUDGET: usize = 1024;
/// So many answers may be kept room for.
const MAX_IDLE_ANSWERS: usize = 2 * BUDGET;

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

/// How full a table is, as far as it has been told the time: a hold past its deadline counts here until it is
/// looked at, and never at a gate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    /// Acquires in flight: received, and the final reply not yet wholly handed over.
    pub acquires: GateUsage,
    /// Keys held.
    pub keys: GateUsage,
    /// Waiters in all queues.
    pub waiters: GateUsage,
}

/// The locks of one node: who holds, who waits, until when, and whether there is room.
///
/// It is told the time with each call; a time before the latest one seen is taken for that one. After each
/// call that takes `now`, drain [`poll_answer`](Self::poll_answer) and look at
/// [`poll_timeout`](Self::poll_timeout) again.
///
/// A key that is asked for or released is first brought up to date (`OP-6`), so the answer is right however
/// late the caller's timer is. Work per call is bounded, but for what the call itself asks for: a connection
/// that leaves takes all its waiters along, and a request that a gate or a full queue would refuse ends what
/// is overdue until there is room.
#[derive(Debug)]
pub struct Table {
    holds: Holds,
    queue: Queue,
    answers: VecDeque<Answer>,
    acquires: Gate,
    keys: Gate,
    waiters: Gate,
    waiters_per_key: u32,
    /// The tokens are used up, and those who waited then get `B` (`FI-6`).
    is_draining: bool,
    sweep: Sweep,
}

/// Where the sweep stands (`EX-1`, `EX-2`).
#[derive(Clone, Copy, Debug)]
enum Sweep {
    /// There is nothing to reclaim.
    Off,
    /// The next one starts then.
    At(Instant),
    /// It goes on with this shard.
    In { shard: usize },
}

impl Table {
    /// A table without holds and waiters.
    #[must_use]
    pub fn new(now: Instant, config: TableConfig) -> Self {
        let TableConfig { limits, tokens, hash_seed } = config;
        Self {
            holds: Holds::new(now, tokens, hash_seed),
            queue: Queue::new(),
            answers: VecDeque::new(),
            acquires: Gate::new(limits.acquires),
            keys: Gate::new(limits.keys),
            waiters: Gate::new(limits.waiters),
            waiters_per_key: limits.waiters_per_key,
            is_draining: false,
            sweep: Sweep::Off,
        }
    }

    /// Judges an acquire (`OP-10`), and counts it as in flight until [`answered`](Self::answered).
    ///
    /// The gate for all acquires is judged as it stood before this one.
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
        let now = self.holds.advance_clock(now);
        let is_admitted = !self.acquires.is_closed();
        self.acquires.raise();
        if !is_admitted {
            return Outcome::Busy;
        }
        let hash = self.holds.hash(key);
        let found = self.holds.find(hash, key).map(|found| found.slot);
        if let Some(slot) = found {
            self.bring_up_to_date(now, slot);
            if self.holds.slot(slot).token.is_some() {
                return self.wait(now, slot, Request { connection, owner, lease, wait });
            }
        }
        if !self.has_room_for_key(now) {
            return Outcome::Busy;
        }
        let token = match found {
            None => self.holds.grant_new(now, hash, key, lease),
            // The tokens were used up when the hold ended: nobody overtakes those who still wait (`OP-9`).
            Some(slot) if !self.holds.slot(slot).line.is_empty() => None,
            Some(slot) => self.holds.grant_idle(now, slot, lease),
        };
        let Some(token) = token else { return Outcome::Busy };
        self.keys.raise();
        self.token_given();
        if let Sweep::Off = self.sweep {
            self.sweep = Sweep::At(now + EXPIRY_SWEEP);
        }
        Outcome::Granted(token)
    }

    /// Counts an acquire as in flight that another bound than the table's answers with `B`.
    pub fn refuse(&mut self) {
        self.acquires.raise();
    }

    /// Ends the hold on `key` if `token` is its current one (`OP-5`), and grants the lock to the first waiter.
    /// Whether there was such a hold: `R` or `N`.
    pub fn release(&mut self, now: Instant, token: u64, key: KeyRef<'_>) -> bool {
        let now = self.holds.advance_clock(now);
        let Some(found) = self.holds.find(self.holds.hash(key), key) else { return false };
        let slot = found.slot;
        self.bring_up_to_date(now, slot);
        if !self.holds.slot(slot).is_held_by(token) {
            return false;
        }
        self.time_out_first(slot, |deadline| deadline <= now);
        match self.holds.slot(slot).line.first() {
            Some(waiter) => {
                self.holds.end_hold(slot);
                self.promote(now, slot, waiter);
            }
            None => {
                self.holds.end_and_remove(found);
                self.keys.lower(1);
            }
        }
        true
    }

    /// Takes the connection's waiters out of all queues and out of flight (`OP-7`). How many there were.
    ///
    /// Answers that were there before still come out of [`poll_answer`](Self::poll_answer), and are in flight
    /// until [`answered`](Self::answered).
    pub fn disconnect(&mut self, now: Instant, connection: ConnectionId) -> usize {
        self.holds.advance_clock(now);
        let mut count = 0;
        while let Some(waiter) = self.queue.waiter_of(connection) {
            self.leave(waiter);
            self.acquires.lower(1);
            count += 1;
        }
        count
    }

    /// So many final replies to acquires were wholly handed over, or dropped: they are no longer in flight.
    ///
    /// # Panics
    /// If there are not so many in flight: that is the caller's fault.
    pub fn answered(&mut self, count: usize) {
        self.acquires.lower(count as u64);
    }

    /// The next final answer of a waiter.
    #[must_use]
    pub fn poll_answer(&mut self) -> Option<Answer> {
        let answer = self.answers.pop_front();
        if answer.is_none() && self.answers.capacity() > MAX_IDLE_ANSWERS {
            self.answers = VecDeque::new();
        }
        answer
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called; `None` while there is nothing to wait for.
    ///
    /// Waiters have timers; holds have them while somebody waits for some key or the gate for keys is closed;
    /// else holds are swept every [`EXPIRY_SWEEP`] (`EX-1`, `EX-2`).
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.is_draining || self.holds.idle_len() > BUDGET {
            return Some(self.holds.now());
        }
        let sweep = match self.sweep {
            Sweep::Off => None,
            Sweep::At(then) => Some(then),
            Sweep::In { .. } => return Some(self.holds.now()),
        };
        let watches_holds = self.waiters.used() > 0 || self.keys.is_closed();
        let expiry = self.holds.poll_timeout().filter(|_| watches_holds);
        [expiry, self.queue.timeouts().earliest(), sweep].into_iter().flatten().min()
    }

    /// Does what is due at `now`, in the order of `OP-6`, at most some 1024 deadlines in a call: while more
    /// are due, [`poll_timeout`](Self::poll_timeout) is not later than `now`. Sweeps when it is time.
    pub fn handle_timeout(&mut self, now: Instant) {
        let now = self.holds.advance_clock(now);
        // What can be observed comes first.
        if self.process_due(now) {
            self.holds.reclaim(BUDGET);
            self.go_on_sweeping(now);
        }
    }

    /// Does those due deadlines that come before new input (`OP-6`): to be called once before a batch of it.
    /// As bounded as [`handle_timeout`](Self::handle_timeout), which also reclaims memory.
    pub fn settle(&mut self, now: Instant) {
        let now = self.holds.advance_clock(now);
        self.process_due(now);
    }

    /// Allows tokens up to this one. It never takes tokens back.
    pub fn extend_tokens(&mut self, last: Token) {
        self.holds.extend_tokens(last);
    }

    /// How many tokens may still be given.
    #[must_use]
    pub fn tokens_left(&self) -> u64 {
        self.holds.tokens_left()
    }

    /// How full the table is.
    #[must_use]
    pub fn usage(&self) -> Usage {
        Usage { acquires: self.acquires.usage(), keys: self.keys.usage(), waiters: self.waiters.usage() }
    }

    /// An acquire of a held key (`OP-2`, `OP-3`).
    fn wait(&mut self, now: Instant, slot: u32, request: Request) -> Outcome {
        if request.wait == Wait::NONE {
            return Outcome::TimedOut;
        }
        if self.is_draining || self.tokens_left() == 0 || !self.has_room_for_waiter(now, slot) {
            return Outcome::Busy;
        }
        self.queue.join(now, self.holds.line_mut(slot), slot, request);
        self.waiters.raise();
        Outcome::Queued
    }

    /// Judges the gate for keys. What is overdue never counts, neither to refuse nor to close it (`AD-1`).
    fn has_room_for_key(&mut self, now: Instant) -> bool {
        while self.keys.is_tight() && self.process_first(now) {}
        !self.keys.is_closed()
    }

    /// Judges the gate for waiters and the bound on the key's queue (`AD-1`, `AD-3`), likewise.
    fn has_room_for_waiter(&mut self, now: Instant, slot: u32) -> bool {
        let is_full = |table: &Self| table.holds.slot(slot).line.len() >= table.waiters_per_key;
        while (self.waiters.is_tight() || is_full(self)) && self.process_first(now) {}
        !self.waiters.is_closed() && !is_full(self)
    }

    /// Does a slot's due deadlines, as far as anything that comes next depends on them: the end of its hold,
    /// and the timeouts of those who would else be granted.
    #[inline]
    fn bring_up_to_date(&mut self, now: Instant, slot: u32) {
        let held = self.holds.slot(slot);
        if held.deadline <= now && held.token.is_some() {
            self.expire_late(now, slot, held.deadline);
        }
    }

    #[cold]
    fn expire_late(&mut self, now: Instant, slot: u32, deadline: Instant) {
        self.time_out_first(slot, |waiter| waiter < deadline);
        self.expire(now, slot);
    }

    /// Times out those at the head of a line whose deadlines have come.
    #[inline]
    fn time_out_first(&mut self, slot: u32, has_come: impl Fn(Instant) -> bool) {
        while let Some(waiter) = self.holds.slot(slot).line.first() {
            if !has_come(self.queue.deadline_of(waiter)) {
                return;
            }
            self.answer(waiter, Verdict::TimedOut);
        }
    }

    /// Does the due deadlines in the order of `OP-6`, then answers those for whom no token is left: `BUDGET`
    /// in all. Whether that was all.
    fn process_due(&mut self, now: Instant) -> bool {
        (0..BUDGET).any(|_| !self.process_first(now) && !self.drain_one())
    }

    /// Does the first due deadline. Whether there was one.
    fn process_first(&mut self, now: Instant) -> bool {
        let (expiries, timeouts) = (self.holds.deadlines(), self.queue.timeouts());
        if expiries.is_first(timeouts) {
            let Some(slot) = expiries.first_due(now) else { return false };
            self.expire(now, slot);
        } else {
            let Some(waiter) = timeouts.first_due(now) else { return false };
            self.answer(waiter, Verdict::TimedOut);
        }
        true
    }

    /// Answers one waiter with `B` if the tokens are used up. Whether there was one.
    fn drain_one(&mut self) -> bool {
        let waiter = self.queue.timeouts().first().filter(|_| self.is_draining);
        if let Some(waiter) = waiter {
            self.answer(waiter, Verdict::Busy);
        }
        waiter.is_some()
    }

    /// A lease has run out.
    fn expire(&mut self, now: Instant, slot: u32) {
        self.holds.end_hold(slot);
        match self.holds.slot(slot).line.first() {
            Some(waiter) => self.promote(now, slot, waiter),
            None => {
                self.holds.put_by(slot);
                self.keys.lower(1);
            }
        }
    }

    /// Grants a lock whose hold has ended to the first waiter. It passes no gate.
    fn promote(&mut self, now: Instant, slot: u32, waiter: u32) {
        match self.holds.grant_ended(now, slot, self.queue.lease_of(waiter)) {
            Some(token) => {
                self.answer(waiter, Verdict::Granted(token));
                self.token_given();
            }
            // All who wait are being answered: the slot stays until they are.
            None => self.keys.lower(1),
        }
    }

    /// Answers a waiter, which so leaves its line.
    fn answer(&mut self, waiter: u32, verdict: Verdict) {
        let slot = self.queue.slot_of(waiter);
        let key = self.holds.slot(slot).key.clone();
        let Request { connection, owner, .. } = self.leave(waiter);
        self.answers.push_back(Answer { connection, owner, key, verdict });
    }

    fn leave(&mut self, waiter: u32) -> Request {
        let slot = self.queue.slot_of(waiter);
        let request = self.queue.leave(self.holds.line_mut(slot), waiter);
        self.waiters.lower(1);
        self.is_draining &= self.waiters.used() > 0;
        let left = self.holds.slot(slot);
        if left.token.is_none() && left.line.is_empty() {
            self.holds.put_by(slot);
        }
        request
    }

    /// With the last token, those who wait can no longer be granted (`FI-6`).
    fn token_given(&mut self) {
        if self.holds.tokens_left() == 0 && self.waiters.used() > 0 {
            self.is_draining = true;
        }
    }

    /// Starts a sweep when it is time, or takes its next step: first all is ended and reclaimed that is due,
    /// then what has become too big is given back.
    fn go_on_sweeping(&mut self, now: Instant) {
        let from = match self.sweep {
            Sweep::In { shard } => shard,
            Sweep::At(then) if then <= now => 0,
            Sweep::At(_) | Sweep::Off => return,
        };
        self.sweep = if self.holds.idle_len() > 0 || self.holds.deadlines().first_due(now).is_some() {
            Sweep::In { shard: 0 }
        } else if let Some(shard) = (from..SHARDS).find(|&shard| self.shrink(shard)) {
            Sweep::In { shard: shard + 1 }
        } else if self.holds.is_small() && self.queue.is_small() {
            Sweep::Off
        } else {
            Sweep::At(now + EXPIRY_SWEEP)
        };
    }

    fn shrink(&mut self, shard: usize) -> bool {
        self.holds.shrink(shard) | self.queue.shrink(shard)
    }
}
