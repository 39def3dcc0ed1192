//! What a client does when nothing goes wrong, and how it is refused.

use std::time::{Duration, SystemTime};

use ticketing_host::client::ClientClosed;
use ticketing_proto::client::{AcquireError, AcquireOptions, Failure, Released};
use ticketing_proto::wire::auth::Secret;

use super::automatic::Automatic;
use super::scripted::{Scripted, soon};
use crate::adapter::Client;

const OPTIONS: AcquireOptions = AcquireOptions::new(Duration::from_secs(1)).wait(Duration::from_secs(20));

#[tokio::test]
async fn a_lock_is_acquired_and_released() {
    let server = Automatic::start().await;
    let client = server.client().build().expect("a good configuration");
    let ticket = soon(client.acquire("k", OPTIONS)).await.expect("it is granted");
    assert_eq!((ticket.key(), ticket.token().value()), ("k", 1));
    assert_eq!(soon(ticket.release()).await, Ok(Released::Released));
    let ledger = server.ledger();
    assert_eq!((ledger.acquires, ledger.releases, ledger.live.len()), (1, 1, 0));
}

#[tokio::test]
async fn a_ticket_tells_how_long_it_can_be_vouched_for() {
    let server = Automatic::start().await;
    let client = server.client().build().expect("a good configuration");
    let begin = ticketing_host::clock::now();
    let ticket = soon(client.acquire("k", OPTIONS.lease(Duration::from_secs(100)))).await.expect("granted");
    let vouched = Duration::from_millis(99_900);
    assert!(ticket.remaining() <= vouched);
    assert!(ticket.valid_until() >= begin + vouched);
    let at = ticket.valid_until_estimate().duration_since(SystemTime::now()).expect("it is to come");
    assert!(at.abs_diff(ticket.remaining()) < Duration::from_secs(10), "{at:?}");
}

#[tokio::test]
async fn refusals_are_told_apart() {
    let scripted = Scripted::bind().await;
    let (client, mut peer, _silent) = scripted.one(scripted.client()).await;
    for (op, error) in [(b'T', AcquireError::Timeout), (b'B', AcquireError::Busy)] {
        let acquiring = client.acquire("k", OPTIONS);
        let asked = peer.next().await.expect("an acquire");
        peer.refuse(op, &asked).await;
        assert_eq!(soon(acquiring).await.expect_err("it is refused"), error);
    }
}

/// `CC-5`
#[tokio::test]
async fn a_try_is_refused_at_once_when_all_places_are_taken() {
    let scripted = Scripted::bind().await;
    let (client, mut peer, _silent) = scripted.one(scripted.client().max_in_flight(1)).await;
    let first = client.acquire("first", OPTIONS);
    let error = soon(client.try_acquire("second", OPTIONS)).await.expect_err("it is refused");
    assert_eq!(error, AcquireError::ClientCapacity);
    let third = client.acquire("third", OPTIONS);
    peer.grant_next("first", 1).await;
    peer.grant_next("third", 2).await;
    let (first, third) = (soon(first).await.expect("granted"), soon(third).await.expect("granted"));
    assert_eq!((first.token().value(), third.token().value()), (1, 2));
}

/// `AU-2`, `CC-3`
#[tokio::test]
async fn a_refused_token_is_told() {
    let scripted = Scripted::bind().await;
    let client = scripted.client().token(Secret::new(*b"wrong")).build().expect("a good configuration");
    let acquiring = client.acquire("k", OPTIONS);
    let (mut one, mut other) = (scripted.accept_greeted().await, scripted.accept_greeted().await);
    one.send(b"Eauth_failed\n").await;
    other.send(b"Eauth_failed\n").await;
    assert_eq!(soon(acquiring).await.expect_err("it is refused"), AcquireError::Auth);
    assert_eq!(client.last_failure(), Some(Failure::Auth));
    assert!(!format!("{client:?} {:?}", Client::builder().token(Secret::new(*b"wrong"))).contains("wrong"));
}

#[tokio::test]
async fn waiting_for_readiness_ends_with_a_connection_or_with_the_client() {
    let scripted = Scripted::bind().await;
    let client = scripted.client().build().expect("a good configuration");
    let mut peer = scripted.accept().await;
    assert!(!client.is_ready());
    let (ready, ()) = tokio::join!(soon(client.wait_ready()), peer.greet());
    assert_eq!(ready, Ok(()));
    assert!(client.is_ready());
    soon(client.close()).await;
    assert_eq!(soon(client.wait_ready()).await, Err(ClientClosed));
    assert_eq!(peer.next().await, None, "the connection is closed");
}

