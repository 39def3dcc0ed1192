//! Who is connected, and answers on their way to other connections than the one at hand.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use crate::id::ConnectionId;
use crate::lock::Answer;

/// No slot: the end of a list.
const NONE: u32 = u32::MAX;
/// How many slots stay when there is no mail.
const KEPT_SLOTS: usize = 1024;

/// The connections of a hub and their mail.
#[derive(Default, Debug)]
pub(super) struct Mailroom {
    peers: BTreeMap<ConnectionId, Peer>,
    unauthenticated: usize,
    mail: Mail,
    /// How many are to be looked after: those with mail among them.
    awaited: usize,
    /// Those to be woken, each once until it is looked after. It may name some that need it no more.
    wake: VecDeque<ConnectionId>,
}

#[derive(Debug)]
struct Peer {
    /// Its mail is a list, so that a connection without any costs next to nothing, and one that has some
    /// allocates nothing.
    first: u32,
    last: u32,
    is_authenticated: bool,
    is_to_wake: bool,
}

/// The mail of all connections.
#[derive(Default, Debug)]
struct Mail {
    slots: Vec<Slot>,
    /// The first free slot; the others follow from there.
    free: Option<u32>,
    len: usize,
}

#[derive(Debug)]
struct Slot {
    answer: Option<Answer>,
    next: u32,
}

impl Mailroom {
    pub(super) fn len(&self) -> usize {
        self.peers.len()
    }

    pub(super) const fn unauthenticated(&self) -> usize {
        self.unauthenticated
    }

    /// A new connection, not authenticated yet.
    pub(super) fn open(&mut self, id: ConnectionId) {
        let peer = Peer { first: NONE, last: NONE, is_authenticated: false, is_to_wake: false };
        self.peers.insert(id, peer);
        self.unauthenticated += 1;
    }

    pub(super) fn authenticated(&mut self, id: ConnectionId) {
        if let Some(peer) = self.peers.get_mut(&id)
            && !peer.is_authenticated
        {
            peer.is_authenticated = true;
            self.unauthenticated -= 1;
        }
    }

    /// The connection is no more. Its mail must have been collected: it may hold a grant.
    pub(super) fn close(&mut self, id: ConnectionId) {
        if let Some(peer) = self.peers.remove(&id) {
            debug_assert_eq!(peer.first, NONE);
            self.awaited -= usize::from(peer.is_to_wake);
            self.unauthenticated -= usize::from(!peer.is_authenticated);
        }
    }

    /// Keeps the answer for its connection, and wakes that. Gives it back if there is no such connection.
    pub(super) fn post(&mut self, answer: Answer) -> Result<(), Answer> {
        let id = answer.connection;
        let Some(peer) = self.peers.get_mut(&id) else { return Err(answer) };
        if !core::mem::replace(&mut peer.is_to_wake, true) {
            self.awaited += 1;
            self.wake.push_back(id);
        }
        let at = self.mail.insert(answer);
        if peer.first == NONE {
            peer.first = at;
        } else {
            self.mail.link(peer.last, at);
        }
        peer.last = at;
        Ok(())
    }

    /// Gives each answer that is kept for the connection to `deliver`. It needs no waking then.
    pub(super) fn collect(&mut self, id: ConnectionId, mut deliver: impl FnMut(&Answer)) {
        // Mostly nobody has any: looking for the connection costs more than serving a request.
        if self.awaited == 0 {
            return;
        }
        let Some(peer) = self.peers.get_mut(&id) else { return };
        self.awaited -= usize::from(core::mem::take(&mut peer.is_to_wake));
        let mut next = core::mem::replace(&mut peer.first, NONE);
        while let Some((answer, following)) = self.mail.remove(next) {
            deliver(&answer);
            next = following;
        }
    }

    pub(super) fn wake_all(&mut self) {
        for (&id, peer) in &mut self.peers {
            if !core::mem::replace(&mut peer.is_to_wake, true) {
                self.awaited += 1;
                self.wake.push_back(id);
            }
        }
    }

    /// The ids of all connections, in their order.
    pub(super) fn ids(&self) -> impl Iterator<Item = ConnectionId> {
        self.peers.keys().copied()
    }

