//! What goes out over one connection.

use std::io;
use std::mem;
use std::ops::Range;

use ticketing_proto::client::{Broker, Event};
use ticketing_proto::id::ConnectionId;
use ticketing_proto::time::Instant;

use super::shared::Shared;

/// The one batch of a connection that is between the broker and the transport. Its driver goes round:
/// [`take_offer`](Self::take_offer), [`offered`](Self::offered), a write, [`wrote`](Self::wrote),
/// [`report`](Self::report).
#[derive(Debug)]
pub struct Outgoing {
    can_write: bool,
    /// What the latest poll gave: a part of the driver's output.
    offered: Range<usize>,
    /// How the write went; the broker is told next.
    written: Option<Written>,
}

#[derive(Clone, Copy, Debug)]
enum Written {
    Took(usize),
    Failed,
}

impl Default for Outgoing {
    fn default() -> Self {
        Self { can_write: true, offered: 0..0, written: None }
    }
}

impl Outgoing {
    /// Whether the transport may take bytes.
    #[must_use]
    pub const fn can_write(&self) -> bool {
        self.can_write
    }

    /// Whether it may.
    pub const fn set_can_write(&mut self, can_write: bool) {
        self.can_write = can_write;
    }

    /// Appends what is to be written next to `output`; whether there is anything. Nothing while the transport is
    /// full.
    pub fn take_offer(
        &mut self,
        broker: &mut Broker,
        now: Instant,
        id: ConnectionId,
        output: &mut Vec<u8>,
    ) -> bool {
        let start = output.len();
        let has_offer = self.can_write && broker.poll_transmit(now, id, output);
        self.offered = start..output.len();
        has_offer
    }

    /// What is to be written of `output`, once.
    pub fn offered<'a>(&mut self, output: &'a [u8]) -> Option<&'a [u8]> {
        Some(&output[mem::take(&mut self.offered)]).filter(|offered| !offered.is_empty())
    }

    /// How the write went.
    pub fn wrote(&mut self, result: io::Result<usize>) {
        self.written = Some(match result {
            Ok(len) => Written::Took(len),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.can_write = false;
                Written::Took(0)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Written::Took(0),
            Err(_) => Written::Failed,
        });
    }

    /// Tells the broker how the write went. One that failed took nothing.
    pub fn report(&mut self, broker: &mut Broker, now: Instant, id: ConnectionId) {
        match self.written.take() {
            None => {}
            Some(Written::Took(len)) => broker.handle_transmitted(now, id, len),
            Some(Written::Failed) => {
                broker.handle_transmitted(now, id, 0);
                broker.handle_write_failed(now, id);
            }
        }
    }
}

/// Reads of one connection, each followed by the others' turns and the timers.
pub const READS_PER_TURN: usize = 16;
/// Writes of one connection, likewise. One carries 64 requests at most.
pub const WRITES_PER_TURN: usize = 16;

/// The connections of a driver that are made.
pub trait Connections {
    /// Visits each.
    fn visit(&mut self, visit: impl FnMut(ConnectionId, &mut Outgoing));
}

impl Shared {
    /// For the driver, in each round of a turn: tells the broker what the transports took, has it do what is due, and
    /// appends to `output` what it offers. What is due is done in the first round, 0, and nothing is offered any more
    /// in round [`WRITES_PER_TURN`]. Gives whether there is an offer, and when the broker wants to be woken.
    pub fn exchange(
        &self,
        errands: &mut Vec<Event>,
        connections: &mut impl Connections,
        round: usize,
        output: &mut Vec<u8>,
    ) -> (bool, Option<Instant>) {
        self.drive(errands, |broker, now| {
            connections.visit(|id, outgoing| outgoing.report(broker, now, id));
            if round == 0 && broker.poll_timeout().is_some_and(|at| at <= now) {
                broker.handle_timeout(now);
            }
            let mut has_offer = false;
            if round < WRITES_PER_TURN {
                connections.visit(|id, outgoing| has_offer |= outgoing.take_offer(broker, now, id, output));
            }
            (has_offer, broker.poll_timeout())
        })
    }
}
