//! This adapter's servers, as the suite wants them.

use std::io;
use std::net::SocketAddr;

use async_io::block_on;
pub(crate) use ticketing_async_std::ShutdownHandle;
use ticketing_async_std::{Server, ServerConfig};

/// Where a server's own future runs. Its tasks run where the crate's features say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flavour {
    OwnThread,
}

impl Flavour {
    pub(crate) const ALL: [Self; 1] = [Self::OwnThread];
}

/// A server that listens and does not serve yet.
pub(crate) struct Prepared {
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) shutdown: ShutdownHandle,
    pub(crate) serve: Box<dyn FnOnce() -> io::Result<()> + Send>,
}

pub(crate) fn prepare(_: Flavour, addresses: &[SocketAddr], config: ServerConfig) -> io::Result<Prepared> {
    let server = block_on(Server::bind(addresses, config))?;
    Ok(Prepared {
        addresses: server.local_addrs().to_vec(),
        shutdown: server.shutdown_handle(),
        serve: Box::new(move || block_on(server.serve())),
    })
}
