//! One connection's task.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use ticketing_host::socket::reset_at_close;
use ticketing_proto::limits::READ_BUFFER_LEN;
use ticketing_proto::server::{CloseReason, Connection};
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep_until};

use super::shared::{Clock, Shared};

/// How often a connection is read before others have their turn.
const ROUNDS_PER_TURN: usize = 4;

thread_local! {
    /// What is about to be written. It belongs to the thread, so that a quiet connection has none.
    static BATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Serves one connection until it has ended. Wherever it is dropped, the hub hears of it.
#[derive(Debug)]
pub(super) struct Task {
    shared: Arc<Shared>,
    /// Until the end.
    peer: Option<Peer>,
}

#[derive(Debug)]
struct Peer {
    connection: Connection,
    stream: TcpStream,
    address: SocketAddr,
    /// Only while there is a deadline. It may be earlier than that: it is set anew only to move forward.
    timer: Option<Pin<Box<Sleep>>>,
    /// The waker that the hub's mail wakes.
    waker: Option<Waker>,
}

impl Task {
    pub(super) const fn new(
        shared: Arc<Shared>,
        connection: Connection,
        stream: TcpStream,
        address: SocketAddr,
    ) -> Self {
        Self { shared, peer: Some(Peer { connection, stream, address, timer: None, waker: None }) }
    }
}

impl Future for Task {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Self { shared, peer } = self.get_mut();
        let Some(this) = peer else { return Poll::Ready(()) };
        let result = if shared.is_cut() { Ok(()) } else { ready!(this.poll(shared, context)) };
        shared.log.ended(this.address, this.connection.close_reason(), result.as_ref().err());
        if let Some(Peer { connection, stream, .. }) = peer.take() {
            if connection.close_reason() == Some(CloseReason::WriteStalled) {
                // If this fails the connection is gone, too, only later.
                let _ = reset_at_close(&stream);
            }
            // The table first: whoever sees the connection closed finds its waiters gone.
            shared.end(connection);
            drop(stream);
        }
        Poll::Ready(())
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if let Some(peer) = self.peer.take() {
            self.shared.end(peer.connection);
        }
    }
}

impl Peer {
    /// A bounded turn. An error is the transport's.
    fn poll(&mut self, shared: &Shared, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.register(shared, context);
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
                ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
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
        give_way(context);
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
        // On the stack, so that a quiet connection has no buffer.
        let mut space = [MaybeUninit::uninit(); READ_BUFFER_LEN];
        let mut buffer = ReadBuf::uninit(&mut space);
        ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer))?;
        // TLS is taken off outside of the lock.
        let opened = match buffer.filled() {
            [] => None,
            data => Some(self.connection.open(data)),
        };
        let now = shared.clock.now();
        shared.call(|hub| match opened {
            None => hub.receive_eof(now, &mut self.connection),
            Some(opened) => hub.receive_opened(now, &mut self.connection, opened),
        });
        Poll::Ready(Ok(buffer.filled().len()))
    }

    /// Writes what is owed, until nothing is or the transport is full.
    fn flush(&mut self, shared: &Shared, context: &mut Context<'_>) -> io::Result<()> {
        BATCH.with_borrow_mut(|batch| {
            loop {
                batch.clear();
                if !self.connection.poll_transmit(batch) {
                    return Ok(());
                }
                let taken = match Pin::new(&mut self.stream).poll_write(context, batch) {
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

    /// Ready when a deadline of the connection is due. The clock says so, not the timer.
    fn poll_timer(&mut self, clock: Clock, context: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = self.connection.poll_timeout() else {
            self.timer.take_if(|timer| timer.is_elapsed());
            return Poll::Pending;
        };
        let at = clock.at(deadline);
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(at)));
        if at < timer.deadline() {
            timer.as_mut().reset(at);
        }
        while timer.as_mut().poll(context).is_ready() {
            if deadline <= clock.now() {
                return Poll::Ready(());
            }
            timer.as_mut().reset(at);
        }
        Poll::Pending
    }
}

/// Has the task polled again when all others have had their turn, those included that the system has something for
/// by then. A task that just woke itself would have the runtime ask the system in every 61st turn only.
fn give_way(context: &mut Context<'_>) {
    let _ = pin!(tokio::task::yield_now()).poll(context);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connections_task_has_no_room_for_buffers() {
        assert!(size_of::<Task>() <= size_of::<Connection>() + 128, "{}", size_of::<Task>());
        assert!(size_of::<Task>() <= 640, "{}", size_of::<Task>());
    }
}
