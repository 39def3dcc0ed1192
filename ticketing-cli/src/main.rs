//! The program `ticketing`: serves locks, and runs commands under them.

#![forbid(unsafe_code)]

#[cfg(not(target_os = "linux"))]
compile_error!(
    "`ticketing run` keeps commands inside their leases by means of Linux; the libraries build elsewhere too"
);

mod cli;
mod clock;
mod exit;
mod ping;
mod run;
mod serve;
mod tls;
mod values;

use std::env;
use std::fmt;
use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Parser as _;

use self::cli::{Cli, Command};

fn main() -> ExitCode {
    let mut arguments = env::args_os().skip(1);
    // The program in its two helping roles, which `run` starts.
    match arguments.next() {
        Some(role) if role == run::guard::GUARD => return ExitCode::from(run::guard::main(arguments)),
        Some(role) if role == run::start::START => return ExitCode::from(run::start::main(arguments)),
        _ => {}
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help goes to stdout, errors to stderr; if nobody listens, the exit code still tells.
            drop(error.print());
            return ExitCode::from(if error.use_stderr() { exit::USAGE } else { 0 });
        }
    };
    let result = match &cli.command {
        Command::Serve(args) => serve::serve(args),
        Command::Run(args) => run::run(args),
        Command::Ping(args) => ping::ping(args),
    };
    ExitCode::from(result.unwrap_or_else(|failure| {
        say(format_args!("{}", failure.message));
        failure.code
    }))
}

/// Says something on stderr. That nobody listens is no reason to fail.
pub(crate) fn say(text: fmt::Arguments<'_>) {
    drop(io::stderr().write_all(format!("ticketing: {text}\n").as_bytes()));
}
