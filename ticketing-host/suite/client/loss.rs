//! Connections that break, freeze or end.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use ticketing_proto::client::{AcquireError, AcquireOptions, ReleaseError, Released};

use super::scripted::{Asked, Scripted, assert_took, soon};

const OPTIONS: AcquireOptions = AcquireOptions::new(Duration::from_secs(1)).wait(Duration::from_secs(20));

/// C06: the frame has arrived whole, then the connection is reset, or ends.
#[tokio::test]
async fn an_acquire_that_may_have_arrived_is_not_sent_again() {
    for is_reset in [true, false] {
        let scripted = Scripted::bind().await;
        let (client, mut peer, mut other) = scripted.one(scripted.client()).await;
        let acquiring = client.acquire("lost", OPTIONS);
        assert_eq!(peer.next().await.expect("an acquire").key(), "lost");
        if is_reset {
            peer.reset();
        } else {
            drop(peer);
        }
        assert_eq!(soon(acquiring).await.expect_err("it may be granted"), AcquireError::Indeterminate);
        // Over the other connection comes the next acquire, and not that one.
        other.greet().await;
        let sentinel = client.acquire("sentinel", OPTIONS);
        other.grant_next("sentinel", 1).await;
        drop(soon(sentinel).await.expect("it is granted"));
    }
}

/// C06: the connection is frozen until the deadline; it is closed then.
#[tokio::test]
async fn an_unanswered_acquire_ends_at_its_deadline_and_with_its_connection() {
    let scripted = Scripted::bind().await;
    let (client, mut peer, mut other) = scripted.one(scripted.client()).await;
    let began = Instant::now();
    // Before the other connection, which is not greeted, is given up after 10 s.
    let acquiring = client.acquire("lost", OPTIONS.wait(Duration::from_secs(6)));
    assert_eq!(peer.next().await.expect("an acquire").key(), "lost");
    assert_eq!(soon(acquiring).await.expect_err("it may be granted"), AcquireError::Indeterminate);
    assert_took(began, Duration::from_secs(6));
    assert_eq!(peer.next().await, None, "the client writes no more");
    other.greet().await;
    let sentinel = client.acquire("sentinel", OPTIONS);
    other.grant_next("sentinel", 1).await;
    drop(soon(sentinel).await.expect("it is granted"));
}

/// What the server had sent before it broke the connection is used (`CA-9`).
#[tokio::test]
async fn answers_before_a_reset_are_used() {
    let scripted = Scripted::bind().await;
    let (client, mut peer, _silent) = scripted.one(scripted.client()).await;
    let answered = client.acquire("answered", OPTIONS);
    let unanswered = client.acquire("unanswered", OPTIONS);
    peer.grant_next("answered", 1).await;
    peer.next().await.expect("an acquire");
    peer.reset();
    drop(soon(answered).await.expect("it is granted"));
    assert_eq!(soon(unanswered).await.expect_err("it may be granted"), AcquireError::Indeterminate);
}

/// C04
#[tokio::test]
async fn a_release_into_the_void_is_unconfirmed_after_5_s() {
    let scripted = Scripted::bind().await;
    let (client, mut peer, mut other) = scripted.one(scripted.client()).await;
    let mut tickets = Vec::new();
    for (key, token) in [("released", 1), ("dropped", 2)] {
        let acquiring = client.acquire(key, OPTIONS);
        peer.grant_next(key, token).await;
        tickets.push(soon(acquiring).await.expect("it is granted"));
    }
    let began = Instant::now();
    drop(tickets.pop());
    let released = tickets.pop().expect("two were granted").release();
    assert_eq!(peer.next().await, Some(Asked::release(2, "dropped")));
    assert_eq!(peer.next().await, Some(Asked::release(1, "released")));
    assert_eq!(soon(released).await, Err(ReleaseError::Unconfirmed));
    assert_took(began, Duration::from_secs(5));
    assert_eq!(client.stats().compensations_expired, 1);
    // The connection that does not serve is closed, and the client goes on over another one.
    assert_eq!(peer.next().await, None);
    other.greet().await;
    let sentinel = client.acquire("sentinel", OPTIONS);
    other.grant_next("sentinel", 3).await;
    let release = soon(sentinel).await.expect("it is granted").release();
    other.confirm_next("sentinel", 3).await;
    assert_eq!(soon(release).await, Ok(Released::Released));
}

/// `CR-2`: a release is sent again.
#[tokio::test]
async fn a_release_survives_its_connection() {
    let scripted = Scripted::bind().await;
    let (client, mut peer, mut other) = scripted.one(scripted.client()).await;
    let acquiring = client.acquire("k", OPTIONS);
    peer.grant_next("k", 7).await;
    let release = soon(acquiring).await.expect("it is granted").release();
    assert_eq!(peer.next().await, Some(Asked::release(7, "k")));
    peer.reset();
    other.greet().await;
    other.confirm_next("k", 7).await;
    assert_eq!(soon(release).await, Ok(Released::Released));
}

/// C21
#[tokio::test]
async fn neither_reconnects_nor_redirects_restart_the_deadline() {
    tokio::join!(reconnect_until_the_deadline(), be_redirected_until_the_deadline());
}

/// Each session ends before it is one.
async fn reconnect_until_the_deadline() {
    let scripted = Scripted::bind().await;
    let client = scripted.client().build().expect("a good configuration");
    let serving = scripted.serve_each(async |peer| {
        tokio::time::sleep(Duration::from_millis(400)).await;
        drop(peer);
    });
    let began = Instant::now();
    let acquiring = client.acquire("k", OPTIONS.wait(Duration::from_secs(2)));
    let outcome = until(serving, acquiring).await;
    assert_eq!(outcome.expect_err("nobody serves"), AcquireError::Timeout);
    assert_took(began, Duration::from_secs(2));
}

/// Each acquire is sent elsewhere after 0.4 s.
async fn be_redirected_until_the_deadline() {
    let scripted = Scripted::bind().await;
    let client = scripted.client().build().expect("a good configuration");
    let seen = RefCell::new(Vec::new());
    let began = Instant::now();
    let serving = scripted.serve_each(async |mut peer| {
        let greeted = began.elapsed();
        if peer.try_greet().await.is_ok()
            && let Some(Asked::Acquire { wait, .. }) = peer.next_ever().await
        {
            seen.borrow_mut().push((wait, greeted, began.elapsed()));
            tokio::time::sleep(Duration::from_millis(400)).await;
            peer.send(b"Eno_leader\n").await;
            while peer.next_ever().await.is_some() {}
        }
    });
    let acquiring = client.acquire("k", OPTIONS.wait(Duration::from_secs(10)));
    let error = until(serving, acquiring).await.expect_err("nobody serves");
    assert_took(began, Duration::from_secs(10));
    // The last frame may be unanswered at the deadline.
    assert!(matches!(error, AcquireError::Timeout | AcquireError::Indeterminate), "{error}");
    let seen = seen.take();
    // Each takes 0.4 s or more.
    assert!((2..=26).contains(&seen.len()), "{seen:?}");
    for &(wait, greeted, read) in &seen {
        // It was stamped in between.
        let left = |at: Duration| (10.0 - at.as_secs_f64()).ceil();
        assert!((left(read)..=left(greeted)).contains(&f64::from(wait)), "{seen:?}");
    }
}

/// The outcome; the server serves until then.
async fn until<T>(serving: impl Future<Output = ()>, outcome: impl Future<Output = T>) -> T {
    tokio::select! {
        outcome = soon(outcome) => outcome,
        () = serving => unreachable!("it serves for ever"),
    }
}
