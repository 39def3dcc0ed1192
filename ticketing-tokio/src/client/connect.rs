//! From an address to a connected socket.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

use crate::socket;

/// What one resolved address has to connect (`CC-4`).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How many of them fit into the time that one connection has (`CC-4`).
const ADDRESSES_PER_TRY: usize = 3;
/// Lookups of one client that may be under way at once.
const MAX_LOOKUPS: usize = 2;

/// The addresses of a name, under way.
pub(crate) type Lookup = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;
/// Looks the addresses of a `host:port` up.
pub(crate) type Resolver = Arc<dyn Fn(&str) -> Lookup + Send + Sync>;

/// The system's resolver. A lookup can't be stopped, so each has a thread of its own, that nobody has to wait for;
/// lookups that hang don't pile up.
pub(crate) fn system_resolver() -> Resolver {
    let places = Arc::new(Semaphore::new(MAX_LOOKUPS));
    Arc::new(move |address| {
        let (address, places) = (Box::<str>::from(address), Arc::clone(&places));
        Box::pin(async move {
            if let Ok(address) = address.parse() {
                return Ok(vec![address]);
            }
            let place = places.acquire_owned().await.map_err(io::Error::other)?;
            let (tell, told) = oneshot::channel();
            std::thread::Builder::new().name("ticketing-lookup".into()).spawn(move || {
                // If nobody waits for it any more, nobody has to know.
                let _ = tell.send(look_up(&address));
                drop(place);
            })?;
            told.await.map_err(io::Error::other)?
        })
    })
}

/// The addresses of `host:port`, where the host may be an IPv6 literal with a scope, in brackets.
fn look_up(address: &str) -> io::Result<Vec<SocketAddr>> {
    let (host, port) = address.rsplit_once(':').ok_or(io::ErrorKind::InvalidInput)?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let port = port.parse().map_err(io::Error::other)?;
    Ok((host, port).to_socket_addrs()?.collect())
}

/// Connects to the first address that can be reached. After `failures` in a row it begins with others than the
/// last time: the time that one connection has is too short for many dead addresses.
pub(crate) async fn connect(lookup: Lookup, failures: usize) -> io::Result<TcpStream> {
    let mut addresses = lookup.await?;
    let count = addresses.len().max(1);
    let start = (failures % count) * ADDRESSES_PER_TRY % count;
    addresses.rotate_left(start);
    let mut error = io::Error::new(io::ErrorKind::NotFound, "the name has no addresses");
    for address in addresses {
        match timeout(CONNECT_TIMEOUT, connect_to(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(refusal)) => error = refusal,
            Err(_) => error = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(error)
}

async fn connect_to(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    // Where nobody listens on a local port out of the range for outgoing connections, the system may connect a
    // socket to itself.
    if stream.local_addr()? == stream.peer_addr()? {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    socket::configure(&stream)?;
    Ok(stream)
}
