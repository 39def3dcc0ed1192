//! The client: its handle, and how one is made.

mod block;
mod connect;
mod embedded;
mod lookup;
mod ticket;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::ops::{Deref, Range};
use std::sync::Arc;
use std::thread;

use mio::{Events, Poll, Registry, Token, Waker};
use ticketing_host::client::{self as host, ClientClosed};
use ticketing_proto::client::{AcquireError, AcquireOptions, BrokerConfig, ConfigError};
use ticketing_proto::tls::ClientTls;
use ticketing_proto::wire::auth::Secret;

use block::block_on;
use lookup::Resolver;

pub use embedded::EmbeddedClient;
pub use ticket::{Acquiring, Releasing, Ticket};
pub use ticketing_host::clock::now;

/// How many events one poll takes.
const EVENTS: usize = 64;

/// A client of a Ticketing service, cheap to clone: a [`host::Client`] whose calls block. All clones are one client,
/// with the same connections.
///
/// Its connections belong to a thread of its own, or to [somebody else's loop](ClientBuilder::embed); acquires,
/// releases and tickets can be used from any thread. The thread ends after [`close`](Self::close), or when the last
/// handle is gone: every client, ticket, acquire and release of it. Then what is left to release has 5 s to go out
/// (`CC-6`).
///
/// What blocks here must not be called on the thread of a loop that the client is embedded in: it would wait for
/// itself.
#[derive(Clone, Debug)]
pub struct Client(host::Client<()>);

impl Client {
    /// What a client is made with.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::new()
    }

    /// Acquires a lock, and blocks until it is granted or that is over: its wait runs from this call on (`CA-1`).
    ///
    /// # Errors
    /// [`AcquireError`], which says whether it is certain that nothing is held.
    pub fn acquire(&self, key: &str, options: AcquireOptions) -> Result<Ticket, AcquireError> {
        self.begin(key, options).wait()
    }

    /// The same, but with as many acquires in flight as are allowed (`CC-5`) it fails with `ClientCapacity` at once
    /// instead of waiting its turn.
    ///
    /// # Errors
    /// [`AcquireError`]
    pub fn try_acquire(&self, key: &str, options: AcquireOptions) -> Result<Ticket, AcquireError> {
        Acquiring(self.0.try_acquire(key, options)).wait()
    }

    /// Begins to acquire a lock, and does not block. Dropping what it gives cancels (`CA-11`).
    pub fn begin(&self, key: &str, options: AcquireOptions) -> Acquiring {
        Acquiring(self.0.acquire(key, options))
    }

    /// Blocks until some connection can carry requests. Acquires need not wait for this: they do so themselves,
    /// within their deadlines. For as long as nothing can be reached, or every connection is refused, it goes on
    /// waiting; [`last_failure`](host::Client::last_failure) and [`connect_error`](host::Client::connect_error) say
    /// what is wrong meanwhile. As success is silent (`AU-3`), the server may still refuse the token afterwards.
    ///
    /// # Errors
    /// When the client was closed.
    pub fn wait_ready(&self) -> Result<(), ClientClosed> {
        block_on(self.0.wait_ready())
    }

    /// Begins to end the client, all its clones included (`CC-6`): from this call on acquires are refused, and those
    /// under way end as `Closed` or `Indeterminate`. Releases, also of tickets that are dropped meanwhile, are sent
    /// for 5 s.
    pub fn begin_close(&self) {
        // It has begun; who drops this does not wait for it.
        drop(self.0.close());
    }

    /// [Begins to end](Self::begin_close) the client, and blocks until its sockets are closed; while tickets are
    /// held it waits for them, 5 s at most.
    pub fn close(&self) {
        block_on(self.0.close());
    }
}

impl Deref for Client {
    type Target = host::Client<()>;

    fn deref(&self) -> &host::Client<()> {
        &self.0
    }
}

/// What a [`Client`] is made with.
#[must_use = "a builder does nothing until it builds"]
pub struct ClientBuilder {
    config: BrokerConfig,
    resolver: Option<Resolver>,
}

