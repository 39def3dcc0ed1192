//! What both ends ask of their sockets.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use ticketing_proto::limits::MAX_OWED;

const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 3;
#[cfg(any(target_os = "linux", target_os = "android"))]
const UNACKNOWLEDGED: Duration = Duration::from_secs(90);

/// How many connections may wait for their accept, as far as the system allows: a burst is not to be told to
/// come again a second later.
const BACKLOG: i32 = 4096;
/// How many connections are accepted in a row before others have their turn.
pub const ACCEPTS_PER_TURN: usize = 64;
/// Before accept is tried again when the system has no descriptors or no memory left.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// `TR-1`, `TR-11`: small frames go out at once, and dead peers are found.
///
/// # Errors
/// The system's.
pub fn configure<'a>(stream: impl Into<SockRef<'a>>) -> io::Result<()> {
    let socket = stream.into();
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_keepalive(
        &TcpKeepalive::new()
            .with_time(KEEPALIVE_IDLE)
            .with_interval(KEEPALIVE_INTERVAL)
            .with_retries(KEEPALIVE_PROBES),
    )?;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED))?;
    Ok(())
}

/// What a server asks of a connection that it has accepted: all of [`configure`], and that what the peer does not
/// read stays with the server, which counts it (`AD-5`, `AD-6`). The system would take megabytes of it, little by
/// little.
///
/// # Errors
/// The system's.
pub fn configure_accepted<'a>(stream: impl Into<SockRef<'a>>) -> io::Result<()> {
    let socket = stream.into();
    #[cfg(any(target_os = "linux", target_os = "android"))]
    socket.set_tcp_notsent_lowat(MAX_OWED as u32)?;
    configure(socket)
}

/// Has the close of a connection reset it: what the system has kept for a peer that does not read
/// (`AD-6`) would stay there for as long as it waits for a dead one.
///
/// # Errors
/// The system's.
pub fn reset_at_close<'a>(stream: impl Into<SockRef<'a>>) -> io::Result<()> {
    stream.into().set_linger(Some(Duration::ZERO))
}

/// Writes to a socket that does not block, whatever a runtime knows of it. No signal comes of a peer that is gone.
pub(crate) fn write_now(socket: &SockRef<'_>, bytes: &[u8]) -> io::Result<usize> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let written = rustix::net::send(&**socket, bytes, rustix::net::SendFlags::NOSIGNAL)?;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let written = socket.send(bytes)?;
    Ok(written)
}

/// A socket that listens on `address` and does not block.
///
/// An IPv6 address takes IPv6 connections only. On Unix a port with nothing but old connections is free
/// (`SO_REUSEADDR`); nowhere do two servers share one.
///
/// # Errors
/// The system's, with the address.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listen = || {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        // On Windows the same option would let two servers share the port.
        #[cfg(unix)]
        socket.set_reuse_address(true)?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(socket.into())
    };
    listen().map_err(|error: io::Error| {
        io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"))
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::{Ipv4Addr, TcpStream};

    use super::*;

    /// TR-1, TR-11
    #[test]
    fn both_ends_find_dead_peers_and_send_small_frames_at_once() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback is there");
        let ours = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
        let (accepted, _) = listener.accept().expect("it is connected");
        configure(&ours).expect("it is connected");
        configure_accepted(&accepted).expect("it is connected");
        for stream in [ours, accepted] {
            let socket = SockRef::from(&stream);
            assert!(socket.tcp_nodelay().expect("a socket"));
            assert!(socket.keepalive().expect("a socket"));
            assert_eq!(socket.tcp_keepalive_time().expect("a socket"), Duration::from_secs(60));
            assert_eq!(socket.tcp_keepalive_interval().expect("a socket"), Duration::from_secs(10));
            assert_eq!(socket.tcp_keepalive_retries().expect("a socket"), 3);
            assert_eq!(socket.tcp_user_timeout().expect("a socket"), Some(Duration::from_secs(90)));
        }
    }
}
