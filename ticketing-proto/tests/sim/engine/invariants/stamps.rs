//! A frame carries the wait that remains when its first byte goes out, rounded up (CA-2), and none goes out at or after
//! the deadline; only an immediate attempt carries 0 (CA-6).

use super::{Invariant, Verdict, must};
use crate::engine::facts::{Event, Facts};
use crate::engine::wire::Frame;

pub(crate) struct Stamps;

impl Invariant for Stamps {
    fn name(&self) -> &'static str {
        "stamps"
    }

    fn check(&mut self, facts: &Facts, event: &Event) -> Verdict {
        let Event::Begun { process, now, frame: Frame::Acquire { owner, wait, lease, key }, .. } = event
        else {
            return Ok(());
        };
        let Some(call) = facts.call_of(*process, *owner) else {
            return Err(format!("process {process} sent owner {owner}, which nobody asked for"));
        };
        must!(*now < call.deadline, "{call:?} goes out at {now:?}");
        let left = call.deadline.saturating_since(*now).as_nanos().div_ceil(1_000_000_000);
        let right = if call.is_immediate { 0 } else { left };
        must!(u128::from(*wait) == right, "{call:?} goes out at {now:?} with wait {wait}, right is {right}");
        let is_right = call.lease.as_secs() == u64::from(*lease) && call.key == *key;
        must!(is_right, "{call:?} goes out with lease {lease} and key {key}");
        Ok(())
    }
}
