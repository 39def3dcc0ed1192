use alloc::collections::BTreeSet;

use super::release::ReleaseId;
use crate::id::{Owner, Token};
use crate::time::Instant;

/// Who wants to be woken. The order decides between equal times: answers' deadlines before anything new begins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Timer {
    Acquire(Owner),
    Claim(ReleaseId),
    Release(Token),
    /// The connection with this index: backoff, handshake, drain.
    Link(usize),
    Close,
}

/// At most one deadline for each of them.
#[derive(Default, Debug)]
pub(super) struct Timers(BTreeSet<(Instant, Timer)>);

impl Timers {
    /// Moves a deadline; `slot` is where its owner remembers it.
    pub(super) fn set(&mut self, slot: &mut Option<Instant>, timer: Timer, at: Option<Instant>) {
        if *slot == at {
            return;
        }
        if let Some(old) = slot.take() {
            self.0.remove(&(old, timer));
        }
        if let Some(new) = at {
            self.0.insert((new, timer));
        }
        *slot = at;
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn first(&self) -> Option<(Instant, Timer)> {
        self.0.first().copied()
    }
}
