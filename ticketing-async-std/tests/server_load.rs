//! What loud and deaf connections do to the others.

#[path = "server/adapter.rs"]
mod adapter;
#[path = "../../ticketing-host/suite/server_load.rs"]
mod suite;
