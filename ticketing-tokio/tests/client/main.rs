//! The client over real sockets.

mod adapter;
mod runtimes;
#[path = "../../../ticketing-host/suite/client/mod.rs"]
mod suite;
