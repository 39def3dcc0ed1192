//! Acquires under way: where each one is, and what its caller knows.

use alloc::vec::Vec;
use core::time::Duration;

use super::broker::{Broker, Closing, Event, Refusal};
use super::config::AcquireOptions;
use super::error::{AcquireError, Failure, ProtocolError};
use super::session::Item;
use super::timers::Timer;
use crate::id::{Owner, Token};
use crate::key::{Key, KeyRef};
use crate::limits::{Lease, Wait, WorkBudget, whole_secs_up};
use crate::time::Instant;
use crate::wire::{self, Reason, Request};

/// What an immediate attempt has for its transport (`CA-6`).
const IMMEDIATE_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause before the first retry after a redirect (`CC-2`).
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// The longest one.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// One acquire, from its call until its outcome is claimed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AcquireId(Owner);

impl AcquireId {
    /// The owner that its frame carries.
    #[must_use]
    pub const fn owner(self) -> Owner {
        self.0
    }
}

/// A lock that is held.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grant {
    /// Which lock.
    pub key: Key,
    /// The fencing token.
    pub token: Token,
    /// Until when the client can vouch for the hold (`CD-3`), on the clock that the broker is given.
    pub valid_until: Instant,
}

#[derive(Debug)]
pub(super) struct Acquire {
    key: Key,
    wait: Wait,
    lease: Lease,
    budget: Duration,
    grace: Duration,
    deadline: Instant,
    caller: Caller,
    place: Place,
    pauses: u32,
    timer: Option<Instant>,
}

/// What the caller knows.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Caller {
    Waiting,
    /// An outcome that was not claimed yet.
    Told(Result<Grant, AcquireError>),
    /// It cancelled, or claimed its outcome. A request that may still be answered is a *ghost* (`CA-11`).
    Gone,
}

/// Where the request is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// Not in flight: as many others are as may be (`CC-5`).
    HeldBack,
    /// Unsent, for lack of a connection.
    Pending,
    /// Unsent, pausing before a retry.
    Pausing { until: Instant },
    /// On the connection with this index; its sender knows whether it may have been sent.
    On(usize),
    /// Nothing more comes of it.
    Over,
}

impl Place {
    const fn is_in_flight(self) -> bool {
        matches!(self, Self::Pending | Self::Pausing { .. } | Self::On(_))
    }
}

impl Acquire {
    /// Appends the frame with the wait that remains (`CA-2`); `false` if nothing does, or nobody wants it.
    pub(super) fn encode(&self, now: Instant, owner: Owner, out: &mut Vec<u8>) -> bool {
        if now >= self.deadline || self.caller != Caller::Waiting {
            return false;
        }
        let wait = if self.wait == Wait::NONE {
            Wait::NONE
        } else {
            let left = whole_secs_up(self.deadline.saturating_since(now));
            Wait::from_secs(u8::try_from(left).unwrap_or(u8::MAX))
        };
        let key = self.key.as_key_ref();
        Request::Acquire(wire::Acquire { wait, lease: self.lease, owner, key }).encode(out);
        true
    }

    pub(super) fn is_over(&self) -> bool {
        self.place == Place::Over
    }

    fn is_waited_for(&self) -> bool {
        self.caller == Caller::Waiting
    }

    fn wakes_at(&self) -> Option<Instant> {
        match (self.place, &self.caller) {
            (Place::Over, Caller::Told(Ok(_))) => Some(self.deadline),
            (Place::Over, _) => None,
            (Place::Pausing { until }, _) => Some(until.min(self.deadline)),
            (Place::HeldBack | Place::Pending | Place::On(_), _) => Some(self.deadline),
        }
    }
}

