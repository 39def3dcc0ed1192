//! Nobody waits for a key that is free: whenever a hold ends, the next one is granted at once (OP-5, OP-6, OP-7).

use super::{Invariant, Verdict, must};
use crate::engine::facts::{Cause, Event, Facts};

pub(crate) struct Turns;

impl Invariant for Turns {
    fn name(&self) -> &'static str {
        "turns"
    }

    fn check(&mut self, facts: &Facts, event: &Event) -> Verdict {
        if let Event::TurnEnds { cause: Cause::Due, .. } = event {
            for (key, queue) in facts.waiting.iter().filter(|(_, queue)| !queue.is_empty()) {
                let first = &facts.requests[queue[0]];
                must!(facts.held(key).is_some(), "{key} is free at {:?}, and {first:?} waits", facts.now);
            }
        }
        Ok(())
    }
}
