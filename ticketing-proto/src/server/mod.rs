//! The server's side: one peer ([`Connection`]), and what all peers of a node share ([`Hub`]).

mod close;
mod connection;
mod delivery;
mod hub;
mod mail;
mod outbox;

pub use close::{CloseReason, Farewell, TimeoutReason};
pub use connection::Connection;
pub use delivery::Replies;
pub use hub::{Hub, Refused, ServerConfig};
