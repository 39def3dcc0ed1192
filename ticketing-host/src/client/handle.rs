//! The client of an async runtime: its handle, and how one is made.

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::sync::Arc;

use ticketing_proto::client::{
    AcquireOptions, Broker, BrokerConfig, ConfigError, DEFAULT_MAX_IN_FLIGHT, Failure, Stats,
};
use ticketing_proto::tls::ClientTls;
use ticketing_proto::wire::auth::Secret;

use super::connect::{Resolver, system_resolver};
use super::driver::Driver;
use super::shared::{Handle, Shared};
use super::ticket::Acquiring;
use super::watch::{ClientClosed, ended, ready};
use crate::runtime::Runtime;

/// A client of a Ticketing service: cheap to clone, and all clones are one client, with the same connections.
///
/// Its connections belong to a task on the runtime that it was built in; acquires, releases and tickets can be used
/// from anywhere. The task ends after [`close`](Self::close), or when the last handle is gone: every client, ticket
/// and future of it. Then what is left to release has 5 s to go out (`CC-6`). When the runtime ends first, acquires
/// under way end as `Closed` or `Indeterminate`, and releases as `Unconfirmed`.
pub struct Client<R> {
    handle: Arc<Handle>,
    runtime: PhantomData<fn() -> R>,
}

impl<R: Runtime> Client<R> {
    /// What a client is made with.
    pub fn builder() -> ClientBuilder<R> {
        ClientBuilder::new()
    }
}

impl<R> Client<R> {
    /// For adapters with a driver of their own, which `shared` has.
    #[must_use]
    pub fn of(shared: Arc<Shared>) -> Self {
        Self { handle: Arc::new(Handle::new(shared)), runtime: PhantomData }
    }

    /// Asks for a lock. The acquire is under way, and its wait runs (`CA-1`), from this call on; dropping the future
    /// cancels it (`CA-11`), and a grant that comes all the same is released at once.
    ///
    /// # Errors
    /// [`AcquireError`](ticketing_proto::client::AcquireError), which says whether it is certain that nothing is held.
    pub fn acquire(&self, key: &str, options: AcquireOptions) -> Acquiring {
        Acquiring::begin(&self.handle, key, options, true)
    }

    /// The same, but with as many acquires in flight as are allowed (`CC-5`) it fails with `ClientCapacity` at once
    /// instead of waiting its turn.
    ///
    /// # Errors
    /// [`AcquireError`](ticketing_proto::client::AcquireError)
    pub fn try_acquire(&self, key: &str, options: AcquireOptions) -> Acquiring {
        Acquiring::begin(&self.handle, key, options, false)
    }

    /// Waits until some connection can carry requests. Acquires need not wait for this: they do so themselves, within
    /// their deadlines. For as long as nothing can be reached, or every connection is refused, it goes on waiting;
    /// [`last_failure`](Self::last_failure) and [`connect_error`](Self::connect_error) say what is wrong meanwhile.
    /// As success is silent (`AU-3`), the server may still refuse the token afterwards.
    ///
    /// # Errors
    /// When the client was closed, or its runtime is gone.
    pub async fn wait_ready(&self) -> Result<(), ClientClosed> {
        ready(Arc::clone(&self.handle)).await
    }

    /// Whether some connection can carry requests.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.handle.is_ready()
    }

    /// Why the connections are not usable: the latest failure among those that ended without a later success.
    #[must_use]
    pub fn last_failure(&self) -> Option<Failure> {
        self.handle.look(Broker::last_failure)
    }

    /// What the system said when a connection could not be made, with its address; `None` once one could.
    #[must_use]
    pub fn connect_error(&self) -> Option<Arc<str>> {
        self.handle.connect_error()
    }

    /// What the client went through.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.handle.look(Broker::stats)
    }

    /// Ends the client, all its clones included (`CC-6`): from this call on acquires are refused, and those under
    /// way end as `Closed` or `Indeterminate`. Releases, also of tickets that are dropped meanwhile, are sent for
    /// 5 s; while tickets are held it waits for them that long. When the future is ready the sockets are closed;
    /// dropping it stops nothing.
    pub fn close(&self) -> impl Future<Output = ()> + Send + use<R> {
        self.handle.close();
        ended(Arc::clone(&self.handle))
    }
}

