//! Whatever is not wanted any more is released as soon as there is a way (CR-3, CA-11): grants that made no ticket,
//! and tickets that were given up.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ticketing_proto::time::Instant;

use super::{Invariant, Verdict, must};
use crate::engine::facts::{CallNo, Event, Facts, ProcessNo};
use crate::engine::wire::Frame;

/// After this time a release is given up.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(crate) struct Compensation {
    /// Grants that reached their client, and are neither a ticket nor unwanted yet.
    undecided: BTreeMap<CallNo, u64>,
    /// Tokens that are to be released, with the time since when.
    owed: BTreeMap<ProcessNo, BTreeMap<u64, Instant>>,
    /// Those of which a release has gone out.
    released: BTreeSet<(ProcessNo, u64)>,
}

impl Invariant for Compensation {
    fn name(&self) -> &'static str {
        "compensation"
    }

    fn check(&mut self, facts: &Facts, event: &Event) -> Verdict {
        match event {
            Event::Heard { process, now, frame: Frame::Acquired { token, owner, .. }, .. } => {
                let call = facts.by_owner[&(*process, *owner)];
                let asked = &facts.calls[call];
                if asked.is_cancelled || asked.is_claimed {
                    self.owe(*process, *token, *now);
                } else {
                    self.undecided.insert(call, *token);
                }
            }
            Event::Claimed { call, now, outcome, .. } => {
                if let Some(token) = self.undecided.remove(call)
                    && outcome.is_err()
                {
                    let call = &facts.calls[*call];
                    self.owe(call.process, token, call.deadline.min(*now));
                }
            }
            Event::Cancelled { call, now } => {
                if let Some(token) = self.undecided.remove(call) {
                    self.owe(facts.calls[*call].process, token, *now);
                }
            }
            Event::GaveUp { call, now } => {
                if let Some(ticket) = facts.calls[*call].ticket {
                    self.owe(facts.calls[*call].process, ticket.token, *now);
                }
            }
            Event::Begun { process, frame: Frame::Release { token, .. }, .. } => {
                self.released.insert((*process, *token));
                if let Some(owed) = self.owed.get_mut(process) {
                    owed.remove(token);
                }
            }
            Event::Died { process } => {
                self.owed.remove(process);
                self.undecided.retain(|&call, _| facts.calls[call].process != *process);
            }
            Event::ClientTurnEnds { process, now, is_idle, .. } => {
                self.give_late_grants_up(facts, *process, *now);
                if !is_idle {
                    return Ok(());
                }
                let Some(owed) = self.owed.get_mut(process) else { return Ok(()) };
                owed.retain(|_, &mut since| *now < since + RELEASE_TIMEOUT);
                must!(owed.is_empty(), "process {process} does not release {owed:?}");
            }
            _ => {}
        }
        Ok(())
    }
}

impl Compensation {
    /// A grant whose caller has not come by the deadline is no ticket any more (CA-7).
    fn give_late_grants_up(&mut self, facts: &Facts, process: ProcessNo, now: Instant) {
        let undecided = std::mem::take(&mut self.undecided);
        for (number, token) in undecided {
            let call = &facts.calls[number];
            if call.process == process && call.deadline <= now {
                self.owe(process, token, call.deadline);
            } else {
                self.undecided.insert(number, token);
            }
        }
    }

    fn owe(&mut self, process: ProcessNo, token: u64, now: Instant) {
        if !self.released.contains(&(process, token)) {
            self.owed.entry(process).or_default().insert(token, now);
        }
    }
}
