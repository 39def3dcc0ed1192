//! From an address as it is written to addresses that can be connected to.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::time::Duration;

/// What one resolved address has to connect (`CC-4`).
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Lookups of one client that may be under way at once: those that hang don't pile up.
pub const MAX_LOOKUPS: usize = 2;

/// The addresses of `host:port` by the system's resolver, where the host may be an IPv6 literal with a scope, in
/// brackets. It may block, for as long as the system likes, unless the host is an address itself.
///
/// # Errors
/// The system's, and `InvalidInput` for what is not `host:port`.
pub fn look_up(address: &str) -> io::Result<Vec<SocketAddr>> {
    let (host, port) = address.rsplit_once(':').ok_or(io::ErrorKind::InvalidInput)?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let port = port.parse().map_err(io::Error::other)?;
    Ok((host, port).to_socket_addrs()?.collect())
}

/// The order in which to try a name's addresses after so many failures in a row: each time another one comes first,
/// as the time that one connection has is too short for many dead addresses (`CC-4`).
pub fn put_in_turn(addresses: &mut [SocketAddr], failures: usize) {
    let count = addresses.len().max(1);
    addresses.rotate_left(failures % count);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn literals_are_their_own_addresses() {
        let one = |text: &str| look_up(text).expect("a literal");
        assert_eq!(one("127.0.0.1:7"), ["127.0.0.1:7".parse().expect("an address")]);
        assert_eq!(one("[::1]:7"), ["[::1]:7".parse().expect("an address")]);
        assert!(look_up("127.0.0.1").is_err());
        assert!(look_up("127.0.0.1:70000").is_err());
    }

    #[test]
    fn after_some_failures_each_address_has_had_its_turn() {
        const TRIED_IN_10_S: usize = 3;
        let all: Vec<SocketAddr> = (0..6).map(|port| ([192, 0, 2, 1], port).into()).collect();
        // Two connections to one name fail in turns, and each sees the other's failures too.
        for step in [1, 2] {
            let mut tried = BTreeSet::new();
            for failures in (0..6).step_by(step) {
                let mut addresses = all.clone();
                put_in_turn(&mut addresses, failures);
                tried.extend(addresses.into_iter().take(TRIED_IN_10_S));
            }
            assert!(tried.iter().eq(&all), "{tried:?}");
        }
        put_in_turn(&mut [], 3);
    }
}
