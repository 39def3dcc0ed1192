//! One connection: what comes in is cut into the challenge and the replies, what goes out keeps to the boundary
//! between unsent and possibly sent (`CA-3`).

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use super::error::ProtocolError;
use crate::id::{Owner, Token};
use crate::limits::MAX_BATCH;
use crate::time::Instant;
use crate::wire::auth::{BadChallenge, LineDecoder, parse_challenge};
use crate::wire::{Decoder, FromServer, Reply};

/// What a server sent.
#[derive(Debug)]
pub(super) enum Incoming<'a> {
    /// The nonce of the challenge: the first thing that comes, and only that.
    Challenge(&'a [u8]),
    Reply(Reply<'a>),
}

/// Cuts what a server sends, however it was split on its way.
#[derive(Debug, Default)]
pub(super) struct Reader {
    is_greeted: bool,
    challenge: LineDecoder,
    frames: Decoder<FromServer>,
}

impl Reader {
    /// Takes bytes from the front of `input`; `None` when all are taken.
    pub(super) fn next<'a, 'input: 'a>(
        &'a mut self,
        input: &mut &'input [u8],
    ) -> Result<Option<Incoming<'a>>, ProtocolError> {
        if !self.is_greeted {
            let Some(line) = self.challenge.next(input).map_err(|_| BadChallenge::TooLong)? else {
                return Ok(None);
            };
            self.is_greeted = true;
            return Ok(Some(Incoming::Challenge(parse_challenge(line)?)));
        }
        match self.frames.next(input)? {
            Some(frame) => Ok(Some(Incoming::Reply(Reply::parse(frame)?))),
            None => Ok(None),
        }
    }
}

/// A request, by what correlates its answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Item {
    Release(Token),
    Acquire(Owner),
}

/// A request in the bytes of the latest poll.
#[derive(Debug)]
struct Offered {
    /// `None` once it was answered: that it was taken need not be told any more.
    item: Option<Item>,
    /// Where its frame ends in the offered bytes.
    end: usize,
}

/// What goes out over one connection, in its order: releases first (`CR-4`), then acquires.
///
/// A request is *unsent* in a queue, *offered* between a poll and the word of how much was taken, and *sent* from
/// its first byte on. An offered request counts as possibly sent.
#[derive(Debug)]
pub(super) struct Sender {
    /// Bytes that go before everything else: the handshake's response, or the rest of a frame that was begun.
    head: Vec<u8>,
    releases: VecDeque<Token>,
    acquires: VecDeque<Owner>,
    offered_bytes: Vec<u8>,
    offered: VecDeque<Offered>,
    offered_at: Instant,
    /// With the moment just before its first byte was handed out (`CD-3`).
    sent: BTreeMap<Item, Instant>,
    is_shut: bool,
}

