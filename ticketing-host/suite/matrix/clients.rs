//! The clients, behind one face.

use std::net::SocketAddr;
use std::sync::Arc;

use ticketing_async_std::runtime::AsyncIo;
use ticketing_host::client as host;
use ticketing_host::runtime::Runtime;
use ticketing_tokio::runtime::Tokio;
use ticketing_tokio::tls::ClientTls;
use ticketing_tokio::{AcquireError, AcquireOptions, Failure, ReleaseError, Released, Secret};

use super::RUNTIME;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ClientKind {
    Tokio,
    Mio,
    AsyncStd,
}

impl ClientKind {
    pub(crate) const ALL: [Self; 3] = [Self::Tokio, Self::Mio, Self::AsyncStd];

    pub(crate) fn connect(
        self,
        address: SocketAddr,
        secret: &str,
        tls: Option<ClientTls>,
    ) -> Arc<dyn Client> {
        let address = address.to_string();
        let secret = Secret::new(secret.as_bytes());
        match self {
            Self::Tokio => asynchronous::<Tokio>(address, secret, tls),
            Self::AsyncStd => asynchronous::<AsyncIo>(address, secret, tls),
            Self::Mio => {
                let builder = ticketing_mio::Client::builder().address(address).token(secret);
                let builder = match tls {
                    Some(tls) => builder.tls(tls),
                    None => builder,
                };
                Arc::new(builder.build().expect("a good configuration"))
            }
        }
    }
}

fn asynchronous<R: Runtime>(address: String, secret: Secret, tls: Option<ClientTls>) -> Arc<dyn Client> {
    let _entered = RUNTIME.enter();
    let builder = host::Client::<R>::builder().address(address).token(secret);
    let builder = match tls {
        Some(tls) => builder.tls(tls),
        None => builder,
    };
    Arc::new(builder.build().expect("a good configuration"))
}

/// What tests want of a client. All of it blocks.
pub(crate) trait Client: Send + Sync {
    fn acquire(&self, key: &str, options: AcquireOptions) -> Result<Box<dyn Ticket>, AcquireError>;
    fn last_failure(&self) -> Option<Failure>;
    /// How many connections failed after they could carry requests.
    fn failed_sessions(&self) -> u64;
    fn close(&self);
}

/// What tests want of a ticket.
pub(crate) trait Ticket: Send {
    fn token(&self) -> u64;
    fn release(self: Box<Self>) -> Result<Released, ReleaseError>;
}

impl<R: Runtime> Client for host::Client<R> {
    fn acquire(&self, key: &str, options: AcquireOptions) -> Result<Box<dyn Ticket>, AcquireError> {
        Ok(Box::new(RUNTIME.block_on(self.acquire(key, options))?))
    }

    fn last_failure(&self) -> Option<Failure> {
        self.last_failure()
    }

    fn failed_sessions(&self) -> u64 {
        self.stats().failed_sessions
    }

    fn close(&self) {
        RUNTIME.block_on(self.close());
    }
}

impl Ticket for host::Ticket {
    fn token(&self) -> u64 {
        Self::token(self).value()
    }

    fn release(self: Box<Self>) -> Result<Released, ReleaseError> {
        RUNTIME.block_on((*self).release())
    }
}

impl Client for ticketing_mio::Client {
    fn acquire(&self, key: &str, options: AcquireOptions) -> Result<Box<dyn Ticket>, AcquireError> {
        Ok(Box::new(self.acquire(key, options)?))
    }

    fn last_failure(&self) -> Option<Failure> {
        (**self).last_failure()
    }

    fn failed_sessions(&self) -> u64 {
        (**self).stats().failed_sessions
    }

    fn close(&self) {
        self.close();
    }
}

impl Ticket for ticketing_mio::Ticket {
    fn token(&self) -> u64 {
        host::Ticket::token(self).value()
    }

    fn release(self: Box<Self>) -> Result<Released, ReleaseError> {
        (*self).release()
    }
}
