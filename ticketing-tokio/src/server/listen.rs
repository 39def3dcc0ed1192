//! Listening sockets, and what comes in through them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use ticketing_proto::wire::auth::NONCE_LEN;
use tokio::net::{TcpListener, TcpStream};

use super::peer::Task;
use super::shared::Shared;
use crate::socket;

/// How many connections may wait for their accept, as far as the system allows: a burst is not to be told to
/// come again a second later.
const BACKLOG: i32 = 4096;
/// How many connections are accepted before others have their turn.
const ACCEPTS_PER_TURN: usize = 64;
/// Before accept is tried again when the system has no descriptors or no memory left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A socket that listens on `address`.
pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listen = || {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        // A port with nothing but old connections is free. On Windows the same option would let two servers share it.
        #[cfg(unix)]
        socket.set_reuse_address(true)?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        TcpListener::from_std(socket.into())
    };
    listen().map_err(|error| io::Error::new(error.kind(), format!("cannot listen on {address}: {error}")))
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
    let mut nonce = [0; NONCE_LEN];
    if let Err(error) = getrandom::fill(&mut nonce) {
        return shared.log.not_set_up(address, &error.into());
    }
    let now = shared.clock.now();
    let connection = match shared.call(|hub| hub.accept(now, nonce)) {
        Ok(connection) => connection,
        Err(refused) => return shared.log.refused(address, refused),
    };
    if let Err(error) = socket::configure(&stream) {
        shared.log.not_set_up(address, &error);
        return shared.end(connection);
    }
    tokio::spawn(Task::new(Arc::clone(shared), connection, stream, address));
}
