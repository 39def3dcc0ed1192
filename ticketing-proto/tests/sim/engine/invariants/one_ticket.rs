//! A key has at most one valid ticket at any moment. A server that starts anew knows nothing of earlier holds, so this is
//! promised for each of its lives.

use super::{Invariant, Verdict, must};
use crate::engine::facts::{Event, Facts};

pub(crate) struct OneTicket;

impl Invariant for OneTicket {
    fn name(&self) -> &'static str {
        "one ticket"
    }

    fn check(&mut self, facts: &Facts, event: &Event) -> Verdict {
        let Event::Claimed { call, time, outcome: Ok(grant), .. } = event else { return Ok(()) };
        let life = facts.life_of(grant.token.value());
        for other in facts.calls.iter().filter(|other| other.key == facts.calls[*call].key) {
            if let Some(ticket) = &other.ticket {
                let is_over = ticket.is_given_up || ticket.valid_until <= *time;
                must!(
                    is_over || facts.life_of(ticket.token) != life,
                    "{grant:?} is given while there is {ticket:?} of {other:?}"
                );
            }
        }
        Ok(())
    }
}
