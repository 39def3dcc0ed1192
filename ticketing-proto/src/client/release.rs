//! Releases under way: those that somebody waits for, and compensations that nobody does (`CR`).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use super::acquire::pause;
use super::broker::{Broker, Event};
use super::error::{Failure, ProtocolError, ReleaseError, Released};
use super::session::Item;
use super::timers::Timer;
use crate::id::Token;
use crate::key::{Key, KeyRef};
use crate::time::Instant;
use crate::wire::{self, Request};

/// What a release has, from the call or the enqueue, reconnects and retries included (`CR-1`, `CR-3`).
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);
/// Places for compensating releases (`CR-3`).
pub const MAX_COMPENSATIONS: usize = 512;

/// One call of [`Broker::release`], until its outcome is claimed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ReleaseId(u64);

type Outcome = Result<Released, ReleaseError>;

/// All releases under way. Releases of one token are one request (`CR-2`).
#[derive(Default, Debug)]
pub(super) struct Releases {
    requests: BTreeMap<Token, Release>,
    claims: BTreeMap<ReleaseId, Claim>,
    /// Those without a connection to go over, in the order of their enqueue.
    pending: BTreeMap<u64, Token>,
    compensations: usize,
    next: u64,
}

#[derive(Debug)]
struct Release {
    key: Key,
    /// Its place in the order of enqueue.
    order: u64,
    place: Place,
    deadline: Instant,
    timer: Option<Instant>,
    /// Who waits for it; empty for a compensation.
    claims: Vec<ReleaseId>,
    is_compensation: bool,
    pauses: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Pending,
    Pausing { until: Instant },
    On(usize),
}

#[derive(Debug)]
struct Claim {
    token: Token,
    outcome: Option<Outcome>,
    timer: Option<Instant>,
}

