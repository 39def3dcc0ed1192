//! A gate closes when nine tenths of its limit are used and opens below three quarters, without a new request (AD-1).
//! Meanwhile whoever needs it gets `B`, and nobody does otherwise, but for a full queue (AD-3), a connection with too
//! much in flight (AD-4), and the end of the tokens (FI-6).

use std::ops::RangeInclusive;
use std::time::Duration;

use ticketing_proto::lock::GateUsage;

use super::{Invariant, Verdict, must};
use crate::engine::facts::{Cause, Event, Facts, LinkNo};
use crate::engine::wire::{Frame, Key};

#[derive(Default, Debug)]
pub(crate) struct Gates {
    acquires: Gate,
    keys: Gate,
    waiters: Gate,
    /// Acquires that came in this turn.
    arrived: u64,
    /// Answers that were given or delivered in this turn, each of which may have made room.
    left: u64,
    /// The first one of them, and what it must get.
    first: Option<(LinkNo, u64, Expected)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Expected {
    Busy,
    NotBusy,
    Either,
}

/// What is known of a gate.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Gate {
    #[default]
    Open,
    Closed,
    /// It may have closed, or opened, in the middle of a turn.
    Unknown,
}

impl Gate {
    /// After a time in which the usage was `used` at its end, and always `between` these.
    fn judge(self, used: RangeInclusive<u64>, between: RangeInclusive<u64>, limit: u32) -> Self {
        let limit = u64::from(limit);
        let closes = |used: u64| used * 10 >= limit * 9;
        let opens = |used: u64| used * 4 < limit * 3;
        if closes(*used.start()) {
            Self::Closed
        } else if opens(*used.end()) {
            Self::Open
        } else if (self == Self::Open && closes(*between.end()))
            || (self == Self::Closed && opens(*between.start()))
        {
            Self::Unknown
        } else {
            self
        }
    }

    fn check(self, name: &str, usage: GateUsage) -> Verdict {
        let is_right = match self {
            Self::Open => !usage.is_closed,
            Self::Closed => usage.is_closed,
            Self::Unknown => true,
        };
        must!(is_right, "the gate for {name} should be {self:?}: {usage:?}");
        Ok(())
    }
}

impl Invariant for Gates {
    fn name(&self) -> &'static str {
        "gates"
    }

    fn check(&mut self, facts: &Facts, event: &Event) -> Verdict {
        match event {
            Event::Started { .. } => *self = Self::default(),
            Event::TurnBegins { .. } => (self.first, self.arrived, self.left) = (None, 0, 0),
            Event::Received { link, frame: Frame::Acquire { wait, owner, key, .. }, .. } => {
                if self.first.is_none() {
                    self.judge(facts);
                    self.first = Some((*link, *owner, self.expected(facts, *link, *wait, key)));
                }
                self.arrived += 1;
            }
            Event::Shown { link, frame, .. } => {
                self.left += 1;
                let Frame::Busy { owner, key } = frame else { return Ok(()) };
                let expected = match self.first {
                    Some((first_link, first, expected)) if (first_link, first) == (*link, *owner) => {
                        self.first = None;
                        expected
                    }
                    _ => Expected::Either,
                };
                let is_right = match expected {
                    Expected::Busy => true,
                    Expected::NotBusy => false,
                    Expected::Either => self.may_refuse(facts, *link, key),
                };
                must!(is_right, "owner {owner} on link {link} got B for {key}: {self:?}");
            }
            Event::Delivered { .. } => self.left += 1,
            Event::TurnEnds { cause, usage, .. } => {
                must!(!matches!(self.first, Some((.., Expected::Busy))), "no B: {self:?}");
                self.judge(facts);
                let Some(usage) = usage else { return Ok(()) };
                self.acquires.check("acquires", usage.acquires)?;
                if *cause == Cause::Due {
                    self.waiters.check("waiters", usage.waiters)?;
                    // Holds that are over may be counted until somebody looks, and then count for nothing.
                    if usage.keys.used == facts.keys_held() as u64 {
                        self.keys.check("keys", usage.keys)?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl Gates {
    fn judge(&mut self, facts: &Facts) {
        let limits = &facts.limits;
        let (acquires, held, waiters) =
            (facts.acquires_in_flight(), facts.keys_held() as u64, facts.waiters() as u64);
        // What is due in this turn has been done by the server, and is not seen yet.
        let (changing_keys, due_waiters) = changing(facts);
        let (arrived, left) = (self.arrived, self.left);
        let judge = |gate: Gate, least: u64, most: u64, limit: u32| {
            gate.judge(least..=most, least.saturating_sub(left)..=most + arrived + left, limit)
        };
        self.acquires = judge(self.acquires, acquires, acquires, limits.acquires);
        self.keys = judge(self.keys, held, held + changing_keys, limits.keys);
        self.waiters = judge(self.waiters, waiters - due_waiters, waiters, limits.waiters);
    }

    /// What the first request of a turn must get (OP-10).
    fn expected(&self, facts: &Facts, link: LinkNo, wait: u8, key: &Key) -> Expected {
        let limits = &facts.limits;
        let on_link = facts.in_flight.get(&link).copied().unwrap_or_default();
        if self.acquires == Gate::Closed || on_link >= u64::from(limits.acquires_per_connection) {
            return Expected::Busy;
        }
        let queue = facts.waiting.get(key).map_or(0, Vec::len);
        let is_held = facts.held(key).is_some();
        if self.acquires == Gate::Unknown || (!is_held && queue > 0) || changing(facts).1 > 0 {
            return Expected::Either;
        }
        let gate = match (is_held, wait) {
            (true, 0) => Gate::Open,
            (true, _) if queue as u64 >= u64::from(limits.waiters_per_key) => Gate::Closed,
            (true, _) => self.waiters,
            (false, _) => self.keys,
        };
        match gate {
            Gate::Open => Expected::NotBusy,
            Gate::Closed => Expected::Busy,
            Gate::Unknown => Expected::Either,
        }
    }

    /// Whether anything can have refused a request of this turn.
    fn may_refuse(&self, facts: &Facts, link: LinkNo, key: &Key) -> bool {
        let limits = &facts.limits;
        let closes = |used: u64, limit: u32| used * 10 >= u64::from(limit) * 9;
        let on_link = facts.in_flight.get(&link).copied().unwrap_or_default();
        let queue = facts.waiting.get(key).map_or(0, Vec::len) as u64;
        [self.acquires, self.keys, self.waiters].iter().any(|&gate| gate != Gate::Open)
            || closes(facts.acquires_in_flight(), limits.acquires)
            || closes(facts.keys_held() as u64 + changing(facts).0 + self.arrived, limits.keys)
            || closes(facts.waiters() as u64, limits.waiters)
            || on_link > u64::from(limits.acquires_per_connection)
            || queue > u64::from(limits.waiters_per_key)
    }
}

/// Keys whose holds are over though somebody waits, and waiters of such keys, or whose waits are over: all of them change
/// in this turn.
fn changing(facts: &Facts) -> (u64, u64) {
    let (mut keys, mut waiters) = (0, 0);
    for (key, queue) in facts.waiting.iter().filter(|(_, queue)| !queue.is_empty()) {
        if facts.held(key).is_none() {
            keys += 1;
            waiters += queue.len() as u64;
        } else {
            let is_due = |&&request: &&usize| {
                let request = &facts.requests[request];
                request.received + Duration::from_secs(request.wait.into()) <= facts.now
            };
            waiters += queue.iter().filter(is_due).count() as u64;
        }
    }
    (keys, waiters)
}
