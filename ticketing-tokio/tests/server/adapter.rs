//! This adapter's servers, as the suite wants them.

use std::io;
use std::net::SocketAddr;

pub(crate) use ticketing_tokio::ShutdownHandle;
use ticketing_tokio::{Server, ServerConfig};
use tokio::runtime::Builder;

/// The runtime that a server runs on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flavour {
    CurrentThread,
    MultiThread,
}

impl Flavour {
    pub(crate) const ALL: [Self; 2] = [Self::CurrentThread, Self::MultiThread];
}

/// A server that listens and does not serve yet.
pub(crate) struct Prepared {
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) shutdown: ShutdownHandle,
    pub(crate) serve: Box<dyn FnOnce() -> io::Result<()> + Send>,
}

pub(crate) fn prepare(
    flavour: Flavour,
    addresses: &[SocketAddr],
    config: ServerConfig,
) -> io::Result<Prepared> {
    let mut builder = match flavour {
        Flavour::CurrentThread => Builder::new_current_thread(),
        Flavour::MultiThread => Builder::new_multi_thread(),
    };
    let runtime = builder.worker_threads(2).enable_all().build()?;
    let server = runtime.block_on(Server::bind(addresses, config))?;
    Ok(Prepared {
        addresses: server.local_addrs().to_vec(),
        shutdown: server.shutdown_handle(),
        serve: Box::new(move || runtime.block_on(server.serve())),
    })
}
