//! The client over real sockets.

mod adapter;
mod blocking;
mod embedding;
#[path = "../../../ticketing-host/suite/client/mod.rs"]
mod suite;
