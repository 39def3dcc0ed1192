//! Situations in which promises are hard to keep: a batch of seeds that never comes into one of them shows too little.

use super::facts::{Event, Facts};
use super::wire::Frame;

pub(crate) const MARKS: [&str; 6] = [
    "a cancelled acquire was granted",
    "a grant was taken back at the end of the stream",
    "a grant was taken back undelivered",
    "an acquire was sent again after a redirect",
    "the end of a lease granted the next",
    "the end of a wait was told",
];

/// The situation that this event shows, if it is one of those.
pub(super) fn mark(facts: &Facts, event: &Event) -> Option<&'static str> {
    let [cancelled, end_of_stream, undelivered, redirect, lease, wait] = MARKS;
    match event {
        Event::Heard { process, frame: Frame::Acquired { owner, .. }, .. } => {
            facts.call_of(*process, *owner)?.is_cancelled.then_some(cancelled)
        }
        Event::Withdrawn { link, frame: Frame::Acquired { .. } } => {
            Some(if facts.ended.contains(link) { end_of_stream } else { undelivered })
        }
        Event::Begun { process, frame: Frame::Acquire { owner, .. }, .. } => {
            facts.call_of(*process, *owner)?.begun.is_some().then_some(redirect)
        }
        Event::Shown { frame: Frame::Acquired { key, .. }, .. } => {
            (!facts.holds.get(key)?.is_over).then_some(lease)
        }
        Event::Shown { link, frame: Frame::TimedOut { owner, .. }, .. } => {
            (facts.requests[facts.asked_by(*link, *owner)?].wait > 0).then_some(wait)
        }
        _ => None,
    }
}
