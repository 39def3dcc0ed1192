//! A result that is certain is true: nothing was granted, and nothing ever will be (OP-4, CA-4, CA-8). A grant that the
//! server took back before it was delivered is none (OP-7, TR-10).

use std::collections::BTreeMap;

use ticketing_proto::client::AcquireError;
use ticketing_proto::id::Token;

use super::{Invariant, Verdict, must};
use crate::engine::facts::{Event, Facts, ProcessNo};
use crate::engine::wire::Frame;

#[derive(Default)]
pub(crate) struct Certainty {
    /// The tokens that servers gave, by process and owner.
    granted: BTreeMap<(ProcessNo, u64), u64>,
    /// Those of whom the client knows for certain that nothing is held.
    nothing: BTreeMap<(ProcessNo, u64), AcquireError>,
}

impl Invariant for Certainty {
    fn name(&self) -> &'static str {
        "certainty"
    }

    fn check(&mut self, facts: &Facts, event: &Event) -> Verdict {
        match event {
            Event::Shown { process, frame: Frame::Acquired { token, owner, .. }, .. } => {
                let nothing = self.nothing.get(&(*process, *owner));
                must!(nothing.is_none(), "owner {owner} of process {process} is granted after {nothing:?}");
                self.granted.insert((*process, *owner), *token);
            }
            Event::Withdrawn { frame: Frame::Acquired { token, .. }, .. } => {
                self.granted.retain(|_, granted| granted != token);
            }
            Event::Claimed { call, outcome: Err(error), .. } if facts.sees_wire && error.is_certain() => {
                let call = &facts.calls[*call];
                let (granted, token) = (
                    match error {
                        AcquireError::InsufficientLease { granted, .. } => granted.map(Token::value),
                        _ => None,
                    },
                    self.granted.get(&(call.process, call.owner)).copied(),
                );
                must!(granted == token, "{call:?} ended with {error:?} and was granted {token:?}");
                if granted.is_none() {
                    self.nothing.insert((call.process, call.owner), error.clone());
                }
            }
            _ => {}
        }
        Ok(())
    }
}
