//! The server over real sockets, byte by byte.

mod adapter;
mod dropped;
#[path = "../../../ticketing-host/suite/server/mod.rs"]
mod suite;
