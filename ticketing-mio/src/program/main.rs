//! The program `ticketing-mio`: a lock server for small hosts.
#![forbid(unsafe_code)]

#[cfg(unix)]
mod options;
#[cfg(unix)]
mod serve;

use std::process::ExitCode;

#[cfg(unix)]
fn main() -> ExitCode {
    use std::io::{self, Write as _};

    let command = options::parse(std::env::args_os().skip(1), |name| std::env::var_os(name));
    ExitCode::from(command.and_then(serve::carry_out).unwrap_or_else(|failure| {
        // That nobody listens is no reason to fail in another way.
        drop(io::stderr().write_all(format!("ticketing-mio: {}\n", failure.message).as_bytes()));
        failure.code
    }))
}

#[cfg(not(unix))]
fn main() -> ExitCode {
    eprintln!(
        "ticketing-mio: this program runs on Unix only; the crate's library has the server for other systems"
    );
    ExitCode::FAILURE
}
