//! Listening sockets, and what comes in through them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use ticketing_host::server::fresh_nonce;
use ticketing_host::socket::{self, ACCEPT_PAUSE, ACCEPTS_PER_TURN};
use tokio::net::{TcpListener, TcpStream};

use super::peer::Task;
use super::shared::Shared;

/// A socket that listens on `address`.
pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::from_std(socket::listen(address)?)
}

/// Accepts connections for ever.
pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        for _ in 0..ACCEPTS_PER_TURN {
            match listener.accept().await {
                Ok((stream, address)) => admit(&shared, stream, address),
                // The connection is at fault, not the listener.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    shared.log.accept_failed(&error);
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        tokio::task::yield_now().await;
    }
}

/// Starts to serve a connection, or closes it.
fn admit(shared: &Arc<Shared>, stream: TcpStream, address: SocketAddr) {
    let nonce = match fresh_nonce() {
        Ok(nonce) => nonce,
        Err(error) => return shared.log.not_set_up(address, &error),
    };
    let now = shared.clock.now();
    let connection = match shared.call(|hub| hub.accept(now, nonce)) {
        Ok(connection) => connection,
        Err(refused) => return shared.log.refused(address, refused),
    };
    if let Err(error) = socket::configure_accepted(&stream) {
        shared.log.not_set_up(address, &error);
        return shared.end(connection);
    }
    tokio::spawn(Task::new(Arc::clone(shared), connection, stream, address));
}
