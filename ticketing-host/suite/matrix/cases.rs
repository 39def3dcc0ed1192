//! What is true of each client with each server.

use std::io::{Read as _, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ticketing_tokio::{AcquireError, ReleaseError, Released};

use super::clients::{Client, ClientKind, Ticket};
use super::raw::Raw;
use super::{OPTIONS, Pair, SECOND, secured_servers, with_each};

/// Asks again for as long as the request went out to a server that is no more: nobody can say what became of it.
fn acquire_anew(client: &dyn Client) -> Box<dyn Ticket> {
    loop {
        match client.acquire("k", OPTIONS) {
            Err(AcquireError::Indeterminate) => {}
            other => return other.expect("the next server is found, and knows of no hold"),
        }
    }
}

#[test]
fn a_lock_is_acquired_and_released_and_its_tokens_rise() {
    with_each(Pair::all(), |pair| {
        let (_server, client) = pair.start();
        let mut last = 0;
        for _ in 0..3 {
            let ticket = client.acquire("k", OPTIONS).expect("it is free");
            assert!(ticket.token() > last);
            last = ticket.token();
            assert_eq!(ticket.release(), Ok(Released::Released));
        }
        client.close();
        assert_eq!(client.acquire("k", OPTIONS).err(), Some(AcquireError::Closed));
    });
}

/// Clients of all kinds at one server and one lock.
#[test]
fn never_two_hold_a_lock_and_all_get_their_turns() {
    with_each(secured_servers(), |(kind, security)| {
        let server = kind.start(security.terms());
        let (holder, last) = (&AtomicU64::new(0), &AtomicU64::new(0));
        thread::scope(|scope| {
            for client in ClientKind::ALL.into_iter().chain(ClientKind::ALL) {
                let client = Pair { client, server: kind, security }.connect(&server);
                scope.spawn(move || {
                    for _ in 0..10 {
                        let ticket = client.acquire("hot", OPTIONS).expect("all get their turns");
                        assert_eq!(
                            holder.swap(ticket.token(), Ordering::SeqCst),
                            0,
                            "somebody else holds it"
                        );
                        assert!(last.swap(ticket.token(), Ordering::SeqCst) < ticket.token());
                        thread::yield_now();
                        assert_eq!(holder.swap(0, Ordering::SeqCst), ticket.token());
                        assert_eq!(ticket.release(), Ok(Released::Released));
                    }
                });
            }
        });
    });
}

#[test]
fn who_waits_in_vain_is_told_so_in_time() {
    with_each(Pair::all(), |pair| {
        let (_server, client) = pair.start();
        let held = client.acquire("k", OPTIONS.lease(Duration::from_secs(60))).expect("it is free");
        for wait in [Duration::ZERO, SECOND] {
            let start = Instant::now();
            let options = OPTIONS.wait(wait).response_grace(Duration::from_secs(10));
            assert_eq!(client.acquire("k", options).err(), Some(AcquireError::Timeout));
            assert!(start.elapsed() >= wait, "{:?} of {wait:?}", start.elapsed());
        }
        assert_eq!(held.release(), Ok(Released::Released));
    });
}

#[test]
fn what_is_released_or_dropped_goes_to_who_waits() {
    with_each(Pair::all(), |pair| {
        let (server, client) = pair.start();
        let waiting = pair.connect(&server);
        for is_dropped in [false, true] {
            let held = client.acquire("k", OPTIONS.lease(Duration::from_secs(60))).expect("it is free");
            let token = held.token();
            thread::scope(|scope| {
                let waiter = scope.spawn(|| waiting.acquire("k", OPTIONS).expect("it is handed over"));
                if is_dropped {
                    drop(held);
                } else {
                    assert_eq!(held.release(), Ok(Released::Released));
                }
                let ticket = waiter.join().expect("it does not panic");
                assert!(ticket.token() > token);
                assert_eq!(ticket.release(), Ok(Released::Released));
            });
        }
    });
}

#[test]
fn a_client_outlives_its_server() {
    with_each(Pair::all(), |pair| {
        let (server, client) = pair.start();
        let address = server.address();
        let ticket = client.acquire("k", OPTIONS).expect("it is free");
        assert_eq!(ticket.release(), Ok(Released::Released));
        server.end();
        let _server = pair.server.start_at(address, pair.security.terms());
        let ticket = acquire_anew(&*client);
        assert_eq!(ticket.release(), Ok(Released::Released));
    });
}

#[test]
fn a_killed_server_takes_no_lock_along() {
    with_each(Pair::all(), |pair| {
        let (server, client) = pair.start();
        let address = server.address();
        let held = client.acquire("k", OPTIONS.lease(Duration::from_secs(60))).expect("it is free");
        server.kill();
        let _server = pair.server.start_at(address, pair.security.terms());
        let ticket = acquire_anew(&*client);
        assert_ne!(ticket.token(), held.token());
        let released = held.release();
        assert!(
            matches!(released, Ok(Released::NotHeld) | Err(ReleaseError::Unconfirmed)),
            "nobody knows of it any more: {released:?}"
        );
        assert_eq!(ticket.release(), Ok(Released::Released));
    });
}

/// `TR-9`, `TR-12`
#[test]
fn half_a_connection_is_enough_for_what_was_asked() {
    with_each(secured_servers(), |(kind, security)| {
        let server = kind.start(security.terms());
        let mut peer = Raw::authenticated(server.address(), security);
        peer.write_all(b"A\0\x3c\0\0\0\0\0\0\0\x07k\n").expect("sent");
        peer.shut_down_writing();
        let mut said = Vec::new();
        peer.read_to_end(&mut said).expect("the end of the stream");
        assert_eq!((said[0], &said[9..]), (b'A', &b"\0\0\0\0\0\0\0\x07k\n"[..]));
    });
}
