//! Who holds what, and the token counter: what a cluster replicates.

use super::expiry::{Deadlines, Timed};
use super::index::{Found, Index};
use super::list::{Links, List};
use super::queue::Line;
use super::siphash::siphash_1_3;
use super::slab::Slab;
use crate::id::Token;
use crate::key::{Key, KeyRef};
use crate::limits::Lease;
use crate::time::Instant;

/// The tokens that may be given (`FI-6`, `FI-8`). Empty where `next` lies behind `last`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub struct TokenRange {
    /// The next one to give.
    pub next: Token,
    /// The last one that may be given.
    pub last: Token,
}

/// A lock that is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hold {
    /// Its fencing token.
    pub token: Token,
    /// As it was granted.
    pub lease: Lease,
    /// When the lease ends, by this node's clock: the hold is valid before that instant (`OP-6`).
    pub deadline: Instant,
}

/// Why a lock is not granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotGranted {
    /// The key is held, be it overdue: whoever keeps the time ends holds.
    #[error("the key is held with token {token}")]
    Held {
        /// The hold's token.
        token: Token,
    },
    /// All tokens of the range are given (`FI-6`).
    #[error("no token is left to give")]
    OutOfTokens,
}

/// The holds: key to token, lease and deadline; and the token counter.
///
/// Deterministic: the same calls lead to the same tokens and the same [written form](Self::write), whatever
/// the hash seed and the clock. No call looks at all holds, except for writing and reading them.
#[derive(Debug)]
pub struct Holds {
    now: Instant,
    hash_seed: [u64; 2],
    slots: Slab<Slot>,
    index: Index,
    deadlines: Deadlines,
    /// Slots that are neither held nor waited for, until [`reclaim`](Self::reclaim).
    idle: List,
    idle_len: usize,
    held_len: usize,
    /// The last token given, or the one before the first.
    given: u64,
    last: u64,
}

/// A key that is held, or was lately. It fills a cache line of the usual size, and no more than one.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Slot {
    pub(super) key: Key,
    /// `None` once the hold is over.
    pub(super) token: Option<Token>,
    pub(super) deadline: Instant,
    pub(super) line: Line,
    links: Links,
    lease: Lease,
}

impl Timed for Slot {
    fn deadline(&self) -> Instant {
        self.deadline
    }

    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

impl Holds {
    /// No holds. `hash_seed` is for the hashes of keys, which peers choose: random, and secret.
    #[must_use]
    pub fn new(now: Instant, tokens: TokenRange, hash_seed: [u64; 2]) -> Self {
        Self::counting_from(now, tokens.next.value() - 1, tokens.last, hash_seed)
    }

    pub(super) fn counting_from(now: Instant, given: u64, last: Token, hash_seed: [u64; 2]) -> Self {
        Self {
            now,
            hash_seed,
            slots: Slab::new(),
            index: Index::new(),
            deadlines: Deadlines::new(),
            idle: List::EMPTY,
            idle_len: 0,
            held_len: 0,
            given,
            last: last.value(),
        }
    }

    /// How many keys are held, overdue ones among them.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.held_len
    }

