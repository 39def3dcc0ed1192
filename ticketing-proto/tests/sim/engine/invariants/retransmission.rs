//! An acquire of which a byte may have gone out is never sent again, on any connection (CA-3), unless its connection was
//! told that nothing was executed (CA-10).

use std::collections::{BTreeMap, BTreeSet};

use super::{Invariant, Verdict, must};
use crate::engine::facts::{Event, Facts, LinkNo, ProcessNo};
use crate::engine::wire::Frame;

#[derive(Default)]
pub(crate) struct Retransmission {
    /// Over which link each went last.
    sent: BTreeMap<(ProcessNo, u64), LinkNo>,
    redirected: BTreeSet<LinkNo>,
}

impl Invariant for Retransmission {
    fn name(&self) -> &'static str {
        "retransmission"
    }

    fn check(&mut self, _: &Facts, event: &Event) -> Verdict {
        match event {
            Event::Begun { link, process, frame: Frame::Acquire { owner, .. }, .. } => {
                if let Some(earlier) = self.sent.insert((*process, *owner), *link) {
                    must!(
                        earlier != *link && self.redirected.contains(&earlier),
                        "owner {owner} of process {process} went over link {earlier}, and now over {link}"
                    );
                }
            }
            Event::Heard { link, frame: Frame::Error(reason), .. } if &**reason != "bad_lease" => {
                self.redirected.insert(*link);
            }
            _ => {}
        }
        Ok(())
    }
}
