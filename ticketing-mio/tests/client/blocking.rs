//! Calls that block, and guards.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use ticketing_mio::{
    AcquireError, AcquireOptions, Client, Released, Secret, Server, ServerConfig, fresh_tokens,
};

const OPTIONS: AcquireOptions = AcquireOptions::new(Duration::from_secs(1)).wait(Duration::from_secs(20));

/// A client of a server that ends with the process.
fn client() -> Client {
    let config = ServerConfig::new(Secret::default(), fresh_tokens().expect("a clock"));
    let server = Server::bind("127.0.0.1:0", config).expect("loopback is there");
    let client = Client::builder().address(server.local_addrs()[0].to_string());
    thread::spawn(move || server.run());
    client.build().expect("a good configuration")
}

#[test]
fn threads_take_turns_and_tokens_rise() {
    let client = client();
    let latest = Arc::new(AtomicU64::new(0));
    let threads: Vec<_> = (0..16)
        .map(|_| {
            let (client, latest) = (client.clone(), Arc::clone(&latest));
            thread::spawn(move || {
                for _ in 0..50 {
                    let ticket = client.acquire("k", OPTIONS).expect("it is granted");
                    let token = ticket.token().value();
                    assert!(latest.swap(token, Ordering::Relaxed) < token);
                    assert_eq!(latest.load(Ordering::Relaxed), token, "nobody else is here");
                    assert_eq!(ticket.release(), Ok(Released::Released));
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
}

#[test]
fn a_ticket_that_is_dropped_is_released() {
    let client = client();
    let ticket = client.acquire("k", OPTIONS).expect("it is granted");
    let held = client.acquire("k", AcquireOptions::new(Duration::ZERO)).expect_err("it is held");
    assert_eq!(held, AcquireError::Timeout);
    drop(ticket);
    // Its lease of 30 s outlasts this one's wait.
    drop(client.acquire("k", OPTIONS).expect("it is free"));
}

#[test]
fn closing_wakes_those_who_wait() {
    let client = client();
    let holder = client.acquire("k", OPTIONS).expect("it is granted");
    let waiter = client.begin("k", OPTIONS);
    let waiting = thread::spawn(move || waiter.wait());
    client.wait_ready().expect("it is open");
    client.begin_close();
    let error = waiting.join().expect("no panic").expect_err("the client is closed");
    assert!(matches!(error, AcquireError::Closed | AcquireError::Indeterminate), "{error}");
    drop(holder);
    client.close();
    client.wait_ready().expect_err("it is closed");
}
