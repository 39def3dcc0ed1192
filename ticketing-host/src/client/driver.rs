//! The task that owns a client's sockets, on any async runtime.

use std::future::poll_fn;
use std::io;
use std::mem;
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use ticketing_proto::client::{Event, Failure};
use ticketing_proto::id::ConnectionId;
use ticketing_proto::time::Instant;
use tracing::{debug, warn};

use super::addresses::Addresses;
use super::connect::{Resolver, connect};
use super::outgoing::{Connections, Outgoing, READS_PER_TURN, WRITES_PER_TURN};
use super::shared::Shared;
use crate::clock;
use crate::runtime::{Alarm, Runtime, Stream as _, yield_now};

const READ_BUFFER: usize = 4096;

/// Carries bytes, events and the time between the sockets and the broker, until the client is closed.
///
/// The time is the client's clock, whoever woke the task.
pub(super) struct Driver<R: Runtime> {
    shared: Arc<Shared>,
    addresses: Addresses,
    resolver: Resolver,
    peers: Vec<Peer<R>>,
    errands: Vec<Event>,
    input: Box<[u8; READ_BUFFER]>,
    output: Vec<u8>,
    alarm: Alarm<R::Timer>,
    /// This task's, as it is registered.
    waker: Waker,
    is_over: bool,
}

/// One connection of the broker's.
struct Peer<R: Runtime> {
    id: ConnectionId,
    address: usize,
    stage: Stage<R>,
}

enum Stage<R: Runtime> {
    Connecting(Pin<Box<dyn Future<Output = io::Result<R::Stream>> + Send>>),
    Open(Open<R>),
    /// The broker knows that it is over, and will say so.
    Over,
}

struct Open<R: Runtime> {
    stream: R::Stream,
    outgoing: Outgoing,
}

impl<R: Runtime> Driver<R> {
    /// # Panics
    /// Where the runtime has no timers.
    pub(super) fn new(shared: Arc<Shared>, addresses: Vec<Box<str>>, resolver: Resolver) -> Self {
        Self {
            shared,
            addresses: Addresses::new(addresses),
            resolver,
            peers: Vec::new(),
            errands: Vec::new(),
            input: Box::new([0; READ_BUFFER]),
            output: Vec::new(),
            alarm: Alarm::new(),
            waker: Waker::noop().clone(),
            is_over: false,
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            let next_timeout = self.turn();
            if self.is_over {
                return;
            }
            poll_fn(|cx| self.poll_work(cx, next_timeout)).await;
            // Those who were woken by what came may ask for more: one write is to carry all of it.
            yield_now::<R>().await;
            poll_fn(|cx| Poll::Ready(self.poll_input(cx))).await;
        }
    }

