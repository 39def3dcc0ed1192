//! One connection's task.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io::{self, ErrorKind};
use std::net::{Shutdown, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use ticketing_proto::limits::READ_BUFFER_LEN;
use ticketing_proto::server::{CloseReason, Connection};

use super::shared::{Clock, Shared};
use crate::runtime::{Alarm, Runtime, Stream as _};
use crate::socket::{reset_at_close, write_now};

/// How often a connection is read before others have their turn.
const ROUNDS_PER_TURN: usize = 4;

thread_local! {
    /// What is about to be written. It belongs to the thread, so that a quiet connection has none.
    static BATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    /// What was just read, likewise. It is taken out while it is in use.
    static SPACE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Serves one connection until it has ended. Wherever it is dropped, the hub hears of it.
#[derive(Debug)]
pub(super) struct Task<R: Runtime> {
    shared: Arc<Shared>,
    /// Until the end.
    peer: Option<Peer<R>>,
}

#[derive(Debug)]
struct Peer<R: Runtime> {
    connection: Connection,
    stream: R::Stream,
    address: SocketAddr,
    /// Only while there is a deadline, or was one that it still waits for.
    alarm: Option<Alarm<R::Timer>>,
    /// The waker that the hub's mail wakes.
    waker: Option<Waker>,
}

impl<R: Runtime> Task<R> {
    pub(super) const fn new(
        shared: Arc<Shared>,
        connection: Connection,
        stream: R::Stream,
        address: SocketAddr,
    ) -> Self {
        Self { shared, peer: Some(Peer { connection, stream, address, alarm: None, waker: None }) }
    }
}

impl<R: Runtime> Future for Task<R> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Self { shared, peer } = self.get_mut();
        let Some(this) = peer else { return Poll::Ready(()) };
        let result = if shared.is_cut() { Ok(()) } else { ready!(this.poll(shared, context)) };
        shared.log.ended(this.address, this.connection.close_reason(), result.as_ref().err());
        if let Some(Peer { connection, stream, .. }) = peer.take() {
            if connection.close_reason() == Some(CloseReason::WriteStalled) {
                // If this fails the connection is gone, too, only later.
                let _ = reset_at_close(stream.socket());
            }
            // The table first: whoever sees the connection closed finds its waiters gone.
            shared.end(connection);
            drop(stream);
        }
        Poll::Ready(())
    }
}

impl<R: Runtime> Drop for Task<R> {
    fn drop(&mut self) {
        if let Some(peer) = self.peer.take() {
            self.shared.end(peer.connection);
        }
    }
}

impl<R: Runtime> Peer<R> {
    /// A bounded turn. An error is the transport's.
    fn poll(&mut self, shared: &Shared, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.register(shared, context);
        if shared.is_cut() {
            // Cut before this task could be woken for it.
            return Poll::Ready(Ok(()));
        }
        if self.connection.poll_timeout().is_some_and(|deadline| deadline <= shared.clock.now()) {
            self.flush_overdue(shared)?;
        }
        // Whatever has woken this task, the hub knows; and it says so with input, too.
        let mut is_to_ask = true;
        for round in 1..=ROUNDS_PER_TURN {
            let wanted_read = self.connection.wants_read();
            let read = if wanted_read { self.poll_receive(shared, context)? } else { Poll::Pending };
            let is_read = read.is_ready();
            if !is_read && (is_to_ask || self.connection.wants_attention()) {
                let now = shared.clock.now();
                shared.call(|hub| hub.attend(now, &mut self.connection));
            }
            is_to_ask = false;
            if read == Poll::Ready(READ_BUFFER_LEN) && round < ROUNDS_PER_TURN {
                // There is more: a second look costs nothing, and makes the writes fewer.
                continue;
            }
            self.flush(shared, context)?;
            if self.connection.poll_shutdown_write() {
                self.shut_down_write()?;
            }
            if self.connection.is_closed() {
                return Poll::Ready(Ok(()));
            }
            let reads_again = self.connection.wants_read() && !wanted_read;
            if !is_read && !reads_again && !self.connection.wants_attention() {
                ready!(self.poll_timer(shared.clock, context));
                is_to_ask = true;
            }
        }
        R::give_way(context);
        Poll::Pending
    }

    fn register(&mut self, shared: &Shared, context: &Context<'_>) {
        let waker = context.waker();
        if !self.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            shared.register(self.connection.id(), waker.clone());
            self.waker = Some(waker.clone());
        }
    }

    /// Reads once, and gives the hub what has come. How much that was.
    fn poll_receive(&mut self, shared: &Shared, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut space = SPACE.take();
        space.resize(READ_BUFFER_LEN, 0);
        let read = self.stream.poll_read(context, &mut space);
        if let Poll::Ready(Ok(len)) = read {
            // TLS is taken off outside of the lock.
            let opened = (len > 0).then(|| self.connection.open(&space[..len]));
            let now = shared.clock.now();
            shared.call(|hub| match opened {
                None => hub.receive_eof(now, &mut self.connection),
                Some(opened) => hub.receive_opened(now, &mut self.connection, opened),
            });
        }
        SPACE.set(space);
        read
    }

    /// Writes what is owed, until nothing is or the transport is full.
    fn flush(&mut self, shared: &Shared, context: &mut Context<'_>) -> io::Result<()> {
        self.write(shared, |stream, batch| stream.poll_write(context, batch))
    }

    /// The same before a deadline is judged. If the peer is at fault, this changes nothing; if this process was
    /// paused, what the peer has read meanwhile speaks for it (`AD-6`). A runtime may hear of the time before it hears
    /// of the socket, so the system is asked.
    fn flush_overdue(&mut self, shared: &Shared) -> io::Result<()> {
        self.write(shared, |stream, batch| match write_now(&stream.socket(), batch) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                Poll::Pending
            }
            result => Poll::Ready(result),
        })
    }

    fn write(
        &mut self,
        shared: &Shared,
        mut write: impl FnMut(&mut R::Stream, &[u8]) -> Poll<io::Result<usize>>,
    ) -> io::Result<()> {
        BATCH.with_borrow_mut(|batch| {
            loop {
                batch.clear();
                if !self.connection.poll_transmit(batch) {
                    return Ok(());
                }
                let taken = match write(&mut self.stream, batch) {
                    Poll::Ready(taken) => taken?,
                    Poll::Pending => 0,
                };
                self.connection.handle_transmitted(shared.clock.now(), taken);
                if taken == 0 {
                    return Ok(());
                }
            }
        })
    }

    fn shut_down_write(&self) -> io::Result<()> {
        match self.stream.socket().shutdown(Shutdown::Write) {
            // Reading will tell how it has ended.
            Err(error) if error.kind() == ErrorKind::NotConnected => Ok(()),
            other => other,
        }
    }

    /// Ready when a deadline of the connection is due.
    fn poll_timer(&mut self, clock: Clock, context: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = self.connection.poll_timeout() else {
            self.alarm.take_if(|alarm| alarm.is_spent(clock.now()));
            return Poll::Pending;
        };
        self.alarm.get_or_insert_with(Alarm::new).poll(context, || clock.now(), deadline)
    }
}
