//! This client, as `ticketing-conformance client` wants it.
//!
//! ```console
//! $ cargo build -p ticketing-tokio --example tokio_shim
//! $ ticketing-conformance client -- target/debug/examples/tokio_shim
//! ```

mod client;

use std::io;
use std::process::ExitCode;

use client::Tokio;
use client::shim;

#[tokio::main]
async fn main() -> ExitCode {
    tokio::task::block_in_place(|| {
        let served = shim::serve::<Tokio>(io::stdin().lock(), io::stdout());
        served.map_or_else(ExitCode::from, |()| ExitCode::SUCCESS)
    })
}
