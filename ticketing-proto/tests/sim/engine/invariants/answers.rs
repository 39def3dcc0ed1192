//! Each acquire that the server received is answered once at most: no grant after `T` or `B`, neither of them after a
//! grant, no answer that nobody asked for (OP-4, RD-1). `T` says that a wait is over (OP-3), or, with a wait of 0,
//! that the key is held (OP-2).

use std::time::Duration;

use super::{Invariant, Verdict, must};
use crate::engine::facts::{Event, Facts, LinkNo, Request};
use crate::engine::wire::{Frame, Key};

#[derive(Default)]
pub(crate) struct Answers {
    /// Immediate attempts that were refused in this turn, on keys that only a grant of the same turn can have held.
    doubtful: Vec<Key>,
}

impl Invariant for Answers {
    fn name(&self) -> &'static str {
        "answers"
    }

    fn check(&mut self, facts: &Facts, event: &Event) -> Verdict {
        match event {
            Event::TurnEnds { .. } => {
                must!(self.doubtful.is_empty(), "there was a T, and these were free: {:?}", self.doubtful);
            }
            Event::Started { .. } => self.doubtful.clear(),
            Event::Shown { link, frame, .. } => match frame {
                Frame::Acquired { owner, key, .. } => {
                    request(facts, *link, *owner, key)?;
                    self.doubtful.retain(|doubtful| doubtful != key);
                }
                Frame::Busy { owner, key } => _ = request(facts, *link, *owner, key)?,
                Frame::TimedOut { owner, key } => {
                    let request = request(facts, *link, *owner, key)?;
                    let due = request.received + Duration::from_secs(request.wait.into());
                    must!(due <= facts.now, "{request:?} got T at {:?}", facts.now);
                    let was_held = facts.holds.get(key).is_some_and(|hold| {
                        facts.now < hold.until && (!hold.is_over || facts.is_released_now(hold.token))
                    });
                    if request.wait == 0 && !was_held {
                        self.doubtful.push(key.clone());
                    }
                }
                _ => {}
            },
            _ => {}
        }
        Ok(())
    }
}

fn request<'a>(facts: &'a Facts, link: LinkNo, owner: u64, key: &Key) -> Result<&'a Request, String> {
    let request = facts.asked_by(link, owner).map(|request| &facts.requests[request]);
    request.filter(|request| request.key == *key).ok_or_else(|| {
        format!("an answer for owner {owner} and {key} on link {link}, where {request:?} is unanswered")
    })
}
