//! The applications: they call, claim, cancel, and give up their tickets.

use std::time::Duration;

use ticketing_proto::client::{
    AcquireError, AcquireOptions, Broker, Grant, ReleaseError, ReleaseId, Released,
};
use ticketing_proto::id::Token;
use ticketing_proto::key::Key;

use super::facts::{Call, CallNo, Event};
use super::plan::{AcquirePlan, Action, Ending, Fault};
use super::world::{Wake, World};

/// What an immediate attempt has for its transport (CA-6).
const IMMEDIATE_TIMEOUT: Duration = Duration::from_secs(5);

/// A fault that finds no link, or no server, comes back so much later.
const FAULT_RETRY: Duration = Duration::from_millis(250);

/// Every way in which a call can end, and a release.
pub(crate) const OUTCOMES: [&str; 18] = [
    "auth",
    "busy",
    "cancelled",
    "client capacity",
    "closed",
    "granted",
    "indeterminate",
    "insufficient lease after a grant",
    "insufficient lease before the call",
    "invalid key",
    "not held",
    "owners exhausted",
    "protocol",
    "rejected",
    "released",
    "timeout",
    "unconfirmed",
    "unsupported duration",
];

const fn name(outcome: &Result<Grant, AcquireError>) -> &'static str {
    match outcome {
        Ok(_) => "granted",
        Err(error) => match error {
            AcquireError::InvalidKey(_) => "invalid key",
            AcquireError::UnsupportedDuration(_) => "unsupported duration",
            AcquireError::InsufficientLease { granted: None, .. } => "insufficient lease before the call",
            AcquireError::InsufficientLease { granted: Some(_), .. } => "insufficient lease after a grant",
            AcquireError::Timeout => "timeout",
            AcquireError::Busy => "busy",
            AcquireError::ClientCapacity => "client capacity",
            AcquireError::Closed => "closed",
            AcquireError::OwnersExhausted => "owners exhausted",
            AcquireError::Auth => "auth",
            AcquireError::Rejected(_) => "rejected",
            AcquireError::Protocol(_) => "protocol",
            AcquireError::Indeterminate => "indeterminate",
            _ => "another outcome",
        },
    }
}

impl World {
    pub(super) fn act(&mut self, number: usize) {
        let action = self.actions[number].1.clone();
        let client = match &action {
            Action::Acquire(AcquirePlan { client, .. })
            | Action::Close { client, .. }
            | Action::Crash { client, .. } => Some(*client),
            Action::Fault(_) => None,
        };
        // A process that stands still does nothing.
        let until = match (client, &action) {
            (Some(client), _) => self.clients[client].paused_until,
            (None, Action::Fault(Fault::ShutServerDown { .. })) => self.host.paused_until,
            _ => self.now,
        };
        if until > self.now {
            return self.wake_at(until, Wake::Act(number));
        }
        self.oracle.note(self.now, || format!("{action:?}"));
        match action {
            Action::Acquire(plan) => self.begin(plan),
            Action::Close { client, back_after } => {
                if self.clients[client].broker.is_some() && self.clients[client].back_after.is_none() {
                    self.count("operations");
                    self.clients[client].back_after = Some(back_after);
                    self.with_broker(client, Broker::close);
                }
            }
            Action::Crash { client, back_after } => {
                if self.clients[client].broker.is_some() {
                    self.count("operations");
                    self.end_process(client);
                    self.wake_at(self.now + back_after, Wake::StartClient(client));
                }
            }
            Action::Fault(fault) => {
                if self.strike(fault) {
                    self.faults_to_come -= 1;
                } else {
                    self.wake_at(self.now + FAULT_RETRY, Wake::Act(number));
                }
            }
        }
    }

