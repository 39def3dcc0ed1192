//! Ticketing for tokio: a lock server and its client.
//!
//! With the feature `tls` both can be inside TLS: see the module `tls`.
#![forbid(unsafe_code)]

pub mod runtime;
#[cfg(feature = "tls")]
pub mod tls;

use runtime::Tokio;
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

/// A client; its connections belong to a task on the tokio runtime that it was built in.
pub type Client = ticketing_host::client::Client<Tokio>;
/// What a [`Client`] is made with.
pub type ClientBuilder = ticketing_host::client::ClientBuilder<Tokio>;
/// A lock server on tokio.
pub type Server = ticketing_host::server::Server<Tokio>;

/// The README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
