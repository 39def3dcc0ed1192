//! What is kept is bounded by what is under way: a connection owes 64 KiB and one read's replies at most (AD-5), and no
//! request outlives its deadline, its grace and the time for the end of its connection (CA-5, CA-11, CR-3).

use super::{Invariant, Verdict, must};
use crate::engine::facts::{Event, Facts};

/// 64 KiB, and what 4096 bytes of requests can add.
const MOST_OWED: usize = 64 * 1024 + 4096 / 10 * 146;
pub(crate) struct Memory;

impl Invariant for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn check(&mut self, _: &Facts, event: &Event) -> Verdict {
        match event {
            Event::TurnEnds { most_owed, .. } => {
                must!(*most_owed <= MOST_OWED, "a connection owes {most_owed} bytes");
            }
            Event::ClientTurnEnds { process, outstanding, calls, releases, .. } => {
                // A call may have a request and a compensation.
                must!(
                    *outstanding <= 2 * calls.len() + releases,
                    "process {process} keeps {outstanding} requests for {calls:?} and {releases} releases"
                );
            }
            _ => {}
        }
        Ok(())
    }
}
