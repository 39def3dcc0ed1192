//! What the protocol asks of a server, seen from outside.

#[path = "server/adapter.rs"]
mod adapter;
#[expect(dead_code, reason = "other tests need more of it")]
#[path = "../../ticketing-proto/tests/support/certificates.rs"]
mod certificates;
#[path = "../../ticketing-host/suite/server_conformance.rs"]
mod suite;
