//! What the server counts is what was seen: waiters, acquires in flight, and holds, which may be counted until somebody
//! looks at them (AD-1, OP-7). So no waiter of a dead connection is kept, and none is granted the lock behind
//! everybody's back.

use super::{Invariant, Verdict, must};
use crate::engine::facts::{Event, Facts};

pub(crate) struct Counters;

impl Invariant for Counters {
    fn name(&self) -> &'static str {
        "counters"
    }

    fn check(&mut self, facts: &Facts, event: &Event) -> Verdict {
        let Event::TurnEnds { usage: Some(usage), .. } = event else { return Ok(()) };
        let waiters = facts.waiters();
        must!(usage.waiters.used == waiters as u64, "{} waiters, seen were {waiters}", usage.waiters.used);
        let in_flight = facts.acquires_in_flight();
        must!(usage.acquires.used == in_flight, "{} in flight, seen {in_flight}", usage.acquires.used);
        let known = facts.holds.values().filter(|hold| !hold.is_over).count() as u64;
        let (held, valid) = (usage.keys.used, facts.keys_held() as u64);
        must!((valid..=known).contains(&held), "{held} holds; of {known} known ones {valid} are valid");
        Ok(())
    }
}
