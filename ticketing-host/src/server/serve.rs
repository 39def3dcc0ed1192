//! The server of an async runtime: sockets and a clock around the core's [`Hub`].

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;

use ticketing_proto::server::Hub;
use ticketing_proto::tls::ServerTls;
use ticketing_proto::wire::auth::Secret;

use super::shared::{Clock, Shared};
use super::{Reserve, ServerConfig, listen, upkeep};
use crate::runtime::{Runtime, Task};
use crate::socket;

/// A lock server, bound to its addresses.
///
/// Of tokio it takes a multi-threaded or a current-thread runtime, whose I/O and time must be enabled.
pub struct Server<R: Runtime> {
    listeners: Vec<R::Listener>,
    addresses: Vec<SocketAddr>,
    shared: Arc<Shared>,
    reserve: Option<Reserve>,
}

impl<R: Runtime> Server<R> {
    /// Listens on all of `addresses`. Connections wait there until [`serve`](Self::serve).
    ///
    /// A port of 0 takes a free one, for each address another. An IPv6 address never stands for an IPv4 one:
    /// `[::]` takes IPv6 connections only, so that `[::]` and `0.0.0.0` can be listened on at the same port
    /// together, and one alone means what it says, on each system. A name stands for all of its addresses;
    /// looking it up blocks. On Unix a port is free as soon as nobody listens on it (`SO_REUSEADDR`); nowhere do two servers share one.
    ///
    /// # Errors
    /// If there is no address, if one of them can't be listened on, if a limit is 0, or if the system has no
    /// randomness.
    pub async fn bind(addresses: impl ToSocketAddrs, config: ServerConfig) -> io::Result<Self> {
        let (config, reserve) = config.into_parts()?;
        let clock = Clock::new();
        let hub = Hub::new(clock.now(), config)
            .map_err(|zero| io::Error::new(io::ErrorKind::InvalidInput, zero))?;
        let sockets = addresses.to_socket_addrs()?.map(socket::listen).collect::<io::Result<Vec<_>>>()?;
        if sockets.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "there is no address to listen on"));
        }
        let addresses = sockets.iter().map(TcpListener::local_addr).collect::<io::Result<_>>()?;
        let listeners = sockets.into_iter().map(R::listen).collect::<io::Result<_>>()?;
        let low_water = if reserve.is_some() { ServerConfig::LOW_TOKENS } else { 0 };
        let shared = Arc::new(Shared::new(clock, hub, low_water));
        Ok(Self { listeners, addresses, shared, reserve })
    }

    /// The addresses that it listens on, in the order they were given.
    #[must_use]
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// What ends the server.
    #[must_use]
    pub fn shutdown_handle(&self) -> ShutdownHandle {
        ShutdownHandle { shared: Arc::clone(&self.shared) }
    }

    /// What changes its certificate and its token while it runs.
    #[must_use]
    pub fn reload_handle(&self) -> ReloadHandle {
        ReloadHandle { shared: Arc::clone(&self.shared) }
    }

    /// Serves until [`ShutdownHandle::shut_down`], and then until the last connection has ended, which takes 6 s
    /// at most (`TR-8`). Dropping the future ends all connections at once.
    ///
    /// # Errors
    /// If a panic inside the server has left it in an undefined state; all connections have ended then.
    pub async fn serve(self) -> io::Result<()> {
        let Self { listeners, addresses, shared, reserve } = self;
        let _end = EndAll(Arc::clone(&shared));
        let _time = Task::spawn::<R>(upkeep::keep_time::<R>(Arc::clone(&shared)));
        let _tokens = reserve
            .map(|reserve| Task::spawn::<R>(upkeep::reserve_tokens::<R>(Arc::clone(&shared), reserve)));
        let accept = |listener| Task::spawn::<R>(listen::accept::<R>(listener, Arc::clone(&shared)));
        let accepting: Vec<Task> = listeners.into_iter().map(accept).collect();
        shared.log.serving(&addresses);
        wait_until(&shared, Shared::is_shutting_down).await?;
        shared.log.shutting_down();
        // The listening sockets close here.
        drop(accepting);
        wait_until(&shared, Shared::is_drained).await
    }
}

impl<R: Runtime> fmt::Debug for Server<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

/// Waits for a change that [`Shared::news`] tells of.
pub(super) async fn wait_until(shared: &Shared, is_so: impl Fn(&Shared) -> bool) -> io::Result<()> {
    loop {
        if shared.is_broken() {
            return Err(io::Error::other("a panic inside the server has left it in an undefined state"));
        }
        if is_so(shared) {
            return Ok(());
        }
        shared.news.told().await;
    }
}

/// Ends all connections when it is dropped.
struct EndAll(Arc<Shared>);

impl Drop for EndAll {
    fn drop(&mut self) {
        self.0.cut();
    }
}

/// Ends a server, from any thread.
#[derive(Clone, Debug)]
pub struct ShutdownHandle {
    shared: Arc<Shared>,
}

impl ShutdownHandle {
    /// Begins to shut down (`TR-8`): no connection is accepted any more, the waiters leave their queues, each
    /// authenticated connection gets an `Enot_active` as its last frame and 5 s to take what it is owed, and
    /// [`Server::serve`] returns when all have ended. Called again, all end at once.
    pub fn shut_down(&self) {
        self.shared.shut_down();
    }
}

/// Changes a server's certificate, key and token while it runs, from any thread.
#[derive(Clone, Debug)]
pub struct ReloadHandle {
    shared: Arc<Shared>,
}

impl ReloadHandle {
    /// Connections that are accepted from now on are inside TLS with this certificate, or without TLS, and must know
    /// this secret. Those that exist live on, also those that are not authenticated yet. Does nothing once a panic
    /// has left the server in an undefined state.
    pub fn reload(&self, tls: Option<ServerTls>, secret: Secret) {
        self.shared.reload(tls, secret);
    }
}
