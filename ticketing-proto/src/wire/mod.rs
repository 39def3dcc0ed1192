//! Bytes and messages, nothing else: framing (`FR`), fields (`FI`), reasons (`ER`) and the handshake (`AU`).
//!
//! The messages ([`Request`], [`Reply`]) are apart from their encoding: they borrow from wherever they were
//! read and know no bytes. [`Decoder`] cuts frames out of a stream, `parse` makes messages of them, `encode`
//! appends messages to a buffer.
#![warn(clippy::indexing_slicing, clippy::unwrap_used, clippy::arithmetic_side_effects)]

pub mod auth;
mod frame;
mod reason;
mod reply;
mod request;

pub use frame::{DecodeError, Decoder, Direction, Frame, FromClient, FromServer};
pub use reason::Reason;
pub use reply::{MalformedReply, Reply, is_address};
pub use request::{Acquire, Release, Request, RequestError};