impl Broker {
    /// Asks for a lock. The outcome is to be [claimed](Self::claim), or the request [cancelled](Self::cancel).
    ///
    /// # Errors
    /// What is wrong before anything is sent: `InvalidKey`, `UnsupportedDuration`, `InsufficientLease`, `Closed`,
    /// `Auth`, `OwnersExhausted`.
    pub fn acquire(
        &mut self,
        now: Instant,
        key: &str,
        options: AcquireOptions,
    ) -> Result<AcquireId, AcquireError> {
        self.begin(now, key, options, true)
    }

    /// The same, but where [`acquire`](Self::acquire) would wait for a place in flight (`CC-5`) it fails.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and `ClientCapacity`.
    pub fn try_acquire(
        &mut self,
        now: Instant,
        key: &str,
        options: AcquireOptions,
    ) -> Result<AcquireId, AcquireError> {
        self.begin(now, key, options, false)
    }

    fn begin(
        &mut self,
        now: Instant,
        key: &str,
        options: AcquireOptions,
        may_be_held_back: bool,
    ) -> Result<AcquireId, AcquireError> {
        let now = self.advance(now);
        let key = KeyRef::for_client(key)?.to_key();
        let wait = Wait::new(options.wait)?;
        let lease = Lease::new(options.lease)?;
        let budget = WorkBudget::new(options.min_work_budget)?.duration();
        let grace = options.check_grace()?;
        if budget > lease.duration() {
            let left = lease.duration();
            return Err(AcquireError::InsufficientLease { needed: budget, left, granted: None });
        }
        if self.close != Closing::Open {
            return Err(AcquireError::Closed);
        }
        if self.is_refused() {
            return Err(AcquireError::Auth);
        }
        if !may_be_held_back && self.in_flight >= self.max_in_flight {
            return Err(AcquireError::ClientCapacity);
        }
        let owner = self.next_owner.ok_or(AcquireError::OwnersExhausted)?;
        self.next_owner = owner.next();
        let time = if wait == Wait::NONE { IMMEDIATE_TIMEOUT } else { wait.duration() };
        let acquire = Acquire {
            key,
            wait,
            lease,
            budget,
            grace,
            deadline: now + time,
            caller: Caller::Waiting,
            place: Place::Over,
            pauses: 0,
            timer: None,
        };
        self.acquires.insert(owner, acquire);
        self.place(owner, Place::HeldBack);
        self.settle_down(now);
        Ok(AcquireId(owner))
    }

    /// The caller's gate: gives the outcome once, or `None` while there is none, or none any more.
    ///
    /// Here a grant is judged against the caller's clock: at or after the deadline it is released and the outcome
    /// is `Indeterminate` (`CA-7`); with less than `min_work_budget` left of its lease, or nothing at all, it is
    /// released and the outcome is `InsufficientLease` (`CD-3`).
    pub fn claim(&mut self, now: Instant, id: AcquireId) -> Option<Result<Grant, AcquireError>> {
        let now = self.advance(now);
        let acquire = self.acquires.get_mut(&id.0)?;
        if !matches!(acquire.caller, Caller::Told(_)) {
            return None;
        }
        let Caller::Told(outcome) = core::mem::replace(&mut acquire.caller, Caller::Gone) else {
            return None;
        };
        let (deadline, needed, place) = (acquire.deadline, acquire.budget, acquire.place);
        self.place(id.0, place);
        let outcome = outcome.and_then(|grant| {
            let left = grant.valid_until.saturating_since(now);
            let token = grant.token;
            if now >= deadline {
                self.compensate(now, grant.key, token);
                Err(AcquireError::Indeterminate)
            } else if left < needed || left.is_zero() {
                self.compensate(now, grant.key, token);
                Err(AcquireError::InsufficientLease { needed, left, granted: Some(token) })
            } else {
                self.keep_ticket(now, &grant);
                Ok(grant)
            }
        });
        self.settle_down(now);
        Some(outcome)
    }

