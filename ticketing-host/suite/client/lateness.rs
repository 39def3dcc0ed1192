//! Answers that come about when the caller stops waiting, and requests that go out late.

use std::time::{Duration, Instant};

use ticketing_proto::client::{AcquireError, AcquireOptions};
use tokio::time::sleep;

use super::scripted::{Asked, Scripted, assert_took, soon};

const OPTIONS: AcquireOptions = AcquireOptions::new(Duration::from_secs(1)).wait(Duration::from_secs(20));

/// T04
#[tokio::test]
async fn the_wait_on_the_wire_is_what_remains_when_the_frame_goes_out() {
    tokio::join!(some_of_the_wait_remains(), nothing_remains());
}

/// The connection takes 1.5 s of a wait of 20 s.
async fn some_of_the_wait_remains() {
    let scripted = Scripted::bind().await;
    let client = scripted.client().build().expect("a good configuration");
    let began = Instant::now();
    let acquiring = client.acquire("k", OPTIONS.wait(Duration::from_secs(20)));
    let mut peer = scripted.accept().await;
    sleep(Duration::from_millis(1500).saturating_sub(began.elapsed())).await;
    peer.greet().await;
    let asked = peer.next().await.expect("an acquire");
    let least = (20.0 - began.elapsed().as_secs_f64()).ceil();
    let Asked::Acquire { wait, .. } = asked else { panic!("{asked:?}") };
    assert!((least..=19.0).contains(&f64::from(wait)), "{asked:?} of at least {least} s");
    peer.grant(&asked, 1).await;
    drop(soon(acquiring).await.expect("it is granted"));
}

/// The connection takes 1.2 s, and the wait is 1 s: nothing is sent.
async fn nothing_remains() {
    let scripted = Scripted::bind().await;
    let client = scripted.client().build().expect("a good configuration");
    let began = Instant::now();
    let mut peer = scripted.accept().await;
    let error =
        soon(client.acquire("late", OPTIONS.wait(Duration::from_secs(1)))).await.expect_err("too late");
    assert_eq!(error, AcquireError::Timeout);
    assert_took(began, Duration::from_secs(1));
    sleep(Duration::from_millis(1200).saturating_sub(began.elapsed())).await;
    let sentinel = client.acquire("sentinel", OPTIONS);
    peer.greet().await;
    peer.grant_next("sentinel", 1).await;
    drop(soon(sentinel).await.expect("it is granted"));
}

/// C08 (a), (b): the grant would come after 6 s. At 6 s the client shuts its side down, so that its waiter leaves.
#[tokio::test]
async fn a_wait_that_runs_out_ends_its_connection_and_what_is_under_way_is_used() {
    // All before the other connection, which is not greeted, is given up after 10 s.
    let scripted = Scripted::bind().await;
    let client = scripted.client().build().expect("a good configuration");
    let began = Instant::now();
    let late = client.acquire("late", OPTIONS.wait(Duration::from_secs(6)).lease(Duration::from_secs(60)));
    let under_way = client.acquire("under-way", OPTIONS.wait(Duration::from_secs(40)));
    let lost = client.acquire("lost", OPTIONS.wait(Duration::from_secs(40)));
    let mut peer = scripted.accept().await;
    let mut other = scripted.accept().await;
    sleep(Duration::from_millis(700).saturating_sub(began.elapsed())).await;
    peer.greet().await;
    let asked = peer.next().await.expect("an acquire");
    assert!(matches!(&asked, Asked::Acquire { wait: 1..=6, key, .. } if key == "late"), "{asked:?}");
    let under_way_asked = peer.next().await.expect("an acquire");
    assert_eq!(peer.next().await.expect("an acquire").key(), "lost");
    let outcome = soon(late).await;
    assert_took(began, Duration::from_secs(6));
    assert_eq!(outcome.expect_err("too late"), AcquireError::Indeterminate);
    assert_eq!(peer.next().await, None, "writing is shut down");
    peer.grant(&under_way_asked, 1).await;
    let ticket = soon(under_way).await.expect("it was under way");
    assert_eq!(ticket.token().value(), 1);
    // A grant that comes all the same is released over the other connection.
    other.greet().await;
    peer.grant(&asked, 2).await;
    other.confirm_next("late", 2).await;
    drop(peer);
    assert_eq!(soon(lost).await.expect_err("unanswered"), AcquireError::Indeterminate);
}

/// C08 (c): with grace the late grant is waited for, released by its token, and the connection stays.
#[tokio::test]
async fn a_late_grant_within_the_grace_is_released_and_the_connection_stays() {
    let scripted = Scripted::bind().await;
    let client = scripted.client().build().expect("a good configuration");
    let began = Instant::now();
    let options = OPTIONS.wait(Duration::from_secs(10)).response_grace(Duration::from_secs(10));
    let late = client.acquire("late", options.lease(Duration::from_secs(60)));
    let mut peer = scripted.accept().await;
    let _silent = scripted.accept().await;
    sleep(Duration::from_millis(700).saturating_sub(began.elapsed())).await;
    peer.greet().await;
    let asked = peer.next().await.expect("an acquire");
    let granting = async {
        sleep(Duration::from_millis(10_300).saturating_sub(began.elapsed())).await;
        peer.grant(&asked, 7).await;
        peer.confirm_next("late", 7).await;
    };
    let (outcome, ()) = tokio::join!(soon(late), granting);
    assert_eq!(outcome.expect_err("too late"), AcquireError::Indeterminate);
    assert_took(began, Duration::from_millis(10_300));
    let sentinel = client.acquire("sentinel", OPTIONS);
    peer.grant_next("sentinel", 8).await;
    drop(soon(sentinel).await.expect("the connection stayed"));
}

/// CA-7: the grant came in time, but its caller does not come for it until the deadline is over.
#[tokio::test]
async fn a_grant_that_is_fetched_too_late_is_released() {
    let scripted = Scripted::bind().await;
    let (client, mut peer, _silent) = scripted.one(scripted.client()).await;
    let began = Instant::now();
    let slow = client.acquire("slow", OPTIONS.wait(Duration::from_secs(10)));
    peer.grant_next("slow", 7).await;
    peer.confirm_next("slow", 7).await;
    assert_took(began, Duration::from_secs(10));
    assert_eq!(soon(slow).await.expect_err("too late"), AcquireError::Indeterminate);
}
