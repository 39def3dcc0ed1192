//! The subcommand `server`.

use std::fs;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::process::Command;

use ticketing_conformance::server::{self, Limits, Suite, TlsConnector};

use crate::common::{Result, RunOptions};

/// `server`
#[derive(clap::Args)]
pub(crate) struct Server {
    /// Where the server is
    #[arg(value_name = "HOST:PORT", required_unless_present = "list")]
    address: Option<String>,
    /// A file with the server's token; a line end at its end is not part of it
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Connect by TLS
    #[arg(long)]
    tls: bool,
    /// A file of PEM with the authorities to trust, in place of the system's
    #[arg(long, value_name = "FILE", requires = "tls")]
    ca: Option<PathBuf>,
    /// The name that the server's certificate must hold for, in place of the address's host
    #[arg(long, value_name = "NAME", requires = "tls")]
    name: Option<String>,
    /// The limits that the server was started with, of keys, waiters, per_key, in_flight, per_connection, connections
    /// and unauthenticated; without them the cases about limits are not run
    #[arg(long, value_name = "NAME=N,...")]
    limits: Option<Limits>,
    /// The server is part of a cluster, and may push `L`
    #[arg(long)]
    cluster: bool,
    /// A shell command that has the server shut down in good order, for the last case; without it that is not run
    #[arg(long, value_name = "COMMAND")]
    stop: Option<String>,
    #[command(flatten)]
    run: RunOptions,
}

impl Server {
    pub(crate) fn run(self) -> Result {
        if let Some(code) = self.run.list(server::cases())? {
            return Ok(code);
        }
        let name = self.address.clone().unwrap_or_default();
        let address = resolve(&name).map_err(|error| format!("{name}: {error}"))?;
        let suite = if self.tls {
            Suite::new(self.tls_connector(address, &name)?)
        } else {
            Suite::new(move || server::tcp(address))
        };
        let mut suite = suite
            .subject(name)
            .secret(self.secret()?)
            .limits(self.limits.unwrap_or_default())
            .select(self.run.selection())
            .known_gaps(self.run.gaps()?)
            .timeout(self.run.timeout())
            .tolerance(self.run.tolerance()?)
            .seed(self.run.seed());
        if self.cluster {
            suite = suite.cluster();
        }
        if let Some(command) = self.stop {
            suite = suite.stop(move || run_shell(&command));
        }
        self.run.finish(&suite.run())
    }

    fn secret(&self) -> Result<Vec<u8>> {
        let Some(path) = &self.token_file else { return Ok(Vec::new()) };
        let mut secret = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        if secret.pop_if(|byte| *byte == b'\n').is_some() {
            secret.pop_if(|byte| *byte == b'\r');
        }
        Ok(secret)
    }

    fn tls_connector(&self, address: SocketAddr, host: &str) -> Result<TlsConnector> {
        let ca = self
            .ca
            .as_ref()
            .map(|path| fs::read(path).map_err(|error| format!("{}: {error}", path.display())));
        let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
        let name = self.name.as_deref().unwrap_or(host.trim_matches(['[', ']']));
        TlsConnector::new(address, name, ca.transpose()?.as_deref())
            .map_err(|error| format!("TLS: {error}").into())
    }
}

/// The first of a name's addresses where somebody listens; if nobody does, the first one.
fn resolve(name: &str) -> io::Result<SocketAddr> {
    let addresses: Vec<_> = name.to_socket_addrs()?.collect();
    let first = addresses.first().ok_or_else(|| io::Error::other("no address"))?;
    let is_alone = addresses.len() == 1;
    let listening = addresses.iter().find(|address| is_alone || server::tcp(**address).is_ok());
    Ok(*listening.unwrap_or(first))
}

fn run_shell(command: &str) -> io::Result<()> {
    let status = Command::new("sh").args(["-c", command]).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("`{command}`: {status}"))) }
}
