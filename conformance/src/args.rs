//! The command line.

use std::io::{self, Write as _};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use ticketing_conformance::report::{self, Report};
use ticketing_conformance::server::{self, Suite};

/// Judges any implementation of the Ticketing protocol, clause by clause.
#[derive(Parser)]
#[command(version)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Judges the server at an address.
    Server(Server),
}

#[derive(clap::Args)]
pub(crate) struct Server {
    /// Where the server is, HOST:PORT.
    #[arg(value_name = "HOST:PORT")]
    address: String,
}

impl Server {
    pub(crate) fn run(self) -> ExitCode {
        let address = match resolve(&self.address) {
            Ok(address) => address,
            Err(error) => {
                eprintln!("{}: {error}", self.address);
                return ExitCode::from(3);
            }
        };
        finish(&Suite::new(move || server::tcp(address)).subject(self.address).run())
    }
}

fn resolve(address: &str) -> io::Result<SocketAddr> {
    address.to_socket_addrs()?.next().ok_or_else(|| io::Error::other("no address"))
}

fn finish(report: &Report) -> ExitCode {
    // Who closed the pipe does not want to know.
    _ = io::stdout().write_all(report::text(report).as_bytes());
    match report {
        Report { setup_error: Some(_), .. } => ExitCode::from(3),
        _ if report.is_success() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