impl Releases {
    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    /// Appends the frame; `false` if the release is over.
    pub(super) fn encode(&self, token: Token, out: &mut Vec<u8>) -> bool {
        let Some(release) = self.requests.get(&token) else { return false };
        Request::Release(wire::Release { token: token.value(), key: release.key.as_key_ref() }).encode(out);
        true
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

impl Broker {
    /// Gives a lock back. The outcome comes within 5 s (`CR-1`) and is to be [claimed](Self::claim_release) or
    /// [forgotten](Self::forget_release).
    pub fn release(&mut self, now: Instant, key: &Key, token: Token) -> ReleaseId {
        let now = self.advance(now);
        self.tickets.remove(&token);
        let id = ReleaseId(self.releases.number());
        let deadline = now + RELEASE_TIMEOUT;
        self.releases.claims.insert(id, Claim { token, outcome: None, timer: None });
        match self.releases.requests.get_mut(&token) {
            Some(release) if release.key == *key => {
                release.deadline = deadline;
                release.claims.push(id);
                if core::mem::take(&mut release.is_compensation) {
                    self.releases.compensations -= 1;
                }
            }
            // Two locks with one token: a server that started anew gave it twice. Only one can be asked for.
            Some(_) => self.answer_claim(id, Err(ReleaseError::Unconfirmed)),
            None if !self.close.takes_releases() => self.answer_claim(id, Err(ReleaseError::Unconfirmed)),
            None => self.begin_release(key.clone(), token, deadline, Some(id)),
        }
        if let Some(claim) = self.releases.claims.get_mut(&id)
            && claim.outcome.is_none()
        {
            self.timers.set(&mut claim.timer, Timer::Claim(id), Some(deadline));
        }
        self.settle_down(now);
        id
    }

    /// The outcome of a release, once; `None` while there is none, or none any more.
    pub fn claim_release(&mut self, id: ReleaseId) -> Option<Outcome> {
        let outcome = self.releases.claims.get(&id)?.outcome?;
        self.releases.claims.remove(&id);
        Some(outcome)
    }

    /// Nobody waits for the outcome any more; the release goes on as a compensation (`CR-3`).
    pub fn forget_release(&mut self, now: Instant, id: ReleaseId) {
        self.advance(now);
        let Some(mut claim) = self.releases.claims.remove(&id) else { return };
        self.timers.set(&mut claim.timer, Timer::Claim(id), None);
        if let Some(release) = self.releases.requests.get_mut(&claim.token) {
            release.claims.retain(|&waiting| waiting != id);
            // Without a place it keeps the time that it has, which bounds it as well.
            if release.claims.is_empty() && self.releases.compensations < MAX_COMPENSATIONS {
                release.is_compensation = true;
                self.releases.compensations += 1;
            }
        }
    }

    /// The application dropped a ticket: its token is released without anybody waiting for it (`CR-3`).
    pub fn discard(&mut self, now: Instant, key: Key, token: Token) {
        let now = self.advance(now);
        self.tickets.remove(&token);
        self.begin_compensation(now, key, token);
        self.settle_down(now);
    }

    /// A grant that no caller can use is released (`CR-3`).
    pub(super) fn compensate(&mut self, now: Instant, key: Key, token: Token) {
        self.stats.compensated_grants += 1;
        self.begin_compensation(now, key, token);
    }

    fn begin_compensation(&mut self, now: Instant, key: Key, token: Token) {
        if self.releases.requests.contains_key(&token) {
            return;
        }
        if !self.close.takes_releases() {
            self.stats.compensations_expired += 1;
        } else if self.releases.compensations >= MAX_COMPENSATIONS {
            self.stats.compensations_overflowed += 1;
        } else {
            self.begin_release(key, token, now + RELEASE_TIMEOUT, None);
        }
    }

    fn begin_release(&mut self, key: Key, token: Token, deadline: Instant, claim: Option<ReleaseId>) {
        let order = self.releases.number();
        let is_compensation = claim.is_none();
        self.releases.compensations += usize::from(is_compensation);
        let release = Release {
            key,
            order,
            place: Place::Pending,
            deadline,
            timer: None,
            claims: claim.into_iter().collect(),
            is_compensation,
            pauses: 0,
        };
        self.releases.requests.insert(token, release);
        self.place_release(token, Place::Pending);
    }

    fn place_release(&mut self, token: Token, place: Place) {
        let Some(release) = self.releases.requests.get_mut(&token) else { return };
        release.place = place;
        let wakes_at = match place {
            Place::Pausing { until } => until.min(release.deadline),
            Place::Pending | Place::On(_) => release.deadline,
        };
        self.timers.set(&mut release.timer, Timer::Release(token), Some(wakes_at));
        if place == Place::Pending {
            self.releases.pending.insert(release.order, token);
        } else {
            self.releases.pending.remove(&release.order);
        }
    }

    /// Its connection is over, or takes nothing more: it is sent again (`CR-2`).
    pub(super) fn send_release_again(&mut self, token: Token) {
        self.place_release(token, Place::Pending);
    }

    /// The same after a redirect, with the pause of a retry (`CC-2`).
    pub(super) fn pause_release(&mut self, now: Instant, token: Token) {
        if let Some(release) = self.releases.requests.get_mut(&token) {
            let until = now + pause(release.pauses);
            release.pauses = release.pauses.saturating_add(1);
            self.place_release(token, Place::Pausing { until });
        }
    }

    pub(super) fn dispatch_releases(&mut self) {
        while let Some((_, &token)) = self.releases.pending.first_key_value()
            && let Some(link) = self.route()
        {
            self.place_release(token, Place::On(link));
            self.links[link].sender.enqueue(Item::Release(token));
        }
    }

    pub(super) fn claim_is_due(&mut self, id: ReleaseId) {
        self.answer_claim(id, Err(ReleaseError::Unconfirmed));
    }

    pub(super) fn release_is_due(&mut self, now: Instant, token: Token) {
        let Some(release) = self.releases.requests.get(&token) else { return };
        if now < release.deadline {
            match release.place {
                Place::Pausing { until } if until <= now => self.place_release(token, Place::Pending),
                place => self.place_release(token, place),
            }
            return;
        }
        let place = release.place;
        self.stats.compensations_expired += u64::from(release.is_compensation);
        self.end_release(token, Err(ReleaseError::Unconfirmed));
        if let Place::On(link) = place
            && !self.links[link].sender.withdraw(Item::Release(token))
        {
            // It was sent and 5 s brought no answer: whatever the connection is, it does not serve.
            self.drain(now, link, Failure::Overdue);
        }
    }

    pub(super) fn handle_released(
        &mut self,
        link: usize,
        token: u64,
        key: KeyRef<'_>,
        outcome: Released,
    ) -> Result<(), Failure> {
        let token = Token::new(token).ok_or(ProtocolError::UnknownAnswer)?;
        let has_key = |release: &Release| release.key.as_bytes() == key.as_bytes();
        let is_ours = self.releases.requests.get(&token).is_none_or(has_key);
        if !is_ours || self.links[link].sender.answered(Item::Release(token)).is_none() {
            return Err(ProtocolError::UnknownAnswer.into());
        }
        self.end_release(token, Ok(outcome));
        Ok(())
    }

    /// The close's time is over (`CC-6`).
    pub(super) fn give_releases_up(&mut self) {
        while let Some((&token, release)) = self.releases.requests.first_key_value() {
            self.stats.compensations_expired += u64::from(release.is_compensation);
            self.end_release(token, Err(ReleaseError::Unconfirmed));
        }
    }

    fn end_release(&mut self, token: Token, outcome: Outcome) {
        let Some(mut release) = self.releases.requests.remove(&token) else { return };
        self.releases.pending.remove(&release.order);
        self.releases.compensations -= usize::from(release.is_compensation);
        self.timers.set(&mut release.timer, Timer::Release(token), None);
        release.claims.into_iter().for_each(|id| self.answer_claim(id, outcome));
    }

    fn answer_claim(&mut self, id: ReleaseId, outcome: Outcome) {
        if let Some(claim) = self.releases.claims.get_mut(&id)
            && claim.outcome.is_none()
        {
            claim.outcome = Some(outcome);
            self.timers.set(&mut claim.timer, Timer::Claim(id), None);
            self.events.push_back(Event::ReleaseSettled(id));
        }
    }
}
