//! In the end nothing is left: no hold, no waiter, no timer, no ghost, no queued release, no connection.

use super::{Invariant, Verdict, must};
use crate::engine::facts::{Event, Facts};

pub(crate) struct Drained;

impl Invariant for Drained {
    fn name(&self) -> &'static str {
        "drained"
    }

    fn check(&mut self, _: &Facts, event: &Event) -> Verdict {
        let Event::Drained { used, left } = event else { return Ok(()) };
        must!(*used == [0; 3], "holds, waiters, in flight: {used:?}");
        must!(*left == [0; 4], "connections, ends of links, timers, requests: {left:?}");
        Ok(())
    }
}
