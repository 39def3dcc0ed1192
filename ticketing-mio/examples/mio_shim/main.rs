//! This client, as `ticketing-conformance client` wants it.
//!
//! ```console
//! $ cargo build -p ticketing-mio --example mio_shim
//! $ ticketing-conformance client -- target/debug/examples/mio_shim
//! ```

mod client;

use std::io;
use std::process::ExitCode;

use client::Mio;
use client::shim;

fn main() -> ExitCode {
    let served = shim::serve::<Mio>(io::stdin().lock(), io::stdout());
    served.map_or_else(ExitCode::from, |()| ExitCode::SUCCESS)
}