#[tokio::test]
async fn a_client_that_reaches_nobody_says_so() {
    let scripted = Scripted::bind().await;
    let (client, port) = (scripted.client(), scripted.port());
    drop(scripted);
    let client = client.build().expect("a good configuration");
    let error =
        soon(client.acquire("k", OPTIONS.wait(Duration::from_secs(1)))).await.expect_err("nobody is there");
    assert_eq!(error, AcquireError::Timeout);
    assert_eq!(client.last_failure(), Some(Failure::Lost));
    let said = client.connect_error().expect("the system refused");
    assert!(said.starts_with(&format!("127.0.0.1:{port}: ")), "{said}");
    assert!(said.contains("refused"), "{said}");
    let waiting = client.wait_ready();
    soon(client.close()).await;
    assert_eq!(soon(waiting).await, Err(ClientClosed));
}

/// `CC-6`
#[tokio::test]
async fn closing_ends_what_is_under_way_and_sends_what_is_to_be_released() {
    let scripted = Scripted::bind().await;
    let (client, mut peer, _silent) = scripted.one(scripted.client().max_in_flight(1)).await;
    let acquiring = client.acquire("held", OPTIONS);
    peer.grant_next("held", 7).await;
    let held = soon(acquiring).await.expect("it is granted");
    let sent = client.acquire("sent", OPTIONS);
    let unsent = client.acquire("unsent", OPTIONS);
    let asked = peer.next().await.expect("an acquire");
    let closing = client.close();
    assert_eq!(soon(sent).await.expect_err("it may be granted"), AcquireError::Indeterminate);
    assert_eq!(soon(unsent).await.expect_err("it was not sent"), AcquireError::Closed);
    assert_eq!(soon(client.acquire("late", OPTIONS)).await.expect_err("closed"), AcquireError::Closed);
    drop(held);
    peer.confirm_next("held", 7).await;
    peer.grant(&asked, 8).await;
    peer.confirm_next("sent", 8).await;
    soon(closing).await;
    assert_eq!(peer.next().await, None);
}

/// The last handle of a client closes it, and what it left to release goes out first.
#[tokio::test]
async fn dropping_the_last_handle_ends_the_client() {
    let scripted = Scripted::bind().await;
    let (client, mut peer, _silent) = scripted.one(scripted.client()).await;
    let acquiring = client.clone().acquire("k", OPTIONS);
    drop(client);
    peer.grant_next("k", 7).await;
    let ticket = soon(acquiring).await.expect("the ticket keeps the connections open");
    drop(ticket);
    peer.confirm_next("k", 7).await;
    assert_eq!(peer.next().await, None);
    while tokio::runtime::Handle::current().metrics().num_alive_tasks() > 0 {
        tokio::task::yield_now().await;
    }
}

/// TR-11: the system probes the client's idle connections.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn idle_connections_are_probed() {
    const KEEPALIVE: &str = "02:";
    let scripted = Scripted::bind().await;
    let (_client, _usable, _silent) = scripted.one(scripted.client()).await;
    let remote = format!("0100007F:{:04X}", scripted.port());
    // The clock of the response's acknowledgement comes first.
    soon(async {
        loop {
            let table = std::fs::read_to_string("/proc/self/net/tcp").expect("Linux has it");
            let is_probed = |line: &&str| {
                let fields: Vec<_> = line.split_whitespace().collect();
                fields.get(2) == Some(&remote.as_str())
                    && fields.get(5).is_some_and(|timer| timer.starts_with(KEEPALIVE))
            };
            if table.lines().filter(is_probed).count() == 2 {
                return;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// More than the sockets hold, with the other side not reading yet: short writes, and waiting for room.
#[tokio::test]
async fn requests_that_fill_the_socket_arrive_whole_and_once() {
    // 4.4 MB, more than Linux buffers for a sender.
    const COUNT: usize = 32_000;
    let scripted = Scripted::bind_narrow().await;
    let (client, mut peer, _silent) = scripted.one(scripted.client().max_in_flight(COUNT)).await;
    let key = |number: usize| format!("{number:0>128}");
    let options = OPTIONS.wait(Duration::from_secs(255));
    let acquiring: Vec<_> = (0..COUNT).map(|number| client.acquire(&key(number), options)).collect();
    // The client's task writes until nothing more fits.
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    for number in 0..COUNT {
        let asked = peer.next().await.expect("an acquire");
        assert_eq!(asked.key(), key(number));
    }
    drop(acquiring);
}
