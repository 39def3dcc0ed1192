//! How the suite reaches a server: any pair of `Read` and `Write`.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use socket2::{Domain, SockRef, Socket, Type};

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// In bytes.
const RECEIVE_BUFFER: usize = 64 * 1024;
/// How often a reader looks whether its link is over.
const GLANCE: Duration = Duration::from_millis(100);

/// Makes connections to the server that is judged. A closure that gives a [`TcpStream`] or a [`Link`] is one.
pub trait Connector: Send + Sync {
    /// A fresh connection; TLS, if there is any, may still shake hands in its first reads and writes.
    ///
    /// # Errors
    /// If the server cannot be reached.
    fn connect(&self) -> io::Result<Link>;

    /// A connection beneath TLS, for what a TLS server does with a peer that speaks none. `None` where there is no TLS.
    fn connect_beneath(&self) -> Option<io::Result<Link>> {
        None
    }
}

impl<F, L> Connector for F
where
    F: Fn() -> io::Result<L> + Send + Sync,
    L: Into<Link>,
{
    fn connect(&self) -> io::Result<Link> {
        self().map(Into::into)
    }
}

type Hook<T> = Box<dyn Fn(T) -> io::Result<()> + Send>;

/// A connection: something to read, something to write, and, if it has them, ways to end it.
pub struct Link {
    pub(super) reader: Box<dyn Read + Send>,
    pub(super) writer: Box<dyn Write + Send>,
    pub(super) ends: Ends,
}

/// The ways to end a connection. It is closed when they are dropped.
#[derive(Default)]
pub(super) struct Ends {
    pub(super) shutdown: Option<Hook<Shutdown>>,
    pub(super) cut: Option<Hook<()>>,
    pub(super) reset: Option<Hook<()>>,
}

impl Drop for Ends {
    fn drop(&mut self) {
        if let Some(shutdown) = &self.shutdown {
            // It may be closed already.
            _ = shutdown(Shutdown::Both);
        }
    }
}

impl Link {
    /// Two halves of one connection. Each is used from a thread of its own, and may block. A read of 0 bytes is the end
    /// of the stream, as is `UnexpectedEof`.
    pub fn new(reader: impl Read + Send + 'static, writer: impl Write + Send + 'static) -> Self {
        Self { reader: Box::new(reader), writer: Box::new(writer), ends: Ends::default() }
    }

    /// With a way to end writing (so that the peer reads an end of stream) or both directions (so that a blocked
    /// read ends). Without it the cases with a half-close are not run.
    #[must_use]
    pub fn with_shutdown(mut self, shutdown: impl Fn(Shutdown) -> io::Result<()> + Send + 'static) -> Self {
        self.ends.shutdown = Some(Box::new(shutdown));
        self
    }

    /// With a way to end the transport beneath TLS for writing, without `close_notify` (`TR-12`).
    #[must_use]
    pub fn with_cut(mut self, cut: impl Fn() -> io::Result<()> + Send + 'static) -> Self {
        self.ends.cut = Some(Box::new(move |()| cut()));
        self
    }

    /// With a way to reset the connection. Without it the cases with a reset are not run.
    #[must_use]
    pub fn with_reset(mut self, reset: impl Fn() -> io::Result<()> + Send + 'static) -> Self {
        self.ends.reset = Some(Box::new(move |()| reset()));
        self
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}

impl From<TcpStream> for Link {
    fn from(stream: TcpStream) -> Self {
        let end = TcpEnd::new(stream);
        let [shutdown, reset] = [end.clone(), end.clone()];
        Self::new(end.clone(), end)
            .with_shutdown(move |how| shutdown.shutdown(how))
            .with_reset(move || reset.reset())
    }
}

/// A TCP connection to this address, with `TCP_NODELAY` (`TR-1`), and with a small buffer, so that what is not read is
/// soon not sent either.
///
/// # Errors
/// If it cannot be made within 5 s.
pub fn tcp(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
    socket.connect_timeout(&address.into(), CONNECT_TIMEOUT)?;
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// A TCP stream that several threads share, and that all of them let go when it is over: only then a reset goes out.
#[derive(Clone)]
pub(super) struct TcpEnd {
    stream: Arc<TcpStream>,
    is_over: Arc<AtomicBool>,
}

impl TcpEnd {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream: Arc::new(stream), is_over: Arc::default() }
    }

    pub(super) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        if how == Shutdown::Both {
            self.is_over.store(true, Ordering::Relaxed);
        }
        self.stream.shutdown(how)
    }

    /// Once the last clone is dropped, the kernel sends a reset in place of an end of stream.
    pub(super) fn reset(&self) -> io::Result<()> {
        SockRef::from(&*self.stream).set_linger(Some(Duration::ZERO))?;
        self.is_over.store(true, Ordering::Relaxed);
        Ok(())
    }
}

impl Read for TcpEnd {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(GLANCE))?;
        loop {
            let is_over = self.is_over.load(Ordering::Relaxed);
            match (&*self.stream).read(buffer) {
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
                        && !is_over => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }
}

impl Write for TcpEnd {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self.stream).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
