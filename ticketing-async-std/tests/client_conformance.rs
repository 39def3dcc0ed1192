//! The client, judged by the conformance suite.

#[path = "../examples/async_std_shim/client.rs"]
mod client;
#[path = "../../ticketing-host/suite/client_conformance.rs"]
mod suite;

use client::{AsyncStd, shim};

#[test]
fn the_client_passes_every_case() {
    suite::passes_every_case(shim::serve::<AsyncStd>);
}