impl Sender {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            head: Vec::new(),
            releases: VecDeque::new(),
            acquires: VecDeque::new(),
            offered_bytes: Vec::new(),
            offered: VecDeque::new(),
            offered_at: now,
            sent: BTreeMap::new(),
            is_shut: false,
        }
    }

    pub(super) fn push_head(&mut self, bytes: &[u8]) {
        self.head.extend_from_slice(bytes);
    }

    pub(super) fn enqueue(&mut self, item: Item) {
        match item {
            Item::Release(token) => self.releases.push_back(token),
            Item::Acquire(owner) => self.acquires.push_back(owner),
        }
    }

    /// Takes an unsent request back; `false` if it may have been sent.
    pub(super) fn withdraw(&mut self, item: Item) -> bool {
        match item {
            Item::Release(token) => withdraw_from(&mut self.releases, &token),
            Item::Acquire(owner) => withdraw_from(&mut self.acquires, &owner),
        }
    }

    pub(super) fn wants_transmit(&self) -> bool {
        let has_queued = !(self.releases.is_empty() && self.acquires.is_empty() && self.offered.is_empty());
        !self.is_shut && (has_queued || !self.head.is_empty())
    }

    /// What goes out next, at most [`MAX_BATCH`] requests; it is remembered as offered. `encode` appends a
    /// request's frame; where it gives `false`, the request must not go out any more and stays unsent.
    pub(super) fn offer(
        &mut self,
        now: Instant,
        mut encode: impl FnMut(Item, &mut Vec<u8>) -> bool,
    ) -> &[u8] {
        if self.is_shut {
            return &[];
        }
        self.take_offer_back();
        self.offered_at = now;
        self.offered_bytes.extend_from_slice(&self.head);
        let mut stopped = Vec::new();
        while self.offered.len() < MAX_BATCH {
            let Some(item) = self.next_unsent() else { break };
            if encode(item, &mut self.offered_bytes) {
                self.offered.push_back(Offered { item: Some(item), end: self.offered_bytes.len() });
            } else {
                stopped.push(item);
            }
        }
        stopped.into_iter().rev().for_each(|item| self.enqueue_first(item));
        &self.offered_bytes
    }

    /// How much of the latest offer's bytes the transport took. Whatever was begun is sent; the rest is unsent
    /// again. Gives how many acquires were taken back so: they are the first to go out next.
    pub(super) fn handle_transmitted(&mut self, len: usize) -> usize {
        if self.is_shut {
            return 0;
        }
        debug_assert!(len <= self.offered_bytes.len(), "more was taken than was offered");
        let len = len.min(self.offered_bytes.len());
        let old_head = self.head.len();
        let mut start = old_head;
        let mut begun_until = len.max(old_head);
        while start < len {
            let Some(Offered { item, end }) = self.offered.pop_front() else { break };
            if let Some(item) = item {
                self.sent.insert(item, self.offered_at);
            }
            start = end;
            begun_until = end;
        }
        if len < old_head {
            self.head.drain(..len);
        } else {
            self.head.clear();
            self.head.extend_from_slice(self.offered_bytes.get(len..begun_until).unwrap_or_default());
        }
        let unsent = self.acquires.len();
        self.take_offer_back();
        self.acquires.len() - unsent
    }

    /// Nothing goes out any more. Gives the unsent requests; what was offered counts as sent.
    pub(super) fn shut(&mut self) -> impl Iterator<Item = Item> + use<> {
        self.is_shut = true;
        for offered in self.offered.drain(..) {
            if let Some(item) = offered.item {
                self.sent.insert(item, self.offered_at);
            }
        }
        self.head = Vec::new();
        self.offered_bytes = Vec::new();
        let releases = core::mem::take(&mut self.releases);
        let acquires = core::mem::take(&mut self.acquires);
        releases.into_iter().map(Item::Release).chain(acquires.into_iter().map(Item::Acquire))
    }

    /// The acquires that go out first.
    pub(super) fn first_acquires(&self, count: usize) -> impl Iterator<Item = Owner> {
        self.acquires.iter().copied().take(count)
    }

    /// What may have been sent and is unanswered; nothing is left of it here. After [`shut`](Self::shut).
    pub(super) fn take_sent(&mut self) -> impl Iterator<Item = Item> + use<> {
        core::mem::take(&mut self.sent).into_keys()
    }

    /// An answer came for this request: gives the moment just before its first byte was handed out, or `None` if it
    /// was never sent over this connection.
    pub(super) fn answered(&mut self, item: Item) -> Option<Instant> {
        if let Some(at) = self.sent.remove(&item) {
            return Some(at);
        }
        let offered = self.offered.iter_mut().find(|offered| offered.item == Some(item))?;
        offered.item = None;
        Some(self.offered_at)
    }

    /// The only request that may be unanswered at the server, if there is exactly one (`ER`).
    pub(super) fn only_unanswered(&self) -> Option<Item> {
        let mut unanswered = self.sent.keys().copied().chain(self.offered.iter().filter_map(|it| it.item));
        let first = unanswered.next()?;
        if unanswered.next().is_none() { Some(first) } else { None }
    }

    pub(super) fn has_unanswered(&self) -> bool {
        !(self.sent.is_empty() && self.offered.is_empty())
    }

    fn next_unsent(&mut self) -> Option<Item> {
        match self.releases.pop_front() {
            Some(token) => Some(Item::Release(token)),
            None => self.acquires.pop_front().map(Item::Acquire),
        }
    }

    fn take_offer_back(&mut self) {
        while let Some(offered) = self.offered.pop_back() {
            if let Some(item) = offered.item {
                self.enqueue_first(item);
            }
        }
        self.offered_bytes.clear();
    }

    fn enqueue_first(&mut self, item: Item) {
        match item {
            Item::Release(token) => self.releases.push_front(token),
            Item::Acquire(owner) => self.acquires.push_front(owner),
        }
    }
}

