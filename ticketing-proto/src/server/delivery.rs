//! From a request's receipt to the last byte of its reply.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::outbox::{Outbox, Record, TakenBack};
use crate::id::Token;
use crate::key::Key;
use crate::wire::{Reply, Request};

/// The outbox of one connection, and the account of what is not answered and not delivered yet.
#[derive(Default, Debug)]
pub(super) struct Delivery {
    outbox: Outbox,
    /// Grants that never reached the peer, for the table to take back (`OP-7`).
    withdrawn: VecDeque<(Key, Token)>,
    /// Requests that were received and have no reply yet.
    unanswered: u32,
    /// Acquires between receipt and the last byte of their reply (`AD-1`).
    in_flight: u32,
    /// Acquires that have left flight since they were last asked for.
    settled: u32,
}

impl Delivery {
    pub(super) fn challenge(encode: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut delivery = Self::default();
        delivery.outbox.push_line(encode);
        delivery
    }

    pub(super) fn request_received(&mut self, request: &Request<'_>) {
        self.unanswered = self.unanswered.saturating_add(1);
        if matches!(request, Request::Acquire(_)) {
            self.in_flight = self.in_flight.saturating_add(1);
        }
    }

    /// Appends what answers no request.
    pub(super) fn say(&mut self, reply: &Reply<'_>) {
        self.outbox.push(reply, false);
    }

    /// Appends the final reply to a request; `waited` says that it had queued.
    pub(super) fn reply(&mut self, reply: &Reply<'_>, waited: bool) {
        self.unanswered = self.unanswered.saturating_sub(1);
        self.outbox.push(reply, waited);
    }

    /// A final reply that the peer will not get.
    pub(super) fn drop_reply(&mut self, reply: &Reply<'_>) {
        self.unanswered = self.unanswered.saturating_sub(1);
        match *reply {
            Reply::Acquired { token, key, .. } => {
                self.withdrawn.push_back((key.to_key(), token));
                self.settle(1);
            }
            Reply::TimedOut { .. } | Reply::Busy { .. } => self.settle(1),
            _ => {}
        }
    }

    /// So many requests will never be answered: they were waiters, and have left.
    pub(super) fn waiters_left(&mut self, count: u32) {
        self.unanswered = self.unanswered.saturating_sub(count);
    }

    /// An `L` that is not on its way yet is out of date.
    pub(super) fn take_back_leader_changes(&mut self) {
        let back = self.outbox.take_back(Record::is_leader_change);
        self.withdraw(back);
    }

    /// `TR-10`: grants of waiters of which no byte is on its way.
    pub(super) fn take_back_waiters_grants(&mut self) {
        let back = self.outbox.take_back(Record::is_waiters_grant);
        self.withdraw(back);
    }

    /// `OP-7`: what is not wholly in the transport's hands.
    pub(super) fn take_back_unfinished(&mut self) {
        let back = self.outbox.take_back_unfinished();
        self.withdraw(back);
    }

    /// `OP-7`: what the transport did not take before it went.
    pub(super) fn take_back_all(&mut self) {
        let back = self.outbox.take_back_all();
        self.withdraw(back);
    }

    fn withdraw(&mut self, back: TakenBack) {
        self.withdrawn.extend(back.grants);
        self.settle(back.acquires);
    }

    /// What comes next, at most a batch of it.
    pub(super) fn show(&mut self) -> &[u8] {
        self.outbox.show()
    }

    /// So much of what is owed is inside TLS.
    pub(super) fn hold(&mut self, len: usize) {
        self.outbox.hold(len);
    }

    pub(super) fn take(&mut self, len: usize) {
        let acquires = self.outbox.take(len);
        self.settle(acquires);
    }

    fn settle(&mut self, acquires: u32) {
        self.in_flight = self.in_flight.saturating_sub(acquires);
        self.settled = self.settled.saturating_add(acquires);
    }

    pub(super) const fn owed(&self) -> usize {
        self.outbox.owed()
    }

    /// How much of that is not on its way.
    pub(super) const fn in_hand(&self) -> usize {
        self.outbox.in_hand()
    }

    pub(super) const fn in_flight(&self) -> u32 {
        self.in_flight
    }

    pub(super) const fn has_unanswered(&self) -> bool {
        self.unanswered > 0
    }

    pub(super) fn has_news(&self) -> bool {
        self.settled > 0 || !self.withdrawn.is_empty()
    }

    pub(super) fn take_settled(&mut self) -> u32 {
        core::mem::take(&mut self.settled)
    }

    pub(super) fn poll_withdrawn(&mut self) -> Option<(Key, Token)> {
        self.withdrawn.pop_front()
    }
}

/// Where the replies to a connection's requests go while its input is read.
///
/// Each request has one final reply. It may come at once, through this, or later, through
/// [`Connection::reply`](super::Connection::reply) or
/// [`Connection::reply_to_waiter`](super::Connection::reply_to_waiter).
#[derive(Debug)]
pub struct Replies<'a>(pub(super) &'a mut Delivery);

impl Replies<'_> {
    /// The final reply to a request that did not queue.
    pub fn reply(&mut self, reply: Reply<'_>) {
        self.0.reply(&reply, false);
    }

    /// The final reply to an earlier request of this connection that had queued: `TR-10` treats its grant
    /// differently.
    pub fn reply_to_waiter(&mut self, reply: Reply<'_>) {
        self.0.reply(&reply, true);
    }

    /// This connection's acquires in flight, the one at hand included (`AD-1`, `AD-4`).
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.0.in_flight()
    }
}
