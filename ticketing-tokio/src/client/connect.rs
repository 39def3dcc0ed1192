//! From an address to a connected socket.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use ticketing_host::names::{CONNECT_TIMEOUT, MAX_LOOKUPS, look_up, put_in_turn};
use ticketing_host::socket;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

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

/// Connects to the first address that can be reached. After `failures` in a row it begins with others than the
/// last time.
pub(crate) async fn connect(lookup: Lookup, failures: usize) -> io::Result<TcpStream> {
    let mut addresses = lookup.await?;
    put_in_turn(&mut addresses, failures);
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
