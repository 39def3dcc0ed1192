//! Ticketing's protocol core: bytes and injected time in, bytes and events out.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod client;
pub mod id;
pub mod key;
pub mod limits;
pub mod lock;
pub mod server;
pub mod time;
pub mod wire;