    /// Whether no key is held.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.held_len == 0
    }

    /// The hold on a key.
    #[must_use]
    pub fn hold(&self, key: KeyRef<'_>) -> Option<Hold> {
        let &Slot { token, lease, deadline, .. } = &self.slots[self.find(self.hash(key), key)?.slot];
        Some(Hold { token: token?, lease, deadline })
    }

    /// Grants a free key: the next token, and a lease from `now` on.
    ///
    /// # Errors
    /// [`NotGranted`]; nothing has changed.
    pub fn grant(&mut self, now: Instant, key: KeyRef<'_>, lease: Lease) -> Result<Token, NotGranted> {
        let now = self.advance_clock(now);
        let hash = self.hash(key);
        match self.find(hash, key) {
            Some(Found { slot, .. }) => match self.slots[slot].token {
                Some(token) => return Err(NotGranted::Held { token }),
                None => self.grant_idle(now, slot, lease),
            },
            None => self.grant_new(now, hash, key, lease),
        }
        .ok_or(NotGranted::OutOfTokens)
    }

    /// Ends the hold on a key if this is its token, by release or by expiry. Whether it was.
    pub fn end(&mut self, token: u64, key: KeyRef<'_>) -> bool {
        let found = self.find(self.hash(key), key);
        let Some(found) = found.filter(|found| self.slots[found.slot].is_held_by(token)) else {
            return false;
        };
        self.end_and_remove(found);
        true
    }

    /// The earliest deadline of a hold.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.deadlines.earliest()
    }

    /// Allows tokens up to this one. It never takes tokens back.
    pub fn extend_tokens(&mut self, last: Token) {
        self.last = self.last.max(last.value());
    }

    /// How many tokens may still be given.
    #[must_use]
    pub const fn tokens_left(&self) -> u64 {
        self.last.saturating_sub(self.given)
    }

    /// The latest time seen: `now`, unless that goes back.
    #[inline]
    pub(super) fn advance_clock(&mut self, now: Instant) -> Instant {
        self.now = self.now.max(now);
        self.now
    }

    /// The latest time seen.
    pub(super) const fn now(&self) -> Instant {
        self.now
    }

    #[inline]
    pub(super) fn hash(&self, key: KeyRef<'_>) -> u32 {
        siphash_1_3(self.hash_seed, key.as_bytes()) as u32
    }

    #[inline]
    pub(super) fn find(&self, hash: u32, key: KeyRef<'_>) -> Option<Found> {
        self.index.find(hash, |slot| self.slots[slot].key.as_bytes() == key.as_bytes())
    }

    #[inline]
    pub(super) fn slot(&self, slot: u32) -> &Slot {
        &self.slots[slot]
    }

    #[inline]
    pub(super) fn line_mut(&mut self, slot: u32) -> &mut Line {
        &mut self.slots[slot].line
    }

    /// All slots, in no order that means anything.
    pub(super) fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().map(|(_, slot)| slot)
    }

    /// The last token given, or the one before the first.
    pub(super) const fn given(&self) -> u64 {
        self.given
    }

    pub(super) const fn deadlines(&self) -> &Deadlines {
        &self.deadlines
    }

    /// Grants a key that has no slot. `None`: no token is left, nothing has changed.
    #[inline]
    pub(super) fn grant_new(
        &mut self,
        now: Instant,
        hash: u32,
        key: KeyRef<'_>,
        lease: Lease,
    ) -> Option<Token> {
        let token = self.next_token()?;
        self.insert(now, hash, key, token, lease);
        Some(token)
    }

    /// Adds a hold on a key that has no slot.
    #[inline]
    pub(super) fn insert(&mut self, now: Instant, hash: u32, key: KeyRef<'_>, token: Token, lease: Lease) {
        let slot = self.slots.insert(Slot {
            key: key.to_key(),
            token: Some(token),
            deadline: now.plus_secs(lease.secs()),
            line: Line::EMPTY,
            links: Links::NONE,
            lease,
        });
        self.index.insert(hash, slot);
        self.deadlines.set(&mut self.slots, slot, lease.secs());
        self.held_len += 1;
    }

    /// Grants the key of an idle slot. `None`: no token is left, nothing has changed.
    pub(super) fn grant_idle(&mut self, now: Instant, slot: u32, lease: Lease) -> Option<Token> {
        if self.tokens_left() == 0 {
            return None;
        }
        self.take_idle(slot);
        self.grant_ended(now, slot, lease)
    }

    /// Grants the key of a slot whose hold has just ended. `None`: no token is left, nothing has changed.
    pub(super) fn grant_ended(&mut self, now: Instant, slot: u32, lease: Lease) -> Option<Token> {
        let token = self.next_token()?;
        let ended = &mut self.slots[slot];
        ended.token = Some(token);
        ended.deadline = now.plus_secs(lease.secs());
        ended.lease = lease;
        self.deadlines.set(&mut self.slots, slot, lease.secs());
        self.held_len += 1;
        Some(token)
    }

    /// Ends a hold. Its slot is then to be granted again, kept for its waiters, or put by.
    #[inline]
    pub(super) fn end_hold(&mut self, slot: u32) {
        let held = &mut self.slots[slot];
        held.token = None;
        let (secs, links) = (held.lease.secs(), held.links);
        self.deadlines.cancel(&mut self.slots, secs, links);
        self.held_len -= 1;
    }

    /// Ends a hold for which nobody waits, and removes its slot.
    #[inline]
    pub(super) fn end_and_remove(&mut self, found: Found) {
        let held = &self.slots[found.slot];
        let (secs, links) = (held.lease.secs(), held.links);
        self.deadlines.cancel(&mut self.slots, secs, links);
        self.held_len -= 1;
        self.remove(found);
    }

    /// Puts by a slot whose hold has ended and for which nobody waits.
    pub(super) fn put_by(&mut self, slot: u32) {
        self.idle.push(&mut self.slots, slot, Slot::links);
        self.idle_len += 1;
    }

    /// Removes a slot that is in no list.
    #[inline]
    fn remove(&mut self, found: Found) {
        self.index.remove(found);
        self.slots.remove(found.slot);
    }

    /// How many slots are put by.
    pub(super) const fn idle_len(&self) -> usize {
        self.idle_len
    }

    /// Removes up to so many of the slots that were put by, the oldest first.
    pub(super) fn reclaim(&mut self, at_most: usize) {
        for _ in 0..at_most {
            let Some(slot) = self.idle.first() else { return };
            self.take_idle(slot);
            let hash = siphash_1_3(self.hash_seed, self.slots[slot].key.as_bytes()) as u32;
            self.remove(self.index.find(hash, |found| found == slot).expect("every slot is indexed"));
        }
    }

    /// Gives back what one shard of the index has too much of. Whether there was anything.
    pub(super) fn shrink(&mut self, shard: usize) -> bool {
        self.index.shrink(shard)
    }

    /// Whether nothing is held or put by, and little memory kept.
    pub(super) fn is_small(&self) -> bool {
        self.slots.is_empty() && self.index.is_small()
    }

    fn take_idle(&mut self, slot: u32) {
        let links = self.slots[slot].links;
        self.idle.remove(&mut self.slots, links, Slot::links);
        self.idle_len -= 1;
    }

    #[inline]
    fn next_token(&mut self) -> Option<Token> {
        if self.given >= self.last {
            return None;
        }
        self.given += 1;
        Token::new(self.given)
    }
}

impl Slot {
    pub(super) const fn lease(&self) -> Lease {
        self.lease
    }

    /// Whether this is the hold's token. None is 0.
    #[inline]
    pub(super) fn is_held_by(&self, token: u64) -> bool {
        self.token.is_some_and(|current| current.value() == token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_has_64_bytes_in_its_slab() {
        assert_eq!(Slab::<Slot>::ENTRY_LEN, 64);
    }
}
