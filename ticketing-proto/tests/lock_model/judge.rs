//! What no table may ever do, judged from its answers alone.

use std::collections::BTreeMap;

use ticketing_proto::id::{ConnectionId, Owner, Token};
use ticketing_proto::key::Key;
use ticketing_proto::limits::{Lease, Wait};
use ticketing_proto::lock::{Answer, Outcome, Verdict};
use ticketing_proto::time::Instant;

#[derive(Debug, Default)]
pub(crate) struct Judge {
    last_token: u64,
    holds: BTreeMap<Key, (Token, Instant)>,
    /// In the order of their asking.
    waiters: BTreeMap<Key, Vec<Waiter>>,
}

#[derive(Clone, Copy, Debug)]
struct Waiter {
    connection: ConnectionId,
    owner: Owner,
    lease: Lease,
    deadline: Instant,
}

impl Judge {
    pub(crate) fn last_token(&self) -> u64 {
        self.last_token
    }

    #[expect(clippy::too_many_arguments, reason = "all that an acquire says, and what came of it")]
    pub(crate) fn asked(
        &mut self,
        now: Instant,
        connection: ConnectionId,
        owner: Owner,
        wait: Wait,
        lease: Lease,
        key: &Key,
        outcome: Outcome,
    ) {
        match outcome {
            Outcome::Granted(token) => {
                assert!(self.waiters.get(key).is_none_or(Vec::is_empty), "it overtook someone (OP-9)");
                self.hold(now, key, token, lease);
            }
            Outcome::TimedOut => {
                assert_eq!(wait, Wait::NONE);
                assert!(self.is_held(now, key), "a free key is not refused with T (OP-2)");
            }
            Outcome::Queued => {
                assert!(self.is_held(now, key), "nobody waits for a free key");
                let deadline = now + wait.duration();
                let waiter = Waiter { connection, owner, lease, deadline };
                self.waiters.entry(key.clone()).or_default().push(waiter);
            }
            Outcome::Busy => {}
        }
    }

    pub(crate) fn released(&mut self, now: Instant, token: u64, key: &Key, is_released: bool) {
        let is_current = self.holds.get(key).is_some_and(|(current, _)| current.value() == token);
        assert_eq!(is_released, is_current && self.is_held(now, key), "R is for the current token (OP-5)");
        if is_released {
            self.holds.remove(key);
        }
    }

    /// Gives the token, if it is a grant.
    pub(crate) fn answered(&mut self, now: Instant, answer: &Answer) -> Option<Token> {
        let key = &answer.key;
        let queue = self.waiters.get_mut(key).expect("answers are for those who wait");
        let is_meant =
            |waiter: &Waiter| (waiter.connection, waiter.owner) == (answer.connection, answer.owner);
        let at = queue.iter().position(is_meant).expect("answers are for those who wait, once");
        let waiter = queue.remove(at);
        match answer.verdict {
            Verdict::Granted(token) => {
                // Those in front are gone, or their time was over: their T may come later than this.
                let overtaken = queue[..at].iter().filter(|other| other.deadline > now).count();
                assert_eq!(overtaken, 0, "first come, first served (OP-9)");
                self.hold(now, key, token, waiter.lease);
                Some(token)
            }
            Verdict::TimedOut => {
                assert!(waiter.deadline <= now, "a T that is early (OP-3)");
                None
            }
            Verdict::Busy => None,
        }
    }

    /// How many leave with a connection.
    pub(crate) fn left(&mut self, connection: ConnectionId) -> usize {
        let mut count = 0;
        for queue in self.waiters.values_mut() {
            let before = queue.len();
            queue.retain(|waiter| waiter.connection != connection);
            count += before - queue.len();
        }
        count
    }

    pub(crate) fn finish(&self) {
        assert!(self.waiters.values().all(Vec::is_empty), "someone waits for ever");
    }

    fn hold(&mut self, now: Instant, key: &Key, token: Token, lease: Lease) {
        assert!(token.value() > self.last_token, "tokens rise (FI-6)");
        assert!(!self.is_held(now, key), "one holder (OP-6)");
        self.last_token = token.value();
        self.holds.insert(key.clone(), (token, now + lease.duration()));
    }

    fn is_held(&self, now: Instant, key: &Key) -> bool {
        self.holds.get(key).is_some_and(|(_, deadline)| now < *deadline)
    }
}