    fn begin(&mut self, plan: AcquirePlan) {
        if self.clients[plan.client].broker.is_none() {
            return;
        }
        self.count("operations");
        let options =
            AcquireOptions::new(plan.budget).wait(plan.wait).lease(plan.lease).response_grace(plan.grace);
        match self.acquire(plan.client, &plan.key, options, plan.is_try) {
            Ok(call) => {
                if let Some(after) = plan.cancels_after {
                    self.wake_at(self.now + after, Wake::Cancel(call));
                }
                // It may have settled at once, before it had a script.
                self.wake_at(self.now + plan.claims_after, Wake::Claim(call));
                self.scripts.insert(call, plan);
            }
            Err(error) => self.count(name(&Err(error))),
        }
    }

    /// Asks for a lock.
    pub(crate) fn acquire(
        &mut self,
        client: usize,
        key: &str,
        options: AcquireOptions,
        is_try: bool,
    ) -> Result<CallNo, AcquireError> {
        let now = self.client_now(client);
        let Some(broker) = &mut self.clients[client].broker else { return Err(AcquireError::Closed) };
        let id =
            if is_try { broker.try_acquire(now, key, options) } else { broker.acquire(now, key, options) }?;
        let whole_secs = |span: Duration| Duration::from_secs(span.as_nanos().div_ceil(1_000_000_000) as u64);
        let wait = whole_secs(options.wait);
        let time = if wait.is_zero() { IMMEDIATE_TIMEOUT } else { wait };
        let call = self.oracle.facts.add_call(Call {
            process: self.clients[client].process,
            owner: id.owner().value(),
            key: key.into(),
            deadline: now + time,
            grace: options.response_grace,
            is_immediate: wait.is_zero(),
            lease: whole_secs(options.lease),
            budget: options.min_work_budget,
            is_settled: false,
            is_cancelled: false,
            is_claimed: false,
            ticket: None,
            released: None,
            begun: None,
        });
        self.clients[client].calls.insert(id, call);
        self.clients[client].recent_calls.push(call);
        self.see(&Event::Called { call });
        self.client_turn(client);
        Ok(call)
    }

    /// The client of a call whose process lives and can do something now; else it may be woken when it can.
    fn caller(&mut self, call: CallNo, wake: Wake) -> Option<usize> {
        let process = self.oracle.facts.calls[call].process;
        let client = self.processes[process];
        let host = &self.clients[client];
        if host.process != process || host.broker.is_none() {
            return None;
        }
        if host.paused_until > self.now {
            self.wake_at(self.clients[client].paused_until, wake);
            return None;
        }
        Some(client)
    }

    pub(super) fn claim_when_told(&mut self, call: CallNo) {
        let Call { is_settled, is_claimed, is_cancelled, .. } = self.oracle.facts.calls[call];
        if is_settled && !is_claimed && !is_cancelled && self.caller(call, Wake::Claim(call)).is_some() {
            self.claim(call);
        }
    }

    /// Claims the outcome of a call, if there is one.
    pub(crate) fn claim(&mut self, call: CallNo) -> Option<Result<Grant, AcquireError>> {
        let process = self.oracle.facts.calls[call].process;
        let owner = self.oracle.facts.calls[call].owner;
        let client = self.processes[process];
        let now = self.client_now(client);
        let host = &mut self.clients[client];
        let id = host.calls.iter().find(|&(id, _)| id.owner().value() == owner).map(|(&id, _)| id)?;
        let outcome = host.broker.as_mut()?.claim(now, id)?;
        host.calls.remove(&id);
        self.count(name(&outcome));
        let valid_until =
            outcome.as_ref().ok().map(|grant| self.clients[client].clock.when(grant.valid_until));
        self.see(&Event::Claimed { call, now, time: self.now, outcome: outcome.clone(), valid_until });
        if let (Some(script), Some(valid_until)) = (self.scripts.get(&call), valid_until) {
            let until = match script.ending {
                Ending::Overstay => valid_until + Duration::from_millis(300),
                Ending::Leak => valid_until,
                _ => self.now + script.works_for,
            };
            self.wake_at(until, Wake::LetGo(call));
        }
        self.client_turn(client);
        Some(outcome)
    }

