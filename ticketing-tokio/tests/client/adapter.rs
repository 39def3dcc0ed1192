//! This adapter's client and server, as the suite wants them.

use std::net::SocketAddr;

pub(crate) use ticketing_tokio::{Client, ClientBuilder, ShutdownHandle, Ticket};
use ticketing_tokio::{Server, ServerConfig};

/// A server on loopback, until it is shut down or the runtime ends.
pub(crate) async fn serve(config: ServerConfig) -> (SocketAddr, ShutdownHandle) {
    let server = Server::bind("127.0.0.1:0", config).await.expect("loopback is there");
    let (address, shutdown) = (server.local_addrs()[0], server.shutdown_handle());
    tokio::spawn(server.serve());
    (address, shutdown)
}
