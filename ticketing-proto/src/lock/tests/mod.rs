//! What the table must do, scene by scene, in virtual time.

mod gates;
mod time;
mod tokens;
mod turns;
mod work;

use alloc::vec::Vec;
use core::time::Duration;

use super::{Outcome, Table, TableConfig, TokenRange, Verdict};
use crate::id::{ConnectionId, Owner, Token};
use crate::key::KeyRef;
use crate::limits::{Lease, Limits, Wait};
use crate::time::Instant;

/// A table, its clock, and who asks it.
struct Scene {
    table: Table,
    now: Instant,
    owners: u64,
}

fn token(value: u64) -> Token {
    Token::new(value).expect("not 0")
}

fn key(text: &str) -> KeyRef<'_> {
    KeyRef::new(text.as_bytes()).expect("a legal key")
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

impl Scene {
    fn new() -> Self {
        Self::with_limits(Limits { acquires: u32::MAX, ..Limits::default() })
    }

    fn with_limits(limits: Limits) -> Self {
        Self::with(limits, 1, u64::MAX)
    }

    fn with(limits: Limits, next: u64, last: u64) -> Self {
        let tokens = TokenRange { next: token(next), last: token(last) };
        let now = Instant::from_origin(Duration::from_secs(1000));
        let table = Table::new(now, TableConfig { limits, tokens, hash_seed: [5, 6] });
        Self { table, now, owners: 0 }
    }

    /// Some acquire by a connection of its own. Owners count from 1.
    fn ask(&mut self, wait: u8, lease: u8, name: &str) -> Outcome {
        self.ask_from(self.owners + 1, wait, lease, name)
    }

    fn ask_from(&mut self, connection: u64, wait: u8, lease: u8, name: &str) -> Outcome {
        self.owners += 1;
        let owner = Owner::new(self.owners).expect("not 0");
        let lease = Lease::from_secs(lease).expect("a legal lease");
        let connection = ConnectionId::new(connection);
        self.table.acquire(self.now, connection, owner, Wait::from_secs(wait), lease, key(name))
    }

    /// An acquire that is granted at once.
    fn take(&mut self, lease: u8, name: &str) -> u64 {
        match self.ask(0, lease, name) {
            Outcome::Granted(token) => token.value(),
            other => panic!("{name} is free: {other:?}"),
        }
    }

    /// An acquire that queues. Its owner.
    fn queue(&mut self, wait: u8, lease: u8, name: &str) -> u64 {
        assert_eq!(self.ask(wait, lease, name), Outcome::Queued);
        self.owners
    }

    fn release(&mut self, token: u64, name: &str) -> bool {
        self.table.release(self.now, token, key(name))
    }

    fn disconnect(&mut self, connection: u64) -> usize {
        self.table.disconnect(self.now, ConnectionId::new(connection))
    }

    /// Time passes, and no timer rings.
    fn sleep(&mut self, span: Duration) {
        self.now = self.now + span;
    }

    /// Time passes, and each timer rings on time.
    fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        let mut calls = 0;
        while let Some(timeout) = self.table.poll_timeout().filter(|&timeout| timeout <= end) {
            calls = if timeout <= self.now { calls + 1 } else { 0 };
            assert!(calls < 1000, "it does not come to rest");
            self.now = self.now.max(timeout);
            self.table.handle_timeout(self.now);
        }
        self.now = end;
    }

    /// All that is due now.
    fn handle_timeouts(&mut self) {
        self.table.handle_timeout(self.now);
        self.pass(Duration::ZERO);
    }

    /// The answers since the last call, by owner.
    fn answers(&mut self) -> Vec<(u64, Verdict)> {
        core::iter::from_fn(|| self.table.poll_answer())
            .map(|answer| (answer.owner.value(), answer.verdict))
            .collect()
    }

    /// The one answer since the last call, which must be a grant to this owner. Its token.
    fn granted(&mut self, owner: u64) -> u64 {
        match self.answers()[..] {
            [(asked, Verdict::Granted(token))] if asked == owner => token.value(),
            ref other => panic!("owner {owner} is granted alone: {other:?}"),
        }
    }

    fn keys(&self) -> u64 {
        self.table.usage().keys.used
    }

    fn waiters(&self) -> u64 {
        self.table.usage().waiters.used
    }
}

/// A sequence of numbers that looks random.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % bound
    }
}
