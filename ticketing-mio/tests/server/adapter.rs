//! This adapter's servers, as the suite wants them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use mio::{Events, Poll, Token, Waker};
pub(crate) use ticketing_mio::ShutdownHandle;
use ticketing_mio::{Server, ServerConfig};

/// Whose loop a server is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flavour {
    OwnLoop,
    Embedded,
}

impl Flavour {
    pub(crate) const ALL: [Self; 2] = [Self::OwnLoop, Self::Embedded];
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
    let server = Server::bind(addresses, config)?;
    Ok(Prepared {
        addresses: server.local_addrs().to_vec(),
        shutdown: server.shutdown_handle(),
        serve: match flavour {
            Flavour::OwnLoop => Box::new(|| server.run()),
            Flavour::Embedded => Box::new(|| serve_embedded(server)),
        },
    })
}

/// Few events at a time, and more turns than are needed.
fn serve_embedded(server: Server) -> io::Result<()> {
    let mut poll = Poll::new()?;
    let waker = Arc::new(Waker::new(poll.registry(), Token(3))?);
    let mut server = server.embed(poll.registry(), 10..20_000, waker)?;
    let mut events = Events::with_capacity(8);
    while !server.is_over() {
        poll.poll(&mut events, server.next_timeout())?;
        events.iter().for_each(|event| server.handle_event(event));
        server.turn();
        server.turn();
    }
    Ok(())
}
