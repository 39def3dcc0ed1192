//! Tickets and clients whose runtime ends before them.

use std::cell::RefCell;
use std::thread;
use std::time::{Duration, Instant};

use ticketing_tokio::{AcquireError, AcquireOptions, ReleaseError, Ticket};
use tokio::runtime::Builder;

use crate::suite::dropping::{granted, single_threaded};
use crate::suite::scripted::Scripted;

const OPTIONS: AcquireOptions = AcquireOptions::new(Duration::from_secs(1)).wait(Duration::from_secs(20));

thread_local! {
    static KEPT: RefCell<Option<Ticket>> = const { RefCell::new(None) };
}

/// C03: the client's runtime is gone, so nobody is left to send anything; the tickets are still dropped in peace.
#[test]
fn tickets_outlive_their_runtime() {
    let server = single_threaded();
    let scripted = server.block_on(Scripted::bind());
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let client = scripted.client();
    let client = runtime.block_on(async { client.build() }).expect("a good configuration");
    let mut peer = server.block_on(scripted.accept_greeted());
    let mut take = |key, token| server.block_on(granted(&client, &mut peer, key, token));
    let (inside, dropped, released) = (take("inside", 1), take("dropped", 2), take("released", 3));
    let kept = take("kept", 4);
    let sent = client.acquire("sent", OPTIONS);
    server.block_on(peer.next()).expect("it is sent");
    // Held by a task that ends with the runtime.
    runtime.spawn(async move {
        let _held = inside;
        std::future::pending::<()>().await;
    });
    drop(runtime);

    let began = Instant::now();
    drop(dropped);
    assert_eq!(server.block_on(released.release()), Err(ReleaseError::Unconfirmed));
    assert_eq!(server.block_on(sent).expect_err("it may be granted"), AcquireError::Indeterminate);
    let late = server.block_on(client.acquire("late", OPTIONS));
    assert_eq!(late.expect_err("there is nobody to send it"), AcquireError::Closed);
    server.block_on(client.close());
    assert!(!client.is_ready());
    // Such as a release's answer, for 5 s.
    assert!(began.elapsed() < Duration::from_secs(5), "nothing waits for what can't come");
    thread::spawn(move || KEPT.set(Some(kept))).join().expect("no panic");
    // What can't be sent is counted once its 5 s are over: of the release nobody waits any more either.
    while client.stats().compensations_expired == 0 {
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", client.stats());
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(client.stats().compensations_expired, 4);
}

/// C03, C20: everything is on one thread, that ends with a ticket in its hands.
#[test]
fn a_thread_may_end_with_its_runtime_and_its_tickets() {
    let ending = thread::spawn(|| {
        let runtime = single_threaded();
        let ticket = runtime.block_on(async {
            let scripted = Scripted::bind().await;
            let (client, mut peer, _silent) = scripted.one(scripted.client()).await;
            granted(&client, &mut peer, "k", 1).await
        });
        // Destroyed after tokio's own thread-local state, which was there first.
        KEPT.set(Some(ticket));
        drop(runtime);
    });
    ending.join().expect("no panic");
}
