//! Server and client inside TLS, over real sockets.

#[path = "../../../ticketing-host/suite/certificates.rs"]
mod certificates;
mod changes;
mod refusals;
mod support;
mod wrong_protocol;
