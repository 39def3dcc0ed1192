//! A client in somebody else's loop.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ticketing_mio::{
    AcquireError, AcquireOptions, Client, EmbeddedClient, ReleaseError, Released, Secret, Server,
    ServerConfig, fresh_tokens,
};

use crate::own_loop::Loop;

const OPTIONS: AcquireOptions = AcquireOptions::new(Duration::from_secs(1)).wait(Duration::from_secs(20));

impl Loop {
    fn client(&self, address: &str) -> (Client, EmbeddedClient) {
        let builder = Client::builder().address(address);
        builder.embed(self.poll.registry(), 5..7, Arc::clone(&self.waker)).unwrap()
    }

    /// Goes round until something has come.
    fn until<T>(&mut self, connections: &mut EmbeddedClient, mut claim: impl FnMut() -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            if let Some(outcome) = claim() {
                return outcome;
            }
            assert!(start.elapsed() < Duration::from_secs(30), "it does not come");
            self.round(connections);
        }
    }

    fn round(&mut self, connections: &mut EmbeddedClient) {
        self.poll.poll(&mut self.events, connections.next_timeout()).unwrap();
        self.events.iter().for_each(|event| connections.handle_event(event));
        connections.turn();
    }
}

/// The address of a server that ends with the process.
fn server() -> String {
    let server =
        Server::bind("127.0.0.1:0", ServerConfig::new(Secret::default(), fresh_tokens().unwrap())).unwrap();
    let address = server.local_addrs()[0].to_string();
    thread::spawn(move || server.run());
    address
}

#[test]
fn what_begins_is_claimed_when_the_loop_has_brought_it() {
    let mut its = Loop::new();
    let (client, mut connections) = its.client(&server());
    let (mut first, mut second) = (client.begin("k", OPTIONS), client.begin("k", OPTIONS));
    assert!(first.claim().is_none(), "the loop has not begun");
    let ticket = its.until(&mut connections, || first.claim()).expect("it is granted");
    assert!(second.claim().is_none(), "it waits");
    let mut releasing = ticket.begin_release();
    assert_eq!(its.until(&mut connections, || releasing.claim()), Ok(Released::Released));
    let ticket = its.until(&mut connections, || second.claim()).expect("its turn has come");
    // Dropped, it goes out with the next turns: a third one is granted long before the lease ends.
    drop(ticket);
    let mut third = client.begin("k", OPTIONS);
    drop(its.until(&mut connections, || third.claim()).expect("it is free"));
    client.begin_close();
    while !connections.is_over() {
        its.round(&mut connections);
    }
}

/// Blocking calls of other threads wake the loop.
#[test]
fn other_threads_may_block_on_it() {
    let mut its = Loop::new();
    let (client, mut connections) = its.client(&server());
    let blocking = thread::spawn(move || {
        for _ in 0..100 {
            assert_eq!(
                client.acquire("k", OPTIONS).expect("it is granted").release(),
                Ok(Released::Released)
            );
        }
        client.close();
    });
    while !connections.is_over() {
        its.round(&mut connections);
    }
    blocking.join().unwrap();
}

/// C03: nobody is left to send anything; the tickets are still dropped in peace.
#[test]
fn tickets_outlive_their_loop() {
    let mut its = Loop::new();
    let (client, mut connections) = its.client(&server());
    let mut take = |key| {
        let mut acquiring = client.begin(key, OPTIONS);
        its.until(&mut connections, || acquiring.claim()).expect("it is granted")
    };
    let (dropped, released) = (take("dropped"), take("released"));
    let start = Instant::now();
    drop(connections);
    drop(dropped);
    assert_eq!(released.release(), Err(ReleaseError::Unconfirmed));
    assert_eq!(
        client.acquire("late", OPTIONS).expect_err("there is nobody to send it"),
        AcquireError::Closed
    );
    client.close();
    // Such as a release's answer, for 5 s.
    assert!(start.elapsed() < Duration::from_secs(5), "nothing waits for what can't come");
}

#[test]
fn what_cannot_work_is_refused() {
    let its = Loop::new();
    let embed = |client: ticketing_mio::ClientBuilder, tokens| {
        let embedded = client.embed(its.poll.registry(), tokens, Arc::clone(&its.waker));
        let error = embedded.expect_err("it can't work");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        error.to_string()
    };
    let one = || Client::builder().address("a:1");
    assert_eq!(embed(one(), 5..6), "2 mio tokens are needed, and the range has 1");
    assert_eq!(embed(one().addresses(["b:1", "c:1"]), 5..7), "3 mio tokens are needed, and the range has 2");
    assert!(embed(Client::builder(), 5..7).contains("no address is configured"));
}
