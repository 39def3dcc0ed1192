//! The client, judged by the conformance suite.

#[path = "../examples/tokio_shim/client.rs"]
mod client;
#[path = "../../ticketing-host/suite/client_conformance.rs"]
mod suite;

use client::{Tokio, shim};

#[test]
fn the_client_passes_every_case() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let handle = runtime.handle().clone();
    suite::passes_every_case(move |commands, answers| {
        let _inside = handle.enter();
        shim::serve::<Tokio>(commands, answers)
    });
}
