//! The client's side: every request under way, and all connections, in one machine ([`Broker`]).
//!
//! # The loop
//!
//! 1. Give one input: bytes ([`handle_data`](Broker::handle_data)), an end of stream, a connection made or lost,
//!    a call of the application, or the time ([`handle_timeout`](Broker::handle_timeout)). Where bytes and a
//!    deadline are due together, give the bytes first.
//! 2. Take all events ([`poll_event`](Broker::poll_event)) and act on them.
//! 3. For each connection: take bytes ([`poll_transmit`](Broker::poll_transmit)), write them, and say how many the
//!    transport took ([`handle_transmitted`](Broker::handle_transmitted)), 0 included. Again while it took all.
//! 4. Sleep until there is input or [`poll_timeout`](Broker::poll_timeout) has come.
//!
//! Time is an [`Instant`](crate::time::Instant) of a clock that goes on while the host sleeps (`CD-5`). A time that
//! goes back is taken for the latest one seen. No method panics on what a server sends.
//!
//! # Why there is no smaller piece
//!
//! One connection alone can't keep the client's promises: a late grant on a connection that is being closed is
//! released over another one, an unsent request moves, owners are distinct over all of them. So what handles one
//! connection is private to the broker.
mod acquire;
mod broker;
mod config;
mod error;
mod link;
mod release;
mod session;
mod timers;

pub use acquire::{AcquireId, Grant};
pub use broker::{Broker, Event, Stats};
pub use config::{AcquireOptions, BrokerConfig, ConfigError, DEFAULT_MAX_IN_FLIGHT, MAX_RESPONSE_GRACE};
pub use error::{AcquireError, Failure, ProtocolError, ReleaseError, Released};
pub use release::{MAX_COMPENSATIONS, ReleaseId};
