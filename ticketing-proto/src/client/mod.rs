//! The client's side: every request under way and all connections ([`Broker`]).
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
