//! Listening sockets, and what comes in through them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use super::fresh_nonce;
use super::peer::Task;
use super::shared::Shared;
use crate::runtime::{Runtime, Stream as _, sleep, yield_now};
use crate::socket::{self, ACCEPT_PAUSE, ACCEPTS_PER_TURN};

/// Accepts connections for ever.
pub(super) async fn accept<R: Runtime>(listener: R::Listener, shared: Arc<Shared>) {
    loop {
        for _ in 0..ACCEPTS_PER_TURN {
            match R::accept(&listener).await {
                Ok((stream, address)) => admit::<R>(&shared, stream, address),
                // The connection is at fault, not the listener.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    shared.log.accept_failed(&error);
                    sleep::<R>(ACCEPT_PAUSE).await;
                }
            }
        }
        yield_now::<R>().await;
    }
}

/// Starts to serve a connection, or closes it.
fn admit<R: Runtime>(shared: &Arc<Shared>, stream: R::Stream, address: SocketAddr) {
    let nonce = match fresh_nonce() {
        Ok(nonce) => nonce,
        Err(error) => return shared.log.not_set_up(address, &error),
    };
    let now = shared.clock.now();
    let connection = match shared.call(|hub| hub.accept(now, nonce)) {
        Ok(connection) => connection,
        Err(refused) => return shared.log.refused(address, refused),
    };
    if let Err(error) = socket::configure_accepted(stream.socket()) {
        shared.log.not_set_up(address, &error);
        return shared.end(connection);
    }
    R::spawn(Task::<R>::new(Arc::clone(shared), connection, stream, address));
}
