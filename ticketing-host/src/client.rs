//! What the handles of a client and its driver share, and what an application holds: no runtime is known here.
//!
//! A *driver* owns the sockets and carries bytes, events and the time between them and the broker, which is behind
//! the lock of [`Shared`]. The one that is here is for any async [`Runtime`](crate::runtime::Runtime); an adapter
//! without one brings its own.

mod addresses;
mod connect;
mod driver;
mod handle;
#[cfg(all(test, loom))]
mod models;
mod outgoing;
mod shared;
mod ticket;
mod watch;

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use ticketing_proto::client::{Broker, BrokerConfig, ConfigError};

pub use addresses::Addresses;
pub use handle::{Client, ClientBuilder};
pub use outgoing::{Connections, Outgoing, READS_PER_TURN, WRITES_PER_TURN};
pub use shared::Shared;
pub use ticket::{Acquiring, Releasing, Ticket};
pub use watch::ClientClosed;

use crate::clock;

/// Makes what a client's handles and its driver share. The jitter seed is filled in: it differs from client to
/// client, also on one host (`CC-3`).
///
/// # Errors
/// [`ConfigError`]
pub fn start(config: BrokerConfig) -> Result<Arc<Shared>, ConfigError> {
    let config = BrokerConfig { jitter_seed: RandomState::new().hash_one(()), ..config };
    Ok(Arc::new(Shared::new(Broker::new(clock::now(), config)?)))
}
