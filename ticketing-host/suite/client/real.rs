//! The client against our own server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ticketing_host::server::{ServerConfig, fresh_tokens};
use ticketing_proto::client::{AcquireError, AcquireOptions, Released};
use ticketing_proto::wire::auth::Secret;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::scripted::soon;
use crate::adapter::{Client, ShutdownHandle, serve};

const OPTIONS: AcquireOptions = AcquireOptions::new(Duration::from_secs(1)).wait(Duration::from_secs(20));

async fn start() -> (SocketAddr, ShutdownHandle) {
    serve(ServerConfig::new(Secret::new(*b"a good secret"), fresh_tokens().expect("a clock"))).await
}

fn client(address: SocketAddr) -> Client {
    let builder = Client::builder().address(address.to_string()).token(Secret::new(*b"a good secret"));
    builder.build().expect("a good configuration")
}

/// C01, with grants that depend on what became of the cancelled ones: the cancelled acquire and the next one are for
/// one key, so a ghost that is not released is in the next one's way for longer than it waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ghost_does_not_keep_its_lock() {
    let (address, _shutdown) = start().await;
    let client = client(address);
    for round in 0..1000_u32 {
        let cancelled = client.acquire("k", OPTIONS.lease(Duration::from_secs(60)));
        for _ in 0..round % 7 {
            tokio::task::yield_now().await;
        }
        drop(cancelled);
        let ticket = soon(client.acquire("k", OPTIONS)).await.expect("it is granted");
        assert_eq!(soon(ticket.release()).await, Ok(Released::Released));
    }
}

/// One holder at a time, and tokens rise in the order of the grants.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_take_turns() {
    let (address, _shutdown) = start().await;
    let clients = [client(address), client(address)];
    let latest = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for number in 0..32 {
        let (client, latest) = (clients[number % 2].clone(), Arc::clone(&latest));
        tasks.spawn(async move {
            for _ in 0..20 {
                let ticket = soon(client.acquire("shared", OPTIONS)).await.expect("its turn comes");
                let token = ticket.token().value();
                // An even number while it is held, so that two holders would be seen.
                let before = latest.swap(2 * token + 1, Ordering::SeqCst);
                assert!(before.is_multiple_of(2) && before < 2 * token, "{before} {token}");
                tokio::task::yield_now().await;
                assert_eq!(latest.swap(2 * token, Ordering::SeqCst), 2 * token + 1);
                assert_eq!(soon(ticket.release()).await, Ok(Released::Released));
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("no assertion fails");
    }
    for client in clients {
        soon(client.close()).await;
    }
}

/// C08: the next in the queue is granted when the holder releases, whatever became of the one that waited too long
/// and is not granted any more.
#[tokio::test]
async fn a_late_waiter_is_not_in_the_next_ones_way() {
    tokio::join!(wait_too_long(0), wait_too_long(10));
}

async fn wait_too_long(grace: u64) {
    let (address, _shutdown) = start().await;
    let holder = client(address);
    let next = client(address);
    let held = soon(holder.acquire("k", OPTIONS.lease(Duration::from_secs(60)))).await.expect("it is free");
    soon(next.wait_ready()).await.expect("it is open");

    let began = Instant::now();
    let late = client(slow_proxy(address, Duration::from_millis(700)).await);
    let options = OPTIONS.lease(Duration::from_secs(60)).response_grace(Duration::from_secs(grace));
    let late_acquire = late.acquire("k", options.wait(Duration::from_secs(4)));
    sleep(Duration::from_secs(1)).await;
    let next_acquire = next.acquire("k", OPTIONS);
    let releasing = async {
        sleep(Duration::from_millis(4100).saturating_sub(began.elapsed())).await;
        soon(held.release()).await
    };
    let late_ended = async {
        let error = soon(late_acquire).await.expect_err("it is too late");
        (error, began.elapsed())
    };
    // Long before the late one's lease of 60 s would end.
    let granted = async { drop(soon(next_acquire).await.expect("its turn comes")) };
    let (released, (error, ended_at), ()) = tokio::join!(releasing, late_ended, granted);
    assert_eq!(released, Ok(Released::Released));
    assert!(ended_at >= Duration::from_secs(4), "{ended_at:?} with {grace} s of grace");
    // The grant comes to the server's waiter after 4.1 s, unless its wait, rounded up to 4.7 s, is over by then.
    let is_said = grace > 0 && error == AcquireError::Timeout;
    assert!(is_said || error == AcquireError::Indeterminate, "{error} with {grace} s of grace");
}

/// Lets the server's first bytes through after a while.
async fn slow_proxy(server: SocketAddr, delay: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback is there");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move {
        while let Ok((mut inside, _)) = listener.accept().await {
            tokio::spawn(async move {
                sleep(delay).await;
                let mut outside = TcpStream::connect(server).await.expect("the server is there");
                // However it ends, it ends for both.
                let _ = copy_bidirectional(&mut inside, &mut outside).await;
            });
        }
    });
    address
}

/// TR-8, CA-10: what a server that shuts down has not executed is certain.
#[tokio::test]
async fn a_server_that_shuts_down_sends_its_waiters_elsewhere() {
    let (address, shutdown) = start().await;
    let client = client(address);
    let _held = soon(client.acquire("k", OPTIONS)).await.expect("it is free");
    let waiting = client.acquire("k", OPTIONS.wait(Duration::from_secs(5)));
    // Once each of the two connections has answered something behind it, the server has it.
    for _ in 0..2 {
        let refused = soon(client.acquire("k", OPTIONS.wait(Duration::ZERO))).await;
        assert_eq!(refused.expect_err("it is held"), AcquireError::Timeout);
    }
    shutdown.shut_down();
    assert_eq!(soon(waiting).await.expect_err("nobody serves"), AcquireError::Timeout);
}
