//! Ticketing on mio: a lock server and its client, without an async runtime.
//!
//! Calls of a [`Client`] block, a [`Server`] serves on the thread that runs it. Both can also be put into a loop that
//! somebody else owns, on one thread with whatever else it serves: [`EmbeddedServer`], [`EmbeddedClient`].
//! With the feature `tls` both can be inside TLS: see the module `tls`.
//!
//! ```no_run
//! use std::time::Duration;
//! use ticketing_mio::{AcquireOptions, Client};
//!
//! let client = Client::builder().address("127.0.0.1:5225").build()?;
//! let options = AcquireOptions::new(Duration::from_secs(5)).wait(Duration::from_secs(20)).lease(Duration::from_secs(30));
//! let ticket = client.acquire("nightly-report", options)?;
//! // The work; what it writes to should refuse tokens lower than ticket.token().
//! ticket.release()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod client;
mod poll;
mod server;
#[cfg(feature = "tls")]
pub mod tls;

pub use client::{Acquiring, Client, ClientBuilder, EmbeddedClient, Releasing, Ticket, now};
pub use server::{EmbeddedServer, ReloadHandle, Server, ServerConfig, ShutdownHandle, fresh_tokens};
pub use ticketing_host::client::ClientClosed;
pub use ticketing_proto::client::{
    AcquireError, AcquireOptions, ConfigError, DEFAULT_MAX_IN_FLIGHT, Failure, ProtocolError, ReleaseError,
    Released, Stats,
};
pub use ticketing_proto::id::Token;
pub use ticketing_proto::key::InvalidKey;
pub use ticketing_proto::limits::UnsupportedDuration;
pub use ticketing_proto::time::Instant;
pub use ticketing_proto::wire::auth::Secret;
