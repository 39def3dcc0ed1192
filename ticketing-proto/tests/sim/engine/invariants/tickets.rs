//! A ticket is what a server granted for that very request, given before the call's deadline (CA-7), valid no longer than
//! the lease from its first byte on, and with enough of it left for the work (CD-3).

use std::collections::BTreeMap;

use super::{Invariant, Verdict, must};
use crate::engine::facts::{Event, Facts, ProcessNo};
use crate::engine::wire::{Frame, Key};

#[derive(Default)]
pub(crate) struct Tickets {
    heard: BTreeMap<(ProcessNo, u64), (u64, Key)>,
}

impl Invariant for Tickets {
    fn name(&self) -> &'static str {
        "tickets"
    }

    fn check(&mut self, facts: &Facts, event: &Event) -> Verdict {
        match event {
            Event::Heard { process, frame: Frame::Acquired { token, owner, key }, .. } => {
                self.heard.insert((*process, *owner), (*token, key.clone()));
            }
            Event::Claimed { call, now, outcome: Ok(grant), .. } => {
                let call = &facts.calls[*call];
                must!(!call.is_cancelled, "{call:?} was cancelled, and got {grant:?}");
                must!(*now < call.deadline, "{call:?} got {grant:?} at {now:?}");
                let needed = *now + call.budget;
                must!(
                    *now < grant.valid_until && needed <= grant.valid_until,
                    "{call:?} got {grant:?} at {now:?}: too little is left"
                );
                if facts.sees_wire {
                    let heard = self.heard.get(&(call.process, call.owner));
                    let is_that = |(token, key): &(u64, Key)| {
                        *token == grant.token.value() && **key == *grant.key.as_str()
                    };
                    must!(heard.is_some_and(is_that), "{call:?} got {grant:?}, granted was {heard:?}");
                    let vouched = call.begun.map(|begun| begun + (call.lease - call.lease / 1000));
                    must!(
                        vouched.is_some_and(|until| grant.valid_until <= until),
                        "{call:?} got {grant:?}, valid until {vouched:?} at most"
                    );
                }
            }
            _ => {}
        }
        Ok(())
    }
}
