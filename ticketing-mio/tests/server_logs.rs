//! What is logged.

#[path = "server/adapter.rs"]
mod adapter;
#[path = "../../ticketing-host/suite/server_logs.rs"]
mod suite;
