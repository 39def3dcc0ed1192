//! What async-io brings, and whoever runs tasks.

use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use async_io::Async;
use futures_io::{AsyncRead as _, AsyncWrite as _};
use socket2::SockRef;
use ticketing_host::runtime::{self, Runtime};

/// Sockets and timers of async-io, and the tasks of the executor that the crate's features name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AsyncIo;

impl Runtime for AsyncIo {
    type Stream = Stream;
    type Listener = Async<TcpListener>;
    type Timer = Timer;

    fn spawn(task: impl Future<Output = ()> + Send + 'static) {
        crate::spawn::spawn(task);
    }

    /// The executor puts it behind all others, and the system is asked on a thread of its own.
    fn give_way(cx: &mut Context<'_>) {
        cx.waker().wake_by_ref();
    }

    fn listen(listener: TcpListener) -> io::Result<Async<TcpListener>> {
        Async::new_nonblocking(listener)
    }

    async fn accept(listener: &Async<TcpListener>) -> io::Result<(Stream, SocketAddr)> {
        let (stream, address) = listener.accept().await?;
        Ok((Stream::new(stream), address))
    }

    async fn connect(address: SocketAddr) -> io::Result<Stream> {
        Async::<TcpStream>::connect(address).await.map(Stream::new)
    }
}

/// A connection on async-io.
#[derive(Debug)]
pub struct Stream {
    stream: Async<TcpStream>,
    /// A write is tried when the system says that there is room again, and not before: it may take a few bytes
    /// even so, and a peer that does not read would seem to.
    is_full: bool,
}

impl Stream {
    const fn new(stream: Async<TcpStream>) -> Self {
        Self { stream, is_full: false }
    }
}

impl runtime::Stream for Stream {
    fn poll_read(&mut self, cx: &mut Context<'_>, space: &mut [u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_read(cx, space)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.is_full {
            ready!(self.stream.poll_writable(cx))?;
        }
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.is_full = written.is_pending();
        written
    }

    fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.get_ref().write(bytes)
    }

    fn poll_write_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.stream.poll_writable(cx).map(drop)
    }

    fn socket(&self) -> SockRef<'_> {
        SockRef::from(&self.stream)
    }
}

/// A timer of async-io's. It is apart, so that what has none is small.
#[derive(Debug)]
pub struct Timer(Box<async_io::Timer>);

impl runtime::Timer for Timer {
    fn at(at: Instant) -> Self {
        Self(Box::new(async_io::Timer::at(at)))
    }

    fn reset(&mut self, at: Instant) {
        self.0.set_at(at);
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut *self.0).poll(cx).map(drop)
    }
}