    pub(super) fn cancel_in_time(&mut self, call: CallNo) {
        if !self.oracle.facts.calls[call].is_claimed && self.caller(call, Wake::Cancel(call)).is_some() {
            self.cancel(call);
        }
    }

    pub(crate) fn cancel(&mut self, call: CallNo) {
        let Call { process, owner, .. } = self.oracle.facts.calls[call];
        let client = self.processes[process];
        let now = self.client_now(client);
        let host = &mut self.clients[client];
        let id = host.calls.iter().find(|&(id, _)| id.owner().value() == owner).map(|(&id, _)| id);
        if let (Some(id), Some(broker)) = (id, &mut host.broker) {
            broker.cancel(now, id);
            host.calls.remove(&id);
            self.count("operations");
            self.count("cancelled");
            self.see(&Event::Cancelled { call, now });
            self.client_turn(client);
        }
    }

    /// The end of a ticket.
    pub(super) fn let_go(&mut self, call: CallNo) {
        if self.caller(call, Wake::LetGo(call)).is_none() {
            return;
        }
        let Some(script) = self.scripts.get(&call) else { return };
        match script.ending {
            Ending::Leak => {}
            Ending::Drop => self.discard(call),
            Ending::Release | Ending::Overstay => _ = self.release(call),
            Ending::ReleaseTwice => {
                self.release(call);
                self.release(call);
            }
            Ending::ReleaseAndForget => {
                if let Some((client, id)) = self.release(call) {
                    self.clients[client].releases.remove(&id);
                    self.with_broker(client, |broker, now| broker.forget_release(now, id));
                }
            }
        }
    }

    /// Gives a ticket back.
    pub(crate) fn release(&mut self, call: CallNo) -> Option<(usize, ReleaseId)> {
        let (client, key, token) = self.give_up(call)?;
        let now = self.client_now(client);
        let id = self.clients[client].broker.as_mut()?.release(now, &key, token);
        self.clients[client].releases.insert(id, (call, now));
        self.client_turn(client);
        Some((client, id))
    }

    pub(crate) fn discard(&mut self, call: CallNo) {
        if let Some((client, key, token)) = self.give_up(call) {
            self.with_broker(client, |broker, now| broker.discard(now, key, token));
        }
    }

    fn give_up(&mut self, call: CallNo) -> Option<(usize, Key, Token)> {
        let Call { process, ref key, ref ticket, .. } = self.oracle.facts.calls[call];
        let token = Token::new(ticket.as_ref()?.token)?;
        let key = Key::new(key.as_bytes()).expect("it was granted");
        let client = self.processes[process];
        let now = self.client_now(client);
        self.clients[client].recent_releases.push(now);
        self.count("operations");
        self.see(&Event::GaveUp { call, now });
        Some((client, key, token))
    }

    pub(super) fn claim_release(&mut self, client: usize, id: ReleaseId) {
        let now = self.client_now(client);
        let Some((call, called)) = self.clients[client].releases.remove(&id) else { return };
        let outcome = self.clients[client].broker.as_mut().and_then(|broker| broker.claim_release(id));
        self.count(match outcome {
            Some(Ok(Released::Released)) => "released",
            Some(Ok(Released::NotHeld)) => "not held",
            Some(Err(ReleaseError::Unconfirmed)) => "unconfirmed",
            _ => "another outcome of a release",
        });
        let outcome = outcome.and_then(Result::ok);
        let resumed = self.clients[client].resumed;
        self.see(&Event::ReleaseEnded { call, now, called, resumed, outcome });
    }

    /// The process is no more; the kernel closes its sockets.
    pub(super) fn end_process(&mut self, client: usize) {
        let host = &mut self.clients[client];
        let process = host.process;
        host.broker = None;
        host.due = None;
        host.connecting.clear();
        host.calls.clear();
        host.recent_calls.clear();
        host.recent_releases.clear();
        host.releases.clear();
        host.back_after = None;
        for link in host.links.clone() {
            self.close_here(link);
        }
        self.see(&Event::Died { process });
    }
}
