//! Ticketing for tokio: a lock server and its client.
//!
//! With the feature `tls` both can be inside TLS: see the module `tls`.
#![forbid(unsafe_code)]

mod client;
mod server;
#[cfg(feature = "tls")]
pub mod tls;

pub use client::{Acquiring, Client, ClientBuilder, ClientClosed, Releasing, Ticket, now};
pub use server::{ReloadHandle, Server, ServerConfig, ShutdownHandle, fresh_tokens};
pub use ticketing_proto::client::{
    AcquireError, AcquireOptions, ConfigError, DEFAULT_MAX_IN_FLIGHT, Failure, ProtocolError, ReleaseError,
    Released, Stats,
};
pub use ticketing_proto::id::Token;
pub use ticketing_proto::key::InvalidKey;
pub use ticketing_proto::limits::UnsupportedDuration;
pub use ticketing_proto::time::Instant;
pub use ticketing_proto::wire::auth::Secret;

/// The README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
