//! `ticketing-conformance`: judges any implementation of the Ticketing protocol.

mod args;

use std::process::ExitCode;

use args::{Args, Command};
use clap::Parser as _;

fn main() -> ExitCode {
    let Args { command } = Args::parse();
    match command {
        Command::Server(server) => server.run(),
    }
}
