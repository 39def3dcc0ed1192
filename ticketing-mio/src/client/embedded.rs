//! The client's loop, one turn at a time.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::mem;
use std::net::{Shutdown, SocketAddr};
use std::ops::Range;
use std::sync::Arc;
use std::task::Wake;
use std::time::Duration;

use mio::event::Event as Readiness;
use mio::net::TcpStream;
use mio::{Registry, Token, Waker};
use ticketing_host::client::{Addresses, Connections, Outgoing, READS_PER_TURN, Shared, WRITES_PER_TURN};
use ticketing_host::clock;
use ticketing_host::names::put_in_turn;
use ticketing_proto::client::{Broker, Event, Failure};
use ticketing_proto::id::ConnectionId;
use ticketing_proto::limits::READ_BUFFER_LEN;

use super::connect::Connecting;
use super::lookup::{Lookups, Resolver};
use crate::poll::FULL_OR_EMPTY_AFTER_PART;

/// Connections of a client with a single address (`CC-1`).
const CONNECTIONS_TO_ONE_ADDRESS: usize = 2;

/// The connections of a client in somebody else's loop, see [`ClientBuilder::embed`](super::ClientBuilder::embed).
///
/// After each poll: [`handle_event`](Self::handle_event) for its events, then one [`turn`](Self::turn), also when
/// only the waker has woken it; and the next poll lasts no longer than [`next_timeout`](Self::next_timeout). A turn
/// does a bounded amount of work; what is more waits for the next one, and the timeout is zero then. When it is
/// dropped, acquires under way end as `Closed` or `Indeterminate`, and releases as `Unconfirmed`.
pub struct EmbeddedClient {
    shared: Arc<Shared>,
    addresses: Addresses,
    lookups: Lookups,
    registry: Registry,
    tokens: Range<usize>,
    peers: Peers,
    errands: Vec<Event>,
    input: Box<[u8; READ_BUFFER_LEN]>,
    output: Vec<u8>,
    /// The latest turn has left something to do.
    has_more: bool,
    is_over: bool,
}

/// By the place of their tokens in the range.
struct Peers(Vec<Option<Peer>>);

/// One connection of the broker's.
struct Peer {
    id: ConnectionId,
    address: usize,
    stage: Stage,
}

enum Stage {
    LookingUp,
    Connecting(Connecting),
    Open(Stream),
    /// The broker knows that it is over, and will say so.
    Over,
}

struct Stream {
    socket: TcpStream,
    /// The last read has not emptied it.
    is_readable: bool,
    /// No bytes will follow those that are there: the end is to be looked for behind them.
    has_end: bool,
    outgoing: Outgoing,
}

struct WakeLoop(Arc<Waker>);

impl Wake for WakeLoop {
    fn wake(self: Arc<Self>) {
        // Where the loop can't be woken, its poll has failed, or it is gone.
        let _ = self.0.wake();
    }
}