    /// The caller does not want it any more (`CA-11`). Unsent, it is dropped; possibly sent, its late grant will be
    /// released; granted and not claimed, it is released now.
    pub fn cancel(&mut self, now: Instant, id: AcquireId) {
        let now = self.advance(now);
        let Some(acquire) = self.acquires.get_mut(&id.0) else { return };
        let place = acquire.place;
        match core::mem::replace(&mut acquire.caller, Caller::Gone) {
            Caller::Told(Ok(grant)) => self.compensate(now, grant.key, grant.token),
            Caller::Waiting | Caller::Told(Err(_)) | Caller::Gone => {}
        }
        let is_unsent = match place {
            Place::HeldBack | Place::Pending | Place::Pausing { .. } => true,
            Place::On(link) => self.links[link].sender.withdraw(Item::Acquire(id.0)),
            Place::Over => false,
        };
        self.place(id.0, if is_unsent { Place::Over } else { place });
        self.settle_down(now);
    }

    /// Moves a request, and keeps all that follows from where it is: the places in flight, the queues, its timer.
    /// What nobody waits for is not sent any more; what is over and was claimed is gone.
    pub(super) fn place(&mut self, owner: Owner, place: Place) {
        let Some(acquire) = self.acquires.get_mut(&owner) else { return };
        let place = match place {
            Place::HeldBack | Place::Pending | Place::Pausing { .. } if !acquire.is_waited_for() => {
                Place::Over
            }
            place => place,
        };
        self.in_flight += usize::from(place.is_in_flight());
        self.in_flight -= usize::from(acquire.place.is_in_flight());
        match acquire.place {
            Place::HeldBack => _ = self.held_back.remove(&owner),
            Place::Pending => _ = self.pending.remove(&owner),
            Place::Pausing { .. } | Place::On(_) | Place::Over => {}
        }
        match place {
            Place::HeldBack => _ = self.held_back.insert(owner),
            Place::Pending => _ = self.pending.insert(owner),
            Place::Pausing { .. } | Place::On(_) | Place::Over => {}
        }
        acquire.place = place;
        let wakes_at = acquire.wakes_at();
        self.timers.set(&mut acquire.timer, Timer::Acquire(owner), wakes_at);
        if place == Place::Over && acquire.caller == Caller::Gone {
            self.acquires.remove(&owner);
        }
    }

    /// Gives the caller its outcome, if it still waits for one.
    fn tell(&mut self, owner: Owner, outcome: Result<Grant, AcquireError>) {
        if let Some(acquire) = self.acquires.get_mut(&owner)
            && acquire.is_waited_for()
        {
            acquire.caller = Caller::Told(outcome);
            self.events.push_back(Event::AcquireSettled(AcquireId(owner)));
        }
    }

    /// The last word on a request: nothing more comes of it.
    fn conclude(&mut self, owner: Owner, error: AcquireError) {
        self.tell(owner, Err(error));
        self.place(owner, Place::Over);
    }

    /// Its connection is over, and it may have been sent (`CA-9`).
    pub(super) fn lose(&mut self, owner: Owner) {
        self.conclude(owner, AcquireError::Indeterminate);
    }

    pub(super) fn acquire_is_due(&mut self, now: Instant, owner: Owner) {
        let Some(acquire) = self.acquires.get_mut(&owner) else { return };
        let is_overdue = now >= acquire.deadline;
        match acquire.place {
            Place::Over => {
                // Granted in time, but its caller did not come for it.
                let unclaimed = Caller::Told(Err(AcquireError::Indeterminate));
                if let Caller::Told(Ok(grant)) = core::mem::replace(&mut acquire.caller, unclaimed) {
                    self.compensate(now, grant.key, grant.token);
                }
                self.place(owner, Place::Over);
            }
            Place::Pausing { .. } if !is_overdue => self.place(owner, Place::Pending),
            Place::HeldBack => self.conclude(owner, AcquireError::Timeout),
            Place::Pending | Place::Pausing { .. } => {
                // Certain either way; what kept every connection from carrying it says more than the time.
                let error = match self.last_failure().filter(|_| !self.is_ready()) {
                    Some(Failure::Auth) => AcquireError::Auth,
                    Some(Failure::Protocol(error)) => AcquireError::Protocol(error),
                    Some(Failure::Tls(error)) => AcquireError::Protocol(error.into()),
                    _ => AcquireError::Timeout,
                };
                self.conclude(owner, error);
            }
            Place::On(link) => {
                let last_moment = acquire.deadline + acquire.grace;
                if self.links[link].sender.withdraw(Item::Acquire(owner)) {
                    self.conclude(owner, AcquireError::Timeout);
                } else if now < last_moment {
                    self.timers.set(&mut acquire.timer, Timer::Acquire(owner), Some(last_moment));
                } else {
                    self.timers.set(&mut acquire.timer, Timer::Acquire(owner), None);
                    self.tell(owner, Err(AcquireError::Indeterminate));
                    self.drain(now, link, Failure::Overdue);
                }
            }
        }
    }