impl<R> fmt::Debug for Client<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("is_ready", &self.is_ready()).finish_non_exhaustive()
    }
}

impl<R> Clone for Client<R> {
    fn clone(&self) -> Self {
        Self { handle: Arc::clone(&self.handle), runtime: PhantomData }
    }
}

/// What a [`Client`] is made with.
#[must_use = "a builder does nothing until it builds"]
pub struct ClientBuilder<R> {
    addresses: Vec<Box<str>>,
    secret: Secret,
    tls: Option<ClientTls>,
    max_in_flight: usize,
    resolver: Option<Resolver>,
    runtime: PhantomData<fn() -> R>,
}

impl<R: Runtime> ClientBuilder<R> {
    fn new() -> Self {
        Self {
            addresses: Vec::new(),
            secret: Secret::default(),
            tls: None,
            max_in_flight: DEFAULT_MAX_IN_FLIGHT,
            resolver: None,
            runtime: PhantomData,
        }
    }

    /// Adds an address, `host:port`. A single one gets two connections; several are the nodes of a cluster, with one
    /// connection each (`CC-1`). The addresses of future nodes belong here too.
    pub fn address(mut self, address: impl Into<Box<str>>) -> Self {
        self.addresses.push(address.into());
        self
    }

    /// Adds several addresses.
    pub fn addresses(mut self, addresses: impl IntoIterator<Item = impl Into<Box<str>>>) -> Self {
        self.addresses.extend(addresses.into_iter().map(Into::into));
        self
    }

    /// The token that authenticates the client; none by default (`AU-2`).
    pub fn token(mut self, token: Secret) -> Self {
        self.secret = token;
        self
    }

    /// Every connection is inside TLS (`TR-2`); without this none is. Values of [`ClientTls`] exist with the feature
    /// `tls` alone.
    pub fn tls(mut self, tls: ClientTls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// How many acquires may be in flight at once, over all connections (`CC-5`): at least 1, by default
    /// [`DEFAULT_MAX_IN_FLIGHT`]. Others wait their turn within their deadlines.
    pub const fn max_in_flight(mut self, max_in_flight: usize) -> Self {
        self.max_in_flight = max_in_flight;
        self
    }

    /// Looks names up in another way than the system's. It is given an address, `host:port`, at each try to connect;
    /// the addresses it gives are tried in turn, 3 s each, within the 10 s that connecting has in all (`CC-4`). A
    /// lookup that takes longer is dropped.
    pub fn resolver<L>(mut self, resolver: impl Fn(&str) -> L + Send + Sync + 'static) -> Self
    where
        L: Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'static,
    {
        self.resolver = Some(Arc::new(move |address| Box::pin(resolver(address))));
        self
    }

    /// Makes the client, which begins to connect at once.
    ///
    /// # Errors
    /// [`ConfigError`]
    ///
    /// # Panics
    /// Where the runtime needs to be entered and is not: outside of a tokio runtime, or in one without its I/O or
    /// time enabled.
    pub fn build(self) -> Result<Client<R>, ConfigError> {
        let config = BrokerConfig {
            secret: self.secret,
            tls: self.tls,
            max_in_flight: self.max_in_flight,
            ..BrokerConfig::new(self.addresses.iter().cloned(), 0)
        };
        let shared = super::start(config)?;
        let resolver = self.resolver.unwrap_or_else(system_resolver);
        R::spawn(Driver::<R>::new(Arc::clone(&shared), self.addresses, resolver).run());
        Ok(Client::of(shared))
    }
}

impl<R> fmt::Debug for ClientBuilder<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("addresses", &self.addresses)
            .field("token", &self.secret)
            .field("tls", &self.tls)
            .field("max_in_flight", &self.max_in_flight)
            .finish_non_exhaustive()
    }
}
