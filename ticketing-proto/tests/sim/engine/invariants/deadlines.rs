//! A call ends by its deadline and its grace (CA-1, CA-4, CA-12), a release within 5 s (CR-1), and a waiter at the server
//! by the end of its wait (OP-3).

use std::time::Duration;

use super::{Invariant, Verdict, must};
use crate::engine::facts::{Cause, Event, Facts};

const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);
/// A fast clock passes over moments: it shows the next one.
const CLOCK_STEP: Duration = Duration::from_nanos(1);

pub(crate) struct Deadlines;

impl Invariant for Deadlines {
    fn name(&self) -> &'static str {
        "deadlines"
    }

    fn check(&mut self, facts: &Facts, event: &Event) -> Verdict {
        match event {
            Event::ClientTurnEnds { process, now, calls, .. } => {
                for &call in calls {
                    let call = &facts.calls[call];
                    let has_time = call.is_settled || call.is_cancelled || *now < call.deadline + call.grace;
                    must!(has_time, "process {process} has no outcome at {now:?} for {call:?}");
                }
            }
            Event::ReleaseEnded { call, now, called, resumed, .. } => {
                must!(
                    *now <= (*called + RELEASE_TIMEOUT + CLOCK_STEP).max(*resumed),
                    "{:?} was released at {called:?}, told at {now:?}",
                    facts.calls[*call]
                );
            }
            Event::TurnEnds { cause: Cause::Due, .. } => {
                for request in facts.waiting.values().flatten().map(|&request| &facts.requests[request]) {
                    let due = request.received + Duration::from_secs(request.wait.into());
                    must!(facts.now < due, "{request:?} still waits at {:?}", facts.now);
                }
            }
            _ => {}
        }
        Ok(())
    }
}
