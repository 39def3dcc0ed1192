//! What a connection owes its peer, frame by frame, and how much of it the transport has taken.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::id::Token;
use crate::key::Key;
use crate::limits::MAX_BATCH;
use crate::wire::{Decoder, FromServer, Reply};

/// What an empty outbox keeps, so that a quiet connection is small after a burst and a busy one does not
/// allocate for each reply.
const KEPT_BYTES: usize = 128;
/// The same, in frames.
const KEPT_FRAMES: usize = 8;
/// What an outbox grows by when it needs more than it keeps.
const GROWTH: usize = 4096;
/// Taken bytes are moved away once there are this many of them, and more than of the others.
const COMPACTION: usize = 4096;

/// What the outbox has to know of a frame: its length, LF included, and what it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Record(u16);

impl Record {
    const LEN: u16 = 0x00ff;
    const ACQUIRE: u16 = 0x0100;
    const WAITED: u16 = 0x0200;
    const LEADER: u16 = 0x0400;

    fn new(len: usize, reply: &Reply<'_>, waited: bool) -> Self {
        debug_assert!(len <= usize::from(Self::LEN), "a frame has at most 192 bytes and its LF");
        let kind = match reply {
            Reply::Acquired { .. } if waited => Self::ACQUIRE | Self::WAITED,
            Reply::Acquired { .. } | Reply::TimedOut { .. } | Reply::Busy { .. } => Self::ACQUIRE,
            Reply::LeaderChanged { .. } => Self::LEADER,
            _ => 0,
        };
        Self(len as u16 & Self::LEN | kind)
    }

    const fn len(self) -> usize {
        (self.0 & Self::LEN) as usize
    }

    /// Whether the frame answers an acquire, which is in flight until then (`AD-1`).
    const fn answers_acquire(self) -> bool {
        self.0 & Self::ACQUIRE != 0
    }

    /// Whether the frame is the grant of a waiter that had queued (`TR-10`).
    pub(super) const fn is_waiters_grant(self) -> bool {
        self.0 & Self::WAITED != 0
    }

    /// Whether the frame is an `L` (`RD-3`).
    pub(super) const fn is_leader_change(self) -> bool {
        self.0 & Self::LEADER != 0
    }
}

/// What became of frames that were taken back.
#[derive(Default, Debug)]
pub(super) struct TakenBack {
    /// How many of them answered an acquire.
    pub(super) acquires: u32,
    /// The grants among them, in their order.
    pub(super) grants: Vec<(Key, Token)>,
}

/// A queue of encoded frames.
///
/// A byte is in one of three places: *taken* by the transport; *shown* by the last [`show`](Self::show), so
/// that it may be on its way; or here. Only frames of which no byte was taken or shown can be taken back.
#[derive(Default, Debug)]
pub(super) struct Outbox {
    bytes: Vec<u8>,
    /// One per frame in `bytes[start..]`.
    frames: VecDeque<Record>,
    /// Where the first frame starts in `bytes`.
    start: usize,
    /// How many bytes of the first frame are taken.
    taken: usize,
    /// How many bytes behind the taken ones were shown.
    shown: usize,
}

impl Outbox {
    /// Appends bytes that are no reply: the challenge. They travel like one frame.
    pub(super) fn push_line(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        let before = self.bytes.len();
        encode(&mut self.bytes);
        self.frames.push_back(Record((self.bytes.len() - before) as u16 & Record::LEN));
    }

    /// Appends a reply; `waited` says that its request had queued.
    pub(super) fn push(&mut self, reply: &Reply<'_>, waited: bool) {
        let before = self.bytes.len();
        if self.bytes.capacity() < KEPT_BYTES {
            self.bytes.reserve(KEPT_BYTES);
        } else if self.bytes.capacity() - before < KEPT_BYTES / 2 {
            self.bytes.reserve(GROWTH);
            self.frames.reserve(MAX_BATCH);
        }
        reply.encode(&mut self.bytes);
        self.frames.push_back(Record::new(self.bytes.len() - before, reply, waited));
    }

    /// How many bytes are not taken.
    pub(super) const fn owed(&self) -> usize {
        self.bytes.len() - self.start - self.taken
    }

    /// How many bytes are neither taken nor shown.
    pub(super) const fn in_hand(&self) -> usize {
        self.owed() - self.shown
    }

    /// What comes next, at most [`MAX_BATCH`] frames of it (`FR-11`). It counts as shown.
    pub(super) fn show(&mut self) -> &[u8] {
        let batch: usize = self.frames.iter().take(MAX_BATCH).map(|frame| frame.len()).sum();
        let next = &self.bytes[self.start + self.taken..self.start + batch];
        self.shown = next.len();
        next
    }

