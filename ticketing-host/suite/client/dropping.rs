//! Tickets and clients that are dropped wherever they may be.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

use ticketing_proto::client::AcquireOptions;
use tokio::runtime::{Builder, Runtime};

use super::scripted::{Peer, Scripted, soon};
use crate::adapter::{Client, Ticket};

const OPTIONS: AcquireOptions = AcquireOptions::new(Duration::from_secs(1)).wait(Duration::from_secs(20));

pub(crate) async fn granted(client: &Client, peer: &mut Peer, key: &str, token: u64) -> Ticket {
    let acquiring = client.acquire(key, OPTIONS);
    peer.grant_next(key, token).await;
    soon(acquiring).await.expect("it is granted")
}

pub(crate) fn single_threaded() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

thread_local! {
    static KEPT: RefCell<Option<Ticket>> = const { RefCell::new(None) };
}

/// C03
#[tokio::test]
async fn a_ticket_can_be_dropped_on_any_thread_and_while_it_ends_or_panics() {
    let scripted = Scripted::bind().await;
    let (client, mut peer, _silent) = scripted.one(scripted.client()).await;

    let ticket = granted(&client, &mut peer, "plain", 1).await;
    thread::spawn(move || drop(ticket)).join().expect("no panic");
    peer.confirm_next("plain", 1).await;

    let ticket = granted(&client, &mut peer, "thread-local", 2).await;
    thread::spawn(move || KEPT.set(Some(ticket))).join().expect("no panic");
    peer.confirm_next("thread-local", 2).await;

    let ticket = granted(&client, &mut peer, "unwinding", 3).await;
    let unwound = catch_unwind(AssertUnwindSafe(move || {
        let _held = ticket;
        std::panic::resume_unwind(Box::new("a panic of the application"));
    }));
    unwound.expect_err("it panics");
    peer.confirm_next("unwinding", 3).await;

    let ticket = granted(&client, &mut peer, "aborted", 4).await;
    let task = tokio::spawn(async move {
        let _held = ticket;
        std::future::pending::<()>().await;
    });
    task.abort();
    peer.confirm_next("aborted", 4).await;
}

/// C20: the server does not answer, so whatever waited for it would wait for 5 s, a release's time.
#[test]
fn destructors_wait_for_nothing() {
    let runtime = single_threaded();
    runtime.block_on(async {
        let scripted = Scripted::bind().await;
        let (client, mut peer, _silent) = scripted.one(scripted.client()).await;
        let ticket = granted(&client, &mut peer, "k", 1).await;
        let forgotten = granted(&client, &mut peer, "forgotten", 2).await;
        let cancelled = client.acquire("cancelled", OPTIONS);
        let asked = peer.next().await.expect("an acquire");
        let began = Instant::now();
        drop(forgotten.release());
        drop(cancelled);
        drop(ticket);
        drop(client);
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        // And nothing was lost by that.
        peer.confirm_next("forgotten", 2).await;
        peer.confirm_next("k", 1).await;
        peer.grant(&asked, 3).await;
        peer.confirm_next("cancelled", 3).await;
        assert_eq!(peer.next().await, None, "then the client ends");
    });
}
