//! Ticketing for tokio: a lock server and its client.
#![forbid(unsafe_code)]

mod client;
mod clock;
mod connect;
mod driver;
mod server;
mod shared;
mod socket;
mod ticket;

pub use client::{Client, ClientBuilder, ClientClosed};
pub use clock::now;
pub use server::{Server, ServerConfig, ShutdownHandle, fresh_tokens};
pub use ticket::{Acquiring, Releasing, Ticket};
pub use ticketing_proto::client::{
    AcquireError, AcquireOptions, ConfigError, DEFAULT_MAX_IN_FLIGHT, Failure, ProtocolError, ReleaseError,
    Released, Stats,
};
pub use ticketing_proto::id::Token;
pub use ticketing_proto::key::InvalidKey;
pub use ticketing_proto::limits::UnsupportedDuration;
pub use ticketing_proto::time::Instant;
pub use ticketing_proto::wire::auth::Secret;
