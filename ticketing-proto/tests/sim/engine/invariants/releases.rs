//! A release is answered by `R` if its token is that of the hold, and by `N` if not; neither frees another one's hold
//! (OP-5). What a caller is told was said by a server.

use std::collections::BTreeSet;

use ticketing_proto::client::Released;

use super::{Invariant, Verdict, must};
use crate::engine::facts::{Event, Facts, ProcessNo};
use crate::engine::wire::Frame;

#[derive(Default)]
pub(crate) struct Releases {
    /// What each process was told of which token.
    told: BTreeSet<(ProcessNo, u64, bool)>,
}

impl Invariant for Releases {
    fn name(&self) -> &'static str {
        "releases"
    }

    fn check(&mut self, facts: &Facts, event: &Event) -> Verdict {
        match event {
            Event::Shown { link, frame, .. } => {
                let (is_held, token, key) = match frame {
                    Frame::Released { token, key } => (true, token, key),
                    Frame::NotHeld { token, key } => (false, token, key),
                    _ => return Ok(()),
                };
                let asked = facts.asked.get(link).and_then(|asked| asked.front());
                let right = Some(&(*token, key.clone(), is_held));
                must!(asked == right, "link {link} got {frame:?}, right was {asked:?} (token, key, held)");
            }
            Event::Heard { process, frame: Frame::Released { token, .. }, .. } => {
                self.told.insert((*process, *token, true));
            }
            Event::Heard { process, frame: Frame::NotHeld { token, .. }, .. } => {
                self.told.insert((*process, *token, false));
            }
            Event::ReleaseEnded { call, outcome: Some(outcome), .. } if facts.sees_wire => {
                let call = &facts.calls[*call];
                if let Some(ticket) = &call.ticket {
                    let said = (call.process, ticket.token, *outcome == Released::Released);
                    must!(self.told.contains(&said), "{call:?} was told {outcome:?}, by nobody");
                }
            }
            _ => {}
        }
        Ok(())
    }
}