    /// The transport took `len` of the bytes that were shown, and nothing of the others. Gives how many
    /// replies to acquires are wholly taken by that.
    pub(super) fn take(&mut self, len: usize) -> u32 {
        self.taken += len.min(self.shown);
        self.shown = 0;
        let mut acquires = 0;
        while let Some(&frame) = self.frames.front() {
            if self.taken < frame.len() {
                break;
            }
            self.frames.pop_front();
            self.taken -= frame.len();
            self.start += frame.len();
            acquires += u32::from(frame.answers_acquire());
        }
        self.give_room_back();
        acquires
    }

    /// Of the bytes behind the taken ones this many are out of hand, though the transport has not taken them: they
    /// are inside TLS.
    pub(super) fn hold(&mut self, len: usize) {
        debug_assert!(len <= self.owed(), "more is inside TLS than is owed");
        self.shown = len;
    }

    /// Takes back the frames that `matches`, of those of which no byte was taken or shown.
    pub(super) fn take_back(&mut self, matches: impl FnMut(Record) -> bool) -> TakenBack {
        let out_of_hand = self.start + self.taken + self.shown;
        self.remove(out_of_hand, matches)
    }

    /// Takes back every frame that is not wholly taken or shown.
    pub(super) fn take_back_unfinished(&mut self) -> TakenBack {
        let out_of_hand = if self.shown == 0 { self.start } else { self.start + self.taken + self.shown };
        if self.shown == 0 {
            self.taken = 0;
        }
        self.remove(out_of_hand, |_| true)
    }

    /// Takes back every frame that is not wholly taken: the transport is gone, and with it what was shown.
    pub(super) fn take_back_all(&mut self) -> TakenBack {
        self.shown = 0;
        self.take_back_unfinished()
    }

    /// Removes the frames that `matches`, of those that start at `from` or behind it.
    fn remove(&mut self, from: usize, mut matches: impl FnMut(Record) -> bool) -> TakenBack {
        let Self { bytes, frames, start, .. } = self;
        let mut taken_back = TakenBack::default();
        let (mut read, mut write) = (*start, *start);
        frames.retain(|&frame| {
            let whole = read..read + frame.len();
            read = whole.end;
            if whole.start >= from && matches(frame) {
                taken_back.acquires += u32::from(frame.answers_acquire());
                taken_back.grants.extend(grant(&bytes[whole]));
                return false;
            }
            bytes.copy_within(whole, write);
            write += frame.len();
            true
        });
        bytes.truncate(write);
        self.give_room_back();
        taken_back
    }

    fn give_room_back(&mut self) {
        if self.frames.is_empty() {
            self.start = 0;
            self.bytes.clear();
            self.bytes.shrink_to(KEPT_BYTES);
            self.frames.shrink_to(KEPT_FRAMES);
        } else if self.start >= COMPACTION && self.start > self.bytes.len() / 2 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
    }
}

