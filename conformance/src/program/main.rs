//! `ticketing-conformance`: judges any implementation of the Ticketing protocol.

mod args;
mod client;
mod common;
mod server;

use std::process::ExitCode;

use args::{Args, Command};
use clap::Parser as _;

fn main() -> ExitCode {
    let Args { command } = Args::parse();
    let result = match command {
        Command::Server(server) => server.run(),
        Command::Client(client) => client.run(),
        Command::Table(table) => table.run(),
    };
    result.unwrap_or_else(|error| {
        eprintln!("ticketing-conformance: {error}");
        common::USAGE.into()
    })
}
