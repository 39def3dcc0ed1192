//! Who waits: a line per key, first come, first served (`OP-9`).

use super::expiry::{Deadlines, Timed};
use super::index::{Found, Index};
use super::list::{Links, List};
use super::slab::Slab;
use crate::id::{ConnectionId, Owner};
use crate::limits::{Lease, Wait};
use crate::time::Instant;

/// The waiters for one key. It lies with the key's slot; the waiters lie in the [`Queue`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    list: List,
    len: u32,
}

impl Line {
    pub(super) const EMPTY: Self = Self { list: List::EMPTY, len: 0 };

    pub(super) const fn first(&self) -> Option<u32> {
        self.list.first()
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) const fn len(&self) -> u32 {
        self.len
    }
}

/// An acquire that may wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) connection: ConnectionId,
    pub(super) owner: Owner,
    pub(super) lease: Lease,
    pub(super) wait: Wait,
}

/// All waiters. To join, to leave and to be found is O(1), however long a line is.
#[derive(Debug)]
pub(super) struct Queue {
    waiters: Slab<Waiter>,
    timeouts: Deadlines,
    connections: Slab<Connection>,
    by_id: Index,
}

/// Packed, as there may be many: 52 bytes.
#[derive(Clone, Copy, Debug)]
#[repr(Rust, packed(4))]
struct Waiter {
    owner: Owner,
    deadline: Instant,
    connection: u32,
    slot: u32,
    in_line: Links,
    in_connection: Links,
    in_timeouts: Links,
    lease: Lease,
    wait: Wait,
}

/// A connection with waiters.
#[derive(Debug)]
struct Connection {
    id: ConnectionId,
    waiters: List,
}

impl Timed for Waiter {
    fn deadline(&self) -> Instant {
        self.deadline
    }

    fn links(&mut self) -> &mut Links {
        &mut self.in_timeouts
    }
}

impl Queue {
    pub(super) fn new() -> Self {
        Self {
            waiters: Slab::new(),
            timeouts: Deadlines::new(),
            connections: Slab::new(),
            by_id: Index::new(),
        }
    }

    pub(super) const fn timeouts(&self) -> &Deadlines {
        &self.timeouts
    }

    /// The slot that a waiter waits for.
    pub(super) fn slot_of(&self, waiter: u32) -> u32 {
        self.waiters[waiter].slot
    }

    /// When a waiter's wait is over.
    pub(super) fn deadline_of(&self, waiter: u32) -> Instant {
        self.waiters[waiter].deadline
    }

    /// The lease that a waiter asks for.
    pub(super) fn lease_of(&self, waiter: u32) -> Lease {
        self.waiters[waiter].lease
    }

    /// Some waiter of a connection.
    pub(super) fn waiter_of(&self, connection: ConnectionId) -> Option<u32> {
        self.connections[self.find(connection)?.slot].waiters.first()
    }

    /// A waiter joins the end of a slot's line.
    pub(super) fn join(&mut self, now: Instant, line: &mut Line, slot: u32, request: Request) {
        let Request { connection, owner, lease, wait } = request;
        let id = connection;
        let connection = match self.find(id) {
            Some(found) => found.slot,
            None => {
                let connection = self.connections.insert(Connection { id, waiters: List::EMPTY });
                self.by_id.insert(hash(id), connection);
                connection
            }
        };
        let waiter = self.waiters.insert(Waiter {
            owner,
            deadline: now.plus_secs(wait.secs()),
            connection,
            slot,
            in_line: Links::NONE,
            in_connection: Links::NONE,
            in_timeouts: Links::NONE,
            lease,
            wait,
        });
        line.list.push(&mut self.waiters, waiter, |waiter| &mut waiter.in_line);
        line.len += 1;
        let connection = &mut self.connections[connection];
        connection.waiters.push(&mut self.waiters, waiter, |waiter| &mut waiter.in_connection);
        self.timeouts.set(&mut self.waiters, waiter, wait.secs());
    }

    /// A waiter leaves its line, from wherever it stands.
    pub(super) fn leave(&mut self, line: &mut Line, waiter: u32) -> Request {
        let left = self.waiters[waiter];
        self.waiters.remove(waiter);
        line.list.remove(&mut self.waiters, left.in_line, |waiter| &mut waiter.in_line);
        line.len -= 1;
        self.timeouts.cancel(&mut self.waiters, left.wait.secs(), left.in_timeouts);
        let connection = &mut self.connections[left.connection];
        let id = connection.id;
        connection.waiters.remove(&mut self.waiters, left.in_connection, |waiter| &mut waiter.in_connection);
        if connection.waiters.is_empty() {
            self.connections.remove(left.connection);
            let found = self.by_id.find(hash(id), |found| found == left.connection);
            self.by_id.remove(found.expect("every connection is indexed"));
        }
        Request { connection: id, owner: left.owner, lease: left.lease, wait: left.wait }
    }

    /// Gives back what one shard of the index has too much of. Whether there was anything.
    pub(super) fn shrink(&mut self, shard: usize) -> bool {
        self.by_id.shrink(shard)
    }

    /// Whether there is nobody, and little memory kept.
    pub(super) fn is_small(&self) -> bool {
        self.waiters.is_empty() && self.by_id.is_small()
    }

    fn find(&self, id: ConnectionId) -> Option<Found> {
        self.by_id.find(hash(id), |connection| self.connections[connection].id == id)
    }
}

/// Connections are numbered by this side, so a fixed mixer does.
const fn hash(id: ConnectionId) -> u32 {
    let mixed = id.value().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiter_has_52_bytes_in_its_slab() {
        assert_eq!(Slab::<Waiter>::ENTRY_LEN, 52);
    }
}