/// Key and token of the frame, if it is a grant.
fn grant(mut frame: &[u8]) -> Option<(Key, Token)> {
    match Reply::parse(Decoder::<FromServer>::new().next(&mut frame).ok()??) {
        Ok(Reply::Acquired { token, key, .. }) => Some((key.to_key(), token)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Owner;
    use crate::key::KeyRef;
    use crate::wire::Reason;

    fn key(text: &str) -> KeyRef<'_> {
        KeyRef::new(text.as_bytes()).expect("a legal key")
    }

    fn acquired(number: u64, text: &str) -> Reply<'_> {
        Reply::Acquired {
            token: Token::new(number).expect("a token"),
            owner: Owner::new(number).expect("an owner"),
            key: key(text),
        }
    }

    fn encoded(replies: &[Reply<'_>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for reply in replies {
            reply.encode(&mut bytes);
        }
        bytes
    }

    fn shown(outbox: &mut Outbox) -> Vec<u8> {
        outbox.show().to_vec()
    }

    #[test]
    fn showing_again_shows_the_same_until_some_of_it_is_taken() {
        let mut outbox = Outbox::default();
        outbox.push(&acquired(1, "k"), false);
        outbox.push(&Reply::Error(Reason::BadKey), false);
        let all = encoded(&[acquired(1, "k"), Reply::Error(Reason::BadKey)]);
        assert_eq!(shown(&mut outbox), all);
        assert_eq!(shown(&mut outbox), all);
        assert_eq!(outbox.take(5), 0);
        assert_eq!(shown(&mut outbox), all[5..]);
        assert_eq!(outbox.take(all.len() - 5), 1);
        assert_eq!(outbox.owed(), 0);
    }

    #[test]
    fn an_acquire_counts_as_answered_with_the_last_byte_of_its_reply() {
        let reply = acquired(1, "k");
        let len = encoded(&[reply]).len();
        for first in 0..len {
            let mut outbox = Outbox::default();
            outbox.push(&reply, false);
            assert!(!shown(&mut outbox).is_empty());
            assert_eq!(outbox.take(first), 0, "{first} of {len} bytes");
            assert!(!shown(&mut outbox).is_empty());
            assert_eq!(outbox.take(len - first), 1);
        }
    }

    #[test]
    fn more_than_was_shown_is_not_taken() {
        let mut outbox = Outbox::default();
        outbox.push(&acquired(1, "k"), false);
        assert_eq!(outbox.take(1000), 0);
        assert_eq!(shown(&mut outbox), encoded(&[acquired(1, "k")]));
    }

    #[test]
    fn a_batch_has_at_most_64_frames() {
        let mut outbox = Outbox::default();
        for number in 1..=100 {
            outbox.push(&acquired(number, "k"), false);
        }
        let len = encoded(&[acquired(1, "k")]).len();
        assert_eq!(shown(&mut outbox).len(), 64 * len);
        assert_eq!(outbox.take(64 * len), 64);
        assert_eq!(shown(&mut outbox).len(), 36 * len);
    }

    #[test]
    fn only_frames_of_which_no_byte_was_shown_or_taken_are_taken_back() {
        let mut outbox = Outbox::default();
        outbox.push(&acquired(1, "a"), true);
        outbox.push(&acquired(2, "b"), true);
        assert!(!shown(&mut outbox).is_empty());
        outbox.take(1);
        outbox.push(&acquired(3, "c"), false);
        outbox.push(&acquired(4, "d"), true);
        let back = outbox.take_back(Record::is_waiters_grant);
        let tokens: Vec<u64> = back.grants.iter().map(|(_, token)| token.value()).collect();
        assert_eq!((back.acquires, tokens), (2, alloc::vec![2, 4]));
        let left = encoded(&[acquired(1, "a"), acquired(3, "c")]);
        assert_eq!(shown(&mut outbox), left[1..]);

        outbox.push(&acquired(5, "e"), true);
        let back = outbox.take_back(Record::is_waiters_grant);
        assert_eq!(back.grants, [(Key::new(b"e").expect("a key"), Token::new(5).expect("a token"))]);
        assert_eq!(outbox.take(left.len() - 1), 2);
        assert_eq!(outbox.owed(), 0);
    }

    #[test]
    fn a_frame_that_is_partly_taken_is_unfinished() {
        let mut outbox = Outbox::default();
        outbox.push(&acquired(1, "a"), false);
        outbox.push(&Reply::TimedOut { owner: Owner::new(2).expect("an owner"), key: key("b") }, false);
        assert!(!shown(&mut outbox).is_empty());
        outbox.take(18);
        let back = outbox.take_back_unfinished();
        assert_eq!(back.acquires, 2);
        assert_eq!(back.grants, [(Key::new(b"a").expect("a key"), Token::new(1).expect("a token"))]);
        assert_eq!(outbox.owed(), 0);
    }

    #[test]
    fn what_was_shown_is_unfinished_only_once_the_transport_is_gone() {
        let mut outbox = Outbox::default();
        outbox.push(&acquired(1, "a"), false);
        assert!(!shown(&mut outbox).is_empty());
        outbox.push(&acquired(2, "b"), false);
        assert_eq!(outbox.take_back_unfinished().grants.len(), 1);
        assert_eq!(outbox.owed(), encoded(&[acquired(1, "a")]).len());
        let back = outbox.take_back_all();
        assert_eq!(back.grants, [(Key::new(b"a").expect("a key"), Token::new(1).expect("a token"))]);
        assert_eq!(outbox.owed(), 0);
    }

    #[test]
    fn room_is_given_back_after_a_burst_and_kept_for_single_replies() {
        let mut outbox = Outbox::default();
        for number in 1..=5000 {
            outbox.push(&acquired(number, "k"), false);
        }
        assert!(outbox.bytes.capacity() > 64 * 1024);
        let mut acquires = 0;
        while outbox.owed() > 0 {
            let len = shown(&mut outbox).len();
            acquires += outbox.take(len);
        }
        assert_eq!(acquires, 5000);
        assert!(outbox.bytes.capacity() <= KEPT_BYTES);
        assert!(outbox.frames.capacity() <= KEPT_FRAMES);
        let kept = outbox.bytes.capacity();
        outbox.push(&acquired(1, "k"), false);
        assert_eq!(outbox.bytes.capacity(), kept);
    }

    #[test]
    fn a_slow_reader_does_not_make_the_buffer_grow() {
        let mut outbox = Outbox::default();
        let len = encoded(&[acquired(1, "k")]).len();
        for number in 1..=1000 {
            outbox.push(&acquired(number, "k"), false);
        }
        for number in 1001..100_000 {
            outbox.push(&acquired(number, "k"), false);
            assert!(!shown(&mut outbox).is_empty());
            outbox.take(len);
        }
        assert!(outbox.bytes.capacity() < 4 * 1000 * len, "{}", outbox.bytes.capacity());
    }
}