impl ClientBuilder {
    fn new() -> Self {
        let nowhere: [&str; 0] = [];
        Self { config: BrokerConfig::new(nowhere, 0), resolver: None }
    }

    /// Adds an address, `host:port`. A single one gets two connections; several are the nodes of a cluster, with one
    /// connection each (`CC-1`). The addresses of future nodes belong here too.
    pub fn address(mut self, address: impl Into<Box<str>>) -> Self {
        self.config.addresses.push(address.into());
        self
    }

    /// Adds several addresses.
    pub fn addresses(mut self, addresses: impl IntoIterator<Item = impl Into<Box<str>>>) -> Self {
        self.config.addresses.extend(addresses.into_iter().map(Into::into));
        self
    }

    /// The token that authenticates the client; none by default (`AU-2`).
    pub fn token(mut self, token: Secret) -> Self {
        self.config.secret = token;
        self
    }

    /// Every connection is inside TLS (`TR-2`); without this none is. Values of [`ClientTls`] exist with the feature
    /// `tls` alone.
    pub fn tls(mut self, tls: ClientTls) -> Self {
        self.config.tls = Some(tls);
        self
    }

    /// How many acquires may be in flight at once, over all connections (`CC-5`): at least 1, by default
    /// [`DEFAULT_MAX_IN_FLIGHT`](crate::DEFAULT_MAX_IN_FLIGHT). Others wait their turn within their deadlines.
    pub const fn max_in_flight(mut self, max_in_flight: usize) -> Self {
        self.config.max_in_flight = max_in_flight;
        self
    }

    /// Looks names up in another way than the system's. It is given an address, `host:port`, at each try to connect,
    /// on a thread where it may block; the addresses it gives are tried in turn, 3 s each, within the 10 s that
    /// connecting has in all (`CC-4`). What comes later is not looked at; two lookups at most are under way at once.
    pub fn resolver(
        mut self,
        resolver: impl Fn(&str) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static,
    ) -> Self {
        self.resolver = Some(Arc::new(resolver));
        self
    }

    /// Makes the client, on a thread of its own, and begins to connect at once.
    ///
    /// # Errors
    /// [`ConfigError`], as `InvalidInput`; the system's, if there is no thread or no poll.
    pub fn build(self) -> io::Result<Client> {
        let mut poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), Token(0))?);
        let (client, mut driver) = self.embed(poll.registry(), 1..usize::MAX, waker)?;
        thread::Builder::new().name("ticketing-client".into()).spawn(move || {
            let mut events = Events::with_capacity(EVENTS);
            loop {
                driver.turn();
                if driver.is_over() {
                    return;
                }
                match poll.poll(&mut events, driver.next_timeout()) {
                    Err(error) if error.kind() != io::ErrorKind::Interrupted => return,
                    _ => events.iter().for_each(|event| driver.handle_event(event)),
                }
            }
        })?;
        Ok(client)
    }

    /// Makes a client whose connections belong to a loop that somebody else owns: it registers its sockets with
    /// `registry`, under tokens of the range `tokens`, which are its alone. That takes one for each address, and two
    /// for a single one. `waker` is the one of that `Poll`, of which mio allows only one; its token lies outside of
    /// the range.
    ///
    /// # Errors
    /// [`ConfigError`], as `InvalidInput`; the same if the range is too small; the system's.
    pub fn embed(
        self,
        registry: &Registry,
        tokens: Range<usize>,
        waker: Arc<Waker>,
    ) -> io::Result<(Client, EmbeddedClient)> {
        let Self { config, resolver } = self;
        let addresses = config.addresses.clone();
        let invalid = |error: ConfigError| io::Error::new(io::ErrorKind::InvalidInput, error);
        let shared = host::start(config).map_err(invalid)?;
        let driver = EmbeddedClient::new(Arc::clone(&shared), addresses, resolver, registry, tokens, waker)?;
        Ok((Client(host::Client::of(shared)), driver))
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder").field("config", &self.config).finish_non_exhaustive()
    }
}
