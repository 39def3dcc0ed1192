//! From resolved addresses to a connected socket.

use std::io;
use std::net::SocketAddr;
use std::vec::IntoIter;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use ticketing_host::clock;
use ticketing_host::names::CONNECT_TIMEOUT;
use ticketing_host::socket;
use ticketing_proto::time::Instant;

/// Connects to the first address that can be reached.
#[derive(Debug)]
pub(super) struct Connecting {
    token: Token,
    attempt: Option<(TcpStream, Instant)>,
    rest: IntoIter<SocketAddr>,
    /// Why the latest attempt failed.
    error: io::Error,
}

impl Connecting {
    pub(super) fn new(addresses: Vec<SocketAddr>, token: Token) -> Self {
        let error = io::Error::new(io::ErrorKind::NotFound, "the name has no addresses");
        Self { token, attempt: None, rest: addresses.into_iter(), error }
    }

    /// Until when the attempt at hand has time (`CC-4`).
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.attempt.as_ref().map(|&(_, deadline)| deadline)
    }

    /// Sees how the attempt at hand goes, and makes the next one if need be. `None`: not known yet.
    pub(super) fn poll(&mut self, registry: &Registry) -> Option<io::Result<TcpStream>> {
        loop {
            if let Some((stream, deadline)) = self.attempt.take() {
                match outcome(&stream) {
                    Ok(true) => return Some(Ok(stream)),
                    Ok(false) if clock::now() < deadline => {
                        self.attempt = Some((stream, deadline));
                        return None;
                    }
                    Ok(false) => self.error = io::ErrorKind::TimedOut.into(),
                    Err(error) => self.error = error,
                }
            }
            let Some(address) = self.rest.next() else {
                return Some(Err(std::mem::replace(&mut self.error, io::ErrorKind::NotConnected.into())));
            };
            match begin(address, registry, self.token) {
                Ok(stream) => self.attempt = Some((stream, clock::now() + CONNECT_TIMEOUT)),
                Err(error) => self.error = error,
            }
        }
    }
}

fn begin(address: SocketAddr, registry: &Registry, token: Token) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
    Ok(stream)
}

/// Whether it is connected, or still on its way.
fn outcome(stream: &TcpStream) -> io::Result<bool> {
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    match stream.peer_addr() {
        // Where nobody listens on a local port out of the range for outgoing connections, the system may connect a
        // socket to itself.
        Ok(peer) if peer == stream.local_addr()? => Err(io::ErrorKind::ConnectionRefused.into()),
        Ok(_) => {
            socket::configure(stream)?;
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
        Err(error) => Err(error),
    }
}
