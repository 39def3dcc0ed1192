//! This adapter's client and server, as the suite wants them: its calls give futures.

use std::io;
use std::net::SocketAddr;
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;

use ticketing_host::client::ClientClosed;
pub(crate) use ticketing_mio::ShutdownHandle;
use ticketing_mio::{AcquireError, AcquireOptions, Releasing, Secret, Server, ServerConfig};
use tokio::task::spawn_blocking;

#[derive(Clone, Debug)]
pub(crate) struct Client(ticketing_mio::Client);

impl Client {
    pub(crate) fn builder() -> ClientBuilder {
        ClientBuilder(ticketing_mio::Client::builder())
    }

    pub(crate) fn acquire(&self, key: &str, options: AcquireOptions) -> Acquiring {
        Acquiring(self.0.begin(key, options))
    }

    /// It does not wait, so it need not be begun.
    pub(crate) async fn try_acquire(
        &self,
        key: &str,
        options: AcquireOptions,
    ) -> Result<Ticket, AcquireError> {
        self.0.try_acquire(key, options).map(Ticket)
    }

    pub(crate) fn wait_ready(&self) -> impl Future<Output = Result<(), ClientClosed>> + use<> {
        let client = self.0.clone();
        let waiting = spawn_blocking(move || client.wait_ready());
        async { waiting.await.expect("no panic") }
    }

    pub(crate) fn close(&self) -> impl Future<Output = ()> + Send + use<> {
        self.0.begin_close();
        let client = self.0.clone();
        let closing = spawn_blocking(move || client.close());
        async { closing.await.expect("no panic") }
    }
}

impl Deref for Client {
    type Target = ticketing_mio::Client;

    fn deref(&self) -> &ticketing_mio::Client {
        &self.0
    }
}

#[derive(Debug)]
pub(crate) struct ClientBuilder(ticketing_mio::ClientBuilder);

impl ClientBuilder {
    pub(crate) fn address(self, address: impl Into<Box<str>>) -> Self {
        Self(self.0.address(address))
    }

    pub(crate) fn token(self, token: Secret) -> Self {
        Self(self.0.token(token))
    }

    pub(crate) fn max_in_flight(self, max_in_flight: usize) -> Self {
        Self(self.0.max_in_flight(max_in_flight))
    }

    /// On a runtime of its own.
    pub(crate) fn resolver<L>(self, resolver: impl Fn(&str) -> L + Send + Sync + 'static) -> Self
    where
        L: Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'static,
    {
        Self(self.0.resolver(move |name| {
            let runtime = tokio::runtime::Builder::new_current_thread().build()?;
            runtime.block_on(resolver(name))
        }))
    }

    pub(crate) fn build(self) -> io::Result<Client> {
        self.0.build().map(Client)
    }
}

#[derive(Debug)]
pub(crate) struct Acquiring(ticketing_mio::Acquiring);

impl Future for Acquiring {
    type Output = Result<Ticket, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map_ok(Ticket)
    }
}

#[derive(Debug)]
pub(crate) struct Ticket(ticketing_mio::Ticket);

impl Ticket {
    pub(crate) fn release(self) -> Releasing {
        self.0.begin_release()
    }
}

impl Deref for Ticket {
    type Target = ticketing_mio::Ticket;

    fn deref(&self) -> &ticketing_mio::Ticket {
        &self.0
    }
}

/// A server on loopback, until it is shut down.
pub(crate) async fn serve(config: ServerConfig) -> (SocketAddr, ShutdownHandle) {
    let server = Server::bind("127.0.0.1:0", config).expect("loopback is there");
    let (address, shutdown) = (server.local_addrs()[0], server.shutdown_handle());
    thread::spawn(move || server.run());
    (address, shutdown)
}