impl EmbeddedClient {
    pub(super) fn new(
        shared: Arc<Shared>,
        addresses: Vec<Box<str>>,
        resolver: Option<Resolver>,
        registry: &Registry,
        tokens: Range<usize>,
        waker: Arc<Waker>,
    ) -> io::Result<Self> {
        let needed = if addresses.len() == 1 { CONNECTIONS_TO_ONE_ADDRESS } else { addresses.len() };
        if tokens.len() < needed {
            let message = format!("{needed} mio tokens are needed, and the range has {}", tokens.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let registry = registry.try_clone()?;
        shared.register_driver(Arc::new(WakeLoop(Arc::clone(&waker))).into());
        Ok(Self {
            shared,
            addresses: Addresses::new(addresses),
            lookups: Lookups::new(resolver, waker),
            registry,
            tokens,
            peers: Peers((0..needed).map(|_| None).collect()),
            errands: Vec::new(),
            input: Box::new([0; READ_BUFFER_LEN]),
            output: Vec::new(),
            has_more: true,
            is_over: false,
        })
    }

    /// Takes note of an event; the next [`turn`](Self::turn) acts on it. Events of others are ignored, and so are
    /// those that say what is not so.
    pub fn handle_event(&mut self, event: &Readiness) {
        let Token(token) = event.token();
        let Some(place) = token.checked_sub(self.tokens.start) else { return };
        let Some(Some(Peer { stage: Stage::Open(stream), .. })) = self.peers.0.get_mut(place) else { return };
        stream.has_end |= event.is_read_closed() || event.is_error();
        stream.is_readable |= event.is_readable() || stream.has_end;
        if event.is_writable() || event.is_write_closed() || event.is_error() {
            stream.outgoing.set_can_write(true);
        }
    }

    /// Connects, reads, does what is due, and writes: of each a bounded part. To be called after the events of each
    /// poll, and at [`next_timeout`](Self::next_timeout).
    pub fn turn(&mut self) {
        // What is asked for from now on wakes the loop again.
        let _ = self.shared.take_call();
        self.has_more = false;
        while let Some((id, found)) = self.lookups.poll() {
            self.looked_up(id, found);
        }
        for place in 0..self.peers.0.len() {
            self.connect(place);
            self.read(place);
        }
        self.serve();
        if self.is_over {
            self.end();
        }
    }

    /// How long the next poll may last; `None` for as long as it likes.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Duration> {
        if self.has_more {
            return Some(Duration::ZERO);
        }
        let attempts = self.peers.0.iter().flatten().filter_map(|peer| match &peer.stage {
            Stage::Connecting(connecting) => connecting.deadline(),
            _ => None,
        });
        let next = attempts.chain(self.shared.look(Broker::poll_timeout)).min()?;
        Some(next.saturating_since(clock::now()))
    }

    /// Whether the client was closed, nothing is left to do, and the sockets are closed.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.is_over
    }

    /// Closes the sockets, and tells those who wait for it, or for what can't come any more.
    fn end(&mut self) {
        self.peers.0.clear();
        self.shared.abandon();
    }

    fn looked_up(&mut self, id: ConnectionId, found: io::Result<Vec<SocketAddr>>) {
        // One that comes too late is ignored.
        let of_it = |peer: &Option<Peer>| peer.as_ref().is_some_and(|peer| peer.id == id);
        let Some(place) = self.peers.0.iter().position(of_it) else { return };
        let Some(Peer { address, stage: stage @ Stage::LookingUp, .. }) = &mut self.peers.0[place] else {
            return;
        };
        match found {
            Ok(mut addresses) => {
                put_in_turn(&mut addresses, self.addresses.failures(*address));
                *stage = Stage::Connecting(Connecting::new(addresses, Token(self.tokens.start + place)));
            }
            Err(error) => self.not_connected(place, &error),
        }
    }

    fn connect(&mut self, place: usize) {
        let Some(Peer { id, address, stage }) = &mut self.peers.0[place] else { return };
        let Stage::Connecting(connecting) = stage else { return };
        match connecting.poll(&self.registry) {
            None => {}
            Some(Ok(socket)) => {
                let id = *id;
                self.addresses.connected(*address, &self.shared);
                // What was ready before it was known to be connected is to be looked at.
                let outgoing = Outgoing::default();
                *stage = Stage::Open(Stream { socket, is_readable: true, has_end: false, outgoing });
                self.shared.drive(&mut self.errands, |broker, now| broker.handle_connected(now, id));
            }
            Some(Err(error)) => self.not_connected(place, &error),
        }
    }

    fn not_connected(&mut self, place: usize, error: &io::Error) {
        let Some(Peer { id, address, stage }) = &mut self.peers.0[place] else { return };
        let (id, address) = (*id, *address);
        *stage = Stage::Over;
        self.addresses.failed(address, error, &self.shared);
        self.shared.drive(&mut self.errands, |broker, now| broker.handle_disconnected(now, id));
    }