    /// Ready when there is something to do: input, a call, room to write, or something due.
    fn poll_work(&mut self, cx: &mut Context<'_>, next_timeout: Option<Instant>) -> Poll<()> {
        if !self.waker.will_wake(cx.waker()) {
            self.waker.clone_from(cx.waker());
            self.shared.register_driver(cx.waker().clone());
        }
        let has_input = self.poll_input(cx);
        let has_room = self.poll_room(cx);
        let is_called = self.shared.take_call();
        let is_due = next_timeout.is_some_and(|at| self.alarm.poll(cx, clock::now, at).is_ready());
        if has_input || has_room || is_called || is_due { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Connects and reads; whether anything came.
    fn poll_input(&mut self, cx: &mut Context<'_>) -> bool {
        let mut has_input = false;
        for at in 0..self.peers.len() {
            match &mut self.peers[at].stage {
                Stage::Connecting(connecting) => {
                    if let Poll::Ready(outcome) = connecting.as_mut().poll(cx) {
                        self.connected(at, outcome);
                        has_input = true;
                    }
                }
                Stage::Open(_) => has_input |= self.read(cx, at),
                Stage::Over => {}
            }
        }
        has_input
    }

    fn connected(&mut self, at: usize, outcome: io::Result<R::Stream>) {
        let Peer { id, address, .. } = self.peers[at];
        match outcome {
            Ok(stream) => {
                self.addresses.connected(address, &self.shared);
                self.peers[at].stage = Stage::Open(Open { stream, outgoing: Outgoing::default() });
                self.shared.drive(&mut self.errands, |broker, now| broker.handle_connected(now, id));
            }
            Err(error) => {
                self.peers[at].stage = Stage::Over;
                self.addresses.failed(address, &error, &self.shared);
                self.shared.drive(&mut self.errands, |broker, now| broker.handle_disconnected(now, id));
            }
        }
    }

    fn read(&mut self, cx: &mut Context<'_>, at: usize) -> bool {
        let Peer { id, stage: Stage::Open(open), .. } = &mut self.peers[at] else { return false };
        for reads in 0..READS_PER_TURN {
            let reading = open.stream.poll_read(cx, &mut self.input[..]);
            let Poll::Ready(outcome) = reading else { return reads > 0 };
            self.shared.drive(&mut self.errands, |broker, now| match outcome {
                Ok(0) => broker.handle_eof(now, *id),
                Ok(len) => broker.handle_data(now, *id, &self.input[..len]),
                Err(_) => broker.handle_disconnected(now, *id),
            });
            if matches!(outcome, Ok(0) | Err(_)) {
                self.peers[at].stage = Stage::Over;
                break;
            }
        }
        true
    }

    /// Whether a connection that was full takes bytes again.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> bool {
        let mut has_room = false;
        for (_, open) in open(&mut self.peers).filter(|(_, open)| !open.outgoing.can_write()) {
            let is_ready = open.stream.poll_write_ready(cx).is_ready();
            open.outgoing.set_can_write(is_ready);
            has_room |= is_ready;
        }
        has_room
    }

    /// Does what is due, then all that the broker wants, within bounds. Gives when it wants to be woken.
    fn turn(&mut self) -> Option<Instant> {
        let mut round = 0;
        loop {
            self.output.clear();
            let (has_offer, next_timeout) =
                self.shared.exchange(&mut self.errands, &mut self.peers, round, &mut self.output);
            self.run_errands();
            if !has_offer {
                if round == WRITES_PER_TURN {
                    self.shared.call_again();
                }
                return next_timeout;
            }
            open(&mut self.peers).for_each(|(_, stream)| stream.write(&self.output));
            round += 1;
        }
    }

    fn run_errands(&mut self) {
        let mut errands = mem::take(&mut self.errands);
        for errand in errands.drain(..) {
            match errand {
                Event::Connect { connection, address } => {
                    let lookup = (self.resolver)(self.addresses.text(address));
                    let connecting = Box::pin(connect::<R>(lookup, self.addresses.failures(address)));
                    self.peers.push(Peer { id: connection, address, stage: Stage::Connecting(connecting) });
                }
                Event::ShutdownWrite { connection } => {
                    if let Some((_, open)) = open(&mut self.peers).find(|&(id, _)| id == connection) {
                        // A connection that can't be shut down any more is over, and reading will tell.
                        let _ = open.stream.socket().shutdown(Shutdown::Write);
                    }
                }
                Event::Disconnect { connection, failure } => {
                    let Some(at) = self.peers.iter().position(|peer| peer.id == connection) else { continue };
                    let peer = self.peers.swap_remove(at);
                    let address = self.addresses.text(peer.address);
                    match failure {
                        Failure::Auth | Failure::Protocol(_) => warn!(address, %failure, "connection ended"),
                        _ => debug!(address, %failure, "connection ended"),
                    }
                    if let (Stage::Connecting(_), Failure::HandshakeTimeout) = (peer.stage, failure) {
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

impl<R: Runtime> Drop for Driver<R> {
    /// Also when the runtime ends, or after a panic: nobody is to wait for this task then.
    fn drop(&mut self) {
        self.peers.clear();
        self.shared.abandon();
    }
}

impl<R: Runtime> Open<R> {
    fn write(&mut self, output: &[u8]) {
        if let Some(offered) = self.outgoing.offered(output) {
            self.outgoing.wrote(self.stream.try_write(offered));
        }
    }
}

impl<R: Runtime> Connections for Vec<Peer<R>> {
    fn visit(&mut self, mut visit: impl FnMut(ConnectionId, &mut Outgoing)) {
        open(self).for_each(|(id, open)| visit(id, &mut open.outgoing));
    }
}

/// The connections that are made.
fn open<R: Runtime>(peers: &mut [Peer<R>]) -> impl Iterator<Item = (ConnectionId, &mut Open<R>)> {
    peers.iter_mut().filter_map(|peer| match &mut peer.stage {
        Stage::Connecting(_) | Stage::Over => None,
        Stage::Open(open) => Some((peer.id, open)),
    })
}
