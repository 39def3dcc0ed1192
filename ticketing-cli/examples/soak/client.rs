//! The clients, behind one face.

use std::io;
use std::net::SocketAddr;
use std::ops::Deref;

use ticketing_host::client as host;
use ticketing_tokio::tls::ClientTls;
use ticketing_tokio::{AcquireError, AcquireOptions, ReleaseError, Released, Stats};

#[derive(Clone)]
pub(crate) enum Client {
    Tokio(ticketing_tokio::Client),
    AsyncStd(ticketing_async_std::Client),
    Mio(ticketing_mio::Client),
}

pub(crate) enum Ticket {
    Host(host::Ticket),
    Mio(ticketing_mio::Ticket),
}

/// How many kinds there are.
pub(crate) const KINDS: usize = 3;

impl Client {
    /// One of the kinds, in turn.
    pub(crate) fn new(number: usize, address: SocketAddr, tls: Option<&ClientTls>) -> io::Result<Self> {
        let address = address.to_string();
        // Each builder is a type of its own.
        macro_rules! builder {
            ($client:ty) => {{
                let builder = <$client>::builder().address(address);
                match tls {
                    Some(tls) => builder.tls(tls.clone()),
                    None => builder,
                }
            }};
        }
        Ok(match number % KINDS {
            0 => Self::Tokio(builder!(ticketing_tokio::Client).build().map_err(io::Error::other)?),
            1 => Self::AsyncStd(builder!(ticketing_async_std::Client).build().map_err(io::Error::other)?),
            _ => Self::Mio(builder!(ticketing_mio::Client).build()?),
        })
    }

    /// Cancelled by dropping the future.
    pub(crate) async fn acquire(&self, key: &str, options: AcquireOptions) -> Result<Ticket, AcquireError> {
        match self {
            Self::Tokio(client) => client.acquire(key, options).await.map(Ticket::Host),
            Self::AsyncStd(client) => client.acquire(key, options).await.map(Ticket::Host),
            Self::Mio(client) => client.begin(key, options).await.map(Ticket::Mio),
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        match self {
            Self::Tokio(client) => client.stats(),
            Self::AsyncStd(client) => client.stats(),
            Self::Mio(client) => client.stats(),
        }
    }

    /// Ready when its sockets are closed.
    pub(crate) async fn close(self) {
        match self {
            Self::Tokio(client) => client.close().await,
            Self::AsyncStd(client) => client.close().await,
            Self::Mio(client) => {
                let closing = tokio::task::spawn_blocking(move || client.close());
                closing.await.expect("closing does not panic");
            }
        }
    }
}

impl Ticket {
    pub(crate) async fn release(self) -> Result<Released, ReleaseError> {
        match self {
            Self::Host(ticket) => ticket.release().await,
            Self::Mio(ticket) => ticket.begin_release().await,
        }
    }
}

impl Deref for Ticket {
    type Target = host::Ticket;

    fn deref(&self) -> &host::Ticket {
        match self {
            Self::Host(ticket) => ticket,
            Self::Mio(ticket) => ticket,
        }
    }
}
