//! No hold ends early (OP-6): before a key is granted again, the hold was released, taken back undelivered, or its lease
//! was over.

use super::{Invariant, Verdict, must};
use crate::engine::facts::{Event, Facts};
use crate::engine::wire::Frame;

pub(crate) struct Expiry;

impl Invariant for Expiry {
    fn name(&self) -> &'static str {
        "expiry"
    }

    fn check(&mut self, facts: &Facts, event: &Event) -> Verdict {
        if let Event::Shown { frame: Frame::Acquired { token, key, .. }, .. } = event {
            let held = facts.held(key);
            must!(held.is_none(), "{key} is granted by {token} at {:?}, and it is {held:?}", facts.now);
        }
        Ok(())
    }
}
