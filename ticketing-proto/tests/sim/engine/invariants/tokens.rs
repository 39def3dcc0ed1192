//! Tokens rise strictly with every grant, over all keys, in each of the server's lives (FI-6). Grants of one turn are seen
//! in the order of their tokens.

use super::{Invariant, Verdict, must};
use crate::engine::facts::{Event, Facts};
use crate::engine::wire::Frame;

#[derive(Default)]
pub(crate) struct Tokens {
    /// The greatest one of this life.
    latest: u64,
}

impl Invariant for Tokens {
    fn name(&self) -> &'static str {
        "tokens"
    }

    fn check(&mut self, _: &Facts, event: &Event) -> Verdict {
        match event {
            Event::Started { first_token, .. } => self.latest = first_token - 1,
            Event::Shown { frame: frame @ Frame::Acquired { token, .. }, .. } => {
                must!(self.latest < *token, "{frame:?} follows {}", self.latest);
                self.latest = *token;
            }
            _ => {}
        }
        Ok(())
    }
}
