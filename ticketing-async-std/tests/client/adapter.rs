//! This adapter's client and server, as the suite wants them.

use std::net::SocketAddr;
use std::thread;

use async_io::block_on;
pub(crate) use ticketing_async_std::{Client, ClientBuilder, ShutdownHandle, Ticket};
use ticketing_async_std::{Server, ServerConfig};

/// A server on loopback, until it is shut down.
pub(crate) async fn serve(config: ServerConfig) -> (SocketAddr, ShutdownHandle) {
    let server = Server::bind("127.0.0.1:0", config).await.expect("loopback is there");
    let (address, shutdown) = (server.local_addrs()[0], server.shutdown_handle());
    thread::spawn(move || block_on(server.serve()));
    (address, shutdown)
}
