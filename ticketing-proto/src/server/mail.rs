//! Who is connected, and answers on their way to other connections than the one at hand.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use crate::id::ConnectionId;
use crate::lock::Answer;

/// The connections of a hub and their mail.
#[derive(Default, Debug)]
pub(super) struct Mailroom {
    peers: BTreeMap<ConnectionId, Peer>,
    unauthenticated: usize,
    /// Those to be woken, each once until it is looked after. It may name some that need it no more.
    wake: VecDeque<ConnectionId>,
}

#[derive(Default, Debug)]
struct Peer {
    is_authenticated: bool,
    is_to_wake: bool,
    mail: Vec<Answer>,
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
        self.peers.insert(id, Peer::default());
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

    /// The connection is no more. Its mail must have been taken.
    pub(super) fn close(&mut self, id: ConnectionId) {
        if let Some(peer) = self.peers.remove(&id) {
            debug_assert!(peer.mail.is_empty(), "mail may hold a grant");
            self.unauthenticated -= usize::from(!peer.is_authenticated);
        }
    }

    /// Keeps the answer for its connection, and wakes that. Gives it back if there is no such connection.
    pub(super) fn post(&mut self, answer: Answer) -> Result<(), Answer> {
        let Some(peer) = self.peers.get_mut(&answer.connection) else { return Err(answer) };
        if !core::mem::replace(&mut peer.is_to_wake, true) {
            self.wake.push_back(answer.connection);
        }
        peer.mail.push(answer);
        Ok(())
    }

    /// Gives each answer that is kept for the connection to `deliver`. It needs no waking then.
    pub(super) fn collect(&mut self, id: ConnectionId, deliver: impl FnMut(Answer)) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.is_to_wake = false;
            peer.mail.drain(..).for_each(deliver);
            peer.mail.shrink_to_fit();
        }
    }

    pub(super) fn wake_all(&mut self) {
        for (&id, peer) in &mut self.peers {
            if !core::mem::replace(&mut peer.is_to_wake, true) {
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