    pub(super) fn handle_acquired(
        &mut self,
        now: Instant,
        link: usize,
        token: Token,
        owner: Owner,
        key: KeyRef<'_>,
    ) -> Result<(), Failure> {
        let Some(sent_at) = self.correlate(link, owner, key) else {
            if !self.is_live(token) {
                self.compensate(now, key.to_key(), token);
            }
            return Err(ProtocolError::UnknownGrant.into());
        };
        let Some(acquire) = self.acquires.get(&owner) else { return Ok(()) };
        if acquire.is_waited_for() {
            let lease = acquire.lease.duration();
            let grant =
                Grant { key: acquire.key.clone(), token, valid_until: sent_at + (lease - lease / 1000) };
            // Whether it came in time is judged at the caller's gate, or else by its timer.
            self.tell(owner, Ok(grant));
        } else {
            self.compensate(now, key.to_key(), token);
        }
        self.place(owner, Place::Over);
        Ok(())
    }

    pub(super) fn handle_refused(
        &mut self,
        link: usize,
        owner: Owner,
        key: KeyRef<'_>,
        refusal: Refusal,
    ) -> Result<(), Failure> {
        self.correlate(link, owner, key).ok_or(ProtocolError::UnknownAnswer)?;
        self.conclude(
            owner,
            match refusal {
                Refusal::Timeout => AcquireError::Timeout,
                Refusal::Busy => AcquireError::Busy,
            },
        );
        Ok(())
    }

    /// An `E` that carries no id: it is a certain request's only if that is the only one (`ER`).
    pub(super) fn handle_rejected(&mut self, link: usize, reason: Reason) -> Result<(), Failure> {
        match (reason, self.links[link].sender.only_unanswered()) {
            (Reason::BadKey | Reason::BadLease, Some(Item::Acquire(owner))) => {
                self.links[link].sender.answered(Item::Acquire(owner));
                self.conclude(owner, AcquireError::Rejected(reason));
                Ok(())
            }
            _ => Err(ProtocolError::UnknownError(reason).into()),
        }
    }

    /// The moment just before the first byte of the request that an answer on this connection belongs to.
    fn correlate(&mut self, link: usize, owner: Owner, key: KeyRef<'_>) -> Option<Instant> {
        let acquire = self.acquires.get(&owner)?;
        if acquire.place != Place::On(link) || acquire.key.as_bytes() != key.as_bytes() {
            return None;
        }
        self.links[link].sender.answered(Item::Acquire(owner))
    }

    /// A redirect says that nothing unanswered was executed (`CA-10`): who has a caller and time is unsent again.
    pub(super) fn take_back_unanswered(&mut self, now: Instant, link: usize) {
        self.give_back_unsent(link);
        let sent: Vec<_> = self.links[link].sender.take_sent().collect();
        for item in sent {
            match item {
                Item::Release(token) => self.pause_release(now, token),
                Item::Acquire(owner) => {
                    let Some(acquire) = self.acquires.get_mut(&owner) else { continue };
                    if now < acquire.deadline {
                        let until = now + pause(acquire.pauses);
                        acquire.pauses = acquire.pauses.saturating_add(1);
                        self.place(owner, Place::Pausing { until });
                    } else {
                        self.conclude(owner, AcquireError::Timeout);
                    }
                }
            }
        }
    }

