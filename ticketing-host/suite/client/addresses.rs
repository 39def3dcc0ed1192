//! Names, and addresses that can't be reached.

use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};
use ticketing_proto::client::{AcquireError, AcquireOptions, Failure};

use super::automatic::Automatic;
use super::scripted::{Scripted, assert_took, soon};
use crate::adapter::Client;

const OPTIONS: AcquireOptions = AcquireOptions::new(Duration::from_secs(1)).wait(Duration::from_secs(20));

fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// C13: `::1` refuses.
#[tokio::test]
async fn a_refused_address_is_followed_by_the_next_one() {
    let server = Automatic::start().await;
    let addresses = [SocketAddr::from((Ipv6Addr::LOCALHOST, server.port())), local(server.port())];
    let client = Client::builder()
        .address("name:5225")
        .resolver(move |name| {
            assert_eq!(name, "name:5225");
            async move { Ok(addresses.to_vec()) }
        })
        .build()
        .expect("a good configuration");
    drop(soon(client.acquire("k", OPTIONS)).await.expect("it is granted"));
}

/// C13: an address that takes no notice has 3 s.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_black_hole_leaves_time_for_the_next_address() {
    let server = Automatic::start().await;
    let (black_hole, _full) = black_hole();
    let addresses = [black_hole, local(server.port())];
    let client = Client::builder()
        .address("name:5225")
        .resolver(move |_| async move { Ok(addresses.to_vec()) })
        .build()
        .expect("a good configuration");
    let began = Instant::now();
    drop(soon(client.acquire("k", OPTIONS)).await.expect("it is granted"));
    assert_took(began, Duration::from_millis(2900));
}

/// An address that answers no SYN: its queue is full, and nobody accepts. For as long as the sockets are kept.
#[cfg(target_os = "linux")]
fn black_hole() -> (SocketAddr, Vec<Socket>) {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    listener.bind(&local(0).into()).expect("loopback is there");
    listener.listen(0).expect("it is bound");
    let address = listener.local_addr().expect("it is bound");
    let mut sockets = vec![listener];
    for _ in 0..3 {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.set_nonblocking(true).expect("a socket");
        // In progress; one or two of them get through.
        let _ = socket.connect(&address);
        sockets.push(socket);
    }
    (address.as_socket().expect("it is IPv4"), sockets)
}

/// C13: the lookup counts against the deadline.
#[tokio::test]
async fn a_hanging_lookup_does_not_outlive_the_deadline() {
    let client = Client::builder()
        .address("name:5225")
        .resolver(|_| std::future::pending::<io::Result<Vec<SocketAddr>>>())
        .build()
        .expect("a good configuration");
    let began = Instant::now();
    let outcome = soon(client.acquire("k", OPTIONS.wait(Duration::from_secs(1)))).await;
    assert_eq!(outcome.expect_err("nobody serves"), AcquireError::Timeout);
    assert_took(began, Duration::from_secs(1));
}

/// CC-4
#[tokio::test]
async fn names_are_resolved_anew_at_each_connect() {
    let (old, new) = (Scripted::bind().await, Automatic::start().await);
    let lookups = Arc::new(AtomicUsize::new(0));
    let (old_port, new_port) = (old.port(), new.port());
    let client = Client::builder()
        .address("name:5225")
        .resolver({
            let lookups = Arc::clone(&lookups);
            move |_| {
                let is_early = lookups.fetch_add(1, Ordering::Relaxed) < 2;
                async move { Ok(vec![local(if is_early { old_port } else { new_port })]) }
            }
        })
        .build()
        .expect("a good configuration");
    let peers = (old.accept_greeted().await, old.accept_greeted().await);
    let _late = old;
    drop(peers);
    // An acquire that goes out before the client has noticed would be lost with its connection.
    soon(async {
        while client.is_ready() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    drop(soon(client.acquire("k", OPTIONS)).await.expect("the service has moved"));
    assert!(lookups.load(Ordering::Relaxed) > 2);
}

#[tokio::test]
async fn a_name_without_addresses_is_a_failure() {
    let client = Client::builder()
        .address("name:5225")
        .resolver(|_| async { Ok(Vec::new()) })
        .build()
        .expect("a good configuration");
    while client.last_failure().is_none() {
        tokio::task::yield_now().await;
    }
    assert_eq!(client.last_failure(), Some(Failure::Lost));
    assert_eq!(client.connect_error().as_deref(), Some("name:5225: the name has no addresses"));
}

/// The system's resolver: a name, and IPv6 literals in their brackets.
#[tokio::test]
async fn the_systems_names_are_known() {
    let server = Automatic::start().await;
    let client = Client::builder().address(format!("localhost:{}", server.port())).build();
    let client = client.expect("a good configuration");
    drop(soon(client.acquire("k", OPTIONS)).await.expect("it is granted"));
}
