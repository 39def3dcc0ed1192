//! The command line.

use clap::{Parser, Subcommand};

use crate::client::Client;
use crate::common::Table;
use crate::server::Server;

/// Judges any implementation of the Ticketing protocol, clause by clause.
///
/// Exit codes: 0 if every requirement of level MUST that was looked at holds; 1 if one does not, or a known gap is
/// stale; 2 for a wrong command line; 3 if nothing could be judged.
#[derive(Parser)]
#[command(version)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Judges the server at an address
    Server(Box<Server>),
    /// Judges a client, by a command that starts it with its shim
    Client(Box<Client>),
    /// Shows which cases look at which clause of SPEC.md
    Table(Table),
}
