//! The server over real sockets, byte by byte.

mod adapter;
#[path = "../../../ticketing-host/suite/server/mod.rs"]
mod suite;
