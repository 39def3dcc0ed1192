//! C16: what piles up while the server is frozen, and what becomes of it.

use std::time::Duration;

use ticketing_proto::client::AcquireOptions;
use tokio::runtime::Handle;

use super::automatic::Automatic;
use super::scripted::soon;

const COUNT: usize = 10_000;
const OPTIONS: AcquireOptions = AcquireOptions::new(Duration::from_secs(1))
    .wait(Duration::from_secs(255))
    .lease(Duration::from_secs(250));

/// As many as are in flight may have been sent; the others leave nothing behind.
#[tokio::test]
async fn cancelled_acquires_do_not_pile_up() {
    const IN_FLIGHT: usize = 64;
    let server = Automatic::start().await;
    let client = server.client().max_in_flight(IN_FLIGHT).build().expect("a good configuration");
    soon(client.wait_ready()).await.expect("it is open");
    let tasks = Handle::current().metrics().num_alive_tasks();
    server.freeze(true);
    for number in 0..COUNT {
        let acquiring = client.acquire(&format!("k{number}"), OPTIONS);
        tokio::task::yield_now().await;
        drop(acquiring);
    }
    assert!(Handle::current().metrics().num_alive_tasks() <= tasks, "an acquire costs no task");
    server.freeze(false);
    soon(client.close()).await;
    let ledger = server.ledger();
    assert!((1..=IN_FLIGHT).contains(&ledger.acquires), "{} were sent", ledger.acquires);
    assert_eq!(ledger.releases, ledger.acquires);
    assert!(ledger.live.is_empty());
}

/// 512 releases wait for the thaw; the others are given up, and counted.
#[tokio::test]
async fn dropped_tickets_do_not_pile_up() {
    let server = Automatic::start().await;
    let client = server.client().max_in_flight(COUNT).build().expect("a good configuration");
    let acquiring: Vec<_> = (0..COUNT).map(|number| client.acquire(&format!("k{number}"), OPTIONS)).collect();
    let mut tickets = Vec::new();
    for acquiring in acquiring {
        tickets.push(soon(acquiring).await.expect("it is granted"));
    }
    server.freeze(true);
    drop(tickets);
    assert_eq!(client.stats().compensations_overflowed, (COUNT - 512) as u64);
    server.freeze(false);
    soon(client.close()).await;
    let stats = client.stats();
    assert_eq!((stats.compensations_overflowed, stats.compensations_expired), ((COUNT - 512) as u64, 0));
    assert_eq!(server.ledger().releases, 512);
    assert_eq!(server.ledger().live.len(), COUNT - 512, "their leases bound them");
}
