//! The server over real sockets, byte by byte.

mod adapter;
mod embedding;
#[path = "../support/own_loop.rs"]
mod own_loop;
#[path = "../../../ticketing-host/suite/server/mod.rs"]
mod suite;
