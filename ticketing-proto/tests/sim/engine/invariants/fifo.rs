//! A key's queue is served first come, first served (OP-9).

use super::{Invariant, Verdict, must};
use crate::engine::facts::{Event, Facts, State};
use crate::engine::wire::Frame;

pub(crate) struct Fifo;

impl Invariant for Fifo {
    fn name(&self) -> &'static str {
        "FIFO"
    }

    fn check(&mut self, facts: &Facts, event: &Event) -> Verdict {
        let Event::Shown { link, frame: Frame::Acquired { owner, key, token }, .. } = event else {
            return Ok(());
        };
        let Some(granted) = facts.asked_by(*link, *owner) else { return Ok(()) };
        // Timeouts of this turn are facts already.
        let earlier = facts.waiting.get(key).into_iter().flatten().find(|&&waiting| waiting < granted);
        if let Some(&earlier) = earlier {
            let (earlier, granted) = (&facts.requests[earlier], &facts.requests[granted]);
            must!(earlier.state != State::Waiting, "{token} went to {granted:?}, before {earlier:?}");
        }
        Ok(())
    }
}