    fn read(&mut self, place: usize) {
        let Some(Peer { id, stage, .. }) = &mut self.peers.0[place] else { return };
        let Stage::Open(stream) = stage else { return };
        for _ in 0..READS_PER_TURN {
            if !stream.is_readable {
                return;
            }
            let outcome = match stream.socket.read(&mut self.input[..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    stream.is_readable = false;
                    return;
                }
                outcome => outcome,
            };
            self.shared.drive(&mut self.errands, |broker, now| match outcome {
                Ok(0) => broker.handle_eof(now, *id),
                Ok(len) => broker.handle_data(now, *id, &self.input[..len]),
                Err(_) => broker.handle_disconnected(now, *id),
            });
            let Ok(len @ 1..) = outcome else {
                *stage = Stage::Over;
                return;
            };
            stream.is_readable = len == self.input.len() || stream.has_end || !FULL_OR_EMPTY_AFTER_PART;
        }
        self.has_more = true;
    }

    /// Does what is due, then all that the broker wants, within bounds.
    fn serve(&mut self) {
        for round in 0..=WRITES_PER_TURN {
            self.output.clear();
            let (has_offer, _) =
                self.shared.exchange(&mut self.errands, &mut self.peers, round, &mut self.output);
            self.run_errands();
            if !has_offer {
                self.has_more |= round == WRITES_PER_TURN;
                return;
            }
            for (_, stream) in open(&mut self.peers.0) {
                if let Some(offered) = stream.outgoing.offered(&self.output) {
                    stream.outgoing.wrote(stream.socket.write(offered));
                }
            }
        }
    }

    fn run_errands(&mut self) {
        let mut errands = mem::take(&mut self.errands);
        for errand in errands.drain(..) {
            match errand {
                Event::Connect { connection, address } => {
                    let free = self.peers.0.iter().position(Option::is_none);
                    let place = free.expect("there are as many places as the broker has connections");
                    self.peers.0[place] = Some(Peer { id: connection, address, stage: Stage::LookingUp });
                    self.lookups.begin(connection, self.addresses.text(address));
                    self.has_more = true;
                }
                Event::ShutdownWrite { connection } => {
                    if let Some((_, stream)) = open(&mut self.peers.0).find(|&(id, _)| id == connection) {
                        // A connection that can't be shut down any more is over, and reading will tell.
                        let _ = stream.socket.shutdown(Shutdown::Write);
                    }
                }
                Event::Disconnect { connection, failure } => {
                    let of_it = |peer: &mut Peer| peer.id == connection;
                    let Some(peer) = self.peers.0.iter_mut().find_map(|peer| peer.take_if(of_it)) else {
                        continue;
                    };
                    self.lookups.forget(connection);
                    let was_made = matches!(peer.stage, Stage::Open(_) | Stage::Over);
                    if !was_made && failure == Failure::HandshakeTimeout {
                        self.addresses.failed(peer.address, &failure, &self.shared);
                    }
                }
                Event::Closed => self.is_over = true,
                _ => {}
            }
        }
        self.errands = errands;
    }
}

impl Drop for EmbeddedClient {
    /// Also after a panic.
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for EmbeddedClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedClient").field("is_over", &self.is_over).finish_non_exhaustive()
    }
}

impl Connections for Peers {
    fn visit(&mut self, mut visit: impl FnMut(ConnectionId, &mut Outgoing)) {
        open(&mut self.0).for_each(|(id, stream)| visit(id, &mut stream.outgoing));
    }
}

/// The connections that are made.
fn open(peers: &mut [Option<Peer>]) -> impl Iterator<Item = (ConnectionId, &mut Stream)> {
    peers.iter_mut().flatten().filter_map(|peer| match &mut peer.stage {
        Stage::LookingUp | Stage::Connecting(_) | Stage::Over => None,
        Stage::Open(stream) => Some((peer.id, stream)),
    })
}
