//! What goes out over one connection.

use std::io;
use std::mem;
use std::ops::Range;

use ticketing_proto::client::Broker;
use ticketing_proto::id::ConnectionId;
use ticketing_proto::time::Instant;

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
