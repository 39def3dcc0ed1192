//! What tokio brings.

use std::future::Future as _;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use socket2::SockRef;
use ticketing_host::runtime::{self, Runtime};
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Sleep;

/// The tokio runtime that one is in, with its I/O and time enabled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tokio;

impl Runtime for Tokio {
    type Stream = Stream;
    type Listener = TcpListener;
    type Timer = Timer;

    fn spawn(task: impl Future<Output = ()> + Send + 'static) {
        tokio::spawn(task);
    }

    /// A task that just woke itself would have the runtime ask the system in every 61st turn only.
    fn give_way(cx: &mut Context<'_>) {
        let _ = pin!(tokio::task::yield_now()).poll(cx);
    }

    fn listen(listener: std::net::TcpListener) -> io::Result<TcpListener> {
        TcpListener::from_std(listener)
    }

    async fn accept(listener: &TcpListener) -> io::Result<(Stream, SocketAddr)> {
        let (stream, address) = listener.accept().await?;
        Ok((Stream(stream), address))
    }

    async fn connect(address: SocketAddr) -> io::Result<Stream> {
        TcpStream::connect(address).await.map(Stream)
    }
}

/// A connection on tokio.
#[derive(Debug)]
pub struct Stream(TcpStream);

impl runtime::Stream for Stream {
    fn poll_read(&mut self, cx: &mut Context<'_>, space: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(space);
        ready!(Pin::new(&mut self.0).poll_read(cx, &mut buffer))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn poll_write_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.poll_write_ready(cx).map(drop)
    }

    fn socket(&self) -> SockRef<'_> {
        SockRef::from(&self.0)
    }
}

/// A timer of tokio's.
#[derive(Debug)]
pub struct Timer(Pin<Box<Sleep>>);

impl runtime::Timer for Timer {
    fn at(at: Instant) -> Self {
        Self(Box::pin(tokio::time::sleep_until(at.into())))
    }

    fn reset(&mut self, at: Instant) {
        self.0.as_mut().reset(at.into());
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(cx)
    }
}