fn withdraw_from<T: PartialEq>(queue: &mut VecDeque<T>, item: &T) -> bool {
    match queue.iter().position(|queued| queued == item) {
        Some(at) => queue.remove(at).is_some(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(value: u64) -> Owner {
        Owner::new(value).expect("not 0")
    }

    fn acquire(value: u64) -> Item {
        Item::Acquire(owner(value))
    }

    fn release(value: u64) -> Item {
        Item::Release(Token::new(value).expect("not 0"))
    }

    /// Frames of four bytes, so that positions are easy to name.
    fn encode(item: Item, out: &mut Vec<u8>) -> bool {
        match item {
            Item::Release(token) => out.extend_from_slice(&[b'R', token.value() as u8, b'.', b'\n']),
            Item::Acquire(owner) => out.extend_from_slice(&[b'A', owner.value() as u8, b'.', b'\n']),
        }
        true
    }

    fn poll(sender: &mut Sender) -> Vec<u8> {
        sender.offer(Instant::ORIGIN, encode).to_vec()
    }

    #[test]
    fn releases_go_before_acquires() {
        let mut sender = Sender::new(Instant::ORIGIN);
        sender.enqueue(acquire(1));
        sender.enqueue(release(7));
        assert_eq!(poll(&mut sender), b"R\x07.\nA\x01.\n");
    }

    #[test]
    fn a_frame_of_which_no_byte_was_taken_is_unsent() {
        let mut sender = Sender::new(Instant::ORIGIN);
        sender.enqueue(acquire(1));
        sender.enqueue(acquire(2));
        assert_eq!(poll(&mut sender).len(), 8);
        sender.handle_transmitted(4);
        assert!(sender.withdraw(acquire(2)), "no byte of it was taken");
        assert!(!sender.withdraw(acquire(1)), "all of it was taken");
        assert!(sender.answered(acquire(1)).is_some());
        assert!(sender.answered(acquire(2)).is_none());
        assert!(!sender.wants_transmit());
    }

    #[test]
    fn one_byte_makes_it_sent_and_its_rest_goes_first() {
        let mut sender = Sender::new(Instant::ORIGIN);
        sender.enqueue(acquire(1));
        sender.enqueue(acquire(2));
        poll(&mut sender);
        sender.handle_transmitted(5);
        assert!(!sender.withdraw(acquire(2)), "its first byte was taken");
        sender.enqueue(release(7));
        assert_eq!(poll(&mut sender), b"\x02.\nR\x07.\n");
        sender.handle_transmitted(1);
        assert_eq!(poll(&mut sender), b".\nR\x07.\n", "a rest can be taken in parts");
        sender.handle_transmitted(2);
        assert_eq!(poll(&mut sender), b"R\x07.\n");
    }

    #[test]
    fn between_poll_and_report_a_request_counts_as_possibly_sent() {
        let mut sender = Sender::new(Instant::ORIGIN);
        sender.enqueue(acquire(1));
        poll(&mut sender);
        assert!(!sender.withdraw(acquire(1)));
        sender.handle_transmitted(0);
        assert!(sender.withdraw(acquire(1)), "nothing was taken after all");
    }

    #[test]
    fn an_answer_may_come_before_the_report() {
        let mut sender = Sender::new(Instant::ORIGIN);
        sender.enqueue(acquire(1));
        sender.enqueue(acquire(2));
        poll(&mut sender);
        assert!(sender.answered(acquire(1)).is_some());
        sender.handle_transmitted(4);
        assert_eq!(poll(&mut sender), b"A\x02.\n");
        assert_eq!(sender.only_unanswered(), Some(acquire(2)));
    }

    #[test]
    fn polling_again_offers_the_same_bytes() {
        let mut sender = Sender::new(Instant::ORIGIN);
        sender.push_head(b"hello\n");
        sender.enqueue(acquire(1));
        let first = poll(&mut sender);
        assert_eq!(poll(&mut sender), first);
        sender.handle_transmitted(2);
        assert_eq!(poll(&mut sender), b"llo\nA\x01.\n");
        assert!(!sender.withdraw(acquire(1)));
    }

    #[test]
    fn shutting_gives_back_what_is_unsent_and_keeps_what_may_be_sent() {
        let mut sender = Sender::new(Instant::ORIGIN);
        sender.enqueue(acquire(1));
        poll(&mut sender);
        sender.enqueue(acquire(2));
        assert!(sender.shut().eq([acquire(2)]));
        assert!(!sender.wants_transmit());
        assert!(poll(&mut sender).is_empty());
        assert!(sender.take_sent().eq([acquire(1)]));
    }

    #[test]
    fn what_must_not_go_out_stays_unsent() {
        let mut sender = Sender::new(Instant::ORIGIN);
        sender.enqueue(acquire(1));
        sender.enqueue(acquire(2));
        let offer = sender.offer(Instant::ORIGIN, |item, out| item != acquire(1) && encode(item, out));
        assert_eq!(offer, b"A\x02.\n");
        sender.handle_transmitted(4);
        assert!(sender.withdraw(acquire(1)));
    }

    #[test]
    fn a_batch_is_bounded() {
        let mut sender = Sender::new(Instant::ORIGIN);
        (1..=100).for_each(|value| sender.enqueue(acquire(value)));
        assert_eq!(poll(&mut sender).len(), 4 * MAX_BATCH);
        sender.handle_transmitted(4 * MAX_BATCH);
        assert_eq!(poll(&mut sender).len(), 4 * (100 - MAX_BATCH));
    }
}