    /// Every connection was refused: who waits for one waits in vain (`CC-3`).
    pub(super) fn fail_refused(&mut self) {
        if self.is_refused() {
            let is_unsent = |acquire: &Acquire| {
                matches!(acquire.place, Place::HeldBack | Place::Pending | Place::Pausing { .. })
            };
            let waiting = self.acquires.iter().filter(|(_, acquire)| is_unsent(acquire));
            let owners: Vec<_> = waiting.map(|(&owner, _)| owner).collect();
            owners.into_iter().for_each(|owner| self.conclude(owner, AcquireError::Auth));
        }
    }

    /// Of the first acquires that a connection is to send, those whose callers went away while they might have been
    /// sent: they were not (`CA-11`).
    pub(super) fn drop_unwanted(&mut self, link: usize, count: usize) {
        let is_wanted = |owner: &Owner| self.acquires.get(owner).is_some_and(Acquire::is_waited_for);
        let first = self.links[link].sender.first_acquires(count);
        let unwanted: Vec<_> = first.filter(|owner| !is_wanted(owner)).collect();
        for owner in unwanted {
            self.links[link].sender.withdraw(Item::Acquire(owner));
            self.place(owner, Place::Over);
        }
    }

    pub(super) fn close_acquires(&mut self) {
        let owners: Vec<_> = self.acquires.keys().copied().collect();
        for owner in owners {
            let Some(acquire) = self.acquires.get(&owner) else { continue };
            match acquire.place {
                Place::HeldBack | Place::Pending | Place::Pausing { .. } => {
                    self.conclude(owner, AcquireError::Closed);
                }
                Place::On(link) if self.links[link].sender.withdraw(Item::Acquire(owner)) => {
                    self.conclude(owner, AcquireError::Closed);
                }
                Place::On(_) => self.tell(owner, Err(AcquireError::Indeterminate)),
                Place::Over => {}
            }
        }
    }

    pub(super) fn admit_held_back(&mut self) {
        while self.in_flight < self.max_in_flight
            && let Some(&owner) = self.held_back.first()
        {
            self.place(owner, Place::Pending);
        }
    }

    pub(super) fn dispatch_acquires(&mut self) {
        while let Some(&owner) = self.pending.first()
            && let Some(link) = self.route()
        {
            self.place(owner, Place::On(link));
            self.links[link].sender.enqueue(Item::Acquire(owner));
        }
    }

    /// Whether the application holds, or is about to be given, a ticket with this token (`CA-13`).
    fn is_live(&self, token: Token) -> bool {
        let is_granted =
            |acquire: &Acquire| matches!(&acquire.caller, Caller::Told(Ok(grant)) if grant.token == token);
        self.tickets.contains_key(&token) || self.acquires.values().any(is_granted)
    }

    /// Remembers a ticket until it is released or discarded; forgets those that were leaked, once they are over.
    fn keep_ticket(&mut self, now: Instant, grant: &Grant) {
        const SWEEP_ABOVE: usize = 1024;
        if self.tickets.len() >= SWEEP_ABOVE && self.tickets.len().is_power_of_two() {
            self.tickets.retain(|_, &mut valid_until| valid_until > now);
        }
        self.tickets.insert(grant.token, grant.valid_until);
    }
}

/// The pause before a retry: 10 ms, doubling to 100 ms (`CC-2`).
pub(super) fn pause(pauses: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << pauses.min(4)).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_from_10_to_100_ms() {
        let pauses: Vec<_> = (0..6).map(|count| pause(count).as_millis()).collect();
        assert_eq!(pauses, [10, 20, 40, 80, 100, 100]);
    }
}
