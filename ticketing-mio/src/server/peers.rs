//! The connections of a server, by the mio token that their events carry.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;

use mio::event::Event;
use mio::net::TcpStream;
use ticketing_proto::id::ConnectionId;

/// One connection's socket, and what is known of it.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) id: ConnectionId,
    pub(super) stream: TcpStream,
    pub(super) address: SocketAddr,
    /// The last read has not emptied it.
    pub(super) is_readable: bool,
    /// The last write has not filled it.
    pub(super) is_writable: bool,
    /// No bytes will follow those that are there: the end is to be looked for behind them.
    pub(super) has_end: bool,
    /// The core has something to send.
    pub(super) is_sending: bool,
    /// It is among those to be read.
    pub(super) is_reader: bool,
    /// It is among those to be written to.
    pub(super) is_sender: bool,
    /// What the system said when the transport failed.
    pub(super) error: Option<io::Error>,
}

impl Peer {
    pub(super) const fn new(id: ConnectionId, stream: TcpStream, address: SocketAddr) -> Self {
        Self {
            id,
            stream,
            address,
            is_readable: false,
            is_writable: true,
            has_end: false,
            is_sending: false,
            is_reader: false,
            is_sender: false,
            error: None,
        }
    }

    /// Takes note of an event. A hang-up shows in the next write, too, so that it is noticed while nothing is read
    /// (`AD-5`): then something is owed.
    pub(super) fn note(&mut self, event: &Event) {
        self.has_end |= event.is_read_closed() || event.is_error();
        self.is_readable |= event.is_readable() || self.has_end;
        self.is_writable |= event.is_writable() || event.is_write_closed() || event.is_error();
    }

    pub(super) fn queue_to_read(&mut self, place: usize, readers: &mut VecDeque<usize>) {
        if self.is_readable && !self.is_reader {
            self.is_reader = true;
            readers.push_back(place);
        }
    }

    pub(super) fn queue_to_write(&mut self, place: usize, senders: &mut VecDeque<usize>) {
        if self.is_sending && self.is_writable && !self.is_sender {
            self.is_sender = true;
            senders.push_back(place);
        }
    }
}

/// The connections in numbered places; a place is used again.
#[derive(Default, Debug)]
pub(super) struct Peers {
    places: Vec<Option<Peer>>,
    free: Vec<usize>,
    by_id: HashMap<ConnectionId, usize>,
}

impl Peers {
    /// The place that the next one gets.
    pub(super) fn next_place(&self) -> usize {
        self.free.last().copied().unwrap_or(self.places.len())
    }

    /// Puts one into the [next place](Self::next_place).
    pub(super) fn insert(&mut self, peer: Peer) {
        let place = self.next_place();
        self.by_id.insert(peer.id, place);
        match self.free.pop() {
            Some(place) => self.places[place] = Some(peer),
            None => self.places.push(Some(peer)),
        }
    }

    pub(super) fn at(&mut self, place: usize) -> Option<&mut Peer> {
        self.places.get_mut(place)?.as_mut()
    }

    /// The one with this id, and its place.
    pub(super) fn of(&mut self, id: ConnectionId) -> Option<(usize, &mut Peer)> {
        let place = *self.by_id.get(&id)?;
        Some((place, self.at(place)?))
    }

    pub(super) fn remove(&mut self, id: ConnectionId) -> Option<Peer> {
        let place = self.by_id.remove(&id)?;
        self.free.push(place);
        self.places[place].take()
    }

    pub(super) fn ids(&self) -> Vec<ConnectionId> {
        self.places.iter().flatten().map(|peer| peer.id).collect()
    }
}
