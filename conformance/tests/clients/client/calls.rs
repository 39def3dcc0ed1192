//! What callers do.

use std::time::{Duration, Instant};

use super::{Acquire, Ask, Client, Done, Outcome, Release};
use crate::faults::Fault;

impl Client {
    pub(crate) fn acquire(&mut self, ask: &Ask, done: Done) -> Option<u64> {
        match self.begin(ask) {
            Ok(mut acquire) => {
                acquire.done = Some(done);
                let owner = self.next_owner;
                self.next_owner += 1;
                self.acquires.insert(owner, acquire);
                Some(owner)
            }
            Err(outcome) => {
                done(outcome);
                None
            }
        }
    }

    fn begin(&self, ask: &Ask) -> Result<Acquire, Outcome> {
        let key = self.check_key(&ask.key)?;
        let wait = self.span("wait", ask.wait, 0, 255)?;
        let lease = self.span("lease", ask.lease, 1, 250)?;
        if ask.budget > 250_000 {
            return Err(Outcome {
                field: Some(("min_work_budget", 250_000)),
                .."unsupported_duration".into()
            });
        }
        if ask.grace > 10_000 {
            return Err(Outcome { field: Some(("response_grace", 10_000)), .."unsupported_duration".into() });
        }
        if ask.budget > lease * 1000 {
            return Err("insufficient_lease".into());
        }
        if self.closing_until.is_some() && !self.is(Fault::AcquiresBehindTheClose) {
            return Err("closed".into());
        }
        if self.is_refused() {
            return Err("auth".into());
        }
        if !ask.may_wait && self.acquires.len() >= self.max_in_flight {
            return Err("client_capacity".into());
        }
        let budget =
            if self.is(Fault::RoundsTheBudget) { ask.budget.next_multiple_of(1000) } else { ask.budget };
        let now = Instant::now();
        Ok(Acquire {
            key,
            wait,
            lease,
            budget: Duration::from_millis(budget),
            grace: Duration::from_millis(if self.is(Fault::NoGrace) { 0 } else { ask.grace }),
            called_at: now,
            deadline: now + Duration::from_secs(if wait == 0 { 5 } else { wait }),
            done: None,
            link: None,
            sent_at: now,
            not_before: None,
            pauses: 0,
        })
    }

    fn check_key(&self, text: &str) -> Result<Vec<u8>, Outcome> {
        let invalid = |rule, len| Err(Outcome { rule: Some((rule, len)), ..Outcome::from("invalid_key") });
        match text.as_bytes() {
            [] => invalid("empty", None),
            key if key.len() > 128 => invalid("too_long", Some(key.len())),
            key if key.contains(&b' ') => invalid("space", None),
            key if key.contains(&b'\n') => invalid("lf", None),
            key if key.contains(&b'\r') && !self.is(Fault::SendsCr) => invalid("cr", None),
            key => Ok(key.to_vec()),
        }
    }

    fn span(&self, field: &'static str, ms: u64, least: u64, most: u64) -> Result<u64, Outcome> {
        let secs = if self.is(Fault::RoundsDown) { ms / 1000 } else { ms.div_ceil(1000) };
        match secs {
            secs if (least..=most).contains(&secs) => Ok(secs),
            secs if self.is(Fault::Clamps) => Ok(secs.clamp(least, most)),
            _ => Err(Outcome { field: Some((field, most * 1000)), ..Outcome::from("unsupported_duration") }),
        }
    }

    pub(crate) fn cancel(&mut self, owner: u64) {
        let Some(acquire) = self.acquires.get_mut(&owner) else { return };
        acquire.done = None;
        let is_unsent = acquire.link.is_none();
        if (is_unsent && !self.is(Fault::SendsCancelled)) || (!is_unsent && self.is(Fault::ForgetsGhosts)) {
            self.acquires.remove(&owner);
        }
    }

    pub(crate) fn release(&mut self, key: &str, token: u64, done: Done) {
        self.tickets.remove(&token);
        if self.is_closed {
            return done("unconfirmed".into());
        }
        self.give_back(key.as_bytes(), token, Some(done));
    }

    pub(crate) fn drop_ticket(&mut self, key: &str, token: u64) {
        self.tickets.remove(&token);
        if !self.is_closed && !self.is(Fault::KeepsDroppedTickets) {
            self.give_back(key.as_bytes(), token, None);
        }
    }

    pub(super) fn give_back(&mut self, key: &[u8], token: u64, done: Option<Done>) {
        let deadline = Instant::now() + Duration::from_secs(5);
        let release = Release { key: key.to_vec(), deadline, done, link: None, not_before: None, pauses: 0 };
        self.releases.insert(token, release);
    }

    pub(crate) fn close(&mut self, done: Done) {
        self.closing_until = Some(Instant::now() + Duration::from_secs(5));
        self.when_closed = Some(done);
        let owners: Vec<_> = self.acquires.keys().copied().collect();
        for owner in owners {
            if self.acquires[&owner].link.is_none() {
                self.end(owner, "closed");
            } else if let Some(done) = self.acquires.get_mut(&owner).and_then(|acquire| acquire.done.take()) {
                done("indeterminate".into());
            }
        }
        if self.is(Fault::ClosesAtOnce) {
            self.closing_until = Some(Instant::now());
            self.end_close();
        }
    }
}
