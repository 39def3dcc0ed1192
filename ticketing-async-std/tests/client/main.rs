//! The client over real sockets.

mod adapter;
#[path = "../../../ticketing-host/suite/client/mod.rs"]
mod suite;
