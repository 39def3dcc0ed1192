//! Acquires whose callers go away.

use std::time::Duration;

use ticketing_proto::client::{AcquireOptions, Released};
use tokio::runtime::Handle;

use super::automatic::Automatic;
use super::scripted::{Asked, Scripted, soon};

const OPTIONS: AcquireOptions = AcquireOptions::new(Duration::from_secs(1)).wait(Duration::from_secs(60));

/// Numbers that follow no pattern, the same in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// C01
#[tokio::test]
async fn a_cancelled_acquire_leaves_its_connection_to_the_next_one() {
    let server = Automatic::start().await;
    let client = server.client().build().expect("a good configuration");
    let mut dice = Dice(1);
    for round in 0..1000 {
        let before = server.ledger().acquires;
        let cancelled = tokio::spawn(client.acquire(&format!("cancelled-{round}"), OPTIONS));
        if round % 4 == 0 {
            soon(server.wait_for(|ledger| ledger.acquires > before)).await;
        }
        for _ in 0..dice.below(12) {
            tokio::task::yield_now().await;
        }
        cancelled.abort();
        let key = format!("wanted-{round}");
        let ticket = soon(client.acquire(&key, OPTIONS)).await.expect("it is granted");
        assert_eq!(ticket.key(), key);
        let granted = server.ledger().live.get(&ticket.token().value()).cloned();
        assert_eq!(granted.as_ref(), Some(&key), "round {round}: the token is of another key");
        assert_eq!(soon(ticket.release()).await, Ok(Released::Released));
    }
    soon(client.close()).await;
    let ledger = server.ledger();
    assert!(ledger.acquires > 1100, "hardly any cancelled acquire was sent: {}", ledger.acquires);
    assert!(ledger.live.is_empty(), "ghosts are held: {:?}", ledger.live);
}

/// C01: the ghost's grant comes after the next acquire was sent, and before its own.
#[tokio::test]
async fn a_ghosts_late_grant_is_released_and_reaches_nobody() {
    let scripted = Scripted::bind().await;
    let (client, mut peer, _silent) = scripted.one(scripted.client()).await;
    let ghost = client.acquire("k", OPTIONS);
    let ghost_asked = peer.next().await.expect("an acquire");
    drop(ghost);
    let wanted = client.acquire("k", OPTIONS);
    let asked = peer.next().await.expect("an acquire");
    let (Asked::Acquire { owner: first, .. }, Asked::Acquire { owner: second, .. }) = (&ghost_asked, &asked)
    else {
        panic!("two acquires were sent");
    };
    assert_ne!(first, second);
    peer.grant(&ghost_asked, 7).await;
    peer.confirm_next("k", 7).await;
    peer.grant(&asked, 8).await;
    assert_eq!(soon(wanted).await.expect("it is granted").token().value(), 8);
    assert_eq!(client.stats().compensated_grants, 1);
}

/// A future that was granted and is dropped instead of polled gives the lock back.
#[tokio::test]
async fn a_grant_that_nobody_comes_for_is_released() {
    let scripted = Scripted::bind().await;
    let (client, mut peer, _silent) = scripted.one(scripted.client()).await;
    let granted = client.acquire("k", OPTIONS);
    peer.grant_next("k", 7).await;
    // Its grant has been read once the one behind it has come.
    let sentinel = client.acquire("sentinel", OPTIONS);
    peer.grant_next("sentinel", 8).await;
    let _held = soon(sentinel).await.expect("it is granted");
    drop(granted);
    peer.confirm_next("k", 7).await;
}

/// C18
#[tokio::test]
async fn cancelling_at_any_point_leaks_neither_sockets_nor_tasks() {
    const CLIENTS: usize = 20;
    // Every challenge and some replies take a while: cancels fall before, between and behind them.
    let pace = |number: u64| match number {
        0..1000 => Duration::from_millis(number % 4),
        _ => Duration::from_millis(u64::from((number / 1000).is_multiple_of(10))),
    };
    let server = Automatic::start_at(pace).await;
    let mut dice = Dice(2);
    let tasks = Handle::current().metrics().num_alive_tasks();
    for _ in 0..CLIENTS {
        let client = server.client().max_in_flight(16).build().expect("a good configuration");
        for number in 0..100 {
            let acquiring = client.acquire(&format!("k{number}"), OPTIONS);
            let cancelled = async {
                for _ in 0..dice.below(40) {
                    tokio::task::yield_now().await;
                }
                // Some are cancelled once they may have been sent, and some not at all.
                match dice.below(10) {
                    0 => tokio::time::sleep(Duration::from_millis(1)).await,
                    1..4 => std::future::pending().await,
                    _ => {}
                }
            };
            tokio::select! {
                outcome = acquiring => drop(outcome.expect("it is granted")),
                () = cancelled => {}
            }
            // Two; one of the client before may come out of the backlog only now, and then ends.
            soon(server.wait_for(|ledger| ledger.open <= 2)).await;
        }
        soon(client.close()).await;
        soon(server.wait_for(|ledger| ledger.open == 0)).await;
    }
    // The client's task ends with it, and the server's with its connections.
    soon(async {
        while Handle::current().metrics().num_alive_tasks() > tasks {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let ledger = server.ledger();
    assert!(ledger.acquires > CLIENTS * 20, "hardly anything was sent");
    assert!(ledger.live.is_empty(), "{:?}", ledger.live);
}
