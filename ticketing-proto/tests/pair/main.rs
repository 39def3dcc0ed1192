//! Server and clients against each other in memory, in simulated time, over links that split, merge, delay, stall,
//! cut and half-close; without TLS and inside of it.

#[path = "../support/certificates.rs"]
#[expect(dead_code, reason = "other tests need more of it")]
mod certificates;
mod chaos;
mod net;
mod scenarios;
