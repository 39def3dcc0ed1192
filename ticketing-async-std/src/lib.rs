//! Ticketing for async-std and smol: a lock server and its client.
//!
//! Sockets and timers are those of async-io, which both runtimes are built on. Only where tasks run is chosen: with
//! the feature `async-std`, which is on by default, on async-std's executor, with `smol` on smol's. Futures may be
//! awaited anywhere.
#![forbid(unsafe_code)]

pub mod runtime;
mod spawn;

/// TLS for server and client (`TR-2`): `ServerConfig::tls` and `ClientBuilder::tls`.
#[cfg(feature = "tls")]
pub mod tls {
    pub use ticketing_host::tls::*;
    pub use ticketing_proto::tls::*;
}

use runtime::AsyncIo;
pub use ticketing_host::client::{Acquiring, ClientClosed, Releasing, Ticket};
pub use ticketing_host::clock::now;
pub use ticketing_host::server::{ReloadHandle, ServerConfig, ShutdownHandle, fresh_tokens};
pub use ticketing_proto::client::{
    AcquireError, AcquireOptions, ConfigError, DEFAULT_MAX_IN_FLIGHT, Failure, ProtocolError, ReleaseError,
    Released, Stats,
};
pub use ticketing_proto::id::Token;
pub use ticketing_proto::key::InvalidKey;
pub use ticketing_proto::limits::UnsupportedDuration;
pub use ticketing_proto::time::Instant;
pub use ticketing_proto::wire::auth::Secret;

/// A client; its connections belong to a task of the executor.
pub type Client = ticketing_host::client::Client<AsyncIo>;
/// What a [`Client`] is made with.
pub type ClientBuilder = ticketing_host::client::ClientBuilder<AsyncIo>;
/// A lock server on async-std or smol.
pub type Server = ticketing_host::server::Server<AsyncIo>;
