//! The server: sockets and a clock around the core's [`Server`](ticketing_proto::server::Server).

mod embedded;
mod peers;
mod refill;

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use mio::net::TcpListener;
use mio::{Events, Poll, Registry, Token, Waker};
use ticketing_host::server::Reserve;
use ticketing_host::socket;
use ticketing_proto::server::Server as Core;
use ticketing_proto::tls::ServerTls;
use ticketing_proto::wire::auth::Secret;

pub use embedded::EmbeddedServer;
pub use ticketing_host::server::{ServerConfig, fresh_tokens};

/// How many events one poll takes.
const EVENTS: usize = 1024;

/// A lock server, bound to its addresses.
///
/// It works on one thread: that which calls [`run`](Self::run), or the one whose loop it is [put
/// into](Self::embed).
pub struct Server {
    listeners: Vec<TcpListener>,
    addresses: Vec<SocketAddr>,
    clock: Clock,
    core: Core,
    connections: u32,
    reserve: Option<Reserve>,
    calls: Arc<Calls>,
}

impl Server {
    /// Listens on all of `addresses`. Connections wait there until [`run`](Self::run).
    ///
    /// A port of 0 takes a free one, for each address another. An IPv6 address never stands for an IPv4 one:
    /// `[::]` takes IPv6 connections only, so that `[::]` and `0.0.0.0` can be listened on at the same port
    /// together, and one alone means what it says, on each system. A name stands for all of its addresses. On Unix
    /// a port is free as soon as nobody listens on it (`SO_REUSEADDR`); nowhere do two servers share one.
    ///
    /// # Errors
    /// If there is no address, if one of them can't be listened on, if a limit is 0, or if the system has no
    /// randomness.
    pub fn bind(addresses: impl ToSocketAddrs, config: ServerConfig) -> io::Result<Self> {
        let invalid = |what: &dyn fmt::Display| io::Error::new(io::ErrorKind::InvalidInput, what.to_string());
        let (config, reserve) = config.into_parts()?;
        let connections = config.limits.connections;
        let clock = Clock(Instant::now());
        let core = Core::new(clock.now(), config).map_err(|zero| invalid(&zero))?;
        let listen = |address| socket::listen(address).map(TcpListener::from_std);
        let listeners = addresses.to_socket_addrs()?.map(listen).collect::<io::Result<Vec<_>>>()?;
        if listeners.is_empty() {
            return Err(invalid(&"there is no address to listen on"));
        }
        let addresses = listeners.iter().map(TcpListener::local_addr).collect::<io::Result<_>>()?;
        Ok(Self { listeners, addresses, clock, core, connections, reserve, calls: Arc::default() })
    }

    /// The addresses that it listens on, in the order they were given.
    #[must_use]
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// What ends the server.
    #[must_use]
    pub fn shutdown_handle(&self) -> ShutdownHandle {
        ShutdownHandle { calls: Arc::clone(&self.calls) }
    }

    /// What changes its certificate and its token while it runs.
    #[must_use]
    pub fn reload_handle(&self) -> ReloadHandle {
        ReloadHandle { calls: Arc::clone(&self.calls) }
    }

    /// Serves until [`ShutdownHandle::shut_down`], and then until the last connection has ended, which takes 6 s
    /// at most (`TR-8`).
    ///
    /// # Errors
    /// The system's, if it can't poll.
    pub fn run(self) -> io::Result<()> {
        let mut poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), Token(0))?);
        let mut server = self.embed(poll.registry(), 1..usize::MAX, waker)?;
        let mut events = Events::with_capacity(EVENTS);
        loop {
            server.turn();
            if server.is_over() {
                return Ok(());
            }
            // After a pause of this process there is news behind the interruption, to be heard before deadlines are.
            while let Err(error) = poll.poll(&mut events, server.next_timeout()) {
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
            events.iter().for_each(|event| server.handle_event(event));
        }
    }

    /// Puts the server into a loop that somebody else owns: it registers its sockets with `registry`, under tokens
    /// of the range `tokens`, which are its alone. That takes one for each address and one for each connection
    /// that the limits allow. `waker` is the one of that `Poll`, of which mio allows only one; its token lies
    /// outside of the range.
    ///
    /// # Errors
    /// If the range is too small; the system's.
    pub fn embed(
        self,
        registry: &Registry,
        tokens: Range<usize>,
        waker: Arc<Waker>,
    ) -> io::Result<EmbeddedServer> {
        let needed = self.listeners.len().saturating_add(self.connections as usize);
        if tokens.len() < needed {
            let message = format!("{needed} mio tokens are needed, and the range has {}", tokens.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        EmbeddedServer::new(self, registry, tokens, waker)
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

/// Ends a server, from any thread.
#[derive(Clone, Debug)]
pub struct ShutdownHandle {
    calls: Arc<Calls>,
}

impl ShutdownHandle {
    /// Begins to shut down (`TR-8`): no connection is accepted any more, the waiters leave their queues, each
    /// authenticated connection gets an `Enot_active` as its last frame and 5 s to take what it is owed, and
    /// [`Server::run`] returns when all have ended. Called again, all end at once.
    pub fn shut_down(&self) {
        self.calls.stops.fetch_add(1, Ordering::Release);
        self.calls.wake();
    }
}

/// Changes a server's certificate, key and token while it runs, from any thread.
#[derive(Clone, Debug)]
pub struct ReloadHandle {
    calls: Arc<Calls>,
}

impl ReloadHandle {
    /// Connections that are accepted from now on are inside TLS with this certificate, or without TLS, and must know
    /// this secret. Those that exist live on, also those that are not authenticated yet.
    pub fn reload(&self, tls: Option<ServerTls>, secret: Secret) {
        *self.calls.lock() = Some((tls, secret));
        self.calls.wake();
    }
}

/// What was asked of a server from other threads.
#[derive(Default, Debug)]
struct Calls {
    /// How often the end was.
    stops: AtomicUsize,
    /// What it proves itself with and asks of its clients from now on.
    credentials: Mutex<Option<(Option<ServerTls>, Secret)>>,
    /// The loop's.
    waker: OnceLock<Arc<Waker>>,
}

impl Calls {
    fn lock(&self) -> MutexGuard<'_, Option<(Option<ServerTls>, Secret)>> {
        self.credentials.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.get() {
            // Where the loop can't be woken, its poll has failed, or it is gone.
            let _ = waker.wake();
        }
    }
}

/// The clock that the core is told: monotonic (`OP-11`).
#[derive(Clone, Copy, Debug)]
struct Clock(Instant);

impl Clock {
    fn now(self) -> ticketing_proto::time::Instant {
        ticketing_proto::time::Instant::from_origin(self.0.elapsed())
    }
}
