//! The client, judged by the conformance suite.

#[path = "../examples/mio_shim/client.rs"]
mod client;
#[path = "../../ticketing-host/suite/client_conformance.rs"]
mod suite;

use client::{Mio, shim};

#[test]
fn the_client_passes_every_case() {
    suite::passes_every_case(shim::serve::<Mio>);
}
