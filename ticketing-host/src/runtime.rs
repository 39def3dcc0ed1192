//! What an async runtime brings, and what is built on that alone: the client's and the server's tasks know no more.

mod alarm;
mod blocking;
#[cfg(all(test, loom))]
pub(crate) mod models;
mod signal;
mod task;

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use socket2::SockRef;

pub(crate) use alarm::Alarm;
pub(crate) use blocking::Threads;
pub(crate) use signal::Signal;
pub(crate) use task::Task;

/// An async runtime: sockets and timers that wake whoever polls them, and tasks.
pub trait Runtime: fmt::Debug + Copy + Send + Sync + 'static {
    /// A connection.
    type Stream: Stream;
    /// A listening socket.
    type Listener: fmt::Debug + Send + Sync;
    /// What wakes at a time.
    type Timer: Timer;

    /// Runs a task that nobody waits for. A panic in it is its own.
    fn spawn(task: impl Future<Output = ()> + Send + 'static);

    /// Has the task polled again when all others have had their turn, those included that the system has something
    /// for by then.
    fn give_way(cx: &mut Context<'_>);

    /// Takes a listening socket that does not block.
    ///
    /// # Errors
    /// The system's.
    fn listen(listener: TcpListener) -> io::Result<Self::Listener>;

    /// The next connection of a listening socket.
    ///
    /// # Errors
    /// The system's.
    fn accept(
        listener: &Self::Listener,
    ) -> impl Future<Output = io::Result<(Self::Stream, SocketAddr)>> + Send;

    /// Makes a connection.
    ///
    /// # Errors
    /// The system's.
    fn connect(address: SocketAddr) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

/// A TCP connection that does not block.
pub trait Stream: fmt::Debug + Send + Unpin + 'static {
    /// Reads once: how many bytes, 0 at the end of the stream.
    fn poll_read(&mut self, cx: &mut Context<'_>, space: &mut [u8]) -> Poll<io::Result<usize>>;

    /// Writes once: how many bytes.
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;

    /// The same, with `WouldBlock` when it is full.
    ///
    /// # Errors
    /// The system's.
    fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Ready when it may take bytes again, or has failed.
    fn poll_write_ready(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// The system's socket.
    fn socket(&self) -> SockRef<'_>;
}

/// What wakes at a time.
pub trait Timer: fmt::Debug + Send + Unpin + 'static {
    /// One for this time.
    fn at(at: Instant) -> Self;

    /// From now on it is for this time.
    fn reset(&mut self, at: Instant);

    /// Ready, once, when the time has come.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()>;
}

/// Gives way once.
pub(crate) async fn yield_now<R: Runtime>() {
    let mut has_yielded = false;
    poll_fn(|cx| {
        if has_yielded {
            return Poll::Ready(());
        }
        has_yielded = true;
        R::give_way(cx);
        Poll::Pending
    })
    .await;
}

pub(crate) async fn sleep<R: Runtime>(duration: Duration) {
    let mut timer = R::Timer::at(Instant::now() + duration);
    poll_fn(|cx| timer.poll(cx)).await;
}

/// What comes within this time.
pub(crate) async fn within<R: Runtime, T>(duration: Duration, what: impl Future<Output = T>) -> Option<T> {
    let mut what = std::pin::pin!(what);
    let mut timer = R::Timer::at(Instant::now() + duration);
    poll_fn(|cx| match what.as_mut().poll(cx) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => timer.poll(cx).map(|()| None),
    })
    .await
}