    /// The next one to be woken. It is not named again until it was looked after.
    pub(super) fn poll_wake(&mut self) -> Option<ConnectionId> {
        loop {
            let id = self.wake.pop_front()?;
            if self.peers.get(&id).is_some_and(|peer| peer.is_to_wake) {
                return Some(id);
            }
        }
    }
}

impl Mail {
    fn insert(&mut self, answer: Answer) -> u32 {
        self.len += 1;
        let slot = Slot { answer: Some(answer), next: NONE };
        match self.free {
            Some(at) => {
                let next = core::mem::replace(&mut self.slots[at as usize], slot).next;
                self.free = (next != NONE).then_some(next);
                at
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        }
    }

    fn link(&mut self, before: u32, at: u32) {
        self.slots[before as usize].next = at;
    }

    /// The answer in a slot, and the slot that follows it.
    fn remove(&mut self, at: u32) -> Option<(Answer, u32)> {
        let slot = self.slots.get_mut(at as usize)?;
        let answer = slot.answer.take()?;
        let following = core::mem::replace(&mut slot.next, self.free.unwrap_or(NONE));
        self.free = Some(at);
        self.len -= 1;
        if self.len == 0 {
            // After a burst the memory is given back.
            self.slots.clear();
            self.slots.shrink_to(KEPT_SLOTS);
            self.free = None;
        }
        Some((answer, following))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Owner;
    use crate::key::Key;
    use crate::lock::Verdict;
    use alloc::vec;

    fn answer(connection: u64, owner: u64) -> Answer {
        Answer {
            connection: ConnectionId::new(connection),
            owner: Owner::new(owner).unwrap(),
            key: Key::new(b"k").unwrap(),
            verdict: Verdict::TimedOut,
        }
    }

    fn owners(room: &mut Mailroom, connection: u64) -> Vec<u64> {
        let mut owners = Vec::new();
        room.collect(ConnectionId::new(connection), |answer| owners.push(answer.owner.value()));
        owners
    }

    #[test]
    fn each_connection_gets_its_own_mail_in_order_and_once() {
        let mut room = Mailroom::default();
        for id in 1..=3 {
            room.open(ConnectionId::new(id));
        }
        for round in 0..10 {
            for owner in 1..=4 {
                room.post(answer(1, owner)).unwrap();
                room.post(answer(2, 10 + owner)).unwrap();
            }
            assert_eq!(owners(&mut room, 1), [1, 2, 3, 4]);
            room.post(answer(3, 21)).unwrap();
            room.post(answer(1, 5)).unwrap();
            assert_eq!(owners(&mut room, 2), [11, 12, 13, 14]);
            assert_eq!(owners(&mut room, 1), [5]);
            assert_eq!(owners(&mut room, 1), []);
            if round % 2 == 0 {
                assert_eq!(owners(&mut room, 3), vec![21; 1 + usize::from(round > 0)]);
            }
        }
        assert!(room.mail.slots.len() <= 10, "slots are used again");
        assert_eq!(room.post(answer(4, 1)), Err(answer(4, 1)));
    }

    #[test]
    fn one_who_is_to_be_woken_is_so_until_it_was_looked_after_or_is_gone() {
        let mut room = Mailroom::default();
        let [first, second] = [1, 2].map(ConnectionId::new);
        room.open(first);
        room.open(second);
        room.wake_all();
        assert_eq!([room.poll_wake(), room.poll_wake(), room.poll_wake()], [Some(first), Some(second), None]);
        room.wake_all();
        room.post(answer(1, 1)).unwrap();
        assert_eq!(room.poll_wake(), None, "they are known to be woken");
        assert_eq!(owners(&mut room, 1), [1]);
        assert_eq!(room.awaited, 1);
        room.close(second);
        assert_eq!(room.awaited, 0);
        room.post(answer(1, 2)).unwrap();
        assert_eq!((room.poll_wake(), owners(&mut room, 1)), (Some(first), vec![2]));
        assert_eq!(room.awaited, 0);
    }

    #[test]
    fn the_memory_of_a_burst_is_given_back() {
        let mut room = Mailroom::default();
        room.open(ConnectionId::new(1));
        for owner in 1..=100_000 {
            room.post(answer(1, owner)).unwrap();
        }
        assert_eq!(owners(&mut room, 1).len(), 100_000);
        assert!(room.mail.slots.capacity() <= KEPT_SLOTS);
    }
}
