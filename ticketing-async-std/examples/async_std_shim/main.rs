//! This client, as `ticketing-conformance client` wants it.
//!
//! ```console
//! $ cargo build -p ticketing-async-std --example async_std_shim
//! $ ticketing-conformance client -- target/debug/examples/async_std_shim
//! ```

mod client;

use std::io;
use std::process::ExitCode;

use client::AsyncStd;
use client::shim;

fn main() -> ExitCode {
    let served = shim::serve::<AsyncStd>(io::stdin().lock(), io::stdout());
    served.map_or_else(ExitCode::from, |()| ExitCode::SUCCESS)
}
