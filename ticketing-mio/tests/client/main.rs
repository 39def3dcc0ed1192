//! The client over real sockets.

mod adapter;
mod blocking;
mod embedding;
#[path = "../support/own_loop.rs"]
mod own_loop;
#[path = "../../../ticketing-host/suite/client/mod.rs"]
mod suite;
