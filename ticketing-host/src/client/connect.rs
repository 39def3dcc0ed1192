//! From an address to a connected socket.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use crate::names::{CONNECT_TIMEOUT, MAX_LOOKUPS, look_up, put_in_turn};
use crate::runtime::{Runtime, Stream as _, Threads, within};
use crate::socket;

/// The addresses of a name, under way.
pub(super) type Lookup = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;
/// Looks the addresses of a `host:port` up.
pub(super) type Resolver = Arc<dyn Fn(&str) -> Lookup + Send + Sync>;

/// The system's resolver. A lookup can't be stopped, so each has a thread that nobody has to wait for; lookups that
/// hang don't pile up.
pub(super) fn system_resolver() -> Resolver {
    let threads = Threads::new("ticketing-lookup", MAX_LOOKUPS);
    Arc::new(move |address| {
        let (address, threads) = (Box::<str>::from(address), threads.clone());
        Box::pin(async move {
            if let Ok(address) = address.parse() {
                return Ok(vec![address]);
            }
            threads.run(move || look_up(&address)).await?
        })
    })
}

/// Connects to the first address that can be reached. After `failures` in a row it begins with others than the
/// last time.
pub(super) async fn connect<R: Runtime>(lookup: Lookup, failures: usize) -> io::Result<R::Stream> {
    let mut addresses = lookup.await?;
    put_in_turn(&mut addresses, failures);
    let mut error = io::Error::new(io::ErrorKind::NotFound, "the name has no addresses");
    for address in addresses {
        match within::<R, _>(CONNECT_TIMEOUT, connect_to::<R>(address)).await {
            Some(Ok(stream)) => return Ok(stream),
            Some(Err(refusal)) => error = refusal,
            None => error = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(error)
}

async fn connect_to<R: Runtime>(address: SocketAddr) -> io::Result<R::Stream> {
    let stream = R::connect(address).await?;
    let socket = stream.socket();
    // Where nobody listens on a local port out of the range for outgoing connections, the system may connect a
    // socket to itself.
    if socket.local_addr()? == socket.peer_addr()? {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    socket::configure(socket)?;
    Ok(stream)
}
