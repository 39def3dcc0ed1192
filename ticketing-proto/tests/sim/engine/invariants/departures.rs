//! A waiter's grant does not go out to a peer whose stream has ended, unless it had begun to (TR-10); and what was on its
//! way to a live peer is not taken back.

use super::{Invariant, Verdict, must};
use crate::engine::facts::{Event, Facts};

pub(crate) struct Departures;

impl Invariant for Departures {
    fn name(&self) -> &'static str {
        "departures"
    }

    fn check(&mut self, facts: &Facts, event: &Event) -> Verdict {
        match event {
            Event::Withdrawn { link, frame } => {
                must!(facts.departed.contains(link), "{frame:?} was taken back from the live link {link}");
            }
            Event::TurnEnds { ended, .. } => {
                for (link, frame) in ended {
                    must!(
                        !facts.is_waiters_grant(*link, frame),
                        "{frame:?} is kept for link {link}, which has ended"
                    );
                }
            }
            _ => {}
        }
        Ok(())
    }
}
